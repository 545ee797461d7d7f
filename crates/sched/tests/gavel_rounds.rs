//! Gavel's rounds over jobs that are not as they declared, clusters that lose nodes, and pairs that do not fit: each case once
//! went wrong.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::plain_job;
use trainyard_sched::control::{Action, Batch, Core, Event, How, Outcome, Settings};
use trainyard_sched::decide::{Abilities, Reason, Values};
use trainyard_sched::model::{
    Attempt, Cluster, Declared, Goals, GpuTypeId, Job, JobId, ModelId, NodeId, NodeState, Parallelism, Rate,
    RateBeside, Rates, Resources, Seed, Span, Tenants, Time,
};
use trainyard_sched::policies;
use trainyard_sched::view::Phase;

/// What a job really is.
struct Life {
    /// Iterations that it has to do.
    total: f64,
    /// Iterations done, and up to when that is counted.
    done: (f64, Time),
    per_s: f64,
    began: Option<Time>,
    ended: Option<Time>,
    /// Whether it ever shared its devices.
    shared: bool,
    /// The nodes that it was on.
    nodes: Vec<u32>,
}

/// A small cluster on which jobs go as their rates say, for as long as they really last.
struct World {
    core: Core,
    at: Time,
    script: Vec<(Time, Event)>,
    lives: BTreeMap<JobId, Life>,
    steps: u32,
}

fn s(seconds: u64) -> Time {
    Time::from_secs(seconds)
}

/// A job of one GPU with rates by GPU type, and so many iterations as it says.
fn job(id: u32, at: u64, iterations: f64, rates: &[f64]) -> Job {
    let rate = |(i, per_s): (usize, &f64)| Rate {
        gpu_type: GpuTypeId(i as u8),
        workers: 1,
        spread: false,
        iterations_per_s: *per_s,
    };
    let rates = Rates::new(rates.iter().enumerate().map(rate).collect(), Vec::new()).shared();
    Job {
        declared: Declared { iterations: Some(iterations), rates, ..Declared::default() },
        ..plain_job(id, s(at), 1)
    }
}

/// The same of a model, with how fast it goes beside others on the first type.
fn of_model(id: u32, at: u64, iterations: f64, per_s: f64, model: u32, beside: &[(u32, f64)]) -> Job {
    let mut job = job(id, at, iterations, &[per_s]);
    let beside = beside.iter().map(|(other, per_s)| RateBeside {
        other: ModelId(*other),
        gpu_type: GpuTypeId(0),
        workers: 1,
        iterations_per_s: *per_s,
    });
    let alone = job.declared.rates.as_ref().map_or_else(Vec::new, |rates| rates.alone().to_vec());
    job.declared.rates = Rates::new(alone, beside.collect()).shared();
    job.model = Some(ModelId(model));
    job
}

fn cluster(gpu_types: &[&str]) -> Cluster {
    let mut cluster = Cluster::default();
    gpu_types.iter().for_each(|gpu_type| cluster.add(1, 1, gpu_type));
    cluster
}

impl World {
    fn new(cluster: Cluster, (policy, parameters): (&str, &str), jobs: Vec<Job>) -> Self {
        let table: toml::Table = parameters.parse().expect("parameters are TOML");
        let policy = policies::build(policy, &table).expect("the policy exists");
        let settings = Settings { seed: Seed(0), abilities: Abilities::ALL, strict: true };
        let mut world = Self {
            core: Core::new(cluster, Tenants::default(), policy, settings),
            at: Time::ZERO,
            script: Vec::new(),
            lives: BTreeMap::new(),
            steps: 0,
        };
        jobs.into_iter().for_each(|job| {
            let total = job.declared.iterations.expect("it says");
            world.lasting(job, total);
        });
        world
    }

    /// Adds a job that really has so many iterations.
    fn lasting(&mut self, job: Job, total: f64) {
        let life = Life {
            total,
            done: (0.0, Time::ZERO),
            per_s: 0.0,
            began: None,
            ended: None,
            shared: false,
            nodes: Vec::new(),
        };
        self.lives.insert(job.id, life);
        self.script.push((job.submitted, Event::Arrived { job: Arc::new(job) }));
    }

