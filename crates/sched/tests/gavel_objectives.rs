//! Gavel's objectives: published values, answers by hand, and what holds of every allocation.

use proptest::prelude::*;
use trainyard_sched::model::JobId;
use trainyard_sched::policies::gavel::allocation::{
    Allocation, Column, CostForm, Demand, Entity, Inside, Pool, Problem, Shares, Sight, allox,
    bisected_makespan, fifo_aware, fifo_blind, fifo_linear, finish_time_fairness, hierarchical, isolated,
    max_min, max_sum, min_cost, min_makespan, proportional, shortest_first, strategy_proof,
};
use trainyard_sched::policies::gavel::checks::{beyond, broken};
use trainyard_sched::solve::{Interior, LinearProgram, Sense, Solver, Unsolved};

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
    let expected: [(usize, &[f64]); 3] =
        [(0, &[0.916667, 1.666667]), (2, &[1.166667, 2.0]), (3, &[0.875, 1.5, 2.25, 0.75])];
    for (which, expected) in expected {
        let problem = published(&PUBLISHED[which]);
        let shares = isolated(&problem);
        for (job, expected) in expected.iter().enumerate() {
            near(shares.rate(job, &problem.jobs[job].rates), *expected);
            near(problem.isolated_rate(job, Sight::Aware), *expected);
        }
    }
}

fn equal(shares: &Shares, expected: &[&[f64]]) {
    for (job, expected) in expected.iter().enumerate() {
        for (found, expected) in shares.row(job).iter().zip(*expected) {
            assert!((found - expected).abs() < 1e-6, "job {job}: {:?} is not {expected}", shares.row(job));
        }
    }
}

fn shares_of(found: Result<Allocation, Unsolved>) -> Shares {
    found.expect("it has an answer").shares
}

#[test]
fn max_min_gives_each_job_the_type_it_is_good_at() {
    let problem =
        Problem::new(pools(&[1, 1]), vec![demand(0, 1, &[2.0, 1.0], 1.0), demand(1, 1, &[1.0, 2.0], 1.0)]);
    let found = max_min(&problem, Sight::Aware).expect("it has an answer");
    equal(&found.shares, &[&[1.0, 0.0], &[0.0, 1.0]]);
    near(found.objective, 4.0 / 3.0);
    // Who cannot tell them apart gives both half of both.
    equal(&shares_of(max_min(&problem, BLIND)), &[&[0.5, 0.5], &[0.5, 0.5]]);
}

#[test]
fn weights_and_gangs_divide_gpu_time() {
    let mut problem = Problem::new(pools(&[1]), vec![demand(0, 1, &[7.0], 1.0), demand(1, 1, &[0.1], 1.0)]);
    problem.jobs[1].weight = 3.0;
    equal(&shares_of(max_min(&problem, Sight::Aware)), &[&[0.25], &[0.75]]);
    problem.jobs[1].weight = 1.0;
    problem.jobs[1].gang = 4;
    problem.pools[0].gpus = 2;
    // One GPU's time for each: all of the time of a job on one, a quarter of that of a job on four.
    equal(&shares_of(max_min(&problem, Sight::Aware)), &[&[1.0], &[0.25]]);
    // A job that can run nowhere holds nobody back.
    problem.jobs[1].rates[0] = 0.0;
    equal(&shares_of(max_min(&problem, Sight::Aware)), &[&[1.0], &[0.0]]);
}

#[test]
fn gangs_together_and_spread_draw_on_the_same_gpus() {
    // One type in two columns: a gang that is kept together is four times as fast as one that is spread, for the first job;
    // the second one does not care.
    let jobs = vec![demand(0, 2, &[4.0, 1.0], 1.0), demand(1, 2, &[2.0, 2.0], 1.0)];
    let mut problem = Problem::new(pools(&[2]), jobs);
    problem.columns.push(Column { pool: 0, is_spread: true });
    let found = max_min(&problem, Sight::Aware).expect("it has an answer");
    // Each has half of the time, the first one together. How far it is ahead is measured by rates together.
    assert!((found.shares.of(0, 0) - 0.5).abs() < 1e-6 && found.shares.of(0, 1) < 1e-6, "{found:?}");
    assert!((found.shares.row(1).iter().sum::<f64>() - 0.5).abs() < 1e-6, "{found:?}");
    near(found.objective, 1.0);
    assert!(beyond(&problem, &found.shares) <= 1e-7);
    // An equal part of the cluster is one of GPUs, not of columns.
    equal(&isolated(&problem), &[&[0.5, 0.0], &[0.5, 0.0]]);
    near(problem.equal_rate(0, Sight::Aware), 4.0);
}

