//! What the rivals of MLFS do with graphs of tasks: answers by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainyard_sched::control::check;
use trainyard_sched::decide::{Abilities, Decision, Policy};
use trainyard_sched::model::{
    Allocation, Attempt, Cluster, Declared, Edge, Goals, Job, JobId, LossPoint, ModelId, MoveCost,
    Parallelism, Resources, Seed, Span, Task, TaskGraph, TaskId, TaskUse, TenantId, Tenants, Time, Usage,
    Wanted,
};
use trainyard_sched::policies;
use trainyard_sched::view::{Causes, Changed, JobView, Note, Phase, Snapshot};

/// A graph without edges: the replica of each task, and the thousandths of a GPU that it demands.
fn graph(tasks: &[(u32, u64)], partial: bool) -> Parallelism {
    let task = |(replica, gpu_milli): &(u32, u64)| Task {
        demand: Resources { gpu_milli: *gpu_milli, ..Resources::NONE },
        parameters: 1,
        replica: Some(*replica),
        compute_s: 1.0,
        state_bytes: 0,
    };
    let tasks = tasks.iter().map(task).collect();
    Parallelism::TaskGraph(TaskGraph::new(tasks, Vec::new(), None, partial).expect("it has tasks"))
}

fn job(id: u32, shape: Parallelism) -> Job {
    Job {
        id: JobId(id),
        name: format!("job-{id}").into(),
        tenant: TenantId(0),
        model: None,
        submitted: Time::from_secs(u64::from(id)),
        shape,
        wanted: Wanted::default(),
        goals: Goals::default(),
        declared: Declared::default(),
        move_cost: MoveCost::default(),
    }
}

/// A cluster whose jobs do at once what is decided.
struct World {
    policy: Box<dyn Policy>,
    seen: Snapshot,
}

impl World {
    fn new(nodes: u32, gpus: u64, policy: &str, parameters: &str) -> Self {
        let table = parameters.parse().expect("a table");
        let policy = policies::build(policy, &table).expect("it takes that");
        let mut tenants = Tenants::default();
        tenants.intern("team");
        let seen = Snapshot {
            at: Time::from_secs(1000),
            cause: Causes::ALARM,
            seed: Seed(0),
            number: 1,
            cluster: Arc::new(Cluster::uniform(nodes, gpus, "v100")),
            tenants: Arc::new(tenants),
            note: Note::default(),
            jobs: std::iter::empty::<(JobId, Arc<JobView>)>().collect(),
            changed: Arc::default(),
        };
        Self { policy, seen }
    }

    fn edit(&mut self, id: u32, change: impl FnOnce(&mut JobView)) {
        let mut view = (**self.seen.jobs.get(&JobId(id)).expect("the job is there")).clone();
        change(&mut view);
        self.seen.jobs.insert(JobId(id), Arc::new(view));
        self.changed(id);
    }

    fn changed(&mut self, id: u32) {
        let mut jobs = self.seen.changed.jobs.clone();
        jobs.push(JobId(id));
        jobs.sort_unstable();
        jobs.dedup();
        self.seen.changed = Arc::new(Changed { jobs, nodes: Vec::new() });
    }

    fn arrive(&mut self, job: Job) {
        let id = job.id;
        self.seen.jobs.insert(id, Arc::new(JobView::new(Arc::new(job), self.seen.at)));
        self.changed(id.0);
    }

    fn end(&mut self, id: u32) {
        self.seen.jobs.remove(&JobId(id));
        self.changed(id);
    }

    /// The decision on what is there now, which a fresh instance and the checker agree with; then it is so.
    fn decide(&mut self) -> Decision {
        let decision = self.policy.decide(&self.seen);
        assert_eq!(check(&self.seen, &decision, Abilities::ALL), []);
        let at = self.seen.at;
        self.seen.number += 1;
        self.seen.changed = Arc::default();
        for (id, target) in &decision.targets {
            self.edit(id.0, |view| {
                view.target = target.clone();
                view.held = target.clone();
                view.served.changed = at;
                view.served.first_held = view.served.first_held.or(Some(at));
                view.phase = if target.is_some() { Phase::Running } else { Phase::Waiting };
                view.attempt = Attempt(1);
            });
        }
        for (id, note) in &decision.notes {
            self.edit(id.0, |view| view.note = note.clone());
        }
        if let Some(note) = &decision.note {
            self.seen.note = note.clone();
        }
        decision
    }