    fn node(&mut self, at: u64, node: u32, state: NodeState) {
        self.script.push((s(at), Event::NodeChanged { node: NodeId(node), state }));
    }

    /// Goes on until some time, or until all have ended, in at most so many steps.
    fn run(&mut self, until: u64, most: u32) {
        self.script.sort_by_key(|(at, _)| *at);
        let mut events: Vec<Event> = Vec::new();
        while self.at <= s(until) && self.lives.values().any(|life| life.ended.is_none()) {
            self.steps += 1;
            assert!(self.steps <= most, "more than {most} steps by {}", self.at);
            while self.script.first().is_some_and(|(at, _)| *at <= self.at) {
                let (_, event) = self.script.remove(0);
                self.lose(&event, &mut events);
                events.insert(0, event);
            }
            let step = self.core.step(&Batch { at: self.at, events: std::mem::take(&mut events) });
            for action in &step.actions {
                self.perform(action, &mut events);
            }
            if !events.is_empty() {
                continue;
            }
            let mut next = step.wake.into_iter().chain(self.script.first().map(|(at, _)| *at)).min();
            for (id, life) in self.lives.iter().filter(|(_, life)| life.per_s > 0.0) {
                let end = life.done.1 + Span::from_secs_f64((life.total - life.done.0).max(0.0) / life.per_s);
                if next.is_none_or(|next| end < next) {
                    (next, events) = (Some(end), vec![self.end(*id)]);
                }
            }
            let Some(next) = next else { return };
            self.go_on(next);
            for event in &events {
                let Event::Finished { job, .. } = event else { continue };
                let life = self.lives.get_mut(job).expect("it is there");
                (life.ended, life.per_s) = (Some(next), 0.0);
            }
        }
    }

    fn end(&self, job: JobId) -> Event {
        let attempt = self.core.state().job(job).expect("it runs").attempt;
        Event::Finished { job, attempt, outcome: Outcome::Completed }
    }

    fn go_on(&mut self, to: Time) {
        self.at = self.at.max(to);
        for life in self.lives.values_mut() {
            life.done.0 += life.per_s * self.at.since(life.done.1).as_secs_f64();
            life.done.1 = self.at;
        }
    }

    /// Whoever was on a node that goes down is lost.
    fn lose(&mut self, event: &Event, events: &mut Vec<Event>) {
        let Event::NodeChanged { node, state: NodeState::Down } = event else { return };
        for view in self.core.state().jobs().filter(|view| view.held.touches(*node)) {
            let life = self.lives.get_mut(&view.id()).expect("it is there");
            life.per_s = 0.0;
            let (job, attempt, iterations) = (view.id(), view.attempt, life.done.0);
            events.push(Event::Lost { job, attempt, iterations, node: None });
        }
    }

    fn perform(&mut self, action: &Action, events: &mut Vec<Event>) {
        match action {
            Action::Start { job, attempt, allocation, .. } => {
                let life = self.lives.get_mut(job).expect("it is there");
                life.began = life.began.or(Some(self.at));
                life.nodes.extend(allocation.nodes().iter().map(|node| node.0));
                events.push(self.started(*job, *attempt));
            }
            Action::Resize { job, attempt, allocation, .. } => {
                let Event::Started { iterations, speed, .. } = self.started(*job, *attempt) else { return };
                let (job, attempt, allocation) = (*job, *attempt, allocation.clone());
                events.push(Event::Resized { job, attempt, allocation, iterations, speed });
            }
            Action::Stop { job, attempt, how: How::Save | How::Finish, .. } => {
                let life = self.lives.get_mut(job).expect("it is there");
                life.per_s = 0.0;
                events.push(Event::Stopped { job: *job, attempt: *attempt, iterations: life.done.0 });
            }
            other => panic!("{other:?}"),
        }
        self.pace();
    }

