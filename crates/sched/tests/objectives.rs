//! Deadlines, accuracies, traffic and overloads of runs that are told event by event, against numbers by hand.

use std::sync::Arc;

use trainyard_sched::control::{Action, Batch, Event, Log, Outcome, Step};
use trainyard_sched::metrics::{Metrics, Objectives, ObjectivesSummary};
use trainyard_sched::model::{
    Accuracy, Allocation, Attempt, Cluster, CopyId, Declared, Edge, Goals, GpuSet, Job, JobId, LossPoint,
    MoveCost, NodeId, Parallelism, Placement, Quotas, Resources, Task, TaskGraph, TaskId, TaskUse, TenantId,
    Time, UNLIMITED, Urgency, Usage, Wanted,
};

const FIRST: Attempt = Attempt(1);

/// Two nodes of two GPUs, with processors that are counted.
fn cluster() -> Cluster {
    let mut cluster = Cluster::uniform(2, 2, "v100");
    for node in &mut cluster.nodes {
        node.holds = Resources { cpu_milli: 10_000, memory_bytes: UNLIMITED, ..Resources::gpus(2) };
    }
    cluster
}

/// A chain of three tasks: 100 bytes from the first to the second, and 1,000 from there to the third, a parameter server.
fn chain() -> Parallelism {
    let task = |replica, state_bytes| Task {
        demand: Resources { gpu_milli: 400, cpu_milli: 1000, ..Resources::NONE },
        parameters: 1,
        replica,
        compute_s: 1.0,
        state_bytes,
    };
    let tasks = vec![task(Some(0), 7), task(Some(0), 70), task(None, 700)];
    let edge = |from, to, bytes| Edge { from: TaskId(from), to: TaskId(to), bytes };
    let edges = vec![edge(0, 1, 100), edge(1, 2, 1000)];
    Parallelism::TaskGraph(TaskGraph::new(tasks, edges, None, false).expect("a chain"))
}

fn job(id: u32, shape: Parallelism, goals: Goals) -> Arc<Job> {
    Arc::new(Job {
        id: JobId(id),
        name: format!("job-{id}").into(),
        tenant: TenantId(0),
        model: None,
        submitted: Time::ZERO,
        shape,
        wanted: Wanted::default(),
        goals,
        declared: Declared::default(),
        move_cost: MoveCost::default(),
    })
}

/// Task `i` is on the node of that place, all on the first device of their node.
fn on(nodes: &[Option<u32>]) -> Allocation {
    let gpus = GpuSet { devices: 1, share_milli: 400 };
    let at = |(task, node): (usize, &Option<u32>)| {
        let node = NodeId((*node)?);
        Some(Placement { copy: CopyId(0), task: TaskId(task as u32), node, count: 1, gpus })
    };
    Allocation::new(nodes.iter().enumerate().filter_map(at).collect())
}

/// What follows a run, fed moment by moment.
struct Told<L>(L);

impl<L: Log> Told<L> {
    fn events(&mut self, second: u64, events: Vec<Event>) {
        self.0.step(&Batch { at: Time::from_secs(second), events }, &Step::default());
    }

    fn start(&mut self, second: u64, id: u32, allocation: Allocation) {
        let start = Action::Start { job: JobId(id), attempt: FIRST, allocation, quotas: Quotas::default() };
        let step = Step { actions: vec![start], ..Step::default() };
        self.0.step(&Batch { at: Time::from_secs(second), events: Vec::new() }, &step);
        self.events(
            second,
            vec![Event::Started { job: JobId(id), attempt: FIRST, iterations: 0.0, speed: 1.0 }],
        );
    }

    fn arrives(&mut self, second: u64, job: &Arc<Job>) {
        self.events(second, vec![Event::Arrived { job: Arc::clone(job) }]);
    }

    fn progress(&mut self, second: u64, id: u32, iterations: f64, accuracy: Option<f64>) {
        let losses = accuracy.map(|x| LossPoint { iteration: iterations, loss: 1.0, accuracy: Some(x) });
        let (job, losses) = (JobId(id), losses.into_iter().collect());
        let (speed, saved) = (1.0, 0.0);
        let quotas = Vec::new();
        let told = Event::Progress { job, attempt: FIRST, iterations, speed, saved, losses, copies: quotas };
        self.events(second, vec![told]);
    }

    fn resized(&mut self, second: u64, id: u32, iterations: f64, allocation: Allocation) {
        let (job, speed) = (JobId(id), 1.0);
        self.events(second, vec![Event::Resized { job, attempt: FIRST, allocation, iterations, speed }]);
    }

    fn finished(&mut self, second: u64, id: u32) {
        let (job, outcome) = (JobId(id), Outcome::Completed);
        self.events(second, vec![Event::Finished { job, attempt: FIRST, outcome }]);
    }

