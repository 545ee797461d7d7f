//! Max-min fairness: the job that fares worst shall fare as well as possible (Gavel, section 4.1; `max_min_fairness` and
//! `max_min_fairness_perf` in its code).
//!
//! How a job fares is `gang / (weight * equal rate) * rate`: its rate over that of an equal share, times its gang, so that a
//! job on one GPU gets as much GPU time as one on many, divided by its weight, so that twice the weight is twice the rate.
//!
//! Where we differ: a job that cannot run on a type gets nothing there, even where types are not told apart, and one that
//! can run nowhere is left out instead of holding all others at nought. Of several best answers we take the one in their
//! middle (see [`crate::solve::blocks`]), as the solver of the public code does, nearly.

use super::frame::Frame;
use super::problem::{Allocation, Problem, Shares, Sight};
use crate::solve::Unsolved;
use crate::solve::blocks::Level;

/// What one unit of fairness takes of a job's rate.
pub(super) fn unit(problem: &Problem, job: usize, sight: Sight) -> f64 {
    let demand = &problem.jobs[job];
    demand.weight * problem.equal_rate(job, sight) / f64::from(demand.gang)
}

/// Shares by max-min fairness. The objective is how the job fares that fares worst.
pub fn max_min(problem: &Problem, sight: Sight) -> Result<Allocation, Unsolved> {
    let frame = Frame::new(
        problem,
        1.0,
        |job, column| (0.0, problem.believed(job, column, sight)),
        |job, _| Level::Rising { least: 0.0, by: unit(problem, job, sight) },
    );
    let fares = |shares: &Shares| {
        let each = frame
            .jobs
            .iter()
            .map(|job| problem.believed_rate(shares, *job, sight) / unit(problem, *job, sight));
        each.fold(f64::INFINITY, f64::min)
    };
    Ok(frame.allocation(&frame.solve()?, fares))
}

/// By how little rates that are needed may be missed for all that.
const ROUNDING: f64 = 1e-9;

/// Whether all jobs can have the rates that they need at once.
pub(super) fn may_have(problem: &Problem, needs: &[f64], sight: Sight) -> Result<bool, Unsolved> {
    let can_run = |job: usize| problem.fastest(job, sight) > 0.0;
    if needs.iter().enumerate().any(|(job, need)| *need > 0.0 && (need.is_infinite() || !can_run(job))) {
        return Ok(false);
    }
    let frame = Frame::new(
        problem,
        1.0,
        |job, column| (0.0, problem.believed(job, column, sight)),
        |job, _| match needs[job] {
            need if need > 0.0 => Level::Rising { least: 0.0, by: need },
            _ => Level::Free,
        },
    );
    let needed = needs.iter().any(|need| *need > 0.0);
    Ok(!needed || frame.solve()?.rise >= 1.0 - ROUNDING)
}
