//! G-3: no allocation gives away more than there is.

use super::super::allocation::{
    Allocation, CostForm, Demand, Entity, Inside, Pool, Problem, Shares, Sight, allox, bisected_makespan,
    fifo_aware, fifo_blind, fifo_linear, finish_time_fairness, hierarchical, isolated, max_min, max_sum,
    min_cost, min_makespan, proportional, shortest_first, strategy_proof,
};
use crate::decide::{Checked, Dice};
use crate::model::JobId;
use crate::solve::Unsolved;

const BLIND: Sight = Sight::Blind { reference: 0 };
/// How far beyond a limit a share may be: what solvers leave.
const TOLERANCE: f64 = 1e-7;
const DOLLARS: [f64; 3] = [3.1, 2.0, 0.8];

/// What all allocations keep to: no share is negative, no job has more than all of its time, no type has more than its GPUs.
/// The answer says by how much that is broken.
pub fn beyond(problem: &Problem, shares: &Shares) -> f64 {
    let mut worst = 0.0_f64;
    let mut used = vec![0.0; problem.pools.len()];
    for (job, demand) in problem.jobs.iter().enumerate() {
        let row = shares.row(job);
        worst = worst.max(row.iter().sum::<f64>() - 1.0);
        for ((share, column), rate) in row.iter().zip(&problem.columns).zip(&demand.rates) {
            worst = worst.max(-share);
            used[column.pool] += share * f64::from(demand.gang);
            if *rate == 0.0 {
                worst = worst.max(*share);
            }
        }
    }
    for (used, pool) in used.iter().zip(&problem.pools) {
        worst = worst.max(used - f64::from(pool.gpus));
    }
    worst
}

/// Every objective with how far its allocation is beyond a limit; not a number where a program has no answer.
pub fn broken(problem: &Problem) -> Vec<(&'static str, f64)> {
    let entities =
        [Inside::Fairness, Inside::Fifo, Inside::Fairness].map(|inside| Entity { weight: 1.0, inside });
    let nowhere = vec![None; problem.jobs.len()];
    let solved = |found: Result<Allocation, Unsolved>| found.map(|found| found.shares);
    let all: [(&'static str, Result<Shares, Unsolved>); 18] = [
        ("max-min", solved(max_min(problem, Sight::Aware))),
        ("max-min, agnostic", solved(max_min(problem, BLIND))),
        ("makespan", solved(min_makespan(problem, Sight::Aware))),
        ("makespan, agnostic", solved(min_makespan(problem, BLIND))),
        ("makespan by bisection", solved(bisected_makespan(problem, Sight::Aware))),
        ("finish-time fairness", solved(finish_time_fairness(problem, Sight::Aware))),
        ("finish-time fairness, agnostic", solved(finish_time_fairness(problem, BLIND))),
        ("throughput", solved(max_sum(problem))),
        ("FIFO as a program", solved(fifo_linear(problem))),
        ("cost by ratio", solved(min_cost(problem, CostForm::Ratio).map(|found| found.allocation))),
        ("cost by sum", solved(min_cost(problem, CostForm::Sum).map(|found| found.allocation))),
        ("two levels", solved(hierarchical(problem, &entities, Sight::Aware))),
        ("proportional", solved(proportional(problem, Sight::Aware))),
        ("strategy-proof", solved(strategy_proof(problem, Sight::Aware))),
        ("FIFO", Ok(fifo_aware(problem))),
        ("FIFO, agnostic", Ok(fifo_blind(problem, &nowhere, &mut |n| n / 2))),
        ("shortest first", Ok(shortest_first(problem))),
        ("AlloX", Ok(allox(problem, &nowhere, 1.0))),
    ];
    all.into_iter()
        .map(|(name, found)| (name, found.map_or(f64::NAN, |shares| beyond(problem, &shares))))
        .collect()
}

fn drawn(dice: &mut Dice) -> Problem {
    let (types, count) = (1 + dice.roll(3) as usize, 1 + dice.roll(23));
    let pools = DOLLARS[..types]
        .iter()
        .map(|price_per_h| Pool { gpus: 1 + dice.roll(29) as u32, price_per_h: *price_per_h });
    let pools = pools.collect();
    let job = |id: u64| Demand {
        id: JobId(id as u32),
        gang: [1, 1, 1, 2, 4, 8][dice.roll(6) as usize],
        weight: [1.0, 1.0, 5.0][dice.roll(3) as usize],
        rates: (0..types).map(|_| if dice.roll(10) == 0 { 0.0 } else { dice.between(0.1, 200.0) }).collect(),
        steps_left: dice.between(1.0, 1e6),
        since_arrival_s: dice.part() * 1e5,
        isolated_s: dice.part() * 1e5,
        entity: dice.roll(3) as usize,
        deadline_s: None,
    };
    let jobs = (0..count).map(job).collect();
    Problem::new(pools, jobs)
}

/// How far max-min fairness that sees no speeds is from equal parts, where there is one type and a job for each of its GPUs.
fn from_equal_parts(dice: &mut Dice) -> f64 {
    let count = 1 + dice.roll(19);
    let job = |id: u64| Demand {
        id: JobId(id as u32),
        gang: [1, 2, 4, 8][dice.roll(4) as usize],
        weight: 1.0,
        rates: std::iter::once(1.0 + id as f64).collect(),
        steps_left: 1.0,
        since_arrival_s: 0.0,
        isolated_s: 0.0,
        entity: 0,
        deadline_s: None,
    };
    let jobs: Vec<Demand> = (0..count).map(job).collect();
    let gpus = 1 + dice.roll(count) as u32;
    let problem = Problem::new(vec![Pool { gpus, price_per_h: 1.0 }], jobs);
    let equal = isolated(&problem);
    max_min(&problem, BLIND).map_or(f64::NAN, |found| {
        let off = |job: usize| (found.shares.of(job, 0) - equal.of(job, 0)).abs();
        (0..count as usize).map(off).fold(0.0, f64::max)
    })
}

/// So many drawn problems under every objective, and as many with one type.
pub fn limits(instances: u64) -> Checked {
    let mut checked = Checked { instances, ..Checked::default() };
    let mut worst = [0.0_f64; 2];
    for seed in 0..instances {
        let mut dice = Dice::new(seed);
        let equal = from_equal_parts(&mut dice);
        let all = broken(&drawn(&mut dice));
        let each = all.iter().map(|(name, over)| (0, *name, *over)).chain([(1, "equal parts", equal)]);
        for (which, name, over) in each {
            // What is no number is not within the tolerance.
            checked.hold(over <= TOLERANCE, || format!("{seed}, {name}: {over}"));
            worst[which] = worst[which].max(over);
        }
    }
    checked.figures = vec![("largest excess", worst[0]), ("largest difference from equal parts", worst[1])];
    checked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_away_is_there() {
        let checked = limits(40);
        assert!(checked.faults.is_empty(), "{:#?}", checked.faults);
        assert!(checked.figure("largest excess") <= TOLERANCE);
    }

    #[test]
    fn shares_beyond_a_limit_are_noticed() {
        let problem = drawn(&mut Dice::new(3));
        let (jobs, types) = (problem.jobs.len(), problem.pools.len());
        assert!(beyond(&problem, &Shares::nothing(jobs, types)) <= 0.0);
        let mut shares = Shares::nothing(jobs, types);
        shares.row_mut(0)[0] = 1.5;
        assert!(beyond(&problem, &shares) >= 0.5);
        shares.row_mut(0)[0] = -0.25;
        assert!(beyond(&problem, &shares) >= 0.25);
    }
}
