//! The least makespan: all jobs are done as soon as possible (Gavel, section 4.2; `min_total_duration` and
//! `min_total_duration_perf` in its code).
//!
//! Where we differ: the public code searches the makespan by halving, stops within 5 % and takes any shares that suffice;
//! [`min_makespan`] solves the one linear program that has the answer. [`bisected_makespan`] does as the code does.

use super::frame::{self, Solved, Space};
use super::packing::{PackedAllocation, Sharing};
use super::problem::{Allocation, Demand, Problem, Sight};
use crate::solve::Unsolved;
use crate::solve::blocks::Level;

/// The bracket that the public code begins with, and when it stops.
const BRACKET_S: (f64, f64) = (100.0, 1e6);
const WITHIN: f64 = 1.05;

/// Shares with which the last job is done as early as possible. The objective is when, in seconds.
pub fn min_makespan(problem: &Problem, sight: Sight) -> Result<Allocation, Unsolved> {
    let solved = solve(problem, Space::Alone(sight))?;
    Ok(solved.allocation(makespan_s(problem, &solved)))
}

/// The same where jobs may share GPUs in pairs.
pub fn min_makespan_packed(problem: &Problem, sharing: &Sharing) -> Result<PackedAllocation, Unsolved> {
    let solved = solve(problem, Space::Packed(sharing))?;
    Ok(solved.packed(makespan_s(problem, &solved)))
}

fn solve<'a>(problem: &'a Problem, space: Space<'a>) -> Result<Solved<'a>, Unsolved> {
    let is_left = |job: &Demand| job.steps_left > 0.0;
    let level = |_: usize, demand: &Demand| match is_left(demand) {
        true => Level::Rising { least: 0.0, by: demand.steps_left },
        false => Level::Free,
    };
    let can_run = |job: usize| problem.fastest(job, space.sight()) > 0.0;
    let any = (0..problem.jobs.len()).any(|job| is_left(&problem.jobs[job]) && can_run(job));
    frame::solve(problem, space, f64::from(u8::from(any)), |_| 0.0, level)
}

fn makespan_s(problem: &Problem, solved: &Solved<'_>) -> f64 {
    let rates = solved.rates();
    let left = solved.frame.jobs.iter().filter(|job| problem.jobs[**job].steps_left > 0.0);
    left.map(|job| problem.jobs[*job].steps_left / rates[*job]).fold(0.0, f64::max)
}

/// Shares as the public code finds them: those at which its solver ends that is asked for any that do with the last makespan which
/// its search tries successfully. The objective is the makespan of the shares.
pub fn bisected_makespan(problem: &Problem, sight: Sight) -> Result<Allocation, Unsolved> {
    let tried_s = last_tried_s(min_makespan(problem, sight)?.objective);
    let level = |_: usize, demand: &Demand| match demand.steps_left {
        steps if steps > 0.0 => Level::Floor(steps / tried_s),
        _ => Level::Free,
    };
    let solved = frame::within(problem, sight, level)?;
    Ok(solved.allocation(makespan_s(problem, &solved)))
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
    use super::super::problem::Pool;
    use super::*;
    use crate::model::JobId;

    #[test]
    fn jobs_that_are_alike_have_shares_of_their_own() {
        let demand = |id: u32| Demand {
            id: JobId(id),
            gang: 1,
            weight: 1.0,
            rates: [4.0, 1.0].into_iter().collect(),
            steps_left: 4e5,
            since_arrival_s: 0.0,
            isolated_s: 0.0,
            entity: 0,
            deadline_s: None,
        };
        let pools = [1, 2].map(|gpus| Pool { gpus, price_per_h: 1.0 });
        let problem = Problem::new(pools.into(), (0..3).map(demand).collect());
        let found = bisected_makespan(&problem, Sight::Aware).expect("there are GPUs");
        let best = min_makespan(&problem, Sight::Aware).expect("there are GPUs").objective;
        assert!(found.objective >= best * (1.0 - 1e-9) && found.objective <= 1.05 * best, "{found:?}");
        for job in 1..3 {
            let pairs = found.shares.row(0).iter().zip(found.shares.row(job));
            assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
        }
        assert!((0..2).all(|column| found.shares.of(0, column) > 0.1), "{found:?}");
    }

    #[test]
    fn the_search_ends_within_a_twentieth() {
        for best in [150.0, 437_000.0, 999_000.0, 1.5e6, 3e7] {
            let last = last_tried_s(best);
            assert!(last >= best && last <= 1.05 * best, "{last} for {best}");
        }
        assert!(last_tried_s(1.0) < 106.0, "below the bracket it ends at its lower end");
    }
}
