//! A process of a job of several, and what is seen of it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const TOKEN: &str = "a secret for the tests";
/// Nobody waits longer for anything.
const LONG: Duration = Duration::from_secs(30);

/// A process of a job. What it prints and says goes to files, so that nobody has to read while it works.
pub(crate) struct Member {
    pub(crate) child: Child,
    printed: PathBuf,
    said: PathBuf,
}

impl Member {
    pub(crate) fn start(place: &Path, name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let (printed, said) = (place.join(format!("{name}.out")), place.join(format!("{name}.err")));
        let child = Command::new(env!("CARGO_BIN_EXE_trainyard"))
            .current_dir(place)
            .args(arguments)
            .env("TRAINYARD_JOB_TOKEN", TOKEN)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(File::create(&printed).unwrap())
            .stderr(File::create(&said).unwrap())
            .spawn()
            .unwrap();
        Self { child, printed, said }
    }

    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap()
    }

    pub(crate) fn printed(&self) -> String {
        std::fs::read_to_string(&self.printed).unwrap()
    }

    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").arg(signal).arg(self.child.id().to_string()).status().unwrap();
        assert!(sent.success());
    }

    /// Its exit code; that it does not end is a failure.
    #[track_caller]
    pub(crate) fn ends(&mut self) -> Option<i32> {
        let until = Instant::now() + LONG;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < until, "it does not end: {}", self.said());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[track_caller]
    pub(crate) fn ends_well(&mut self) {
        let code = self.ends();
        assert_eq!(code, Some(0), "{}", self.said());
    }

    /// Ends with code 1 and a reason that contains this.
    #[track_caller]
    pub(crate) fn ends_badly(&mut self, wanted: &str) {
        let code = self.ends();
        let said = self.said();
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(wanted), "`{wanted}` is not in: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

impl Drop for Member {
    /// A test that fails leaves nothing running.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !so() {
        assert!(Instant::now() < end, "it does not come to be that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Iterations and losses of a report.
pub(crate) fn losses(report: &str) -> Vec<(u64, f64)> {
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        (line["iteration"].as_u64().unwrap(), line["loss"].as_f64().unwrap())
    };
    report.lines().map(line).collect()
}
