//! What nodes hold, by what was promised and by what is used, and on which of them one more task may go.
//!
//! A task may go where, with it, neither a resource nor its device would be used beyond the threshold (MLFS, section 3.3.2),
//! and where what it demands is free. What is not tracked has no utilisation. Whole devices belong to one gang alone and are
//! never overloaded; neither is what only one task uses, since nobody would be relieved by its leaving. For the same reason
//! a task that needs more than the threshold by itself goes where nobody else uses that resource.

use crate::model::{
    Cluster, GPU, GpuSet, GpuTypeId, GpuTypeSet, Node, NodeId, NodeState, RackId, Resources, TaskId,
    UNLIMITED,
};
use crate::place::FreeCapacity;

use super::ideal::{Host, IdealHost, Vector};

/// The position of GPUs among resources.
pub(super) const GPUS: usize = 0;
const CPUS: usize = 1;

/// What one placement promises and uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    pub(super) node: NodeId,
    pub(super) gpus: GpuSet,
    /// How many tasks that is.
    pub(super) tasks: u32,
    /// What it takes of what there is.
    pub(super) demand: Resources,
    /// What it uses.
    pub(super) used: Resources,
}

/// A task that looks for a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) task: TaskId,
    /// What it takes of what there is.
    pub(super) demand: Resources,
    /// What it adds to what is used: its demand, or more if it was seen to use more.
    pub(super) need: Resources,
    /// What it is said to use once it is there.
    pub(super) used: Resources,
    /// Bytes that go along if it moves; 0 if it never ran.
    pub(super) state_bytes: f64,
}

