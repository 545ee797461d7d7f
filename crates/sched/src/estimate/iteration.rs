//! The time of one iteration, given where the parts of a job are.

use crate::model::{Link, TaskGraph, TaskId};

/// Seconds that a ring all-reduce of `bytes` takes over `nodes` nodes, the slowest link of the ring
/// being `link` and shared by `flows` jobs.
///
/// `2 (n - 1) / n * bytes / bandwidth` plus the delay of `2 (n - 1)` steps (Patarasuk and Yuan, 2009).
pub fn ring_all_reduce_s(bytes: f64, nodes: u32, link: Link, flows: u32) -> f64 {
    if nodes < 2 {
        return 0.0;
    }
    let n = f64::from(nodes);
    let steps = 2.0 * (n - 1.0);
    let moving = link.transfer_s(bytes * f64::from(flows.max(1))) - link.delay.as_secs_f64();
    steps / n * moving + steps * link.delay.as_secs_f64()
}

/// Seconds of one iteration of a task graph: its longest path, where a task costs its computing time
/// times `slowdown(task)` and an edge costs `transfer(edge)` (MLFS specification, section 1.8, step 5). Tasks that do not
/// take part cost nothing, and nothing flows to or from them.
pub fn graph_iteration_s(
    graph: &TaskGraph,
    takes_part: impl Fn(TaskId) -> bool,
    slowdown: impl Fn(TaskId) -> f64,
    transfer: impl Fn(usize) -> f64,
) -> f64 {
    let mut done: Vec<f64> = vec![0.0; graph.tasks().len()];
    let mut longest: f64 = 0.0;
    for (i, task) in graph.tasks().iter().enumerate() {
        let id = TaskId(i as u32);
        if !takes_part(id) {
            continue;
        }
        let inputs = graph.inputs(id).filter(|(_, edge)| takes_part(edge.from));
        let ready =
            inputs.map(|(number, edge)| done[edge.from.index()] + transfer(number)).fold(0.0, f64::max);
        done[i] = ready + task.compute_s * slowdown(id);
        longest = longest.max(done[i]);
    }
    longest
}

/// Seconds of computing on the longest path that follows each task, the task itself left out; by task.
pub fn tails_s(graph: &TaskGraph) -> Vec<f64> {
    let mut tails: Vec<f64> = vec![0.0; graph.tasks().len()];
    for i in (0..graph.tasks().len()).rev() {
        let after = graph.outputs(TaskId(i as u32)).iter().map(|edge| edge.to.index());
        tails[i] = after.map(|next| graph.tasks()[next].compute_s + tails[next]).fold(0.0, f64::max);
    }
    tails
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Edge, Resources, Span, Task};

    #[test]
    fn a_ring_moves_twice_the_data_less_one_share() {
        let link = Link { bytes_per_s: 100, delay: Span::ZERO };
        assert_eq!(ring_all_reduce_s(1000.0, 1, link, 1), 0.0);
        assert_eq!(ring_all_reduce_s(1000.0, 2, link, 1), 10.0);
        assert_eq!(ring_all_reduce_s(1000.0, 4, link, 1), 15.0);
        assert_eq!(ring_all_reduce_s(1000.0, 4, link, 2), 30.0, "two jobs share the link");
        let slow = Link { delay: Span::from_secs(1), ..link };
        assert_eq!(ring_all_reduce_s(1000.0, 2, slow, 1), 12.0);
    }

    #[test]
    fn a_graph_takes_as_long_as_its_longest_path() {
        let task = |(i, compute_s): (u32, f64)| Task {
            demand: Resources::NONE,
            parameters: 0,
            replica: Some(i / 4),
            compute_s,
            state_bytes: 0,
        };
        let edge = |from, to| Edge { from: TaskId(from), to: TaskId(to), bytes: 0 };
        let tasks = [(0, 1.0), (1, 2.0), (2, 5.0), (3, 1.0), (4, 50.0)].map(task).to_vec();
        let edges = vec![edge(0, 1), edge(0, 2), edge(1, 3), edge(2, 3)];
        let graph = TaskGraph::new(tasks, edges, None, false).expect("a diamond and an island");
        let first = |task: TaskId| task.0 < 4;
        assert_eq!(graph_iteration_s(&graph, first, |_| 1.0, |_| 0.0), 7.0);
        assert_eq!(graph_iteration_s(&graph, |_| true, |_| 1.0, |_| 0.0), 50.0);
        assert_eq!(
            graph_iteration_s(&graph, first, |_| 1.0, |edge| if edge == 2 { 10.0 } else { 0.0 }),
            14.0
        );
        assert_eq!(
            graph_iteration_s(&graph, first, |task| if task.0 == 2 { 2.0 } else { 1.0 }, |_| 0.0),
            12.0
        );
        assert_eq!(graph_iteration_s(&graph, |task| [0, 1].contains(&task.0), |_| 1.0, |_| 9.0), 12.0);
        assert_eq!(tails_s(&graph), [6.0, 1.0, 1.0, 0.0, 0.0]);
    }
}
