//! Random clusters, tenants and jobs for tests, and a way to lead the decision loop through a random
//! history. Everything hangs from one seed, so a failure is repeated by its number.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainyard_sched::control::{Action, Batch, Core, Event, How, Outcome, Settings, Step};
use trainyard_sched::decide::{Abilities, Policy};
use trainyard_sched::model::{
    Accuracy, Allocation, Attempt, Cluster, DataParallel, Declared, Edge, GPU, Goals, GpuTypeId, GpuTypeSet,
    Job, JobId, LossPoint, ModelId, MoveCost, NodeId, NodeState, Parallelism, Placement, PriorityClass,
    RackId, Rate, RateBeside, Rates, Relaxing, Resources, Seed, Span, StopRule, Task, TaskGraph, TaskId,
    TaskUse, TenantId, Tenants, Time, Topology, UNLIMITED, Urgency, Usage, Wanted, WorkerRange,
};
use trainyard_sched::place::Rule;
use trainyard_sched::view::Phase;

/// A source of random choices that repeats.
#[derive(Clone, Debug)]
pub(crate) struct Dice {
    seed: Seed,
    rolls: u64,
}

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed: Seed(seed), rolls: 0 }
    }

    /// A number below `sides`.
    pub(crate) const fn roll(&mut self, sides: u64) -> u64 {
        self.rolls += 1;
        self.seed.numbered(self.rolls).0 % sides
    }

    pub(crate) const fn chance(&mut self, percent: u64) -> bool {
        self.roll(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len() as u64) as usize]
    }
}

/// Says how to repeat what is being tried, should it panic.
pub(crate) struct Trying(pub(crate) String);

impl Drop for Trying {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("while trying {}", self.0);
        }
    }
}

/// Several GPU types, racks, nodes that track CPUs and nodes that do not, and nodes without GPUs.
pub(crate) fn cluster(dice: &mut Dice) -> Cluster {
    let mut cluster = Cluster::default();
    let types: Vec<GpuTypeId> = (0..=dice.roll(3) as usize)
        .map(|i| cluster.intern_gpu_type(["k80", "v100", "a100"][i % 3]))
        .collect();
    for _ in 0..2 + dice.roll(7) {
        let gpus = dice.pick(&[1, 2, 4, 4, 8, 0]);
        let tracked = dice.chance(50) || gpus == 0;
        let holds = Resources {
            gpu_milli: gpus * GPU,
            cpu_milli: if tracked { (4 + dice.roll(29)) * GPU } else { UNLIMITED },
            memory_bytes: if tracked { 64 << 30 } else { UNLIMITED },
            network_bytes_per_s: UNLIMITED,
        };
        let gpu_type = (gpus > 0).then(|| dice.pick(&types));
        cluster.push(RackId(dice.roll(3) as u16), gpu_type, holds, None);
    }
    if cluster.gpu_count() == 0 {
        cluster.add(1, 4, "k80");
    }
    cluster
}

pub(crate) fn tenants(dice: &mut Dice) -> Tenants {
    let mut tenants = Tenants::default();
    for i in 0..=dice.roll(3) {
        tenants.intern(&format!("team-{i}"));
    }
    tenants
}

/// The placement rule among a policy's parameters.
pub(crate) fn rule_of(parameters: &toml::Table) -> Rule {
    parameters.get("placement").cloned().map_or(Rule::Pack, |rule| rule.try_into().expect("a rule"))
}

/// A gang without any wish, which most tests vary.
pub(crate) fn plain_job(id: u32, at: Time, gpus: u32) -> Job {
    Job {
        id: JobId(id),
        name: format!("job-{id}").into(),
        tenant: TenantId(0),
        model: None,
        submitted: at,
        shape: Parallelism::gang(gpus),
        wanted: Wanted::default(),
        goals: Goals::default(),
        declared: Declared::default(),
        move_cost: MoveCost::default(),
    }
}

