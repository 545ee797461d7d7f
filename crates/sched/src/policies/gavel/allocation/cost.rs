//! Least cost, with promises of when jobs are done or without (Gavel, section 4.2; `max_sum_throughput_normalized_by_cost_perf`
//! and `max_sum_throughput_normalized_by_cost_perf_SLOs` in its code).
//!
//! The paper maximises steps a unit of money, all steps over all money; the public code maximises a sum of steps over prices,
//! cell by cell, which is another objective. Both are here. Money is counted as both do, without the size of gangs.
//!
//! The ratio is found as Dinkelbach does (Management Science 1967): with a guess of the best ratio, maximise steps minus the
//! guess times money; the ratio of the answer is the next guess. It rises until nothing more can be gained, after a few programs.
//! The transformation of Charnes and Cooper gives the same optimum, as a test shows, but its program has a variable in all rows.
//!
//! A job with a deadline must have the rate that meets it. Where not all can be met at once, all deadlines are dropped, as the
//! public code does; the policy then asks again for fewer of them.

use super::frame::{Cell, Solved, Space};
use super::max_min::may_have;
use super::packing::{PackedAllocation, Sharing};
use super::problem::{Allocation, Demand, Problem, Sight};
use super::sums::greatest;
use crate::solve::Unsolved;

/// What is maximised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostForm {
    /// All steps over all money, as in the paper. The objective is steps a second for a unit of money an hour.
    Ratio,
    /// The sum of steps over prices, as in the public code.
    Sum,
}

/// Shares of least cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Cheapest {
    /// The shares, and their value.
    pub allocation: Allocation,
    /// Whether all deadlines are met. Without any they are.
    pub meets_deadlines: bool,
}

/// Prices below this count as this much.
const LEAST_PRICE: f64 = 1e-9;
/// A guess of the ratio that grows by less than this share is right; and how often it may grow.
const SETTLED: f64 = 1e-10;
const MOST_GUESSES: u32 = 50;

/// Rates that deadlines need may be missed by this share, so that there is room to search in where they take all time.
const ROOM: f64 = 1e-7;

/// Shares that make the most of money.
pub fn min_cost(problem: &Problem, form: CostForm) -> Result<Cheapest, Unsolved> {
    let (solved, objective, meets_deadlines) = solve(problem, Space::Alone(Sight::Aware), form)?;
    Ok(Cheapest { allocation: solved.allocation(objective), meets_deadlines })
}

/// The same where jobs may share GPUs in pairs; a pair costs as much as one job. Also says whether all deadlines are met.
pub fn min_cost_packed(
    problem: &Problem,
    sharing: &Sharing,
    form: CostForm,
) -> Result<(PackedAllocation, bool), Unsolved> {
    let (solved, objective, meets_deadlines) = solve(problem, Space::Packed(sharing), form)?;
    Ok((solved.packed(objective), meets_deadlines))
}

fn solve<'a>(
    problem: &'a Problem,
    space: Space<'a>,
    form: CostForm,
) -> Result<(Solved<'a>, f64, bool), Unsolved> {
    let need = |job: &Demand| match job.deadline_s {
        Some(left_s) if left_s > 0.0 => job.steps_left.max(0.0) / left_s,
        Some(_) if job.steps_left > 0.0 => f64::INFINITY,
        _ => 0.0,
    };
    let needs: Vec<f64> = problem.jobs.iter().map(need).collect();
    let meets_deadlines = may_have(problem, space, &needs)?;
    let needs: Vec<f64> =
        if meets_deadlines { needs.iter().map(|need| need * (1.0 - ROOM)).collect() } else { Vec::new() };
    let needs = &needs[..];
    let cheap = |cell: &Cell| cell.rate / price(problem, cell);
    let first = greatest(problem, space, cheap, needs)?;
    let (solved, objective) = match form {
        CostForm::Sum => {
            let worth = first.sum(cheap);
            (first, worth)
        }
        CostForm::Ratio => best_ratio(problem, space, needs, first)?,
    };
    Ok((solved, objective, meets_deadlines))
}

fn price(problem: &Problem, cell: &Cell) -> f64 {
    problem.pools[problem.columns[cell.column].pool].price_per_h.max(LEAST_PRICE)
}

fn best_ratio<'a>(
    problem: &'a Problem,
    space: Space<'a>,
    needs: &[f64],
    first: Solved<'a>,
) -> Result<(Solved<'a>, f64), Unsolved> {
    let money = |cell: &Cell| cell.part * price(problem, cell);
    let ratio = |solved: &Solved<'_>| match solved.sum(money) {
        money if money > 0.0 => solved.sum(|cell| cell.rate) / money,
        _ => 0.0,
    };
    let mut guess = ratio(&first);
    let mut best = first;
    for _ in 0..MOST_GUESSES {
        let next = greatest(problem, space, |cell| cell.rate - guess * money(cell), needs)?;
        let found = ratio(&next);
        if found <= guess * (1.0 + SETTLED) {
            return Ok((best, guess));
        }
        (best, guess) = (next, found);
    }
    Err(Unsolved::Failed { iterations: MOST_GUESSES, gap: 0.0 })
}
