//! MLF-H on small clusters, round by round: what is placed together, on which devices, who leaves an overloaded node and who stays.

mod common;
#[path = "mlfs/crowd.rs"]
mod crowd;
#[path = "mlfs/leaving.rs"]
mod leaving;
#[path = "mlfs/order.rs"]
mod order;
#[path = "mlfs/patience.rs"]
mod patience;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::Dice;
use trainyard_sched::control::{Action, Batch, Core, Event, Settings, Step};
use trainyard_sched::decide::{Abilities, Policy, Reason, Verdict};
use trainyard_sched::model::{
    Allocation, Cluster, Declared, Edge, GPU, Goals, Job, JobId, NodeId, Parallelism, Placement, RackId,
    Resources, Seed, Span, Task, TaskGraph, TaskId, TaskUse, Tenants, Time, Urgency, Usage,
};
use trainyard_sched::policies;

/// A loop with MLF-H whose orders are carried out at once.
struct World {
    core: Core,
    at: Time,
}

impl World {
    fn new(cluster: Cluster, parameters: &str) -> Self {
        let table = parameters.parse().expect("it is TOML");
        Self::with(cluster, policies::build("mlf-h", &table).expect("it takes that"))
    }

    fn with(cluster: Cluster, policy: Box<dyn Policy>) -> Self {
        let mut tenants = Tenants::default();
        tenants.intern("team");
        let settings = Settings { seed: Seed(1), abilities: Abilities::ALL, strict: true };
        Self { core: Core::new(cluster, tenants, policy, settings), at: Time::ZERO }
    }

    /// A step after so many seconds.
    fn step(&mut self, seconds: u64, events: Vec<Event>) -> Step {
        self.at = self.at + Span::from_secs(seconds);
        let step = self.core.step(&Batch { at: self.at, events });
        let done = |action: &Action| match action {
            Action::Start { job, attempt, .. } => {
                Some(Event::Started { job: *job, attempt: *attempt, iterations: 0.0, speed: 1.0 })
            }
            Action::Resize { job, attempt, allocation, .. } => Some(Event::Resized {
                job: *job,
                attempt: *attempt,
                allocation: allocation.clone(),
                iterations: 0.0,
                speed: 1.0,
            }),
            Action::Stop { job, attempt, .. } => {
                Some(Event::Stopped { job: *job, attempt: *attempt, iterations: 0.0 })
            }
            Action::Merge { .. } => None,
        };
        let events: Vec<Event> = step.actions.iter().filter_map(done).collect();
        if !events.is_empty() {
            self.core.step(&Batch { at: self.at, events });
        }
        step
    }

    fn arrive(&mut self, jobs: Vec<Job>) -> Step {
        self.step(0, jobs.into_iter().map(|job| Event::Arrived { job: Arc::new(job) }).collect())
    }

    fn target(&self, job: u32) -> Allocation {
        self.core.state().job(JobId(job)).expect("it is there").target.clone()
    }

    /// The node and device of each task.
    fn places(&self, job: u32) -> Vec<(u32, u32, u64)> {
        let of = |p: &Placement| (p.task.0, p.node.0, p.gpus.devices);
        self.target(job).placements().iter().map(of).collect()
    }

    /// What the tasks of a job use of their GPUs, in thousandths.
    fn uses(&self, job: u32, gpu_milli: &[u64]) -> Event {
        let view = self.core.state().job(JobId(job)).expect("it is there");
        let used = |(i, gpu_milli): (usize, &u64)| TaskUse {
            task: TaskId(i as u32),
            used: Resources { gpu_milli: *gpu_milli, ..Resources::NONE },
        };
        let usage = Usage::new(gpu_milli.iter().enumerate().map(used).collect());
        Event::Used { job: JobId(job), attempt: view.attempt, usage }
    }

    fn reason(&self, job: u32) -> Verdict {
        self.core.state().verdict(JobId(job))
    }
}

fn cluster(nodes: u32, gpus: u64) -> Cluster {
    let mut cluster = Cluster::default();
    let kind = cluster.intern_gpu_type("v100");
    let holds = Resources {
        gpu_milli: gpus * GPU,
        cpu_milli: 32 * GPU,
        memory_bytes: 244 << 30,
        network_bytes_per_s: 1_250_000_000,
    };
    (0..nodes).for_each(|_| _ = cluster.push(RackId(0), Some(kind), holds, None));
    cluster
}

fn task(replica: Option<u32>, gpu_milli: u64) -> Task {
    let demand = Resources { gpu_milli, cpu_milli: 100, ..Resources::NONE };
    Task { demand, parameters: 10, replica, compute_s: 1.0, state_bytes: 1 << 30 }
}

