//! Objectives that are sums over jobs: the greatest total rate, and first in, first out as a linear program.
//!
//! `max_sum` is `max_sum_throughput_perf` of the public code: steps a second are added up as they are, so models with many small
//! steps win. `fifo_linear` is Gavel's section 4.2: of `n` jobs the first one's progress counts `n` times, the next one's `n
//! - 1` times, and so on, each relative to the job's greatest rate. The public code has a greedy instead, see `orders`.

use super::frame::Frame;
use super::problem::{Allocation, Problem, Shares, Sight};
use crate::solve::Unsolved;
use crate::solve::blocks::Level;

/// Solves for the greatest sum of shares times gains.
pub(super) fn greatest(
    problem: &Problem,
    gain: impl Fn(usize, usize) -> f64,
    least: Option<&dyn Fn(usize) -> f64>,
) -> Result<Allocation, Unsolved> {
    let frame = Frame::new(
        problem,
        0.0,
        |job, column| (gain(job, column), problem.jobs[job].rates[column]),
        |job, _| match least.map(|least| least(job)) {
            Some(least) if least > 0.0 => Level::Floor(least),
            _ => Level::Free,
        },
    );
    let worth = |shares: &Shares| {
        let of = |job: usize| -> f64 {
            let cells = shares.row(job).iter().enumerate().filter(|(_, share)| **share > 0.0);
            cells.map(|(column, share)| share * gain(job, column)).sum()
        };
        frame.jobs.iter().map(|job| of(*job)).sum()
    };
    Ok(frame.allocation(&frame.solve()?, worth))
}

/// Shares with the greatest total rate. The objective is that rate, in steps a second.
pub fn max_sum(problem: &Problem) -> Result<Allocation, Unsolved> {
    greatest(problem, |job, column| problem.jobs[job].rates[column], None)
}

/// Shares that favour early jobs. The objective is the weighted sum of progress.
pub fn fifo_linear(problem: &Problem) -> Result<Allocation, Unsolved> {
    let jobs = problem.jobs.len();
    let gain = |job: usize, column: usize| {
        problem.jobs[job].rates[column] / problem.fastest(job, Sight::Aware) * (jobs - job) as f64
    };
    greatest(problem, gain, None)
}
