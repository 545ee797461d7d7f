//! How long a step of the loop takes with MLF-H once a minute, with arrivals, ends and reports of what is used: with 1,860 jobs on 20 nodes of four GPUs, and with
//! 117,325 jobs on 550 nodes with 2,474 GPUs. `cargo bench -p trainyard-sched --bench mlfs`.
//!
//! Goals: 5 ms for the slowest of the first; for the second 50 microseconds for each of the 4,096 tasks that are looked at, which is
//! 205 ms.

use std::cell::RefCell;
use std::sync::Arc;

use divan::Bencher;
use trainyard_sched::control::{Batch, Core, Event, Outcome, Settings};
use trainyard_sched::decide::Abilities;
use trainyard_sched::model::{
    Cluster, Declared, Edge, GPU, Goals, Job, JobId, MoveCost, Parallelism, Placement, RackId, Resources,
    Seed, Span, Task, TaskGraph, TaskId, TaskUse, TenantId, Tenants, Time, Urgency, Usage, Wanted,
};
use trainyard_sched::policies;
use trainyard_sched::view::{JobView, Phase};

fn main() {
    divan::main();
}

/// Numbers that repeat.
struct Draw(Seed, u64);

impl Draw {
    fn below(&mut self, sides: u64) -> u64 {
        self.1 += 1;
        self.0.numbered(self.1).0 % sides
    }
}

/// A chain of one to 32 tasks, ten and a half on average, seven in ten of them with a parameter server.
fn job(draw: &mut Draw, id: u32) -> Arc<Job> {
    let parts = [1, 2, 4, 8, 16, 32][draw.below(6) as usize];
    let task = |replica: Option<u32>, gpu_milli: u64, more: u64| Task {
        demand: Resources {
            gpu_milli,
            cpu_milli: 640 + more * 10,
            memory_bytes: (5 << 30) + (more << 25),
            network_bytes_per_s: 5_000_000,
        },
        parameters: 1_000_000 + more,
        replica,
        compute_s: 2.0,
        state_bytes: 1 << 30,
    };
    let mut tasks: Vec<Task> =
        (0..parts).map(|_| task(Some(0), 100 + draw.below(201), draw.below(100))).collect();
    let edge = |from: u32, to: u32| Edge { from: TaskId(from), to: TaskId(to), bytes: 75_000_000 };
    let mut edges: Vec<Edge> = (1..parts).map(|i| edge(i - 1, i)).collect();
    if draw.below(10) < 7 {
        tasks.push(task(None, 0, 0));
        edges.push(edge(parts - 1, parts));
    }
    let graph = TaskGraph::new(tasks, edges, None, false).expect("it is sound");
    let declared = Declared {
        iterations: Some(50.0 + draw.below(150) as f64),
        iteration: Some(Span::from_secs(5 + draw.below(40))),
        ..Declared::default()
    };
    let goals = Goals {
        urgency: Urgency(1 + draw.below(10) as u8),
        deadline: Some(Time::from_secs(1800 + draw.below(86_400))),
        ..Goals::default()
    };
    Arc::new(Job {
        id: JobId(id),
        name: format!("job-{id}").into(),
        tenant: TenantId(0),
        model: None,
        submitted: Time::ZERO,
        shape: Parallelism::TaskGraph(graph),
        wanted: Wanted::default(),
        goals,
        declared,
        move_cost: MoveCost::default(),
    })
}

fn cluster(nodes: &[(u32, u64)]) -> Cluster {
    let mut cluster = Cluster::default();
    let kind = cluster.intern_gpu_type("gpu");
    for (count, gpus) in nodes {
        let holds = Resources {
            gpu_milli: gpus * GPU,
            cpu_milli: 8 * gpus * GPU,
            memory_bytes: (61 * gpus) << 30,
            network_bytes_per_s: 1_250_000_000,
        };
        (0..*count).for_each(|_| _ = cluster.push(RackId(0), Some(kind), holds, None));
    }
    cluster
}

/// A loop with a queue, in which a minute passes with each step.
struct World {
    core: Core,
    draw: Draw,
    minute: u64,
    next: u32,
}

impl World {
    fn new(nodes: &[(u32, u64)], jobs: u32) -> Self {
        let settings = Settings { seed: Seed(0), abilities: Abilities::ALL, strict: true };
        let mut tenants = Tenants::default();
        tenants.intern("team");
        let policy = policies::build("mlf-h", &toml::Table::new()).expect("it is in the table");
        let core = Core::new(cluster(nodes), tenants, policy, settings);
        let mut world = Self { core, draw: Draw(Seed(5), 0), minute: 0, next: 0 };
        let batch = world.arrivals(jobs);
        world.pass(&batch);
        // What has a place runs.
        let started = |view: &JobView| {
            let (job, attempt) = (view.id(), view.attempt);
            view.held.is_some().then_some(Event::Started { job, attempt, iterations: 0.0, speed: 0.1 })
        };
        let events = world.core.state().jobs().filter_map(started).collect();
        world.pass(&world.batch(events));
        world
    }

    fn batch(&self, events: Vec<Event>) -> Batch {
        Batch { at: Time::from_secs(60 * self.minute), events }
    }

    fn arrivals(&mut self, jobs: u32) -> Batch {
        let first = self.next;
        self.next += jobs;
        let arrive = |id| Event::Arrived { job: job(&mut self.draw, id) };
        let events = (first..first + jobs).map(arrive).collect();
        self.batch(events)
    }

    /// A few jobs end and as many come; all others report what their tasks use.
    fn minute(&mut self, ends: u32) -> Batch {
        let mut batch = self.arrivals(ends);
        let draw = &mut self.draw;
        let running = self.core.state().jobs().filter(|view| view.held.is_some());
        for (i, view) in running.enumerate() {
            let (job, attempt) = (view.id(), view.attempt);
            if i < ends as usize {
                batch.events.push(Event::Finished { job, attempt, outcome: Outcome::Completed });
                continue;
            }
            if view.phase == Phase::Starting {
                batch.events.push(Event::Started { job, attempt, iterations: 0.0, speed: 0.1 });
            }
            let used = |p: &Placement| {
                let demand = view.job.shape.demand_of(p.task).unwrap_or_default();
                let gpu_milli = demand.gpu_milli * (60 + draw.below(81)) / 100;
                TaskUse { task: p.task, used: Resources { gpu_milli, ..demand } }
            };
            let usage = Usage::new(view.held.placements().iter().map(used).collect());
            batch.events.push(Event::Used { job, attempt, usage });
        }
        batch
    }

    fn pass(&mut self, batch: &Batch) {
        self.core.step(batch);
        self.minute += 1;
    }
}

fn rounds(bencher: Bencher<'_, '_>, nodes: &[(u32, u64)], jobs: u32, ends: u32) {
    let world = RefCell::new(World::new(nodes, jobs));
    bencher
        .with_inputs(|| world.borrow_mut().minute(ends))
        .bench_local_refs(|batch| world.borrow_mut().pass(batch));
}

#[divan::bench(sample_size = 1, sample_count = 300)]
fn twenty_nodes(bencher: Bencher<'_, '_>) {
    rounds(bencher, &[(20, 4)], 1860, 3);
}

#[divan::bench(sample_size = 1, sample_count = 20)]
fn all_of_philly(bencher: Bencher<'_, '_>) {
    rounds(bencher, &[(229, 8), (321, 2)], 117_325, 60);
}