    /// Each task of a job is said to use so much of a GPU.
    fn uses(&mut self, id: u32, gpu_milli: u64) {
        let of = |task| TaskUse { task, used: Resources { gpu_milli, ..Resources::NONE } };
        self.edit(id, |view| {
            view.used = Usage::new(view.target.placements().iter().map(|p| of(p.task)).collect());
        });
    }

    fn wait(&mut self, seconds: u64) {
        self.seen.at = self.seen.at + Span::from_secs(seconds);
    }

    /// What a job has: for each task its node and device.
    fn places(&self, id: u32) -> Vec<(u32, u32, u32)> {
        let target = self.seen.job(JobId(id)).map_or(Allocation::NONE, |view| view.target.clone());
        let at =
            |p: &trainyard_sched::model::Placement| (p.task.0, p.node.0, p.gpus.devices.trailing_zeros());
        target.placements().iter().map(at).collect()
    }

    fn has(&self) -> BTreeMap<u32, usize> {
        self.seen.jobs().map(|view| (view.id().0, view.target.placements().len())).collect()
    }
}

fn counts(pairs: &[(u32, usize)]) -> BTreeMap<u32, usize> {
    pairs.iter().copied().collect()
}

#[test]
fn on_borg_the_next_replica_goes_to_the_smallest_dominant_share_on_the_emptiest_node() {
    let mut world = World::new(2, 2, "borg", "");
    world.arrive(job(0, graph(&[(0, 800), (1, 800), (2, 800)], true)));
    world.arrive(job(1, graph(&[(0, 400), (1, 400), (2, 400)], true)));
    world.decide();
    // .2 and .1 of four GPUs; job 1 again: .2 and .2; job 0 was first: .4; job 1: .3; a third of .8 fits nowhere.
    assert_eq!(world.places(0), [(0, 0, 0), (1, 0, 1)]);
    assert_eq!(world.places(1), [(0, 1, 0), (1, 1, 1), (2, 1, 0)]);
}

#[test]
fn on_borg_nothing_is_taken_back_and_replicas_are_whole() {
    let mut world = World::new(1, 2, "borg", "");
    world.arrive(job(0, graph(&[(0, 900), (0, 500), (1, 100), (1, 500)], true)));
    world.decide();
    // The second replica has .1 on the first device and .5 on the second.
    assert_eq!(world.has(), counts(&[(0, 4)]));
    world.arrive(job(1, graph(&[(0, 100)], false)));
    world.wait(60);
    let decision = world.decide();
    assert_eq!(world.has(), counts(&[(0, 4), (1, 0)]));
    assert!(decision.targets.is_empty() && decision.verdicts.len() == 1, "{decision:?}");
    // With one task of its two the second replica would be of no use.
    let mut world = World::new(1, 2, "borg", "");
    world.arrive(job(0, graph(&[(0, 900), (0, 500), (1, 100), (1, 600)], true)));
    world.decide();
    assert_eq!(world.has(), counts(&[(0, 2)]));
}

#[test]
fn tiresias_gives_gangs_to_the_graphs_that_will_end_soonest_by_the_service_of_others() {
    let parameters = "variant = 'gittins'\nplacement = 'fill'\nhistory_gpu_s = [100.0, 1000.0, 10000.0]\nquantum_gpu_s = 150.0\nthresholds_gpu_s = [1e6]";
    let mut world = World::new(1, 1, "tiresias", parameters);
    world.arrive(job(0, graph(&[(0, 300), (0, 300)], false)));
    world.decide();
    assert_eq!(world.has(), counts(&[(0, 2)]));
    // .6 of a GPU for 200 s are 120 GPU-seconds: past the first of the three jobs, and none of the others is near its end.
    world.wait(200);
    assert_eq!(world.seen.job(JobId(0)).map(|view| view.attained_gpu_s(world.seen.at)), Some(120.0));
    world.arrive(job(1, graph(&[(0, 400), (0, 300)], false)));
    world.decide();
    assert_eq!(world.has(), counts(&[(0, 0), (1, 2)]), "one of three new jobs ends within 150 GPU-seconds");
    world.end(1);
    world.wait(1);
    world.decide();
    assert_eq!(world.has(), counts(&[(0, 2)]));
}

