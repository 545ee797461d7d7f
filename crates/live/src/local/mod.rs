//! The executor for one machine: programs as processes, CPU and memory shares, GPUs where there are any, and nodes that may
//! be virtual, of different speed, to try heterogeneity without it.
//!
//! Between the daemon and the programs of an attempt stands a [`keeper`](keep), so that the daemon may die and come
//! back while they run: what was ordered, who took the order and how it ended is in the attempt's folder.

mod attempt;
mod confine;
mod copies;
mod gpus;
mod keeper;
mod launch;
mod member;
mod process;
mod tasks;
mod usage;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use trainyard_sched::control::How;
use trainyard_sched::decide::Abilities;
use trainyard_sched::model::{Allocation, Attempt, Cluster, GpuSet, JobId, NodeId, NodeState, Quotas};

use crate::executor::{Executor, Held, Pending, Reporter};
use crate::work::Launch;

pub use confine::Confinement;
pub use gpus::{Gpu, GpuError, Gpus};
pub use keeper::{become_program, keep};

use attempt::Folder;
use copies::Forked;
use launch::Gang;
use tasks::Grouped;
use watch::Watched;

/// How this machine is used.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the folders of jobs are.
    pub jobs: PathBuf,
    /// This program, which also is the keeper.
    pub exe: PathBuf,
    /// How shares are kept.
    pub confinement: Confinement,
    /// How fast each node is: the part of a core that it gives for a core asked for.
    pub speeds: Vec<f64>,
    /// Cores that stand for a GPU where GPUs are virtual; `None` where they are real.
    pub cpus_per_gpu: Option<f64>,
    /// The GPUs of each node as the driver counts them, where they are real; a node that has none here has those of its own
    /// numbers.
    pub gpu_indices: Vec<Vec<u32>>,
    /// Where training programs report to over HTTP, if they cannot write files.
    pub url: Option<String>,
}

/// Attempts by job and number.
type Attempts = Arc<Mutex<BTreeMap<(JobId, Attempt), Followed>>>;

/// An attempt that is followed.
#[expect(clippy::large_enum_variant, reason = "there are few of them, and most are of the larger kind")]
enum Followed {
    /// One gang.
    One(Watched),
    /// Several copies, each a gang.
    Several(Forked),
    /// A graph of tasks, each a program.
    Tasks(Grouped),
}

impl Followed {
    fn held(&self) -> &Held {
        match self {
            Self::One(watched) => &watched.gang.held,
            Self::Several(forked) => &forked.held,
            Self::Tasks(grouped) => &grouped.held,
        }
    }

    fn look(&mut self, options: &Options, cluster: &Cluster, reporter: &Reporter) -> bool {
        match self {
            Self::One(watched) => watched.look(&options.jobs, reporter),
            Self::Several(forked) => forked.look(options, cluster, reporter),
            Self::Tasks(grouped) => grouped.look(options, cluster, reporter),
        }
    }

    fn stop(&mut self, how: How) {
        match self {
            Self::One(watched) => watched.stop(),
            Self::Several(forked) => forked.stop(how),
            Self::Tasks(grouped) => grouped.stop(),
        }
    }

    fn lose(&mut self, node: NodeId) {
        match self {
            Self::One(watched) => watched.lose(node),
            Self::Several(forked) => forked.lose(node),
            Self::Tasks(grouped) => grouped.lose(node),
        }
    }

    fn touches(&self, node: NodeId) -> bool {
        match self {
            Self::Tasks(grouped) => grouped.touches(node),
            _ => self.held().allocation.touches(node),
        }
    }

    const fn is_lost(&self) -> bool {
        match self {
            Self::One(watched) => watched.is_lost(),
            Self::Several(forked) => forked.is_lost(),
            Self::Tasks(grouped) => grouped.is_lost(),
        }
    }

    fn resize(&mut self, allocation: &Allocation, quotas: &Quotas, options: &Options, cluster: &Cluster) {
        match self {
            Self::One(watched) => {
                let held = &watched.gang.held;
                let same = held.allocation.placements().len() == allocation.placements().len();
                // A program keeps the real devices that it began with, whatever it is told.
                let keeps_devices =
                    options.cpus_per_gpu.is_some() || devices(&held.allocation) == devices(allocation);
                let is_one = allocation.copies() == 1 && held.work.launch == Launch::PerNode;
                if same && keeps_devices && is_one {
                    watched.resize(allocation, options, cluster);
                } else {
                    // Other processes, or for other devices: it saves, and its next start has the size it shall have.
                    watched.stop();
                }
            }
            Self::Several(forked) => forked.resize(allocation, quotas, options, cluster),
            Self::Tasks(grouped) => grouped.resize(allocation, options, cluster),
        }
    }
}

/// Runs jobs on this machine.
pub struct LocalExecutor {
    options: Arc<Options>,
    cluster: Cluster,
    attempts: Attempts,
    watcher: Option<watch::Watcher>,
}

