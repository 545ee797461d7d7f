//! Jobs that are graphs of tasks in the simulator: how fast they go in a crowd, over a network, in part and while a task moves.

use std::sync::Arc;

use trainyard_sched::control::{Action, Backend, Event};
use trainyard_sched::model::{
    Allocation, Attempt, Cluster, CopyId, Declared, Edge, Goals, GpuSet, Job, JobId, MoveCost, NodeId,
    Parallelism, Placement, Quotas, Resources, Seed, Span, Task, TaskGraph, TaskId, TenantId, Time,
    UNLIMITED, Usage, Wanted,
};
use trainyard_sim::backend::{Options, SimBackend};
use trainyard_sim::physics::Physics;
use trainyard_sim::tasks::{Flows, TrueGraph, Wander};
use trainyard_sim::truth::{Speed, Truth};
use trainyard_sim::workload::Workload;

const SHARE: u16 = 500;

fn task(replica: Option<u32>, compute_s: f64) -> Task {
    Task {
        demand: Resources { gpu_milli: u64::from(SHARE), ..Resources::NONE },
        parameters: 1,
        replica,
        compute_s,
        state_bytes: 1000,
    }
}

fn chain(lengths: &[f64], bytes: u64) -> TaskGraph {
    let tasks = lengths.iter().map(|compute_s| task(Some(0), *compute_s)).collect();
    let edge = |i: u32| Edge { from: TaskId(i), to: TaskId(i + 1), bytes };
    let edges = (0..lengths.len() as u32 - 1).map(edge).collect();
    TaskGraph::new(tasks, edges, None, true).expect("a chain")
}

fn job(id: u32, graph: TaskGraph, wander: Option<Wander>) -> (Arc<Job>, Truth) {
    let move_cost = MoveCost { load: Span::from_secs(5), ..MoveCost::default() };
    let job = Job {
        id: JobId(id),
        name: id.to_string().into(),
        tenant: TenantId(0),
        model: None,
        submitted: Time::ZERO,
        shape: Parallelism::TaskGraph(graph),
        wanted: Wanted::default(),
        goals: Goals::default(),
        declared: Declared::default(),
        move_cost,
    };
    let speed = Speed::Graph(TrueGraph { pace: 1.0, wander });
    (Arc::new(job), Truth { iterations: 1000.0, speed, move_cost, ..Truth::lasting(Span::from_secs(1), 1) })
}

/// Two nodes of two GPUs whose network carries 100 bytes a second.
fn backend(jobs: Vec<(Arc<Job>, Truth)>, physics: Physics) -> SimBackend {
    let mut cluster = Cluster::uniform(2, 2, "v100");
    for node in &mut cluster.nodes {
        node.holds.network_bytes_per_s = 100;
        node.holds.memory_bytes = UNLIMITED;
    }
    let workload = Workload { jobs, ..Workload::default() };
    let mut backend = SimBackend::new(cluster, workload, physics, Options::default());
    backend.wait(None).expect("jobs arrive");
    backend
}

/// Tasks by where they are: node and device.
fn on(places: &[(u32, u32, u32)]) -> Allocation {
    let placement = |(task, node, device): &(u32, u32, u32)| Placement {
        copy: CopyId(0),
        task: TaskId(*task),
        node: NodeId(*node),
        count: 1,
        gpus: GpuSet { devices: 1 << device, share_milli: SHARE },
    };
    Allocation::new(places.iter().map(placement).collect())
}

fn start(backend: &mut SimBackend, id: u32, allocation: Allocation) {
    let (job, attempt, quotas) = (JobId(id), Attempt(1), Quotas::NONE);
    backend.perform(&Action::Start { job, attempt, allocation, quotas });
}

fn resize(backend: &mut SimBackend, id: u32, allocation: Allocation) {
    let (job, attempt, quotas) = (JobId(id), Attempt(1), Quotas::NONE);
    backend.perform(&Action::Resize { job, attempt, allocation, quotas });
}

/// Events until a time, and the speed that each job was last told to have.
fn until(backend: &mut SimBackend, seconds: u64) -> (Vec<(Time, Event)>, Vec<Option<f64>>) {
    let (mut events, mut speeds) = (Vec::new(), vec![None; 4]);
    let until = Time::from_secs(seconds);
    while let Some(batch) = backend.wait(Some(until)) {
        for event in batch.events {
            let (Event::Started { job, speed, .. }
            | Event::Resized { job, speed, .. }
            | Event::Progress { job, speed, .. }) = &event
            else {
                events.push((batch.at, event));
                continue;
            };
            speeds[job.index()] = Some(*speed);
            events.push((batch.at, event));
        }
        if batch.at >= until {
            break;
        }
    }
    (events, speeds)
}

