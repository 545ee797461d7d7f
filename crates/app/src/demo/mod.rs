//! The demonstration: real training on this machine, under one policy after another, through the daemon that schedules real
//! clusters. Nothing is simulated.

mod jobs;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use trainyard_live::board::Standing;
use trainyard_live::daemon::{Policies, Told};
use trainyard_live::local::{Confinement, LocalExecutor, Options};
use trainyard_live::{Daemon, Handle, Settings, Submission, Work};
use trainyard_sched::control::{Batch, Log, Outcome};
use trainyard_sched::metrics::Quality;
use trainyard_sched::model::{
    Cluster, Declared, Goals, Job, JobId, MoveCost, Parallelism, RackId, Resources, Seed, Span, TenantId,
    Tenants, Time, UNLIMITED, Wanted, WorkerRange,
};

use crate::config::PolicyChoice;
use crate::failure::Failure;
pub(crate) use jobs::{DemoJob, Load, draw};

/// A unit of what is given away: a twentieth of a core, so that many jobs can share a small machine.
pub(crate) const UNIT_MILLI: u64 = 50;
/// No job gets more than a core, as each is one thread.
const MOST_UNITS: u32 = 20;
/// The part of the machine that jobs may have; the rest is the daemon's.
const PART: f64 = 0.9;
/// How often it is looked whether all is done.
const LOOK: Duration = Duration::from_millis(50);

/// One policy at work.
pub(crate) struct Course {
    /// Its name.
    pub(crate) policy: String,
    /// How losses fell.
    pub(crate) quality: Quality,
    /// Jobs that did not end within the time.
    pub(crate) cut: usize,
    /// Jobs that ended otherwise than well, and what was said of the first of them.
    pub(crate) failed: (usize, Option<String>),
    /// How long it took.
    pub(crate) seconds: f64,
}

/// Where and how it runs.
pub(crate) struct Place<'a> {
    /// Its folder; there must be none yet.
    pub(crate) folder: &'a Path,
    /// This program.
    pub(crate) exe: &'a Path,
    /// How shares are kept.
    pub(crate) confinement: &'a Confinement,
    /// When it is cut short.
    pub(crate) most: Duration,
    /// Called now and then with the number of jobs that have come and that have ended.
    pub(crate) progress: &'a dyn Fn(usize, usize),
}

/// Units of this machine that jobs may have.
pub(crate) fn units() -> u64 {
    let cores = std::thread::available_parallelism().map_or(2.0, |cores| cores.get() as f64);
    (cores * PART * 1000.0 / UNIT_MILLI as f64) as u64
}

fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    let holds = Resources {
        cpu_milli: units() * UNIT_MILLI,
        memory_bytes: UNLIMITED,
        network_bytes_per_s: UNLIMITED,
        gpu_milli: 0,
    };
    cluster.push(RackId(0), None, holds, Some("here".into()));
    cluster
}

/// Where a daemon gets its policies from: the table of all.
pub(crate) fn policies() -> Policies {
    Arc::new(|name, parameters| {
        let choice = PolicyChoice::new(name, parameters.clone()).map_err(|error| error.to_string())?;
        Ok(Arc::new(move || choice.build().expect("it was built before")))
    })
}

