//! How fast runs in rounds are. `cargo bench -p trainyard-sim --bench gavel`.
//!
//! The public simulator of Gavel does 31 jobs in a second of processor time where `max_min_fairness_perf` is simulated over
//! `small_single` (its `results.csv`), of which its solver takes a third. Here as there, all counts but the reading of the trace.

use std::path::Path;

use divan::counter::ItemsCount;
use trainyard_sched::control::Nothing;
use trainyard_sched::model::{Cluster, Seed, Tenants};
use trainyard_sched::policies;
use trainyard_sim::backend::Options;
use trainyard_sim::generate::{Parameters, generate};
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::{Setup, simulate};
use trainyard_sim::trace;
use trainyard_sim::workload::Workload;

fn main() {
    divan::main();
}

const RUNS: [&str; 6] = [
    "objective = 'max_min_fairness'",
    "compatibility = true",
    "recompute_s = 1920.0\nround_end = 'last_slice'\norder = 'by_type'\nhold_for_new = true",
    "objective = 'fifo'",
    "objective = 'finish_time_fairness'",
    "objective = 'makespan'",
];

fn cluster(gpus_of_each: u32) -> Cluster {
    let mut cluster = Cluster::default();
    for gpu_type in ["v100", "p100", "k80"] {
        cluster.add(gpus_of_each, 1, gpu_type);
    }
    cluster
}

fn replay(parameters: &str, workload: &Workload, cluster: &Cluster) -> f64 {
    let setup = Setup {
        cluster: cluster.clone(),
        tenants: Tenants::default(),
        workload: workload.clone(),
        physics: Physics::default(),
        options: Options::default(),
        seed: Seed(0),
    };
    let table: toml::Table = parameters.parse().expect("parameters are TOML");
    let policy = policies::build("gavel", &table).expect("the policy exists");
    let finished = simulate(setup, policy, &mut Nothing, |_, _| ()).expect("the run begins");
    finished.metrics.summary(finished.ended).makespan_s
}

/// 120 jobs, one every 900 s on average, on 12 GPUs each of three types. Nothing where the public data are absent.
#[divan::bench(args = RUNS, sample_count = 5, sample_size = 1)]
fn small_single_120_jobs(bencher: divan::Bencher<'_, '_>, parameters: &str) {
    let cluster = cluster(12);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/gavel_runs/traces");
    let gpu_types = cluster.gpu_types.iter().map(|gpu_type| gpu_type.name.clone()).collect();
    let options = trace::Options { gpu_types, ..trace::Options::default() };
    let Ok(workload) = trace::read(&folder.join("small_single.trace"), &options) else { return };
    bencher.counter(ItemsCount::new(120_u32)).bench_local(|| replay(parameters, &workload, &cluster));
}

/// 600 jobs of Gavel's generator, one every 720 s on average, on 36 GPUs each of three types.
#[divan::bench(args = RUNS, sample_count = 3, sample_size = 1)]
fn generated_600_jobs(bencher: divan::Bencher<'_, '_>, parameters: &str) {
    let options = "jobs_per_h = 5.0".parse().expect("options are TOML");
    let asked = Parameters { preset: "gavel".to_owned(), jobs: Some(600), options, ..Parameters::default() };
    let workload = generate(&asked).expect("the preset makes jobs");
    let cluster = cluster(36);
    bencher.counter(ItemsCount::new(600_u32)).bench_local(|| replay(parameters, &workload, &cluster));
}
