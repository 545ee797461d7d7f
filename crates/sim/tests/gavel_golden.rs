//! The public simulator of Gavel (OSDI 2020), run by run, and job by job where nothing in it depends on chance or on which
//! of several optima a solver returns.
//!
//! The public data are read where they lie; where the folder is absent the tests say so and pass. The policy `fifo` of the
//! public code is left out: it draws a GPU type and then uses another.

mod shared_data;

use std::collections::BTreeMap;
use std::path::Path;

use shared_data::public;
use trainyard_sched::control::Nothing;
use trainyard_sched::metrics::{Metrics, Summary};
use trainyard_sched::model::{Cluster, Seed, Tenants};
use trainyard_sched::policies;
use trainyard_sim::backend::Options;
use trainyard_sim::generate::{Parameters, generate};
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::{Setup, simulate};
use trainyard_sim::trace;
use trainyard_sim::workload::Workload;

/// So many V100s, P100s and K80s, each a server of its own: `4:4:4`.
fn cluster(counts: &str) -> Cluster {
    let mut cluster = Cluster::default();
    for (count, gpu_type) in counts.split(':').zip(["v100", "p100", "k80"]) {
        cluster.add(count.parse().expect("a number of GPUs"), 1, gpu_type);
    }
    cluster
}

fn workload(path: &Path, cluster: &Cluster) -> Workload {
    let gpu_types = cluster.gpu_types.iter().map(|gpu_type| gpu_type.name.clone()).collect();
    let options = trace::Options { gpu_types, ..trace::Options::default() };
    trace::read(path, &options).unwrap_or_else(|error| panic!("{error}"))
}