fn shape(dice: &mut Dice) -> Parallelism {
    let gang = [1, 1, 1, 2, 2, 3, 4, 4, 8, 16, 40];
    let cpu_milli = dice.pick(&[0, 0, 1, 2]) * GPU;
    let worker = |gpu_milli| Resources { gpu_milli, cpu_milli, ..Resources::NONE };
    match dice.roll(12) {
        0 => Parallelism::rigid(1 + dice.roll(3) as u32, worker(dice.pick(&[100, 250, 500, 700]))),
        1 => Parallelism::rigid(1 + dice.roll(4) as u32, Resources::cpus(1 + dice.roll(8))),
        2 => {
            let min = 1 + dice.roll(3) as u32;
            Parallelism::elastic(WorkerRange { min, max: min + dice.roll(5) as u32 }, worker(GPU))
        }
        3 => Parallelism::DataParallel(DataParallel {
            worker: worker(GPU),
            workers: WorkerRange::exactly(1 + dice.roll(4) as u32),
            server: Some(Resources::cpus(1 + dice.roll(2))),
            servers: WorkerRange { min: 1, max: 2 },
        }),
        4 => {
            let task = |replica: u64, gpus: u64| Task {
                demand: Resources::gpus(gpus),
                parameters: 10,
                replica: Some(replica as u32),
                compute_s: 1.0,
                state_bytes: 0,
            };
            let tasks = (0..1 + dice.roll(4)).map(|i| task(i % 2, 1 + dice.roll(2))).collect();
            Parallelism::TaskGraph(TaskGraph::new(tasks, Vec::new(), None, false).expect("it has tasks"))
        }
        5 => Parallelism::rigid(1 + dice.roll(2) as u32, worker(dice.pick(&[2, 4]) * GPU)),
        _ => Parallelism::rigid(dice.pick(&gang), worker(GPU)),
    }
}

/// A job of a few replicas whose tasks share GPUs and talk to each other, and sometimes to parameter servers; of some it
/// makes progress with only some of its replicas.
pub(crate) fn graph(dice: &mut Dice) -> Parallelism {
    let (parts, replicas) = (1 + dice.roll(4) as u32, 1 + dice.roll(3) as u32);
    let cpu_milli = dice.pick(&[0, 0, 200, 1000]);
    let shares: Vec<u64> = (0..parts).map(|_| dice.pick(&[100, 200, 300, 300, 600, 1000])).collect();
    let task = |i: u32| Task {
        demand: Resources { gpu_milli: shares[(i % parts) as usize], cpu_milli, ..Resources::NONE },
        parameters: u64::from(1 + i % parts),
        replica: Some(i / parts),
        compute_s: 0.5,
        state_bytes: 1 << 20,
    };
    let mut tasks: Vec<Task> = (0..parts * replicas).map(task).collect();
    let edge = |from: u32, to: u32, bytes| Edge { from: TaskId(from), to: TaskId(to), bytes };
    let mut edges = Vec::new();
    for from in 0..parts * replicas {
        let last = from - from % parts + parts;
        for to in from + 1..last {
            if dice.chance(60) {
                edges.push(edge(from, to, 1 + dice.roll(1 << 20)));
            }
        }
    }
    for server in 0..dice.pick(&[0, 0, 1, 2]) {
        let id = parts * replicas + server;
        let demand = Resources::cpus(1);
        tasks.push(Task { demand, parameters: 10, replica: None, compute_s: 0.1, state_bytes: 0 });
        edges.extend((0..replicas).map(|replica| edge(replica * parts + parts - 1, id, 1 << 20)));
    }
    Parallelism::TaskGraph(TaskGraph::new(tasks, edges, None, dice.chance(50)).expect("it is sound"))
}

/// What the tasks of a job use: a half to one and a half of what they demand.
fn usage(mut dice: Dice, shape: &Parallelism, held: &Allocation) -> Usage {
    let used = |p: &Placement| {
        let percent = 50 + dice.roll(101);
        let demand = p.takes(shape.demand_of(p.task).unwrap_or_default());
        let used = demand.times(percent);
        let used = Resources {
            gpu_milli: used.gpu_milli / 100,
            cpu_milli: used.cpu_milli / 100,
            memory_bytes: used.memory_bytes / 100,
            network_bytes_per_s: used.network_bytes_per_s / 100,
        };
        TaskUse { task: p.task, used }
    };
    Usage::new(held.placements().iter().map(used).collect())
}

