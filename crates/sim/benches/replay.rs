//! How fast runs and decisions are. `cargo bench -p trainyard-sim --bench replay`.
//!
//! Times are of this machine; what matters is their ratios within one run. Nothing here is a test.

use std::collections::VecDeque;
use std::sync::Arc;

use divan::counter::ItemsCount;
use trainyard_sched::control::{Action, Batch, Core, Event, Log, Nothing, Outcome, Settings};
use trainyard_sched::decide::Abilities;
use trainyard_sched::metrics::Details;
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
    follow(policy, workload, cluster, &mut Nothing)
}

fn follow(policy: &str, workload: &Workload, cluster: &Cluster, log: &mut dyn Log) -> f64 {
    let setup = Setup {
        cluster: cluster.clone(),
        tenants: workload.tenants.clone(),
        workload: workload.clone(),
        physics: Physics::default(),
        options: Options::default(),
        seed: Seed(0),
    };
    let policy = policies::build(policy, &toml::Table::new()).expect("the policy exists");
    let finished = simulate(setup, policy, log, |_, _| ()).expect("the run begins");
    finished.metrics.summary(finished.ended).makespan_s
}

/// 117,325 Philly-like jobs that ask for 95 % of the GPU time of the days in which they arrive.
#[divan::bench(args = ["fifo", "srtf", "tiresias", "easy"], sample_count = 3, sample_size = 1)]
fn philly_117325_jobs(bencher: divan::Bencher<'_, '_>, policy: &str) {
    let cluster = philly_cluster();
    let workload = philly_jobs(117_325, 0.95, cluster.gpu_count());
    bencher.counter(ItemsCount::new(117_325_u32)).bench_local(|| replay(policy, &workload, &cluster));
}

/// The same with what a report shows beyond the summary; the difference is what that costs.
#[divan::bench(args = ["fifo", "srtf", "tiresias", "easy"], sample_count = 3, sample_size = 1)]
fn philly_117325_jobs_with_details(bencher: divan::Bencher<'_, '_>, policy: &str) {
    let cluster = philly_cluster();
    let workload = philly_jobs(117_325, 0.95, cluster.gpu_count());
    bencher.counter(ItemsCount::new(117_325_u32)).bench_local(|| {
        let mut details = Details::new(&cluster, &workload.tenants);
        follow(policy, &workload, &cluster, &mut details)
    });
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

/// Decisions while so many jobs wait: each running job that ends makes room for the next in the queue.
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
    bencher
        .counter(ItemsCount::new(DECISIONS))
        .with_inputs(|| Full::new(policy, &cluster, &workload))
        .bench_local_values(|mut full| {
            for i in 0..DECISIONS {
                full.end_one(Time::from_secs(1 + u64::from(i)));
            }
            full
        });
}

/// A loop in which everything runs that can and all other jobs wait, with a backend that does what it is
/// told at once.
struct Full {
    core: Core,
    running: VecDeque<(JobId, Attempt)>,
}

impl Full {
    fn new(policy: &str, cluster: &Cluster, workload: &Workload) -> Self {
        let policy = policies::build(policy, &toml::Table::new()).expect("the policy exists");
        let settings = Settings { seed: Seed(0), abilities: Abilities::ALL, strict: true };
        let core = Core::new(cluster.clone(), workload.tenants.clone(), policy, settings);
        let mut full = Self { core, running: VecDeque::new() };
        let arrivals = workload.jobs.iter().map(|(job, _)| {
            let mut job = (**job).clone();
            job.submitted = Time::ZERO;
            Event::Arrived { job: Arc::new(job) }
        });
        full.step(Time::ZERO, arrivals.collect());
        full
    }

    fn end_one(&mut self, at: Time) {
        let (job, attempt) = self.running.pop_front().expect("something always runs");
        self.step(at, vec![Event::Finished { job, attempt, outcome: Outcome::Completed }]);
    }

    fn step(&mut self, at: Time, mut events: Vec<Event>) {
        while !events.is_empty() {
            let step = self.core.step(&Batch { at, events: std::mem::take(&mut events) });
            for action in step.actions {
                match action {
                    Action::Start { job, attempt, .. } => {
                        self.running.push_back((job, attempt));
                        events.push(Event::Started { job, attempt, iterations: 0.0, speed: 1.0 });
                    }
                    Action::Stop { job, attempt, .. } => {
                        self.running.retain(|(other, _)| *other != job);
                        events.push(Event::Stopped { job, attempt, iterations: 0.0 });
                    }
                    Action::Resize { .. } | Action::Merge { .. } => {}
                }
            }
        }
    }
}