fn speed(backend: &mut SimBackend, id: usize, seconds: u64) -> f64 {
    until(backend, seconds).1[id].expect("it was told")
}

#[test]
fn a_chain_takes_its_tasks_one_after_the_other_and_loads_first() {
    let mut backend = backend(vec![job(0, chain(&[1.0, 3.0], 400), None)], Physics::default());
    start(&mut backend, 0, on(&[(0, 0, 0), (1, 0, 1)]));
    let (events, speeds) = until(&mut backend, 6);
    let began = events.iter().find(|(_, event)| matches!(event, Event::Started { .. })).expect("it started");
    assert_eq!((began.0, speeds[0]), (Time::from_secs(5), Some(0.25)));
}

#[test]
fn what_crosses_shares_the_network_with_other_jobs_or_other_edges() {
    let fan = || {
        let tasks = vec![task(Some(0), 1.0), task(Some(0), 1.0), task(Some(0), 1.0)];
        let edge = |to| Edge { from: TaskId(0), to: TaskId(to), bytes: 200 };
        TaskGraph::new(tasks, vec![edge(1), edge(2)], None, true).expect("a fan")
    };
    for (flows, alone, beside) in [(Flows::Jobs, 0.25, 1.0 / 6.0), (Flows::Edges, 1.0 / 6.0, 0.125)] {
        let physics = Physics { flows, ..Physics::default() };
        let mut backend = backend(vec![job(0, fan(), None), job(1, chain(&[1.0, 1.0], 200), None)], physics);
        start(&mut backend, 0, on(&[(0, 0, 0), (1, 1, 0), (2, 1, 0)]));
        // Two tasks of a second, and 200 bytes between them.
        assert!((speed(&mut backend, 0, 10) - alone).abs() < 1e-12, "{flows:?}");
        start(&mut backend, 1, on(&[(0, 0, 1), (1, 1, 1)]));
        assert!((speed(&mut backend, 0, 20) - beside).abs() < 1e-12, "{flows:?}: two jobs, three edges");
    }
}

#[test]
fn a_crowd_slows_everybody_down_and_what_is_used_is_told() {
    let wander = |seed| Some(Wander { rho: 0.9, deviation: 0.5, seed: Seed(seed) });
    let jobs = vec![job(0, chain(&[1.0, 1.0], 0), wander(1)), job(1, chain(&[1.0, 1.0], 0), wander(2))];
    let mut backend = backend(jobs, Physics::default());
    start(&mut backend, 0, on(&[(0, 0, 0), (1, 0, 1)]));
    start(&mut backend, 1, on(&[(0, 0, 0), (1, 0, 1)]));
    let (mut crowded, mut told) = (0, 0);
    let mut latest: [Option<Usage>; 2] = [None, None];
    let (events, _) = until(&mut backend, 6000);
    for (_, event) in events {
        match event {
            Event::Used { job, usage, .. } => {
                told += 1;
                for told in usage.tasks() {
                    assert!((250..=750).contains(&told.used.gpu_milli), "{told:?}");
                }
                latest[job.index()] = Some(usage);
            }
            // Both were told what they use before they are told how fast they go.
            Event::Progress { job: JobId(1), speed, .. } => {
                let [Some(one), Some(other)] = &latest else { continue };
                let used = |usage: &Usage, task| usage.of(TaskId(task)).expect("both run").gpu_milli as f64;
                let devices = [0, 1].map(|task| (used(one, task) + used(other, task)) / 1000.0);
                let node = (devices[0] + devices[1]) / 2.0;
                let seconds: f64 = devices.iter().map(|device| device.max(node).max(1.0)).sum();
                assert!((speed - 1.0 / seconds).abs() < 2e-3, "{speed} against {}", 1.0 / seconds);
                crowded += u32::from(seconds > 2.0);
            }
            _ => {}
        }
    }
    assert!(told > 60 && crowded > 10, "{told} reports, {crowded} of a crowd");
}

