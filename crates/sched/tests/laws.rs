//! Scale-free facts about the shared modules and the loop, each against a slow and obvious twin.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{Course, Dice, History, Trying};
use proptest::prelude::*;
use trainyard_sched::control::{Action, Batch, Event, Step};
use trainyard_sched::decide::{Abilities, Cadence, Decision, Manner, Policy, Rank, Ranked, Verdict};
use trainyard_sched::metrics::{Series, percentile};
use trainyard_sched::model::{
    Allocation, Cluster, CopyId, GPU, GpuSet, GpuTypeSet, Job, JobId, NodeId, NodeState, Parallelism,
    Placement, PriorityClass, Resources, Task, TaskGraph, TaskId, Tenants, Time, Topology, UNLIMITED,
};
use trainyard_sched::place::{Ask, FreeCapacity, Rule, largest_gang};
use trainyard_sched::view::{Causes, JobView, Phase, Snapshot};

const RULES: [Rule; 5] = [Rule::FirstFit, Rule::Pack, Rule::Consolidate, Rule::Spread, Rule::Yarn];

/// What is used on every node: amounts, and thousandths of each device. Nothing is indexed.
struct Naive {
    cluster: Cluster,
    used: Vec<[u64; 4]>,
    devices: Vec<[u64; 64]>,
}

impl Naive {
    fn new(cluster: &Cluster) -> Self {
        let nodes = cluster.nodes.len();
        Self { cluster: cluster.clone(), used: vec![[0; 4]; nodes], devices: vec![[0; 64]; nodes] }
    }

    fn book(&mut self, held: &Allocation, shape: &Parallelism, sign: i64) {
        for p in held.placements() {
            let demand = shape.demand_of(p.task).expect("a placed task exists").amounts();
            for (used, each) in self.used[p.node.index()].iter_mut().zip(demand) {
                *used = used.wrapping_add_signed(sign * (each * u64::from(p.count)) as i64);
            }
            for i in (0..64).filter(|i| p.gpus.devices >> i & 1 == 1) {
                let share = i64::from(p.gpus.share_milli);
                self.devices[p.node.index()][i] =
                    self.devices[p.node.index()][i].wrapping_add_signed(sign * share);
            }
        }
    }

    fn over_committed(&self) -> Option<NodeId> {
        let over = |node: &&trainyard_sched::model::Node| {
            let i = node.id.index();
            let devices = node.gpu_count() as usize;
            let amounts = self.used[i].iter().zip(node.holds.amounts()).any(|(used, holds)| *used > holds);
            let twice = self.devices[i][..devices].iter().any(|share| *share > GPU);
            amounts || twice || self.devices[i][devices..].iter().any(|share| *share > 0)
        };
        self.cluster.nodes.iter().find(over).map(|node| node.id)
    }

    fn free(&self, node: NodeId) -> Resources {
        let holds = self.cluster.node(node).holds.amounts();
        let left =
            |i: usize| if holds[i] == UNLIMITED { UNLIMITED } else { holds[i] - self.used[node.index()][i] };
        Resources {
            gpu_milli: left(0),
            cpu_milli: left(1),
            memory_bytes: left(2),
            network_bytes_per_s: left(3),
        }
    }

    fn whole_gpus(&self) -> u64 {
        let up = self.cluster.nodes.iter().filter(|node| node.state == NodeState::Up);
        up.map(|node| self.whole_on(node.id)).sum()
    }

    fn whole_on(&self, node: NodeId) -> u64 {
        let count = self.cluster.node(node).gpu_count() as usize;
        self.devices[node.index()][..count].iter().filter(|share| **share == 0).count() as u64
    }
}

/// What a placement must obey whatever the rule.
fn assert_obeys(cluster: &Cluster, job: &Job, held: &Allocation, what: &str) {
    let nodes = held.nodes();
    assert!(nodes.iter().all(|node| cluster.node(*node).state == NodeState::Up), "{what}: a node is not up");
    let racks: Vec<_> = nodes.iter().map(|node| cluster.node(*node).rack).collect();
    match job.wanted.topology {
        Topology::Anywhere => {}
        Topology::SameRack => assert!(racks.iter().all(|rack| *rack == racks[0]), "{what}: two racks"),
        Topology::SameNode => assert_eq!(nodes.len(), 1, "{what}: two nodes"),
    }
    let with_gpus = held.placements().iter().filter(|p| p.gpus.devices != 0);
    let mut types: Vec<_> =
        with_gpus.map(|p| cluster.node(p.node).gpu_type.expect("GPUs have a type")).collect();
    assert!(types.iter().all(|t| job.wanted.gpu_types.has(*t)), "{what}: a type that it does not want");
    types.sort_unstable();
    types.dedup();
    assert!(types.len() < 2 || job.wanted.mixed_gpu_types, "{what}: a mix of types");
}

