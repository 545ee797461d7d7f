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
}

/// The tolerances are those of a table of 13 policies on other traces; the policies that it does not list are marked.
const LINES: &[Line] = &[
    Line {
        public: "fifo_perf",
        policy: ("gavel", "compatibility = true\nobjective = 'fifo'"),
        jct: 0.002,
        makespan: 0.002,
    },
    // The order of GPU types is shuffled there by Python's generator.
    Line {
        public: "isolated",
        policy: ("gavel", "compatibility = true\nobjective = 'isolated'"),
        jct: 0.03,
        makespan: 0.03,
    },
];

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
    let mut wrong = Vec::new();
    for row in published(&data) {
        let Some(line) = LINES.iter().find(|line| line.public == row.policy) else { continue };
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
        if jct_off.abs() > line.jct || makespan_off.abs() > line.makespan {
            wrong.push(told);
        }
    }
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
