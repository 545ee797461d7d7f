//! Finds nodes for what waits: task by task on the node that is nearest to the ideal one, all of it or nothing
//! (MLFS, section 3.3.2).

use std::collections::BTreeMap;

use crate::model::{
    CopyId, GpuSet, GpuTypeId, GpuTypeSet, NodeId, Parallelism, Placement, Resources, SERVER_TASK, TaskId,
    Topology, WORKER_TASK,
};
use crate::view::JobView;

use super::member::{Member, bounded};
use super::queue::{Ranking, What, tasks_of};
use super::servers::{Fence, Load, Piece, Servers};

/// What came of looking for nodes.
pub(super) enum Sought {
    /// Everything has a node; that is counted already.
    Found(Vec<(TaskId, Load)>),
    /// A task found none, after so many others had found one; nothing is counted.
    NotFound {
        /// The task.
        task: TaskId,
        /// How many others had found one.
        found: u32,
    },
}

/// What a task of a job promises and needs while it waits.
pub(super) fn piece(view: &JobView, task: TaskId) -> Piece {
    let demand = view.job.shape.demand_of(task).unwrap_or_default();
    let ran = view.attempt.0 > 0;
    let state_bytes = match &view.job.shape {
        Parallelism::TaskGraph(graph) if ran => graph.tasks()[task.index()].state_bytes as f64,
        _ => 0.0,
    };
    Piece { task, demand, need: demand, used: bounded(demand), state_bytes }
}

/// The tasks of what stands in the queue, in the order in which they look for a node: those of a gang without a graph one by
/// one, workers first.
pub(super) fn pieces(
    view: &JobView,
    member: &Member,
    what: What,
    ranking: Option<(&Ranking, bool)>,
) -> Vec<Piece> {
    match &view.job.shape {
        Parallelism::DataParallel(shape) => {
            let servers = shape.server.map_or(0, |_| shape.servers.min);
            let workers = (0..shape.workers.min.max(1)).map(|_| WORKER_TASK);
            let all = workers.chain((0..servers).map(|_| SERVER_TASK));
            all.map(|task| piece(view, task)).collect()
        }
        Parallelism::TaskGraph(_) => {
            let mut tasks = tasks_of(member, what);
            if let Some((ranking, servers_lead)) = ranking {
                ranking.sort(member, &mut tasks, servers_lead);
            }
            tasks.into_iter().map(|task| piece(view, task)).collect()
        }
    }
}

/// Bytes in one iteration between a task and those of its job that have a place, by node; `places` says where each is.
pub(super) fn talks(
    member: &Member,
    places: &dyn Fn(TaskId) -> Option<NodeId>,
    task: TaskId,
) -> Vec<(NodeId, u64)> {
    let Some(graph) = member.graph() else { return Vec::new() };
    let mut by_node: Vec<(NodeId, u64)> = Vec::new();
    let outputs = graph.outputs(task).iter().map(|edge| (edge.to, edge));
    let inputs = graph.inputs(task).map(|(_, edge)| (edge.from, edge));
    for (other, edge) in outputs.chain(inputs) {
        let Some(node) = places(other) else { continue };
        match by_node.iter_mut().find(|(known, _)| *known == node) {
            Some((_, bytes)) => *bytes = bytes.saturating_add(graph.flow(edge)),
            None => by_node.push((node, graph.flow(edge))),
        }
    }
    by_node
}

impl Servers {
    /// Looks for a node for each piece, all inside one fence. What is found is counted; if one is missing, nothing is.
    pub(super) fn seek_inside(&mut self, member: &Member, pieces: &[Piece], fence: &Fence) -> Sought {
        let is_gang = member.graph().is_none();
        let mut new: Vec<(TaskId, Load)> = Vec::with_capacity(pieces.len());
        // The workers of a gang on one node have devices of their own.
        let mut own: BTreeMap<(TaskId, NodeId), u64> = BTreeMap::new();
        let mut places: Vec<Option<NodeId>> = vec![None; if is_gang { 0 } else { member.tasks() }];
        for piece in pieces {
            let place =
                |other: TaskId| places[other.index()].or_else(|| member.place_of(other).map(|p| p.node));
            let talks = talks(member, &place, piece.task);
            let not = |node: NodeId| own.get(&(piece.task, node)).copied().unwrap_or(0);
            let Some((node, gpus)) = self.nearest(piece, fence, &talks, &not) else {
                new.iter().for_each(|(_, load)| self.remove(load));
                return Sought::NotFound { task: piece.task, found: new.len() as u32 };
            };
            let load = Load { node, gpus, tasks: 1, demand: piece.demand, used: piece.used };
            self.add(&load);
            new.push((piece.task, load));
            if is_gang {
                *own.entry((piece.task, node)).or_default() |= gpus.devices;
            } else {
                places[piece.task.index()] = Some(node);
            }
        }
        Sought::Found(new)
    }

