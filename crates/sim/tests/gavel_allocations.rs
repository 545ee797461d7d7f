//! Allocations of the public code of Gavel (OSDI 2020), problem by problem: ours are as good or better, and where there are
//! many equally good ones, nearly the same.
//!
//! The public data are read where they lie; where the folder is absent the tests say so and pass. Of each problem they have
//! the allocations of each policy, and numbers about these: `min_norm_throughput` is the objective of max-min fairness,
//! `makespan_of_alloc_s` that of the least makespan (which the public code only searches to 5 %), `max_ftf_rho` that of
//! finish-time fairness, `sum_eff_throughput` that of the greatest sum; all with true rates.

mod shared_data;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use shared_data::public;
use trainyard_sched::model::JobId;
use trainyard_sched::policies::gavel::allocation::{
    Allocation, Demand, Entity, Inside, Pool, Problem, Shares, Sight, allox, bisected_makespan, fifo_aware,
    finish_time_fairness, hierarchical, isolated, max_min, max_sum, min_makespan,
};
use trainyard_sched::solve::Unsolved;

const TYPES: [&str; 3] = ["v100", "p100", "k80"];

#[derive(Deserialize)]
struct Instance {
    num_jobs: u32,
    seed: u32,
    multi_gpu: bool,
    cluster: BTreeMap<String, u32>,
    jobs: Vec<InstanceJob>,
}

#[derive(Deserialize)]
struct InstanceJob {
    job_id: u32,
    scale_factor: u32,
    priority_weight: f64,
    throughput: BTreeMap<String, f64>,
    steps_remaining: f64,
    time_since_start_s: f64,
}

/// What is recorded of one allocation.
#[derive(Deserialize)]
struct Recorded {
    n: u32,
    seed: u32,
    multi: String,
    policy: String,
    sum_eff_throughput: f64,
    makespan_of_alloc_s: f64,
    min_norm_throughput: f64,
    max_ftf_rho: Option<f64>,
}

struct Case {
    name: String,
    problem: Problem,
    recorded: Vec<Recorded>,
    folder: PathBuf,
}

fn problem(instance: &Instance) -> Problem {
    let pools = TYPES.iter().map(|name| Pool { gpus: instance.cluster[*name], price_per_h: 1.0 }).collect();
    let jobs = instance.jobs.iter().map(|job| Demand {
        id: JobId(job.job_id),
        gang: job.scale_factor,
        weight: job.priority_weight,
        rates: TYPES.iter().map(|name| job.throughput[*name]).collect(),
        steps_left: job.steps_remaining,
        since_arrival_s: job.time_since_start_s,
        isolated_s: 0.0,
        entity: 0,
        deadline_s: None,
    });
    Problem::new(pools, jobs.collect())
}

fn cases() -> Vec<Case> {
    let Some(folder) = public("gavel_runs/solver") else { return Vec::new() };
    let mut table = csv::Reader::from_path(folder.join("solver_times.csv")).expect("the table is there");
    let mut recorded: Vec<Recorded> = table.deserialize().map(|row| row.expect("a row")).collect();
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("it can be listed")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.retain(|path| path.to_string_lossy().ends_with(".instance.json"));
    paths.sort();
    let case = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let instance: Instance = serde_json::from_str(&text).expect("it is an instance");
        let name = path.file_name().expect("a file").to_string_lossy().replace(".instance.json", "");
        let multi = if instance.multi_gpu { "True" } else { "False" };
        let is_own =
            |row: &Recorded| row.n == instance.num_jobs && row.seed == instance.seed && row.multi == multi;
        let (own, others) = std::mem::take(&mut recorded).into_iter().partition(is_own);
        recorded = others;
        Case { name, problem: problem(&instance), recorded: own, folder: folder.clone() }
    };
    let cases: Vec<Case> = paths.into_iter().map(case).collect();
    assert!(cases.len() >= 4, "there are at least four instances");
    cases
}

impl Case {
    fn of(&self, policy: &str) -> &Recorded {
        self.recorded.iter().find(|row| row.policy == policy).expect("the policy was run")
    }

    fn theirs(&self, policy: &str) -> Shares {
        let path = self.folder.join(format!("{}.{policy}.alloc.csv", self.name));
        let mut table = csv::Reader::from_path(path).expect("the allocation is there");
        let rows = table.records().flat_map(|row| {
            let row = row.expect("a row");
            (1..=3).map(|i| row[i].parse().expect("a share")).collect::<Vec<f64>>()
        });
        Shares::from_rows(3, rows.collect())
    }
}

fn near(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= 1e-4 * expected.abs(), "{what}: {found} is not {expected}");
}

/// How the job fares that fares worst, by max-min fairness.
fn fairness(problem: &Problem, shares: &Shares) -> f64 {
    let of = |(i, job): (usize, &Demand)| {
        let own = job.weight * problem.equal_rate(i, Sight::Aware);
        shares.rate(i, &job.rates) * f64::from(job.gang) / own
    };
    problem.jobs.iter().enumerate().map(of).fold(f64::INFINITY, f64::min)
}

/// The worst ratio of finish times; nothing has been done so far in these problems.
fn rho(problem: &Problem, shares: &Shares) -> f64 {
    let of = |(i, job): (usize, &Demand)| {
        let takes_s = job.since_arrival_s + job.steps_left / shares.rate(i, &job.rates);
        takes_s / (job.steps_left / problem.isolated_rate(i, Sight::Aware))
    };
    problem.jobs.iter().enumerate().map(of).fold(0.0, f64::max)
}

