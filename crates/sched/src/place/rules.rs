//! Placement rules: on which nodes the parts of a job go.
//!
//! A policy whose paper leaves placement open takes the rule as a parameter, so that comparisons can
//! hold placement equal. Every rule obeys the job's own constraints (GPU types, topology, mixing).

use serde::{Deserialize, Serialize};

use crate::model::{
    Allocation, CopyId, DataParallel, GPU, GpuTypeId, GpuTypeSet, MAX_GPUS_PER_NODE, NodeId, Parallelism,
    Placement, RackId, Resources, SERVER_TASK, Topology, WORKER_TASK, Wanted,
};

use super::FreeCapacity;

/// How nodes are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// The first nodes in index order that have anything free. Only counts matter.
    FirstFit,
    /// The fullest node that holds the whole job; else as few nodes as possible, fullest first.
    #[default]
    Pack,
    /// Like `Pack`, but only the smallest possible number of nodes will do.
    Consolidate,
    /// One worker at a time on the node with most free GPUs (most free CPUs where there are none); one task of a graph at a
    /// time, there on the least used device.
    Spread,
    /// The node with most free GPUs is filled first, then the one with most of the rest; tasks of a graph go to the least
    /// used device of their node.
    Fill,
    /// YARN-CS as coded by Tiresias' authors (NSDI 2019): the first node that holds the whole job; a
    /// larger job takes wholly idle nodes of one rack and at most one partial one. It knows no GPU types: where there are
    /// several, nodes are looked at in turn, the first of each type, then the second of each; a gang is on one type.
    Yarn,
}

impl Rule {
    /// Whether the rule finds room for a job without constraints whenever enough devices are free.
    pub const fn uses_any_room(self) -> bool {
        matches!(self, Self::FirstFit | Self::Pack | Self::Spread | Self::Fill)
    }
}

/// What is to be placed.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The shape of the job.
    pub shape: &'a Parallelism,
    /// Its constraints.
    pub wanted: &'a Wanted,
    /// Workers of a data-parallel job.
    pub workers: u32,
    /// Parameter servers of a data-parallel job.
    pub servers: u32,
}

impl<'a> Ask<'a> {
    /// The smallest gang with which the job can run.
    pub fn minimum(shape: &'a Parallelism, wanted: &'a Wanted) -> Self {
        let (workers, servers) = match shape {
            Parallelism::DataParallel(job) => (job.workers.min, job.server.map_or(0, |_| job.servers.min)),
            Parallelism::TaskGraph(_) => (0, 0),
        };
        Self { shape, wanted, workers, servers }
    }
}

/// The nodes that may be used: one GPU type or several, one rack or all.
#[derive(Clone, Copy)]
pub(super) struct Fence {
    pub(super) types: GpuTypeSet,
    pub(super) rack: Option<RackId>,
    pub(super) node: Option<NodeId>,
}

impl FreeCapacity {
    /// Finds room by a rule, takes it and returns it. On `None` nothing has changed.
    pub fn place(&mut self, rule: Rule, ask: &Ask<'_>) -> Option<Allocation> {
        match ask.shape {
            Parallelism::DataParallel(job) => self.place_workers(rule, ask, job),
            Parallelism::TaskGraph(graph) => self.place_graph(rule, graph, ask.wanted),
        }
    }

    /// Like [`Self::place`], for further workers of a data-parallel job that already holds something: in
    /// the same rack or on the same node where its constraints say so.
    pub fn place_more_workers(&mut self, rule: Rule, ask: &Ask<'_>, held: &Allocation) -> Option<Allocation> {
        let job = ask.shape.data_parallel()?;
        let first = held.placements().first()?.node;
        let (rack, node) = match ask.wanted.topology {
            Topology::Anywhere => (None, None),
            Topology::SameRack => (Some(self.node(first).rack), None),
            Topology::SameNode => (None, Some(first)),
        };
        let near = |fence: Fence| Fence { rack: rack.or(fence.rack), node, ..fence };
        let fences = self.fences(rule, ask.wanted, &job.worker);
        let counts = fences
            .map(near)
            .find_map(|fence| self.choose(rule, &job.worker, ask.workers, fence, node.is_some()))?;
        let part = (CopyId(0), WORKER_TASK);
        let placed = counts.iter().map(|(node, count)| self.take_slots(part, *node, &job.worker, *count));
        Some(Allocation::new(placed.collect()))
    }