    fn started(&mut self, job: JobId, attempt: Attempt) -> Event {
        self.pace();
        let life = &self.lives[&job];
        Event::Started { job, attempt, iterations: life.done.0, speed: life.per_s }
    }

    /// How fast everybody goes from now on, by what they shall hold.
    fn pace(&mut self) {
        let state = self.core.state();
        for view in state.jobs().filter(|view| view.phase != Phase::Stopping) {
            let life = self.lives.get_mut(&view.id()).expect("it is there");
            life.per_s = 0.0;
            let Some(place) = view.target.placements().first() else { continue };
            let Some(gpu_type) = state.cluster().node(place.node).gpu_type else {
                life.per_s = 1.0;
                continue;
            };
            let rates = view.job.declared.rates.as_ref();
            life.per_s = rates.and_then(|rates| rates.per_s(gpu_type, 1, false)).unwrap_or(1.0);
            let beside = |other: &&trainyard_sched::view::JobView| {
                other.id() != view.id() && other.target.is_on_same_devices(&view.target)
            };
            if let Some(other) = state.jobs().filter(|v| v.target.is_some()).find(beside) {
                life.shared = true;
                let model = other.job.model.unwrap_or(ModelId(u32::MAX));
                life.per_s = rates.and_then(|rates| rates.beside_per_s(model, gpu_type, 1)).unwrap_or(0.0);
            }
        }
    }

    fn began(&self, id: u32) -> u64 {
        self.lives[&JobId(id)].began.unwrap_or(Time::NEVER).0 / 1_000_000
    }

    fn ended(&self, id: u32) -> u64 {
        self.lives[&JobId(id)].ended.unwrap_or(Time::NEVER).0 / 1_000_000
    }
}

const COMPATIBLE: (&str, &str) = ("gavel", "compatibility = true");

#[test]
fn jobs_that_last_longer_than_they_said_do_not_hold_up_rounds() {
    let mut world = World::new(cluster(&["v100"]), COMPATIBLE, vec![job(1, 10, 500.0, &[1.0])]);
    world.lasting(job(0, 0, 100.0, &[1.0]), 3000.0);
    world.run(20_000, 300);
    assert!(world.ended(0) < 10_000 && world.ended(1) < 10_000, "{} {}", world.ended(0), world.ended(1));
}

#[test]
fn nobody_wakes_up_while_nothing_can_change() {
    for parameters in ["compatibility = true", "round_end = 'last_slice'"] {
        let jobs = vec![job(0, 0, 1000.0, &[1.0])];
        let mut world = World::new(cluster(&["v100"]), ("gavel", parameters), jobs);
        world.node(100, 0, NodeState::Down);
        world.node(3700, 0, NodeState::Up);
        world.run(20_000, 100);
        assert!(world.ended(0) < 8000, "{parameters}: it ends at {}", world.ended(0));
    }
}

#[test]
fn jobs_without_gpus_do_not_hold_up_rounds() {
    let mut apart = job(0, 0, 360_000.0, &[]);
    apart.shape = Parallelism::rigid(1, Resources::cpus(1));
    for parameters in ["compatibility = true", "round_end = 'last_slice'", ""] {
        let jobs = vec![apart.clone(), job(1, 10, 100.0, &[1.0])];
        let mut world = World::new(cluster(&["v100"]), ("gavel", parameters), jobs);
        world.run(5000, 200);
        assert!(world.began(1) <= 2400, "{parameters}: it begins at {}", world.began(1));
    }
}

#[test]
fn of_everybody_who_starts_inside_a_round_that_is_said() {
    let jobs = vec![job(0, 0, 100.0, &[1.0]), job(1, 0, 1000.0, &[1.0]), job(2, 5, 100.0, &[1.0])];
    let mut world = World::new(cluster(&["v100", "v100"]), ("gavel", "start_at_events = true"), jobs);
    world.run(5000, 200);
    assert_eq!((world.began(2), world.ended(2), world.ended(1)), (100, 200, 1000));
}

