//! Two gangs on the same GPUs: how fast both go, beside each other and alone again.

use std::sync::Arc;

use trainyard_sched::control::{Action, Backend, Event};
use trainyard_sched::decide::Abilities;
use trainyard_sched::model::{
    Allocation, Attempt, Cluster, CopyId, Declared, Goals, GpuSet, Job, JobId, MoveCost, NodeId, Parallelism,
    Placement, Quotas, Span, TenantId, Time, WORKER_TASK, Wanted,
};
use trainyard_sim::backend::{Options, SimBackend};
use trainyard_sim::physics::{Locality, Physics, ThroughputTable, gavel_throughputs};
use trainyard_sim::truth::{Ending, Speed, Truth};
use trainyard_sim::workload::Workload;

const GANG: u32 = 2;

/// Two rows: alone 10 and 4 iterations a second on two GPUs; beside each other 6 and 1.
fn table() -> Arc<ThroughputTable> {
    let mut table = ThroughputTable::default();
    let (fast, slow) = (table.intern("fast"), table.intern("slow"));
    table.insert(fast, "v100", GANG, false, 10.0);
    table.insert(slow, "v100", GANG, false, 4.0);
    table.insert_pair(fast, slow, "v100", GANG, 6.0);
    table.insert_pair(slow, fast, "v100", GANG, 1.0);
    Arc::new(table)
}

fn truth(speed: Speed, iterations: f64) -> Truth {
    Truth { iterations, speed, ending: Ending::Completed, ..Truth::lasting(Span::from_secs(1), GANG) }
}

fn job(id: u32) -> Arc<Job> {
    Arc::new(Job {
        id: JobId(id),
        name: id.to_string().into(),
        tenant: TenantId(0),
        model: None,
        submitted: Time::ZERO,
        shape: Parallelism::gang(GANG),
        wanted: Wanted::default(),
        goals: Goals::default(),
        declared: Declared::default(),
        move_cost: MoveCost { load: Span::from_secs(7), ..MoveCost::default() },
    })
}

fn backend(truths: Vec<Truth>) -> SimBackend {
    backend_with(truths, Physics::default())
}

fn backend_with(truths: Vec<Truth>, physics: Physics) -> SimBackend {
    let jobs = truths.into_iter().enumerate().map(|(id, truth)| (job(id as u32), truth)).collect();
    let workload = Workload { jobs, ..Workload::default() };
    let options = Options { abilities: Abilities::ALL, ..Options::default() };
    let mut backend = SimBackend::new(Cluster::uniform(1, 3, "v100"), workload, physics, options);
    let arrivals = backend.wait(None).expect("jobs arrive");
    assert!(arrivals.events.iter().all(|event| matches!(event, Event::Arrived { .. })));
    backend
}

fn on(gpus: GpuSet) -> Allocation {
    Allocation::new(vec![Placement {
        copy: CopyId(0),
        task: WORKER_TASK,
        node: NodeId(0),
        count: GANG,
        gpus,
    }])
}

fn start(backend: &mut SimBackend, id: u32, gpus: GpuSet) {
    backend.perform(&Action::Start {
        job: JobId(id),
        attempt: Attempt(1),
        allocation: on(gpus),
        quotas: Quotas::default(),
    });
}

/// What the backend tells next of speeds and ends: when, and of whom.
fn told(backend: &mut SimBackend) -> (f64, Vec<(u32, Option<f64>)>) {
    let batch = backend.wait(None).expect("something happens");
    let line = |event: &Event| match event {
        Event::Started { job, speed, .. }
        | Event::Progress { job, speed, .. }
        | Event::Resized { job, speed, .. } => (job.0, Some(*speed)),
        Event::Finished { job, .. } => (job.0, None),
        other => panic!("{other:?}"),
    };
    (batch.at.as_secs_f64(), batch.events.iter().map(line).collect())
}