    fn place_workers(&mut self, rule: Rule, ask: &Ask<'_>, job: &DataParallel) -> Option<Allocation> {
        if ask.workers == 0 {
            return None;
        }
        let one_node = ask.wanted.topology == Topology::SameNode;
        let mut found = self
            .fences(rule, ask.wanted, &job.worker)
            .filter_map(|fence| self.choose(rule, &job.worker, ask.workers, fence, one_node));
        let counts = match rule {
            Rule::Yarn => found.min_by_key(|counts| counts.first().map(|(node, _)| self.node(*node).ordinal)),
            _ => found.next(),
        }?;
        let part = (CopyId(0), WORKER_TASK);
        let mut placed: Vec<Placement> =
            counts.iter().map(|(node, count)| self.take_slots(part, *node, &job.worker, *count)).collect();
        let servers_placed = job.server.is_none_or(|server| self.place_servers(&mut placed, &server, ask));
        let allocation = Allocation::new(placed);
        if servers_placed {
            return Some(allocation);
        }
        self.release(&allocation, ask.shape);
        None
    }

    /// Servers go where the workers of the job are while there is room, then on the emptiest nodes.
    fn place_servers(&mut self, placed: &mut Vec<Placement>, server: &Resources, ask: &Ask<'_>) -> bool {
        let part = (CopyId(0), SERVER_TASK);
        let mut left = ask.servers;
        let near: Vec<NodeId> = placed.iter().map(|p| p.node).collect();
        for node in near {
            let count = self.slots(node, server, u64::from(left)) as u32;
            if count > 0 {
                placed.push(self.take_slots(part, node, server, count));
                left -= count;
            }
        }
        if left == 0 {
            return true;
        }
        if ask.wanted.topology == Topology::SameNode {
            return false;
        }
        let rack = (ask.wanted.topology == Topology::SameRack).then(|| self.node(placed[0].node).rack);
        let fence = Fence { types: GpuTypeSet::ALL, rack, node: None };
        let Some(counts) = self.choose_spread(server, left, fence) else {
            return false;
        };
        placed.extend(counts.iter().map(|(node, count)| self.take_slots(part, *node, server, *count)));
        true
    }

    /// The fences to try one after the other.
    pub(super) fn fences(
        &self,
        rule: Rule,
        wanted: &Wanted,
        worker: &Resources,
    ) -> impl Iterator<Item = Fence> + use<> {
        let may_mix = wanted.mixed_gpu_types && rule != Rule::Yarn;
        let one_type = !may_mix && worker.gpu_milli > 0;
        let types: Vec<GpuTypeSet> = if one_type {
            self.types_in(wanted.gpu_types).map(|i| GpuTypeSet::of(&[GpuTypeId(i as u8)])).collect()
        } else {
            vec![wanted.gpu_types]
        };
        let racks: Vec<Option<RackId>> = if wanted.topology == Topology::SameRack {
            let mut racks: Vec<RackId> = self.up().map(|(_, room)| room.rack).collect();
            racks.sort_unstable();
            racks.dedup();
            racks.into_iter().map(Some).collect()
        } else {
            vec![None]
        };
        let pairs = types.into_iter().flat_map(move |types| {
            racks.clone().into_iter().map(move |rack| Fence { types, rack, node: None })
        });
        pairs.collect::<Vec<_>>().into_iter()
    }

    fn choose(
        &self,
        rule: Rule,
        worker: &Resources,
        workers: u32,
        fence: Fence,
        one_node: bool,
    ) -> Option<Vec<(NodeId, u32)>> {
        // A quick no: most questions are about more devices than are free anywhere.
        let whole_devices = if worker.gpu_milli < GPU { 0 } else { worker.gpu_milli / GPU };
        if self.whole_gpus(fence.types) < whole_devices * u64::from(workers) {
            return None;
        }
        if one_node {
            return self.choose_one_node(rule, worker, workers, fence);
        }
        match rule {
            Rule::FirstFit => fill(self.in_order(worker, fence), worker, workers, self),
            Rule::Spread => self.choose_spread(worker, workers, fence),
            Rule::Fill => fill(self.emptiest_first(worker, fence), worker, workers, self),
            Rule::Yarn => self.choose_yarn(worker, workers, fence),
            Rule::Pack => self
                .choose_one_node(rule, worker, workers, fence)
                .or_else(|| self.choose_few_nodes(worker, workers, fence)),
            Rule::Consolidate => self.choose_one_node(rule, worker, workers, fence).or_else(|| {
                let chosen = self.choose_few_nodes(worker, workers, fence)?;
                (chosen.len() <= self.fewest_nodes(worker, workers, fence)).then_some(chosen)
            }),
        }
    }

