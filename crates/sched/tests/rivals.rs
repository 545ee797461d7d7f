//! What the rivals of MLFS do with graphs of tasks: answers by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainyard_sched::control::check;
use trainyard_sched::decide::{Abilities, Decision, Policy};
use trainyard_sched::model::{
    Allocation, Attempt, Cluster, Declared, Goals, Job, JobId, MoveCost, Parallelism, Resources, Seed, Span,
    Task, TaskGraph, TaskUse, TenantId, Tenants, Time, Usage, Wanted,
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
