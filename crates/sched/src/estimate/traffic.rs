//! What a graph of tasks sends from node to node.

use crate::model::{Allocation, Along, NodeId, Parallelism, TaskGraph, TaskId};

/// Bytes that go from node to node in one iteration of a job that holds this: along the edges whose ends are on different
/// nodes, and in the all-reduce of replicas. Where only some replicas are whole they do the work of all, and the tasks of the
/// others send nothing. What stays on a node counts as nothing, and so does a job that is no graph.
///
/// A ring over `n` nodes carries `2 (n - 1)` times the data in all (Patarasuk and Yuan, 2009).
pub fn traffic_bytes(shape: &Parallelism, held: &Allocation) -> f64 {
    let Parallelism::TaskGraph(graph) = shape else { return 0.0 };
    let mut nodes: Vec<Option<NodeId>> = vec![None; graph.tasks().len()];
    for p in held.placements() {
        nodes[p.task.index()] = Some(p.node);
    }
    let whole = whole_replicas(graph, &nodes);
    if whole.is_empty() {
        return 0.0;
    }
    let node_of = |task: TaskId| {
        let replica = graph.tasks()[task.index()].replica;
        let counts = replica.is_none_or(|replica| whole.binary_search(&replica).is_ok());
        nodes[task.index()].filter(|_| counts)
    };
    let crosses =
        |from: TaskId, to: TaskId| matches!((node_of(from), node_of(to)), (Some(a), Some(b)) if a != b);
    let crossing = graph.edges().iter().filter(|edge| crosses(edge.from, edge.to));
    let mut bytes: f64 = crossing.map(|edge| graph.flow(edge) as f64).sum();
    if let Some(reduce) = graph.reduce().filter(|_| whole.len() > 1) {
        let last = (0..graph.tasks().len() as u32).map(TaskId).filter(|task| graph.outputs(*task).is_empty());
        let mut ends: Vec<NodeId> = last.filter_map(node_of).collect();
        ends.sort_unstable();
        ends.dedup();
        let over = |nodes: usize| 2.0 * (nodes.max(1) - 1) as f64 * reduce.bytes as f64;
        bytes += match reduce.along {
            Along::Ring => over(ends.len()),
            Along::Torus => {
                let row = (ends.len() as f64).sqrt().ceil() as usize;
                let columns = ends.len().div_ceil(row.max(1));
                columns as f64 * over(row) + over(columns)
            }
        };
    }
    bytes * graph.replicas().len() as f64 / whole.len() as f64
}

/// The replicas of which every task is somewhere, ascending.
fn whole_replicas(graph: &TaskGraph, nodes: &[Option<NodeId>]) -> Vec<u32> {
    let missing = |replica: u32| {
        graph.tasks().iter().zip(nodes).any(|(task, node)| task.replica == Some(replica) && node.is_none())
    };
    graph.replicas().iter().copied().filter(|replica| !missing(*replica)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AllReduce, CopyId, Edge, GpuSet, Placement, Resources, Task};

    fn graph(replicas: u32, server: bool, reduce: Option<AllReduce>) -> Parallelism {
        let task = |replica| Task {
            demand: Resources::NONE,
            parameters: 1,
            replica,
            compute_s: 1.0,
            state_bytes: 0,
        };
        let mut tasks: Vec<Task> = (0..2 * replicas).map(|i| task(Some(i / 2))).collect();
        let edge = |from, to, bytes| Edge { from: TaskId(from), to: TaskId(to), bytes };
        let mut edges: Vec<Edge> = (0..replicas).map(|i| edge(2 * i, 2 * i + 1, 100)).collect();
        if server {
            tasks.push(task(None));
            edges.extend((0..replicas).map(|i| edge(2 * i + 1, 2 * replicas, 7)));
        }
        Parallelism::TaskGraph(TaskGraph::new(tasks, edges, reduce, true).expect("chains"))
    }

    fn on(nodes: &[Option<u32>]) -> Allocation {
        let placed = nodes.iter().enumerate().filter_map(|(task, node)| {
            Some(Placement {
                copy: CopyId(0),
                task: TaskId(task as u32),
                node: NodeId((*node)?),
                count: 1,
                gpus: GpuSet::NONE,
            })
        });
        Allocation::new(placed.collect())
    }

    #[test]
    fn only_what_crosses_counts_and_what_goes_to_a_server_comes_back() {
        let one = graph(1, true, None);
        assert_eq!(traffic_bytes(&one, &on(&[Some(3), Some(3), Some(3)])), 0.0);
        assert_eq!(traffic_bytes(&one, &on(&[Some(3), Some(4), Some(4)])), 100.0);
        assert_eq!(traffic_bytes(&one, &on(&[Some(3), Some(3), Some(4)])), 14.0);
        assert_eq!(traffic_bytes(&one, &on(&[Some(3), None, Some(4)])), 0.0, "it does not run");
        assert_eq!(traffic_bytes(&Parallelism::gang(2), &on(&[Some(1)])), 0.0);
    }

    #[test]
    fn whole_replicas_do_the_work_of_all() {
        let two = graph(2, true, None);
        let apart = [Some(0), Some(1), Some(0), Some(1), Some(1)];
        assert_eq!(traffic_bytes(&two, &on(&apart)), 200.0);
        let half = [Some(0), Some(1), Some(0), None, Some(1)];
        assert_eq!(traffic_bytes(&two, &on(&half)), 200.0);
    }

    #[test]
    fn replicas_agree_along_a_ring_or_a_torus() {
        let reduce = |along| Some(AllReduce { along, bytes: 10 });
        let apart: Vec<Option<u32>> = (0..8).map(|task| Some(task / 2)).collect();
        assert_eq!(traffic_bytes(&graph(4, false, reduce(Along::Ring)), &on(&apart)), 60.0);
        // Two rows of two nodes, then two columns of two, each with half of the data: as much as two whole ones would carry.
        assert_eq!(traffic_bytes(&graph(4, false, reduce(Along::Torus)), &on(&apart)), 60.0);
        let together = vec![Some(5); 8];
        assert_eq!(traffic_bytes(&graph(4, false, reduce(Along::Ring)), &on(&together)), 0.0);
    }
}
