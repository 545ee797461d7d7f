//! What is free on every node, down to the device, indexed for placement.
//!
//! Cost: taking or releasing one placement is O(1) (O(devices) for a shared one); finding a node with at
//! least so many free GPUs is a walk over at most 65 buckets.

use crate::model::{
    Allocation, Cluster, CopyId, GPU, GpuSet, GpuTypeId, GpuTypeSet, MAX_GPUS_PER_NODE, Node, NodeId,
    NodeState, Parallelism, Placement, RackId, Resources, TaskId,
};

use super::NodeSet;
use super::left::Left;

const BUCKETS: usize = MAX_GPUS_PER_NODE as usize + 1;

/// What is free on every node.
#[derive(Clone, Debug, PartialEq)]
pub struct FreeCapacity {
    nodes: Vec<NodeRoom>,
    /// Per GPU type: the nodes that take work, by the number of their wholly free devices.
    by_whole: Vec<Vec<NodeSet>>,
    /// Per GPU type: the nodes that take work and have at least one wholly free device.
    some_whole: Vec<NodeSet>,
    /// Per GPU type: the nodes that take work and have a partly used device.
    shared: Vec<NodeSet>,
    /// Per GPU type: wholly free devices on nodes that take work.
    whole_free: Vec<u64>,
    /// Nodes without GPUs that take work.
    cpu_nodes: NodeSet,
    /// What devices have left, worked out when it is asked for.
    pub(super) left: Left,
}

/// What is free on one node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NodeRoom {
    pub(super) room: Resources,
    pub(super) takes_work: bool,
    /// Whether what is there may stay: the node is not down.
    is_there: bool,
    pub(super) gpu_type: Option<GpuTypeId>,
    pub(super) rack: RackId,
    /// How many nodes with GPUs of its type stand before it.
    pub(super) ordinal: u32,
    gpu_count: u32,
    /// One bit a wholly free device.
    whole: u64,
    /// Free thousandths of each device; empty until a device is shared for the first time.
    shares: Vec<u16>,
}

impl NodeRoom {
    fn new(node: &Node) -> Self {
        let gpu_count = node.gpu_count();
        Self {
            room: node.holds,
            takes_work: false,
            is_there: true,
            gpu_type: node.gpu_type.filter(|_| gpu_count > 0),
            rack: node.rack,
            ordinal: 0,
            gpu_count,
            whole: if gpu_count == 64 { u64::MAX } else { (1 << gpu_count) - 1 },
            shares: Vec::new(),
        }
    }

    pub(super) const fn whole_count(&self) -> u32 {
        self.whole.count_ones()
    }

    pub(super) const fn device_count(&self) -> u32 {
        self.gpu_count
    }

    /// Free thousandths of the fullest device that still has `share`; a whole device if none is shared.
    pub(super) fn most_used_share(&self, share: u64) -> u64 {
        let fitting = (0..self.gpu_count).map(|i| self.free_share(i)).filter(|free| *free >= share);
        fitting.min().unwrap_or(GPU)
    }

    /// Free thousandths of device `i`.
    pub(super) fn free_share(&self, i: u32) -> u64 {
        match self.shares.get(i as usize) {
            Some(share) => u64::from(*share),
            None => (self.whole >> i & 1) * GPU,
        }
    }

    fn has_shared_device(&self) -> bool {
        self.shares.iter().any(|share| 0 < *share && u64::from(*share) < GPU)
    }

    /// How many workers of this demand fit, at most `limit`. Workers of one job never share a device.
    pub(super) fn slots(&self, demand: &Resources, limit: u64) -> u64 {
        let by_devices = match demand.gpu_milli {
            0 => limit,
            share if share < GPU => {
                (0..self.gpu_count).filter(|i| self.free_share(*i) >= share).count() as u64
            }
            whole => u64::from(self.whole_count()) / (whole / GPU),
        };
        demand.times_in(&self.room, limit.min(by_devices))
    }

    /// Devices for `count` workers: the lowest wholly free ones, or the fullest that still have the share.
    fn devices_for(&self, demand: &Resources, count: u32) -> GpuSet {
        if demand.gpu_milli == 0 {
            return GpuSet::NONE;
        }
        if demand.gpu_milli < GPU {
            let mut fitting: Vec<u32> =
                (0..self.gpu_count).filter(|i| self.free_share(*i) >= demand.gpu_milli).collect();
            fitting.sort_by_key(|i| self.free_share(*i));
            let devices = fitting.iter().take(count as usize).fold(0, |mask, i| mask | 1 << i);
            return GpuSet { devices, share_milli: demand.gpu_milli as u16 };
        }
        let mut left = self.whole;
        let mut devices = 0;
        for _ in 0..demand.gpu_milli / GPU * u64::from(count) {
            let lowest = left & left.wrapping_neg();
            devices |= lowest;
            left ^= lowest;
        }
        GpuSet::whole(devices)
    }