#[test]
fn all_jobs_end_together_where_the_makespan_is_least() {
    let problem = Problem::new(pools(&[1]), vec![demand(0, 1, &[1.0], 300.0), demand(1, 1, &[1.0], 100.0)]);
    let found = min_makespan(&problem, Sight::Aware).expect("it has an answer");
    equal(&found.shares, &[&[0.75], &[0.25]]);
    near(found.objective, 400.0);
    let searched = bisected_makespan(&problem, Sight::Aware).expect("it has an answer");
    assert!(searched.objective > 400.0 && searched.objective <= 420.0, "{}", searched.objective);
    // Jobs that are done need nothing.
    let done = Problem::new(pools(&[1]), vec![demand(0, 1, &[1.0], 0.0)]);
    assert_eq!(min_makespan(&done, Sight::Aware).expect("it has an answer").objective, 0.0);
}

#[test]
fn finish_time_fairness_makes_up_for_waiting() {
    let mut problem =
        Problem::new(pools(&[1]), vec![demand(0, 1, &[1.0], 100.0), demand(1, 1, &[1.0], 100.0)]);
    let found = finish_time_fairness(&problem, Sight::Aware).expect("it has an answer");
    equal(&found.shares, &[&[0.5], &[0.5]]);
    near(found.objective, 1.0);
    // (100 + 100 / a) / 250 = (100 / b) / 200 and a + b = 1, so 0.8 a^2 + a - 0.8 = 0.
    problem.jobs[0].since_arrival_s = 100.0;
    problem.jobs[0].isolated_s = 50.0;
    let a = (3.56_f64.sqrt() - 1.0) / 1.6;
    let found = finish_time_fairness(&problem, Sight::Aware).expect("it has an answer");
    equal(&found.shares, &[&[a], &[1.0 - a]]);
    near(found.objective, 0.5 / (1.0 - a));
}

#[test]
fn sums_go_to_whoever_gains_most() {
    let problem =
        Problem::new(pools(&[1, 1]), vec![demand(0, 1, &[5.0, 4.0], 1.0), demand(1, 1, &[3.0, 1.0], 1.0)]);
    // 5 + 1 is less than 4 + 3.
    equal(&shares_of(max_sum(&problem)), &[&[0.0, 1.0], &[1.0, 0.0]]);
    // First in, first out: 2 * 5/5 + 1 * 1/3 against 2 * 4/5 + 1 * 3/3.
    let found = fifo_linear(&problem).expect("it has an answer");
    equal(&found.shares, &[&[0.0, 1.0], &[1.0, 0.0]]);
    near(found.objective, 2.6);
}

#[test]
fn money_is_spent_where_it_buys_most_and_deadlines_are_met() {
    let mut problem = Problem::new(pools(&[1, 1]), vec![demand(0, 1, &[2.0, 1.0], 100.0)]);
    problem.pools[1].price_per_h = 0.8;
    let free = min_cost(&problem, CostForm::Ratio).expect("it has an answer");
    near(free.allocation.objective, 1.25);
    assert!(free.allocation.shares.of(0, 0) == 0.0 && free.allocation.shares.of(0, 1) > 0.1);
    // A rate of 1.25 needs a quarter of the dear one.
    problem.jobs[0].deadline_s = Some(80.0);
    let bound = min_cost(&problem, CostForm::Ratio).expect("it has an answer");
    assert!(bound.meets_deadlines);
    equal(&bound.allocation.shares, &[&[0.25, 0.75]]);
    near(bound.allocation.objective, 1.25 / 1.375);
    problem.jobs[0].deadline_s = Some(30.0);
    for form in [CostForm::Ratio, CostForm::Sum] {
        let late = min_cost(&problem, form).expect("it has an answer");
        assert!(!late.meets_deadlines, "three steps a second are more than there are");
        assert!(late.allocation.shares.of(0, 1) > 0.1);
    }
}