    /// The same wherever the job may be, the node on which it must not be left out. Where all of it must be on one GPU type,
    /// in one rack or on one node, that of the node comes first which is nearest to the ideal one for its first task with a GPU.
    pub(super) fn seek(&mut self, member: &Member, pieces: &[Piece], not: Option<NodeId>) -> Sought {
        let open = self.bounds(member, not);
        if let Some(found) = self.seek_one_node(member, pieces, &open) {
            return found;
        }
        let wanted = &member.job.wanted;
        let leader = pieces.iter().find(|piece| piece.demand.gpu_milli > 0).or_else(|| pieces.first());
        let is_free = member.target.is_none();
        let one_type = is_free && !wanted.mixed_gpu_types && leader.is_some_and(|p| p.demand.gpu_milli > 0);
        let together = is_free && wanted.topology != Topology::Anywhere;
        let several_types = one_type && self.has_several_types();
        let Some(leader) = leader.filter(|_| several_types || together) else {
            return self.seek_inside(member, pieces, &open);
        };
        let mut tried: Vec<Fence> = Vec::new();
        let mut first = Sought::NotFound { task: leader.task, found: 0 };
        for node in self.by_distance(leader, &open) {
            let kind = self.gpu_type(node).filter(|_| several_types);
            let fence = Fence {
                types: kind.map_or(open.types, |kind: GpuTypeId| GpuTypeSet::of(&[kind])),
                rack: (wanted.topology == Topology::SameRack).then(|| self.rack(node)),
                node: (wanted.topology == Topology::SameNode).then_some(node),
                ..open
            };
            if tried.contains(&fence) {
                continue;
            }
            let sought = self.seek_inside(member, pieces, &fence);
            match sought {
                Sought::Found(_) => return sought,
                Sought::NotFound { .. } if tried.is_empty() => first = sought,
                Sought::NotFound { .. } => {}
            }
            tried.push(fence);
        }
        first
    }

    /// All of it on one node, the nearest to the ideal one for the first task with a GPU among those that have room; where that is
    /// wanted and something has to be sent between tasks.
    fn seek_one_node(&mut self, member: &Member, pieces: &[Piece], open: &Fence) -> Option<Sought> {
        let talks = member.graph().is_some_and(|graph| !graph.edges().is_empty() || graph.reduce().is_some());
        if !self.together || pieces.len() < 2 || !talks || member.target.is_some() {
            return None;
        }
        let all = pieces.iter().fold(Resources::NONE, |sum, piece| sum + piece.demand);
        let leader = pieces.iter().find(|piece| piece.demand.gpu_milli > 0).or_else(|| pieces.first())?;
        let near = self.by_distance(leader, open);
        near.into_iter().filter(|node| open.node.is_none_or(|only| only == *node)).find_map(|node| {
            if !all.fits_in(&self.free.room(node)) {
                return None;
            }
            let sought = self.seek_inside(member, pieces, &Fence { node: Some(node), ..*open });
            matches!(sought, Sought::Found(_)).then_some(sought)
        })
    }

    /// Where a job may have more, given what it has.
    pub(super) fn bounds(&self, member: &Member, not: Option<NodeId>) -> Fence {
        let wanted = &member.job.wanted;
        let placements = member.target.placements();
        let first = placements.first().map(|p| p.node);
        let on_gpus = placements.iter().find(|p| p.gpus.devices != 0).and_then(|p| self.gpu_type(p.node));
        let bound = on_gpus.filter(|_| !wanted.mixed_gpu_types);
        Fence {
            types: bound.map_or(wanted.gpu_types, |kind| GpuTypeSet::of(&[kind])),
            rack: first.filter(|_| wanted.topology == Topology::SameRack).map(|node| self.rack(node)),
            node: first.filter(|_| wanted.topology == Topology::SameNode),
            not,
        }
    }
}

/// Placements of what was found; those of a gang on one node are one.
pub(super) fn placements(is_gang: bool, found: &[(TaskId, Load)]) -> Vec<Placement> {
    let mut all: Vec<Placement> = Vec::with_capacity(found.len());
    for (task, load) in found {
        let same = |p: &&mut Placement| is_gang && p.task == *task && p.node == load.node;
        match all.iter_mut().find(same) {
            Some(p) => {
                p.count += load.tasks;
                p.gpus = GpuSet { devices: p.gpus.devices | load.gpus.devices, ..load.gpus };
            }
            None => all.push(Placement {
                copy: CopyId(0),
                task: *task,
                node: load.node,
                count: load.tasks,
                gpus: load.gpus,
            }),
        }
    }
    all
}
