//! Who has waited too long is not passed over any more, and who could not start anyway keeps nobody waiting (check S3).

use trainyard_sched::control::{Event, Outcome};
use trainyard_sched::decide::{Reason, Verdict};
use trainyard_sched::model::{
    Cluster, GPU, GpuTypeId, GpuTypeSet, Job, JobId, NodeId, NodeState, RackId, Resources, TaskId,
};

use super::{World, chain, cluster, graph_job, loose, task};

/// How long small jobs run, in minutes; one comes every ten minutes, so that one of two GPUs is always taken.
const LENGTH: u64 = 20;

/// A stream of small jobs beside the one with number 0.
struct Stream {
    world: World,
    minute: u64,
    /// The small jobs that run, with their ends.
    running: Vec<(u32, u64)>,
    came: u32,
}

impl Stream {
    fn new(cluster: Cluster, parameters: &str) -> Self {
        Self { world: World::new(cluster, parameters), minute: 0, running: Vec::new(), came: 0 }
    }

    fn finished(&self, job: u32) -> Event {
        let attempt = self.world.core.state().job(JobId(job)).expect("it runs").attempt;
        Event::Finished { job: JobId(job), attempt, outcome: Outcome::Completed }
    }

    /// Ten minutes later: who is through ends, and another small job comes.
    fn ten_minutes(&mut self, more: Vec<Event>) {
        self.minute += 10;
        let ends: Vec<u32> =
            self.running.iter().filter(|(_, end)| *end <= self.minute).map(|x| x.0).collect();
        self.running.retain(|(_, end)| *end > self.minute);
        let mut events: Vec<Event> = ends.iter().map(|job| self.finished(*job)).collect();
        self.came += 1;
        events.push(Event::Arrived { job: loose(self.came, &[800], 1).into() });
        events.extend(more);
        self.world.step(600, events);
        for job in 1..=self.came {
            let is_new = !self.running.iter().any(|(other, _)| *other == job);
            let runs = self.world.core.state().job(JobId(job)).is_some_and(|view| view.held.is_some());
            if is_new && runs {
                self.running.push((job, self.minute + LENGTH));
            }
        }
    }

    fn begin(&mut self) {
        (0..3).for_each(|_| self.ten_minutes(Vec::new()));
    }

    fn waits(&self, job: u32) -> bool {
        self.world.core.state().job(JobId(job)).is_some_and(|view| view.target.is_none())
    }

    /// How many small jobs wait.
    fn queued(&self) -> usize {
        (1..=self.came).filter(|job| self.waits(*job)).count()
    }
}

/// After how many minutes of waiting a job starts beside the stream, within a day.
fn starts_after(cluster: Cluster, parameters: &str, job: Job) -> Option<u64> {
    let mut stream = Stream::new(cluster, parameters);
    stream.begin();
    stream.ten_minutes(vec![Event::Arrived { job: job.into() }]);
    let began = stream.minute;
    while stream.waits(0) && stream.minute < began + 24 * 60 {
        stream.ten_minutes(Vec::new());
    }
    (!stream.waits(0)).then_some(stream.minute - began)
}

#[test]
fn a_gang_that_small_jobs_would_starve_for_ever_starts_once_it_has_waited_long_enough() {
    let gang = || chain(0, &[800, 800]);
    assert_eq!(starts_after(cluster(1, 2), "", gang()), None, "small ones come before it for ever");
    for (parameters, patience) in [("patience_h = 2.0", 120), ("patience_h = 5.0", 300)] {
        let started = starts_after(cluster(1, 2), parameters, gang()).expect("it starts");
        assert!((patience..=patience + LENGTH + 10).contains(&started), "{parameters}: {started}");
    }
    // The patience is in hours, whatever the unit of the priorities.
    let parameters = "patience_h = 2.0\ntime_unit = 'minutes'";
    let started = starts_after(cluster(1, 2), parameters, gang()).expect("it starts");
    assert!((120..=120 + LENGTH + 10).contains(&started), "{started}");
}

#[test]
fn a_gang_that_fits_only_beyond_the_threshold_starts_too() {
    // 500 and 450 on one device are more than 900, and there is but one other.
    let gang = || chain(0, &[500, 450, 800]);
    assert_eq!(starts_after(cluster(1, 2), "", gang()), None);
    let started = starts_after(cluster(1, 2), "patience_h = 2.0", gang()).expect("it starts");
    assert!((120..=150).contains(&started), "{started}");
}

#[test]
fn whoever_waits_behind_it_is_told_so() {
    let mut stream = Stream::new(cluster(1, 2), "patience_h = 1.0");
    stream.begin();
    stream.ten_minutes(vec![Event::Arrived { job: chain(0, &[800, 800]).into() }]);
    while stream.queued() == 0 {
        assert!(stream.minute < 1000, "nobody is held");
        stream.ten_minutes(Vec::new());
    }
    let held = stream.came;
    assert!(stream.waits(0) && stream.waits(held));
    assert_eq!(stream.world.reason(held), Verdict::Wait(Reason::Behind { ahead: JobId(0) }));
    assert_eq!(stream.world.reason(0), Verdict::Wait(Reason::NoHost { task: TaskId(1), found: 1, tasks: 2 }));
}

