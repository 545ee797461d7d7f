//! The jobs as people are shown them: one card each, renewed after every step for those that the step touched. It is a
//! view; nothing is decided by it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use trainyard_sched::control::{Action, Batch, Core, Event, Outcome, Step};
use trainyard_sched::decide::{EarlyEnd, Verdict};
use trainyard_sched::estimate::LossHealth;
use trainyard_sched::model::{
    Allocation, Attempt, Better, GpuSet, Job, JobId, NodeId, NodeState, Parallelism, TenantId, Time,
};
use trainyard_sched::view::{JobView, Phase};

use crate::clock::Wall;
use crate::curve::Curve;
use crate::work::Work;

/// One job as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// Its number.
    pub job: JobId,
    /// What its owner calls it.
    pub name: Arc<str>,
    /// Whose it is.
    pub tenant: TenantId,
    /// What it asked for.
    pub asked: Arc<Job>,
    /// What it runs.
    pub work: Arc<Work>,
    /// What it is doing.
    pub state: Standing,
    /// When it was submitted.
    pub submitted: Time,
    /// The same on the wall.
    pub submitted_wall: Wall,
    /// When it first held anything.
    pub started: Option<Time>,
    /// When it ended.
    pub ended: Option<Time>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// How many workers it may have.
    pub may_have: (u32, u32),
    /// The number of its latest start.
    pub attempt: u32,
    /// The nodes where it holds something.
    pub nodes: Vec<Arc<str>>,
    /// Its workers there.
    pub workers: u32,
    /// GPUs that it holds.
    pub gpus: f64,
    /// Where its tasks are and where they shall be, if it is a graph of tasks.
    #[serde(default)]
    pub tasks: TasksStand,
    /// Iterations, as reported last.
    pub iterations: f64,
    /// Iterations that are saved.
    pub saved: f64,
    /// Iterations that it declared.
    pub of_iterations: Option<f64>,
    /// Iterations a second.
    pub speed: f64,
    /// The latest loss.
    #[serde(with = "maybe_number")]
    pub loss: Option<f64>,
    /// Points of its loss curve: iteration and loss.
    pub curve: Curve,
    /// Why it runs or waits.
    pub verdict: Option<Verdict>,
    /// Since when that has been of the same kind.
    pub verdict_since: Time,
    /// Seconds without devices.
    pub waited_s: f64,
    /// Seconds with devices.
    pub executed_s: f64,
    /// How often it was stopped against its will.
    pub preemptions: u32,
    /// How often it went on elsewhere or with another size.
    pub moves: u32,
    /// How often it was lost to a failure.
    pub failures: u32,
    /// What its cluster said of it last, such as an exit code.
    pub said: Option<Arc<str>>,
    /// Why it was cut short, if it was and its owner did not take it up again.
    #[serde(default)]
    pub early: Option<EarlyEnd>,
}

/// What a job is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Holds nothing.
    Waiting,
    /// Is being started.
    Starting,
    /// Runs.
    Running,
    /// Has been told to stop.
    Stopping,
    /// Is over.
    Ended,
}

/// Where the tasks of a graph are; nothing of any other job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TasksStand {
    /// What they hold.
    pub held: Allocation,
    /// What the latest decision gave them.
    pub target: Allocation,
}

impl TasksStand {
    fn of(view: &JobView) -> Self {
        match view.job.shape {
            Parallelism::TaskGraph(_) => Self { held: view.held.clone(), target: view.target.clone() },
            Parallelism::DataParallel(_) => Self::default(),
        }
    }
}

/// A number that may be missing or be no number, which JSON cannot say.
mod maybe_number {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
        value.filter(|value| value.is_finite()).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
        Option::deserialize(from)
    }
}

/// One node as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeCard {
    /// Its name.
    pub name: Arc<str>,
    /// Whether it takes work.
    pub state: NodeState,
    /// The type of its GPUs.
    pub gpu_type: Option<Arc<str>>,
    /// Its GPUs.
    pub gpus: f64,
    /// Those in use.
    pub gpus_used: f64,
    /// Its CPU cores; `None` where they are not tracked.
    pub cpus: Option<f64>,
    /// Those in use.
    pub cpus_used: f64,
    /// What jobs hold there.
    pub holds: Vec<Hold>,
}

