//! What every policy in the table must keep over whole runs of random small workloads.

#[path = "../../sched/tests/common/mod.rs"]
mod common;
mod world;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use common::{Dice, Trying};
use trainyard_sched::control::{Backend, Core, Step};
use trainyard_sched::model::{Allocation, Cluster, GPU, JobId, Time};
use trainyard_sched::policies;
use trainyard_sched::view::Phase;
use trainyard_sim::workload::Workload;
use world::World;

/// More steps than this at one instant are going round in a circle.
const MOST_STEPS_AT_ONCE: u32 = 200;

/// Follows a run and panics where something must not be.
struct Watch {
    costs_nothing: bool,
    at: Time,
    steps_at_once: u32,
    steps: u64,
    preemptions: BTreeMap<JobId, u32>,
    before: BTreeMap<JobId, Allocation>,
}

impl Watch {
    fn new(costs_nothing: bool) -> Self {
        Self {
            costs_nothing,
            at: Time::ZERO,
            steps_at_once: 0,
            steps: 0,
            preemptions: BTreeMap::new(),
            before: BTreeMap::new(),
        }
    }

    fn step(&mut self, core: &Core, at: Time, step: &Step, holdings: &BTreeMap<JobId, Allocation>) {
        if at > self.at {
            (self.at, self.steps_at_once) = (at, 0);
        }
        self.steps_at_once += 1;
        self.steps += 1;
        assert!(self.steps_at_once < MOST_STEPS_AT_ONCE, "a circle of steps at {at}");
        assert!(self.steps < 60_000, "a run without an end");
        self.no_eviction_in_vain(step);
        over_commitment(core, holdings);
        self.before = core.state().jobs().map(|view| (view.id(), view.target.clone())).collect();
    }

    /// Whoever loses its devices loses something on one of its nodes to a job that is placed there by the
    /// same decision.
    fn no_eviction_in_vain(&mut self, step: &Step) {
        let Some(decision) = &step.decision else { return };
        let given: Vec<_> = decision.targets.iter().flat_map(|(_, target)| target.placements()).collect();
        for (id, _) in decision.targets.iter().filter(|(_, target)| target.is_none()) {
            let had = self.before.get(id).cloned().unwrap_or_default();
            // CPUs and memory have no names, so it is asked of nodes.
            let taken = had.placements().iter().any(|p| given.iter().any(|q| q.node == p.node));
            assert!(taken || had.is_none(), "{id} loses {had} and nobody gets it");
            let times = self.preemptions.entry(*id).or_insert(0);
            *times += 1;
            assert!(*times < 1000, "{id} is preempted without an end");
        }
    }

    /// Called when time is about to go on.
    fn instant_ends(&self, core: &Core) {
        if !self.costs_nothing {
            return;
        }
        let unsettled: Vec<_> = core.state().unsettled().collect();
        assert!(unsettled.is_empty(), "moving costs nothing, yet {unsettled:?} are not where they shall be");
        let busy = core.state().jobs().find(|v| matches!(v.phase, Phase::Starting | Phase::Stopping));
        assert!(busy.is_none(), "moving costs nothing, yet it takes time: {busy:?}");
    }
}

/// Panics if more of a node is really held than it has.
fn over_commitment(core: &Core, holdings: &BTreeMap<JobId, Allocation>) {
    let cluster = core.state().cluster();
    let mut used: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let mut amounts = vec![[0_u64; 4]; cluster.nodes.len()];
    for (id, held) in holdings {
        let Some(view) = core.state().job(*id) else { continue };
        for p in held.placements() {
            let demand = view.job.shape.demand_of(p.task).expect("a placed task exists").amounts();
            for (sum, each) in amounts[p.node.index()].iter_mut().zip(demand) {
                *sum += each * u64::from(p.count);
            }
            for i in (0..64).filter(|i| p.gpus.devices >> i & 1 == 1) {
                *used.entry((p.node.0, i)).or_insert(0) += u64::from(p.gpus.share_milli);
            }
        }
    }
    let twice = used.iter().find(|(_, share)| **share > GPU);
    assert!(twice.is_none(), "a device is over-committed: {twice:?}");
    for (node, sums) in cluster.nodes.iter().zip(&amounts) {
        let over = sums.iter().zip(node.holds.amounts()).any(|(sum, holds)| *sum > holds);
        assert!(!over, "{} is over-committed: {sums:?}", node.id);
    }
}

