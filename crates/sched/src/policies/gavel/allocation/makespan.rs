//! The least makespan: all jobs are done as soon as possible (Gavel, section 4.2; `min_total_duration` and
//! `min_total_duration_perf` in its code).
//!
//! Where we differ: the public code searches the makespan by halving, stops within 5 % and takes any shares that suffice;
//! [`min_makespan`] solves the one linear program that has the answer. [`bisected_makespan`] does as the code does.

use super::frame::Frame;
use super::problem::{Allocation, Problem, Shares, Sight};
use crate::solve::Unsolved;
use crate::solve::blocks::Level;

/// The bracket that the public code begins with, and when it stops.
const BRACKET_S: (f64, f64) = (100.0, 1e6);
const WITHIN: f64 = 1.05;

/// Shares with which the last job is done as early as possible. The objective is when, in seconds.
pub fn min_makespan(problem: &Problem, sight: Sight) -> Result<Allocation, Unsolved> {
    let frame = Frame::new(
        problem,
        1.0,
        |job, column| (0.0, problem.believed(job, column, sight)),
        |_, demand| match demand.steps_left {
            steps if steps > 0.0 => Level::Rising { least: 0.0, by: steps },
            _ => Level::Free,
        },
    );
    if frame.jobs.iter().all(|job| problem.jobs[*job].steps_left <= 0.0) {
        return Ok(Allocation {
            shares: Shares::nothing(problem.jobs.len(), problem.columns.len()),
            objective: 0.0,
        });
    }
    Ok(frame.allocation(&frame.solve()?, |shares| makespan_s(problem, shares, sight, &frame.jobs)))
}

fn makespan_s(problem: &Problem, shares: &Shares, sight: Sight, jobs: &[usize]) -> f64 {
    let left = jobs.iter().filter(|job| problem.jobs[**job].steps_left > 0.0);
    let each = left.map(|job| problem.jobs[*job].steps_left / problem.believed_rate(shares, *job, sight));
    each.fold(0.0, f64::max)
}

/// Shares as the public code finds them: those in the middle of all that do with the last makespan that its search tries
/// successfully. The objective is the makespan of the shares.
pub fn bisected_makespan(problem: &Problem, sight: Sight) -> Result<Allocation, Unsolved> {
    let best_s = min_makespan(problem, sight)?.objective;
    let makespan = last_tried_s(best_s);
    let frame = Frame::new(
        problem,
        0.0,
        |job, column| (0.0, problem.believed(job, column, sight)),
        |_, demand| Level::Floor(demand.steps_left.max(0.0) / makespan),
    );
    Ok(frame.allocation(&frame.solve()?, |shares| makespan_s(problem, shares, sight, &frame.jobs)))
}

/// The last makespan at which the search succeeds, when it does from `best_s` on.
fn last_tried_s(best_s: f64) -> f64 {
    let (mut low, mut high) = BRACKET_S;
    while high < best_s {
        (low, high) = (high, 10.0 * high);
    }
    // With a makespan below the bracket all trials succeed, and the search ends near its lower end.
    let mut last = high;
    while high > WITHIN * low {
        let middle = 0.5 * (low + high);
        if middle >= best_s {
            (high, last) = (middle, middle);
        } else {
            low = middle;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_ends_within_a_twentieth() {
        for best in [150.0, 437_000.0, 999_000.0, 1.5e6, 3e7] {
            let last = last_tried_s(best);
            assert!(last >= best && last <= 1.05 * best, "{last} for {best}");
        }
        assert!(last_tried_s(1.0) < 106.0, "below the bracket it ends at its lower end");
    }
}