fn edge(from: u32, to: u32) -> Edge {
    Edge { from: TaskId(from), to: TaskId(to), bytes: 75_000_000 }
}

fn graph_job(id: u32, tasks: Vec<Task>, edges: Vec<Edge>, partial: bool) -> Job {
    let graph = TaskGraph::new(tasks, edges, None, partial).expect("it is sound");
    let declared =
        Declared { iterations: Some(1000.0), iteration: Some(Span::from_secs(10)), ..Declared::default() };
    let shape = Parallelism::TaskGraph(graph);
    Job { shape, declared, ..common::plain_job(id, Time::ZERO, 1) }
}

/// A job of single tasks that need not run together.
fn loose(id: u32, shares: &[u64], urgency: u8) -> Job {
    let tasks = shares.iter().enumerate().map(|(i, share)| task(Some(i as u32), *share)).collect();
    let mut job = graph_job(id, tasks, Vec::new(), true);
    job.goals = Goals { urgency: Urgency(urgency), ..Goals::default() };
    job
}

/// A chain of tasks that must run together.
fn chain(id: u32, shares: &[u64]) -> Job {
    let tasks = shares.iter().map(|share| task(Some(0), *share)).collect();
    graph_job(id, tasks, (1..shares.len() as u32).map(|i| edge(i - 1, i)).collect(), false)
}

#[test]
fn half_placed_jobs_do_not_block_each_other() {
    let mut world = World::new(cluster(2, 2), "");
    world.arrive(vec![chain(0, &[600; 3]), chain(1, &[600; 3])]);
    let placed = [0, 1].map(|job| world.places(job).len());
    assert_eq!(placed, [3, 0], "one of them has all it needs, the other holds nothing");
    assert_eq!(world.reason(1), Verdict::Wait(Reason::NoHost { task: TaskId(1), found: 1, tasks: 3 }));
    let attempt = world.core.state().job(JobId(0)).expect("it is there").attempt;
    let outcome = trainyard_sched::control::Outcome::Completed;
    world.step(600, vec![Event::Finished { job: JobId(0), attempt, outcome }]);
    assert_eq!(world.places(1).len(), 3);
}

#[test]
fn replicas_come_one_by_one_and_servers_with_the_first() {
    let mut world = World::new(cluster(1, 2), "");
    let tasks = vec![task(Some(0), 800), task(Some(1), 800), task(Some(2), 800), task(None, 0)];
    world.arrive(vec![graph_job(0, tasks, vec![edge(0, 3), edge(1, 3), edge(2, 3)], true)]);
    assert_eq!(world.places(0), [(0, 0, 1), (1, 0, 2), (3, 0, 0)]);
    assert_eq!(world.reason(0), Verdict::Run(Reason::InPart { placed: 3, tasks: 4 }));
    // What waits has a place as soon as another uses less than it demanded, and what it demanded is free.
    world.step(60, vec![world.uses(0, &[100, 100])]);
    assert_eq!(world.places(0).len(), 3, "what was promised is not given twice");
}

#[test]
fn tasks_go_to_what_they_talk_to_unless_that_does_not_count() {
    let busy = || loose(0, &[300, 300], 1);
    let places = |parameters: &str| {
        let mut world = World::new(cluster(2, 2), parameters);
        world.arrive(vec![busy()]);
        world.arrive(vec![chain(1, &[200, 200])]);
        world.places(1).iter().map(|(_, node, _)| *node).collect::<Vec<_>>()
    };
    let near = places("");
    assert_eq!(near[0], near[1], "they talk to each other");
    let apart = places("bandwidth = false");
    assert_ne!(apart[0], apart[1], "each is on the emptier node");
}

#[test]
fn a_task_takes_the_least_used_gpu_and_no_gpu_is_used_beyond_the_threshold() {
    let mut world = World::new(cluster(1, 2), "");
    world.arrive(vec![loose(0, &[500], 1)]);
    world.arrive(vec![loose(1, &[400], 1)]);
    world.arrive(vec![loose(2, &[500], 1)]);
    assert_eq!([0, 1, 2].map(|job| world.places(job)[0].2), [1, 2, 2]);
    world.arrive(vec![loose(3, &[500], 1)]);
    assert!(world.places(3).is_empty(), "one thousand is more than nine hundred");
    world.arrive(vec![loose(4, &[400], 1)]);
    assert_eq!(world.places(4)[0].2, 1);
    // Used is what counts for the threshold, and demanded what there is.
    world.step(60, vec![world.uses(0, &[100])]);
    assert!(world.places(3).is_empty());
    world.arrive(vec![loose(5, &[100], 1)]);
    assert_eq!(world.places(5)[0].2, 1);
}