#[test]
fn pairs_that_do_not_fit_together_take_turns() {
    let known = |model: u32, beside| move |id| of_model(id, 0, 500.0, 1.0, model, beside);
    let unknown = |id| job(id, 0, 500.0, &[1.0]);
    for parameters in ["", "parting = 'sum'", "compatibility = true"] {
        let pairs = [
            vec![known(0, &[(1, 0.0)])(0), known(1, &[(0, 0.9)])(1)],
            vec![unknown(0), unknown(1)],
            vec![unknown(0), known(1, &[(1, 0.9)])(1)],
        ];
        for jobs in pairs {
            let mut world = World::new(cluster(&["v100"]), ("gandiva", parameters), jobs);
            world.run(20_000, 300);
            assert!(world.ended(0) < 3000 && world.ended(1) < 3000, "{parameters}");
            assert!(!world.lives[&JobId(0)].shared, "{parameters}");
        }
    }
}

#[test]
fn nothing_is_owed_to_pairs_that_may_not_run() {
    let pair = |id| of_model(id, 0, 1000.0, 1.0, 0, &[(0, 0.9)]);
    let with_cpus = |id, cpus: u64| {
        let worker = Resources { cpu_milli: cpus * 1000, ..Resources::gpus(1) };
        Job { shape: Parallelism::rigid(1, worker), ..pair(id) }
    };
    let of_class = |id, class| {
        let class = trainyard_sched::model::PriorityClass(class);
        Job { goals: Goals { class, ..Goals::default() }, ..pair(id) }
    };
    for jobs in [vec![with_cpus(0, 4), with_cpus(1, 8)], vec![of_class(0, 0), of_class(1, 0)]] {
        let is_alike = jobs[0].shape == jobs[1].shape;
        let rival = of_model(2, 0, 100_000.0, 1.0, 1, &[]);
        let jobs = jobs.into_iter().chain([rival]).collect();
        let mut world = World::new(cluster(&["v100"]), ("gavel", "packed = true"), jobs);
        world.run(20_000, 1000);
        assert!(world.ended(0) < 10_000 && world.ended(1) < 10_000, "{} {}", world.ended(0), world.ended(1));
        assert_eq!(world.lives[&JobId(0)].shared, is_alike, "those that are alike share");
    }
}

#[test]
fn jobs_leave_types_that_have_no_gpus_left() {
    for policy in [("gavel", "objective = 'fifo'\naware = false"), ("allox", "")] {
        let jobs = vec![job(0, 0, 1000.0, &[2.0, 1.0])];
        let mut world = World::new(cluster(&["v100", "k80"]), policy, jobs);
        world.run(50, 10);
        let first = world.lives[&JobId(0)].nodes[0];
        world.node(100, first, NodeState::Down);
        world.run(10_000, 200);
        assert_eq!(world.lives[&JobId(0)].nodes, [first, 1 - first], "{policy:?}");
        assert!(world.ended(0) < 3000, "{policy:?}: it ends at {}", world.ended(0));
    }
}

#[test]
fn jobs_that_may_not_be_moved_share_with_nobody() {
    for policy in [("gavel", "packed = true"), ("gandiva", "")] {
        let pair = |id| of_model(id, 0, 1000.0, 1.0, 0, &[(0, 0.9)]);
        let bound = Job { goals: Goals { movable: false, ..Goals::default() }, ..pair(0) };
        let mut world = World::new(cluster(&["v100"]), policy, vec![bound, pair(1), pair(2)]);
        world.run(20_000, 300);
        let shared = [0, 1, 2].map(|id| world.lives[&JobId(id)].shared);
        assert_eq!(shared, [false, true, true], "{policy:?}");
    }
}

#[test]
fn what_is_left_over_goes_to_the_faster_type() {
    let jobs = vec![job(0, 0, 2000.0, &[1.0, 3.0]), job(1, 0, 2000.0, &[0.5, 3.0])];
    let mut world = World::new(cluster(&["k80", "k80", "v100"]), ("gavel", "objective = 'cost'"), jobs);
    world.run(50, 10);
    assert_eq!(world.lives[&JobId(1)].nodes, [2], "it is owed nothing, and the V100 idles");
}

