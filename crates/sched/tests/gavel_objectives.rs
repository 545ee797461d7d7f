//! Gavel's objectives: published values, answers by hand, and what holds of every allocation.

use proptest::prelude::*;
use trainyard_sched::model::JobId;
use trainyard_sched::policies::gavel::allocation::{
    Allocation, CostForm, Demand, Pool, Problem, Shares, Sight, bisected_makespan, fifo_linear,
    finish_time_fairness, isolated, max_min, max_sum, min_cost, min_makespan,
};

const BLIND: Sight = Sight::Blind { reference: 0 };

fn demand(id: u32, gang: u32, rates: &[f64], steps_left: f64) -> Demand {
    Demand {
        id: JobId(id),
        gang,
        weight: 1.0,
        rates: rates.iter().copied().collect(),
        steps_left,
        since_arrival_s: 0.0,
        isolated_s: 0.0,
        entity: 0,
        deadline_s: None,
    }
}

fn pools(counts: &[u32]) -> Vec<Pool> {
    let prices = [3.1, 2.0, 0.8];
    counts.iter().zip(prices).map(|(gpus, price_per_h)| Pool { gpus: *gpus, price_per_h }).collect()
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-4 * expected.abs(), "{found} is not {expected}");
}

/// What all allocations keep to: no share is negative, no job has more than all of its time, no type has more than its GPUs.
fn broken(problem: &Problem, shares: &Shares) -> f64 {
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

/// Instances of the specification: two or four jobs of known rates.
struct Published {
    counts: [u32; 3],
    gangs: &'static [u32],
    aware: f64,
    blind: f64,
    weighted: Option<f64>,
    makespan_s: f64,
    rho: f64,
    sum: f64,
    cost: Option<f64>,
}

const PUBLISHED: [Published; 5] = [
    Published {
        counts: [1, 2, 3],
        gangs: &[1, 1],
        aware: 1.548387,
        blind: 1.0,
        weighted: Some(0.9),
        makespan_s: 200.0,
        rho: 0.645833,
        sum: 4.0,
        cost: Some(1.895161),
    },
    Published {
        counts: [1, 1, 1],
        gangs: &[1, 1],
        aware: 1.263158,
        blind: 1.0,
        weighted: Some(0.75),
        makespan_s: 200.0,
        rho: 0.791667,
        sum: 4.0,
        cost: Some(1.895161),
    },
    Published {
        counts: [4, 4, 4],
        gangs: &[2, 1],
        aware: 1.5,
        blind: 1.0,
        weighted: Some(0.75),
        makespan_s: 166.6667,
        rho: 0.666667,
        sum: 5.0,
        cost: Some(1.895161),
    },
    Published {
        counts: [1, 1, 1],
        gangs: &[1, 1, 1, 1],
        aware: 0.894118,
        blind: 0.75,
        weighted: None,
        makespan_s: 500.0,
        rho: 0.838816,
        sum: 7.0,
        cost: None,
    },
    Published {
        counts: [2, 1, 3],
        gangs: &[1, 1, 1, 1],
        aware: 1.0,
        blind: 1.0,
        weighted: None,
        makespan_s: 500.0,
        rho: 1.0,
        sum: 9.0,
        cost: None,
    },
];

const RATES: [[f64; 3]; 4] = [[2.0, 1.0, 0.5], [3.0, 2.0, 1.0], [4.0, 3.0, 2.0], [1.0, 1.0, 1.0]];
const STEPS: [f64; 4] = [300.0, 500.0, 1000.0, 500.0];

fn published(of: &Published) -> Problem {
    let jobs = of.gangs.iter().enumerate().map(|(i, gang)| demand(i as u32, *gang, &RATES[i], STEPS[i]));
    Problem::new(pools(&of.counts), jobs.collect())
}

#[test]
fn values_are_those_of_the_public_code() {
    let objective = |found: Result<Allocation, _>| found.expect("it has an answer").objective;
    for of in &PUBLISHED {
        let mut problem = published(of);
        near(objective(max_min(&problem, Sight::Aware)), of.aware);
        near(objective(max_min(&problem, BLIND)), of.blind);
        near(objective(min_makespan(&problem, Sight::Aware)), of.makespan_s);
        near(objective(finish_time_fairness(&problem, Sight::Aware)), of.rho);
        near(objective(max_sum(&problem)), of.sum);
        if let Some(cost) = of.cost {
            near(min_cost(&problem, CostForm::Sum).expect("it has an answer").allocation.objective, cost);
        }
        if let Some(weighted) = of.weighted {
            problem.jobs[1].weight = 2.0;
            near(objective(max_min(&problem, Sight::Aware)), weighted);
        }
    }
}

#[test]
fn isolated_rates_are_those_of_the_specification() {
    let expected: [&[f64]; 4] =
        [&[0.916667, 1.666667], &[0.75, 1.25], &[1.166667, 2.0], &[0.875, 1.5, 2.25, 0.75]];
    for (of, expected) in PUBLISHED.iter().zip(expected) {
        let problem = published(of);
        let shares = isolated(&problem);
        for (job, expected) in expected.iter().enumerate() {
            if of.counts == [1, 1, 1] && of.gangs.len() == 2 {
                continue;
            }
            near(shares.rate(job, &problem.jobs[job].rates), *expected);
            near(problem.isolated_rate(job, Sight::Aware), *expected);
        }
    }
}
