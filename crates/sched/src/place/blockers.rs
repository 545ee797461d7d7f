//! Why something does not fit, with the numbers that a person needs.

use serde::{Deserialize, Serialize};

use crate::model::{Cluster, GPU, GpuTypeId, NodeState, Parallelism, Resources, Wanted};

use super::{Ask, FreeCapacity, Rule};

/// Why there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoRoom {
    /// What the smallest gang needs in all.
    pub need: Resources,
    /// What is free on the nodes that its constraints allow.
    pub free: Resources,
    /// The most workers (or, for a task graph, tasks of the largest kind) that one node has room for.
    pub most_on_one_node: u32,
    /// Workers of the smallest gang.
    pub workers: u32,
    /// Nodes that its constraints rule out.
    pub nodes_ruled_out: u32,
    /// Nodes that do not take work at all.
    pub nodes_not_up: u32,
}

fn largest_piece(shape: &Parallelism) -> Resources {
    match shape {
        Parallelism::DataParallel(job) => job.worker,
        Parallelism::TaskGraph(graph) => {
            let size = |r: &Resources| (r.gpu_milli, r.cpu_milli, r.memory_bytes);
            graph.tasks().iter().map(|task| task.demand).max_by_key(size).unwrap_or_default()
        }
    }
}

fn allows(wanted: &Wanted, piece: &Resources, gpu_type: Option<GpuTypeId>) -> bool {
    piece.gpu_milli == 0 || gpu_type.is_some_and(|gpu_type| wanted.gpu_types.has(gpu_type))
}

/// Counts what keeps the smallest gang of a job from fitting.
pub fn no_room(free: &FreeCapacity, shape: &Parallelism, wanted: &Wanted) -> NoRoom {
    let piece = largest_piece(shape);
    let workers = Ask::minimum(shape, wanted).workers;
    let mut answer = NoRoom {
        need: shape.minimum(),
        free: Resources::NONE,
        most_on_one_node: 0,
        workers,
        nodes_ruled_out: 0,
        nodes_not_up: free.node_count() as u32,
    };
    for (_, room) in free.up() {
        answer.nodes_not_up -= 1;
        if allows(wanted, &piece, room.gpu_type) {
            answer.free += room.room;
            let limit = if piece.is_none() { 0 } else { u64::from(u32::MAX) };
            answer.most_on_one_node = answer.most_on_one_node.max(room.slots(&piece, limit) as u32);
        } else {
            answer.nodes_ruled_out += 1;
        }
    }
    answer
}

/// The largest number of workers with which the job would fit an idle cluster, at most its minimum, if
/// it may be placed anyhow; see [`largest_gang_by`].
pub fn largest_gang(cluster: &Cluster, shape: &Parallelism, wanted: &Wanted) -> u32 {
    largest_gang_by(Rule::Pack, cluster, shape, wanted)
}

/// The largest number of workers with which the job would fit an idle cluster by a rule, at most its minimum.
///
/// Equal to the minimum means: the job can run. Nodes that are down count as present, since they may
/// return. A task graph is all or nothing: 1 or 0.
pub fn largest_gang_by(rule: Rule, cluster: &Cluster, shape: &Parallelism, wanted: &Wanted) -> u32 {
    let mut idle = cluster.clone();
    for node in &mut idle.nodes {
        node.state = NodeState::Up;
    }
    let mut free = FreeCapacity::new(&idle);
    let ask = Ask::minimum(shape, wanted);
    let mut fits = |workers: u32| {
        let placed = free.place(rule, &Ask { workers, ..ask });
        if let Some(held) = &placed {
            free.release(held, shape);
        }
        placed.is_some()
    };
    if matches!(shape, Parallelism::TaskGraph(_)) {
        return u32::from(fits(0));
    }
    if fits(ask.workers) {
        return ask.workers;
    }
    // Fewer workers fit whenever more do, so bisection finds the edge.
    let (mut good, mut bad) = (0, ask.workers);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if fits(middle) { good = middle } else { bad = middle }
    }
    good
}

impl NoRoom {
    /// A sentence such as `needs 4 workers with 4 gpus on one node; 4 gpus are free, at most 2 workers fit on one node`.
    pub fn sentence(&self) -> String {
        let gpus = |milli: u64| format!("{} gpus", milli as f64 / GPU as f64);
        let (need, free) = if self.need.gpu_milli > 0 {
            (gpus(self.need.gpu_milli), gpus(self.free.gpu_milli))
        } else {
            let cpus = |milli: u64| format!("{} cpus", milli as f64 / GPU as f64);
            (cpus(self.need.cpu_milli), cpus(self.free.cpu_milli))
        };
        let mut text = format!(
            "needs {} workers with {need} in all; {free} are free, at most {} workers fit on one node",
            self.workers, self.most_on_one_node
        );
        if self.nodes_ruled_out > 0 {
            text += &format!("; {} nodes are ruled out by its constraints", self.nodes_ruled_out);
        }
        if self.nodes_not_up > 0 {
            text += &format!("; {} nodes take no work", self.nodes_not_up);
        }
        text
    }
}