#[test]
fn slaq_counts_a_graph_by_its_replicas() {
    let mut world = World::new(1, 4, "slaq", "epoch_s = 60.0\ntakes_turns = false");
    let fast = |id, iteration_s: u64| {
        let declared = Declared { iteration: Some(Span::from_secs(iteration_s)), ..Declared::default() };
        Job {
            declared,
            ..job(id, graph(&[(0, 500), (0, 500), (1, 500), (1, 500), (2, 500), (2, 500)], true))
        }
    };
    world.arrive(fast(0, 10));
    world.decide();
    assert_eq!(world.has(), counts(&[(0, 6)]), "alone it has all of its replicas");
    world.arrive(fast(1, 10));
    world.wait(60);
    world.decide();
    // Four GPUs are four replicas, and both gain alike.
    assert_eq!(world.has(), counts(&[(0, 4), (1, 4)]));
    world.arrive(job(2, graph(&[(0, 900), (0, 900), (0, 900)], false)));
    world.arrive(job(3, graph(&[(0, 1000)], false)));
    world.wait(60);
    world.decide();
    // Beside the least of the others two GPUs are free: not enough for the first, one more than the second needs.
    assert_eq!(world.has(), counts(&[(0, 4), (1, 2), (2, 0), (3, 1)]));
}

#[test]
fn gandiva_pools_jobs_by_their_gpu_count() {
    let mut world = World::new(3, 2, "gandiva-pools", "");
    for (id, count) in [(0, 2), (1, 1), (2, 2), (3, 1), (4, 4), (5, 3)] {
        world.arrive(job(id, graph(&vec![(0, 300); count], false)));
    }
    world.decide();
    assert_eq!(world.places(0), [(0, 0, 0), (1, 0, 1)]);
    assert_eq!(world.places(1), [(0, 1, 0)], "the first node serves another count");
    assert_eq!(world.places(2), [(0, 0, 0), (1, 0, 1)], "the first node serves this one");
    assert_eq!(world.places(3), [(0, 1, 1)]);
    assert_eq!(world.places(4), [(0, 2, 0), (1, 2, 1), (2, 2, 0), (3, 2, 1)]);
    // No node serves three, and none is idle: the emptiest.
    assert_eq!(world.places(5), [(0, 1, 0), (1, 1, 1), (2, 1, 0)]);
}

#[test]
fn gandiva_lets_jobs_share_time_where_nothing_is_free() {
    let mut world = World::new(1, 1, "gandiva-pools", "");
    for id in 0..3 {
        world.arrive(job(id, graph(&[(0, 600)], false)));
    }
    let runs = |world: &World| -> Vec<u32> {
        world.has().into_iter().filter(|(_, parts)| *parts > 0).map(|(id, _)| id).collect()
    };
    let mut turns = Vec::new();
    for _ in 0..14 {
        world.decide();
        turns.extend(runs(&world));
        world.wait(30);
    }
    assert_eq!(turns, [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2, 0, 0], "slices of a minute, in turn");
}

#[test]
fn gandiva_puts_who_still_gives_way_behind_all_others() {
    let mut world = World::new(1, 1, "gandiva-pools", "");
    for id in 0..3 {
        world.arrive(job(id, graph(&[(0, 600)], false)));
    }
    world.decide();
    world.edit(0, |view| (view.target, view.phase) = (Allocation::NONE, Phase::Stopping));
    let ahead = |world: &mut World| world.policy.ahead(&world.seen, JobId(0)).jobs;
    assert_eq!(ahead(&mut world), [JobId(1), JobId(2)]);
}

#[test]
fn gandiva_takes_time_from_the_least_utilised_of_the_pool() {
    let mut world = World::new(2, 1, "gandiva-pools", "");
    for (id, count) in [(0, 1), (1, 1), (2, 2)] {
        world.arrive(job(id, graph(&vec![(0, 900 / count as u64); count], false)));
    }
    world.decide();
    assert_eq!(world.has(), counts(&[(0, 1), (1, 1), (2, 0)]));
    world.uses(0, 800);
    world.uses(1, 300);
    world.wait(60);
    world.decide();
    assert_eq!(world.has(), counts(&[(0, 1), (1, 0), (2, 2)]), "nobody else needs two GPUs; job 1 uses less");
    // Of the same count is job 0 only, however little the other uses.
    world.uses(2, 10);
    world.wait(60);
    world.decide();
    assert_eq!(world.has(), counts(&[(0, 0), (1, 1), (2, 2)]));
}