fn run((policy, parameters): (&str, &str), workload: Workload, cluster: Cluster) -> (Metrics, Summary) {
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

/// A policy of the public code: what it is called there and here, and how far means of completion times and makespans may
/// be apart.
struct Line {
    public: &'static str,
    policy: (&'static str, &'static str),
    jct: f64,
    makespan: f64,
    /// The same for completion times on set B.
    jct_on_b: f64,
    /// Means of completion times and makespans in hours on the sets A, B and C.
    sets: [Option<(f64, f64)>; 3],
}

const fn line(
    public: &'static str,
    policy: (&'static str, &'static str),
    (jct, makespan): (f64, f64),
    sets: [Option<(f64, f64)>; 3],
) -> Line {
    Line { public, policy, jct, makespan, jct_on_b: jct, sets }
}

/// On set B the public simulator answers one problem with 23 or 27 hours by which of several optima its solver returns.
const fn wider_on_b(line: Line) -> Line {
    Line { jct_on_b: 0.15, ..line }
}

/// Bounds are those for the sets.
const LINES: &[Line] = &[
    line(
        "fifo_perf",
        ("gavel", "compatibility = true\nobjective = 'fifo'"),
        (0.002, 0.002),
        [Some((23.1443, 123.8538)), Some((32.0666, 182.8974)), Some((31.5986, 200.4663))],
    ),
    // The order of GPU types is shuffled there by Python's generator.
    line(
        "isolated",
        ("gavel", "compatibility = true\nobjective = 'isolated'"),
        (0.03, 0.03),
        [Some((26.6758, 212.4619)), Some((37.2115, 287.5010)), Some((27.2760, 290.9781))],
    ),
    line(
        "max_min_fairness",
        ("gavel", "compatibility = true\naware = false"),
        (0.05, 0.05),
        [Some((26.6466, 212.3047)), Some((37.3654, 288.6166)), Some((27.2973, 291.2985))],
    ),
    wider_on_b(line(
        "max_min_fairness_perf",
        ("gavel", "compatibility = true"),
        (0.05, 0.05),
        [Some((20.5353, 133.3027)), Some((26.9856, 170.6956)), Some((21.4008, 185.1103))],
    )),
    line(
        "finish_time_fairness",
        ("gavel", "compatibility = true\nobjective = 'finish_time_fairness'\naware = false"),
        (0.05, 0.05),
        [Some((26.4343, 213.3502)), Some((37.5088, 289.1209)), None],
    ),
    wider_on_b(line(
        "finish_time_fairness_perf",
        ("gavel", "compatibility = true\nobjective = 'finish_time_fairness'"),
        (0.05, 0.05),
        [Some((20.5808, 133.2024)), Some((26.8625, 172.1986)), Some((21.4112, 181.0759))],
    )),
    // Of this one only the makespan has a bound of its own; its completion times have that of the next.
    line(
        "min_total_duration",
        ("gavel", "compatibility = true\nobjective = 'makespan'\naware = false"),
        (0.15, 0.06),
        [Some((27.4100, 208.3306)), Some((39.1129, 287.7673)), None],
    ),
    line(
        "min_total_duration_perf",
        ("gavel", "compatibility = true\nobjective = 'makespan'"),
        (0.15, 0.02),
        [Some((25.6339, 123.8572)), Some((32.3418, 168.6200)), Some((28.7546, 165.8267))],
    ),
    line(
        "max_sum_throughput_perf",
        ("gavel", "compatibility = true\nobjective = 'throughput'"),
        (0.10, 0.10),
        [Some((20.9313, 134.5632)), Some((27.9474, 173.3454)), Some((24.3964, 193.5006))],
    ),
    wider_on_b(line(
        "max_min_fairness_water_filling_perf",
        ("gavel", "compatibility = true\nobjective = 'water_filling'"),
        (0.05, 0.05),
        [Some((20.5182, 133.3435)), Some((26.7320, 169.9091)), None],
    )),
    line("allox", ("allox", "compatibility = true"), (0.02, 0.02), [Some((20.2126, 136.0376)), None, None]),
    line(
        "gandiva",
        ("gandiva", "compatibility = true\nparting = 'sum'"),
        (0.15, 0.15),
        [Some((21.8601, 137.0836)), Some((30.2004, 173.2195)), None],
    ),
    line(
        "fifo_packed",
        ("gavel", "compatibility = true\nobjective = 'fifo'\npacked = true"),
        (0.02, 0.02),
        [Some((21.6844, 124.4508)), Some((31.9790, 182.7329)), None],
    ),
    line(
        "max_min_fairness_packed",
        ("gavel", "compatibility = true\npacked = true"),
        (0.15, 0.15),
        [Some((19.0675, 131.8951)), None, None],
    ),
];

/// Policies of the public code that are not compared: `fifo` draws a type and then uses another.
const LEFT_OUT: [&str; 1] = ["fifo"];
/// The runs that are compared.
const COMPARED: u32 = 24;

struct Published {
    setting: String,
    cluster: String,
    policy: String,
    avg_jct_s: f64,
    makespan_s: f64,
    utilisation: f64,
}

fn published(data: &Path) -> Vec<Published> {
    let mut reader = csv::Reader::from_path(data.join("gavel_runs/results.csv")).expect("the results");
    let headers = reader.headers().expect("it has a header").clone();
    let column = |name: &str| headers.iter().position(|header| header == name).expect("the column exists");
    let rows = reader.records().map(|row| row.expect("a row"));
    rows.map(|row| {
        let number = |name: &str| row[column(name)].parse::<f64>().expect("a number");
        Published {
            setting: row[column("setting")].to_owned(),
            cluster: row[column("cluster")].to_owned(),
            policy: row[column("policy")].to_owned(),
            avg_jct_s: number("avg_jct_s"),
            makespan_s: number("makespan_s"),
            utilisation: number("utilisation"),
        }
    })
    .collect()
}

/// Completion times by the number of the job.
fn jobs(data: &Path, row: &Published) -> BTreeMap<u32, f64> {
    let name = format!("{}.c{}.{}.jobs.csv", row.setting, row.cluster.replace(':', "-"), row.policy);
    let mut reader = csv::Reader::from_path(data.join("gavel_runs/per_job").join(name)).expect("the jobs");
    let rows = reader.records().map(|row| row.expect("a row"));
    rows.map(|row| (row[0].parse().expect("a number"), row[5].parse().expect("a time"))).collect()
}

#[test]
fn every_run_comes_out_as_in_the_public_simulator() {
    let Some(data) = public("") else { return };
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for row in published(&data) {
        let Some(line) = LINES.iter().find(|line| line.public == row.policy) else {
            assert!(LEFT_OUT.contains(&&*row.policy), "nothing is compared with {}", row.policy);
            continue;
        };
        compared += 1;
        let cluster = cluster(&row.cluster);
        let path = data.join(format!("gavel_runs/traces/{}.trace", row.setting));
        let (_, ours) = run(line.policy, workload(&path, &cluster), cluster);
        let jct = ours.avg_jct_s.expect("all jobs end");
        let off = |ours: f64, published: f64| ours / published - 1.0;
        let (jct_off, makespan_off) = (off(jct, row.avg_jct_s), off(ours.makespan_s, row.makespan_s));
        let told = format!(
            "{:12} {:36} JCT {:9.1} / {jct:9.1} ({:+6.2} %), makespan {:9.0} / {:9.0} ({:+6.2} %), utilization {:.4} / {:.4}",
            row.setting,
            row.policy,
            row.avg_jct_s,
            100.0 * jct_off,
            row.makespan_s,
            ours.makespan_s,
            100.0 * makespan_off,
            row.utilisation,
            ours.gpu_utilization,
        );
        println!("{told}");
        let used_off = off(ours.gpu_utilization, row.utilisation);
        let is_used_alike = used_off.abs() <= line.jct.max(line.makespan);
        if jct_off.abs() > line.jct || makespan_off.abs() > line.makespan || !is_used_alike {
            wrong.push(told);
        }
    }
    assert_eq!(compared, COMPARED, "runs are missing");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_job_of_fifo_perf_ends_as_in_the_public_simulator() {
    let Some(data) = public("") else { return };
    let mut wrong = Vec::new();
    for row in published(&data).into_iter().filter(|row| row.policy == "fifo_perf") {
        let cluster = cluster(&row.cluster);
        let path = data.join(format!("gavel_runs/traces/{}.trace", row.setting));
        let policy = ("gavel", "compatibility = true\nobjective = 'fifo'");
        let (metrics, _) = run(policy, workload(&path, &cluster), cluster);
        let expected = jobs(&data, &row);
        assert_eq!(metrics.rows().count(), expected.len(), "{}: as many jobs", row.setting);
        for (id, job) in metrics.rows().enumerate() {
            let jct = job.ended.expect("it ended").since(job.submitted).as_secs_f64();
            let published = expected[&(id as u32)];
            if (jct - published).abs() > 0.01 {
                wrong.push(format!("{} job {id}: {jct:.3}, published {published:.3}", row.setting));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} jobs differ, among them\n{}",
        wrong.len(),
        wrong[..wrong.len().min(12)].join("\n")
    );
}

/// The sets A, B and C, which the public generator makes: what they are called here, and their clusters.
const SETS: [(&str, &str); 3] = [("gavel-a", "4:4:4"), ("gavel-b", "8:8:8"), ("gavel-c", "20:20:20")];

fn set(preset: &str) -> Workload {
    let parameters = Parameters { preset: preset.to_owned(), ..Parameters::default() };
    generate(&parameters).expect("the preset makes jobs")
}

/// Mean completion time and makespan of a set in hours.
fn hours(i: usize, policy: (&str, &str)) -> (f64, f64) {
    let (preset, counts) = SETS[i];
    let (_, summary) = run(policy, set(preset), cluster(counts));
    (summary.avg_jct_s.expect("all jobs end") / 3600.0, summary.makespan_s / 3600.0)
}

#[test]
fn the_sets_come_out_as_in_the_public_simulator_and_in_its_order() {
    let mut wrong = Vec::new();
    for (i, (preset, _)) in SETS.into_iter().enumerate() {
        let mut ours = BTreeMap::new();
        for line in LINES {
            let Some((jct, makespan)) = line.sets[i] else { continue };
            let got = hours(i, line.policy);
            ours.insert(line.public, got);
            let off = (got.0 / jct - 1.0, got.1 / makespan - 1.0);
            let told = format!(
                "{preset} {:28} JCT {jct:8.4} / {:8.4} h ({:+6.2} %), makespan {makespan:8.4} / {:8.4} h ({:+6.2} %)",
                line.public,
                got.0,
                100.0 * off.0,
                got.1,
                100.0 * off.1
            );
            println!("{told}");
            let most = if preset == "gavel-b" { line.jct_on_b } else { line.jct };
            if off.0.abs() > most || off.1.abs() > line.makespan {
                wrong.push(told);
            }
        }
        let (aware, blind) = (ours["max_min_fairness_perf"], ours["max_min_fairness"]);
        if aware.0 > 0.8 * blind.0 {
            wrong.push(format!("{preset}: knowing speeds saves less than a fifth: {aware:?} {blind:?}"));
        }
        let least = ours["min_total_duration_perf"].1;
        for (policy, (_, makespan)) in &ours {
            if least > 1.01 * makespan {
                wrong.push(format!(
                    "{preset}: {policy} is done before the policy for that: {makespan} < {least}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