#[test]
fn a_job_goes_on_in_part_and_not_without_a_whole_replica() {
    let tasks = vec![task(Some(0), 1.0), task(Some(1), 1.0), task(Some(1), 1.0)];
    let edges = vec![Edge { from: TaskId(1), to: TaskId(2), bytes: 0 }];
    let graph = TaskGraph::new(tasks, edges, None, true).expect("a task and a chain");
    let mut backend = backend(vec![job(0, graph, None)], Physics::default());
    start(&mut backend, 0, on(&[(0, 0, 0), (1, 0, 1)]));
    assert_eq!(speed(&mut backend, 0, 10), 0.5, "one of two replicas, a second an iteration");
    resize(&mut backend, 0, on(&[(0, 0, 0), (1, 0, 1), (2, 1, 0)]));
    // The new task loads for five seconds, and the other replica goes on all the time.
    let (events, speeds) = until(&mut backend, 20);
    assert_eq!(speeds[0], Some(0.5), "both replicas, two seconds an iteration");
    let whole: Vec<(Time, f64)> = events
        .iter()
        .filter_map(|(at, event)| match event {
            Event::Resized { speed, .. } | Event::Progress { speed, .. } => Some((*at, *speed)),
            _ => None,
        })
        .collect();
    assert_eq!(whole[0], (Time::from_secs(10), 0.5));
    resize(&mut backend, 0, on(&[(1, 0, 1)]));
    assert_eq!(speed(&mut backend, 0, 30), 0.0, "no replica is whole");
}

#[test]
fn a_task_that_moves_carries_its_state_and_the_others_wait_where_they_are() {
    let mut backend = backend(vec![job(0, chain(&[1.0, 1.0], 0), None)], Physics::default());
    start(&mut backend, 0, on(&[(0, 0, 0), (1, 0, 1)]));
    assert_eq!(speed(&mut backend, 0, 10), 0.5);
    resize(&mut backend, 0, on(&[(0, 0, 0), (1, 1, 1)]));
    let (events, speeds) = until(&mut backend, 60);
    // 1000 bytes at 100 a second, and five seconds to load.
    let moved: Vec<(Time, f64)> = events
        .iter()
        .filter_map(|(at, event)| match event {
            Event::Resized { speed, .. } | Event::Progress { speed, .. } => Some((*at, *speed)),
            _ => None,
        })
        .take(2)
        .collect();
    assert_eq!(moved, [(Time::from_secs(10), 0.0), (Time::from_secs(25), 0.5)]);
    assert_eq!(speeds[0], Some(0.5));
    let held = backend.holdings();
    assert_eq!(held[&JobId(0)], on(&[(0, 0, 0), (1, 1, 1)]));
}

#[test]
fn a_gang_that_grows_is_in_the_way_of_tasks_at_once() {
    let gang = |workers| {
        let part = Resources { cpu_milli: 1000, ..Resources::NONE };
        let shape = Parallelism::elastic(trainyard_sched::model::WorkerRange { min: 1, max: workers }, part);
        let (job, truth) = job(1, chain(&[1.0], 0), None);
        let speed = Speed::Fixed { iteration: Span::from_secs(1), workers: 1 };
        (Arc::new(Job { shape, ..(*job).clone() }), Truth { speed, iterations: 1e6, ..truth })
    };
    let workers = |count| {
        let gpus = GpuSet::NONE;
        Allocation::new(vec![Placement { copy: CopyId(0), task: TaskId(0), node: NodeId(0), count, gpus }])
    };
    let wander = Some(Wander { rho: 0.9, deviation: 0.0, seed: Seed(1) });
    let mut one = chain(&[1.0], 0).tasks()[0];
    one.demand.cpu_milli = 1000;
    let graph = TaskGraph::new(vec![one], Vec::new(), None, true).expect("one task");
    let mut backend = backend(vec![job(0, graph, wander), gang(3)], Physics::default());
    start(&mut backend, 0, on(&[(0, 0, 0)]));
    start(&mut backend, 1, workers(1));
    assert_eq!(speed(&mut backend, 0, 10), 1.0);
    resize(&mut backend, 1, workers(3));
    let _ = until(&mut backend, 20);
    // Nothing is scarce, but what was booked comes back when the gang is gone.
    backend.perform(&Action::Stop {
        job: JobId(1),
        attempt: Attempt(1),
        how: trainyard_sched::control::How::Finish,
    });
    let _ = until(&mut backend, 30);
    assert_eq!(backend.used(NodeId(0)), Resources { gpu_milli: 500, cpu_milli: 1000, ..Resources::NONE });
}