#[test]
fn gandiva_moves_the_least_user_off_a_crowded_gpu() {
    let begin = || {
        let mut world = World::new(1, 2, "gandiva-pools", "placement = 'pack'\nslice_s = 1e6");
        world.arrive(job(0, graph(&[(0, 500)], false)));
        world.arrive(job(1, graph(&[(0, 400)], false)));
        world.decide();
        assert_eq!((world.places(0), world.places(1)), (vec![(0, 0, 0)], vec![(0, 0, 0)]));
        world.wait(60);
        world
    };
    let mut world = begin();
    world.uses(0, 600);
    world.uses(1, 300);
    world.decide();
    assert_eq!(world.places(1), [(0, 0, 0)], "nine tenths are not too much");
    world.uses(0, 601);
    world.decide();
    assert_eq!((world.places(0), world.places(1)), (vec![(0, 0, 0)], vec![(0, 0, 1)]));
    // Nobody moves to where it would be as crowded, or between rounds.
    let mut world = begin();
    world.arrive(job(2, graph(&[(0, 500)], false)));
    world.decide();
    assert_eq!(world.places(2), [(0, 0, 1)]);
    (0..2).for_each(|id| world.uses(id, 600));
    world.uses(2, 500);
    assert!(world.decide().targets.is_empty());
    world.uses(2, 100);
    world.seen.cause = Causes::REPORTED;
    assert!(world.decide().targets.is_empty());
    world.seen.cause = Causes::ALARM;
    world.decide();
    assert_eq!((world.places(0), world.places(1)), (vec![(0, 0, 1)], vec![(0, 0, 0)]), "of equals the first");
}

/// A job of one task that says how long it runs.
fn lasting(id: u32, gpu_milli: u64, seconds: u64) -> Job {
    let declared = Declared { limit: Some(Span::from_secs(seconds)), ..Declared::default() };
    Job { declared, ..job(id, graph(&[(0, gpu_milli)], false)) }
}

#[test]
fn graphene_packs_and_prefers_little_remaining_work() {
    let order = |jobs: &[Job]| {
        let mut world = World::new(1, 1, "graphene", "");
        jobs.iter().for_each(|job| world.arrive(job.clone()));
        let mut order = Vec::new();
        for _ in jobs {
            world.decide();
            let runs = world.has().into_iter().find(|(_, parts)| *parts > 0).expect("somebody runs").0;
            order.push(runs);
            world.end(runs);
        }
        order
    };
    // Of equal length: .6 lines up better with what is free than .51, though it is .01 more work.
    assert_eq!(order(&[lasting(0, 510, 100), lasting(1, 600, 100)]), [1, 0]);
    // 51 and 600 GPU-seconds, .555 of a GPU and 325.5 of them on average: .51 - .017 is more than .6 - .205.
    assert_eq!(order(&[lasting(0, 510, 100), lasting(1, 600, 1000)]), [0, 1]);
    // Who says nothing counts as the mean of 700 and 127.5: .7 - .204 is more than .6 - .121 and .51 - .037. After that .6 is more
    // than .51, both less the same.
    let silent = job(0, graph(&[(0, 600)], false));
    assert_eq!(order(&[silent, lasting(1, 700, 1000), lasting(2, 510, 250)]), [1, 0, 2]);
}

#[test]
fn graphene_bounds_how_far_a_job_falls_behind() {
    let last = |kappa: &str| {
        let mut world = World::new(1, 1, "graphene", kappa);
        world.arrive(lasting(0, 500, 100));
        world.arrive(lasting(1, 600, 100));
        world.decide();
        // Two waited while .6 was given out, so each of them should have had .3.
        assert_eq!(world.has(), counts(&[(0, 0), (1, 1)]));
        assert_eq!(world.seen.note.0[..], [300_000_000_000]);
        world.end(1);
        world.arrive(lasting(2, 600, 100));
        world.wait(60);
        world.decide();
        world.has()
    };
    assert_eq!(last("kappa = 0.29"), counts(&[(0, 1), (2, 0)]));
    assert_eq!(last("kappa = 0.31"), counts(&[(0, 0), (2, 1)]));
}

#[test]
fn graphene_keeps_tasks_near_their_data_unless_another_server_is_much_emptier() {
    let places = |remote: &str| {
        let mut world = World::new(2, 2, "graphene", remote);
        let Parallelism::TaskGraph(alone) = graph(&[(0, 300), (0, 300)], false) else { unreachable!() };
        let edge = Edge { from: TaskId(0), to: TaskId(1), bytes: 1 };
        let chain = TaskGraph::new(alone.tasks().to_vec(), vec![edge], None, false).expect("a chain");
        world.arrive(job(0, Parallelism::TaskGraph(chain)));
        world.decide();
        world.places(0)
    };
    // 1.7 of 2 GPUs are free beside the first task, and .8 of all of them elsewhere.
    assert_eq!(places(""), [(0, 0, 0), (1, 0, 1)]);
    assert_eq!(places("remote = 0.9"), [(0, 0, 0), (1, 1, 0)]);
}