#[test]
fn entities_share_and_what_one_cannot_use_goes_to_others() {
    let entity = |weight| Entity { weight, inside: Inside::Fairness };
    let owned = |id, entity| Demand { entity, ..demand(id, 1, &[1.0], 1.0) };
    let jobs = vec![owned(0, 0), owned(1, 0), owned(2, 1), owned(3, 1)];
    let mut problem = Problem::new(pools(&[3]), jobs);
    // Entity 1 would have 8/9 of 3 GPUs, but has two jobs of one each.
    let entities = [entity(1.0), entity(8.0)];
    equal(&shares_of(hierarchical(&problem, &entities, Sight::Aware)), &[&[0.5], &[0.5], &[1.0], &[1.0]]);
    problem.pools[0].gpus = 2;
    problem.jobs[0].weight = 3.0;
    // 2 / 9 of a GPU three to one, and the rest one to one.
    let expected: [&[f64]; 4] = [&[1.0 / 6.0], &[1.0 / 18.0], &[8.0 / 9.0], &[8.0 / 9.0]];
    equal(&shares_of(hierarchical(&problem, &entities, Sight::Aware)), &expected);
    let fifo = [Entity { inside: Inside::Fifo, ..entities[0] }, entities[1]];
    let expected: [&[f64]; 4] = [&[2.0 / 9.0], &[0.0], &[8.0 / 9.0], &[8.0 / 9.0]];
    let found = shares_of(hierarchical(&problem, &fifo, Sight::Aware));
    near(found.of(0, 0), 2.0 / 9.0);
    assert!(found.of(1, 0) < 1e-4, "nothing is left for the second one: {expected:?}");
}

#[test]
fn products_are_shared_evenly_and_honesty_costs() {
    let problem = Problem::new(pools(&[1]), vec![demand(0, 1, &[1.0], 1.0), demand(1, 1, &[9.0], 1.0)]);
    equal(&shares_of(proportional(&problem, Sight::Aware)), &[&[0.5], &[0.5]]);
    // Without the other one a job had all: half of what it gets is paid for that.
    equal(&shares_of(strategy_proof(&problem, Sight::Aware)), &[&[0.25], &[0.25]]);
}

#[test]
fn orders_are_kept() {
    let jobs =
        vec![demand(0, 1, &[1.0, 2.0], 10.0), demand(1, 2, &[4.0, 3.0], 1.0), demand(2, 1, &[1.0, 2.0], 5.0)];
    let problem = Problem::new(pools(&[1, 2]), jobs);
    // The first takes one of two of the second type, so the gang of two fits nowhere and the third one waits behind it.
    equal(&fifo_aware(&problem), &[&[0.0, 1.0], &[0.0, 0.0], &[0.0, 0.0]]);
    // The shortest is the gang, in a third of a second.
    equal(&shortest_first(&problem), &[&[0.0, 0.0], &[0.0, 1.0], &[1.0, 0.0]]);
    let mut asked = Vec::new();
    let mut draw = |n: usize| {
        asked.push(n);
        0
    };
    // The first type is drawn for the first job, and the second one has room for the gang; nothing is left.
    equal(&fifo_blind(&problem, &[None, None, None], &mut draw), &[&[1.0, 0.0], &[0.0, 1.0], &[0.0, 0.0]]);
    assert_eq!(asked, [2, 1]);
    equal(
        &fifo_blind(&problem, &[Some(1), None, None], &mut |_| 0),
        &[&[0.0, 1.0], &[0.0, 0.0], &[0.0, 0.0]],
    );
}

#[test]
fn allox_runs_short_jobs_first_where_they_are_fast() {
    let jobs =
        vec![demand(0, 1, &[1.0, 0.1], 3.0), demand(1, 1, &[1.0, 0.1], 1.0), demand(2, 1, &[1.0, 1.0], 2.0)];
    let problem = Problem::new(pools(&[1, 1]), jobs);
    // Job 2 has the second type for itself; on the first one 1 goes before 3.
    equal(&allox(&problem, &[None; 3], 1.0), &[&[0.0, 0.0], &[1.0, 0.0], &[0.0, 1.0]]);
    // Running jobs stay, and the others wait for what is free.
    equal(&allox(&problem, &[Some(0), None, None], 1.0), &[&[1.0, 0.0], &[0.0, 0.0], &[0.0, 1.0]]);
}