#[test]
fn capacity_is_given_once_and_comes_back_exactly() {
    for seed in 0..400 {
        let _trying = Trying(format!("seed {seed}"));
        let mut dice = Dice::new(seed);
        let (mut cluster, tenants) = (common::cluster(&mut dice), common::tenants(&mut dice));
        for node in &mut cluster.nodes {
            node.state = dice.pick(&[NodeState::Up, NodeState::Up, NodeState::Up, NodeState::Draining]);
        }
        let mut free = FreeCapacity::new(&cluster);
        let idle = free.clone();
        let mut naive = Naive::new(&cluster);
        let mut held: Vec<(Arc<Job>, Allocation)> = Vec::new();
        for id in 0..60 {
            let job = common::job(&mut dice, id, Time::ZERO, &cluster, &tenants);
            let rule = dice.pick(&RULES);
            let before = free.clone();
            match free.place(rule, &Ask::minimum(&job.shape, &job.wanted)) {
                Some(placed) => {
                    assert_obeys(&cluster, &job, &placed, &format!("{rule:?} for {job:?}"));
                    assert!(before.has_room_for(&placed, &job.shape), "{placed} was free");
                    let has_device = placed.placements().iter().any(|p| u64::from(p.gpus.share_milli) == GPU);
                    assert!(!has_device || !free.has_room_for(&placed, &job.shape), "{placed} is given away");
                    naive.book(&placed, &job.shape, 1);
                    held.push((job, placed));
                }
                None => assert_eq!(free, before, "a refusal changes nothing"),
            }
            if dice.chance(40) && !held.is_empty() {
                let (job, placed) = held.swap_remove(dice.roll(held.len() as u64) as usize);
                free.release(&placed, &job.shape);
                naive.book(&placed, &job.shape, -1);
                assert!(free.clone().keep(&placed, &job.shape), "what was just released can be kept");
            }
            assert_eq!(naive.over_committed(), None);
            assert_eq!(free.whole_gpus(GpuTypeSet::ALL), naive.whole_gpus());
            for node in &cluster.nodes {
                assert_eq!(free.room(node.id), naive.free(node.id), "{}", node.id);
                let one = Resources::gpus(1);
                let takes = u64::from(node.state == NodeState::Up);
                let slots = one.times_in(&naive.free(node.id), naive.whole_on(node.id));
                assert_eq!(free.slots(node.id, &one, 64), takes * slots, "{}", node.id);
            }
        }
        for (job, placed) in &held {
            free.release(placed, &job.shape);
        }
        assert_eq!(free, idle, "all is as it was");
    }
}

#[test]
#[should_panic(expected = "given away twice")]
fn a_device_that_is_taken_cannot_be_taken_again() {
    let mut free = FreeCapacity::new(&Cluster::uniform(1, 4, "v100"));
    let job = common::plain_job(0, Time::ZERO, 3);
    let held = free.place(Rule::Pack, &Ask::minimum(&job.shape, &job.wanted)).expect("there is room");
    free.take(&held, &job.shape);
}

/// The fewest nodes of an idle cluster that hold so many one-GPU workers, by trying every set of nodes.
fn fewest_by_enumeration(cluster: &Cluster, workers: u32) -> Option<u32> {
    let sets = 0..1_u32 << cluster.nodes.len();
    let holds = |set: &u32| {
        let gpus = |node: &trainyard_sched::model::Node| (set >> node.id.0 & 1) * node.gpu_count();
        cluster.nodes.iter().map(gpus).sum::<u32>() >= workers
    };
    sets.filter(holds).map(u32::count_ones).min()
}

