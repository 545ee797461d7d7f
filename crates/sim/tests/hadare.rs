//! HadarE on mixes of one to twelve jobs, and what is claimed of it: `hadar_gavel.md`, checks E-1 to E-7.

use std::collections::BTreeMap;

use trainyard_sched::control::{Action, Batch, Event, Log, Step};
use trainyard_sched::metrics::Usage;
use trainyard_sched::model::{Attempt, Cluster, CopyId, JobId, Seed, Time};
use trainyard_sched::policies;
use trainyard_sched::solve::{Interior, LinearProgram, Sense, Solver};
use trainyard_sim::backend::Options;
use trainyard_sim::generate::{Parameters, generate};
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::{Setup, simulate};
use trainyard_sim::workload::Workload;

const MIXES: [&str; 7] = ["m-1", "m-3", "m-4", "m-5", "m-8", "m-10", "m-12"];

/// Two V100, a P100 and two K80.
fn cluster() -> Cluster {
    let mut cluster = Cluster::uniform(2, 1, "v100");
    cluster.add(1, 1, "p100");
    cluster.add(2, 1, "k80");
    cluster
}

fn mix(name: &str, copies: i64) -> Workload {
    let mut options = toml::Table::new();
    options.insert("copies".to_owned(), toml::Value::Integer(copies));
    let parameters = Parameters { preset: name.to_owned(), options, ..Parameters::default() };
    generate(&parameters).expect("the preset makes jobs")
}

/// What came of a run.
#[derive(Clone, Debug)]
struct Run {
    /// Until all are done, in hours.
    ttd_h: f64,
    /// The mean time from arrival to end, in hours.
    jct_h: f64,
    /// The part of the time for which nodes trained, and with pauses.
    cru: (f64, f64),
    /// Steps of all copies of each job, by attempt, and when each copy was last told to have done more.
    steps: BTreeMap<JobId, BTreeMap<(Attempt, CopyId), f64>>,
    /// When each job ended, and when each of its copies had done its last step.
    ends: BTreeMap<JobId, (Time, BTreeMap<CopyId, Time>)>,
    /// Merges that were ordered.
    merges: u32,
}

struct Watch {
    usage: Usage,
    run: Run,
}

impl Log for Watch {
    fn step(&mut self, batch: &Batch, step: &Step) {
        self.usage.step(batch, step);
        for event in &batch.events {
            match event {
                Event::Progress { job, attempt, copies, .. } => {
                    for told in copies {
                        let steps = self.run.steps.entry(*job).or_default();
                        let before = steps.insert((*attempt, told.copy), told.iterations);
                        if before != Some(told.iterations) {
                            self.run.ends.entry(*job).or_default().1.insert(told.copy, batch.at);
                        }
                    }
                }
                Event::Finished { job, .. } => self.run.ends.entry(*job).or_default().0 = batch.at,
                _ => {}
            }
        }
        let is_merge = |action: &&Action| matches!(action, Action::Merge { .. });
        self.run.merges += step.actions.iter().filter(is_merge).count() as u32;
    }
}

fn run_on(cluster: &Cluster, workload: &Workload, policy: &str, parameters: &str) -> Run {
    let table: toml::Table = parameters.parse().expect("TOML");
    let policy = policies::build(policy, &table).expect("the policy exists");
    let setup = Setup {
        cluster: cluster.clone(),
        tenants: workload.tenants.clone(),
        workload: workload.clone(),
        physics: Physics::default(),
        // What copies do is told to the last step.
        options: Options {
            report_every: Some(trainyard_sched::model::Span::from_secs(3600)),
            ..Options::default()
        },
        seed: Seed(0),
    };
    let run = Run {
        ttd_h: 0.0,
        jct_h: 0.0,
        cru: (0.0, 0.0),
        steps: BTreeMap::new(),
        ends: BTreeMap::new(),
        merges: 0,
    };
    let mut watch = Watch { usage: Usage::new(cluster), run };
    let finished = simulate(setup, policy, &mut watch, |_, _| ()).expect("the run begins");
    let summary = finished.metrics.summary(finished.ended);
    assert_eq!(summary.completed, workload.jobs.len() as u64, "all jobs end");
    let cru = watch.usage.utilisation().expect("jobs end");
    let hours = |seconds: f64| seconds / 3600.0;
    Run {
        ttd_h: hours(summary.makespan_s),
        jct_h: hours(summary.avg_jct_s.expect("jobs end")),
        cru,
        ..watch.run
    }
}