    /// The smallest number of nodes inside a fence that would hold so many workers if nothing ran there.
    /// Work without GPUs is not counted in devices and may take as many as it likes.
    fn fewest_nodes(&self, worker: &Resources, workers: u32, fence: Fence) -> usize {
        if worker.gpu_milli == 0 {
            return usize::MAX;
        }
        let usable = self.up().filter(|(node, room)| {
            self.inside(fence, *node) && room.gpu_type.is_none_or(|gpu_type| fence.types.has(gpu_type))
        });
        let mut slots: Vec<u64> = usable.map(|(_, room)| self.whole_slots(room, worker)).collect();
        slots.sort_unstable_by(|a, b| b.cmp(a));
        let mut held = 0;
        let enough = slots.iter().position(|slots| {
            held += slots;
            held >= u64::from(workers)
        });
        enough.map_or(usize::MAX, |last| last + 1)
    }

    /// How many workers an idle node of this kind would hold, by devices.
    fn whole_slots(&self, room: &super::free_capacity::NodeRoom, worker: &Resources) -> u64 {
        let per_worker = worker.gpu_milli.div_ceil(GPU).max(1);
        u64::from(room.device_count()) / per_worker
    }

    pub(super) fn inside(&self, fence: Fence, node: NodeId) -> bool {
        fence.rack.is_none_or(|rack| self.node(node).rack == rack)
            && fence.node.is_none_or(|only| only == node)
    }