    fn uses(&mut self, second: u64, id: u32, gpu_milli: &[u64], cpu_milli: u64) {
        let used = |(i, gpu_milli): (usize, &u64)| TaskUse {
            task: TaskId(i as u32),
            used: Resources { gpu_milli: *gpu_milli, cpu_milli, ..Resources::NONE },
        };
        let usage = Usage::new(gpu_milli.iter().enumerate().map(used).collect());
        self.events(second, vec![Event::Used { job: JobId(id), attempt: FIRST, usage }]);
    }
}

fn objectives() -> Told<Objectives> {
    Told(Objectives::new(&cluster()))
}

impl Told<Objectives> {
    fn summary(&self) -> ObjectivesSummary {
        self.0.summary().expect("a job has aims")
    }
}

#[test]
fn a_run_without_aims_has_no_such_numbers() {
    let mut told = objectives();
    told.arrives(0, &job(0, Parallelism::gang(1), Goals::default()));
    assert_eq!(told.0.summary(), None);
    told.arrives(0, &job(1, chain(), Goals::default()));
    assert_eq!(told.summary(), ObjectivesSummary::default(), "a graph has traffic and no deadline");
}

#[test]
fn a_job_inside_one_node_sends_nothing_and_one_across_what_its_edges_do() {
    let mut told = objectives();
    for (id, nodes) in [(0, [0, 0, 0]), (1, [0, 1, 1]), (2, [1, 1, 0])] {
        told.arrives(0, &job(id, chain(), Goals::default()));
        told.start(0, id, on(&nodes.map(Some)));
    }
    told.progress(10, 0, 10.0, None);
    assert_eq!(told.summary().traffic_bytes, 0.0);
    told.progress(10, 1, 10.0, None);
    assert_eq!(told.summary().traffic_bytes, 10.0 * 100.0);
    told.progress(10, 2, 4.0, None);
    // What flows to a parameter server comes back.
    assert_eq!(told.summary().traffic_bytes, 10.0 * 100.0 + 4.0 * 2000.0);
    told.progress(20, 2, 5.0, None);
    told.finished(20, 2);
    told.progress(30, 2, 50.0, None);
    assert_eq!(told.summary().traffic_bytes, 10.0 * 100.0 + 5.0 * 2000.0, "it is over");
}

#[test]
fn traffic_is_what_crosses_times_iterations_and_what_moved() {
    let mut told = objectives();
    told.arrives(0, &job(0, chain(), Goals::default()));
    told.start(0, 0, on(&[Some(0), Some(0), Some(0)]));
    // After 10 iterations inside one node the second task moves, with its 70 bytes; after 5 more the third, with 700.
    told.resized(10, 0, 10.0, on(&[Some(0), Some(1), Some(0)]));
    assert_eq!((told.summary().traffic_bytes, told.summary().task_moves), (70.0, 1));
    told.resized(20, 0, 15.0, on(&[Some(0), Some(1), Some(1)]));
    assert_eq!(told.summary().traffic_bytes, 70.0 + 5.0 * 2100.0 + 700.0);
    told.progress(30, 0, 16.0, None);
    assert_eq!(told.summary().traffic_bytes, 70.0 + 5.0 * 2100.0 + 700.0 + 100.0);
    // A task that comes from the queue carries nothing.
    told.resized(40, 0, 16.0, on(&[Some(0), Some(1), None]));
    told.resized(50, 0, 16.0, on(&[Some(0), Some(1), Some(0)]));
    assert_eq!(told.summary().traffic_bytes, 70.0 + 5.0 * 2100.0 + 700.0 + 100.0);
    assert_eq!(told.summary().task_moves, 2, "nor does it move");
    // What is lost is sent again.
    let (job, attempt, node) = (JobId(0), FIRST, None);
    told.events(60, vec![Event::Lost { job, attempt, iterations: 10.0, node }]);
    told.start(60, 0, on(&[Some(0), Some(1), Some(1)]));
    told.events(60, vec![Event::Started { job, attempt, iterations: 10.0, speed: 1.0 }]);
    told.progress(70, 0, 12.0, None);
    assert_eq!(told.summary().traffic_bytes, 70.0 + 5.0 * 2100.0 + 700.0 + 100.0 + 2.0 * 100.0);
}