/// A node of two GPUs of one type, and one of a single GPU of another.
fn two_types() -> Cluster {
    let mut cluster = cluster(1, 2);
    let kind = cluster.intern_gpu_type("a100");
    let holds = Resources { gpu_milli: GPU, ..cluster.nodes[0].holds };
    cluster.push(RackId(0), Some(kind), holds, None);
    cluster
}

fn only(kind: u8, mut job: Job) -> Job {
    job.wanted.gpu_types = GpuTypeSet::of(&[GpuTypeId(kind)]);
    job
}

#[test]
fn whoever_wants_other_gpus_is_not_held() {
    let mut world = World::new(two_types(), "patience_h = 1.0");
    world.arrive(vec![only(0, loose(1, &[800, 800], 1))]);
    world.arrive(vec![only(0, chain(0, &[800, 800]))]);
    world.step(7200, Vec::new());
    world.arrive(vec![only(0, loose(2, &[100], 1)), only(1, loose(3, &[100], 1)), loose(4, &[100], 1)]);
    let placed = [2, 3, 4].map(|job| world.places(job).len());
    assert_eq!(placed, [0, 1, 0], "who wants its GPUs, who wants others, and who takes either");
    let behind = Verdict::Wait(Reason::Behind { ahead: JobId(0) });
    assert_eq!([2, 4].map(|job| world.reason(job)), [behind, behind]);
    // Without patience all of them start.
    let mut world = World::new(two_types(), "");
    world.arrive(vec![only(0, loose(1, &[800, 800], 1))]);
    world.arrive(vec![only(0, chain(0, &[800, 800]))]);
    world.step(7200, Vec::new());
    world.arrive(vec![only(0, loose(2, &[100], 1)), only(1, loose(3, &[100], 1)), loose(4, &[100], 1)]);
    assert_eq!([2, 3, 4].map(|job| world.places(job).len()), [1, 1, 1]);
}

#[test]
fn whoever_can_never_start_holds_nobody() {
    let mut stream = Stream::new(cluster(1, 2), "patience_h = 1.0");
    stream.begin();
    stream.ten_minutes(vec![Event::Arrived { job: chain(0, &[800, 800, 800]).into() }]);
    for _ in 0..30 {
        stream.ten_minutes(Vec::new());
        assert_eq!(stream.queued(), 0, "after {} minutes", stream.minute);
    }
    assert!(stream.waits(0));
    assert!(matches!(stream.world.reason(0), Verdict::Wait(Reason::Unplaceable { .. })));
}

#[test]
fn whoever_waits_for_a_node_that_is_down_holds_nobody_until_it_is_back() {
    for partial in [false, true] {
        let mut world = World::new(cluster(2, 1), "patience_h = 1.0");
        let (node, down) = (NodeId(1), NodeState::Down);
        world.step(0, vec![Event::NodeChanged { node, state: down }]);
        world.arrive(vec![loose(1, &[200], 1)]);
        let tasks = vec![task(Some(0), 800), task(Some(0), 800)];
        world.arrive(vec![graph_job(0, tasks, vec![super::edge(0, 1)], partial)]);
        world.step(7200, Vec::new());
        world.arrive(vec![loose(2, &[200], 1)]);
        assert_eq!([0, 2].map(|job| world.places(job).len()), [0, 1], "partial: {partial}");
        // When the node is back there is still no room for both of its tasks, so what comes now waits behind it.
        world.step(60, vec![Event::NodeChanged { node, state: NodeState::Up }]);
        world.arrive(vec![loose(3, &[200], 1)]);
        assert_eq!([0, 3].map(|job| world.places(job).len()), [0, 0], "partial: {partial}");
    }
}

#[test]
fn whoever_only_keeps_away_from_a_node_on_which_it_failed_holds_nobody() {
    let mut world = World::new(cluster(1, 1), "patience_h = 1.0");
    world.arrive(vec![loose(1, &[800], 1)]);
    world.arrive(vec![loose(0, &[800], 1)]);
    let end = |world: &World, job: u32| {
        let attempt = world.core.state().job(JobId(job)).expect("it runs").attempt;
        Event::Finished { job: JobId(job), attempt, outcome: Outcome::Completed }
    };
    let ends = end(&world, 1);
    world.step(7200, vec![ends]);
    let attempt = world.core.state().job(JobId(0)).expect("it runs").attempt;
    assert_eq!(world.places(0).len(), 1);
    let lost = Event::Lost { job: JobId(0), attempt, iterations: 0.0, node: Some(NodeId(0)) };
    world.step(60, vec![lost]);
    assert!(matches!(world.reason(0), Verdict::Wait(Reason::Backoff { .. })), "{:?}", world.reason(0));
    world.arrive(vec![loose(2, &[800], 1)]);
    assert_eq!([0, 2].map(|job| world.places(job).len()), [0, 1], "the node is not kept for who shuns it");
    // When it may go there again it is no longer passed over.
    world.step(600, Vec::new());
    world.arrive(vec![loose(3, &[100], 1)]);
    assert_eq!(world.reason(3), Verdict::Wait(Reason::Behind { ahead: JobId(0) }));
}