fn solved(found: Result<Allocation, Unsolved>) -> Allocation {
    found.expect("it has an answer")
}

const BLIND: Sight = Sight::Blind { reference: 0 };

#[test]
fn objectives_are_those_of_the_public_code() {
    for case in cases() {
        let (name, problem) = (&case.name, &case.problem);
        let aware = solved(max_min(problem, Sight::Aware));
        near(aware.objective, case.of("max_min_fairness_perf").min_norm_throughput, name);
        near(fairness(problem, &aware.shares), aware.objective, name);
        let blind = solved(max_min(problem, BLIND));
        near(blind.objective, case.of("max_min_fairness").min_norm_throughput, name);
        let greatest = solved(max_sum(problem));
        near(greatest.objective, case.of("max_sum_throughput_perf").sum_eff_throughput, name);
        let equal = case.of("isolated");
        near(fairness(problem, &isolated(problem)), equal.min_norm_throughput, name);
        near(rho(problem, &isolated(problem)), equal.max_ftf_rho.expect("it has one"), name);
        // Finish-time fairness is not in the table, but the shares are there.
        let fair = solved(finish_time_fairness(problem, Sight::Aware));
        near(fair.objective, rho(problem, &case.theirs("finish_time_fairness_perf")), name);
        near(rho(problem, &fair.shares), fair.objective, name);
        // Filling water raises all jobs of one entity as far as max-min fairness does, and then some of them further.
        let entity = [Entity { weight: 1.0, inside: Inside::Fairness }];
        let filled = solved(hierarchical(problem, &entity, Sight::Aware));
        let all: f64 = problem.jobs.iter().map(|job| job.weight).sum();
        near(filled.objective / all, aware.objective, name);
        let theirs = case.of("max_min_fairness_water_filling_perf").min_norm_throughput;
        near(fairness(problem, &filled.shares), theirs, name);
    }
}

#[test]
fn the_least_makespan_is_no_greater_than_what_a_search_finds() {
    for case in cases() {
        let (name, problem) = (&case.name, &case.problem);
        for (sight, policy) in [(Sight::Aware, "min_total_duration_perf"), (BLIND, "min_total_duration")] {
            let least = solved(min_makespan(problem, sight)).objective;
            let searched = solved(bisected_makespan(problem, sight));
            let theirs = case.theirs(policy);
            let ends_s =
                |job: usize| problem.jobs[job].steps_left / problem.believed_rate(&theirs, job, sight);
            let theirs = (0..problem.jobs.len()).map(ends_s).fold(0.0, f64::max);
            assert!(
                least <= theirs * (1.0 + 1e-6) && theirs <= 1.05 * least,
                "{name}: {least}, theirs {theirs}"
            );
            let off = (searched.objective / theirs - 1.0).abs();
            assert!(off < 5e-3, "{name}: {} is not {theirs}", searched.objective);
            if sight == Sight::Aware {
                near(theirs, case.of(policy).makespan_of_alloc_s, name);
            }
        }
    }
}

/// Where many answers are equally good, theirs are near the middle of all, as ours are: shares differ by a few hundredths.
#[test]
fn shares_are_nearly_those_of_the_public_code() {
    for case in cases() {
        let problem = &case.problem;
        let ours = [
            ("isolated", isolated(problem), 1e-6),
            ("max_sum_throughput_perf", solved(max_sum(problem)).shares, 1e-4),
            ("max_min_fairness_perf", solved(max_min(problem, Sight::Aware)).shares, 0.02),
            ("max_min_fairness", solved(max_min(problem, BLIND)).shares, 0.015),
            ("finish_time_fairness_perf", solved(finish_time_fairness(problem, Sight::Aware)).shares, 0.02),
            ("min_total_duration_perf", solved(bisected_makespan(problem, Sight::Aware)).shares, 5e-4),
            ("min_total_duration", solved(bisected_makespan(problem, BLIND)).shares, 5e-4),
        ];
        for (policy, ours, most) in ours {
            let theirs = case.theirs(policy);
            let cells = (0..problem.jobs.len()).flat_map(|job| (0..3).map(move |column| (job, column)));
            let off: f64 =
                cells.map(|(job, column)| (ours.of(job, column) - theirs.of(job, column)).abs()).sum();
            let mean = off / (3 * problem.jobs.len()) as f64;
            assert!(mean <= most, "{} {policy}: shares differ by {mean}", case.name);
        }
    }
}

#[test]
fn greedy_orders_and_assignments_are_those_of_the_public_code() {
    for case in cases() {
        let problem = &case.problem;
        let theirs = case.theirs("fifo_perf");
        assert_eq!(fifo_aware(problem), theirs, "{}", case.name);
        if problem.jobs.iter().all(|job| job.gang == 1) {
            let (ours, theirs) = (allox(problem, &vec![None; problem.jobs.len()], 1.0), case.theirs("allox"));
            // Which of several jobs with none behind them waits behind another one makes no difference to the cost.
            let placed = |shares: &Shares, column| {
                (0..shares.jobs()).filter(|job| shares.of(*job, column) == 1.0).count()
            };
            (0..3).for_each(|column| {
                assert_eq!(placed(&ours, column), placed(&theirs, column), "{}", case.name)
            });
            let same = (0..ours.jobs()).filter(|job| ours.row(*job) == theirs.row(*job)).count();
            assert!(4 * same >= 3 * ours.jobs(), "{}: {same} of {}", case.name, ours.jobs());
        }
    }
}
