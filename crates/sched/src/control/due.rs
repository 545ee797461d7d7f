//! What is due now, derived afresh from targets and state. Level, not edge: nothing is queued, so
//! failures, lost messages and restarts heal by themselves.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::decide::Abilities;
use crate::model::{Allocation, JobId, NodeId};
use crate::view::{JobView, Phase};

use super::state::State;
use super::{Action, How};

/// The actions that are due, in the order of the jobs: first what gives devices back, then what takes
/// them. A start is due when its placements are physically free now.
pub fn due(state: &mut State, abilities: Abilities) -> Vec<Action> {
    let mut actions: Vec<Action> = Vec::new();
    let open = state.open();
    if open.is_empty() {
        return actions;
    }
    let mut takers = Vec::with_capacity(open.len());
    // Where those hold anything, or are about to, that are to leave some of it.
    let mut there: Vec<(NodeId, JobId)> = Vec::with_capacity(2 * open.len());
    for id in open {
        let Some(view) = state.job_shared(id) else { continue };
        if view.held != view.target {
            let to = state.moves_to(id).into_iter().chain([&view.held]);
            there.extend(to.flat_map(Allocation::placements).map(|placement| (placement.node, id)));
        }
        let resizable = view.target.is_some() && abilities.has(Abilities::RESIZE);
        match view.phase {
            Phase::Running if view.held == view.target => actions.extend(state.merge_due(view, abilities)),
            Phase::Starting if view.held == view.target => {}
            Phase::Waiting => takers.push(Arc::clone(view)),
            // A move that was ordered is waited for, unless the job shall stop.
            Phase::Running if resizable && state.is_moving(id) => {}
            Phase::Running if resizable && !state.is_ending(id) => {
                match state.first_of_copies(view, abilities) {
                    Some(action) => actions.push(action),
                    None => takers.push(Arc::clone(view)),
                }
            }
            Phase::Starting | Phase::Running => {
                let how = if state.is_ending(id) { How::Finish } else { How::Save };
                let stop = Action::Stop { job: id, attempt: view.attempt, how };
                actions.push(state.merge_due(view, abilities).unwrap_or(stop));
            }
            Phase::Stopping => {}
        }
    }
    // Those that run and must wait, with the nodes that are in the way.
    let mut blocked: Vec<(Arc<JobView>, Nodes)> = Vec::new();
    for view in takers {
        match take(state, &view, abilities) {
            Ok(action) => {
                // What one start takes is no longer free for the next.
                state.reserve(&action);
                actions.push(action);
            }
            Err(nodes) if !nodes.is_empty() => blocked.push((view, nodes)),
            Err(_) => {}
        }
    }
    state.release_reservations();
    for view in stuck(there, &blocked) {
        actions.insert(0, Action::Stop { job: view.id(), attempt: view.attempt, how: How::Save });
    }
    actions
}

/// Nodes in ascending order.
type Nodes = SmallVec<[NodeId; 4]>;

/// The action with which a job takes what it shall have; or, if it runs and must wait, the nodes that
/// are in the way.
fn take(state: &mut State, view: &JobView, abilities: Abilities) -> Result<Action, Nodes> {
    let job = view.id();
    if view.phase == Phase::Waiting {
        if !state.is_physically_free(view) {
            return Err(Nodes::new());
        }
        let quotas = state.quotas(job, &view.target, abilities);
        return Ok(Action::Start {
            job,
            attempt: view.attempt.next(),
            allocation: view.target.clone(),
            quotas,
        });
    }
    let nodes = state.nodes_in_the_way(view);
    if nodes.is_empty() {
        let quotas = state.quotas(job, &view.target, abilities);
        Ok(Action::Resize { job, attempt: view.attempt, allocation: view.target.clone(), quotas })
    } else {
        Err(nodes)
    }
}

/// Running jobs that can only move after a stop: those in their own way, and of those that wait for
/// each other in a ring the last one. The cost is that of the unsettled jobs, and not of their pairs.
fn stuck(mut there: Vec<(NodeId, JobId)>, blocked: &[(Arc<JobView>, Nodes)]) -> Vec<&JobView> {
    if blocked.is_empty() {
        return Vec::new();
    }
    let mut waits: Vec<(NodeId, usize)> = blocked
        .iter()
        .enumerate()
        .flat_map(|(i, (_, nodes))| nodes.iter().map(move |node| (*node, i)))
        .collect();
    waits.sort_unstable();
    there.retain(|(node, _)| on(&waits, *node).next().is_some());
    there.sort_unstable();
    there.dedup();
    let place = |id: JobId| blocked.binary_search_by_key(&id, |(view, _)| view.id()).ok();
    let others = |i: usize, node: &NodeId| {
        let own = blocked[i].0.id();
        on(&there, *node).filter(move |other| *other != own)
    };
    let mut is_stuck = vec![true; blocked.len()];
    // Whoever is in the way and not stuck itself will leave by and by.
    let will_clear = |is_stuck: &[bool], i: usize| {
        let leaves = |other: JobId| place(other).is_none_or(|other| !is_stuck[other]);
        blocked[i].1.iter().all(|node| others(i, node).any(leaves))
    };
    let mut clear: Vec<usize> = (0..blocked.len()).filter(|i| will_clear(&is_stuck, *i)).collect();
    while let Some(i) = clear.pop() {
        if !std::mem::replace(&mut is_stuck[i], false) {
            continue;
        }
        let id = blocked[i].0.id();
        for (node, _) in there.iter().filter(|(_, other)| *other == id) {
            clear.extend(on(&waits, *node).filter(|other| is_stuck[*other] && will_clear(&is_stuck, *other)));
        }
    }
    let stuck = || (0..blocked.len()).filter(|i| is_stuck[*i]);
    let alone = |i: &usize| blocked[*i].1.iter().any(|node| others(*i, node).next().is_none());
    let mut stopped: Vec<usize> = stuck().filter(alone).collect();
    if stopped.is_empty() {
        let in_the_way_of = |id: JobId, other: usize| {
            let mut nodes = blocked[other].1.iter();
            blocked[other].0.id() != id && nodes.any(|node| on(&there, *node).any(|there| there == id))
        };
        let holds_up = |i: &usize| stuck().any(|other| in_the_way_of(blocked[*i].0.id(), other));
        stopped.extend(stuck().rev().find(holds_up));
    }
    stopped.into_iter().map(|i| &*blocked[i].0).collect()
}

/// What is on a node, of pairs in the order of nodes.
fn on<T: Copy>(pairs: &[(NodeId, T)], node: NodeId) -> impl Iterator<Item = T> {
    let begin = pairs.partition_point(|(other, _)| *other < node);
    pairs[begin..].iter().take_while(move |(other, _)| *other == node).map(|(_, found)| *found)
}
