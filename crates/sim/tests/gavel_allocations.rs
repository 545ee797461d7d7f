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
    Allocation, Demand, Pool, Problem, Shares, Sight, bisected_makespan, finish_time_fairness, isolated,
    max_min, max_sum, min_makespan,
};

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

fn fairness(problem: &Problem, shares: &Shares) -> f64 {
    let of = |(i, job): (usize, &Demand)| {
        shares.rate(i, &job.rates) * f64::from(job.gang) / (job.weight * problem.equal_rate(i, Sight::Aware))
    };
    problem.jobs.iter().enumerate().map(of).fold(f64::INFINITY, f64::min)
}

#[test]
fn objectives_are_those_of_the_public_code() {
    let solved = |found: Result<Allocation, _>| found.expect("it has an answer");
    for case in cases() {
        let (name, problem) = (&case.name, &case.problem);
        let aware = solved(max_min(problem, Sight::Aware));
        near(aware.objective, case.of("max_min_fairness_perf").min_norm_throughput, name);
        near(fairness(problem, &aware.shares), aware.objective, name);
        let blind = solved(max_min(problem, Sight::Blind { reference: 0 }));
        near(blind.objective, case.of("max_min_fairness").min_norm_throughput, name);
        let fair = solved(finish_time_fairness(problem, Sight::Aware));
        let greatest = solved(max_sum(problem));
        near(greatest.objective, case.of("max_sum_throughput_perf").sum_eff_throughput, name);
        let short = solved(min_makespan(problem, Sight::Aware));
        let theirs = case.of("min_total_duration_perf").makespan_of_alloc_s;
        println!("{name} makespan {} theirs {theirs} rho {}", short.objective, fair.objective);
        assert!(short.objective <= theirs && theirs <= 1.05 * short.objective, "{name}");
        let searched = solved(bisected_makespan(problem, Sight::Aware));
        assert!(
            (searched.objective / theirs - 1.0).abs() < 2e-3,
            "{name}: {} is not {theirs}",
            searched.objective
        );
        for (policy, ours) in [
            ("max_min_fairness_perf", &aware.shares),
            ("max_min_fairness", &blind.shares),
            ("max_sum_throughput_perf", &greatest.shares),
            ("finish_time_fairness_perf", &fair.shares),
            ("min_total_duration_perf", &searched.shares),
            ("isolated", &isolated(problem)),
        ] {
            let theirs = case.theirs(policy);
            let mut worst = 0.0_f64;
            let mut sum = 0.0;
            for job in 0..problem.jobs.len() {
                for c in 0..3 {
                    worst = worst.max((theirs.of(job, c) - ours.of(job, c)).abs());
                    sum += (theirs.of(job, c) - ours.of(job, c)).abs();
                }
            }
            println!("{name} {policy} worst {worst:.4} mean {:.5}", sum / (3 * problem.jobs.len()) as f64);
        }
    }
}