#[test]
fn a_margin_that_cannot_be_kept_does_not_cost_the_deadlines() {
    let due = |id| {
        let goals = Goals { deadline: Some(s(1000)), ..Goals::default() };
        Job { goals, ..job(id, 0, 400.0, &[1.0]) }
    };
    let jobs = vec![due(0), due(1), job(2, 0, 1e6, &[10.0])];
    let mut world = World::new(cluster(&["v100"]), ("gavel", "objective = 'cost'\nround_s = 60.0"), jobs);
    world.run(1500, 300);
    assert!(world.ended(0).max(world.ended(1)) <= 1120, "{} {}", world.ended(0), world.ended(1));
}

#[test]
fn one_deadline_that_cannot_be_kept_does_not_cost_the_others() {
    let due = |id, iterations, at| {
        let goals = Goals { deadline: Some(s(at)), ..Goals::default() };
        Job { goals, ..job(id, 0, iterations, &[1.0]) }
    };
    // One of the first two can be kept, and then the third as well.
    let jobs = vec![due(0, 700.0, 900), due(1, 800.0, 900), due(2, 300.0, 2500), job(3, 0, 1e6, &[10.0])];
    let mut world = World::new(cluster(&["v100"]), ("gavel", "objective = 'cost'\nround_s = 20.0"), jobs);
    world.run(4000, 1000);
    assert!(world.ended(2) <= 2560, "{}", world.ended(2));
    assert!(world.ended(0).min(world.ended(1)) <= 960, "{} {}", world.ended(0), world.ended(1));
}

#[test]
fn of_a_type_of_which_nothing_is_known_the_others_say_something() {
    let jobs = vec![job(0, 0, 10.0, &[0.03, 0.02])];
    let mut world = World::new(cluster(&["v100", "p100", "k80"]), ("gavel", "objective = 'fifo'"), jobs);
    world.run(50, 10);
    assert_eq!(world.lives[&JobId(0)].nodes, [0], "a hundred times as fast as known is no guess");
}

#[test]
fn a_pair_that_had_its_time_makes_way() {
    // The pair is owed 5/9 of the time, the other one 4/9.
    let jobs = vec![
        of_model(0, 0, 20.0, 1.0, 0, &[(1, 0.8)]),
        of_model(1, 0, 40.0, 1.0, 1, &[(0, 0.8)]),
        of_model(2, 0, 40.0, 1.0, 2, &[]),
    ];
    let mut world = World::new(cluster(&["v100"]), ("gavel", "packed = true\nround_s = 10.0"), jobs);
    world.run(1000, 100);
    // Its first member has 16 of 20 iterations after two rounds, between which the other one ran.
    assert_eq!((world.began(2), world.ended(0)), (10, 45));
}

#[test]
fn pairs_outlast_a_time_without_contention() {
    // Of three models each pair pays; a GPU is down, so the pairs are drawn; it comes back and goes again.
    let all: Vec<(u32, f64)> = (0..4).map(|other| (other, 0.9)).collect();
    let jobs = (0..4).map(|id| of_model(id, 0, 50_000.0, 1.0, id, &all)).collect();
    let mut world = World::new(cluster(&["v100", "v100", "v100", "v100"]), ("gandiva", ""), jobs);
    (2..4).for_each(|node| world.node(100, node, NodeState::Down));
    world.run(3000, 300);
    let pairs = |world: &World| {
        let views: Vec<_> = world.core.state().jobs().collect();
        let mut pairs = Vec::new();
        for (i, a) in views.iter().enumerate() {
            let beside = views[i + 1..].iter().filter(|b| b.target.is_on_same_devices(&a.target));
            pairs.extend(beside.map(|b| (a.id(), b.id())));
        }
        pairs
    };
    let before = pairs(&world);
    assert_eq!(before.len(), 2, "{before:?}");
    for seed in 0..4 {
        let begin = 4000 + 4000 * seed;
        (2..4).for_each(|node| world.node(begin, node, NodeState::Up));
        world.run(begin + 1500, 2000);
        assert_eq!(pairs(&world), [], "there is room for all");
        (2..4).for_each(|node| world.node(begin + 2000, node, NodeState::Down));
        world.run(begin + 3500, 2000);
        assert_eq!(pairs(&world), before, "the same find each other again");
    }
}

