//! How long Optimus takes to decide on 1,000 jobs with parameter servers. 500 nodes of 8 CPU and 8 GPU slots hold one worker
//! and one server of each job; 2,000 nodes hold four.

use std::sync::Arc;

use divan::Bencher;
use trainyard_sched::control::{Batch, Core, Event, Settings};
use trainyard_sched::decide::{Abilities, Policy};
use trainyard_sched::model::{
    Cluster, DataParallel, Declared, Goals, Job, JobId, MoveCost, Parallelism, Resources, Seed,
    SpeedFunction, SpeedTable, TenantId, Tenants, Time, Wanted, WorkerRange,
};
use trainyard_sched::policies;
use trainyard_sched::view::Snapshot;

fn main() {
    divan::main();
}

const JOBS: u32 = 1000;

fn job(i: u32) -> Job {
    let range = WorkerRange { min: 1, max: 16 };
    let worker = Resources { gpu_milli: 4000, cpu_milli: 2000, ..Resources::NONE };
    let shape = DataParallel { worker, workers: range, server: Some(Resources::cpus(2)), servers: range };
    let theta = [1.0 + f64::from(i % 7) / 7.0, 0.2 + f64::from(i % 5) / 10.0, 0.01, 0.01];
    let truth = SpeedFunction::AsynchronousServers { theta };
    let table = SpeedTable::new(16, 16, |workers, servers| truth.iterations_per_s(workers, servers));
    Job {
        id: JobId(i),
        name: format!("job-{i}").into(),
        tenant: TenantId(0),
        model: None,
        submitted: Time::ZERO,
        shape: Parallelism::DataParallel(shape),
        wanted: Wanted::default(),
        goals: Goals::default(),
        declared: Declared {
            iterations: Some(1000.0 + f64::from(i)),
            speed: Some(SpeedFunction::Measured(Arc::new(table))),
            ..Declared::default()
        },
        move_cost: MoveCost::default(),
    }
}

fn optimus(parameters: &str) -> Box<dyn Policy> {
    let table: toml::Table = parameters.parse().expect("it is TOML");
    policies::build("optimus", &table).expect("it is in the table")
}

/// All jobs, running as a first decision put them.
fn snapshot(nodes: u32) -> Snapshot {
    let mut cluster = Cluster::uniform(nodes, 8, "slot");
    cluster.nodes.iter_mut().for_each(|node| node.holds.cpu_milli = 8000);
    let mut tenants = Tenants::default();
    tenants.intern("team");
    let settings = Settings { seed: Seed(0), abilities: Abilities::ALL, strict: true };
    let mut core = Core::new(cluster, tenants, optimus(""), settings);
    let events = (0..JOBS).map(|i| Event::Arrived { job: Arc::new(job(i)) }).collect();
    core.step(&Batch { at: Time::ZERO, events });
    core.snapshot(Time::from_secs(600))
}

/// Speeds were fitted before, as in all decisions but the first.
#[divan::bench(args = [500, 2000])]
fn decide_1000_jobs(bencher: Bencher<'_, '_>, nodes: u32) {
    warm(bencher, nodes, "");
}

/// As coded in the simulator of DL2, on declared speeds.
#[divan::bench(args = [500, 2000])]
fn decide_1000_jobs_as_coded(bencher: Bencher<'_, '_>, nodes: u32) {
    warm(bencher, nodes, "mode = 'as_coded'\nspeeds = 'declared'");
}

fn warm(bencher: Bencher<'_, '_>, nodes: u32, parameters: &str) {
    let seen = snapshot(nodes);
    let mut policy = optimus(parameters);
    policy.decide(&seen);
    bencher.bench_local(|| policy.decide(&seen));
}

/// Speeds are fitted for all jobs at once.
#[divan::bench(args = [500, 2000])]
fn decide_1000_jobs_for_the_first_time(bencher: Bencher<'_, '_>, nodes: u32) {
    let seen = snapshot(nodes);
    bencher.with_inputs(|| optimus("")).bench_local_values(|mut policy| policy.decide(&seen));
}
