//! How long `fair` takes to share 16,000 cores: among 4,000 jobs of 40 tenants, and among 10 that each take as much as they get.

use std::sync::Arc;

use divan::Bencher;
use trainyard_sched::control::{Batch, Core, Event, Settings};
use trainyard_sched::decide::{Abilities, Policy};
use trainyard_sched::model::{
    Cluster, Declared, Goals, Job, JobId, MoveCost, Parallelism, RackId, Resources, Seed, TenantId, Tenants,
    Time, UNLIMITED, Wanted, WorkerRange,
};
use trainyard_sched::policies;
use trainyard_sched::view::Snapshot;

const CORES: u32 = 16_000;

fn main() {
    divan::main();
}

fn fair() -> Box<dyn Policy> {
    policies::build("fair", &toml::Table::new()).expect("it is in the table")
}

fn snapshot(jobs: u32, tenants: u32) -> Snapshot {
    let mut cluster = Cluster::default();
    let holds = Resources { memory_bytes: UNLIMITED, network_bytes_per_s: UNLIMITED, ..Resources::cpus(32) };
    (0..CORES / 32).for_each(|_| _ = cluster.push(RackId(0), None, holds, None));
    let mut known = Tenants::default();
    (0..tenants).for_each(|i| _ = known.intern(&format!("team-{i}")));
    let job = |i: u32| Job {
        id: JobId(i),
        name: format!("job-{i}").into(),
        tenant: TenantId(i % tenants),
        model: None,
        submitted: Time::ZERO,
        shape: Parallelism::elastic(WorkerRange { min: 1, max: CORES }, Resources::cpus(1)),
        wanted: Wanted::default(),
        goals: Goals::default(),
        declared: Declared::default(),
        move_cost: MoveCost::default(),
    };
    let settings = Settings { seed: Seed(0), abilities: Abilities::ALL, strict: true };
    let mut core = Core::new(cluster, known, fair(), settings);
    let events = (0..jobs).map(|i| Event::Arrived { job: Arc::new(job(i)) }).collect();
    core.step(&Batch { at: Time::ZERO, events });
    core.snapshot(Time::from_secs(60))
}

/// All jobs run; a new instance decides.
#[divan::bench(args = [10, 4000])]
fn share_16000_cores(bencher: Bencher<'_, '_>, jobs: u32) {
    let seen = snapshot(jobs, (jobs / 100).max(1));
    bencher.with_inputs(fair).bench_local_values(|mut policy| policy.decide(&seen));
}
