//! What is free while a cluster is given away anew, unit by unit, each on the node with least on it.
//!
//! A node's load is what is taken of its GPUs and CPUs together, in thousandths (as in the public code of DL2, where both
//! are counted in slots). Memory and network are not part of it, as they have other units. Ties go to the lower index.
//!
//! Cost: the first node in order is found at once. A node on which a unit does not fit is left out for units of that kind
//! until something is given back there, so all units of one kind together cost O((units + nodes) log nodes).

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::model::{
    Allocation, Cluster, CopyId, GpuTypeId, GpuTypeSet, NodeId, NodeState, Parallelism, Placement, RackId,
    Resources, TaskId, Topology, UNLIMITED, Wanted,
};

use super::{Ask, FreeCapacity, Rule};

/// The nodes on which a job may have more, given what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Near {
    /// GPU types for what needs a GPU.
    types: GpuTypeSet,
    rack: Option<RackId>,
    node: Option<NodeId>,
    /// Where it must not go.
    not: Option<NodeId>,
}

/// What is free, and the nodes by load.
#[derive(Clone, Debug)]
pub struct Board {
    free: FreeCapacity,
    by_load: BTreeSet<(u64, NodeId)>,
    holds: Vec<Resources>,
    /// For each kind of unit the nodes on which it may still fit, by the load at which each was last seen; loads only grow
    /// until something is given back there.
    queues: BTreeMap<(Resources, Near), ByLoad>,
}

/// Nodes, the least loaded first and of equal ones the lower index.
type ByLoad = BinaryHeap<Reverse<(u64, NodeId)>>;

/// GPUs and CPUs together, in thousandths; what is not tracked counts for nothing.
fn sum(amounts: Resources) -> u64 {
    let [gpus, cpus, ..] = amounts.amounts();
    gpus + if cpus == UNLIMITED { 0 } else { cpus }
}

impl Board {
    /// A cluster on which nothing runs.
    pub fn new(cluster: &Cluster) -> Self {
        Self {
            free: FreeCapacity::new(cluster),
            by_load: cluster.nodes.iter().map(|node| (0, node.id)).collect(),
            holds: cluster.nodes.iter().map(|node| node.holds).collect(),
            queues: BTreeMap::new(),
        }
    }

    /// What is free.
    pub const fn free(&self) -> &FreeCapacity {
        &self.free
    }

    /// What a node holds if nothing runs there.
    pub fn holds(&self, node: NodeId) -> Resources {
        self.holds[node.index()]
    }

    fn load(&self, node: NodeId) -> u64 {
        sum(self.holds(node)) - sum(self.free.room(node))
    }

    /// Changes what is free on some nodes and keeps their order.
    fn edit<R>(&mut self, nodes: &[NodeId], change: impl FnOnce(&mut FreeCapacity) -> R) -> R {
        for node in nodes {
            self.by_load.remove(&(self.load(*node), *node));
        }
        let result = change(&mut self.free);
        for node in nodes {
            self.by_load.insert((self.load(*node), *node));
        }
        result
    }

    /// Takes an allocation, wherever it is.
    ///
    /// # Panics
    /// If any of it is not free.
    pub fn hold(&mut self, allocation: &Allocation, shape: &Parallelism) {
        self.edit(&allocation.nodes(), |free| free.take(allocation, shape));
    }

    /// Takes an allocation if all of it is free.
    pub fn keep(&mut self, allocation: &Allocation, shape: &Parallelism) -> bool {
        self.edit(&allocation.nodes(), |free| free.keep(allocation, shape))
    }

    /// Gives an allocation back.
    pub fn release(&mut self, allocation: &Allocation, shape: &Parallelism) {
        let nodes = allocation.nodes();
        self.edit(&nodes, |free| free.release(allocation, shape));
        // A node may stand in a queue twice from now on; what is out of date there is set right when it comes up.
        let mut queues = std::mem::take(&mut self.queues);
        for ((together, near), queue) in &mut queues {
            let usable = nodes.iter().filter(|node| self.is_usable(**node, *near, together.gpu_milli > 0));
            queue.extend(usable.map(|node| Reverse((self.load(*node), *node))));
        }
        self.queues = queues;
    }

    /// Places a whole gang by a rule, but not on the node `not`.
    pub fn place(&mut self, rule: Rule, ask: &Ask<'_>, not: Option<NodeId>) -> Option<Allocation> {
        let hidden = not.filter(|node| self.free.takes_work(*node));
        hidden.into_iter().for_each(|node| self.free.set_state(node, NodeState::Draining));
        let placed = self.free.place(rule, ask);
        hidden.into_iter().for_each(|node| self.free.set_state(node, NodeState::Up));
        let placed = placed?;
        self.free.release(&placed, ask.shape);
        self.edit(&placed.nodes(), |free| free.take(&placed, ask.shape));
        Some(placed)
    }