/// How many models jobs are of.
const MODELS: u64 = 3;

/// How fast gangs of a model are by GPU type, alone and beside others; not every type is known, some do not fit, and some pairs
/// neither.
fn rates(shape: &Parallelism, model: ModelId, cluster: &Cluster) -> Option<Arc<Rates>> {
    let workers = shape.data_parallel()?.workers.min;
    // The same for all jobs of the model.
    let draw = |of: u64| Seed(u64::from(model.0)).numbered(of).0 % 6;
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for i in 0..cluster.gpu_types.len() as u8 {
        let (gpu_type, per_s) = (GpuTypeId(i), draw(u64::from(i)) as f64);
        if per_s < 5.0 {
            alone.push(Rate { gpu_type, workers, spread: false, iterations_per_s: per_s });
        }
        let pair = |other: u64| {
            let iterations_per_s = per_s * draw(100 + 10 * other + u64::from(i)) as f64 / 6.0;
            RateBeside { other: ModelId(other as u32), gpu_type, workers, iterations_per_s }
        };
        beside.extend((0..MODELS).map(pair));
    }
    Rates::new(alone, beside).shared()
}

/// When a job may end, and what its owner allows. Most jobs run to their own end.
fn endings(id: u32, at: Time) -> Goals {
    let mut dice = Dice::new(u64::from(id) ^ at.0 << 8 ^ 0xacc);
    if dice.chance(60) {
        return Goals::default();
    }
    let needed = Accuracy(0.5 + 0.45 * dice.roll(100) as f64 / 100.0);
    Goals {
        stop: dice.pick(&[StopRule::OwnIterations, StopRule::AtPeak, StopRule::AtAccuracy(needed)]),
        may_relax: dice.pick(&[
            Relaxing::ALL,
            Relaxing { own_to_accuracy: true, ..Relaxing::NONE },
            Relaxing::NONE,
        ]),
        accuracy: Some(needed),
        ..Goals::default()
    }
}

/// Whether a job may end before its own end.
pub(crate) fn may_end_early(job: &Job) -> bool {
    job.goals.stop != StopRule::OwnIterations || job.goals.may_relax.any()
}

/// What a job reports: one loss, or, if it may end early, several with accuracies.
pub(crate) fn reported(job: &Job, iterations: f64, loss: f64) -> Vec<LossPoint> {
    if !may_end_early(job) {
        return vec![LossPoint { iteration: iterations, loss, accuracy: None }];
    }
    let top = 0.6 + 0.39 * (Seed(job.id.0.into()).numbered(1).0 % 100) as f64 / 100.0;
    let point = |k: u32| {
        let iteration = iterations * f64::from(k) / 8.0;
        LossPoint { iteration, loss, accuracy: Some(top * (1.0 - (-iteration / 60.0).exp())) }
    };
    (1..=8).map(point).collect()
}

/// A job of any kind. Some can never run on the cluster.
pub(crate) fn job(dice: &mut Dice, id: u32, at: Time, cluster: &Cluster, tenants: &Tenants) -> Arc<Job> {
    let gpu_types = if dice.chance(20) {
        GpuTypeSet::of(&[GpuTypeId(dice.roll(cluster.gpu_types.len() as u64) as u8)])
    } else {
        GpuTypeSet::ALL
    };
    let topology =
        dice.pick(&[Topology::Anywhere, Topology::Anywhere, Topology::SameRack, Topology::SameNode]);
    let seconds = 10 + dice.roll(3000);
    let shape = shape(dice);
    let model = dice.chance(60).then(|| ModelId(dice.roll(MODELS) as u32));
    let rates = model.and_then(|model| rates(&shape, model, cluster));
    let declared = match dice.roll(4) {
        0 => Declared { rates, ..Declared::default() },
        1 => Declared { limit: Some(Span::from_secs(seconds)), rates, ..Declared::default() },
        _ => Declared {
            iterations: Some(seconds as f64),
            iteration: Some(Span::from_secs(1)),
            rates,
            ..Declared::default()
        },
    };
    let goals = Goals {
        class: PriorityClass(dice.pick(&[0, 0, 0, 1])),
        movable: dice.chance(85),
        weight: dice.pick(&[1.0, 1.0, 2.0]),
        deadline: dice.chance(20).then(|| at + Span::from_secs(dice.roll(5000))),
        ..endings(id, at)
    };
    let mut job = Job {
        tenant: TenantId(dice.roll(tenants.len() as u64) as u32),
        model,
        shape,
        wanted: Wanted { gpu_types, topology, mixed_gpu_types: dice.chance(20) },
        goals,
        declared,
        ..plain_job(id, at, 1)
    };
    if job.wanted.mixed_gpu_types {
        // Gangs that fit on no type alone but on several together are not what policies of types are for.
        job.declared.rates = None;
    }
    Arc::new(job)
}

