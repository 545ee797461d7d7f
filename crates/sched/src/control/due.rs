//! What is due now, derived afresh from targets and state. Level, not edge: nothing is queued, so
//! failures, lost messages and restarts heal by themselves.

use std::collections::BTreeMap;

use crate::decide::Abilities;
use crate::model::{JobId, NodeId};
use crate::view::Phase;

use super::state::State;
use super::{Action, How};

/// The actions that are due, in the order of the jobs: first what gives devices back, then what takes
/// them. A start is due when its placements are physically free now.
pub fn due(state: &mut State, abilities: Abilities) -> Vec<Action> {
    let mut actions: Vec<Action> = Vec::new();
    let mut takers = Vec::new();
    for id in state.open() {
        let Some(view) = state.job(id) else { continue };
        let resizable = view.target.is_some() && abilities.has(Abilities::RESIZE);
        match view.phase {
            Phase::Running if view.held == view.target => actions.extend(state.merge_due(view, abilities)),
            Phase::Starting if view.held == view.target => {}
            Phase::Waiting => takers.push(id),
            // A move that was ordered is waited for, unless the job shall stop.
            Phase::Running if resizable && state.is_moving(id) => {}
            Phase::Running if resizable && !state.is_ending(id) => {
                match state.first_of_copies(view, abilities) {
                    Some(action) => actions.push(action),
                    None => takers.push(id),
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
    let mut blocked = BTreeMap::new();
    for id in takers {
        match take(state, id, abilities) {
            Ok(action) => {
                // What one start takes is no longer free for the next.
                state.reserve(&action);
                actions.push(action);
            }
            Err(nodes) if !nodes.is_empty() => drop(blocked.insert(id, nodes)),
            Err(_) => {}
        }
    }
    state.release_reservations();
    for id in stuck(state, &blocked) {
        let view = state.job(id).expect("a blocked job is there");
        actions.insert(0, Action::Stop { job: id, attempt: view.attempt, how: How::Save });
    }
    actions
}

/// The action with which a job takes what it shall have; or, if it runs and must wait, the nodes that
/// are in the way.
fn take(state: &mut State, id: JobId, abilities: Abilities) -> Result<Action, Vec<NodeId>> {
    let Some(view) = state.job_shared(id) else { return Err(Vec::new()) };
    let (allocation, quotas) = (view.target.clone(), state.quotas(id, &view.target, abilities));
    if view.phase == Phase::Waiting {
        let (job, attempt) = (id, view.attempt.next());
        let free = state.is_physically_free(&view);
        let start = Action::Start { job, attempt, allocation, quotas };
        return if free { Ok(start) } else { Err(Vec::new()) };
    }
    let nodes = state.nodes_in_the_way(&view);
    if nodes.is_empty() {
        Ok(Action::Resize { job: id, attempt: view.attempt, allocation, quotas })
    } else {
        Err(nodes)
    }
}

/// Running jobs that can only move after a stop: those in their own way, and of those that wait for
/// each other in a ring the last one. The cost is that of the unsettled jobs, and not of their pairs.
fn stuck(state: &State, blocked: &BTreeMap<JobId, Vec<NodeId>>) -> Vec<JobId> {
    if blocked.is_empty() {
        return Vec::new();
    }
    let waits = by_node(blocked.iter().flat_map(|(id, nodes)| nodes.iter().map(|node| (*node, *id))));
    // Who has yet to leave these nodes, or to come there.
    let is_waited_for = |node: &NodeId| on(&waits, *node).next().is_some();
    let there = by_node(
        state.unsettled().flat_map(|id| state.nodes_of(id).filter(is_waited_for).map(move |node| (node, id))),
    );
    let others = |id: JobId, node: &NodeId| on(&there, *node).filter(move |other| *other != id);
    let mut stuck: Vec<JobId> = blocked.keys().copied().collect();
    // Whoever is in the way and not stuck itself will leave by and by.
    let will_clear = |stuck: &[JobId], id: JobId| {
        let leaves = |other: JobId| stuck.binary_search(&other).is_err();
        blocked[&id].iter().all(|node| others(id, node).any(leaves))
    };
    let mut clear: Vec<JobId> = stuck.iter().copied().filter(|id| will_clear(&stuck, *id)).collect();
    while let Some(id) = clear.pop() {
        let Ok(place) = stuck.binary_search(&id) else { continue };
        stuck.remove(place);
        let behind = state.nodes_of(id).flat_map(|node| on(&waits, node));
        clear.extend(behind.filter(|other| stuck.binary_search(other).is_ok() && will_clear(&stuck, *other)));
    }
    let alone = |id: &JobId| blocked[id].iter().any(|node| others(*id, node).next().is_none());
    let mut stopped: Vec<JobId> = stuck.iter().copied().filter(alone).collect();
    if stopped.is_empty() {
        let in_the_way_of = |id: JobId, other: &JobId| {
            *other != id && blocked[other].iter().any(|node| on(&there, *node).any(|there| there == id))
        };
        let holds_up = |id: &&JobId| stuck.iter().any(|other| in_the_way_of(**id, other));
        stopped.extend(stuck.iter().rev().find(holds_up));
    }
    stopped
}

/// Pairs in the order of their nodes, each once.
fn by_node(pairs: impl Iterator<Item = (NodeId, JobId)>) -> Vec<(NodeId, JobId)> {
    let mut pairs: Vec<(NodeId, JobId)> = pairs.collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// The jobs of a node.
fn on(pairs: &[(NodeId, JobId)], node: NodeId) -> impl Iterator<Item = JobId> {
    let begin = pairs.partition_point(|(other, _)| *other < node);
    pairs[begin..].iter().take_while(move |(other, _)| *other == node).map(|(_, id)| *id)
}
