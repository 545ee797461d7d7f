//! Where the tasks of graphs go, one by one.

use crate::model::{
    Allocation, CopyId, GPU, GpuTypeSet, NodeId, Placement, Resources, TaskGraph, TaskId, Topology, Wanted,
};

use super::rules::Fence;
use super::{FreeCapacity, Rule, Sizes};

/// Tasks that are to be placed together.
#[derive(Clone, Copy, Debug)]
pub struct TasksAsk<'a> {
    /// The graph that they belong to.
    pub graph: &'a TaskGraph,
    /// The constraints of the job.
    pub wanted: &'a Wanted,
    /// The tasks, in the order in which they are placed.
    pub tasks: &'a [TaskId],
    /// What the job has already.
    pub held: &'a Allocation,
}

/// Chooses a node for a task: what is free, the nodes where it fits, the task, and what was placed before it.
pub type Choose<'a> = dyn FnMut(&FreeCapacity, &[NodeId], TaskId, &[Placement]) -> Option<NodeId> + 'a;

/// The tasks of a graph by what makes sense alone: a complete replica, the first with the parameter servers; all tasks at
/// once where the job makes no progress otherwise.
pub fn units(graph: &TaskGraph) -> Vec<Vec<TaskId>> {
    let numbered = || graph.tasks().iter().enumerate().map(|(i, task)| (TaskId(i as u32), task.replica));
    if !graph.is_partial() {
        return vec![numbered().map(|(id, _)| id).collect()];
    }
    let of = |(i, replica): (usize, &u32)| {
        let is_in = |(_, own): &(TaskId, Option<u32>)| own.map_or(i == 0, |own| own == *replica);
        numbered().filter(is_in).map(|(id, _)| id).collect()
    };
    graph.replicas().iter().enumerate().map(of).collect()
}

/// How many replicas of a graph an allocation has complete.
pub fn complete_units(graph: &TaskGraph, held: &Allocation) -> u32 {
    let mut missing: Vec<u32> = vec![0; graph.replicas().len()];
    let mut parts = held.placements().iter().map(|p| p.task).peekable();
    for (i, task) in graph.tasks().iter().enumerate() {
        let has = parts.next_if_eq(&TaskId(i as u32)).is_some();
        match task.replica {
            None if !has => return 0,
            Some(replica) if !has => {
                let at = graph.replicas().binary_search(&replica).expect("its replica is one of the graph's");
                missing[at] += 1;
            }
            _ => {}
        }
    }
    missing.iter().filter(|missing| **missing == 0).count() as u32
}

impl FreeCapacity {
    pub(super) fn place_graph(
        &mut self,
        rule: Rule,
        graph: &TaskGraph,
        wanted: &Wanted,
    ) -> Option<Allocation> {
        let tasks: Vec<TaskId> = (0..graph.tasks().len() as u32).map(TaskId).collect();
        let ask = TasksAsk { graph, wanted, tasks: &tasks, held: &Allocation::NONE };
        self.place_tasks(rule, &ask).map(Allocation::new)
    }

    /// Finds room for tasks by a rule, takes it and returns it: all or none, near what the job has already where its
    /// constraints say so. On `None` nothing has changed. Rules that spread tasks try to pack them where they do not fit
    /// otherwise.
    pub fn place_tasks(&mut self, rule: Rule, ask: &TasksAsk<'_>) -> Option<Vec<Placement>> {
        let fences = self.fences_for(ask)?;
        let ways: &[Rule] = match rule {
            Rule::Spread | Rule::Fill => &[rule, Rule::Pack],
            Rule::FirstFit | Rule::Pack | Rule::Consolidate | Rule::Yarn => &[Rule::Pack],
        };
        ways.iter().find_map(|way| fences.iter().find_map(|fence| self.place_tasks_inside(*way, ask, *fence)))
    }

