//! How much room there is for a job, and what rules out each node that has none.

use serde::{Deserialize, Serialize};

use crate::model::{GPU, Job, NodeId, NodeState, Parallelism, Resources, UNLIMITED};
use crate::place::FreeCapacity;
use crate::view::Snapshot;

/// Nodes by what they are to one job. The counts of nodes sum up to all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// GPUs that its smallest gang needs.
    pub needs_gpus: f64,
    /// CPU cores that its smallest gang needs.
    pub needs_cpus: f64,
    /// Workers of its smallest gang.
    pub workers: u32,
    /// GPUs that are free on nodes that it may use.
    pub free_gpus: f64,
    /// CPU cores that are free there; of nodes that do not track them nothing is counted.
    pub free_cpus: f64,
    /// The most workers that one node has room for now.
    pub largest_block: u32,
    /// Nodes that are down or drain.
    pub nodes_not_up: u32,
    /// Nodes without a GPU type that it accepts.
    pub nodes_of_other_type: u32,
    /// Nodes that could not hold one worker even if they were idle.
    pub nodes_too_small: u32,
    /// Nodes that have no room for one worker now.
    pub nodes_full: u32,
    /// Nodes with room for a worker or more.
    pub nodes_with_room: u32,
}

impl Capacity {
    pub(super) fn of(seen: &Snapshot, free: &FreeCapacity, job: &Job) -> Self {
        let piece = piece(job);
        let gpus = |milli: u64| milli as f64 / GPU as f64;
        let mut found = Self {
            needs_gpus: gpus(job.shape.minimum().gpu_milli),
            needs_cpus: job.shape.minimum().cpu_milli as f64 / 1e3,
            workers: job.shape.data_parallel().map_or(1, |shape| shape.workers.min),
            ..Self::default()
        };
        for node in &seen.cluster.nodes {
            let slots = free.slots(node.id, &piece, u64::from(u32::MAX)) as u32;
            let counted = if node.state != NodeState::Up {
                &mut found.nodes_not_up
            } else if !allows(seen, job, node.id) {
                &mut found.nodes_of_other_type
            } else if !piece.fits_in(&node.holds) {
                &mut found.nodes_too_small
            } else if slots == 0 {
                &mut found.nodes_full
            } else {
                &mut found.nodes_with_room
            };
            *counted += 1;
            if node.state == NodeState::Up && allows(seen, job, node.id) {
                found.free_gpus += gpus(free.room(node.id).gpu_milli);
                let tracks_cpus = node.holds.cpu_milli != UNLIMITED;
                found.free_cpus += if tracks_cpus { free.room(node.id).cpu_milli as f64 / 1e3 } else { 0.0 };
                found.largest_block = found.largest_block.max(slots);
            }
        }
        found
    }
}

/// What has to be on one node: a worker, or the largest task.
fn piece(job: &Job) -> Resources {
    match &job.shape {
        Parallelism::DataParallel(shape) => shape.worker,
        Parallelism::TaskGraph(graph) => {
            graph.tasks().iter().map(|task| task.demand).max_by_key(Resources::amounts).unwrap_or_default()
        }
    }
}

/// Whether a job accepts the GPUs of a node, or needs none.
pub(super) fn allows(seen: &Snapshot, job: &Job, node: NodeId) -> bool {
    let gpu_type = seen.cluster.node(node).gpu_type;
    job.shape.minimum().gpu_milli == 0 || gpu_type.is_some_and(|gpu_type| job.wanted.gpu_types.has(gpu_type))
}