/// Runs all jobs under one policy.
pub(crate) fn course(policy: &PolicyChoice, jobs: &[DemoJob], place: &Place<'_>) -> Result<Course, Failure> {
    let quality = Arc::new(Mutex::new(Quality::default()));
    let daemon = begin(policy, place, Arc::clone(&quality))?;
    let handle = daemon.handle();
    let begun = Instant::now();
    let mut coming = jobs.iter().peekable();
    let mut ids: Vec<JobId> = Vec::new();
    let ended = |ids: &[JobId]| {
        let board = handle.board();
        ids.iter().filter(|id| board.jobs.get(id).is_some_and(|card| card.state == Standing::Ended)).count()
    };
    while begun.elapsed() < place.most && (coming.peek().is_some() || ended(&ids) < ids.len()) {
        while let Some(job) = coming.next_if(|job| job.arrives_s <= begun.elapsed().as_secs_f64()) {
            ids.push(handle.submit(submission(job, place.exe))?.0);
        }
        (place.progress)(ids.len(), ended(&ids));
        std::thread::sleep(LOOK);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let cut = jobs.len() - ended(&ids);
    let failed = failures(&handle, &ids);
    let left: Vec<JobId> = ids.iter().copied().filter(|id| ended(&[*id]) == 0).collect();
    for id in left {
        handle.withdraw(id)?;
    }
    let end = Instant::now() + Duration::from_secs(10);
    while ended(&ids) < ids.len() && Instant::now() < end {
        std::thread::sleep(LOOK);
    }
    daemon.leave();
    let quality = quality.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(Course { policy: policy.name().to_owned(), quality, cut, failed, seconds })
}

/// Jobs that ended otherwise than well, and what was said of the first of them.
fn failures(handle: &Handle, ids: &[JobId]) -> (usize, Option<String>) {
    let board = handle.board();
    // One that could never be started has not ended at all.
    let bad = |id: &&JobId| {
        board.jobs.get(id).is_some_and(|card| match card.outcome {
            Some(outcome) => outcome != Outcome::Completed,
            None => card.failures > 0 && card.iterations == 0.0,
        })
    };
    let first = ids.iter().find(bad).and_then(|id| {
        let card = &board.jobs[id];
        Some(format!("{}: {}", card.name, card.said.as_deref()?))
    });
    (ids.iter().filter(bad).count(), first)
}

fn begin(policy: &PolicyChoice, place: &Place<'_>, quality: Arc<Mutex<Quality>>) -> Result<Daemon, Failure> {
    let mut tenants = Tenants::default();
    tenants.intern("demo");
    let options = Options {
        jobs: place.folder.join("jobs"),
        exe: place.exe.to_owned(),
        confinement: place.confinement.clone(),
        speeds: Vec::new(),
        cpus_per_gpu: None,
        gpu_indices: Vec::new(),
        url: None,
    };
    let settings = Settings {
        folder: place.folder.to_owned(),
        cluster: cluster(),
        tenants,
        policy: (policy.name().to_owned(), policy.parameters()),
        policies: policies(),
        seed: Seed(0),
        settle: Duration::from_millis(5),
        budget: Duration::from_secs(5),
        keep_every: Settings::KEEP_EVERY,
    };
    let follower = move |told: &Told| {
        let batch = Batch { at: told.record.at, events: told.record.events.clone() };
        quality.lock().unwrap_or_else(PoisonError::into_inner).step(&batch, &told.record.step);
    };
    let executor = LocalExecutor::new(options, cluster());
    Ok(Daemon::begin(settings, Box::new(executor), Box::new(follower))?)
}

fn submission(job: &DemoJob, exe: &Path) -> Submission {
    let workers = WorkerRange { min: 1, max: MOST_UNITS };
    let worker = Resources { cpu_milli: UNIT_MILLI, ..Resources::NONE };
    let described = Job {
        id: JobId(0),
        name: job.name.as_str().into(),
        tenant: TenantId(0),
        model: None,
        submitted: Time::ZERO,
        shape: Parallelism::elastic(workers, worker),
        wanted: Wanted::default(),
        goals: Goals::default(),
        declared: Declared { iterations: Some(f64::from(job.iterations)), ..Declared::default() },
        move_cost: MoveCost::default(),
    };
    let mut command = vec![exe.display().to_string()];
    command.extend(job.arguments.iter().cloned());
    Submission { job: described, tenant_name: "demo".into(), work: Work::new(command), key: None }
}

/// A folder that is not there yet, below one that is.
pub(crate) fn fresh(below: &Path, name: &str) -> Result<PathBuf, Failure> {
    let folder = below.join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(Failure::file("empty", &folder))?;
    }
    Ok(folder)
}

/// Mean seconds from arrival until a part of the loss reduction is left, and for how many jobs that never was.
pub(crate) fn mean_seconds_to(course: &Course, part: f64) -> Option<f64> {
    let times: Vec<f64> = course.quality.jobs().filter_map(|(_, job)| job.seconds_to(part)).collect();
    (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
}

/// Mean loss of the jobs that are there, over time.
pub(crate) fn losses_over_time(course: &Course) -> Vec<(f64, f64)> {
    let moments = course.quality.moments(Span::from_secs(1), |_, job, at| job.loss_at(at));
    moments.iter().map(|moment| (moment.at.as_secs_f64(), moment.mean_loss)).collect()
}
