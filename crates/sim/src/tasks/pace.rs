//! How long an iteration of a graph takes where its tasks are.

use std::collections::BTreeMap;

use trainyard_sched::estimate::{graph_iteration_s, ring_all_reduce_s};
use trainyard_sched::model::{Along, Cluster, Edge, Link, NodeId, TaskGraph, TaskId};

use super::Loads;

/// What is around a job.
pub(crate) struct Around<'a> {
    /// The cluster.
    pub(crate) cluster: &'a Cluster,
    /// What is used there; `None` if nobody is in anybody's way.
    pub(crate) loads: Option<&'a Loads>,
}

impl Around<'_> {
    /// Seconds that one flow of so many bytes takes from node to node: over the link between them, or with its part of the
    /// busier network of both.
    fn transfer_s(&self, from: NodeId, to: NodeId, bytes: f64) -> f64 {
        if from == to {
            return 0.0;
        }
        let link = self.cluster.links.between(self.cluster.node(from), self.cluster.node(to));
        let busiest = [from, to].into_iter().filter_map(|node| self.loads?.flow_bytes_per_s(node));
        let shared_s = busiest.map(|bytes_per_s| bytes / bytes_per_s).fold(0.0, f64::max);
        link.transfer_s(bytes).max(shared_s)
    }
}

/// Iterations a second of a graph. It makes progress only with a complete replica and all parameter servers; with some of the
/// replicas complete it goes on at that fraction of its speed (MLFS specification, section 1.8, step 5).
///
/// `at` says where a task is, if it is at work, and on which devices.
pub(crate) fn iterations_per_s(
    graph: &TaskGraph,
    pace: f64,
    at: impl Fn(TaskId) -> Option<(NodeId, u64)>,
    around: &Around<'_>,
) -> f64 {
    let mut complete: BTreeMap<Option<u32>, bool> = BTreeMap::new();
    for (i, task) in graph.tasks().iter().enumerate() {
        *complete.entry(task.replica).or_insert(true) &= at(TaskId(i as u32)).is_some();
    }
    if complete.remove(&None) == Some(false) {
        return 0.0;
    }
    let all = complete.len();
    complete.retain(|_, complete| *complete);
    if complete.is_empty() || all == 0 {
        return 0.0;
    }
    let takes_part = |task: TaskId| {
        let replica = graph.tasks()[task.index()].replica;
        replica.is_none() || complete.contains_key(&replica)
    };
    let slowdown = |task: TaskId| {
        let Some((node, devices)) = at(task) else { return 1.0 };
        pace * around.loads.map_or(1.0, |loads| loads.slowdown(node, devices))
    };
    let transfer = |number: usize| {
        let edge = &graph.edges()[number];
        let (Some((from, _)), Some((to, _))) = (at(edge.from), at(edge.to)) else { return 0.0 };
        around.transfer_s(from, to, graph.flow(edge) as f64)
    };
    let mut seconds = graph_iteration_s(graph, takes_part, slowdown, transfer);
    seconds += all_reduce_s(graph, &at, takes_part, around, complete.len());
    let part = complete.len() as f64 / all as f64;
    if seconds > 0.0 { part / seconds } else { 0.0 }
}

/// Seconds in which replicas agree: over the nodes that their last tasks are on, the slowest of them setting the pace.
fn all_reduce_s(
    graph: &TaskGraph,
    at: impl Fn(TaskId) -> Option<(NodeId, u64)>,
    takes_part: impl Fn(TaskId) -> bool,
    around: &Around<'_>,
    replicas: usize,
) -> f64 {
    let Some(reduce) = graph.reduce().filter(|_| replicas > 1) else { return 0.0 };
    let last = |task: &TaskId| takes_part(*task) && graph.outputs(*task).is_empty();
    let mut nodes: Vec<NodeId> = (0..graph.tasks().len() as u32)
        .map(TaskId)
        .filter(last)
        .filter_map(|task| Some(at(task)?.0))
        .collect();
    nodes.sort_unstable();
    nodes.dedup();
    let (Some(first), Some(end)) = (nodes.first(), nodes.last()) else { return 0.0 };
    let mut link: Link = around.cluster.links.between(around.cluster.node(*first), around.cluster.node(*end));
    for bytes_per_s in nodes.iter().filter_map(|node| around.loads?.flow_bytes_per_s(*node)) {
        link.bytes_per_s = link.bytes_per_s.min(bytes_per_s as u64).max(1);
    }
    let over = |nodes: u32, bytes: f64| ring_all_reduce_s(bytes, nodes, link, 1);
    let (count, bytes) = (nodes.len() as u32, reduce.bytes as f64);
    match reduce.along {
        Along::Ring => over(count, bytes),
        // Along rows with all the data, then along columns with what a row's node has summed up.
        Along::Torus => {
            let row = f64::from(count).sqrt().ceil() as u32;
            let columns = count.div_ceil(row.max(1));
            over(row, bytes) + over(columns, bytes / f64::from(row.max(1)))
        }
    }
}

/// The edges whose ends are on different nodes.
pub(crate) fn crossings(
    graph: &TaskGraph,
    at: impl Fn(TaskId) -> Option<NodeId>,
) -> impl Iterator<Item = (NodeId, NodeId)> {
    graph.edges().iter().filter_map(move |edge: &Edge| {
        let (from, to) = (at(edge.from)?, at(edge.to)?);
        (from != to).then_some((from, to))
    })
}