    fn can_take(&self, gpus: GpuSet, demand: &Resources) -> bool {
        let devices_free = if gpus.share_milli == GPU as u16 {
            gpus.devices & !self.whole == 0
        } else {
            bits(gpus.devices)
                .all(|i| i < self.gpu_count && self.free_share(i) >= u64::from(gpus.share_milli))
        };
        devices_free && demand.fits_in(&self.room)
    }

    fn take(&mut self, gpus: GpuSet, demand: Resources) {
        assert!(self.can_take(gpus, &demand), "a device or resource was given away twice");
        self.room -= demand;
        self.change_shares(gpus, |free, share| free - share);
    }

    fn release(&mut self, gpus: GpuSet, demand: Resources) {
        self.room += demand;
        self.change_shares(gpus, |free, share| free + share);
    }

    fn change_shares(&mut self, gpus: GpuSet, change: impl Fn(u64, u64) -> u64) {
        if gpus.share_milli == GPU as u16 && self.shares.is_empty() {
            self.whole ^= gpus.devices;
            return;
        }
        if self.shares.is_empty() {
            self.shares = (0..self.gpu_count).map(|i| ((self.whole >> i & 1) * GPU) as u16).collect();
        }
        for i in bits(gpus.devices) {
            let free = change(self.free_share(i), u64::from(gpus.share_milli));
            assert!(free <= GPU, "more of a device was released than it has");
            self.shares[i as usize] = free as u16;
            self.whole = self.whole & !(1 << i) | u64::from(free == GPU) << i;
        }
        if self.shares.iter().all(|share| *share == 0 || u64::from(*share) == GPU) {
            self.shares = Vec::new();
        }
    }
}

fn bits(mut mask: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros())?;
        mask &= mask - 1;
        Some(bit)
    })
}

impl FreeCapacity {
    /// The capacity of a cluster on which nothing runs.
    pub fn new(cluster: &Cluster) -> Self {
        let (nodes, types) = (cluster.nodes.len(), cluster.gpu_types.len());
        let mut free = Self {
            nodes: cluster.nodes.iter().map(NodeRoom::new).collect(),
            by_whole: vec![vec![NodeSet::with_room(nodes); BUCKETS]; types],
            some_whole: vec![NodeSet::with_room(nodes); types],
            shared: vec![NodeSet::with_room(nodes); types],
            whole_free: vec![0; types],
            cpu_nodes: NodeSet::with_room(nodes),
            left: Left::default(),
        };
        let mut ordinals = vec![0; types];
        for node in &cluster.nodes {
            if let Some(gpu_type) = free.gpu_type(node.id) {
                free.nodes[node.id.index()].ordinal = ordinals[gpu_type.index()];
                ordinals[gpu_type.index()] += 1;
            }
            free.set_state(node.id, node.state);
        }
        free
    }

    /// Follows a node's change of state. What is held there stays accounted for until it is released.
    pub fn set_state(&mut self, node: NodeId, state: NodeState) {
        self.nodes[node.index()].is_there = state != NodeState::Down;
        self.edit(node, |room| room.takes_work = state == NodeState::Up);
    }

    /// Changes one node and keeps the index true.
    fn edit(&mut self, node: NodeId, change: impl FnOnce(&mut NodeRoom)) {
        self.left.forget();
        let before = self.indexed(node);
        change(&mut self.nodes[node.index()]);
        let after = self.indexed(node);
        if before == after {
            return;
        }
        let gpu_type = self.nodes[node.index()].gpu_type;
        if let Some(whole) = before {
            self.unindex(node, gpu_type, whole);
        }
        if let Some(whole) = after {
            self.index(node, gpu_type, whole);
        }
    }

    /// What the index knows of a node: its wholly free devices, and whether one is shared.
    fn indexed(&self, node: NodeId) -> Option<(u32, bool)> {
        let room = &self.nodes[node.index()];
        room.takes_work.then(|| (room.whole_count(), room.has_shared_device()))
    }

    fn index(&mut self, node: NodeId, gpu_type: Option<GpuTypeId>, (whole, shared): (u32, bool)) {
        let Some(gpu_type) = gpu_type else {
            return self.cpu_nodes.insert(node);
        };
        let i = gpu_type.index();
        self.by_whole[i][whole as usize].insert(node);
        self.whole_free[i] += u64::from(whole);
        if whole > 0 {
            self.some_whole[i].insert(node);
        }
        if shared {
            self.shared[i].insert(node);
        }
    }