#[test]
fn the_lowest_priority_leaves_an_overloaded_gpu_and_then_stays_for_five_rounds() {
    let mut world = World::new(cluster(2, 1), "");
    // The first node has an urgent job and one that is not; the second has a small one.
    world.arrive(vec![loose(0, &[300], 9)]);
    world.arrive(vec![loose(1, &[500], 1)]);
    world.arrive(vec![loose(2, &[300], 1)]);
    let node = |world: &World, job: u32| world.places(job)[0].1;
    assert_eq!([0, 1, 2].map(|job| node(&world, job)), [0, 1, 0]);
    let step = world.step(60, vec![world.uses(0, &[600]), world.uses(2, &[350]), world.uses(1, &[500])]);
    let verdicts = step.decision.expect("a round").verdicts;
    let relieved = Reason::Relieved { node: NodeId(0) };
    assert!(verdicts.contains(&(JobId(2), Verdict::Run(relieved))), "{verdicts:?}");
    assert_eq!([0, 1, 2].map(|job| node(&world, job)), [0, 1, 1]);
    // Now the other one is overloaded. Who came a moment ago stays, and job 1 leaves.
    let uses = |world: &World| vec![world.uses(0, &[300]), world.uses(1, &[500]), world.uses(2, &[500])];
    let events = uses(&world);
    world.step(60, events);
    assert_eq!([0, 1, 2].map(|job| node(&world, job)), [0, 0, 1]);
    // Both have moved; whatever is used, nobody moves for five rounds after his move.
    for round in 1..=3 {
        let events = vec![world.uses(0, &[500]), world.uses(1, &[500]), world.uses(2, &[100])];
        world.step(60, events);
        let at = [0, 1, 2].map(|job| world.places(job).first().map(|place| place.1));
        assert_eq!(at[1], Some(0), "round {round}: job 1 stays");
    }
}

#[test]
fn without_another_node_a_task_waits_or_stays() {
    let run = |parameters: &str| {
        let mut world = World::new(cluster(1, 1), parameters);
        world.arrive(vec![loose(0, &[400], 9), loose(1, &[400], 1)]);
        assert_eq!([0, 1].map(|job| world.places(job).len()), [1, 1]);
        world.step(60, vec![world.uses(0, &[600]), world.uses(1, &[500])]);
        (world.places(1).len(), world.reason(1))
    };
    assert_eq!(run(""), (0, Verdict::Yield(Reason::Relieved { node: NodeId(0) })));
    assert_eq!(run("unplaced = 'stay'").0, 1);
    assert_eq!(run("migration = false").0, 1);
}

#[test]
fn a_job_that_must_run_together_leaves_together() {
    let mut world = World::new(cluster(1, 2), "");
    world.arrive(vec![loose(0, &[800], 9)]);
    world.arrive(vec![chain(1, &[850, 100])]);
    assert_eq!(world.places(1), [(0, 0, 2), (1, 0, 1)]);
    world.step(60, vec![world.uses(0, &[850]), world.uses(1, &[850, 100])]);
    assert!(world.target(1).is_none(), "without its second task the first makes no progress");
    assert_eq!(world.places(0).len(), 1);
}

/// Jobs of every kind with demands of a part of a GPU; ends after a while.
fn random_job(dice: &mut Dice, id: u32) -> Job {
    let shares = [100, 150, 200, 250, 300];
    let (parts, replicas) = (1 + dice.roll(5) as u32, 1 + dice.roll(2) as u32);
    let mut tasks: Vec<Task> =
        (0..parts * replicas).map(|i| task(Some(i / parts), dice.pick(&shares))).collect();
    let chained = (0..parts * replicas).filter(|i| (i + 1) % parts != 0);
    let mut edges: Vec<Edge> = chained.map(|i| edge(i, i + 1)).collect();
    if dice.chance(50) {
        tasks.push(task(None, 0));
        edges.extend((0..replicas).map(|replica| edge(replica * parts + parts - 1, parts * replicas)));
    }
    let mut job = graph_job(id, tasks, edges, dice.chance(50));
    job.goals.urgency = Urgency(1 + dice.roll(10) as u8);
    job.goals.deadline = dice.chance(70).then(|| Time::from_secs(3600 + dice.roll(40_000)));
    job
}

/// How much of each device is used, as far as planned, when all use what they demand.
fn planned(world: &World) -> BTreeMap<(NodeId, u32), u64> {
    let mut used = BTreeMap::new();
    for view in world.core.state().jobs() {
        for p in view.target.placements() {
            for device in (0..64).filter(|i| p.gpus.devices >> i & 1 == 1) {
                *used.entry((p.node, device)).or_insert(0) += u64::from(p.gpus.share_milli);
            }
        }
    }
    used
}

