//! How a job is cut into pieces that can be placed.

use serde::{Deserialize, Serialize};

use super::{Resources, TaskGraph, TaskId};

/// The shape of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parallelism {
    /// Equal workers, with or without parameter servers. A gang of fixed size is a range of one value.
    DataParallel(DataParallel),
    /// Tasks of different size with data flowing between them (MLFS, section 3.2).
    TaskGraph(TaskGraph),
}

/// Equal workers and optional parameter servers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataParallel {
    /// What one worker needs. A worker never spans nodes.
    pub worker: Resources,
    /// How many workers the job can use.
    pub workers: WorkerRange,
    /// What one parameter server needs, if there are any.
    pub server: Option<Resources>,
    /// How many parameter servers the job can use; ignored where there are none.
    pub servers: WorkerRange,
}

/// From how many to how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkerRange {
    /// With fewer the job cannot run.
    pub min: u32,
    /// More are of no use.
    pub max: u32,
}

impl WorkerRange {
    /// Exactly `count`.
    pub const fn exactly(count: u32) -> Self {
        Self { min: count, max: count }
    }

    /// Whether `count` lies in the range.
    pub const fn has(&self, count: u32) -> bool {
        self.min <= count && count <= self.max
    }

    /// Whether there is no choice.
    pub const fn is_fixed(&self) -> bool {
        self.min == self.max
    }
}

impl Parallelism {
    /// A gang of `count` workers with one whole GPU each.
    pub fn gang(count: u32) -> Self {
        Self::rigid(count, Resources::gpus(1))
    }

    /// A gang of `count` equal workers.
    pub fn rigid(count: u32, worker: Resources) -> Self {
        Self::elastic(WorkerRange::exactly(count), worker)
    }

    /// Between `workers.min` and `workers.max` equal workers.
    pub fn elastic(workers: WorkerRange, worker: Resources) -> Self {
        Self::DataParallel(DataParallel { worker, workers, server: None, servers: WorkerRange::exactly(0) })
    }

    /// What one instance of `task` demands: workers are task 0 and servers task 1 of a data-parallel job.
    ///
    /// Returns `None` if the job has no such task.
    pub fn demand_of(&self, task: TaskId) -> Option<Resources> {
        match self {
            Self::DataParallel(job) => match task {
                super::WORKER_TASK => Some(job.worker),
                super::SERVER_TASK => job.server,
                _ => None,
            },
            Self::TaskGraph(graph) => graph.tasks().get(task.index()).map(|task| task.demand),
        }
    }

    /// What the job needs at the least, taken together.
    pub fn minimum(&self) -> Resources {
        match self {
            Self::DataParallel(job) => {
                let workers = job.worker.times(u64::from(job.workers.min));
                job.server.map_or(workers, |server| workers + server.times(u64::from(job.servers.min)))
            }
            Self::TaskGraph(graph) => {
                graph.tasks().iter().fold(Resources::NONE, |sum, task| sum + task.demand)
            }
        }
    }

    /// The job as equal workers, if it is that.
    pub const fn data_parallel(&self) -> Option<&DataParallel> {
        match self {
            Self::DataParallel(job) => Some(job),
            Self::TaskGraph(_) => None,
        }
    }
}
