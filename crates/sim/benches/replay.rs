//! How fast runs and decisions are. `cargo bench -p trainyard-sim --bench replay`.
//!
//! Times are of this machine; what matters is their ratios within one run. Nothing here is a test.

use std::sync::Arc;

use divan::counter::ItemsCount;
use trainyard_sched::control::{Batch, Core, Event, Nothing, Outcome, Settings};
use trainyard_sched::decide::Abilities;
use trainyard_sched::model::{Attempt, Cluster, JobId, Seed, Time};
use trainyard_sched::policies;
use trainyard_sim::backend::Options;
use trainyard_sim::generate::{Load, Parameters, generate};
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::{Setup, simulate};
use trainyard_sim::workload::Workload;

fn main() {
    divan::main();
}

/// Philly's published size: 2,474 GPUs on 550 nodes.
fn philly_cluster() -> Cluster {
    let mut cluster = Cluster::uniform(229, 8, "p100");
    cluster.add(321, 2, "p100");
    cluster
}

fn philly_jobs(jobs: u32, fraction: f64, gpus: u64) -> Workload {
    let load = Some(Load { fraction, gpus });
    let parameters = Parameters {
        preset: "philly".to_owned(),
        jobs: Some(jobs),
        load,
        days: None,
        ..Parameters::default()
    };
    generate(&parameters).expect("the preset makes jobs")
}

fn replay(policy: &str, workload: &Workload, cluster: &Cluster) -> f64 {
    let setup = Setup {
        cluster: cluster.clone(),
        tenants: workload.tenants.clone(),
        workload: workload.clone(),
        physics: Physics::default(),
        options: Options::default(),
        seed: Seed(0),
    };
    let policy = policies::build(policy, &toml::Table::new()).expect("the policy exists");
    let finished = simulate(setup, policy, &mut Nothing, |_, _| ()).expect("the run begins");
    finished.metrics.summary(finished.ended).makespan_s
}

/// 117,325 Philly-like jobs that ask for 95 % of the GPU time of the days in which they arrive.
#[divan::bench(args = ["fifo", "srtf", "tiresias", "easy"], sample_count = 3, sample_size = 1)]
fn philly_117325_jobs(bencher: divan::Bencher<'_, '_>, policy: &str) {
    let cluster = philly_cluster();
    let workload = philly_jobs(117_325, 0.95, cluster.gpu_count());
    bencher.counter(ItemsCount::new(117_325_u32)).bench_local(|| replay(policy, &workload, &cluster));
}

#[divan::bench(sample_count = 1, sample_size = 1)]
fn one_million_jobs_fifo(bencher: divan::Bencher<'_, '_>) {
    let cluster = philly_cluster();
    let workload = philly_jobs(1_000_000, 0.95, cluster.gpu_count());
    bencher.counter(ItemsCount::new(1_000_000_u32)).bench_local(|| replay("fifo", &workload, &cluster));
}

/// As many jobs as a published Python simulator is usually given, on 60 GPUs.
#[divan::bench(args = ["fifo", "srtf", "tiresias"])]
fn philly_480_jobs(bencher: divan::Bencher<'_, '_>, policy: &str) {
    let cluster = Cluster::uniform(15, 4, "p100");
    let workload = philly_jobs(480, 0.95, cluster.gpu_count());
    bencher.counter(ItemsCount::new(480_u32)).bench_local(|| replay(policy, &workload, &cluster));
}

/// Decisions while so many jobs wait: each job of one GPU that ends makes room for the next in the queue.
#[divan::bench(
    args = [("fifo", 1_000), ("fifo", 10_000), ("fifo", 100_000), ("srtf", 1_000), ("srtf", 10_000),
        ("srtf", 100_000), ("tiresias", 1_000), ("tiresias", 10_000), ("tiresias", 100_000)],
    sample_count = 5, sample_size = 1
)]
fn thousand_decisions_with_queue(bencher: divan::Bencher<'_, '_>, (policy, queued): (&str, u32)) {
    const DECISIONS: u32 = 1_000;
    let cluster = philly_cluster();
    let running = cluster.gpu_count() as u32;
    let workload = philly_jobs(queued + running + DECISIONS, 0.95, cluster.gpu_count());
    let jobs: Vec<_> = workload
        .jobs
        .iter()
        .map(|(job, _)| {
            let mut job = (**job).clone();
            job.submitted = Time::ZERO;
            // The first fill the cluster, one GPU each; the rest are as they come.
            if job.id.0 < running {
                job.shape = trainyard_sched::model::Parallelism::gang(1);
            }
            Arc::new(job)
        })
        .collect();
    bencher
        .counter(ItemsCount::new(DECISIONS))
        .with_inputs(|| full(policy, &cluster, &workload, &jobs))
        .bench_local_values(|mut core| {
            for i in 0..DECISIONS {
                let at = Time::from_secs(1 + u64::from(i));
                let ends =
                    Event::Finished { job: JobId(i), attempt: Attempt(1), outcome: Outcome::Completed };
                core.step(&Batch { at, events: vec![ends] });
            }
            core
        });
}

/// A loop in which everything runs that can and all other jobs wait.
fn full(
    policy: &str,
    cluster: &Cluster,
    workload: &Workload,
    jobs: &[Arc<trainyard_sched::model::Job>],
) -> Core {
    let policy = policies::build(policy, &toml::Table::new()).expect("the policy exists");
    let settings = Settings { seed: Seed(0), abilities: Abilities::ALL, strict: true };
    let mut core = Core::new(cluster.clone(), workload.tenants.clone(), policy, settings);
    let running = cluster.gpu_count() as usize;
    for part in [&jobs[..running], &jobs[running..]] {
        let events = part.iter().map(|job| Event::Arrived { job: job.clone() }).collect();
        core.step(&Batch { at: Time::ZERO, events });
    }
    core
}