proptest! {
    #[test]
    fn consolidation_uses_the_fewest_nodes_of_one_type(
        sizes in prop::collection::vec((1_u64..=8, 0_usize..2), 1..7),
        workers in 1_u32..30,
        taken in prop::collection::vec(1_u32..5, 0..4),
    ) {
        let mut cluster = Cluster::default();
        sizes.iter().for_each(|(gpus, t)| cluster.add(1, *gpus, ["k80", "v100"][*t]));
        let of_type = |name: &str| {
            let mut part = Cluster::default();
            sizes.iter().filter(|(_, t)| ["k80", "v100"][*t] == name).for_each(|(g, _)| part.add(1, *g, name));
            fewest_by_enumeration(&part, workers)
        };
        let job = common::plain_job(0, Time::ZERO, workers);
        let ask = Ask::minimum(&job.shape, &job.wanted);
        let fewest = [of_type("k80"), of_type("v100")];
        let placed = FreeCapacity::new(&cluster).place(Rule::Consolidate, &ask);
        prop_assert_eq!(placed.is_some(), fewest.iter().any(Option::is_some), "it fits an idle cluster");
        let mut free = FreeCapacity::new(&cluster);
        for (id, gpus) in (1..).zip(taken) {
            let other = common::plain_job(id, Time::ZERO, gpus);
            let _ = free.place(Rule::Spread, &Ask::minimum(&other.shape, &other.wanted));
        }
        for held in placed.into_iter().chain(free.place(Rule::Consolidate, &ask)) {
            let gpu_type = cluster.node(held.nodes()[0]).gpu_type.expect("it has GPUs");
            prop_assert_eq!(Some(held.nodes().len() as u32), fewest[usize::from(gpu_type.0)
                ^ usize::from(&*cluster.gpu_types[0].name == "v100")]);
        }
    }

    #[test]
    fn rules_that_use_any_room_find_it(
        sizes in prop::collection::vec(1_u64..=8, 1..7),
        taken in prop::collection::vec(1_u32..5, 0..6),
        workers in 1_u32..30,
    ) {
        let mut cluster = Cluster::default();
        sizes.iter().for_each(|gpus| cluster.add(1, *gpus, "v100"));
        let mut free = FreeCapacity::new(&cluster);
        for (id, gpus) in (1..).zip(taken) {
            let other = common::plain_job(id, Time::ZERO, gpus);
            let _ = free.place(Rule::Spread, &Ask::minimum(&other.shape, &other.wanted));
        }
        let enough = free.whole_gpus(GpuTypeSet::ALL) >= u64::from(workers);
        let job = common::plain_job(0, Time::ZERO, workers);
        for rule in RULES {
            let placed = free.clone().place(rule, &Ask::minimum(&job.shape, &job.wanted)).is_some();
            prop_assert!(!placed || enough, "{:?}", rule);
            prop_assert!(placed || !enough || !rule.uses_any_room(), "{:?}", rule);
        }
        let most = sizes.iter().sum::<u64>().min(u64::from(workers));
        prop_assert_eq!(u64::from(largest_gang(&cluster, &job.shape, &job.wanted)), most);
    }

    #[test]
    fn a_series_has_the_integral_of_its_steps(steps in prop::collection::vec((0_u64..3_000_000, -5_i32..6), 1..200)) {
        let mut series = Series::default();
        let (mut at, mut value, mut integral) = (0_u64, 0.0, 0.0);
        for (after_ms, change) in steps {
            integral += value * after_ms as f64 / 1e3;
            at += after_ms * 1000;
            value += f64::from(change);
            series.add(Time(at), f64::from(change));
        }
        prop_assert!((series.integral() - integral).abs() <= 1e-6 * integral.abs().max(1e6));
        prop_assert_eq!(series.value(), value);
        let means = series.means();
        prop_assert!(means.len() <= 1024 && means.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn a_percentile_is_the_least_value_that_enough_do_not_exceed(
        mut values in prop::collection::vec(-1e6_f64..1e6, 1..60),
        percent in 0.1_f64..100.0,
    ) {
        values.sort_by(f64::total_cmp);
        let enough = |v: &&f64| {
            let below = values.iter().filter(|other| *other <= *v).count() as f64;
            below >= percent / 100.0 * values.len() as f64
        };
        prop_assert_eq!(percentile(&values, percent), values.iter().find(enough).copied());
    }
}

/// Ranks by class alone, so that ties and order are the test's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(std::cmp::Reverse<PriorityClass>);

impl Rank for Key {}

fn key(view: &JobView, _: bool) -> Key {
    Key(std::cmp::Reverse(view.job.goals.class))
}

const GREEDY: Manner = Manner { rule: Rule::FirstFit, preempts: true };

struct Preemptive {
    ranked: Ranked<Key>,
    /// Whether it looks at less than it should: the planted fault.
    lazy: bool,
}

impl Policy for Preemptive {
    fn cadence(&self) -> Cadence {
        Cadence::OnEvents(Causes::CAPACITY)
    }
    fn decide(&mut self, seen: &Snapshot) -> Decision {
        self.ranked.follow(seen, key);
        let manner = Manner { preempts: !(self.lazy && seen.number % 5 == 4), ..GREEDY };
        self.ranked.fill(seen, manner, key);
        self.ranked.plan.finish()
    }
    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.ranked.follow(seen, key);
        self.ranked.fill(seen, GREEDY, key);
        self.ranked.explain(seen, job, Rule::FirstFit)
    }
}

/// Every job in the order of its rank gets its gang if that many devices are left.
fn greedy(seen: &Snapshot) -> Vec<JobId> {
    let up = seen.cluster.nodes.iter().filter(|node| node.state == NodeState::Up);
    let mut left: u32 = up.map(trainyard_sched::model::Node::gpu_count).sum();
    let mut jobs: Vec<_> = seen.jobs().map(|view| (key(view, false), view.id(), view)).collect();
    jobs.sort_by_key(|(key, id, _)| (*key, *id));
    let mut chosen = Vec::new();
    for (_, id, view) in jobs {
        let gang = (view.job.shape.minimum().gpu_milli / GPU) as u32;
        if gang <= left {
            left -= gang;
            chosen.push(id);
        }
    }
    chosen.sort_unstable();
    chosen
}

/// The first decision of a history that differs from the plain walk.
fn differs_from_the_plain_walk(seed: u64, lazy: bool) -> Option<String> {
    let mut dice = Dice::new(seed);
    let cluster = Cluster::uniform(1 + dice.roll(6) as u32, 1 + dice.roll(8), "v100");
    let course = Course { seed, steps: 250, mishaps: false, abilities: Abilities::NONE };
    let policy = Preemptive { ranked: Ranked::default(), lazy };
    let mut history = History::new(course, cluster, Tenants::default(), Box::new(policy));
    let mut make = |dice: &mut Dice, id, at| {
        let mut job = common::plain_job(id, at, 1 + dice.roll(9) as u32);
        job.goals.class = PriorityClass(dice.roll(12) as i16);
        Arc::new(job)
    };
    for _ in 0..course.steps {
        let step = history.advance(&mut make);
        let Some(decision) = &step.decision else { continue };
        assert!(step.faults.is_empty(), "{:?}", step.faults);
        let seen = history.core.snapshot(history.at);
        let chosen: Vec<JobId> = seen.jobs().filter(|v| v.target.is_some()).map(JobView::id).collect();
        if chosen != greedy(&seen) {
            return Some(format!("{chosen:?} instead of {:?}: {decision:?}", greedy(&seen)));
        }
    }
    None
}

#[test]
fn gangs_by_rank_with_preemption_equal_the_plain_greedy_walk() {
    for seed in 0..120 {
        assert_eq!(differs_from_the_plain_walk(seed, false), None, "seed {seed}");
    }
    assert!((0..20).any(|seed| differs_from_the_plain_walk(seed, true).is_some()), "the lazy walk is caught");
}

#[test]
fn a_whole_device_is_taken_from_somebody_who_holds_a_part_of_it() {
    let course = Course { seed: 1, steps: 0, mishaps: false, abilities: Abilities::ALL };
    let policy = Preemptive { ranked: Ranked::default(), lazy: false };
    let cluster = Cluster::uniform(1, 1, "v100");
    let mut core = History::new(course, cluster, Tenants::default(), Box::new(policy)).core;
    let mut part = common::plain_job(0, Time::ZERO, 1);
    part.shape = Parallelism::rigid(1, Resources { gpu_milli: 400, ..Resources::NONE });
    let mut whole = common::plain_job(1, Time(1), 1);
    whole.goals.class = PriorityClass(1);
    for job in [part, whole] {
        let (at, job) = (job.submitted, Arc::new(job));
        core.step(&Batch { at, events: vec![Event::Arrived { job }] });
    }
    let targets: Vec<bool> = core.state().jobs().map(|view| view.target.is_some()).collect();
    assert_eq!(targets, [false, true], "the higher class gets the device");
}

/// What is wrong with the orders of a step: something due was left out, or something undue was ordered.
fn undue(history: &History, step: &Step) -> Option<String> {
    let state = history.core.state();
    let mut naive = Naive::new(state.cluster());
    for view in state.jobs() {
        naive.book(&view.held, &view.job.shape, 1);
    }
    if let Some(node) = naive.over_committed() {
        return Some(format!("more of {node} is held than there is"));
    }
    let stop = |action: &Action| matches!(action, Action::Stop { .. });
    let first_start = step.actions.iter().position(|action| !stop(action)).unwrap_or(step.actions.len());
    if step.actions[first_start..].iter().any(stop) {
        return Some("a stop comes after a start".to_owned());
    }
    for action in &step.actions {
        let view = state.job(action.job())?;
        let fits = match action {
            Action::Start { allocation, attempt, .. } => {
                *allocation == view.target && *attempt == view.attempt
            }
            Action::Stop { .. } => view.held != view.target,
            Action::Resize { .. } | Action::Merge { .. } => false,
        };
        if !fits {
            return Some(format!("undue: {action:?}"));
        }
    }
    for view in state.jobs().filter(|view| view.held != view.target) {
        match view.phase {
            Phase::Starting | Phase::Running => return Some(format!("{} should be told to stop", view.id())),
            Phase::Stopping => {}
            Phase::Waiting => {
                let down =
                    view.target.nodes().iter().any(|n| state.cluster().node(*n).state == NodeState::Down);
                naive.book(&view.target, &view.job.shape, 1);
                let free = naive.over_committed().is_none();
                naive.book(&view.target, &view.job.shape, -1);
                if free && !down {
                    return Some(format!("{} could start", view.id()));
                }
            }
        }
    }
    None
}

#[test]
fn after_a_step_nothing_due_is_left_and_nothing_undue_was_ordered() {
    let mut starts = BTreeMap::new();
    for seed in 0..80 {
        let _trying = Trying(format!("seed {seed}"));
        let mut dice = Dice::new(seed);
        let (cluster, tenants) = (common::cluster(&mut dice), common::tenants(&mut dice));
        let course = Course {
            seed,
            steps: 80,
            mishaps: true,
            abilities: Abilities::SHARED_GPUS | Abilities::MIXED_GPU_TYPES,
        };
        let policy = Preemptive { ranked: Ranked::default(), lazy: false };
        let mut history = History::new(course, cluster.clone(), tenants.clone(), Box::new(policy));
        let mut make = |dice: &mut Dice, id, at| common::job(dice, id, at, &cluster, &tenants);
        for _ in 0..course.steps {
            let step = history.advance(&mut make);
            assert_eq!(undue(&history, &step), None);
            // Leaving out an order, or ordering one twice, is seen.
            if let Some(Action::Start { job, .. }) = step.actions.last() {
                let twice = Step {
                    actions: vec![Action::Stop {
                        job: *job,
                        attempt: trainyard_sched::model::Attempt(1),
                        how: trainyard_sched::control::How::Save,
                    }],
                    ..Step::default()
                };
                assert!(undue(&history, &twice).is_some(), "an undue stop is seen");
                *starts.entry(seed).or_insert(0) += 1;
            }
        }
    }
    assert!(starts.len() > 40, "most histories start something");
}

#[test]
fn tasks_of_one_job_on_one_device_count_together() {
    let cluster = Cluster::uniform(1, 1, "v100");
    let part = |gpu_milli| Resources { gpu_milli, ..Resources::NONE };
    let task = |gpu_milli| Task {
        demand: part(gpu_milli),
        parameters: 1,
        replica: Some(0),
        compute_s: 1.0,
        state_bytes: 0,
    };
    let graph = TaskGraph::new(vec![task(300), task(300)], Vec::new(), None, false).expect("two tasks");
    let shape = Parallelism::TaskGraph(graph);
    let on_device = |task, share_milli| Placement {
        copy: CopyId(0),
        task: TaskId(task),
        node: NodeId(0),
        count: 1,
        gpus: GpuSet { devices: 1, share_milli },
    };
    let both = Allocation::new(vec![on_device(0, 300), on_device(1, 300)]);
    for (taken, fits) in [(400, true), (500, false), (700, false)] {
        let mut free = FreeCapacity::new(&cluster);
        let other = Parallelism::rigid(1, part(taken));
        free.take(&Allocation::new(vec![on_device(0, taken as u16)]), &other);
        assert_eq!(free.has_room_for(&both, &shape), fits, "{taken} are taken");
        assert_eq!(free.keep(&both, &shape), fits, "{taken} are taken");
    }
}
