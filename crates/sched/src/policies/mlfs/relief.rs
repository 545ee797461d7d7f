//! Which tasks leave overloaded nodes (MLFS, section 3.3.3).
//!
//! Tasks leave one by one until the node is not overloaded any more, in thought: they keep running until another node is
//! found. Those leave that are nearest to an ideal one among the candidates: where GPUs are overloaded, the tasks on these with
//! the lowest priority, else all.
//!
//! Where we differ: gangs without a graph, parameter servers, jobs that may not be moved or are not where they are to be, and
//! tasks that moved in the last five rounds do not leave.

use std::collections::BTreeMap;

use crate::model::{JobId, NodeId, Span, TaskId, Time, Topology};
use crate::view::{JobView, Snapshot};

use super::ideal::{IdealLeaver, Leaver};
use super::member::Member;
use super::memory::Memory;
use super::parameters::{Parameters, Unplaced};
use super::placing::talks;
use super::queue::{Key, Ranking, is_settled};
use super::servers::{Load, Servers};

/// For how many rounds a task stays that moved.
const STAYS: u64 = 5;

/// A task that is to leave an overloaded node.
#[derive(Clone, Debug)]
pub(super) struct Leaving {
    pub(super) job: JobId,
    pub(super) task: TaskId,
    /// What it is counted with where it is.
    pub(super) load: Load,
    pub(super) key: Key,
}

/// A task on an overloaded node.
struct There {
    job: JobId,
    task: TaskId,
    load: Load,
    key: Option<Key>,
    leaver: Leaver,
}

/// Moves before this are long enough ago.
pub(super) fn settled_before(now: Time, parameters: &Parameters) -> Time {
    now - Span::from_secs_f64(parameters.round_s * STAYS as f64)
}

/// Whether some tasks of a job may leave a node.
fn may_move(view: &JobView, member: &Member) -> bool {
    let stays_together = member.job.wanted.topology == Topology::SameNode && member.tasks() > 1;
    member.graph().is_some() && is_settled(view) && !stays_together
}

/// The tasks on overloaded nodes, by node.
fn on_overloaded(
    seen: &Snapshot,
    servers: &Servers,
    members: &BTreeMap<JobId, Member>,
    jobs: &[JobId],
    ranking: &Ranking,
    parameters: &Parameters,
) -> BTreeMap<NodeId, Vec<There>> {
    let mut by_node: BTreeMap<NodeId, Vec<There>> = BTreeMap::new();
    for id in jobs {
        let (Some(member), Some(view)) = (members.get(id), seen.job(*id)) else { continue };
        let memory = Memory::of(view);
        let may_move = may_move(view, member);
        for (task, load) in member.loads.iter().filter(|(_, load)| servers.is_overloaded(load.node)) {
            let is_server = member.graph().is_some_and(|graph| graph.is_server(*task));
            let before = settled_before(seen.at, parameters);
            let rests = memory.last_move(*task).is_some_and(|at| at > before);
            let key = (may_move && !is_server && !rests)
                .then(|| ranking.key(member, std::iter::once(*task), task.index(), false));
            let leaver = Leaver { utilisation: servers.parts(load.node, &load.used), bytes: 0.0 };
            let there = There { job: *id, task: *task, load: *load, key, leaver };
            by_node.entry(load.node).or_default().push(there);
        }
    }
    by_node
}

/// The jobs with a task on an overloaded node, ascending.
pub(super) fn jobs_on_overloaded<'a>(
    servers: &Servers,
    running: impl Iterator<Item = (JobId, &'a Member)>,
) -> Vec<JobId> {
    let on = |member: &Member| member.loads.iter().any(|(_, load)| servers.is_overloaded(load.node));
    running.filter(|(_, member)| on(member)).map(|(id, _)| id).collect()
}

/// Chooses who leaves, and takes them off their nodes in thought.
pub(super) fn relieve(
    seen: &Snapshot,
    servers: &mut Servers,
    members: &mut BTreeMap<JobId, Member>,
    jobs: &[JobId],
    ranking: &Ranking,
    parameters: &Parameters,
) -> Vec<Leaving> {
    let mut leaving = Vec::new();
    let by_node = on_overloaded(seen, servers, members, jobs, ranking, parameters);
    for (node, mut there) in by_node {
        while servers.is_overloaded(node) {
            let Some(i) = chosen(servers, node, members, &mut there, parameters) else { break };
            let left = there.swap_remove(i);
            match parameters.unplaced {
                Unplaced::Queue => servers.remove(&left.load),
                Unplaced::Stay => servers.use_less(&left.load),
            }
            let member = members.get_mut(&left.job).expect("it holds something");
            member.loads.retain(|(task, _)| *task != left.task);
            let key = left.key.expect("it may leave");
            leaving.push(Leaving { job: left.job, task: left.task, load: left.load, key });
        }
    }
    leaving
}

/// Which of the tasks on an overloaded node leaves next.
fn chosen(
    servers: &Servers,
    node: NodeId,
    members: &BTreeMap<JobId, Member>,
    there: &mut [There],
    parameters: &Parameters,
) -> Option<usize> {
    let overloaded = servers.overloaded(node);
    let devices = servers.overloaded_devices(node);
    if parameters.bandwidth {
        volumes(node, members, there);
    }
    let on_device = |task: &There| devices == 0 || task.load.gpus.devices & devices != 0;
    let able = |(_, task): &(usize, &There)| task.key.is_some() && on_device(task);
    let mut candidates: Vec<usize> = there.iter().enumerate().filter(able).map(|(i, _)| i).collect();
    // Those of the lowest priority first.
    candidates.sort_by(|a, b| there[*b].key.cmp(&there[*a].key));
    if devices != 0 || parameters.ps_all {
        let most = (parameters.migration_share * candidates.len() as f64).ceil().max(1.0) as usize;
        candidates.truncate(most);
    }
    let ideal = IdealLeaver::of(overloaded, there.iter().map(|task| &task.leaver));
    let far = |i: &usize| ideal.distance_squared(&there[*i].leaver);
    candidates
        .into_iter()
        .min_by(|a, b| far(a).total_cmp(&far(b)).then_with(|| there[*b].key.cmp(&there[*a].key)))
}

/// Bytes in one iteration between each task on a node and the others of its job there.
fn volumes(node: NodeId, members: &BTreeMap<JobId, Member>, there: &mut [There]) {
    let mut here: Vec<(JobId, TaskId)> = there.iter().map(|task| (task.job, task.task)).collect();
    here.sort_unstable();
    for task in there.iter_mut().filter(|task| task.key.is_some()) {
        let Some(member) = members.get(&task.job) else { continue };
        let place = |other: TaskId| here.binary_search(&(task.job, other)).is_ok().then_some(node);
        let volume = talks(member, &place, task.task).first().map_or(0, |(_, bytes)| *bytes);
        task.leaver.bytes = volume as f64;
    }
}

#[cfg(test)]
mod tests;
