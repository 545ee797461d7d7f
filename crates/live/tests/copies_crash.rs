//! A daemon that is killed at each place while copies of a job are started, fed, merged and ended, and comes back. A merge is then
//! done, or done again from the same files; no step is lost, and none is counted twice.

#![allow(dead_code, reason = "what tests share is not all used here")]

#[path = "common/learn.rs"]
mod learn;
#[path = "common/mortal.rs"]
mod mortal;
#[path = "common/reckon.rs"]
mod reckon;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use mortal::{Mortal, at_each_place};
use reckon::Ran;

/// Iterations of the job.
const GOAL: u64 = 150;
/// What each copy may do in a slot.
const QUOTAS: [u64; 2] = [20, 10];
/// After so many records the state is kept.
const KEEP_EVERY: u64 = 50;
/// More places than this nobody has; a run that dies so late never ends.
const MOST_PLACES: u64 = 5_000;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A daemon that may die, and a job in copies.
struct Story(Mortal);

impl Story {
    /// Waits until the job has come so far, or has so many workers, or is over.
    fn until(&mut self, iterations: f64, workers: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let told = self.0.ask("far 0");
            let words: Vec<&str> = told.split(' ').collect();
            let done: f64 = words[0].parse().expect("a number");
            let is_there = done >= iterations && (workers.is_empty() || words[3] == workers);
            if words[1] == "Ended" || is_there {
                return told;
            }
            assert!(
                Instant::now() < end,
                "{}: {told} and not {iterations} {workers}",
                self.0.folder.display()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn run(mut self) -> usize {
        fs::create_dir_all(&self.0.folder).expect("a folder");
        want(&self.0.folder, "0:0:1 1:1:1");
        let answer = self.0.ask(&format!("fork {GOAL} step=4"));
        assert!(answer.starts_with("0 "), "{answer}");
        self.until(20.0, "");
        want(&self.0.folder, "0:0:2 1:1:2");
        self.until(50.0, "4");
        want(&self.0.folder, "0:0:1 1:1:1");
        self.end()
    }

    /// The same in slots: each copy has a quota, waits where it has done that, and all are brought together for the next slot.
    fn run_in_slots(mut self) -> usize {
        fs::create_dir_all(&self.0.folder).expect("a folder");
        let [first, second] = QUOTAS;
        let slot = |number: u64| format!("0:0:1 1:1:1 /{number}:{first}:{second}");
        want(&self.0.folder, &slot(1));
        let answer = self.0.ask(&format!("fork {GOAL} step=4"));
        assert!(answer.starts_with("0 "), "{answer}");
        for number in 1..GOAL / (first + second) {
            let far = (number * (first + second)) as f64;
            self.until(far, "");
            let told = self.0.ask("far 0");
            let done: f64 = told.split(' ').next().and_then(|word| word.parse().ok()).expect("a number");
            assert!(done <= far, "{told}: nobody may do more than {far} in slot {number}");
            want(&self.0.folder, &slot(number + 1));
        }
        let folder = self.0.folder.clone();
        let deaths = self.end();
        // A start that was never made is an attempt too.
        let job = Ran(folder.join("jobs/0"));
        let began = (1..100).filter(|attempt| job.attempt(*attempt).join("merged.json").exists());
        let merges: u64 = began.map(|attempt| job.ledger(attempt).0).sum();
        assert!(
            merges >= GOAL / (first + second),
            "{merges} merges, one after each slot: {}",
            folder.display()
        );
        deaths
    }

    /// Waits for the end, and looks at what is left then.
    fn end(mut self) -> usize {
        let told = self.until(1e9, "");
        assert_eq!(told, format!("{GOAL} Ended Some(Completed) 0"), "{}", self.0.folder.display());
        let deaths = self.0.leave();
        let job = Ran(self.0.folder.join("jobs/0"));
        for attempt in 1..100 {
            if job.copy(attempt, 0).join("loaded-0.safetensors").exists() {
                job.look_at_merges(attempt, 2);
            }
        }
        assert_eq!(job.merged().step, GOAL as i64, "{}", self.0.folder.display());
        assert_eq!(job.steps(), GOAL, "{}: each step counts once", self.0.folder.display());
        deaths
    }
}

/// Says what the job shall hold.
fn want(folder: &Path, words: &str) {
    let beside = folder.join("wanted.part");
    fs::write(&beside, words).expect("it can be written");
    fs::rename(beside, folder.join("wanted")).expect("it can be written");
}

#[test]
fn a_daemon_that_dies_anywhere_around_a_merge_merges_once() {
    let folder = tempfile::tempdir().expect("a folder");
    at_each_place(folder.path(), MOST_PLACES, |folder, crashes| {
        Story(Mortal::new(folder, crashes, "scripted", KEEP_EVERY)).run()
    });
}

#[test]
fn a_daemon_that_dies_between_quotas_merges_and_reports_loses_no_step_and_counts_none_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    at_each_place(folder.path(), MOST_PLACES, |folder, crashes| {
        Story(Mortal::new(folder, crashes, "scripted", KEEP_EVERY)).run_in_slots()
    });
}
