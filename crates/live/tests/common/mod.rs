//! A daemon in a folder that goes away, on virtual nodes of this machine.

#![allow(dead_code, reason = "what tests share is not all used by each")]

pub(crate) mod learn;
pub(crate) mod place;
pub(crate) mod reckon;
pub(crate) mod scripted;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use trainyard_live::board::{Board, Card, Standing};
use trainyard_live::daemon::DaemonError;
use trainyard_live::local::{Confinement, LocalExecutor};
use trainyard_live::{Daemon, Handle, Refusal, Settings, Work};
use trainyard_sched::model::{Attempt, JobId, Parallelism};

pub(crate) use place::gang;
use place::submission;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A daemon at work.
pub(crate) struct Yard {
    folder: tempfile::TempDir,
    daemon: Option<Daemon>,
    policy: &'static str,
    nodes: (u32, u64),
    /// What is unusual about its settings.
    change: Box<dyn Fn(&mut Settings)>,
    /// Tests run side by side, so most are held to nothing; what a share is worth is tested in `shares.rs`.
    confinement: Confinement,
    /// Whether the folder is a disk of its own.
    is_mounted: bool,
}

impl Yard {
    pub(crate) fn begin(policy: &'static str, words: &str) -> Self {
        Self::begin_with(policy, words, |_| {})
    }

    /// One whose settings are unusual.
    pub(crate) fn begin_with(
        policy: &'static str,
        words: &str,
        change: impl Fn(&mut Settings) + 'static,
    ) -> Self {
        let mut yard = Self::plan(policy, words, change);
        yard.daemon = Some(yard.second().unwrap());
        yard
    }

    /// One that keeps shares by control groups, if this machine lets them be made.
    pub(crate) fn begin_confined(policy: &'static str, words: &str) -> Option<Self> {
        let mut yard = Self::plan(policy, words, |_| {});
        let name = yard.folder.path().file_name()?.to_string_lossy().replace('.', "");
        yard.confinement = Confinement::find(&format!("trainyard-test-{name}"));
        if yard.confinement == Confinement::Nice {
            return None;
        }
        yard.daemon = Some(yard.second().unwrap());
        Some(yard)
    }

    /// The best confinement of this yard.
    pub(crate) const fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// One on a small disk of its own, if this machine lets one be made.
    pub(crate) fn begin_on_disk(policy: &'static str, words: &str, bytes: u64) -> Option<Self> {
        let mut yard = Self::plan(policy, words, |_| {});
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "yard"]).arg(yard.folder.path());
        yard.is_mounted = mount.output().is_ok_and(|done| done.status.success());
        if !yard.is_mounted {
            return None;
        }
        yard.daemon = Some(yard.second().unwrap());
        Some(yard)
    }

    fn plan(policy: &'static str, words: &str, change: impl Fn(&mut Settings) + 'static) -> Self {
        let (nodes, cores) = words.strip_suffix(":cpu").and_then(|words| words.split_once('x')).unwrap();
        let nodes = (nodes.parse().unwrap(), cores.parse().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let (change, confinement) = (Box::new(change), Confinement::Nice);
        Self { folder, daemon: None, policy, nodes, change, confinement, is_mounted: false }
    }

    /// From now on its settings are unusual in this way.
    pub(crate) fn unusual(&mut self, change: impl Fn(&mut Settings) + 'static) {
        self.change = Box::new(change);
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Another daemon in the same folder.
    pub(crate) fn second(&self) -> Result<Daemon, DaemonError> {
        let cluster = place::cluster(self.nodes);
        let exe = PathBuf::from(env!("CARGO_BIN_EXE_yard"));
        let options = place::options(self.folder.path(), exe, self.confinement.clone());
        let mut settings = place::settings(self.folder.path(), cluster, self.policy);
        (self.change)(&mut settings);
        let cluster = settings.cluster.clone();
        Daemon::begin(settings, Box::new(LocalExecutor::new(options, cluster)), Box::new(|_| {}))
    }

    pub(crate) fn handle(&self) -> Handle {
        self.daemon.as_ref().unwrap().handle()
    }

    pub(crate) fn restart(&mut self, away: Duration) {
        self.leave();
        std::thread::sleep(away);
        self.come_back();
    }

    pub(crate) fn leave(&mut self) {
        self.daemon.take().unwrap().leave();
    }

    pub(crate) fn come_back(&mut self) {
        let end = Instant::now() + PATIENCE;
        self.daemon = loop {
            match self.second() {
                // A program that another test begins at this moment has the lock of this folder as well, until it is itself.
                Err(DaemonError::Taken { .. }) if Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                begun => break Some(begun.unwrap()),
            }
        };
    }

    pub(crate) fn try_submit(&self, shape: Parallelism, work: Work) -> Result<JobId, Refusal> {
        self.handle().submit(submission(shape, work, None)).map(|(job, _)| job)
    }

    pub(crate) fn submit(&self, shape: Parallelism, work: Work) -> JobId {
        self.try_submit(shape, work).unwrap()
    }

    pub(crate) fn submit_as(&self, key: &str, shape: Parallelism, work: Work) -> (JobId, bool) {
        self.handle().submit(submission(shape, work, Some(key.into()))).unwrap()
    }

    pub(crate) fn until(&self, holds: impl Fn(&Board) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !holds(&self.handle().board()) {
            assert!(Instant::now() < end, "it does not come true: {:#?}", self.handle().board().jobs);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn card(&self, job: JobId) -> Card {
        self.handle().board().jobs[&job].clone()
    }

    pub(crate) fn ends(&self, job: JobId) -> Card {
        self.until(|board| board.jobs[&job].state == Standing::Ended);
        self.card(job)
    }

    pub(crate) fn output(&self, job: JobId, attempt: u32) -> String {
        self.output_of(job, attempt, 0)
    }

    pub(crate) fn output_of(&self, job: JobId, attempt: u32, program: usize) -> String {
        let name = if program == 0 { "output.log".to_owned() } else { format!("output-{program}.log") };
        let attempt = Attempt(attempt).0.to_string();
        let path = self.folder.path().join("jobs").join(job.0.to_string()).join(attempt).join(name);
        std::fs::read_to_string(path).unwrap()
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        if self.daemon.is_some() {
            self.end();
        }
        if self.is_mounted {
            let _ = Command::new("umount").arg("--lazy").arg(self.folder.path()).status();
        }
    }
}

impl Yard {
    fn end(&mut self) {
        let handle = self.handle();
        let left: Vec<JobId> =
            handle.board().jobs.values().filter(|card| card.ended.is_none()).map(|card| card.job).collect();
        for job in left {
            let _ = handle.withdraw(job);
        }
        if !std::thread::panicking() {
            self.until(|board| board.jobs.values().all(|card| card.ended.is_some()));
        }
        if let Some(daemon) = self.daemon.take() {
            daemon.leave();
        }
    }
}

pub(crate) fn command(words: &[&str]) -> Work {
    Work::new(words.iter().map(|word| (*word).to_owned()).collect())
}

pub(crate) fn shell(script: &str) -> Work {
    command(&["sh", "-c", script])
}
