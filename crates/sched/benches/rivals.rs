//! How long a minute of the loop takes under the rivals of MLFS: 1,860 jobs of 10.5 tasks on average on 80 GPUs, and 20,000 jobs
//! on 2,474. `cargo bench -p trainyard-sched --bench rivals`. Goal: a few milliseconds for the first.

use std::sync::Arc;

use divan::Bencher;
use trainyard_sched::control::{Action, Batch, Core, Event, Settings};
use trainyard_sched::decide::Abilities;
use trainyard_sched::model::{
    Cluster, Declared, Edge, Goals, Job, JobId, MoveCost, Parallelism, Resources, Seed, Span, Task,
    TaskGraph, TaskId, TenantId, Tenants, Time, UNLIMITED, Wanted,
};
use trainyard_sched::policies;

const POLICIES: [&str; 7] = [
    "borg",
    "gandiva-pools",
    "graphene",
    "hypersched",
    "tiresias variant='gittins' placement='fill'",
    "slaq epoch_s=60.0 takes_turns=false",
    "fifo-skip",
];

fn main() {
    divan::main();
}

/// A chain of 1, 2, 4, 8, 16 or 32 tasks that demand from .1 to .3 of a GPU.
fn job(i: u32) -> Arc<Job> {
    let count = 1 << (i % 6);
    let task = |k: u32| Task {
        demand: Resources {
            gpu_milli: 100 + u64::from((i * 7919 + k * 31) % 200),
            cpu_milli: 640 + u64::from((i * 104_729 + k * 17) % 1280),
            memory_bytes: UNLIMITED / (1 << 40),
            network_bytes_per_s: 0,
        },
        parameters: 1,
        replica: Some(0),
        compute_s: f64::from(1 + (i + k) % 7),
        state_bytes: 1 << 28,
    };
    let edge = |k: u32| Edge { from: TaskId(k), to: TaskId(k + 1), bytes: 75_000_000 };
    let graph =
        TaskGraph::new((0..count).map(task).collect(), (0..count - 1).map(edge).collect(), None, false);
    Arc::new(Job {
        id: JobId(i),
        name: format!("job-{i}").into(),
        tenant: TenantId(0),
        model: None,
        submitted: Time::from_secs(u64::from(i)),
        shape: Parallelism::TaskGraph(graph.expect("a chain")),
        wanted: Wanted::default(),
        goals: Goals::default(),
        declared: Declared {
            iterations: Some(100.0),
            iteration: Some(Span::from_secs(1 + u64::from(i) % 50)),
            ..Declared::default()
        },
        move_cost: MoveCost::default(),
    })
}

struct World {
    core: Core,
    at: Time,
    actions: Vec<Action>,
}

impl World {
    fn new(policy: &str, nodes: u32, gpus: u64, jobs: u32) -> Self {
        let (name, given) = policy.split_once(' ').unwrap_or((policy, ""));
        let table: toml::Table = given.replace(' ', "\n").parse().expect("a table");
        let policy = policies::build(name, &table).expect("it is in the table");
        let mut cluster = Cluster::uniform(nodes, gpus, "v100");
        for node in &mut cluster.nodes {
            node.holds.cpu_milli = 32_000;
        }
        let mut tenants = Tenants::default();
        tenants.intern("team");
        let settings = Settings { seed: Seed(0), abilities: Abilities::ALL, strict: true };
        let mut world = Self {
            core: Core::new(cluster, tenants, policy, settings),
            at: Time::from_secs(u64::from(jobs)),
            actions: Vec::new(),
        };
        world.step((0..jobs).map(|i| Event::Arrived { job: job(i) }).collect());
        world.minute();
        world
    }

    fn step(&mut self, events: Vec<Event>) {
        let step = self.core.step(&Batch { at: self.at, events });
        assert!(step.faults.is_empty(), "{:?}", step.faults);
        self.actions.extend(step.actions);
    }

    /// What was ordered is done, and a round begins.
    fn minute(&mut self) {
        self.at = self.at + Span::from_secs(60);
        let obey = |action: &Action| {
            let iterations = 0.0;
            match action {
                Action::Start { job, attempt, .. } => {
                    Event::Started { job: *job, attempt: *attempt, iterations, speed: 0.001 }
                }
                Action::Resize { job, attempt, allocation, .. } => Event::Resized {
                    job: *job,
                    attempt: *attempt,
                    allocation: allocation.clone(),
                    iterations,
                    speed: 0.001,
                },
                Action::Stop { job, attempt, .. } => {
                    Event::Stopped { job: *job, attempt: *attempt, iterations }
                }
                Action::Merge { job, attempt, number, .. } => {
                    Event::Merged { job: *job, attempt: *attempt, number: *number }
                }
            }
        };
        let events = std::mem::take(&mut self.actions).iter().map(obey).collect();
        self.step(events);
    }
}

/// A minute of the loop in the testbed of MLFS.
#[divan::bench(args = POLICIES, sample_count = 20, sample_size = 1)]
fn a_minute_with_1860_jobs(bencher: Bencher<'_, '_>, policy: &str) {
    let mut world = World::new(policy, 20, 4, 1860);
    bencher.bench_local(|| world.minute());
}

/// A minute of the loop in a cluster of the size that MLFS simulates.
#[divan::bench(args = POLICIES, sample_count = 5, sample_size = 1)]
fn a_minute_with_20000_jobs(bencher: Bencher<'_, '_>, policy: &str) {
    let mut world = World::new(policy, 309, 8, 20_000);
    bencher.bench_local(|| world.minute());
}