    /// Nodes that could hold at least one worker, in index order; CPU work sees nodes without GPUs first.
    pub(super) fn in_order(&self, worker: &Resources, fence: Fence) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = Vec::new();
        if worker.gpu_milli == 0 {
            nodes.extend(self.without_gpus().iter());
            let gpu_nodes = self.up().filter(|(_, room)| room.gpu_type.is_some());
            nodes.extend(gpu_nodes.map(|(node, _)| node));
        } else {
            for i in self.types_in(fence.types) {
                nodes.extend(self.with_whole(i).iter());
                if worker.gpu_milli < GPU {
                    nodes.extend(self.with_shared(i).iter());
                }
            }
            nodes.sort_unstable();
            nodes.dedup();
        }
        nodes.retain(|node| self.inside(fence, *node));
        nodes
    }

    /// The fullest node that holds everything; by index for the rules that want the first.
    pub(super) fn choose_one_node(
        &self,
        rule: Rule,
        worker: &Resources,
        workers: u32,
        fence: Fence,
    ) -> Option<Vec<(NodeId, u32)>> {
        let holds = |node: &NodeId| {
            self.inside(fence, *node)
                && self.node(*node).slots(worker, u64::from(workers)) == u64::from(workers)
        };
        let in_index_order = matches!(rule, Rule::FirstFit | Rule::Yarn);
        let node = if worker.gpu_milli < GPU || in_index_order {
            self.in_order(worker, fence).into_iter().filter(holds).min_by_key(|node| {
                // Shares fill the fullest device first; whole devices and CPU work keep the given order.
                let by_share = !in_index_order && worker.gpu_milli > 0;
                if by_share { self.node(*node).most_used_share(worker.gpu_milli) } else { 0 }
            })
        } else {
            let need = (worker.gpu_milli / GPU * u64::from(workers)) as usize;
            let buckets = need..=MAX_GPUS_PER_NODE as usize;
            buckets
                .flat_map(|whole| self.types_in(fence.types).map(move |i| (i, whole)))
                .find_map(|(i, whole)| self.bucket(i, whole).iter().find(holds))
        };
        node.map(|node| vec![(node, workers)])
    }

    /// As few nodes as possible: the emptiest first, and for the rest the fullest that holds it.
    fn choose_few_nodes(&self, worker: &Resources, workers: u32, fence: Fence) -> Option<Vec<(NodeId, u32)>> {
        if worker.gpu_milli < GPU {
            return fill(self.in_order(worker, fence), worker, workers, self);
        }
        let mut chosen = Vec::new();
        let mut left = workers;
        for whole in (1..=MAX_GPUS_PER_NODE as usize).rev() {
            for i in self.types_in(fence.types) {
                for node in self.bucket(i, whole).iter().filter(|node| self.inside(fence, *node)) {
                    let count = self.node(node).slots(worker, u64::from(left)) as u32;
                    if count == 0 {
                        continue;
                    }
                    if count == left {
                        let best = self.fullest_for(worker, left, fence, &chosen).unwrap_or(node);
                        chosen.push((best, left));
                        return Some(chosen);
                    }
                    chosen.push((node, count));
                    left -= count;
                }
            }
        }
        None
    }

    fn fullest_for(
        &self,
        worker: &Resources,
        workers: u32,
        fence: Fence,
        taken: &[(NodeId, u32)],
    ) -> Option<NodeId> {
        let need = (worker.gpu_milli / GPU * u64::from(workers)) as usize;
        (need..=MAX_GPUS_PER_NODE as usize)
            .flat_map(|whole| self.types_in(fence.types).map(move |i| (i, whole)))
            .flat_map(|(i, whole)| self.bucket(i, whole).iter())
            .find(|node| {
                let free = !taken.iter().any(|(other, _)| other == node);
                let full = self.node(*node).slots(worker, u64::from(workers)) == u64::from(workers);
                free && full && self.inside(fence, *node)
            })
    }

    /// One worker after the other on the emptiest node; ties go to the lower index.
    fn choose_spread(&self, worker: &Resources, workers: u32, fence: Fence) -> Option<Vec<(NodeId, u32)>> {
        use std::cmp::Reverse;
        let mut heap: std::collections::BinaryHeap<(u64, Reverse<NodeId>, u64)> = self
            .in_order(worker, fence)
            .into_iter()
            .map(|node| (self.emptiness(node, worker), Reverse(node)))
            .map(|(free, node)| (free, node, self.slots(node.0, worker, u64::from(workers))))
            .filter(|(_, _, slots)| *slots > 0)
            .collect();
        let step = if worker.gpu_milli > 0 { worker.gpu_milli } else { worker.cpu_milli };
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..workers {
            let (free, node, slots) = heap.pop()?;
            *counts.entry(node.0).or_insert(0) += 1;
            if slots > 1 {
                heap.push((free.saturating_sub(step), node, slots - 1));
            }
        }
        Some(counts.into_iter().collect())
    }

    /// Nodes that could hold at least one worker, the emptiest first; ties go to the lower index.
    pub(super) fn emptiest_first(&self, worker: &Resources, fence: Fence) -> Vec<NodeId> {
        let mut nodes = self.in_order(worker, fence);
        nodes.sort_by_key(|node| std::cmp::Reverse(self.emptiness(*node, worker)));
        nodes
    }

    pub(super) fn emptiness(&self, node: NodeId, worker: &Resources) -> u64 {
        let room = self.room(node);
        if worker.gpu_milli > 0 { room.gpu_milli } else { room.cpu_milli }
    }

    fn choose_yarn(&self, worker: &Resources, workers: u32, fence: Fence) -> Option<Vec<(NodeId, u32)>> {
        if let Some(one) = self.choose_one_node(Rule::Yarn, worker, workers, fence) {
            return Some(one);
        }
        let nodes = self.in_order(worker, fence);
        let mut racks: Vec<RackId> = nodes.iter().map(|node| self.node(*node).rack).collect();
        racks.sort_unstable();
        racks.dedup();
        racks.into_iter().find_map(|rack| {
            let mut left = u64::from(workers);
            let mut chosen = Vec::new();
            let here = || nodes.iter().copied().filter(|node| self.node(*node).rack == rack);
            for node in here() {
                let room = self.node(node);
                let whole_node = self.whole_slots(room, worker);
                let idle = room.whole_count() == room.device_count();
                if idle
                    && 0 < whole_node
                    && whole_node <= left
                    && room.slots(worker, whole_node) == whole_node
                {
                    chosen.push((node, whole_node as u32));
                    left -= whole_node;
                }
            }
            if left > 0 {
                let used = |node: &NodeId| chosen.iter().any(|(other, _)| other == node);
                let rest = here().find(|node| !used(node) && self.node(*node).slots(worker, left) == left)?;
                chosen.push((rest, left as u32));
            }
            Some(chosen)
        })
    }
}

/// Fills nodes one after the other.
fn fill(
    nodes: Vec<NodeId>,
    worker: &Resources,
    workers: u32,
    free: &FreeCapacity,
) -> Option<Vec<(NodeId, u32)>> {
    let mut left = workers;
    let mut chosen = Vec::new();
    for node in nodes {
        let count = free.slots(node, worker, u64::from(left)) as u32;
        if count > 0 {
            chosen.push((node, count));
            left -= count;
        }
        if left == 0 {
            return Some(chosen);
        }
    }
    None
}