impl LocalExecutor {
    /// Runs jobs on the nodes of this cluster, which all are this machine.
    pub fn new(mut options: Options, cluster: Cluster) -> Self {
        // Programs are started elsewhere, and are told where their files are.
        options.jobs = std::path::absolute(&options.jobs).unwrap_or(options.jobs);
        Self { options: Arc::new(options), cluster, attempts: Attempts::default(), watcher: None }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(JobId, Attempt), Followed>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_one(&self, held: Held) -> std::io::Result<Watched> {
        let (gang, options, cluster) = (Gang::alone(held), &*self.options, &self.cluster);
        launch::make_attempt(&gang.attempt(options))?;
        let control = launch::control(&gang.held, &gang.held.allocation, options, cluster);
        let (_, keeper) = launch::launch(&gang, &control, &launch::listen()?, options, cluster)?;
        Ok(Watched::started(gang, keeper, options, cluster))
    }

    fn watch(&mut self, reporter: &Reporter) {
        if self.watcher.is_none() {
            let (attempts, options) = (Arc::clone(&self.attempts), Arc::clone(&self.options));
            let cluster = self.cluster.clone();
            self.watcher = Some(watch::Watcher::begin(attempts, options, cluster, reporter.clone()));
        }
    }
}

/// Which devices an allocation has, node by node.
fn devices(allocation: &Allocation) -> Vec<(NodeId, GpuSet)> {
    allocation.placements().iter().map(|placement| (placement.node, placement.gpus)).collect()
}

impl Executor for LocalExecutor {
    fn abilities(&self) -> Abilities {
        let shared =
            if self.options.cpus_per_gpu.is_some() { Abilities::SHARED_GPUS } else { Abilities::NONE };
        let usual = Abilities::RESIZE | Abilities::LOSS | Abilities::RELAX | Abilities::MIXED_GPU_TYPES;
        usual | Abilities::COPIES | Abilities::QUOTAS | Abilities::TASKS | shared
    }

    fn describe(&self) -> String {
        self.options.confinement.describe()
    }

    fn adopt(&mut self, held: Vec<Held>, reporter: &Reporter) {
        let known: BTreeSet<(JobId, Attempt)> = held.iter().map(|held| (held.job.id, held.attempt)).collect();
        self.options
            .confinement
            .sweep(|name| launch::attempt_of_group(name).is_some_and(|attempt| known.contains(&attempt)));
        self.watch(reporter);
        for held in held {
            let (job, attempt) = (held.job.id, held.attempt);
            let folder = Folder::of(&self.options.jobs, job, attempt);
            let pending = held.pending.clone();
            // Either a keeper has it, or nobody will: an order that was not yet taken is taken back.
            let (options, cluster) = (&self.options, &self.cluster);
            let grouped = tasks::is_graph(&held).then(|| Grouped::adopted(held.clone(), options, cluster));
            let followed = if let Some(grouped) = grouped.flatten() {
                Followed::Tasks(grouped)
            } else if held.allocation.copies() > 1 {
                Followed::Several(Forked::adopted(held, options, cluster))
            } else if folder.has_order() && !tasks::is_graph(&held) {
                Followed::One(Watched::adopted(Gang::alone(held), options, cluster))
            } else {
                Followed::One(Watched::refused(Gang::alone(held), Duration::ZERO, options, cluster))
            };
            self.lock().insert((job, attempt), followed);
            match pending {
                Some(Pending::Stop) => self.stop(job, attempt, How::Save),
                Some(Pending::Resize(allocation, quotas)) => {
                    self.resize(job, attempt, &allocation, &quotas);
                }
                None => {
                    if let Some(Followed::Tasks(grouped)) = self.lock().get_mut(&(job, attempt)) {
                        grouped.settle(&self.options, &self.cluster);
                    }
                }
            }
        }
    }

    fn start(&mut self, held: Held, reporter: &Reporter) {
        self.watch(reporter);
        let (job, attempt) = (held.job.id, held.attempt);
        let followed = if tasks::is_graph(&held) {
            Grouped::start(held.clone(), &self.options, &self.cluster, reporter).map(Followed::Tasks)
        } else if held.allocation.copies() > 1 {
            Forked::start(held.clone(), &self.options).map(Followed::Several)
        } else {
            self.start_one(held.clone()).map(Followed::One)
        };
        let followed = followed.unwrap_or_else(|error| {
            reporter.say(job, attempt, format!("cannot be started: {error}"));
            let after = watch::delay(&self.options.jobs, job, attempt);
            Followed::One(Watched::refused(Gang::alone(held), after, &self.options, &self.cluster))
        });
        self.lock().insert((job, attempt), followed);
    }

    fn stop(&mut self, job: JobId, attempt: Attempt, how: How) {
        if let Some(followed) = self.lock().get_mut(&(job, attempt)) {
            followed.stop(how);
        }
    }

    fn resize(&mut self, job: JobId, attempt: Attempt, allocation: &Allocation, quotas: &Quotas) {
        if let Some(followed) = self.lock().get_mut(&(job, attempt)).filter(|followed| !followed.is_lost()) {
            followed.resize(allocation, quotas, &self.options, &self.cluster);
        }
    }

    fn merge(&mut self, job: JobId, attempt: Attempt, number: u32, quotas: &Quotas) {
        if let Some(Followed::Several(forked)) = self.lock().get_mut(&(job, attempt)) {
            forked.order_merge(number, quotas);
        }
    }

    fn node_changed(&mut self, _cluster: &Cluster, node: NodeId, state: NodeState) {
        if state != NodeState::Down {
            return;
        }
        for followed in self.lock().values_mut().filter(|followed| followed.touches(node)) {
            followed.lose(node);
        }
    }

    fn leave(&mut self) {
        if let Some(watcher) = self.watcher.take() {
            watcher.end();
        }
        for followed in self.lock().values_mut() {
            if let Followed::Several(forked) = followed {
                forked.settle();
            }
        }
        // Where jobs go on, their groups keep it there.
        self.options.confinement.leave();
    }
}