/// What one job holds on one node for one of its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    /// The job.
    pub job: JobId,
    /// Which GPUs, and how much of each.
    pub gpus: GpuSet,
    /// CPU cores.
    pub cpus: f64,
}

/// All jobs and nodes.
#[derive(Clone, Debug, Default)]
pub struct Board {
    /// The time of the last step.
    pub at: Time,
    /// The same on the wall.
    pub wall: Wall,
    /// The jobs, those that have ended among them.
    pub jobs: BTreeMap<JobId, Card>,
    /// The nodes.
    pub nodes: Vec<NodeCard>,
    /// Tenants' names, by number.
    pub tenants: Vec<Arc<str>>,
    /// Who decides.
    pub policy: String,
    /// With which parameters.
    pub parameters: toml::Table,
    /// Decisions since the daemon came to life.
    pub decisions: u64,
    /// Cycles lost to a policy that panicked or took too long.
    pub lost_cycles: u64,
    /// Parts of decisions that were refused.
    pub faults: u64,
    /// Attempts that were started.
    pub starts: u64,
    /// Jobs that were cut short since the daemon came to life, by the kind of rule.
    pub cut_short: BTreeMap<&'static str, u64>,
    /// GPU-seconds that this spared, as far as could be foretold.
    pub saved_gpu_s: f64,
    /// What was unusual when the daemon came to life.
    pub remark: Option<String>,
    /// Whether the journal cannot be written at the moment, and why.
    pub stalled: Option<String>,
    /// Jobs that hold something, so that nobody must look through all for them.
    holders: BTreeSet<JobId>,
}

/// What a step touches.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    pub(crate) jobs: BTreeSet<JobId>,
    pub(crate) nodes: bool,
}

impl Touched {
    pub(crate) fn by(batch: &Batch, step: &Step) -> Self {
        let mut jobs: BTreeSet<JobId> = batch.events.iter().filter_map(Event::job).collect();
        jobs.extend(step.actions.iter().map(Action::job));
        jobs.extend(step.ended.iter().map(|(job, _)| *job));
        if let Some(decision) = &step.decision {
            jobs.extend(decision.targets.iter().map(|(job, _)| *job));
            jobs.extend(decision.verdicts.iter().map(|(job, _)| *job));
        }
        let moves = |event: &Event| !matches!(event, Event::Arrived { .. } | Event::Progress { .. });
        let nodes = !step.actions.is_empty() || batch.events.iter().any(moves);
        Self { jobs, nodes }
    }
}

impl Board {
    /// Takes note of what happened; called before the state is looked at.
    pub(crate) fn note(
        &mut self,
        batch: &Batch,
        wall: Wall,
        step: &Step,
        works: &BTreeMap<JobId, Arc<Work>>,
    ) {
        (self.at, self.wall) = (batch.at, wall);
        self.decisions += u64::from(step.decision.is_some());
        self.lost_cycles += u64::from(step.panic.is_some());
        self.faults += step.faults.len() as u64;
        let starts = |action: &&Action| matches!(action, Action::Start { .. });
        self.starts += step.actions.iter().filter(starts).count() as u64;
        for event in &batch.events {
            match event {
                Event::Arrived { job } if !self.jobs.contains_key(&job.id) => {
                    let Some(work) = works.get(&job.id) else { continue };
                    let view = JobView::new(Arc::clone(job), batch.at);
                    self.jobs.insert(job.id, Card::new(&view, Arc::clone(work), wall));
                }
                Event::Progress { job, iterations, losses, .. } => {
                    let Some(card) = self.jobs.get_mut(job) else { continue };
                    card.iterations = *iterations;
                    for point in losses {
                        card.loss = Some(point.loss);
                        card.curve.add(point.iteration, point.loss);
                    }
                }
                Event::Resumed { job } => {
                    if let Some(card) = self.jobs.get_mut(job)
                        && card.early.is_some()
                    {
                        card.taken_up(batch.at);
                    }
                }
                Event::PolicyChanged { policy, parameters } if step.unchanged.is_none() => {
                    self.policy.clone_from(policy);
                    self.parameters = parameters.clone();
                }
                _ => {}
            }
        }
        for (job, outcome) in &step.ended {
            self.holders.remove(job);
            if let Some(card) = self.jobs.get_mut(job) {
                card.end(batch.at, *outcome);
            }
        }
        for (job, early) in &step.early {
            *self.cut_short.entry(early.why.kind()).or_insert(0) += 1;
            self.saved_gpu_s += early.saved_gpu_s;
            if let Some(card) = self.jobs.get_mut(job) {
                card.early = Some(*early);
            }
        }
    }

