//! What is due now, derived afresh from targets and state. Level, not edge: nothing is queued, so
//! failures, lost messages and restarts heal by themselves.

use crate::decide::Abilities;
use crate::model::JobId;
use crate::view::{JobView, Phase};

use super::state::State;
use super::{Action, How};

/// The actions that are due, in the order of the jobs: first what gives devices back, then what takes
/// them. A start is due when its placements are physically free now.
pub fn due(state: &mut State, abilities: Abilities) -> Vec<Action> {
    let unsettled: Vec<JobId> = state.unsettled().collect();
    let mut actions: Vec<Action> = Vec::new();
    let mut takers = Vec::new();
    for id in unsettled {
        let Some(view) = state.job(id) else { continue };
        let resizable = view.target.is_some() && abilities.has(Abilities::RESIZE);
        match view.phase {
            Phase::Waiting => takers.push(id),
            // A move that was ordered is waited for, unless the job shall stop.
            Phase::Running if resizable && state.is_moving(id) => {}
            Phase::Running if resizable && !state.is_ending(id) => takers.push(id),
            Phase::Starting | Phase::Running => {
                let how = if state.is_ending(id) { How::Finish } else { How::Save };
                actions.push(merge_first(state, view).unwrap_or(Action::Stop {
                    job: id,
                    attempt: view.attempt,
                    how,
                }));
            }
            Phase::Stopping => {}
        }
    }
    for id in takers {
        if let Some(action) = take(state, id) {
            // What one start takes is no longer free for the next.
            state.reserve(&action);
            actions.push(action);
        }
    }
    state.release_reservations();
    actions
}

/// A job with several copies brings their parameters together before it stops or changes.
fn merge_first(state: &State, view: &JobView) -> Option<Action> {
    state.needs_merge(view.id()).then_some(Action::Merge { job: view.id(), attempt: view.attempt })
}

fn take(state: &mut State, id: JobId) -> Option<Action> {
    let view = state.job_shared(id)?;
    match view.phase {
        Phase::Waiting => {
            let free = state.is_physically_free(&view, false);
            let (job, attempt, allocation) = (id, view.attempt.next(), view.target.clone());
            free.then_some(Action::Start { job, attempt, allocation })
        }
        _ => merge_first(state, &view).or_else(|| {
            let free = state.is_physically_free(&view, true);
            let (job, attempt, allocation) = (id, view.attempt, view.target.clone());
            free.then_some(Action::Resize { job, attempt, allocation })
        }),
    }
}
