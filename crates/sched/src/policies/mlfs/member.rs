//! A job as the policy keeps it: what it is to hold, and what does not change about it.

use std::sync::Arc;

use crate::estimate::{graph_iteration_s, tails_s};
use crate::model::{Allocation, Job, Placement, Resources, TaskGraph, TaskId};
use crate::view::{JobView, Phase};

use super::servers::Load;

/// More than this of anything no task is taken to use, so that sums stay numbers.
const MOST: u64 = 1 << 50;

/// Whether a job can run at all, on the idle cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fit {
    /// Below the threshold.
    Within,
    /// Only beyond it: it is placed by what is free alone.
    Tight,
    /// Not at all.
    Never {
        /// Workers that it needs.
        workers: u32,
        /// The most that would fit.
        largest: u32,
    },
}

/// A job.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) job: Arc<Job>,
    /// What it is to hold.
    pub(super) target: Allocation,
    /// What that promises and uses, as it is counted.
    pub(super) loads: Vec<(TaskId, Load)>,
    /// Seconds of computing behind each task.
    pub(super) tails_s: Box<[f64]>,
    /// Seconds of an iteration on idle devices; 0 if that is not known.
    pub(super) idle_s: f64,
    pub(super) fit: Option<Fit>,
}

impl Member {
    pub(super) fn new(job: &Arc<Job>) -> Self {
        let (tails_s, idle_s) = match &job.shape {
            crate::model::Parallelism::TaskGraph(graph) => {
                (tails_s(graph).into(), graph_iteration_s(graph, |_| true, |_| 1.0, |_| 0.0))
            }
            crate::model::Parallelism::DataParallel(_) => (Box::default(), 0.0),
        };
        Self { job: Arc::clone(job), target: Allocation::NONE, loads: Vec::new(), tails_s, idle_s, fit: None }
    }

    /// Its graph, if it is one.
    pub(super) fn graph(&self) -> Option<&TaskGraph> {
        match &self.job.shape {
            crate::model::Parallelism::TaskGraph(graph) => Some(graph),
            crate::model::Parallelism::DataParallel(_) => None,
        }
    }

    /// How many tasks it has in the queue's eyes: a gang without a graph is one.
    pub(super) fn tasks(&self) -> usize {
        self.graph().map_or(1, |graph| graph.tasks().len())
    }

    /// Whether its replicas may be placed one by one. A job that must not change once it runs is placed at once.
    pub(super) fn goes_by_replica(&self) -> bool {
        self.job.goals.movable && self.graph().is_some_and(TaskGraph::is_partial)
    }

    /// Whether something of it has no place.
    pub(super) fn waits(&self) -> bool {
        match self.graph() {
            Some(graph) => self.target.placements().len() < graph.tasks().len(),
            None => self.target.is_none(),
        }
    }

    /// Where a task of a graph is to be.
    pub(super) fn place_of(&self, task: TaskId) -> Option<&Placement> {
        self.target.place_of(task)
    }

    /// Which replicas of a graph have their place, in the order of its replicas; each has all of it or nothing.
    pub(super) fn placed_replicas(&self) -> Vec<bool> {
        let Some(graph) = self.graph() else { return Vec::new() };
        let mut placed = vec![false; graph.replicas().len()];
        let of = |p: &Placement| graph.tasks()[p.task.index()].replica;
        for replica in self.target.placements().iter().filter_map(of) {
            if let Ok(i) = graph.replicas().binary_search(&replica) {
                placed[i] = true;
            }
        }
        placed
    }
}

/// What a placement promises and uses: what was said of a job that runs, else what it demands.
pub(super) fn load(view: &JobView, p: &Placement) -> Load {
    let demand = p.takes(view.job.shape.demand_of(p.task).unwrap_or_default());
    let told = if view.phase == Phase::Running { view.used.of(p.task) } else { None };
    let all = u64::from(view.target.count_of(p.task)).max(1);
    let part = |used: Resources| {
        let part = |amount: u64| (u128::from(amount) * u128::from(p.count) / u128::from(all)) as u64;
        let [gpu_milli, cpu_milli, memory_bytes, network_bytes_per_s] = used.amounts().map(part);
        Resources { gpu_milli, cpu_milli, memory_bytes, network_bytes_per_s }
    };
    Load { node: p.node, gpus: p.gpus, tasks: p.count, demand, used: bounded(told.map_or(demand, part)) }
}

/// At most what is taken to be possible.
pub(super) fn bounded(used: Resources) -> Resources {
    let [gpu_milli, cpu_milli, memory_bytes, network_bytes_per_s] =
        used.amounts().map(|amount| amount.min(MOST));
    Resources { gpu_milli, cpu_milli, memory_bytes, network_bytes_per_s }
}