    /// Cards for jobs that were there when a state was kept.
    pub(crate) fn restore(&mut self, core: &Core, works: &BTreeMap<JobId, Arc<Work>>, began: Wall) {
        for view in core.state().jobs() {
            let Some(work) = works.get(&view.id()) else { continue };
            let wall = Wall(began.0 + view.served.arrived.0);
            let mut card = Card::new(view, Arc::clone(work), wall);
            card.iterations = view.done.iterations;
            // The state keeps a score as its negative.
            let sign = if view.job.declared.loss.better == Better::Higher { -1.0 } else { 1.0 };
            card.loss = view.losses.latest().map(|point| sign * point.loss);
            view.losses.points().iter().for_each(|point| card.curve.add(point.iteration, sign * point.loss));
            card.curve.count(view.losses.ignored());
            self.jobs.insert(view.id(), card);
            self.note_holder(view);
        }
    }

    fn note_holder(&mut self, view: &JobView) {
        if view.held.is_some() {
            self.holders.insert(view.id());
        } else {
            self.holders.remove(&view.id());
        }
    }

    /// Takes note of what an executor said of jobs.
    pub(crate) fn hear(&mut self, said: &[(JobId, Attempt, String)]) {
        for (job, _, text) in said {
            if let Some(card) = self.jobs.get_mut(job) {
                card.said = Some(text.as_str().into());
            }
        }
    }

    /// Renews what a step touched.
    pub(crate) fn renew(&mut self, core: &Core, touched: &Touched) {
        let state = core.state();
        for id in &touched.jobs {
            if let (Some(card), Some(view)) = (self.jobs.get_mut(id), state.job(*id)) {
                card.renew(view, state.verdict(*id), self.at, &|node| {
                    Arc::clone(&state.cluster().node(node).name)
                });
                self.note_holder(view);
            }
        }
        if touched.nodes || self.nodes.is_empty() {
            self.nodes = node_cards(core, &self.holders);
        }
    }
}

fn node_cards(core: &Core, holders: &BTreeSet<JobId>) -> Vec<NodeCard> {
    let (state, cluster) = (core.state(), core.state().cluster());
    let mut cards: Vec<NodeCard> = cluster
        .nodes
        .iter()
        .map(|node| NodeCard {
            name: Arc::clone(&node.name),
            state: node.state,
            gpu_type: node.gpu_type.map(|kind| Arc::clone(&cluster.gpu_types[kind.index()].name)),
            gpus: f64::from(node.gpu_count()),
            gpus_used: 0.0,
            cpus: (node.holds.cpu_milli != trainyard_sched::model::UNLIMITED)
                .then_some(node.holds.cpu_milli as f64 / 1e3),
            cpus_used: 0.0,
            holds: Vec::new(),
        })
        .collect();
    for view in holders.iter().filter_map(|job| state.job(*job)) {
        for placement in view.held.placements() {
            let card = &mut cards[placement.node.index()];
            let demand = view.job.shape.demand_of(placement.task).unwrap_or_default();
            let cpus = demand.times(u64::from(placement.count)).cpu_milli as f64 / 1e3;
            card.gpus_used += placement.gpus.milli() as f64 / 1e3;
            card.cpus_used += cpus;
            card.holds.push(Hold { job: view.id(), gpus: placement.gpus, cpus });
        }
    }
    cards
}