/// The same, and every third one is a graph whose tasks share GPUs.
pub(crate) fn job_of_tasks(
    dice: &mut Dice,
    id: u32,
    at: Time,
    cluster: &Cluster,
    tenants: &Tenants,
) -> Arc<Job> {
    let mut job = job(dice, id, at, cluster, tenants);
    if dice.chance(33) {
        let own = Arc::make_mut(&mut job);
        own.shape = graph(dice);
        own.declared.rates = None;
        own.goals.urgency = Urgency(dice.roll(11) as u8);
    }
    job
}

/// What a job wants without the types of GPUs on which its smallest gang was found not to fit.
pub(crate) fn fitting(cluster: &Cluster, job: &Job) -> Wanted {
    let Some(rates) = &job.declared.rates else { return job.wanted };
    let workers = job.shape.data_parallel().map_or(1, |shape| shape.workers.min.max(1));
    let fits =
        |kind: &GpuTypeId| job.wanted.gpu_types.has(*kind) && rates.per_s(*kind, workers, false) != Some(0.0);
    let kinds: Vec<GpuTypeId> =
        (0..cluster.gpu_types.len()).map(|i| GpuTypeId(i as u8)).filter(fits).collect();
    Wanted { gpu_types: GpuTypeSet::of(&kinds), ..job.wanted }
}

/// How a random history goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    pub(crate) seed: u64,
    pub(crate) steps: u32,
    /// Whether nodes drain, and jobs fail on a node that they then keep away from.
    pub(crate) mishaps: bool,
    pub(crate) abilities: Abilities,
}

/// A decision loop on its way through a random history. What is believed counts as true here.
pub(crate) struct History {
    pub(crate) core: Core,
    pub(crate) at: Time,
    dice: Dice,
    course: Course,
    resizing: BTreeMap<JobId, (Attempt, Allocation)>,
    merging: Vec<(JobId, Attempt, u32)>,
    wake: Option<Time>,
    next_job: u32,
}

impl History {
    pub(crate) fn new(course: Course, cluster: Cluster, tenants: Tenants, policy: Box<dyn Policy>) -> Self {
        let settings = Settings { seed: Seed(course.seed), abilities: course.abilities, strict: false };
        Self {
            core: Core::new(cluster, tenants, policy, settings),
            at: Time::ZERO,
            dice: Dice::new(course.seed ^ 0x5eed),
            course,
            resizing: BTreeMap::new(),
            merging: Vec::new(),
            wake: None,
            next_job: 0,
        }
    }

    /// Something random happens, or the alarm rings; `make` makes the jobs that arrive.
    pub(crate) fn advance(&mut self, make: &mut dyn FnMut(&mut Dice, u32, Time) -> Arc<Job>) -> Step {
        let next = self.at + Span::from_secs(self.dice.pick(&[0, 1, 7, 60, 600]));
        let alarm = self.wake.filter(|wake| *wake < next);
        self.at = alarm.unwrap_or(next);
        let events = if alarm.is_some() { Vec::new() } else { self.events(make) };
        let step = self.core.step(&Batch { at: self.at, events });
        self.wake = step.wake;
        for action in &step.actions {
            match action {
                Action::Resize { job, attempt, allocation, .. } => {
                    self.resizing.insert(*job, (*attempt, allocation.clone()));
                }
                Action::Merge { job, attempt, number, .. } => self.merging.push((*job, *attempt, *number)),
                Action::Start { .. } | Action::Stop { how: How::Save | How::Finish, .. } => {}
            }
        }
        step
    }