#[test]
fn both_go_as_was_measured_of_the_pair_and_the_one_that_is_left_as_if_alone() {
    let table = table();
    let speed = |row| Speed::Table { table: Arc::clone(&table), row };
    let mut backend = backend(vec![truth(speed(0), 60.0), truth(speed(1), 50.0)]);
    start(&mut backend, 0, GpuSet::half(0b11));
    assert_eq!(told(&mut backend), (0.0, vec![(0, Some(10.0))]), "nobody is beside it yet");
    start(&mut backend, 1, GpuSet::half(0b11));
    assert_eq!(told(&mut backend), (0.0, vec![(1, Some(1.0)), (0, Some(6.0))]));
    assert_eq!(told(&mut backend), (10.0, vec![(1, Some(4.0)), (0, None)]), "60 iterations, 6 a second");
    assert_eq!(told(&mut backend), (20.0, vec![(1, None)]), "10 of 50 are done, 4 a second from now on");
}

#[test]
fn what_a_pair_costs_is_counted_once() {
    let table = table();
    let speed = |row| Speed::Table { table: Arc::clone(&table), row };
    let physics = Physics { sharing_slowdown: 0.5, ..Physics::default() };
    let mut backend = backend_with(vec![truth(speed(0), 60.0), truth(speed(1), 50.0)], physics);
    start(&mut backend, 0, GpuSet::half(0b11));
    assert_eq!(told(&mut backend), (0.0, vec![(0, Some(10.0))]));
    start(&mut backend, 1, GpuSet::half(0b11));
    assert_eq!(told(&mut backend), (0.0, vec![(1, Some(1.0)), (0, Some(6.0))]));
}

#[test]
fn whoever_is_joined_or_left_does_not_stop_for_it() {
    let table = table();
    let speed = |row| Speed::Table { table: Arc::clone(&table), row };
    let mut backend = backend(vec![truth(speed(0), 600.0), truth(speed(1), 50.0)]);
    start(&mut backend, 0, GpuSet::whole(0b11));
    assert_eq!(told(&mut backend), (0.0, vec![(0, Some(10.0))]));
    let half = Action::Resize {
        job: JobId(0),
        attempt: Attempt(1),
        allocation: on(GpuSet::half(0b11)),
        quotas: Quotas::default(),
    };
    backend.perform(&half);
    assert_eq!(told(&mut backend), (0.0, vec![(0, Some(10.0))]), "a move would have cost seven seconds");
    start(&mut backend, 1, GpuSet::half(0b11));
    assert_eq!(told(&mut backend).1, vec![(1, Some(1.0)), (0, Some(6.0))]);
}

#[test]
fn a_pair_that_was_never_measured_takes_turns() {
    let fixed = || Speed::Fixed { iteration: Span::from_secs(1), workers: GANG };
    let mut backend = backend(vec![truth(fixed(), 60.0), truth(fixed(), 60.0)]);
    start(&mut backend, 0, GpuSet::half(0b11));
    start(&mut backend, 1, GpuSet::half(0b11));
    let (_, speeds) = told(&mut backend);
    assert_eq!(speeds.last(), Some(&(0, Some(0.5))));
    assert!(speeds.contains(&(1, Some(0.5))), "{speeds:?}");
}

#[test]
#[should_panic(expected = "given twice")]
fn a_third_gang_on_the_same_devices_ends_the_run() {
    let fixed = || Speed::Fixed { iteration: Span::from_secs(1), workers: GANG };
    let mut backend = backend(vec![truth(fixed(), 60.0), truth(fixed(), 60.0), truth(fixed(), 60.0)]);
    (0..2).for_each(|id| start(&mut backend, id, GpuSet::half(0b11)));
    start(&mut backend, 2, GpuSet::half(0b110));
}

#[test]
fn measured_pairs_do_not_change_what_is_known_of_a_job_alone() {
    let built_in = gavel_throughputs();
    let row = built_in.row("Transformer (batch size 64)").expect("it is there");
    let alone = built_in.per_s(row, "v100", 1, Locality::Node);
    let mut with = (*built_in).clone();
    with.insert_pair(row, row, "v100", 1, 1.0);
    assert_eq!((with.per_s(row, "v100", 1, Locality::Node), alone.is_some()), (alone, true));
    assert_eq!(with.pair_per_s(row, row, "v100", 1), Some(1.0));
    assert_eq!(with.pair_per_s(row, row, "v100", 2), None);
}
