//! Jobs of tasks under a daemon: one program for each, which stays while another one moves; and a daemon that dies at each place while
//! tasks start, move and end, and comes back.

#![allow(dead_code, reason = "what tests share is not all used here")]

#[path = "common/mortal.rs"]
mod mortal;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mortal::{Mortal, at_each_place};
use serde_json::Value;

/// Iterations of a job that ends.
const GOAL: u64 = 120;
/// After so many records the state is kept.
const KEEP_EVERY: u64 = 50;
/// More places than this nobody has; a run that dies so late never ends.
const MOST_PLACES: u64 = 5_000;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A daemon and a job of three tasks.
struct Story(Mortal);

impl Story {
    fn begin(folder: PathBuf, crashes: Vec<u64>, goal: u64) -> Self {
        fs::create_dir_all(&folder).expect("a folder");
        want(&folder, "t0:0 t1:0 t2:1");
        let mut story = Self(Mortal::new(folder, crashes, "scripted", KEEP_EVERY));
        let answer = story.0.ask(&format!("chain 3 {goal} 4 5"));
        assert!(answer.starts_with("0 "), "{answer}");
        story
    }

    /// Waits until the job has come so far, or is over.
    fn until(&mut self, iterations: f64) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let told = self.0.ask("far 0");
            let mut words = told.split(' ');
            let done: f64 = words.next().expect("a number").parse().expect("a number");
            if words.next() == Some("Ended") || done >= iterations {
                return told;
            }
            assert!(Instant::now() < end, "{}: {told} and not {iterations}", self.0.folder.display());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn job(&self) -> PathBuf {
        self.0.folder.join("jobs/0")
    }

    /// The process of the program of each task, and on which start of it that is.
    fn programs(&self) -> BTreeMap<u64, (u64, i64)> {
        let attempt = self.job().join("1");
        let ledger = json(&attempt.join("tasks.json"));
        let tasks = ledger["tasks"].as_object().cloned().unwrap_or_default();
        let program = |(task, entry): (&String, &Value)| {
            let start = entry["starts"].as_u64()?;
            let running = json(&attempt.join(format!("task-{task}-{start}/running.json")));
            Some((task.parse().ok()?, (start, running["programs"][0]["pid"].as_i64()?)))
        };
        tasks.iter().filter_map(program).collect()
    }

    /// Waits until the programs of all tasks run, the given one of which was started so often.
    fn settled(&self, task: u64, starts: u64) -> BTreeMap<u64, (u64, i64)> {
        let end = Instant::now() + PATIENCE;
        loop {
            let programs = self.programs();
            if programs.len() == 3 && programs[&task].0 == starts {
                return programs;
            }
            assert!(Instant::now() < end, "{programs:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn json(path: &Path) -> Value {
    fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

/// Says what the job shall hold.
fn want(folder: &Path, words: &str) {
    let beside = folder.join("wanted.part");
    fs::write(&beside, words).expect("it can be written");
    fs::rename(beside, folder.join("wanted")).expect("it can be written");
}

/// What the tasks of all attempts told: iterations by task, in order.
fn told(job: &Path) -> BTreeMap<u64, Vec<u64>> {
    let mut all: BTreeMap<u64, Vec<(u64, u64, u64)>> = BTreeMap::new();
    for attempt in 1..100_u64 {
        for entry in fs::read_dir(job.join(attempt.to_string())).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some((task, start)) = name.strip_prefix("task-").and_then(|name| name.split_once('-')) else {
                continue;
            };
            let (task, start): (u64, u64) =
                (task.parse().expect("a number"), start.parse().expect("a number"));
            let text = fs::read_to_string(entry.path().join("progress.jsonl")).unwrap_or_default();
            let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let steps =
                lines.filter(|line| line["loss"].is_number()).filter_map(|line| line["iteration"].as_u64());
            all.entry(task).or_default().extend(steps.map(|step| (attempt, start, step)));
        }
    }
    let in_order = |(task, mut steps): (u64, Vec<(u64, u64, u64)>)| {
        steps.sort_unstable();
        (task, steps.into_iter().map(|(_, _, step)| step).collect())
    };
    all.into_iter().map(in_order).collect()
}

#[test]
fn a_task_moves_and_the_programs_of_the_others_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder_of_job = folder.path().join("moves");
    let mut story = Story::begin(folder_of_job.clone(), Vec::new(), 1_000_000);
    story.until(10.0);
    let mut before = story.settled(0, 1);
    for (task, wanted) in [(2, "t0:0 t1:0 t2:0"), (0, "t0:1 t1:0 t2:0"), (1, "t0:1 t1:1 t2:0")] {
        want(&folder_of_job, wanted);
        let after = story.settled(task, 2);
        for other in (0..3).filter(|other| *other != task) {
            assert_eq!(before[&other], after[&other], "task {other} stays while task {task} moves");
        }
        assert_ne!(before[&task].1, after[&task].1);
        let far: f64 = story.until(0.0).split(' ').next().expect("a number").parse().expect("a number");
        story.until(far + 10.0);
        before = after;
    }
    assert_eq!(story.0.ask("withdraw 0"), "withdrawn");
    story.until(1e9);
    let job = story.job();
    story.0.leave();
    for (task, steps) in told(&job) {
        let all: Vec<u64> = (1..=steps.len() as u64).collect();
        assert_eq!(steps, all, "task {task} did each iteration once");
    }
    assert!(!job.join("2").exists(), "there was one attempt");
    // Their checkpoints are their own.
    assert!((0..3).all(|task| job.join(format!("checkpoints/task-{task}/state")).exists()));
}

#[test]
fn a_daemon_that_dies_anywhere_around_moves_of_tasks_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    at_each_place(folder.path(), MOST_PLACES, |folder, crashes| {
        let mut story = Story::begin(folder.clone(), crashes, GOAL);
        story.until(20.0);
        want(&folder, "t0:0 t1:1 t2:1");
        story.until(50.0);
        want(&folder, "t0:1 t1:1 t2:0");
        story.until(80.0);
        // One is taken away and brought back.
        want(&folder, "t0:1 t2:0");
        story.until(80.0);
        want(&folder, "t0:1 t1:0 t2:0");
        let last = story.until(1e9);
        assert_eq!(
            last.split(' ').take(3).collect::<Vec<_>>().join(" "),
            format!("{GOAL} Ended Some(Completed)"),
            "{}",
            folder.display()
        );
        let job = story.job();
        let deaths = story.0.leave();
        for (task, steps) in told(&job) {
            // No program is killed, so nothing is made twice, and nothing is left out. The last task ends the job, be another one
            // on its way and behind by one.
            let all: Vec<u64> = (1..=steps.len() as u64).collect();
            assert_eq!(steps, all, "task {task}: {}", folder.display());
            let least = if task == 2 { GOAL } else { GOAL - 1 };
            assert!((least..=GOAL).contains(&(steps.len() as u64)), "task {task}: {}", folder.display());
        }
        deaths
    });
}