    fn unindex(&mut self, node: NodeId, gpu_type: Option<GpuTypeId>, (whole, _): (u32, bool)) {
        let Some(gpu_type) = gpu_type else {
            return self.cpu_nodes.remove(node);
        };
        let i = gpu_type.index();
        self.by_whole[i][whole as usize].remove(node);
        self.whole_free[i] -= u64::from(whole);
        self.some_whole[i].remove(node);
        self.shared[i].remove(node);
    }

    /// The type of a node's GPUs.
    pub fn gpu_type(&self, node: NodeId) -> Option<GpuTypeId> {
        self.nodes[node.index()].gpu_type
    }

    /// The rack of a node.
    pub fn rack(&self, node: NodeId) -> RackId {
        self.nodes[node.index()].rack
    }

    /// Whether a node takes new work.
    pub fn takes_work(&self, node: NodeId) -> bool {
        self.nodes[node.index()].takes_work
    }

    /// What is free on a node, whether it takes work or not.
    pub fn room(&self, node: NodeId) -> Resources {
        self.nodes[node.index()].room
    }

    pub(super) fn node(&self, node: NodeId) -> &NodeRoom {
        &self.nodes[node.index()]
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Wholly free GPUs of these types on nodes that take work.
    pub fn whole_gpus(&self, types: GpuTypeSet) -> u64 {
        self.types_in(types).map(|i| self.whole_free[i]).sum()
    }

    /// What is free of GPUs of these types on nodes that take work, parts of shared ones included, in thousandths.
    pub fn gpu_milli(&self, types: GpuTypeSet) -> u64 {
        let of_type = |room: &NodeRoom| room.gpu_type.is_some_and(|gpu_type| types.has(gpu_type));
        self.up().filter(|(_, room)| of_type(room)).map(|(_, room)| room.room.gpu_milli).sum()
    }

    /// The GPU types of the cluster that are in `types`, as indexes.
    pub(super) fn types_in(&self, types: GpuTypeSet) -> impl Iterator<Item = usize> + use<> {
        (0..self.by_whole.len()).filter(move |i| types.has(GpuTypeId(*i as u8)))
    }

    /// The nodes of one GPU type with exactly `whole` wholly free devices.
    pub(super) fn bucket(&self, gpu_type: usize, whole: usize) -> &NodeSet {
        &self.by_whole[gpu_type][whole]
    }

    /// The nodes of one GPU type with at least one wholly free device.
    pub(super) fn with_whole(&self, gpu_type: usize) -> &NodeSet {
        &self.some_whole[gpu_type]
    }

    /// The nodes of one GPU type with a partly used device.
    pub(super) fn with_shared(&self, gpu_type: usize) -> &NodeSet {
        &self.shared[gpu_type]
    }

    /// The nodes without GPUs.
    pub(super) const fn without_gpus(&self) -> &NodeSet {
        &self.cpu_nodes
    }

    /// All nodes that take work.
    pub(super) fn up(&self) -> impl Iterator<Item = (NodeId, &NodeRoom)> {
        let numbered = self.nodes.iter().enumerate().map(|(i, room)| (NodeId(i as u32), room));
        numbered.filter(|(_, room)| room.takes_work)
    }

    /// How many workers of this demand a node has room for, at most `limit`; 0 if it takes no work.
    pub fn slots(&self, node: NodeId, demand: &Resources, limit: u64) -> u64 {
        let room = &self.nodes[node.index()];
        if room.takes_work { room.slots(demand, limit) } else { 0 }
    }

    /// Takes room for `count` instances of a task on a node and says which devices they got.
    ///
    /// # Panics
    /// If there is no room for them; ask [`Self::slots`] first.
    pub(super) fn take_slots(
        &mut self,
        (copy, task): (CopyId, TaskId),
        node: NodeId,
        demand: &Resources,
        count: u32,
    ) -> Placement {
        let gpus = self.nodes[node.index()].devices_for(demand, count);
        assert_eq!(gpus.milli(), demand.gpu_milli * u64::from(count), "{node} lacks the devices");
        self.edit(node, |room| room.take(gpus, demand.times(u64::from(count))));
        Placement { copy, task, node, count, gpus }
    }

    /// The devices of a node that are wholly free, one bit each.
    pub fn whole_devices(&self, node: NodeId) -> u64 {
        self.nodes[node.index()].whole
    }

    /// Free thousandths of one device of a node.
    pub fn free_share(&self, node: NodeId, device: u32) -> u64 {
        self.nodes[node.index()].free_share(device)
    }

    /// Whether exactly these devices of a node are free, and what a demand takes besides; its state is not asked.
    pub fn has_part(&self, node: NodeId, gpus: GpuSet, demand: &Resources) -> bool {
        self.nodes[node.index()].can_take(gpus, demand)
    }

    /// Takes exactly these devices of a node, and what a demand takes besides.
    ///
    /// # Panics
    /// If that is not free; ask [`Self::has_part`] first.
    pub fn take_part(&mut self, node: NodeId, gpus: GpuSet, demand: Resources) {
        self.edit(node, |room| room.take(gpus, demand));
    }

    /// Gives back what [`Self::take_part`] took.
    ///
    /// # Panics
    /// If a device would be more than wholly free.
    pub fn release_part(&mut self, node: NodeId, gpus: GpuSet, demand: Resources) {
        self.edit(node, |room| room.release(gpus, demand));
    }

    /// Takes a part of one device, and all else that a task demands, on a node that has room for it.
    ///
    /// # Panics
    /// If there is no room for it.
    pub fn take_on(
        &mut self,
        (copy, task): (CopyId, TaskId),
        (node, device): (NodeId, u32),
        demand: &Resources,
    ) -> Placement {
        let gpus = GpuSet { devices: 1 << device, share_milli: demand.gpu_milli as u16 };
        self.take_part(node, gpus, *demand);
        Placement { copy, task, node, count: 1, gpus }
    }

    /// Whether all of an allocation is free, on nodes that take work.
    pub fn has_room_for(&self, allocation: &Allocation, shape: &Parallelism) -> bool {
        let all_take_work = allocation.placements().iter().all(|p| self.takes_work(p.node));
        all_take_work && self.is_free(allocation, shape)
    }

    /// Whether all of an allocation is free, on nodes that take work or drain.
    fn is_free(&self, allocation: &Allocation, shape: &Parallelism) -> bool {
        // Two tasks of one job on one node are checked together: sum first, then compare.
        let placements = allocation.placements();
        placements.iter().all(|p| {
            let room = &self.nodes[p.node.index()];
            if placements.len() == 1 {
                return room.is_there && room.can_take(p.gpus, &demand(p, shape));
            }
            let same_node = || placements.iter().filter(|other| other.node == p.node);
            let total = same_node().fold(Resources::NONE, |sum, other| sum + demand(other, shape));
            // Tasks of one job may share a device; what they take of it counts together.
            let taken = |i: u32| -> u64 {
                let there = same_node().filter(|other| other.gpus.devices >> i & 1 == 1);
                there.map(|other| u64::from(other.gpus.share_milli)).sum()
            };
            room.is_there
                && total.fits_in(&room.room)
                && bits(p.gpus.devices).all(|i| i < room.gpu_count && taken(i) <= room.free_share(i))
        })
    }

    /// Takes an allocation back if all of it is still free: the cheapest placement is to stay. On a node
    /// that drains one may stay, though nothing new goes there.
    pub fn keep(&mut self, allocation: &Allocation, shape: &Parallelism) -> bool {
        let fits = self.is_free(allocation, shape);
        if fits {
            self.take(allocation, shape);
        }
        fits
    }

    /// Takes an allocation.
    ///
    /// # Panics
    /// If any of it is not free. Whether its nodes take work is not asked.
    pub fn take(&mut self, allocation: &Allocation, shape: &Parallelism) {
        for p in allocation.placements() {
            self.edit(p.node, |room| room.take(p.gpus, demand(p, shape)));
        }
    }

    /// Gives an allocation back.
    ///
    /// # Panics
    /// If a device would be more than wholly free.
    pub fn release(&mut self, allocation: &Allocation, shape: &Parallelism) {
        for p in allocation.placements() {
            self.edit(p.node, |room| room.release(p.gpus, demand(p, shape)));
        }
    }
}

impl FreeCapacity {
    /// Gives back what one instance of a task has.
    pub(super) fn release_one(&mut self, placement: &Placement, demand: Resources) {
        self.edit(placement.node, |room| room.release(placement.gpus, demand));
    }

    /// How many GPU types there are.
    pub(super) const fn type_count(&self) -> usize {
        self.by_whole.len()
    }
}

/// What one placement takes from its node.
pub(super) fn demand(placement: &Placement, shape: &Parallelism) -> Resources {
    placement.takes(shape.demand_of(placement.task).unwrap_or_default())
}
