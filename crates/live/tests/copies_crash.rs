//! A daemon that is killed at each place while copies of a job are started, fed, merged and ended, and comes back. A merge is then
//! done, or done again from the same files; no step is lost, and none is counted twice.

#![allow(dead_code, reason = "what tests share is not all used here")]

#[path = "common/learn.rs"]
mod learn;
#[path = "common/reckon.rs"]
mod reckon;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reckon::Ran;

/// Iterations of the job.
const GOAL: u64 = 150;
/// Runs at the same time; they mostly wait.
const SIDE_BY_SIDE: usize = 8;
/// More places than this nobody has; a run that dies so late never ends.
const MOST_PLACES: u64 = 5_000;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A daemon that may die.
struct Story {
    folder: PathBuf,
    /// Where each of its lives ends, the first one first; after them it lives on.
    crashes: Vec<u64>,
    life: Option<(Child, ChildStdin, BufReader<ChildStdout>)>,
    deaths: usize,
}

impl Story {
    /// Asks until there is an answer, over as many lives as it takes.
    fn ask(&mut self, line: &str) -> String {
        loop {
            if self.life.is_none() && !self.live() {
                continue;
            }
            let (_, to, from) = self.life.as_mut().expect("it lives");
            let mut answer = String::new();
            let told = writeln!(to, "{line}").and_then(|()| from.read_line(&mut answer));
            if matches!(told, Ok(bytes) if bytes > 0) {
                return answer.trim_end().to_owned();
            }
            self.mourn();
        }
    }

    fn live(&mut self) -> bool {
        let crash_at = self.crashes.get(self.deaths).map_or("never".to_owned(), u64::to_string);
        let log = fs::OpenOptions::new().create(true).append(true).open(self.folder.join("daemon.log"));
        let mut child = Command::new(env!("CARGO_BIN_EXE_yard"))
            .arg("serve")
            .arg(&self.folder)
            .args(["scripted", "50", &crash_at])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.expect("a log can be written"))
            .spawn()
            .expect("the daemon can be started");
        let (to, from) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let mut from = BufReader::new(from);
        let mut ready = String::new();
        let is_ready = from.read_line(&mut ready).is_ok() && ready == "ready\n";
        self.life = Some((child, to, from));
        if !is_ready {
            self.mourn();
        }
        is_ready
    }

    /// It died, and only as it was meant to.
    fn mourn(&mut self) {
        let (mut child, ..) = self.life.take().expect("it lived");
        let status = child.wait().expect("it can be waited for");
        let log = fs::read_to_string(self.folder.join("daemon.log")).unwrap_or_default();
        assert_eq!(status.signal(), Some(9), "{status}: {log}");
        self.deaths += 1;
        assert!(self.deaths <= self.crashes.len(), "it dies by itself: {log}");
    }

    /// Waits until the job has come so far, or has so many workers, or is over.
    fn until(&mut self, iterations: f64, workers: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let told = self.ask("far 0");
            let words: Vec<&str> = told.split(' ').collect();
            let done: f64 = words[0].parse().expect("a number");
            let is_there = done >= iterations && (workers.is_empty() || words[3] == workers);
            if words[1] == "Ended" || is_there {
                return told;
            }
            assert!(Instant::now() < end, "{}: {told} and not {iterations} {workers}", self.folder.display());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn run(mut self) -> usize {
        fs::create_dir_all(&self.folder).expect("a folder");
        want(&self.folder, "0:0:1 1:1:1");
        let answer = self.ask(&format!("fork {GOAL} step=4"));
        assert!(answer.starts_with("0 "), "{answer}");
        self.until(20.0, "");
        want(&self.folder, "0:0:2 1:1:2");
        self.until(50.0, "4");
        want(&self.folder, "0:0:1 1:1:1");
        let told = self.until(1e9, "");
        assert_eq!(told, format!("{GOAL} Ended Some(Completed) 0"), "{}", self.folder.display());
        assert_eq!(self.ask("leave"), "left");
        let (mut child, ..) = self.life.take().expect("it lived until now");
        assert!(child.wait().expect("it ended").success());
        let job = Ran(self.folder.join("jobs/0"));
        for attempt in 1..100 {
            if job.copy(attempt, 0).join("loaded-0.safetensors").exists() {
                job.look_at_merges(attempt, 2);
            }
        }
        assert_eq!(job.merged().step, GOAL as i64, "{}", self.folder.display());
        assert_eq!(job.steps(), GOAL, "{}: each step counts once", self.folder.display());
        self.deaths
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
    let (next, last) = (AtomicU64::new(1), AtomicU64::new(MOST_PLACES));
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::SeqCst);
                    if place >= last.load(Ordering::SeqCst) {
                        break;
                    }
                    // Each second time it dies once more, while or soon after it comes back.
                    let again = (place % 2 == 0).then_some(place / 2 % 12 + 1);
                    let crashes = std::iter::once(place).chain(again).collect();
                    let own = folder.path().join(format!("{}-copies-{place}", std::process::id()));
                    let story = Story { folder: own, crashes, life: None, deaths: 0 };
                    if story.run() == 0 {
                        last.fetch_min(place, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    let places = last.load(Ordering::SeqCst);
    println!("died at each of the first {} places", places - 1);
    assert!((50..MOST_PLACES).contains(&places), "so few or so many places: {places}");
}