fn run(mix: &Workload, parameters: &str) -> Run {
    run_on(&cluster(), mix, "hadare", parameters)
}

/// Steps a second of each job on each node.
fn speeds(workload: &Workload, cluster: &Cluster) -> Vec<Vec<f64>> {
    let types: Vec<_> = cluster.nodes.iter().filter_map(|node| node.gpu_type).collect();
    let of = |job: &trainyard_sched::model::Job| {
        let rates = job.declared.rates.as_ref().expect("it was profiled");
        types.iter().map(|gpu_type| rates.per_s(*gpu_type, 1, false).unwrap_or(0.0)).collect()
    };
    workload.jobs.iter().map(|(job, _)| of(job)).collect()
}

/// The least time in hours in which all jobs can be done: each may be on all nodes at the same time, or on one at a time only.
fn bound_h(workload: &Workload, cluster: &Cluster, forked: bool) -> f64 {
    let speeds = speeds(workload, cluster);
    let mut program = LinearProgram::default();
    let last = program.variable(-1.0);
    let on: Vec<Vec<usize>> =
        speeds.iter().map(|row| row.iter().map(|_| program.variable(0.0)).collect()).collect();
    for (p, (job, _)) in workload.jobs.iter().enumerate() {
        let steps = job.declared.iterations.expect("it says how many") / 3600.0;
        let entries = on[p].iter().zip(&speeds[p]).map(|(variable, speed)| (*variable, *speed));
        program.row(entries.collect(), Sense::AtLeast, steps);
        if !forked {
            let all = on[p].iter().map(|variable| (*variable, 1.0)).chain([(last, -1.0)]);
            program.row(all.collect(), Sense::AtMost, 0.0);
        }
    }
    for node in 0..cluster.nodes.len() {
        let all = on.iter().map(|row| (row[node], 1.0)).chain([(last, -1.0)]);
        program.row(all.collect(), Sense::AtMost, 0.0);
    }
    -Interior.solve(&program).expect("there is an optimum").objective
}

#[test]
fn e1_e2_e3_all_nodes_train_and_jobs_are_done_almost_as_soon_as_can_be() {
    let mut ratios = Vec::new();
    let mut best_cut = f64::INFINITY;
    for name in MIXES {
        let workload = mix(name, 5);
        let (bound, bound_single) =
            (bound_h(&workload, &cluster(), true), bound_h(&workload, &cluster(), false));
        let forked = run(&workload, "");
        let single = run(&workload, "copies = 1\nweights = \"payoff\"");
        println!(
            "{name}: forked {:.3} h ({:.3} of the bound {bound:.3}), CRU {:.3} / {:.3}, JCT {:.2}; single {:.3} h (bound {bound_single:.3}), CRU {:.3} / {:.3}, JCT {:.2}",
            forked.ttd_h,
            forked.ttd_h / bound,
            forked.cru.0,
            forked.cru.1,
            forked.jct_h,
            single.ttd_h,
            single.cru.0,
            single.cru.1,
            single.jct_h,
        );
        assert!(forked.ttd_h >= bound * (1.0 - 1e-6), "E-1, {name}: no schedule is better than the bound");
        assert!(forked.ttd_h <= 1.06 * bound, "E-1, {name}: {} against {bound}", forked.ttd_h);
        assert!(forked.cru.0 >= 0.95, "E-2, {name}: {:?}", forked.cru);
        let cut = forked.ttd_h / single.ttd_h;
        assert!(cut <= 1.0, "E-3, {name}: {cut}");
        best_cut = best_cut.min(cut);
        ratios.push(forked.cru.0 / single.cru.0);
    }
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    println!("mean ratio of CRU {mean:.2}, least ratio of TTD {best_cut:.3}");
    assert!(mean >= 1.45, "E-3: {ratios:?}");
    assert!(best_cut <= 0.5, "E-3: {best_cut}");
}

#[test]
fn print_variants() {
    for name in MIXES {
        let workload = mix(name, 5);
        for parameters in [
            "",
            "weights = \"payoff\"",
            "srpt_first = true",
            "backfill = true",
            "copies = 1",
            "copies = 1\nweights = \"payoff\"",
            "mode = \"auto\"",
            "mode = \"auto\"\nobjective = \"jct\"",
        ] {
            let run = run(&workload, parameters);
            println!(
                "{name} {parameters:?}: {:.3} h CRU {:.3} JCT {:.2} merges {}",
                run.ttd_h, run.cru.0, run.jct_h, run.merges
            );
        }
    }
}
