//! The public simulator of Tiresias (NSDI 2019), job by job: its 60-job trace and 480 jobs of Philly.
//!
//! The public data are read where they lie; where the folder is absent the tests say so and pass.

mod shared_data;

use std::collections::BTreeMap;
use std::path::Path;

use shared_data::public;
use trainyard_sched::control::Nothing;
use trainyard_sched::metrics::{Metrics, Summary};
use trainyard_sched::model::{Cluster, MoveCost, Seed, Span, Tenants, Time};
use trainyard_sched::policies;
use trainyard_sim::backend::Options;
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::{Setup, simulate};
use trainyard_sim::trace;
use trainyard_sim::truth::Truth;
use trainyard_sim::workload::Workload;

fn run(policy: &str, parameters: &str, workload: Workload, cluster: Cluster) -> (Metrics, Summary) {
    let table: toml::Table = parameters.parse().expect("parameters are TOML");
    let policy = policies::build(policy, &table).expect("the policy exists");
    let setup = Setup {
        cluster,
        tenants: Tenants::default(),
        workload,
        physics: Physics::default(),
        options: Options::default(),
        seed: Seed(0),
    };
    let finished = simulate(setup, policy, &mut Nothing, |_, _| ()).expect("the run begins");
    let summary = finished.metrics.summary(finished.ended);
    (finished.metrics, summary)
}

