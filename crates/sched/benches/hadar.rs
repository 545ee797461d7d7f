//! How long a round of Hadar takes: 32 to 2,048 jobs, and a quarter as many GPUs of each of three types. All jobs are there
//! and most wait, as after a first round. And a slot of HadarE: 64 to 1,024 jobs, with as many GPUs and with four times as
//! many nodes as jobs, so that each is forked; half of the jobs were not profiled on one of the types.

use std::sync::Arc;

use divan::Bencher;
use trainyard_sched::control::{Batch, Core, Event, Settings};
use trainyard_sched::decide::{Abilities, Policy};
use trainyard_sched::model::{
    Cluster, Declared, Goals, GpuTypeId, Job, JobId, MoveCost, Parallelism, Rate, Rates, Seed, TenantId,
    Tenants, Time, Wanted,
};
use trainyard_sched::policies;
use trainyard_sched::view::Snapshot;

fn main() {
    divan::main();
}

const SIZES: [u32; 4] = [32, 128, 512, 2048];

/// One of 26 kinds of jobs, with gangs as in Gavel's generator: seven in ten have one GPU.
fn job(i: u32) -> Job {
    let workers = [1, 1, 1, 1, 1, 1, 1, 2, 4, 8][(i * 7 % 10) as usize];
    let kind = f64::from(i % 26);
    let rate = |gpu_type: u8, spread: bool| {
        let alone = [40.0, 20.0 + kind / 3.0, 5.0 + kind / 5.0][usize::from(gpu_type)];
        let iterations_per_s = alone * f64::from(workers) * if spread { 0.7 } else { 0.95 };
        Rate { gpu_type: GpuTypeId(gpu_type), workers, spread, iterations_per_s }
    };
    let rates = (0..3).flat_map(|gpu_type| [rate(gpu_type, false), rate(gpu_type, true)]).collect();
    let iterations = 1e5 * (1.0 + f64::from(i * 37 % 101)) * f64::from(workers);
    Job {
        id: JobId(i),
        name: format!("job-{i}").into(),
        tenant: TenantId(0),
        model: None,
        submitted: Time::ZERO,
        shape: Parallelism::gang(workers),
        wanted: Wanted { mixed_gpu_types: true, ..Wanted::default() },
        goals: Goals::default(),
        declared: Declared {
            iterations: Some(iterations),
            rates: Rates::new(rates, Vec::new()).shared(),
            ..Declared::default()
        },
        move_cost: MoveCost::default(),
    }
}

fn hadar(parameters: &str) -> Box<dyn Policy> {
    let table: toml::Table = parameters.parse().expect("it is TOML");
    policies::build("hadar", &table).expect("it is in the table")
}

/// All jobs, running as a first decision put them.
fn snapshot(jobs: u32, gpus_per_node: u32) -> Snapshot {
    let all = (0..jobs).map(job).collect();
    snapshot_of(all, (jobs / 4 / gpus_per_node, gpus_per_node), hadar("beam = 1"))
}

/// These jobs, running as a first decision put them on so many nodes of each type.
fn snapshot_of(jobs: Vec<Job>, (nodes, gpus_per_node): (u32, u32), policy: Box<dyn Policy>) -> Snapshot {
    let mut cluster = Cluster::default();
    for gpu_type in ["v100", "p100", "k80"] {
        cluster.add(nodes, u64::from(gpus_per_node), gpu_type);
    }
    let mut tenants = Tenants::default();
    tenants.intern("team");
    let settings = Settings { seed: Seed(0), abilities: Abilities::ALL, strict: true };
    let mut core = Core::new(cluster, tenants, policy, settings);
    let events = jobs.into_iter().map(|job| Event::Arrived { job: Arc::new(job) }).collect();
    core.step(&Batch { at: Time::ZERO, events });
    core.snapshot(Time::from_secs(360))
}

fn decide(bencher: Bencher<'_, '_>, (jobs, gpus_per_node): (u32, u32), parameters: &str) {
    let seen = snapshot(jobs, gpus_per_node);
    let mut policy = hadar(parameters);
    bencher.bench_local(|| policy.decide(&seen));
}

#[divan::bench(args = SIZES)]
fn greedy_on_nodes_of_4(bencher: Bencher<'_, '_>, jobs: u32) {
    decide(bencher, (jobs, 4), "beam = 1");
}

#[divan::bench(args = SIZES)]
fn greedy_on_nodes_of_1(bencher: Bencher<'_, '_>, jobs: u32) {
    decide(bencher, (jobs, 1), "beam = 1");
}

#[divan::bench(args = SIZES)]
fn beam_of_16_on_nodes_of_4(bencher: Bencher<'_, '_>, jobs: u32) {
    decide(bencher, (jobs, 4), "");
}

#[divan::bench(args = SIZES)]
fn makespan_on_nodes_of_4(bencher: Bencher<'_, '_>, jobs: u32) {
    decide(bencher, (jobs, 4), "objective = 'makespan'");
}

const FORKED: [u32; 3] = [64, 256, 1024];

fn hadare(parameters: &str) -> Box<dyn Policy> {
    let table: toml::Table = parameters.parse().expect("it is TOML");
    policies::build("hadare", &table).expect("it is in the table")
}

/// The same job, which may be forked; half of them were not profiled on one of the types.
fn forked(i: u32) -> Job {
    let mut job = job(i);
    job.goals.copies = 64;
    if i % 2 == 1 {
        let known = job.declared.rates.as_ref().expect("it was profiled");
        let known = known.alone().iter().filter(|rate| rate.gpu_type != GpuTypeId(i as u8 % 3));
        job.declared.rates = Rates::new(known.copied().collect(), Vec::new()).shared();
    }
    job
}

fn slot(bencher: Bencher<'_, '_>, jobs: u32, nodes: (u32, u32), parameters: &str) {
    let seen = snapshot_of((0..jobs).map(forked).collect(), nodes, hadare(parameters));
    let mut policy = hadare(parameters);
    bencher.bench_local(|| policy.decide(&seen));
}

#[divan::bench(args = FORKED)]
fn hadare_on_nodes_of_1(bencher: Bencher<'_, '_>, jobs: u32) {
    slot(bencher, jobs, (jobs / 3, 1), "");
}

#[divan::bench(args = FORKED)]
fn hadare_on_nodes_of_4(bencher: Bencher<'_, '_>, jobs: u32) {
    slot(bencher, jobs, (jobs / 12, 4), "");
}

#[divan::bench(args = FORKED)]
fn hadare_with_more_nodes_than_jobs(bencher: Bencher<'_, '_>, jobs: u32) {
    slot(bencher, jobs, (jobs * 4 / 3, 1), "");
}

#[divan::bench(args = FORKED)]
fn hadare_by_payoff(bencher: Bencher<'_, '_>, jobs: u32) {
    slot(bencher, jobs, (jobs / 3, 1), "weights = 'payoff'");
}
