//! The stage over real processes of this machine: the bridge that a daemon has, with the executor that it has.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use trainyard_live::local::{Confinement, LocalExecutor, Options};
use trainyard_live::{Bridge, Requests, Submission, Work};
use trainyard_sched::control::Backend;
use trainyard_sched::model::{Attempt, JobId, NodeId, NodeState};

use super::stage::{Presence, Setting, Stage, Training};

/// The program that is run, and that keeps what runs.
const YARD: &str = env!("CARGO_BIN_EXE_yard");
/// How long messages are gathered.
const SETTLE: Duration = Duration::from_millis(2);

/// How often an environment is read that seems to be empty.
const READS: usize = 500;

/// Programs on virtual nodes of this machine.
pub(crate) struct Processes {
    bridge: Bridge,
    requests: Requests,
    folder: tempfile::TempDir,
    /// Whether devices are taken for real.
    real: bool,
}

/// Makes a stage of real processes, on devices that are only cores of this machine.
pub(crate) fn processes(setting: &Setting) -> Box<dyn Stage> {
    begin(setting, false)
}

/// Makes a stage of real processes that are told which devices are theirs, as if they were real.
pub(crate) fn on_devices(setting: &Setting) -> Box<dyn Stage> {
    begin(setting, true)
}

fn begin(setting: &Setting, real: bool) -> Box<dyn Stage> {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let options = Options {
        jobs: folder.path().join("jobs"),
        exe: PathBuf::from(YARD),
        confinement: Confinement::Nice,
        speeds: Vec::new(),
        cpus_per_gpu: (!real).then_some(1.0),
        gpu_indices: Vec::new(),
        url: None,
    };
    let executor = Box::new(LocalExecutor::new(options, setting.cluster()));
    let (bridge, requests) = Bridge::alone(executor, setting.cluster(), SETTLE);
    for (id, training) in setting.trainings.iter().enumerate() {
        let (job, tenant_name) = (training.job(id), "default".into());
        requests.submit(Submission { job, tenant_name, work: work(training), key: None });
    }
    Box::new(Processes { bridge, requests, folder, real })
}

/// The environment of a process. It reads as empty for a moment while a process becomes another program, which every
/// program of a job does: then it is read again.
fn environment_of(pid: i32) -> Option<String> {
    for _ in 0..READS {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        // The kernel's own and those that have ended are no program.
        if !environment.is_empty() || std::fs::read_link(format!("/proc/{pid}/exe")).is_err() {
            return Some(String::from_utf8_lossy(&environment).into_owned());
        }
        std::thread::sleep(SETTLE);
    }
    None
}

fn work(training: &Training) -> Work {
    if training.copied {
        // What copies have learned is merged from their files, so these are of a program that has such files.
        let words = ["learn".to_owned(), format!("step={}", training.each_ms)];
        return Work::new([YARD.to_owned()].into_iter().chain(words).collect());
    }
    let program = if training.tasks.is_some() { "chain" } else { "count" };
    let mut words = vec![YARD.to_owned(), program.to_owned()];
    words.extend([training.total, training.each_ms, training.save_every].map(|number| number.to_string()));
    words.extend(training.fails.iter().flat_map(|(rank, after)| [rank.to_string(), after.to_string()]));
    Work::new(words)
}

impl Processes {
    /// The processes of all attempts that live, as their environment says, and the devices that they see; see the contract
    /// of jobs.
    fn alive(&self) -> Vec<(Pid, JobId, Attempt, u64)> {
        let mark = format!("TRAINYARD_DIR={}/", self.folder.path().join("jobs").display());
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let of = |pid: i32| {
            let environment = environment_of(pid)?;
            let folder = environment.split('\0').find_map(|entry| entry.strip_prefix(&mark))?;
            // A copy has a folder of its own below that.
            let mut folders = folder.split('/');
            let (job, attempt) = (folders.next()?, folders.next()?);
            let seen = environment.split('\0').find_map(|entry| entry.strip_prefix("CUDA_VISIBLE_DEVICES="));
            let seen = seen.unwrap_or_default().split(',').filter_map(|device| device.parse::<u32>().ok());
            let (job, attempt) = (JobId(job.parse().ok()?), Attempt(attempt.parse().ok()?));
            Some((Pid::from_raw(pid)?, job, attempt, seen.map(|device| 1 << device).sum()))
        };
        numbers.filter_map(of).collect()
    }
}

impl Stage for Processes {
    fn backend(&mut self) -> &mut dyn Backend {
        &mut self.bridge
    }

    fn set_node(&mut self, node: NodeId, state: NodeState) {
        self.requests.set_node(node, state);
    }

    fn withdraw(&mut self, job: JobId) {
        self.requests.withdraw(job);
    }

    fn really_there(&mut self) -> Vec<Presence> {
        let mut there: Vec<Presence> = Vec::new();
        for (_, job, attempt, seen) in self.alive() {
            let known = there.iter().position(|known| (known.job, known.attempt) == (job, attempt));
            let known = known.unwrap_or_else(|| {
                let devices = self.real.then(Vec::new);
                there.push(Presence { job, attempt, parts: 0, devices });
                there.len() - 1
            });
            there[known].parts += 1;
            // A process that has not yet become its program sees none.
            there[known].devices.as_mut().filter(|_| seen != 0).into_iter().for_each(|all| all.push(seen));
        }
        there
    }

    fn words(&mut self) -> String {
        let said = self.bridge.take_said().into_iter();
        said.map(|(job, attempt, text)| format!("{job} attempt {}: {text}\n", attempt.0)).collect()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.bridge.leave();
        // Only a scene that failed leaves any. Without its programs a keeper leaves as well.
        for (pid, ..) in self.alive() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}