fn read(path: &Path) -> Workload {
    trace::read(path, &trace::Options::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Multiplies submission times and durations.
fn stretched(mut workload: Workload, factor: u64) -> Workload {
    for (job, truth) in &mut workload.jobs {
        let job = std::sync::Arc::make_mut(job);
        job.submitted = Time(job.submitted.0 * factor);
        let workers = job.shape.data_parallel().expect("a gang").workers.min;
        *truth = Truth::lasting(Span::from_secs_f64(truth.iterations * factor as f64), workers);
        truth.move_cost = MoveCost::default();
        job.declared = Workload::honest(truth);
    }
    workload
}

/// The table of 60 jobs was made with the public simulator under Python 3, the runs job by job under 2.
const CODED: &str = "timing = 'python3'\nplacement = 'first_fit'\nthresholds_gpu_s = [3250.0, 7200.0]\n";

struct Row {
    label: &'static str,
    policy: &'static str,
    parameters: String,
    /// Mean completion time, makespan, preemptions on 2x4 and 4x4 nodes, as is and stretched 30 times.
    expected: [(f64, f64, Option<u64>); 4],
}

fn rows() -> Vec<Row> {
    let count = "placement = 'first_fit'".to_owned();
    let yarn = "placement = 'yarn'".to_owned();
    let dlas = |promote: &str| format!("{CODED}promote = {promote}");
    let none = |jct, makespan| (jct, makespan, None);
    let some = |jct, makespan, preemptions| (jct, makespan, Some(preemptions));
    vec![
        Row {
            label: "fifo + count",
            policy: "fifo",
            parameters: count.clone(),
            expected: [
                some(1556.48, 5747.0, 0),
                some(200.82, 3335.0, 0),
                some(46694.50, 172_410.0, 0),
                some(6024.50, 100_050.0, 0),
            ],
        },
        Row {
            label: "fifo + yarn",
            policy: "yarn-cs",
            parameters: String::new(),
            expected: [
                none(1556.48, 5747.0),
                none(219.18, 3341.0),
                none(46694.50, 172_410.0),
                none(6575.50, 100_230.0),
            ],
        },
        Row {
            label: "fjf + count",
            policy: "fifo-skip",
            parameters: count.clone(),
            expected: [
                none(715.27, 4806.0),
                none(190.68, 3271.0),
                none(21458.00, 144_180.0),
                none(5720.50, 98_130.0),
            ],
        },
        Row {
            label: "fjf + yarn",
            policy: "fifo-skip",
            parameters: yarn,
            expected: [
                none(782.55, 4839.0),
                none(219.18, 3271.0),
                none(23476.50, 145_170.0),
                none(6575.50, 98_130.0),
            ],
        },
        Row {
            label: "shortest",
            policy: "srtf",
            parameters: count.clone(),
            expected: [
                some(519.87, 4901.0, 7),
                some(192.12, 3271.0, 4),
                some(15596.00, 147_030.0, 7),
                some(5763.50, 98_130.0, 4),
            ],
        },
        Row {
            label: "shortest-gpu",
            policy: "srtf",
            parameters: format!("{count}\nby = 'gpu_time'\nties = 'as_coded'"),
            expected: [
                some(563.38, 4962.0, 13),
                some(195.90, 3315.0, 7),
                some(16901.50, 148_860.0, 13),
                some(5877.00, 99_450.0, 7),
            ],
        },
        Row {
            label: "dlas-gpu, promotion off",
            policy: "tiresias",
            parameters: dlas("0.0"),
            expected: [
                some(715.27, 4806.0, 0),
                some(190.68, 3271.0, 0),
                some(25153.03, 140_858.0, 58),
                some(6081.50, 98_130.0, 31),
            ],
        },
        Row {
            label: "dlas-gpu, promotion 1",
            policy: "tiresias",
            parameters: dlas("1.0"),
            expected: [
                some(715.27, 4806.0, 0),
                some(190.68, 3271.0, 0),
                some(21969.07, 145_917.0, 188),
                some(6188.83, 98_593.0, 64),
            ],
        },
        Row {
            label: "dlas-gpu, promotion 8",
            policy: "tiresias",
            parameters: dlas("8.0"),
            expected: [
                some(715.27, 4806.0, 0),
                some(190.68, 3271.0, 0),
                some(22413.80, 146_602.0, 143),
                some(6081.50, 98_130.0, 31),
            ],
        },
    ]
}

/// The Gittins variant, with the history that the public code is given.
fn gittins_row(data: &Path) -> Row {
    let text = std::fs::read_to_string(data.join("tiresias/yarn-gput1000.csv")).expect("the history");
    let mut history: Vec<f64> =
        text.split_whitespace().skip(1).map(|number| number.parse().expect("a number")).collect();
    history.sort_by(f64::total_cmp);
    let some = |jct, makespan, preemptions| (jct, makespan, Some(preemptions));
    Row {
        label: "dlas-gpu-gittins",
        policy: "tiresias",
        parameters: format!("{CODED}variant = 'gittins'\nindex = 'as_coded'\nhistory_gpu_s = {history:?}"),
        expected: [
            some(822.53, 4749.0, 91),
            some(219.05, 3271.0, 35),
            some(24364.17, 145_120.0, 111),
            some(6551.20, 98_130.0, 31),
        ],
    }
}

#[test]
fn the_sixty_job_trace_comes_out_as_in_the_public_simulator() {
    let Some(data) = public("") else { return };
    let trace = data.join("tiresias/60_job.csv");
    let mut wrong = Vec::new();
    for row in rows().into_iter().chain([gittins_row(&data)]) {
        for (i, (jct, makespan, preemptions)) in row.expected.into_iter().enumerate() {
            let cluster = Cluster::uniform(if i % 2 == 0 { 2 } else { 4 }, 4, "gpu");
            let workload = stretched(read(&trace), if i < 2 { 1 } else { 30 });
            let (_, got) = run(row.policy, &row.parameters, workload, cluster);
            let got_jct = got.avg_jct_s.expect("all jobs end");
            let same = (got_jct - jct).abs() < 0.006 && (got.makespan_s - makespan).abs() < 0.5;
            if !same || preemptions.is_some_and(|expected| expected != got.preemptions) {
                wrong.push(format!(
                    "{} [{i}]: expected {jct} / {makespan} / {preemptions:?}, got {got_jct:.3} / {} / {}",
                    row.label, got.makespan_s, got.preemptions
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Start and end of each job by its name in the public simulator's output.
fn public_output(path: &Path) -> BTreeMap<String, (f64, f64)> {
    let mut reader = csv::Reader::from_path(path).expect("the public output is there");
    let column = |name: &str, headers: &csv::StringRecord| {
        headers.iter().position(|header| header == name).expect("the column exists")
    };
    let headers = reader.headers().expect("it has a header").clone();
    let columns = ["job_id", "start_time", "end_time"].map(|name| column(name, &headers));
    let number = |text: &str| text.parse::<f64>().expect("a number");
    reader
        .records()
        .map(|record| record.expect("a row"))
        .map(|record| {
            let [id, start, end] = columns.map(|i| record[i].to_owned());
            (id, (number(&start), number(&end)))
        })
        .collect()
}

#[test]
fn every_job_starts_and_ends_as_in_the_public_simulator() {
    let Some(data) = public("") else { return };
    let count = "placement = 'first_fit'";
    let one = "timing = 'python2'\nplacement = 'first_fit'\nthresholds_gpu_s = [3250.0, 7200.0]";
    let policies = [
        ("fifo", "fifo", count),
        ("fjf", "fifo-skip", count),
        ("shortest", "srtf", count),
        ("dlas-gpu", "tiresias", one),
    ];
    let mut wrong = Vec::new();
    for trace in ["60_job", "philly_103959_480"] {
        for (public, policy, parameters) in policies {
            let workload = read(&data.join(format!("tiresias_runs/traces/{trace}.csv")));
            let first = workload.jobs[0].0.submitted;
            let (metrics, _) = run(policy, parameters, workload, Cluster::uniform(4, 4, "gpu"));
            let path = data.join(format!("tiresias_runs/per_job/{trace}.n4g4.{public}.job.csv"));
            let expected = public_output(&path);
            let jobs = metrics.rows().count();
            assert_eq!(jobs, expected.len(), "{trace} {public}: as many jobs");
            // Our clock begins with the first arrival where the trace does not begin at zero.
            let shift = expected.values().map(|(start, _)| *start).fold(f64::INFINITY, f64::min)
                - metrics.rows().filter_map(|row| row.started).min().expect("a start").as_secs_f64();
            assert!(shift >= 0.0 && first.0 == 0 || shift == 0.0, "{trace} {public}: shift {shift}");
            let mut differ = 0;
            for row in metrics.rows() {
                let (start, end) = expected[&row.name];
                let ours = [row.started, row.ended].map(|time| time.expect("it ended").as_secs_f64() + shift);
                if (ours[0] - start).abs() > 1e-6 || (ours[1] - end).abs() > 1e-6 {
                    differ += 1;
                    if differ == 1 {
                        wrong.push(format!(
                            "{trace} {public} {}: {ours:?}, expected {start}, {end}",
                            row.name
                        ));
                    }
                }
            }
            if differ > 0 {
                wrong.push(format!("{trace} {public}: {differ} of {jobs} jobs differ"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