/// On which nodes a task may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fence {
    /// GPU types, for what needs a GPU.
    pub(super) types: GpuTypeSet,
    pub(super) rack: Option<RackId>,
    pub(super) node: Option<NodeId>,
    /// Where it must not go.
    pub(super) not: Option<NodeId>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Device {
    used: u64,
    users: u32,
    /// Whether somebody has all of it.
    is_whole: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Server {
    holds: [u64; 4],
    limits: [u64; 4],
    used: [u64; 4],
    users: [u32; 4],
    devices: Vec<Device>,
    takes_work: bool,
    gpu_type: Option<GpuTypeId>,
    rack: RackId,
    utilisation: Vector,
    is_overloaded: bool,
}

/// All nodes.
#[derive(Clone, Debug)]
pub(super) struct Servers {
    pub(super) free: FreeCapacity,
    servers: Vec<Server>,
    device_limit: u64,
    /// Whether data volumes count.
    with_bytes: bool,
    /// Whether what must run together is put on one node where one has room for all of it.
    pub(super) together: bool,
    several_types: bool,
}

/// The part of an amount that may be used.
fn limit(holds: u64, threshold: f64) -> u64 {
    if holds == UNLIMITED { UNLIMITED } else { (holds as f64 * threshold + 1e-6) as u64 }
}

impl Server {
    fn new(node: &Node, threshold: f64) -> Self {
        let holds = node.holds.amounts();
        Self {
            holds,
            limits: holds.map(|amount| limit(amount, threshold)),
            used: [0; 4],
            users: [0; 4],
            devices: vec![Device::default(); node.gpu_count() as usize],
            takes_work: node.state == NodeState::Up,
            gpu_type: node.gpu_type.filter(|_| node.gpu_count() > 0),
            rack: node.rack,
            utilisation: [0.0; 4],
            is_overloaded: false,
        }
    }

    fn book(&mut self, load: &Load, device_limit: u64, adds: bool) {
        let change = |amount: &mut u64, by: u64| *amount = if adds { *amount + by } else { *amount - by };
        let change_users = |users: &mut u32, by: u32| *users = if adds { *users + by } else { *users - by };
        let used = load.used.amounts();
        for (i, used) in used.into_iter().enumerate().filter(|(_, used)| *used > 0) {
            change(&mut self.used[i], used);
            change_users(&mut self.users[i], load.tasks);
        }
        let devices = u64::from(load.gpus.count());
        for (i, device) in self.devices.iter_mut().enumerate() {
            if load.gpus.devices >> i & 1 == 1 {
                change(&mut device.used, used[GPUS] / devices);
                change_users(&mut device.users, 1);
                device.is_whole = adds && u64::from(load.gpus.share_milli) == GPU;
            }
        }
        let part = |i: usize| match self.holds[i] {
            0 | UNLIMITED => 0.0,
            holds => self.used[i] as f64 / holds as f64,
        };
        self.utilisation = std::array::from_fn(part);
        let overloaded = self.overloaded(device_limit);
        self.is_overloaded = overloaded.contains(&true);
    }

    /// Which resources are overloaded.
    fn overloaded(&self, device_limit: u64) -> [bool; 4] {
        std::array::from_fn(|i| match i {
            GPUS => self.devices.iter().any(|device| device.is_over(device_limit)),
            _ => self.used[i] > self.limits[i] && self.users[i] > 1,
        })
    }

    fn may_add(&self, i: usize, need: u64) -> bool {
        need == 0 || self.users[i] == 0 || self.used[i].saturating_add(need) <= self.limits[i]
    }
}

impl Device {
    const fn is_over(&self, limit: u64) -> bool {
        !self.is_whole && self.users > 1 && self.used > limit
    }
}

impl Servers {
    pub(super) fn new(cluster: &Cluster, threshold: f64, with_bytes: bool) -> Self {
        Self {
            free: FreeCapacity::new(cluster),
            servers: cluster.nodes.iter().map(|node| Server::new(node, threshold)).collect(),
            device_limit: limit(GPU, threshold),
            with_bytes,
            together: false,
            several_types: cluster.gpu_types.len() > 1,
        }
    }

    /// Whether there are GPUs of several types.
    pub(super) const fn has_several_types(&self) -> bool {
        self.several_types
    }

    pub(super) const fn len(&self) -> usize {
        self.servers.len()
    }

    pub(super) fn set_state(&mut self, node: NodeId, state: NodeState) {
        self.free.set_state(node, state);
        self.servers[node.index()].takes_work = state == NodeState::Up;
    }

    /// Counts what a placement uses, without what it promises.
    pub(super) fn use_more(&mut self, load: &Load) {
        self.servers[load.node.index()].book(load, self.device_limit, true);
    }

    pub(super) fn use_less(&mut self, load: &Load) {
        self.servers[load.node.index()].book(load, self.device_limit, false);
    }

    pub(super) fn add(&mut self, load: &Load) {
        self.free.take_part(load.node, load.gpus, load.demand);
        self.use_more(load);
    }

    pub(super) fn remove(&mut self, load: &Load) {
        self.free.release_part(load.node, load.gpus, load.demand);
        self.use_less(load);
    }

    pub(super) fn is_overloaded(&self, node: NodeId) -> bool {
        self.servers[node.index()].is_overloaded
    }

    pub(super) fn overloaded(&self, node: NodeId) -> [bool; 4] {
        self.servers[node.index()].overloaded(self.device_limit)
    }

    /// The overloaded devices of a node, one bit each.
    pub(super) fn overloaded_devices(&self, node: NodeId) -> u64 {
        let devices = self.servers[node.index()].devices.iter().enumerate();
        let over = devices.filter(|(_, device)| device.is_over(self.device_limit));
        over.fold(0, |mask, (i, _)| mask | 1 << i)
    }

    /// Which parts of a node an amount is.
    pub(super) fn parts(&self, node: NodeId, amount: &Resources) -> Vector {
        let server = &self.servers[node.index()];
        let (amount, holds) = (amount.amounts(), server.holds);
        std::array::from_fn(|i| match holds[i] {
            0 | UNLIMITED => 0.0,
            holds => amount[i] as f64 / holds as f64,
        })
    }

    /// The type of a node's GPUs.
    pub(super) fn gpu_type(&self, node: NodeId) -> Option<GpuTypeId> {
        self.servers[node.index()].gpu_type
    }

    pub(super) fn rack(&self, node: NodeId) -> RackId {
        self.servers[node.index()].rack
    }

    fn is_inside(&self, fence: &Fence, node: usize, needs_gpu: bool) -> bool {
        let server = &self.servers[node];
        server.takes_work
            && !server.is_overloaded
            && (!needs_gpu || server.gpu_type.is_some_and(|kind| fence.types.has(kind)))
            && fence.rack.is_none_or(|rack| server.rack == rack)
            && fence.node.is_none_or(|only| only.index() == node)
            && fence.not.is_none_or(|not| not.index() != node)
    }

    /// The devices that a task gets on a node: the least used one, or the first that are wholly free; nothing if it must not
    /// go there. `not` are devices that it cannot have.
    pub(super) fn seat(&self, node: NodeId, piece: &Piece, not: u64) -> Option<GpuSet> {
        let server = &self.servers[node.index()];
        let need = piece.need.amounts();
        if !(CPUS..4).all(|i| server.may_add(i, need[i])) {
            return None;
        }
        let gpus = match piece.demand.gpu_milli {
            0 => GpuSet::NONE,
            share if share < GPU => {
                let open = |(i, device): &(usize, &Device)| {
                    not >> i & 1 == 0
                        && !device.is_whole
                        && (device.users == 0 || device.used.saturating_add(need[GPUS]) <= self.device_limit)
                        && self.free.free_share(node, *i as u32) >= share
                };
                let devices = server.devices.iter().enumerate().filter(open);
                let (least, _) = devices.min_by_key(|(i, device)| (device.used, *i))?;
                GpuSet { devices: 1 << least, share_milli: share as u16 }
            }
            whole => {
                let (count, free) = (whole / GPU, self.free.whole_devices(node) & !not);
                if u64::from(free.count_ones()) < count {
                    return None;
                }
                GpuSet::whole(free).first(count as u32, GPU)
            }
        };
        self.free.has_part(node, gpus, &piece.demand).then_some(gpus)
    }

    fn host(&self, node: usize, piece: &Piece, talks: &[(NodeId, u64)]) -> Host {
        let server = &self.servers[node];
        let there = |(with, _): &&(NodeId, u64)| with.index() == node;
        let bytes = if self.with_bytes { talks.iter().find(there).map_or(0, |(_, bytes)| *bytes) } else { 0 };
        let moving = match (server.holds[CPUS], server.holds[3]) {
            (0 | UNLIMITED, _) | (_, 0 | UNLIMITED) => 0.0,
            (cpus, network) => {
                0.1 * (piece.used.cpu_milli as f64 / cpus as f64) * piece.state_bytes / network as f64
            }
        };
        Host { utilisation: server.utilisation, bytes: bytes as f64, moving }
    }

    /// The nodes on which a task may go, with the squares of their distances from the ideal one, in the order of nodes.
    fn hosts(
        &self,
        piece: &Piece,
        fence: &Fence,
        talks: &[(NodeId, u64)],
        not: &dyn Fn(NodeId) -> u64,
    ) -> impl Iterator<Item = (f64, NodeId, GpuSet)> {
        let needs_gpu = piece.demand.gpu_milli > 0;
        let mut ideal = IdealHost::NONE;
        let mut open = Vec::new();
        for node in (0..self.servers.len()).filter(|node| self.is_inside(fence, *node, needs_gpu)) {
            let host = self.host(node, piece, talks);
            ideal.add(&host);
            let id = NodeId(node as u32);
            open.extend(self.seat(id, piece, not(id)).map(|gpus| (host, id, gpus)));
        }
        open.into_iter().map(move |(host, node, gpus)| (ideal.distance_squared(&host), node, gpus))
    }

    /// The node that is nearest to the ideal one among those on which a task may go, with the devices that it gets there.
    pub(super) fn nearest(
        &self,
        piece: &Piece,
        fence: &Fence,
        talks: &[(NodeId, u64)],
        not: &dyn Fn(NodeId) -> u64,
    ) -> Option<(NodeId, GpuSet)> {
        let hosts = self.hosts(piece, fence, talks, not);
        let first = hosts.reduce(|best, other| if other.0 < best.0 { other } else { best });
        first.map(|(_, node, gpus)| (node, gpus))
    }

    /// The nodes on which a task may go, the nearest to the ideal one first.
    pub(super) fn by_distance(&self, piece: &Piece, fence: &Fence) -> Vec<NodeId> {
        let mut hosts: Vec<(f64, NodeId, GpuSet)> = self.hosts(piece, fence, &[], &|_| 0).collect();
        hosts.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        hosts.into_iter().map(|(_, node, _)| node).collect()
    }
}
