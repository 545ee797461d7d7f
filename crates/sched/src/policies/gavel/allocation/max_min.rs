//! Max-min fairness: the job that fares worst shall fare as well as possible (Gavel, section 4.1; `max_min_fairness` and
//! `max_min_fairness_perf` in its code).
//!
//! How a job fares is `gang / (weight * equal rate) * rate`: its rate over that of an equal share, times its gang, so that a
//! job on one GPU gets as much GPU time as one on many, divided by its weight, so that twice the weight is twice the rate.
//!
//! Where we differ: a job that cannot run on a type gets nothing there, even where types are not told apart, and one that
//! can run nowhere is left out instead of holding all others at nought. Of several best answers we take the one in their
//! middle (see [`crate::solve::blocks`]), as the solver of the public code does, nearly.

use super::frame::{self, Solved, Space};
use super::packing::{PackedAllocation, Sharing};
use super::problem::{Allocation, Demand, Problem, Sight};
use crate::solve::Unsolved;
use crate::solve::blocks::Level;

/// What one unit of fairness takes of a job's rate.
pub(super) fn unit(problem: &Problem, job: usize, sight: Sight) -> f64 {
    let demand = &problem.jobs[job];
    demand.weight * problem.equal_rate(job, sight) / f64::from(demand.gang)
}

/// Shares by max-min fairness. The objective is how the job fares that fares worst.
pub fn max_min(problem: &Problem, sight: Sight) -> Result<Allocation, Unsolved> {
    let (solved, fares) = solve(problem, Space::Alone(sight))?;
    Ok(solved.allocation(fares))
}

/// The same where jobs may share GPUs in pairs.
pub fn max_min_packed(problem: &Problem, sharing: &Sharing) -> Result<PackedAllocation, Unsolved> {
    let (solved, fares) = solve(problem, Space::Packed(sharing))?;
    Ok(solved.packed(fares))
}

fn solve<'a>(problem: &'a Problem, space: Space<'a>) -> Result<(Solved<'a>, f64), Unsolved> {
    let unit = |job: usize| unit(problem, job, space.sight());
    let level = |job: usize, _: &Demand| Level::Rising { least: 0.0, by: unit(job) };
    let solved = frame::solve(problem, space, 1.0, |_| 0.0, level)?;
    let rates = solved.rates();
    let fares = solved.frame.jobs.iter().map(|job| rates[*job] / unit(*job)).fold(f64::INFINITY, f64::min);
    Ok((solved, fares))
}

/// By how little rates that are needed may be missed for all that.
const ROUNDING: f64 = 1e-9;

/// Whether all jobs can have the rates that they need at once.
pub(super) fn may_have(problem: &Problem, space: Space<'_>, needs: &[f64]) -> Result<bool, Unsolved> {
    let can_run = |job: usize| problem.fastest(job, space.sight()) > 0.0;
    if needs.iter().enumerate().any(|(job, need)| *need > 0.0 && (need.is_infinite() || !can_run(job))) {
        return Ok(false);
    }
    if needs.iter().all(|need| *need <= 0.0) {
        return Ok(true);
    }
    let level = |job: usize, _: &Demand| match needs[job] {
        need if need > 0.0 => Level::Rising { least: 0.0, by: need },
        _ => Level::Free,
    };
    let solved = frame::solve(problem, space, 1.0, |_| 0.0, level)?;
    Ok(solved.answer.rise >= 1.0 - ROUNDING)
}
