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
//! public code does.

use super::max_min::may_have;
use super::problem::{Allocation, Problem, Sight};
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

/// Shares that make the most of money.
pub fn min_cost(problem: &Problem, form: CostForm) -> Result<Cheapest, Unsolved> {
    let needs: Vec<f64> = problem
        .jobs
        .iter()
        .map(|job| match job.deadline_s {
            Some(left_s) if left_s > 0.0 => job.steps_left.max(0.0) / left_s,
            Some(_) if job.steps_left > 0.0 => f64::INFINITY,
            _ => 0.0,
        })
        .collect();
    let is_bound = needs.iter().any(|need| *need > 0.0);
    let meets_deadlines = !is_bound || may_have(problem, &needs, Sight::Aware)?;
    let needed = |job: usize| needs[job];
    let least = (is_bound && meets_deadlines).then_some(&needed as &dyn Fn(usize) -> f64);
    let allocation = match form {
        CostForm::Sum => {
            greatest(problem, |job, column| problem.jobs[job].rates[column] / price(problem, column), least)?
        }
        CostForm::Ratio => best_ratio(problem, least)?,
    };
    Ok(Cheapest { allocation, meets_deadlines })
}

fn price(problem: &Problem, column: usize) -> f64 {
    problem.pools[problem.columns[column].pool].price_per_h.max(LEAST_PRICE)
}

fn best_ratio(problem: &Problem, least: Option<&dyn Fn(usize) -> f64>) -> Result<Allocation, Unsolved> {
    let ratio = |allocation: &Allocation| {
        let (mut steps, mut money) = (0.0, 0.0);
        for (job, demand) in problem.jobs.iter().enumerate() {
            for (column, share) in allocation.shares.row(job).iter().enumerate() {
                steps += share * demand.rates[column];
                money += share * price(problem, column);
            }
        }
        if money > 0.0 { steps / money } else { 0.0 }
    };
    let mut best =
        greatest(problem, |job, column| problem.jobs[job].rates[column] / price(problem, column), least)?;
    best.objective = ratio(&best);
    for _ in 0..MOST_GUESSES {
        let guess = best.objective;
        let gain =
            |job: usize, column: usize| problem.jobs[job].rates[column] - guess * price(problem, column);
        let mut next = greatest(problem, gain, least)?;
        next.objective = ratio(&next);
        if next.objective <= guess * (1.0 + SETTLED) {
            return Ok(best);
        }
        best = next;
    }
    Err(Unsolved::Failed { iterations: MOST_GUESSES, gap: 0.0 })
}