/// Four jobs that fill a node and have passed a rung; the last one gained nothing. A fifth one waits.
fn at_a_rung(models: [u32; 4], waits: bool) -> World {
    let mut world = World::new(1, 4, "hypersched", "");
    let long = |id: u32, model: u32| {
        let declared =
            Declared { iterations: Some(100.0), iteration: Some(Span::from_secs(36)), ..Declared::default() };
        Job { declared, model: Some(ModelId(model)), ..job(id, graph(&[(0, 900)], false)) }
    };
    (0..4).zip(models).for_each(|(id, model)| world.arrive(long(id, model)));
    world.decide();
    assert_eq!(world.has(), counts(&[(0, 1), (1, 1), (2, 1), (3, 1)]));
    if waits {
        world.arrive(long(4, 0));
    }
    world.wait(60);
    for id in 0..4 {
        let point =
            |iteration: f64, accuracy: f64| LossPoint { iteration, loss: 1.0, accuracy: Some(accuracy) };
        let later = if id == 3 { 0.1 } else { 0.2 };
        let at = world.seen.at;
        world.edit(id, |view| {
            view.done.iterations = 1.0;
            view.done.as_of = at;
            let points = [point(0.0, 0.1), point(1.0, later)];
            Arc::make_mut(&mut view.losses).report(&points, &view.job.declared.loss, None);
        });
    }
    world
}

#[test]
fn hypersched_pauses_who_gains_less_than_its_like_if_somebody_waits() {
    let mut world = at_a_rung([0; 4], true);
    world.decide();
    assert_eq!(world.has(), counts(&[(0, 1), (1, 1), (2, 1), (3, 0), (4, 1)]));
    world.wait(60);
    assert!(world.decide().targets.is_empty(), "it is asked once at a rung");
    world.end(4);
    world.wait(60);
    world.decide();
    assert_eq!(world.has(), counts(&[(0, 1), (1, 1), (2, 1), (3, 1)]), "it goes on when there is room");
    let mut world = at_a_rung([0; 4], false);
    assert!(world.decide().targets.is_empty(), "nobody waits");
    let mut world = at_a_rung([0, 1, 0, 1], true);
    assert!(world.decide().targets.is_empty(), "two of a model are too few to compare");
}

#[test]
fn hypersched_resumes_the_best_first_after_new_jobs_and_before_late_ones() {
    let mut world = World::new(1, 1, "hypersched", "");
    world.arrive(job(0, graph(&[(0, 900)], false)));
    world.decide();
    for (id, gain, deadline_s) in [(1, 200, 9000), (2, 900, 500), (3, 500, 9000)] {
        let goals = Goals { deadline: Some(Time::from_secs(deadline_s)), ..Goals::default() };
        world.arrive(Job { goals, ..job(id, graph(&[(0, 900)], false)) });
        world.edit(id, |view| view.note = Note([1, 0, gain].into_iter().collect()));
    }
    world.arrive(job(4, graph(&[(0, 900)], false)));
    let mut order = Vec::new();
    for _ in 0..5 {
        world.decide();
        let runs = world.has().into_iter().find(|(_, parts)| *parts > 0).expect("somebody runs").0;
        order.push(runs);
        world.end(runs);
        world.wait(60);
    }
    assert_eq!(order, [0, 4, 3, 1, 2], "the deadline of job 2 is past");
}

#[test]
fn hypersched_gives_spare_room_to_who_has_had_results() {
    let mut world = World::new(1, 2, "hypersched", "");
    world.arrive(job(0, graph(&[(0, 900), (1, 900)], true)));
    world.arrive(job(1, graph(&[(0, 900)], false)));
    world.decide();
    assert_eq!(world.has(), counts(&[(0, 1), (1, 1)]));
    world.end(1);
    world.wait(60);
    world.edit(0, |view| view.done.iterations = 4.0);
    world.decide();
    assert_eq!(world.has(), counts(&[(0, 1)]), "four results are not five");
    world.edit(0, |view| view.done.iterations = 5.0);
    world.wait(60);
    world.decide();
    assert_eq!(world.has(), counts(&[(0, 2)]));
}