impl Card {
    fn new(view: &JobView, work: Arc<Work>, wall: Wall) -> Self {
        let job = &view.job;
        Self {
            job: job.id,
            name: Arc::clone(&job.name),
            tenant: job.tenant,
            asked: Arc::clone(job),
            work,
            state: Standing::Waiting,
            submitted: view.served.arrived,
            submitted_wall: wall,
            started: None,
            ended: None,
            outcome: None,
            may_have: job
                .shape
                .data_parallel()
                .map_or((1, 1), |shape| (shape.workers.min, shape.workers.max)),
            attempt: 0,
            nodes: Vec::new(),
            workers: 0,
            gpus: 0.0,
            tasks: TasksStand::default(),
            iterations: 0.0,
            saved: 0.0,
            of_iterations: job.declared.iterations,
            speed: 0.0,
            loss: None,
            curve: Curve::default(),
            verdict: None,
            verdict_since: view.served.arrived,
            waited_s: 0.0,
            executed_s: 0.0,
            preemptions: 0,
            moves: 0,
            failures: 0,
            said: None,
            early: None,
        }
    }

    /// What stands out in its losses, as far as the points that are kept of them show; nothing before the first report.
    pub fn loss_health(&self) -> Option<LossHealth> {
        self.curve.health(&self.asked.declared.loss)
    }

    fn renew(&mut self, view: &JobView, verdict: Verdict, at: Time, name: &dyn Fn(NodeId) -> Arc<str>) {
        self.state = match view.phase {
            Phase::Waiting => Standing::Waiting,
            Phase::Starting => Standing::Starting,
            Phase::Running => Standing::Running,
            Phase::Stopping => Standing::Stopping,
        };
        self.started = view.served.first_held;
        if !Arc::ptr_eq(&self.asked, &view.job) {
            self.asked = Arc::clone(&view.job);
        }
        self.attempt = view.attempt.0;
        self.nodes = view.held.nodes().into_iter().map(name).collect();
        self.workers = view.held.workers();
        self.gpus = view.held.gpu_milli() as f64 / 1e3;
        self.tasks = TasksStand::of(view);
        self.saved = view.done.saved;
        self.speed = view.done.speed;
        let kind = |verdict: &Verdict| verdict.reason().kind();
        if self.verdict.as_ref().map(kind) != Some(kind(&verdict)) {
            self.verdict_since = at;
        }
        self.verdict = Some(verdict);
        self.count(view, at);
    }

    /// It was cut short, and its owner wants it to go on.
    fn taken_up(&mut self, at: Time) {
        (self.state, self.ended, self.outcome, self.early) = (Standing::Waiting, None, None, None);
        self.verdict_since = at;
    }

    fn count(&mut self, view: &JobView, at: Time) {
        self.waited_s = view.waited(at).as_secs_f64();
        self.executed_s = view.executed(at).as_secs_f64();
        self.preemptions = view.served.preemptions;
        self.moves = view.served.moves;
        self.failures = view.served.failures;
    }

    fn end(&mut self, at: Time, outcome: Outcome) {
        // What it held until now was not counted yet.
        let open = at.since(self.submitted).as_secs_f64() - self.waited_s - self.executed_s;
        match self.state {
            Standing::Waiting => self.waited_s += open,
            _ => self.executed_s += open,
        }
        (self.state, self.ended, self.outcome) = (Standing::Ended, Some(at), Some(outcome));
        (self.workers, self.gpus, self.speed) = (0, 0.0, 0.0);
        self.nodes.clear();
        self.tasks = TasksStand::default();
        self.verdict = None;
    }
}

/// How a job stands that cannot be taken up again, in words.
pub(crate) const fn stands(is_there: bool, how: Option<Outcome>) -> &'static str {
    match how {
        _ if is_there => "has not ended",
        Some(Outcome::StopRuleMet) => "was cut short, and so many were since that it is not kept any more",
        Some(Outcome::Completed) => "has come to its own end",
        Some(Outcome::Withdrawn | Outcome::Killed) => "was taken back by its owner",
        Some(Outcome::Failed) => "has failed",
        Some(Outcome::Rejected) => "could never run",
        Some(Outcome::Censored) | None => "has ended otherwise",
    }
}