/// The ratio of steps and money by the transformation of Charnes and Cooper, in one program: shares are scaled so that they
/// cost one.
fn ratio_in_one_program(problem: &Problem) -> f64 {
    let mut program = LinearProgram::default();
    let price = |column: usize| problem.pools[problem.columns[column].pool].price_per_h;
    let y: Vec<Vec<usize>> = problem
        .jobs
        .iter()
        .map(|job| job.rates.iter().map(|rate| program.variable(*rate)).collect())
        .collect();
    let scale = program.variable(0.0);
    let mut money = Vec::new();
    for (job, row) in problem.jobs.iter().zip(&y) {
        let mut time: Vec<_> = row.iter().map(|variable| (*variable, 1.0)).collect();
        time.push((scale, -1.0));
        program.row(time, Sense::AtMost, 0.0);
        money.extend(row.iter().enumerate().map(|(column, variable)| (*variable, price(column))));
        if let Some(left_s) = job.deadline_s {
            let mut rate: Vec<_> =
                row.iter().zip(&job.rates).map(|(variable, rate)| (*variable, *rate)).collect();
            rate.push((scale, -job.steps_left / left_s));
            program.row(rate, Sense::AtLeast, 0.0);
        }
        for (variable, rate) in row.iter().zip(&job.rates) {
            if *rate == 0.0 {
                program.row(vec![(*variable, 1.0)], Sense::AtMost, 0.0);
            }
        }
    }
    program.row(money, Sense::Equal, 1.0);
    for (pool, gpus) in problem.pools.iter().map(|pool| f64::from(pool.gpus)).enumerate() {
        let mut used: Vec<_> =
            problem.jobs.iter().zip(&y).map(|(job, row)| (row[pool], f64::from(job.gang))).collect();
        used.push((scale, -gpus));
        program.row(used, Sense::AtMost, 0.0);
    }
    Interior.solve(&program).expect("it has an answer").objective
}

fn drawn() -> impl Strategy<Value = Problem> {
    let gang = prop::sample::select(vec![1_u32, 1, 1, 2, 4, 8]);
    let rate = prop_oneof![1 => Just(0.0), 9 => 0.1..200.0_f64];
    (1_usize..4).prop_flat_map(move |types| {
        let job = (
            (
                gang.clone(),
                prop::collection::vec(rate.clone(), types),
                prop::sample::select(vec![1.0, 1.0, 5.0]),
            ),
            (1.0..1e6_f64, 0.0..1e5_f64, 0.0..1e5_f64, 0_usize..3),
        );
        let problem = |(jobs, counts): (Vec<_>, Vec<u32>)| {
            let jobs = jobs.into_iter().enumerate().map(|(i, (shape, rest))| {
                let ((gang, rates, weight), (steps_left, since_arrival_s, isolated_s, entity)) =
                    (shape, rest);
                let rates: Vec<f64> = rates;
                let own = demand(i as u32, gang, &rates, steps_left);
                Demand { weight, since_arrival_s, isolated_s, entity, ..own }
            });
            Problem::new(pools(&counts), jobs.collect())
        };
        (prop::collection::vec(job, 1..24), prop::collection::vec(1_u32..30, types)).prop_map(problem)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_allocation_keeps_to_time_and_gpus(problem in drawn()) {
        for (name, over) in broken(&problem) {
            prop_assert!(over <= 1e-7, "{}: {}", name, over);
        }
    }

    #[test]
    fn with_one_type_and_jobs_enough_all_have_an_isolated_share(
        gangs in prop::collection::vec(prop::sample::select(vec![1_u32, 2, 4, 8]), 1..20), gpus in 1_u32..20,
    ) {
        let jobs = gangs.iter().enumerate().map(|(i, gang)| demand(i as u32, *gang, &[1.0 + i as f64], 1.0));
        let problem = Problem::new(pools(&[gpus.min(gangs.len() as u32)]), jobs.collect());
        let found = shares_of(max_min(&problem, BLIND));
        for job in 0..gangs.len() {
            prop_assert!((found.of(job, 0) - isolated(&problem).of(job, 0)).abs() < 1e-7);
        }
    }

    #[test]
    fn the_best_ratio_is_that_of_one_program(mut problem in drawn(), hurry in 0.01..0.9_f64) {
        // Deadlines that can be met: each job has a part of what it has when all end as soon as possible.
        let short = min_makespan(&problem, Sight::Aware).expect("it has an answer");
        problem.jobs.retain(|job| job.rates.iter().any(|rate| *rate > 0.0));
        for job in problem.jobs.iter_mut().step_by(2) {
            job.deadline_s = Some(short.objective / hurry);
        }
        if !problem.jobs.is_empty() {
            let found = min_cost(&problem, CostForm::Ratio).expect("it has an answer");
            prop_assert!(found.meets_deadlines);
            let expected = ratio_in_one_program(&problem);
            prop_assert!((found.allocation.objective - expected).abs() <= 1e-4 * expected, "{} {expected}", found.allocation.objective);
        }
    }
}
