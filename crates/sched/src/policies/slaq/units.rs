//! What is given out to a job that can be larger or smaller: workers, or complete replicas of a graph.

use crate::decide::Plan;
use crate::model::{
    Allocation, GpuTypeId, GpuTypeSet, Job, NodeId, Parallelism, Resources, TaskGraph, TaskId, WORKER_TASK,
};
use crate::place::{complete_units, units};
use crate::view::Snapshot;

use super::Sized;
use super::shares::{Claim, PoolSet, Pools};

/// No job is given more workers than this, however much room is not tracked.
const MOST_WORKERS: u32 = 1 << 16;

/// What a job can be given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind<'a> {
    /// What it has in any case.
    pub(super) least: u32,
    /// More are of no use to it.
    pub(super) most: u32,
    /// What one unit takes; of replicas that are unlike, the most.
    pub(super) unit: Resources,
    graph: Option<&'a TaskGraph>,
}

impl<'a> Kind<'a> {
    /// That of a job; none if it has one size only.
    pub(super) fn of(job: &'a Job) -> Option<Self> {
        match &job.shape {
            Parallelism::DataParallel(shape) => (!shape.workers.is_fixed()).then(|| {
                let least = shape.workers.min.max(1);
                let most = shape.workers.max.clamp(least, MOST_WORKERS.max(shape.workers.min));
                Self { least, most, unit: shape.worker, graph: None }
            }),
            Parallelism::TaskGraph(graph) => {
                let most = graph.replicas().len() as u32;
                let of = |replica: &u32| {
                    let tasks = graph.tasks().iter().filter(|task| task.replica == Some(*replica));
                    tasks.fold(Resources::NONE, |sum, task| sum + task.demand)
                };
                let unit = graph.replicas().iter().map(of).reduce(most_of_each).unwrap_or_default();
                (graph.is_partial() && most > 1).then_some(Self { least: 1, most, unit, graph: Some(graph) })
            }
        }
    }

    /// How many units an allocation has.
    pub(super) fn units_in(&self, target: &Allocation) -> u32 {
        self.graph.map_or_else(|| target.workers(), |graph| complete_units(graph, target))
    }
}

fn most_of_each(a: Resources, b: Resources) -> Resources {
    Resources {
        gpu_milli: a.gpu_milli.max(b.gpu_milli),
        cpu_milli: a.cpu_milli.max(b.cpu_milli),
        memory_bytes: a.memory_bytes.max(b.memory_bytes),
        network_bytes_per_s: a.network_bytes_per_s.max(b.network_bytes_per_s),
    }
}

/// The pools that further units of a job may come from.
pub(super) fn pools_of(seen: &Snapshot, plan: &Plan, job: &Job, target: &Allocation) -> PoolSet {
    let types = seen.cluster.gpu_types.len();
    let has_gpus = match &job.shape {
        Parallelism::DataParallel(shape) => shape.worker.gpu_milli > 0,
        Parallelism::TaskGraph(graph) => graph.tasks().iter().any(|task| task.demand.gpu_milli > 0),
    };
    if !has_gpus {
        return (1 << (types + 1)) - 1;
    }
    // Parameter servers of a graph may be on any node.
    let on_gpus =
        target.placements().iter().filter(|p| p.gpus.devices != 0 || job.shape.data_parallel().is_some());
    let held: Vec<GpuTypeId> = on_gpus.filter_map(|p| plan.free().gpu_type(p.node)).collect();
    let usable = if job.wanted.mixed_gpu_types { job.wanted.gpu_types } else { GpuTypeSet::of(&held) };
    let of_type = |i: &usize| usable.has(GpuTypeId(*i as u8));
    (0..types).filter(of_type).fold(0, |set, i| set | 1 << (i + 1))
}

/// What is free, and what the claims hold beyond their least.
pub(super) fn pools(seen: &Snapshot, plan: &Plan, sized: &[Sized], claims: &[Claim]) -> Pools {
    let free = plan.free();
    let pool = |node| free.gpu_type(node).map_or(0, |gpu_type| gpu_type.index() + 1);
    let mut pools = vec![Resources::NONE; seen.cluster.gpu_types.len() + 1];
    for node in seen.cluster.nodes.iter().filter(|node| free.takes_work(node.id)) {
        pools[pool(node.id)] += free.room(node.id);
    }
    for (sized, claim) in sized.iter().zip(claims) {
        let target = plan.target(sized.id).expect("a claim has a target");
        let job = &seen.job(sized.id).expect("a claim is of a job that is there").job;
        for (node, beyond) in beyond_least(job, target, claim) {
            pools[pool(node)] += beyond;
        }
    }
    Pools(pools)
}

fn beyond_least(job: &Job, target: &Allocation, claim: &Claim) -> Vec<(NodeId, Resources)> {
    let mut least = claim.least;
    let Parallelism::TaskGraph(graph) = &job.shape else {
        let workers = target.placements().iter().filter(|p| p.task == WORKER_TASK);
        let beyond = workers.map(|p| {
            let kept = p.count.min(least);
            least -= kept;
            (p.node, claim.worker.times(u64::from(p.count - kept)))
        });
        return beyond.collect();
    };
    let has = |task: &TaskId| target.count_of(*task) > 0;
    let first = units(graph).into_iter().find(|unit| unit.iter().all(has)).unwrap_or_default();
    let stays = |task: TaskId| first.contains(&task) || graph.is_server(task);
    let others = target.placements().iter().filter(|p| !stays(p.task));
    others.map(|p| (p.node, graph.tasks()[p.task.index()].demand)).collect()
}