    fn events(&mut self, make: &mut dyn FnMut(&mut Dice, u32, Time) -> Arc<Job>) -> Vec<Event> {
        let mut events = Vec::new();
        while self.dice.chance(45) {
            events.push(Event::Arrived { job: make(&mut self.dice, self.next_job, self.at) });
            self.next_job += 1;
        }
        for (job, attempt, number) in std::mem::take(&mut self.merging) {
            events.push(Event::Merged { job, attempt, number });
        }
        if self.dice.chance(8) {
            self.change_a_node(&mut events);
        }
        let ids: Vec<JobId> = self.core.state().jobs().map(|view| view.id()).collect();
        for id in ids {
            events.extend(self.of_job(id));
        }
        events
    }

    fn change_a_node(&mut self, events: &mut Vec<Event>) {
        let cluster = self.core.state().cluster();
        let node = NodeId(self.dice.roll(cluster.nodes.len() as u64) as u32);
        let states = [NodeState::Up, NodeState::Down, NodeState::Draining];
        let state = self.dice.pick(&states[..if self.course.mishaps { 3 } else { 2 }]);
        events.push(Event::NodeChanged { node, state });
        if state == NodeState::Down {
            let blamed = self.course.mishaps.then_some(node);
            for view in self.core.state().jobs().filter(|view| view.held.touches(node)) {
                let (job, attempt, iterations) = (view.id(), view.attempt, view.done.saved);
                events.push(Event::Lost { job, attempt, iterations, node: blamed });
            }
        }
    }

