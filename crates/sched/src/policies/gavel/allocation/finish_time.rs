//! Finish-time fairness: no job shall take much longer than it would with an equal part of the cluster to itself (Themis,
//! Mahajan et al., NSDI 2020; Gavel, section 4.2; `finish_time_fairness` and `finish_time_fairness_perf` in its code).
//!
//! The measure of a job is `rho = (time since arrival + steps left / rate) / (isolated time so far + steps left / isolated
//! rate)`; weights play no part. The greatest is minimised.
//!
//! Where we differ: the public code hands a convex program to a cone solver. For a given rho each job needs a certain rate,
//! and how far all of these can be had at once is a linear program with a rise. It rises to exactly one at the best rho, which
//! is found by the method of Newton: the duals of the levels say how the rise changes with rho.

use super::frame::{self, Solved, Space};
use super::packing::{PackedAllocation, Pairs, Sharing};
use super::problem::{Allocation, Demand, Problem, Sight};
use crate::solve::Unsolved;
use crate::solve::blocks::Level;

/// When rho moves by less than this share, it is found; and how often it may move.
const SETTLED: f64 = 1e-9;
const MOST_MOVES: u32 = 60;

/// What the measure of a job is made of.
#[derive(Clone, Copy)]
struct Measure {
    since_s: f64,
    steps: f64,
    alone_s: f64,
}

impl Measure {
    fn of(problem: &Problem, job: usize, sight: Sight) -> Self {
        let demand = &problem.jobs[job];
        let steps = demand.steps_left.max(0.0);
        let isolated = problem.isolated_rate(job, sight);
        // A job that can run nowhere of what is shared evenly has no isolated rate; it counts as having none of its own.
        let left_s = if isolated > 0.0 { steps / isolated } else { 0.0 };
        Self { since_s: demand.since_arrival_s, steps, alone_s: demand.isolated_s + left_s }
    }

    fn at(self, rate: f64) -> f64 {
        (self.since_s + self.steps / rate) / self.alone_s
    }

    /// The rate that keeps the measure at rho.
    fn needed(self, rho: f64) -> f64 {
        self.steps / (rho * self.alone_s - self.since_s)
    }
}

/// Shares with which the job that is treated worst is treated as well as possible. The objective is its rho.
pub fn finish_time_fairness(problem: &Problem, sight: Sight) -> Result<Allocation, Unsolved> {
    let (solved, rho) = solve(problem, Space::Alone(sight))?;
    Ok(solved.allocation(rho))
}

/// The same where jobs may share GPUs in pairs. The best rho is found with the pairs that are needed for it; if all are wanted,
/// one more program with all of them follows.
pub fn finish_time_fairness_packed(
    problem: &Problem,
    sharing: &Sharing,
) -> Result<PackedAllocation, Unsolved> {
    let needed = Sharing { pairs: Pairs::Needed, ..sharing.clone() };
    let (solved, rho) = solve(problem, Space::Packed(&needed))?;
    if sharing.pairs == Pairs::Needed || rho <= 0.0 {
        return Ok(solved.packed(rho));
    }
    let measures = measures(problem, Sight::Aware);
    let solved = at(problem, Space::Packed(sharing), &measures, rho)?;
    Ok(solved.packed(rho))
}

fn measures(problem: &Problem, sight: Sight) -> Vec<Measure> {
    (0..problem.jobs.len()).map(|job| Measure::of(problem, job, sight)).collect()
}

/// How far the rates that are needed for a rho can be had all at once.
fn at<'a>(
    problem: &'a Problem,
    space: Space<'a>,
    measures: &[Measure],
    rho: f64,
) -> Result<Solved<'a>, Unsolved> {
    let level = |job: usize, _: &Demand| match measures[job].steps {
        steps if steps > 0.0 => Level::Rising { least: 0.0, by: measures[job].needed(rho) },
        _ => Level::Free,
    };
    frame::solve(problem, space, 1.0, |_| 0.0, level)
}

fn solve<'a>(problem: &'a Problem, space: Space<'a>) -> Result<(Solved<'a>, f64), Unsolved> {
    let measures = measures(problem, space.sight());
    let can_run = |job: &usize| problem.fastest(*job, space.sight()) > 0.0 && measures[*job].steps > 0.0;
    let jobs: Vec<usize> = (0..problem.jobs.len()).filter(can_run).collect();
    let Some(mut bracket) = Bracket::new(problem, &measures, &jobs, space) else {
        let solved = frame::solve(problem, space, 0.0, |_| 0.0, |_, _| Level::Free)?;
        return Ok((solved, 0.0));
    };
    let mut rho = bracket.high;
    for _ in 0..MOST_MOVES {
        let solved = at(problem, space, &measures, rho)?;
        let rise = solved.answer.rise;
        // How the rise changes with rho, and with it where it will be one.
        let slopes = solved.frame.jobs.iter().zip(&solved.answer.level_duals).map(|(job, dual)| {
            let measure = measures[*job];
            let needed = measure.needed(rho);
            if measure.steps > 0.0 { dual * needed * needed * measure.alone_s / measure.steps } else { 0.0 }
        });
        let next = rho + (1.0 - rise) / (rise * slopes.sum::<f64>());
        bracket.narrow(rho, rise);
        if (next - rho).abs() <= SETTLED * rho || bracket.is_closed() {
            let rates = solved.rates();
            let worst = jobs.iter().map(|job| measures[*job].at(rates[*job])).fold(0.0, f64::max);
            return Ok((solved, worst));
        }
        rho = bracket.within(next);
    }
    Err(Unsolved::Failed { iterations: MOST_MOVES, gap: bracket.high / bracket.low - 1.0 })
}

/// Between which values the best rho is.
struct Bracket {
    low: f64,
    high: f64,
}

impl Bracket {
    /// Nothing if there are no jobs.
    fn new(problem: &Problem, measures: &[Measure], jobs: &[usize], space: Space<'_>) -> Option<Self> {
        let sight = space.sight();
        let low = |job: &usize| {
            let measure = measures[*job];
            measure.at(problem.fastest(*job, sight))
        };
        let high = |job: &usize| {
            let row = problem.isolated_row(*job);
            let shared = row.iter().enumerate();
            let isolated: f64 =
                shared.map(|(column, share)| share * problem.believed(*job, column, sight)).sum();
            measures[*job].at(isolated)
        };
        let low = jobs.iter().map(low).reduce(f64::max)?;
        let high = jobs.iter().map(high).fold(low, f64::max);
        Some(Self { low, high: if high.is_finite() { high } else { 1e6 * low } })
    }

    fn narrow(&mut self, rho: f64, rise: f64) {
        if rise >= 1.0 {
            self.high = self.high.min(rho);
        } else {
            self.low = self.low.max(rho);
        }
    }

    fn is_closed(&self) -> bool {
        self.high - self.low <= SETTLED * self.low
    }

    fn within(&self, rho: f64) -> f64 {
        if rho > self.low && rho < self.high { rho } else { 0.5 * (self.low + self.high) }
    }
}
