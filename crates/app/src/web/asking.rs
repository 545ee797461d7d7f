//! Why a job of a running cluster waits: the question of `trainyard why`, asked of the loop as it stands.

use std::sync::Arc;

use trainyard_live::board::{Board, Card};
use trainyard_sched::control::Outcome;
use trainyard_sched::model::Job;
use trainyard_sim::forecast::Past;

use super::access::Caller;
use super::office::Office;
use super::problem::{Kind, Problem};
use super::shown::called;
use crate::inquiry::Inquiry;
use crate::render::Answer;

/// Asks about the job of a card.
pub(crate) fn ask_why(office: &Office, caller: &Caller, card: &Card) -> Result<Answer, Problem> {
    let moment = office.handle.moment()?;
    let (past, names, policy, parameters) = {
        let board = office.board();
        (past(&board), called(office, &board, caller), board.policy.clone(), board.parameters.clone())
    };
    let fresh = (office.handle.policies())(&policy, &parameters)
        .map_err(|why| Problem::new(Kind::Internal, format!("policy {policy}: {why}")))?;
    let verdict = moment.state.job(card.job).map(|_| moment.state.verdict(card.job));
    let inquiry = Inquiry {
        moment: &moment,
        past: &past,
        policy: &policy,
        make: &|| fresh(),
        names,
        job: card.job,
        name: Arc::clone(&card.name),
        arrived: card.submitted,
        started: card.started,
        ended: card.ended.zip(card.outcome),
        early: card.early,
        verdict: (verdict, card.verdict_since),
        is_usual: false,
        run_ends: moment.at,
        sees_only: caller.sees_only(),
    };
    Ok(inquiry.answer())
}

/// What happened before, from the cards: they outlive a restart of the daemon. A job that could be elastic counts for as
/// long as it declared, if it did; how many workers it had over time is not on its card.
fn past(board: &Board) -> Past {
    let arrivals = board.jobs.values().map(|card| Arc::clone(&card.asked)).collect();
    let by_itself = |card: &&Card| {
        matches!(card.outcome, Some(Outcome::Completed | Outcome::Failed | Outcome::StopRuleMet))
    };
    let mut ended: Vec<&Card> = board.jobs.values().filter(by_itself).collect();
    ended.sort_by_key(|card| card.ended);
    Past::kept(arrivals, ended.into_iter().map(worked))
}

fn worked(card: &Card) -> (Arc<Job>, f64) {
    let declared = card.asked.declared.iteration.map(|each| each.as_secs_f64() * card.iterations);
    let is_elastic = card.may_have.0 < card.may_have.1;
    let worked_s = declared.filter(|_| is_elastic).unwrap_or(card.executed_s);
    (Arc::clone(&card.asked), worked_s)
}