/// Runs a world under observation; everything must end.
fn observe(world: &World, policy: &str, costs_nothing: bool) {
    let (mut backend, mut core) = world.begin(policy);
    let mut watch = Watch::new(costs_nothing);
    let (mut wake, mut left) = (None, world.workload.jobs.len());
    while left > 0 {
        let before = backend.now();
        let Some(batch) = backend.wait(wake) else { break };
        if batch.at > before {
            watch.instant_ends(&core);
        }
        let step = core.step(&batch);
        left -= step.ended.len();
        step.actions.iter().for_each(|action| backend.perform(action));
        wake = step.wake;
        watch.step(&core, batch.at, &step, &backend.holdings());
        core.state().assert_consistent();
    }
    assert_eq!(left, 0, "every job that can run has ended");
}

#[test]
fn runs_end_without_circles_vain_evictions_or_over_commitment() {
    for entry in policies::ALL {
        let rule = common::rule_of(&(entry.defaults)());
        for seed in 0..120 {
            for costs in [false, true] {
                let _trying = Trying(format!("{} with seed {seed}, costs {costs}", entry.name));
                observe(&World::random(seed, rule, costs), entry.name, !costs);
            }
        }
    }
}

#[test]
fn the_watch_sees_what_must_not_be() {
    let world = World::random(3, trainyard_sched::place::Rule::Pack, true);
    let wrong = (0..30).any(|seed| {
        let costly = World::random(seed, trainyard_sched::place::Rule::Pack, true);
        catch_unwind(AssertUnwindSafe(|| observe(&costly, "srtf", true))).is_err()
    });
    assert!(wrong, "moves that take time are not taken for moves that cost nothing");
    let (mut backend, mut core) = world.begin("fifo");
    let mut last = (Time::ZERO, Step::default());
    for _ in 0..8 {
        let batch = backend.wait(None).expect("something happens");
        last = (batch.at, core.step(&batch));
        last.1.actions.iter().for_each(|action| backend.perform(action));
    }
    let holdings = backend.holdings();
    let (id, held) = holdings.iter().find(|(_, held)| held.gpu_milli() > 0).expect("somebody holds a GPU");
    let fails = |check: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(check)).is_err();
    assert!(fails(&mut || {
        let thief = core.state().jobs().map(|view| view.id()).find(|other| other != id).expect("another job");
        let mut robbed = holdings.clone();
        robbed.insert(thief, held.clone());
        let mut robbed_again = robbed;
        for view in core.state().jobs() {
            robbed_again.insert(view.id(), held.clone());
        }
        over_commitment(&core, &robbed_again);
    }));
    assert!(fails(&mut || {
        let mut watch = Watch::new(true);
        watch.before = [(*id, held.clone())].into();
        let decision = trainyard_sched::decide::Decision {
            targets: vec![(*id, Allocation::NONE)],
            ..Default::default()
        };
        watch.no_eviction_in_vain(&Step { decision: Some(decision), ..Step::default() });
    }));
    assert!(fails(&mut || {
        let mut watch = Watch::new(true);
        (0..=MOST_STEPS_AT_ONCE).for_each(|_| watch.step(&core, last.0, &Step::default(), &holdings));
    }));
}

/// A wide job and a stream of narrow ones that alone would keep the cluster busy for ever.
fn wide_job_starts_s(policy: &str) -> (f64, f64) {
    let mut lines = vec![(5, 8, 100)];
    lines.extend((0..400).map(|i| (i * 10, 2, 38)));
    lines.sort_by_key(|(submitted, ..)| *submitted);
    let world = World::of_gangs(Cluster::uniform(1, 8, "v100"), &lines);
    let journal = world.journal(policy);
    let mut starts = journal.records.iter().flat_map(|record| {
        record.step.actions.iter().filter_map(move |action| match action {
            trainyard_sched::control::Action::Start { allocation, .. } if allocation.workers() == 8 => {
                Some(record.at.as_secs_f64())
            }
            _ => None,
        })
    });
    (starts.next().expect("it starts in the end"), 3990.0)
}