    /// The nodes on which a job may have more that holds `held` and keeps away from the node `not`.
    pub fn near(&self, wanted: &Wanted, held: &[Placement], not: Option<NodeId>) -> Near {
        let first = held.first().map(|placement| placement.node);
        let rack = |node: NodeId| self.free.node(node).rack;
        let on_devices = held.iter().find(|placement| placement.gpus.devices != 0);
        let bound = on_devices.filter(|_| !wanted.mixed_gpu_types);
        let types = bound.and_then(|placement| self.free.gpu_type(placement.node));
        Near {
            types: types.map_or(wanted.gpu_types, |gpu_type| GpuTypeSet::of(&[gpu_type])),
            rack: first.filter(|_| wanted.topology == Topology::SameRack).map(rack),
            node: first.filter(|_| wanted.topology == Topology::SameNode),
            not,
        }
    }

    /// Whether a node takes work and a job may use it.
    fn is_usable(&self, node: NodeId, near: Near, needs_gpu: bool) -> bool {
        let room = self.free.node(node);
        room.takes_work
            && (!needs_gpu || room.gpu_type.is_some_and(|gpu_type| near.types.has(gpu_type)))
            && near.rack.is_none_or(|rack| room.rack == rack)
            && near.node.is_none_or(|only| only == node)
            && near.not != Some(node)
    }

    /// How often these parts fit together on a node, at most `limit` times; 0 where the job may not be.
    pub fn slots(&self, parts: &[(TaskId, Resources)], near: Near, node: NodeId, limit: u64) -> u64 {
        let together = parts.iter().fold(Resources::NONE, |sum, (_, demand)| sum + *demand);
        let usable = self.is_usable(node, near, together.gpu_milli > 0);
        if usable { self.free.slots(node, &together, limit) } else { 0 }
    }

    /// The least loaded node on which one of each of these parts fits together; with `first_only` it is the least loaded
    /// of all, or none.
    pub fn least_loaded(
        &mut self,
        parts: &[(TaskId, Resources)],
        near: Near,
        first_only: bool,
    ) -> Option<NodeId> {
        let together = parts.iter().fold(Resources::NONE, |sum, (_, demand)| sum + *demand);
        let needs_gpu = together.gpu_milli > 0;
        let fits = |board: &Self, node: NodeId| board.free.slots(node, &together, 1) == 1;
        let nodes = self.by_load.iter().map(|(_, node)| *node);
        if first_only {
            let first = nodes.into_iter().find(|node| self.is_usable(*node, near, needs_gpu));
            return first.filter(|node| fits(self, *node));
        }
        let kind = (together, near);
        let mut queue = self.queues.remove(&kind).unwrap_or_else(|| {
            let usable = nodes.filter(|node| self.is_usable(*node, near, needs_gpu));
            usable.map(|node| Reverse((self.load(node), node))).collect()
        });
        let found = loop {
            let Some(mut first) = queue.peek_mut() else { break None };
            let Reverse((seen, node)) = *first;
            let load = self.load(node);
            if !fits(self, node) {
                PeekMut::pop(first);
            } else if load == seen {
                break Some(node);
            } else {
                *first = Reverse((load, node));
            }
        };
        self.queues.insert(kind, queue);
        found
    }

    /// The least loaded nodes on which a job may be that holds nothing yet, at most so many: a list for each GPU type that
    /// it may use, as all of it must be on one type, or a single list if it needs no GPU or may mix them.
    pub fn alike_nodes(&self, near: Near, needs_gpu: bool, may_mix: bool, most: usize) -> Vec<Vec<NodeId>> {
        let list = |near: Near| -> Vec<NodeId> {
            let nodes = self.by_load.iter().map(|(_, node)| *node);
            nodes.filter(|node| self.is_usable(*node, near, needs_gpu)).take(most).collect()
        };
        if may_mix || !needs_gpu {
            return vec![list(near)];
        }
        let types = self.free.types_in(near.types).map(|i| GpuTypeSet::of(&[GpuTypeId(i as u8)]));
        types.map(|types| list(Near { types, ..near })).collect()
    }

    /// Whether so many of each of these parts fit together on a node. At most one part may use GPUs.
    pub fn holds_all(&self, parts: &[(TaskId, Resources, u32)], node: NodeId) -> bool {
        let of = |(_, demand, count): &(TaskId, Resources, u32)| demand.times(u64::from(*count));
        let together = parts.iter().fold(Resources::NONE, |sum, part| sum + of(part));
        let each = |(_, demand, count): &(TaskId, Resources, u32)| {
            self.free.slots(node, demand, u64::from(*count)) == u64::from(*count)
        };
        together.fits_in(&self.free.room(node)) && parts.iter().all(each)
    }

    /// Takes so many of each of these parts on a node.
    ///
    /// # Panics
    /// If they do not fit there.
    pub fn take_all(&mut self, parts: &[(TaskId, Resources, u32)], node: NodeId) -> Vec<Placement> {
        self.edit(&[node], |free| {
            let some = parts.iter().filter(|(_, _, count)| *count > 0);
            let take = |(task, demand, count): &(TaskId, Resources, u32)| {
                free.take_slots((CopyId(0), *task), node, demand, *count)
            };
            some.map(take).collect()
        })
    }