#[test]
fn gangs_that_allox_leaves_out_are_told_so_and_run_while_gpus_idle() {
    let two = Job { shape: Parallelism::gang(2), ..job(0, 0, 100.0, &[]) };
    let mut cluster = Cluster::default();
    cluster.add(1, 2, "v100");
    let ones = [(1, 10, 1000.0), (2, 10, 500.0)].map(|(id, at, iterations)| job(id, at, iterations, &[1.0]));
    let jobs = vec![two].into_iter().chain(ones).collect();
    let mut world = World::new(cluster, ("allox", "round_s = 30.0"), jobs);
    world.run(9, 100);
    let said = |world: &World| *world.core.state().verdict(JobId(0)).reason();
    assert_eq!(said(&world), Reason::Chosen, "there is nobody else");
    world.run(100, 100);
    let left_out = Reason::OwedNothing { gpus: 2, most: 1 };
    assert_eq!(said(&world), left_out);
    // Also between two rounds, and though one of the GPUs idles.
    for at in [45, 630] {
        world.run(at, 200);
        let told = world.core.explain(s(at), JobId(0)).map(|verdict| *verdict.reason());
        assert_eq!(told, Some(left_out), "at {at}");
    }
    world.run(5000, 400);
    assert_eq!((world.ended(1), world.ended(2)), (1030, 530));
    assert_eq!(world.ended(0), 1100, "30 s before they came, and the rest when both are done");
}

/// Rates that differ by hundreds of orders of magnitude, as a broken profile may have them.
#[test]
fn shares_are_worked_out_whatever_the_rates() {
    let odd = [[1e308, 1e308, 1e308], [1e308, 1e-308, 1.0], [1e-300, 1e-300, 1e-300], [1e150, 1e150, 1e-150]];
    let gavel = policies::ALL.iter().find(|entry| entry.name == "gavel").expect("it exists");
    let objective = gavel.parameters.iter().find(|parameter| parameter.name == "objective");
    let Some(Values::Choice(objectives)) = objective.map(|objective| objective.values) else { panic!() };
    for (objective, rates) in objectives.iter().flat_map(|objective| odd.map(|rates| (objective, rates))) {
        let table: toml::Table = format!("objective = '{objective}'").parse().expect("it is TOML");
        let policy = policies::build("gavel", &table).expect("it exists");
        let settings = Settings { seed: Seed(0), abilities: Abilities::ALL, strict: true };
        let mut core = Core::new(cluster(&["v100", "p100"]), Tenants::default(), policy, settings);
        let jobs = (0..3_u32).map(|id| job(id, 0, 1000.0, &[rates[id as usize], 1.0]));
        let events = jobs.map(|job| Event::Arrived { job: Arc::new(job) }).collect();
        core.step(&Batch { at: Time::ZERO, events });
        let owed = |id: u32| match core.state().verdict(JobId(id)).reason() {
            Reason::OwedTime { share, unsolved: false, .. }
            | Reason::TimeHad { share, unsolved: false, .. } => *share,
            other => panic!("{objective} with {rates:?}: {other:?}"),
        };
        let all: f64 = (0..3).map(owed).sum();
        // Of two GPUs at least one is shared out. Least cost uses no more than that; whoever tells no lies pays with some time.
        let least = if *objective == "strategy_proof" { 0.5 } else { 0.99 };
        assert!((least..=2.01).contains(&all), "{objective} with {rates:?}: {all}");
    }
}