#[test]
fn with_constant_use_no_gpu_is_overloaded_and_nobody_moves() {
    for seed in 0..12 {
        let mut dice = Dice::new(seed);
        let mut world = World::new(cluster(4, 4), "");
        let mut decided = Vec::new();
        for round in 0..40 {
            let mut events: Vec<Event> = Vec::new();
            for _ in 0..dice.roll(3) {
                let id = decided.len() as u32 * 8 + events.len() as u32;
                events.push(Event::Arrived { job: Arc::new(random_job(&mut dice, id)) });
            }
            for view in world.core.state().jobs().filter(|view| view.held.is_some()) {
                let (job, attempt) = (view.id(), view.attempt);
                if dice.chance(8) {
                    let outcome = trainyard_sched::control::Outcome::Completed;
                    events.push(Event::Finished { job, attempt, outcome });
                    continue;
                }
                let used = |p: &Placement| {
                    let used = view.job.shape.demand_of(p.task).unwrap_or_default();
                    TaskUse { task: p.task, used }
                };
                let usage = Usage::new(view.held.placements().iter().map(used).collect());
                events.push(Event::Used { job, attempt, usage });
            }
            let before: BTreeMap<JobId, Allocation> =
                world.core.state().jobs().map(|view| (view.id(), view.target.clone())).collect();
            decided.push(world.step(60, events));
            for (device, used) in planned(&world) {
                assert!(used <= 900, "seed {seed}, round {round}: {device:?} is used by {used}");
            }
            for view in world.core.state().jobs() {
                let had = before.get(&view.id()).map_or(&[][..], |had| had.placements());
                let kept = had.iter().all(|p| view.target.placements().contains(p));
                assert!(kept, "seed {seed}, round {round}: {} moved", view.id());
            }
        }
        assert!(!world.core.state().jobs().all(|view| view.target.is_none()), "some run");
    }
}

#[test]
fn servers_stand_before_the_workers_of_their_job_or_before_everything() {
    // Room for the urgent worker or for the other job with its server, and not for both.
    let run = |parameters: &str| {
        let mut world = World::new(cluster(1, 1), parameters);
        let tasks = vec![task(Some(0), 600), task(None, 0)];
        world.arrive(vec![loose(0, &[600], 9), graph_job(1, tasks, vec![edge(0, 1)], false)]);
        [0, 1].map(|job| world.places(job).len())
    };
    assert_eq!(run(""), [1, 0]);
    assert_eq!(run("ps_global_first = true"), [0, 2]);
    assert_eq!(run("urgency = false"), [1, 0], "the first of two equal ones goes first");
}

#[test]
fn who_is_urgent_goes_first_only_if_urgency_counts() {
    let run = |parameters: &str| {
        let mut world = World::new(cluster(1, 1), parameters);
        world.arrive(vec![loose(0, &[600], 1), loose(1, &[600], 9)]);
        [0, 1].map(|job| world.places(job).len())
    };
    assert_eq!(run(""), [0, 1]);
    assert_eq!(run("urgency = false"), [1, 0]);
    assert_eq!(run("urgency_on_total = true"), [0, 1]);
    assert_eq!(run("rank_normalised = true"), [0, 1]);
    assert_eq!(run("rank_by = 'finishing'"), [0, 1]);
    assert_eq!(run("alpha = 0.0"), [1, 0]);
}

#[test]
fn deadlines_and_little_work_go_first_as_far_as_they_count() {
    let run = |parameters: &str, change: &dyn Fn(&mut Job)| {
        let mut world = World::new(cluster(1, 1), parameters);
        let mut second = loose(1, &[600], 1);
        change(&mut second);
        world.arrive(vec![loose(0, &[600], 1), second]);
        [0, 1].map(|job| world.places(job).len())
    };
    let deadline = |job: &mut Job| job.goals.deadline = Some(Time::from_secs(20_000));
    assert_eq!(run("", &deadline), [0, 1]);
    assert_eq!(run("deadline = false", &deadline), [1, 0]);
    let over = |job: &mut Job| job.goals.deadline = Some(Time::ZERO);
    assert_eq!(run("", &over), [1, 0], "a deadline that is over counts no more");
    let short = |job: &mut Job| job.declared.iterations = Some(10.0);
    assert_eq!(run("", &short), [0, 1]);
    assert_eq!(run("weight_remaining = 0.0", &short), [1, 0]);
    assert_eq!(run("rank_by = 'finishing'", &short), [0, 1]);
}