    fn of_job(&mut self, id: JobId) -> Option<Event> {
        let view = self.core.state().job(id)?;
        let (job, attempt, iterations) = (id, view.attempt, view.iterations(self.at));
        let blamed = view.held.nodes().first().copied().filter(|_| self.course.mishaps);
        match view.phase {
            Phase::Starting if self.dice.chance(60) => {
                Some(Event::Started { job, attempt, iterations, speed: 1.0 })
            }
            Phase::Starting if self.dice.chance(5) => Some(Event::StartFailed { job, attempt, node: blamed }),
            Phase::Stopping if self.dice.chance(60) => Some(Event::Stopped { job, attempt, iterations }),
            Phase::Running => {
                if let Some((attempt, allocation)) = self.resizing.get(&id).cloned() {
                    self.resizing.remove(&id);
                    return Some(Event::Resized { job, attempt, allocation, iterations, speed: 1.0 });
                }
                match self.dice.roll(40) {
                    0..=4 => Some(Event::Finished { job, attempt, outcome: Outcome::Completed }),
                    5 => Some(Event::Lost { job, attempt, iterations, node: blamed }),
                    6 => Some(Event::Withdrawn { job }),
                    roll @ 7..=20 if roll == 7 || may_end_early(&self.core.state().job(id)?.job) => {
                        let (speed, saved) = (1.0, iterations);
                        let loss = self.dice.roll(100) as f64 / 10.0 + 10.0 / (1.0 + iterations);
                        let losses = reported(&self.core.state().job(id)?.job, iterations, loss);
                        Some(Event::Progress {
                            job,
                            attempt,
                            iterations,
                            speed,
                            saved,
                            losses,
                            copies: Vec::new(),
                        })
                    }
                    8..=11 => {
                        let dice = Dice::new(self.dice.roll(1 << 32));
                        let usage = usage(dice, &view.job.shape, &view.held);
                        Some(Event::Used { job, attempt, usage })
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

#[test]
fn generated_jobs_and_clusters_are_of_every_kind() {
    let mut seen = BTreeMap::new();
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        let (cluster, tenants) = (cluster(&mut dice), tenants(&mut dice));
        assert_eq!(cluster.validate(), Ok(()), "seed {seed}");
        let kinds = [("types", cluster.gpu_types.len() > 1), ("tenants", tenants.len() > 1)];
        let no_gpus = ("cpu node", cluster.nodes.iter().any(|node| node.gpu_type.is_none()));
        let misfits = |job: &Job| {
            let known = fitting(&cluster, job).gpu_types;
            (0..cluster.gpu_types.len()).filter(|i| !known.has(GpuTypeId(*i as u8))).count()
        };
        for id in 0..10 {
            let job = job_of_tasks(&mut dice, id, Time::ZERO, &cluster, &tenants);
            let graph = match &job.shape {
                Parallelism::TaskGraph(graph) => Some(graph),
                Parallelism::DataParallel(_) => None,
            };
            let graph_is = |test: fn(&TaskGraph) -> bool| graph.is_some_and(test);
            let data = job.shape.data_parallel();
            let of = |test: fn(&DataParallel) -> bool| data.is_some_and(test);
            let kinds = kinds.into_iter().chain([
                no_gpus,
                ("graph", data.is_none()),
                ("partial graph", graph_is(TaskGraph::is_partial)),
                ("edges", graph_is(|graph| !graph.edges().is_empty())),
                ("replicas", graph_is(|graph| graph.replicas().len() > 1)),
                ("servers of a graph", graph_is(|graph| graph.tasks().iter().any(|t| t.replica.is_none()))),
                ("shared", of(|d| (1..GPU).contains(&d.worker.gpu_milli))),
                ("cpu only", of(|d| d.worker.gpu_milli == 0)),
                ("elastic", of(|d| !d.workers.is_fixed())),
                ("servers", of(|d| d.server.is_some())),
                ("same node", job.wanted.topology == Topology::SameNode),
                ("unmovable", !job.goals.movable),
                ("class", job.goals.class.0 > 0),
                ("model", job.model.is_some()),
                ("deadline", job.goals.deadline.is_some()),
                ("at peak", job.goals.stop == StopRule::AtPeak),
                ("may be relaxed", job.goals.may_relax == Relaxing::ALL),
                ("misfit", job.wanted.gpu_types == GpuTypeSet::ALL && misfits(&job) > 0),
                ("pair", job.declared.rates.as_ref().is_some_and(|rates| !rates.beside().is_empty())),
            ]);
            kinds.for_each(|(kind, is)| *seen.entry(kind).or_insert(false) |= is);
        }
    }
    assert!(seen.values().all(|is| *is), "never made: {seen:?}");
}

#[test]
fn the_placement_rule_is_read_from_parameters() {
    assert_eq!(rule_of(&toml::Table::new()), Rule::Pack);
    assert_eq!(rule_of(&"placement = \"yarn\"".parse().expect("a table")), Rule::Yarn);
}

#[test]
fn a_history_is_repeated_by_its_seed() {
    struct Idle;
    impl Policy for Idle {
        fn cadence(&self) -> trainyard_sched::decide::Cadence {
            trainyard_sched::decide::Cadence::Rounds(Span::from_secs(1))
        }
        fn decide(&mut self, _: &trainyard_sched::view::Snapshot) -> trainyard_sched::decide::Decision {
            trainyard_sched::decide::Decision::default()
        }
        fn explain(
            &mut self,
            _: &trainyard_sched::view::Snapshot,
            _: JobId,
        ) -> trainyard_sched::decide::Verdict {
            trainyard_sched::decide::Verdict::Wait(trainyard_sched::decide::Reason::NotYetEvaluated)
        }
    }
    let told = || {
        let _trying = Trying("seed 3".to_owned());
        let course = Course { seed: 3, steps: 30, mishaps: true, abilities: Abilities::ALL };
        let cluster = Cluster::uniform(2, 4, "v100");
        let mut history = History::new(course, cluster, Tenants::default(), Box::new(Idle));
        let mut make = |dice: &mut Dice, id, at| Arc::new(plain_job(id, at, 1 + dice.roll(4) as u32));
        for _ in 0..course.steps {
            history.advance(&mut make);
        }
        format!("{:?}", history.core.snapshot(history.at).jobs)
    };
    assert_eq!(told(), told());
}