#[test]
fn nobody_starves_where_that_is_promised() {
    for entry in policies::ALL {
        let built = (entry.build)(&toml::Table::new()).expect("defaults are fine");
        let (start, last_arrival) = wide_job_starts_s(entry.name);
        if built.is_starvation_free() {
            assert!(start < last_arrival, "{}: the wide job starts at {start} s only", entry.name);
        }
    }
    let (start, last_arrival) = wide_job_starts_s("fifo-skip");
    assert!(start > last_arrival, "a policy that promises nothing lets it starve: {start} s");
}

/// When each job first starts.
fn starts(world: &World, policy: &str) -> BTreeMap<JobId, Time> {
    let mut starts = BTreeMap::new();
    for record in world.journal(policy).records {
        for action in record.step.actions {
            if let trainyard_sched::control::Action::Start { job, .. } = action {
                starts.entry(job).or_insert(record.at);
            }
        }
    }
    starts
}

/// The head of the queue that a later submission delays, if there is one.
fn delayed_head(policy: &str, seed: u64) -> Option<String> {
    let mut dice = Dice::new(seed);
    let cluster = Cluster::uniform(1 + dice.roll(3) as u32, 1 + dice.roll(4), "v100");
    let gpus = cluster.gpu_count();
    let mut lines: Vec<_> = (0..4 + dice.roll(12))
        .map(|_| (dice.roll(100), 1 + dice.roll(gpus) as u32, 1 + dice.roll(60)))
        .collect();
    lines.sort_by_key(|(submitted, ..)| *submitted);
    lines.dedup_by_key(|(submitted, ..)| *submitted);
    for known in 1..lines.len() {
        let now = Time::from_secs(lines[known].0);
        let without = starts(&World::of_gangs(cluster.clone(), &lines[..known]), policy);
        let with = starts(&World::of_gangs(cluster.clone(), &lines[..=known]), policy);
        let head = (0..known as u32).map(JobId).find(|id| without[id] > now);
        if let Some(head) = head.filter(|head| with[head] > without[head]) {
            return Some(format!("{head} waits until {} instead of {}", with[&head], without[&head]));
        }
    }
    None
}

#[test]
fn a_later_submission_never_delays_the_head_of_an_easy_queue() {
    if policies::find("easy").is_ok() {
        for seed in 0..150 {
            assert_eq!(delayed_head("easy", seed), None, "seed {seed}");
        }
    }
    let delayed = (0..50).any(|seed| delayed_head("fifo-skip", seed).is_some());
    assert!(delayed, "passing by without a reservation delays the head");
    assert!((0..50).all(|seed| delayed_head("fifo", seed).is_none()), "strict order never does");
}

#[test]
fn the_same_seed_gives_the_same_bytes_again_and_in_eight_threads_at_once() {
    for entry in policies::ALL {
        let rule = common::rule_of(&(entry.defaults)());
        for seed in 0..8 {
            let lines = || World::random(seed, rule, true).journal(entry.name).lines();
            let first = lines();
            assert!(first == lines(), "{} with seed {seed}, again", entry.name);
            let all = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(lines)).collect();
                threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
            });
            assert!(all.iter().all(|other| *other == first), "{} with seed {seed}, in threads", entry.name);
        }
    }
}

#[test]
fn honest_declarations_are_what_jobs_take() {
    let world = World::of_gangs(Cluster::uniform(1, 2, "v100"), &[(0, 1, 7), (0, 1, 9)]);
    let truths = world.workload.jobs.iter().map(|(job, truth)| (job, Workload::honest(truth)));
    assert!(truths.into_iter().all(|(job, honest)| job.declared == honest));
}
