//! A daemon that dies where it is told to, and is brought back to life until it may live; and a story that is told once for each
//! place where it can die.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Stories at the same time; they mostly wait.
const SIDE_BY_SIDE: usize = 8;
/// What is said where a daemon is not yet quite gone.
const HELD: &str = "another daemon uses this folder; stop it, or choose another folder";
/// Fewer places than this are a daemon that does not die where it should.
const FEWEST_PLACES: u64 = 50;

/// A `yard serve` that may die.
pub(crate) struct Mortal {
    pub(crate) folder: PathBuf,
    /// The words of `yard serve` after its folder: the policy, and after how many records the state is kept.
    words: [String; 2],
    /// Where each of its lives ends, the first one first; after them it lives on.
    crashes: Vec<u64>,
    life: Option<(Child, ChildStdin, BufReader<ChildStdout>)>,
    deaths: usize,
}

impl Mortal {
    pub(crate) fn new(folder: PathBuf, crashes: Vec<u64>, policy: &str, keep_every: u64) -> Self {
        let words = [policy.to_owned(), keep_every.to_string()];
        Self { folder, words, crashes, life: None, deaths: 0 }
    }

    /// Asks until there is an answer, over as many lives as it takes.
    pub(crate) fn ask(&mut self, line: &str) -> String {
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

    /// Lets it leave; says how often it died.
    pub(crate) fn leave(&mut self) -> usize {
        assert_eq!(self.ask("leave"), "left");
        let (mut child, ..) = self.life.take().expect("it lived until now");
        assert!(child.wait().expect("it ended").success());
        self.deaths
    }

    fn live(&mut self) -> bool {
        let crash_at = self.crashes.get(self.deaths).map_or("never".to_owned(), u64::to_string);
        let log = fs::OpenOptions::new().create(true).append(true).open(self.folder.join("daemon.log"));
        let mut child = Command::new(env!("CARGO_BIN_EXE_yard"))
            .arg("serve")
            .arg(&self.folder)
            .args(&self.words)
            .arg(&crash_at)
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
        if status.code() == Some(1) && log.trim_end().ends_with(HELD) {
            // A program that was about to be started as the daemon died may have its lock for a moment.
            std::thread::sleep(Duration::from_millis(20));
            return;
        }
        assert_eq!(status.signal(), Some(9), "{status}: {log}");
        self.deaths += 1;
        assert!(self.deaths <= self.crashes.len(), "it dies by itself: {log}");
    }
}

/// Tells a story once for each place where the daemon can die, in a folder of its own, until it gets through without a death. The
/// story says how often the daemon died in it. A story in which it dies later than at `most_places` never ends.
pub(crate) fn at_each_place(
    folder: &Path,
    most_places: u64,
    story: impl Fn(PathBuf, Vec<u64>) -> usize + Sync,
) {
    let (next, last) = (AtomicU64::new(1), AtomicU64::new(most_places));
    let tell = || {
        loop {
            let place = next.fetch_add(1, Ordering::SeqCst);
            if place >= last.load(Ordering::SeqCst) {
                break;
            }
            // Each second time it dies once more, while or soon after it comes back.
            let again = (place % 2 == 0).then_some(place / 2 % 12 + 1);
            let crashes = std::iter::once(place).chain(again).collect();
            // Groups of the kernel are named after the folder, and not only this test makes such.
            let name = folder.file_name().expect("a name").to_string_lossy().replace('.', "");
            if story(folder.join(format!("{name}-{place}")), crashes) == 0 {
                last.fetch_min(place, Ordering::SeqCst);
            }
        }
    };
    std::thread::scope(|scope| (0..SIDE_BY_SIDE).for_each(|_| drop(scope.spawn(tell))));
    let places = last.load(Ordering::SeqCst);
    println!("died at each of the first {} places", places - 1);
    assert!((FEWEST_PLACES..most_places).contains(&places), "so few or so many places: {places}");
}