    /// The same with nodes of one's own choice, and there the least used devices. `choose` is told what is free, where the
    /// task fits, and what was placed before it.
    pub fn place_tasks_by(&mut self, ask: &TasksAsk<'_>, choose: &mut Choose<'_>) -> Option<Vec<Placement>> {
        let fences = self.fences_for(ask)?;
        fences.into_iter().find_map(|fence| {
            let mut placed = Vec::with_capacity(ask.tasks.len());
            for task in ask.tasks {
                let demand = ask.graph.tasks()[task.index()].demand;
                let mut fitting = self.in_order(&demand, fence);
                fitting.retain(|node| self.slots(*node, &demand, 1) == 1);
                let Some(node) = choose(self, &fitting, *task, &placed).filter(|node| fitting.contains(node))
                else {
                    self.give_back(ask.graph, &placed);
                    return None;
                };
                placed.push(self.take_least_used((CopyId(0), *task), node, &demand));
            }
            Some(placed)
        })
    }

    /// The nodes that may be used together, those that are tried first first; none if GPUs have not enough left anywhere.
    fn fences_for(&mut self, ask: &TasksAsk<'_>) -> Option<Vec<Fence>> {
        let demands = || ask.tasks.iter().map(|task| &ask.graph.tasks()[task.index()].demand);
        let largest = *demands().max_by_key(|demand| demand.gpu_milli)?;
        let held = ask.held.placements();
        let types: Vec<_> =
            held.iter().filter(|p| p.gpus.devices != 0).filter_map(|p| self.gpu_type(p.node)).collect();
        let mut wanted = *ask.wanted;
        if !types.is_empty() && !wanted.mixed_gpu_types {
            wanted.gpu_types = GpuTypeSet::of(&types);
        }
        if !self.may_hold(&wanted, &Sizes::of(demands())) {
            return None;
        }
        let mut fences: Vec<Fence> = self.fences(Rule::Pack, &wanted, &largest).collect();
        if let Some(first) = held.first() {
            fences.retain(|fence| fence.rack.is_none_or(|rack| rack == self.rack(first.node)));
        }
        if wanted.topology == Topology::SameNode {
            let alone = |fence: &Fence| -> Vec<Fence> {
                let nodes = held.first().map_or_else(|| self.in_order(&largest, *fence), |p| vec![p.node]);
                nodes.into_iter().map(|node| Fence { node: Some(node), ..*fence }).collect()
            };
            fences = fences.iter().flat_map(alone).collect();
        }
        Some(fences)
    }

    fn place_tasks_inside(&mut self, rule: Rule, ask: &TasksAsk<'_>, fence: Fence) -> Option<Vec<Placement>> {
        let mut placed: Vec<Placement> = Vec::with_capacity(ask.tasks.len());
        // Nodes as they stand before anything is taken, by whether GPUs are wanted.
        let mut orders: [Option<Vec<NodeId>>; 2] = [None, None];
        for task in ask.tasks {
            let demand = ask.graph.tasks()[task.index()].demand;
            let node = match rule {
                Rule::Fill => {
                    let order = &mut orders[usize::from(demand.gpu_milli > 0)];
                    let order = order.get_or_insert_with(|| self.filling_order(&demand, fence));
                    order.iter().copied().find(|node| self.slots(*node, &demand, 1) == 1)
                }
                Rule::Spread => {
                    let nodes = &mut orders[usize::from(demand.gpu_milli > 0)];
                    let nodes = nodes.get_or_insert_with(|| self.filling_order(&demand, fence));
                    self.emptiest_that_fits(nodes, &demand)
                }
                _ => self.choose_one_node(Rule::Pack, &demand, 1, fence).map(|chosen| chosen[0].0),
            };
            let Some(node) = node else {
                self.give_back(ask.graph, &placed);
                return None;
            };
            let part = (CopyId(0), *task);
            placed.push(match rule {
                Rule::Pack => self.take_slots(part, node, &demand, 1),
                _ => self.take_least_used(part, node, &demand),
            });
        }
        Some(placed)
    }

    /// The node with most left of those where a task fits; the one with the lower index of equals.
    fn emptiest_that_fits(&self, nodes: &[NodeId], demand: &Resources) -> Option<NodeId> {
        let mut best: Option<(u64, NodeId)> = None;
        for node in nodes {
            let left = self.emptiness(*node, demand);
            let is_better = best.is_none_or(|(most, first)| left > most || (left == most && *node < first));
            if is_better && self.slots(*node, demand, 1) == 1 {
                best = Some((left, *node));
            }
        }
        best.map(|(_, node)| node)
    }