#[test]
fn overloads_are_counted_when_they_begin() {
    let mut told = objectives();
    told.arrives(0, &job(0, chain(), Goals::default()));
    told.start(0, 0, on(&[Some(0), Some(0), Some(1)]));
    let mut count_after = |second, gpu_milli: &[u64], cpu_milli| {
        told.uses(second, 0, gpu_milli, cpu_milli);
        told.summary().overloads
    };
    // 900 of 1,000 is as much as is good; one more is an overload, of the device and not of the node.
    assert_eq!(count_after(60, &[500, 400, 400], 1000), 0);
    assert_eq!(count_after(120, &[501, 400, 400], 1000), 1);
    assert_eq!(count_after(180, &[600, 600, 400], 1000), 1, "it still is");
    assert_eq!(count_after(240, &[100, 100, 400], 1000), 1);
    assert_eq!(count_after(300, &[600, 600, 400], 1000), 2, "it is again");
    assert_eq!(count_after(360, &[600, 600, 950], 1000), 3, "and the other one, too");
    assert_eq!(count_after(420, &[100, 100, 100], 4600), 3, "now the processors of the first are");
    assert_eq!(count_after(480, &[100, 100, 100], 1000), 3);
    assert_eq!(count_after(540, &[100, 100, 100], 4600), 4);
    // Who is gone uses nothing.
    told.events(600, vec![Event::Stopped { job: JobId(0), attempt: FIRST, iterations: 1.0 }]);
    told.arrives(600, &job(1, chain(), Goals::default()));
    told.start(600, 1, on(&[Some(0), Some(0), Some(0)]));
    told.uses(660, 1, &[100, 100, 100], 100);
    told.uses(720, 1, &[400, 400, 400], 100);
    assert_eq!(told.summary().overloads, 5);
}

#[test]
fn deadlines_are_kept_by_those_that_end_by_them() {
    let mut told = objectives();
    let aims = [(Some(100), 9), (Some(100), 8), (Some(100), 10), (Some(100), 3), (None, 10)];
    for (id, (deadline, urgency)) in (0..).zip(aims) {
        let deadline = deadline.map(Time::from_secs);
        let goals = Goals { deadline, urgency: Urgency(urgency), ..Goals::default() };
        told.arrives(0, &job(id, chain(), goals));
        told.start(0, id, on(&[Some(0), Some(0), Some(0)]));
    }
    told.finished(99, 1);
    told.finished(100, 0);
    told.finished(101, 2);
    told.finished(500, 4);
    // The fourth never ends.
    let summary = told.summary();
    assert_eq!(summary.deadline_ratio, Some(0.5));
    assert_eq!(summary.urgent_deadline_ratio, Some(0.5), "the one at 9 is in time, the one at 10 is not");
    assert_eq!((summary.accuracy_ratio, summary.avg_accuracy), (None, None));
}

#[test]
fn accuracies_count_as_far_as_they_were_reported_in_time() {
    let mut told = objectives();
    let needs = |accuracy, deadline: Option<u64>| Goals {
        accuracy: Some(Accuracy(accuracy)),
        deadline: deadline.map(Time::from_secs),
        ..Goals::default()
    };
    let all = [needs(0.8, Some(100)), needs(0.8, Some(100)), needs(0.8, None), needs(0.8, Some(100))];
    for (id, goals) in (0..).zip(all) {
        told.arrives(0, &job(id, chain(), goals));
        told.start(0, id, on(&[Some(0), Some(0), Some(0)]));
    }
    // The first reaches what it needs, and the best of it counts; the second after its deadline; the third has none.
    told.progress(50, 0, 1.0, Some(0.85));
    told.progress(60, 0, 2.0, Some(0.8));
    told.progress(70, 0, 3.0, Some(f64::NAN));
    told.progress(100, 1, 1.0, Some(0.75));
    told.progress(101, 1, 2.0, Some(0.9));
    told.progress(900, 2, 1.0, Some(0.8));
    let summary = told.summary();
    assert_eq!(summary.accuracy_ratio, Some(0.5));
    let mean = summary.avg_accuracy.expect("they need one");
    assert!((mean - (0.85 + 0.75 + 0.8 + 0.0) / 4.0).abs() < 1e-12, "{mean}");
    assert_eq!(summary.deadline_ratio, Some(0.0), "none has ended");
}

#[test]
fn a_job_of_which_one_task_runs_is_not_waiting() {
    let mut told = Told(Metrics::new(&cluster()));
    let waiting = job(0, chain(), Goals::default());
    told.arrives(0, &waiting);
    told.start(10, 0, on(&[Some(0), None, None]));
    told.resized(50, 0, 0.0, on(&[Some(0), Some(1), Some(1)]));
    told.events(60, vec![Event::Stopped { job: JobId(0), attempt: FIRST, iterations: 5.0 }]);
    told.start(65, 0, on(&[None, None, Some(1)]));
    told.finished(100, 0);
    let row = told.0.rows().next().expect("a row");
    assert_eq!(row.wait_s(), 10.0 + 5.0);
}
