//! Objectives that are sums over jobs: the greatest total rate, and first in, first out as a linear program.
//!
//! `max_sum` is `max_sum_throughput_perf` of the public code: steps a second are added up as they are, so models with many small
//! steps win. `fifo_linear` is Gavel's section 4.2: of `n` jobs the first one's progress counts `n` times, the next one's `n
//! - 1` times, and so on, each relative to the job's greatest rate. The public code has a greedy instead, see `orders`.

use super::frame::{self, Cell, Solved, Space};
use super::problem::{Allocation, Demand, Problem, Sight};
use crate::solve::Unsolved;
use crate::solve::blocks::Level;

/// Solves for the greatest sum of shares times gains, with rates that some jobs must have.
pub(super) fn greatest<'a>(
    problem: &'a Problem,
    space: Space<'a>,
    gain: impl Fn(&Cell) -> f64,
    needs: &[f64],
) -> Result<Solved<'a>, Unsolved> {
    let level = |job: usize, _: &Demand| match needs.get(job) {
        Some(need) if *need > 0.0 => Level::Floor(*need),
        _ => Level::Free,
    };
    frame::solve(problem, space, 0.0, gain, level)
}

/// Shares with the greatest total rate. The objective is that rate, in steps a second.
pub fn max_sum(problem: &Problem) -> Result<Allocation, Unsolved> {
    let solved = greatest(problem, Space::Alone(Sight::Aware), |cell| cell.rate, &[])?;
    Ok(solved.allocation(solved.sum(|cell| cell.rate)))
}

/// Shares that favour early jobs. The objective is the weighted sum of progress.
pub fn fifo_linear(problem: &Problem) -> Result<Allocation, Unsolved> {
    let jobs = problem.jobs.len();
    let gain = |cell: &Cell| cell.rate / problem.fastest(cell.job, Sight::Aware) * (jobs - cell.job) as f64;
    let solved = greatest(problem, Space::Alone(Sight::Aware), gain, &[])?;
    Ok(solved.allocation(solved.sum(gain)))
}