    /// Takes what a task demands of a node, and of its devices the one that has most left, if it wants a part of one.
    fn take_least_used(&mut self, part: (CopyId, TaskId), node: NodeId, demand: &Resources) -> Placement {
        if !(1..GPU).contains(&demand.gpu_milli) {
            return self.take_slots(part, node, demand, 1);
        }
        let device = self.least_used(node);
        self.take_on(part, (node, device), demand)
    }

    /// Nodes inside a fence in the order in which they are filled, those with any part of a device free included.
    fn filling_order(&self, demand: &Resources, fence: Fence) -> Vec<NodeId> {
        let smallest = Resources { gpu_milli: demand.gpu_milli.min(1), ..Resources::NONE };
        self.emptiest_first(&smallest, fence)
    }

    /// The device of a node that has most left; the first of equals.
    fn least_used(&self, node: NodeId) -> u32 {
        let devices = 0..self.node(node).device_count();
        devices
            .min_by_key(|i| std::cmp::Reverse(self.free_share(node, *i)))
            .expect("a task with a part of a GPU goes where there is one")
    }

    fn give_back(&mut self, graph: &TaskGraph, placed: &[Placement]) {
        for p in placed {
            self.release_one(p, graph.tasks()[p.task.index()].demand);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cluster, Task};

    fn task((replica, gpu_milli): (Option<u32>, u64)) -> Task {
        let demand = Resources { gpu_milli, cpu_milli: 1000, ..Resources::NONE };
        Task { demand, parameters: 0, replica, compute_s: 1.0, state_bytes: 0 }
    }

    fn graph(tasks: &[(Option<u32>, u64)], partial: bool) -> TaskGraph {
        let tasks = tasks.iter().copied().map(task).collect();
        TaskGraph::new(tasks, Vec::new(), None, partial).expect("it has tasks")
    }

    /// Where each task of a placed graph is: node and device.
    fn places(placed: &[Placement]) -> Vec<(u32, u32)> {
        placed.iter().map(|p| (p.node.0, p.gpus.devices.trailing_zeros())).collect()
    }

    fn ask<'a>(graph: &'a TaskGraph, tasks: &'a [TaskId], wanted: &'a Wanted) -> TasksAsk<'a> {
        TasksAsk { graph, wanted, tasks, held: &Allocation::NONE }
    }

    #[test]
    fn a_unit_is_a_replica_and_the_first_has_the_servers() {
        let tasks = [(Some(4), 200), (None, 0), (Some(7), 200), (Some(4), 200)];
        let ids = |unit: &Vec<TaskId>| unit.iter().map(|task| task.0).collect::<Vec<_>>();
        let partial = graph(&tasks, true);
        assert_eq!(units(&partial).iter().map(ids).collect::<Vec<_>>(), [vec![0, 1, 3], vec![2]]);
        assert_eq!(units(&graph(&tasks, false)).iter().map(ids).collect::<Vec<_>>(), [vec![0, 1, 2, 3]]);
        let held = |tasks: &[u32]| {
            let one = |task: &u32| Placement {
                copy: CopyId(0),
                task: TaskId(*task),
                node: NodeId(0),
                count: 1,
                gpus: crate::model::GpuSet::NONE,
            };
            complete_units(&partial, &Allocation::new(tasks.iter().map(one).collect()))
        };
        assert_eq!((held(&[0, 1, 3]), held(&[0, 1, 2, 3]), held(&[1, 2]), held(&[0, 2, 3])), (1, 2, 1, 0));
        assert_eq!((held(&[0, 1]), held(&[])), (0, 0));
    }

    #[test]
    fn tasks_are_spread_over_nodes_and_devices_or_fill_one_node_after_the_other() {
        let wanted = Wanted::default();
        let graph = graph(&[(Some(0), 600); 5], false);
        let all: Vec<TaskId> = (0..5).map(TaskId).collect();
        let place = |rule| {
            let mut free = FreeCapacity::new(&Cluster::uniform(2, 2, "v100"));
            places(&free.place_tasks(rule, &ask(&graph, &all[..4], &wanted)).expect("four fit"))
        };
        assert_eq!(place(Rule::Spread), [(0, 0), (1, 0), (0, 1), (1, 1)]);
        assert_eq!(place(Rule::Fill), [(0, 0), (0, 1), (1, 0), (1, 1)]);
        let mut free = FreeCapacity::new(&Cluster::uniform(2, 2, "v100"));
        let before = free.clone();
        for rule in [Rule::Spread, Rule::Fill, Rule::Pack] {
            assert_eq!(free.place_tasks(rule, &ask(&graph, &all, &wanted)), None, "four devices, five tasks");
            assert_eq!(free, before);
        }
    }

    #[test]
    fn the_least_used_device_is_taken_and_what_does_not_fit_so_is_packed() {
        let wanted = Wanted::default();
        let graph = graph(&[(Some(0), 300), (Some(0), 300), (Some(0), 700), (Some(0), 700)], false);
        let mut free = FreeCapacity::new(&Cluster::uniform(1, 2, "v100"));
        let _ = free.take_on((CopyId(0), TaskId(0)), (NodeId(0), 0), &task((None, 100)).demand);
        let one = [TaskId(0)];
        let placed = free.place_tasks(Rule::Fill, &ask(&graph, &one, &wanted)).expect("it fits");
        assert_eq!(places(&placed), [(0, 1)], "the second device has more left");
        // One on each of two devices leaves no room for the large ones; both on one device do not, either.
        let mut free = FreeCapacity::new(&Cluster::uniform(1, 3, "v100"));
        let all = [TaskId(0), TaskId(1), TaskId(2), TaskId(3)];
        let mut hold = free.clone();
        let spread = hold.place_tasks_inside(
            Rule::Spread,
            &ask(&graph, &all, &wanted),
            Fence { types: GpuTypeSet::ALL, rack: None, node: None },
        );
        assert!(spread.is_some(), "two small ones leave .7 and .7 and 1");
        let four = self::graph(
            &[(Some(0), 300), (Some(0), 300), (Some(0), 300), (Some(0), 1000), (Some(0), 1000)],
            false,
        );
        let all: Vec<TaskId> = (0..5).map(TaskId).collect();
        let placed = free.place_tasks(Rule::Spread, &ask(&four, &all, &wanted)).expect("packed they fit");
        assert_eq!(places(&placed), [(0, 0), (0, 0), (0, 0), (0, 1), (0, 2)]);
    }

    #[test]
    fn two_tasks_of_a_job_do_not_both_come_back_to_what_is_left_for_one() {
        let graph = graph(&[(Some(0), 300), (Some(0), 300)], false);
        let shape = crate::model::Parallelism::TaskGraph(graph.clone());
        let mut free = FreeCapacity::new(&Cluster::uniform(1, 1, "v100"));
        let both = [TaskId(0), TaskId(1)];
        let held = free.place_tasks(Rule::Pack, &ask(&graph, &both, &Wanted::default()));
        let held = Allocation::new(held.expect("they fit"));
        free.release(&held, &shape);
        let _ = free.take_on((CopyId(0), TaskId(0)), (NodeId(0), 0), &task((None, 500)).demand);
        assert!(!free.has_room_for(&held, &shape) && !free.keep(&held, &shape), ".5 is left of .6");
        free.release_one(&Placement { count: 1, ..held.placements()[0] }, task((None, 300)).demand);
        assert!(free.keep(&held, &shape));
    }

    #[test]
    fn more_tasks_go_near_what_the_job_has_where_it_says_so() {
        let graph = graph(&[(Some(0), 300), (Some(1), 300)], true);
        let wanted = Wanted { topology: Topology::SameNode, ..Wanted::default() };
        let mut free = FreeCapacity::new(&Cluster::uniform(2, 1, "v100"));
        let first = free.place_tasks(Rule::Fill, &ask(&graph, &[TaskId(0)], &wanted)).expect("room");
        let held = Allocation::new(first);
        let more = TasksAsk { held: &held, ..ask(&graph, &[TaskId(1)], &wanted) };
        assert_eq!(free.place_tasks(Rule::Fill, &more).map(|placed| places(&placed)), Some(vec![(0, 0)]));
        let full = free.clone();
        let _ = free.take_on((CopyId(0), TaskId(0)), (NodeId(0), 0), &task((None, 300)).demand);
        assert_eq!(free.place_tasks(Rule::Fill, &more), None, "the node is full");
        assert_ne!(full, free);
    }
}
