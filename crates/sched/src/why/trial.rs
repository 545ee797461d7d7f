//! What would let a waiting job start, tried on the snapshot at hand with a fresh instance of the policy.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::{GPU, GpuTypeSet, Job, JobId, Parallelism, Time, Topology, WorkerRange};
use crate::place::{Ask, FreeCapacity, Rule};
use crate::view::{JobView, Snapshot};

use super::{Make, capacity};

/// So many sizes are tried, each half of the one before.
const MOST_SIZES: u32 = 6;
/// Of more ends than this it is not asked which are needed.
const MOST_ENDS: usize = 64;

/// A change to the job with which it would start now.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "change")]
pub enum Change {
    /// A smaller gang, which runs longer in proportion.
    FewerWorkers {
        /// How many workers.
        workers: u32,
        /// How many GPUs these have.
        gpus: f64,
        /// How many CPU cores.
        cpus: f64,
    },
    /// Any type of GPU.
    AnyGpuType,
    /// Workers on any nodes.
    Anywhere,
}

/// Running jobs whose end would make room.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Room {
    /// They; those that claim to end first are taken first, and none of them could be left out.
    pub ends: Vec<JobId>,
    /// When the last of them ends by what they claim; `None` if one of them claims nothing.
    pub at: Option<Time>,
    /// Whether the policy would then start the job, if nothing else changed. If not, others go first.
    pub then_starts: bool,
}

/// Whether the policy would start a job on this snapshot.
fn starts(seen: &Snapshot, make: &Make<'_>, job: JobId) -> bool {
    let decision = make().decide(seen);
    decision.targets.iter().any(|(id, target)| *id == job && target.is_some())
}

/// The changes to a job with which it would start now.
pub(super) fn changes(seen: &Snapshot, make: &Make<'_>, view: &JobView) -> Vec<Change> {
    let would = |job: Job| {
        let mut other = seen.clone();
        other.jobs.insert(job.id, Arc::new(JobView { job: Arc::new(job), ..view.clone() }));
        starts(&other, make, view.id())
    };
    let mut found = Vec::new();
    let sizes = std::iter::successors(smaller(&view.job), smaller).take(MOST_SIZES as usize);
    if let Some(job) = sizes.into_iter().find(|job| would(job.clone())) {
        let workers = job.shape.data_parallel().map_or(1, |shape| shape.workers.min);
        let least = job.shape.minimum();
        let (gpus, cpus) = (least.gpu_milli as f64 / GPU as f64, least.cpu_milli as f64 / 1e3);
        found.push(Change::FewerWorkers { workers, gpus, cpus });
    }
    if view.job.wanted.gpu_types != GpuTypeSet::ALL {
        let mut job = (*view.job).clone();
        job.wanted.gpu_types = GpuTypeSet::ALL;
        found.extend(would(job).then_some(Change::AnyGpuType));
    }
    if view.job.wanted.topology != Topology::Anywhere {
        let mut job = (*view.job).clone();
        job.wanted.topology = Topology::Anywhere;
        found.extend(would(job).then_some(Change::Anywhere));
    }
    found
}

/// The same job with half of its workers; it takes longer in proportion.
fn smaller(job: &Job) -> Option<Job> {
    let Parallelism::DataParallel(shape) = &job.shape else { return None };
    let workers = shape.workers.min / 2;
    if workers == 0 {
        return None;
    }
    let mut shape = *shape;
    let longer = f64::from(shape.workers.min) / f64::from(workers);
    shape.workers = WorkerRange::exactly(workers);
    let mut job = Job { shape: Parallelism::DataParallel(shape), ..job.clone() };
    job.declared.iteration = job.declared.iteration.map(|each| each.scaled(longer));
    job.declared.limit = job.declared.limit.map(|limit| limit.scaled(longer));
    Some(job)
}

/// Whose end would make room for a job that does not fit now; `None` if it fits, or no end would help.
pub(super) fn room(seen: &Snapshot, make: &Make<'_>, view: &JobView, free: &FreeCapacity) -> Option<Room> {
    let ask = Ask::minimum(&view.job.shape, &view.job.wanted);
    let fits = |free: &FreeCapacity| free.clone().place(Rule::Pack, &ask).is_some();
    if fits(free) {
        return None;
    }
    let of_use =
        |other: &&JobView| other.target.nodes().iter().any(|node| capacity::allows(seen, &view.job, *node));
    let mut running: Vec<&JobView> = seen.jobs().filter(of_use).collect();
    running.sort_by_key(|other| {
        let left = other.declared_remaining(seen.at);
        (left.is_none(), left, other.id())
    });
    let mut left = free.clone();
    let mut ends: Vec<&JobView> = Vec::new();
    for other in running {
        left.release(&other.target, &other.job.shape);
        ends.push(other);
        if fits(&left) {
            leave_out(&mut ends, &mut left, &fits);
            return Some(judged(seen, make, view, &ends));
        }
    }
    None
}

/// Takes those out of the list whose end is not needed.
fn leave_out(ends: &mut Vec<&JobView>, left: &mut FreeCapacity, fits: &dyn Fn(&FreeCapacity) -> bool) {
    if ends.len() > MOST_ENDS {
        return;
    }
    for i in (0..ends.len()).rev() {
        left.take(&ends[i].target, &ends[i].job.shape);
        if fits(left) {
            ends.remove(i);
        } else {
            left.release(&ends[i].target, &ends[i].job.shape);
        }
    }
}

fn judged(seen: &Snapshot, make: &Make<'_>, view: &JobView, ends: &[&JobView]) -> Room {
    let claims = ends.iter().map(|other| other.declared_remaining(seen.at));
    let last = claims.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max());
    let mut later = seen.clone();
    for other in ends {
        later.jobs.remove(&other.id());
    }
    Room {
        ends: ends.iter().map(|other| other.id()).collect(),
        at: last.map(|left| seen.at + left),
        then_starts: starts(&later, make, view.id()),
    }
}