    /// Takes one of each of these parts on a node.
    ///
    /// # Panics
    /// If they do not fit there.
    pub fn take(&mut self, parts: &[(TaskId, Resources)], node: NodeId) -> impl Iterator<Item = Placement> {
        let placed: Vec<Placement> = self.edit(&[node], |free| {
            let take =
                |(task, demand): &(TaskId, Resources)| free.take_slots((CopyId(0), *task), node, demand, 1);
            parts.iter().map(take).collect()
        });
        placed.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SERVER_TASK, WORKER_TASK};

    const WORKER: Resources = Resources { gpu_milli: 4000, cpu_milli: 2000, ..Resources::NONE };
    const SERVER: Resources = Resources { cpu_milli: 2000, ..Resources::NONE };

    fn board(nodes: u32) -> Board {
        let mut cluster = Cluster::uniform(nodes, 8, "gpu");
        cluster.nodes.iter_mut().for_each(|node| node.holds.cpu_milli = 8000);
        Board::new(&cluster)
    }

    #[test]
    fn units_go_to_the_least_loaded_node_and_the_lower_index() {
        let mut board = board(2);
        let near = board.near(&Wanted::default(), &[], None);
        let mut nodes = Vec::new();
        for _ in 0..5 {
            let parts = [(WORKER_TASK, WORKER), (SERVER_TASK, SERVER)];
            let Some(node) = board.least_loaded(&parts, near, true) else { break };
            board.take(&parts, node).for_each(drop);
            nodes.push(node.0);
        }
        assert_eq!(nodes, [0, 1, 0, 1], "eight CPUs hold two bundles");
        let one = board.take(&[], NodeId(0)).count();
        assert_eq!(one, 0);
    }

    #[test]
    fn with_the_first_only_a_full_node_in_front_is_the_end() {
        let mut board = board(2);
        let near = board.near(&Wanted::default(), &[], None);
        // The first node has less on it, but no CPU left.
        let cpus = [(SERVER_TASK, Resources::cpus(8))];
        board.take(&cpus, NodeId(0)).for_each(drop);
        let worker = [(WORKER_TASK, WORKER)];
        board.take(&worker, NodeId(1)).for_each(drop);
        board.take(&[(SERVER_TASK, Resources::cpus(3))], NodeId(1)).for_each(drop);
        assert_eq!(board.least_loaded(&worker, near, true), None);
        assert_eq!(board.least_loaded(&worker, near, false), Some(NodeId(1)));
        assert_eq!(board.least_loaded(&worker, Near { not: Some(NodeId(1)), ..near }, false), None);
    }

    proptest::proptest! {
        /// The queues against a walk along all nodes.
        #[test]
        fn the_least_loaded_node_is_found_as_by_walking(choices in proptest::collection::vec(0usize..4, 1..60)) {
            let mut board = board(5);
            let near = board.near(&Wanted::default(), &[], None);
            let kinds = [
                vec![(WORKER_TASK, WORKER)],
                vec![(SERVER_TASK, SERVER)],
                vec![(WORKER_TASK, WORKER), (SERVER_TASK, SERVER)],
            ];
            let mut taken = Vec::new();
            let shape = Parallelism::DataParallel(crate::model::DataParallel {
                worker: WORKER,
                workers: crate::model::WorkerRange { min: 1, max: 9 },
                server: Some(SERVER),
                servers: crate::model::WorkerRange { min: 1, max: 9 },
            });
            for choice in choices {
                let Some(parts) = kinds.get(choice) else {
                    if let Some(last) = taken.pop() {
                        board.release(&last, &shape);
                    }
                    continue;
                };
                let nodes = board.by_load.iter().map(|(_, node)| *node);
                let expected = nodes.into_iter().find(|node| board.slots(parts, near, *node, 1) == 1);
                let found = board.least_loaded(parts, near, false);
                proptest::prop_assert_eq!(found, expected);
                taken.extend(found.map(|node| Allocation::new(board.take(parts, node).collect())));
            }
        }
    }

    #[test]
    fn what_is_given_back_is_free_again() {
        let mut board = board(1);
        let near = board.near(&Wanted::default(), &[], None);
        let worker = [(WORKER_TASK, WORKER)];
        let shape = Parallelism::rigid(1, WORKER);
        let held = Allocation::new(board.take(&worker, NodeId(0)).collect());
        let ask = Ask { shape: &shape, wanted: &Wanted::default(), workers: 1, servers: 0 };
        assert!(board.place(Rule::Pack, &ask, None).is_some());
        assert_eq!(board.least_loaded(&worker, near, false), None);
        assert!(!board.keep(&held, &shape));
        board.release(&held, &shape);
        assert!(board.keep(&held, &shape));
        assert_eq!(board.by_load.len(), 1);
    }
}
