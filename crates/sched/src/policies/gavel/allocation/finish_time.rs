//! Finish-time fairness: no job shall take much longer than it would with an equal part of the cluster to itself (Themis,
//! Mahajan et al., NSDI 2020; Gavel, section 4.2; `finish_time_fairness` and `finish_time_fairness_perf` in its code).
//!
//! The measure of a job is `rho = (time since arrival + steps left / rate) / (isolated time so far + steps left / isolated
//! rate)`; weights play no part. The greatest is minimised.
//!
//! Where we differ: the public code hands a convex program to a cone solver. For a given rho each job needs a certain rate,
//! and how far all of these can be had at once is a linear program with a rise. It rises to exactly one at the best rho, which
//! is found by the method of Newton: the duals of the levels say how the rise changes with rho.

use super::frame::Frame;
use super::problem::{Allocation, Problem, Shares, Sight};
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
    let measures: Vec<Measure> =
        (0..problem.jobs.len()).map(|job| Measure::of(problem, job, sight)).collect();
    let can_run = |job: &usize| problem.fastest(*job, sight) > 0.0 && measures[*job].steps > 0.0;
    let jobs: Vec<usize> = (0..problem.jobs.len()).filter(can_run).collect();
    let rho_of = |shares: &Shares| {
        let each = jobs.iter().map(|job| measures[*job].at(problem.believed_rate(shares, *job, sight)));
        each.fold(0.0, f64::max)
    };
    let Some(mut bracket) = Bracket::new(problem, &measures, &jobs, sight) else {
        let shares = Shares::nothing(problem.jobs.len(), problem.columns.len());
        return Ok(Allocation { shares, objective: 0.0 });
    };
    let mut rho = bracket.high;
    for _ in 0..MOST_MOVES {
        let frame = Frame::new(
            problem,
            1.0,
            |job, column| (0.0, problem.believed(job, column, sight)),
            |job, _| match measures[job].steps {
                steps if steps > 0.0 => Level::Rising { least: 0.0, by: measures[job].needed(rho) },
                _ => Level::Free,
            },
        );
        let answer = frame.solve()?;
        // How the rise changes with rho, and with it where it will be one.
        let slopes = frame.jobs.iter().zip(&answer.level_duals).map(|(job, dual)| {
            let measure = measures[*job];
            let needed = measure.needed(rho);
            if measure.steps > 0.0 { dual * needed * needed * measure.alone_s / measure.steps } else { 0.0 }
        });
        let next = rho + (1.0 - answer.rise) / (answer.rise * slopes.sum::<f64>());
        bracket.narrow(rho, answer.rise);
        let is_settled = (next - rho).abs() <= SETTLED * rho || bracket.is_closed();
        if is_settled {
            return Ok(frame.allocation(&answer, rho_of));
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
    fn new(problem: &Problem, measures: &[Measure], jobs: &[usize], sight: Sight) -> Option<Self> {
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
