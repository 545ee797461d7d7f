//! What these policies have in common: the plan, and who waits, in which order, and why.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::decide::{Ahead, Plan, Reason, Verdict};
use crate::model::{
    Allocation, Cluster, Job, JobId, NodeState, Parallelism, PriorityClass, TaskGraph, TaskId, Time,
    WorkerRange,
};
use crate::place::{Ask, FreeCapacity, Rule, Sizes, TasksAsk, complete_units, units};
use crate::rank::Shape;
use crate::view::{JobView, Phase, Snapshot};

/// The place of a waiting job: class, since when it waits, number.
pub(super) type Turn = (Reverse<PriorityClass>, Time, JobId);

/// A job that waits and could run.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) job: Arc<Job>,
    /// What its tasks need of GPUs, if it is a graph.
    sizes: Option<Sizes>,
}

/// The plan, and who waits.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) plan: Plan,
    pub(super) rule: Rule,
    /// What graphs begin with.
    least: Least,
    /// Since when a job counts as waiting.
    since: fn(&JobView) -> Time,
    queue: BTreeMap<Turn, Waiting>,
    turns: BTreeMap<JobId, Turn>,
    /// The weights of those who wait, in thousandths.
    pub(super) weights_milli: u64,
    /// Whether gangs of a shape, and graphs, fit the idle cluster.
    shapes: BTreeMap<Shape, Option<Reason>>,
    graphs: BTreeMap<JobId, Option<Reason>>,
    idle: FreeCapacity,
    /// Shapes for which there is no room in this decision.
    stuck: BTreeSet<Shape>,
    news: Vec<JobId>,
}

/// What a graph of tasks begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Least {
    /// All of its tasks.
    Whole,
    /// One replica, where it makes progress with some of them.
    Replica,
}

impl Least {
    fn tasks(self, graph: &TaskGraph) -> Vec<TaskId> {
        match self {
            Self::Whole => (0..graph.tasks().len() as u32).map(TaskId).collect(),
            Self::Replica => units(graph).swap_remove(0),
        }
    }

    fn sizes(self, graph: &TaskGraph) -> Sizes {
        let is_all = self == Self::Whole || !graph.is_partial();
        let first = graph.replicas()[0];
        let begins = |replica: Option<u32>| is_all || replica.is_none_or(|replica| replica == first);
        Sizes::of(graph.tasks().iter().filter(|task| begins(task.replica)).map(|task| &task.demand))
    }

    /// Gives a job without a target what it begins with, if there is room.
    pub(super) fn place(self, plan: &mut Plan, job: &Arc<Job>, rule: Rule) -> bool {
        match &job.shape {
            Parallelism::TaskGraph(graph) => plan.add_tasks(job, &self.tasks(graph), rule),
            Parallelism::DataParallel(_) => plan.place(job, rule),
        }
    }
}

/// Jobs in the order in which they were submitted.
pub(super) fn by_submission(view: &JobView) -> Time {
    view.job.submitted
}

/// Whether what a job holds may be changed now: it may be moved, and nothing that was ordered is under way.
pub(super) fn can_change(view: &JobView) -> bool {
    let settled = match view.phase {
        Phase::Starting => false,
        Phase::Running => view.held == view.target,
        Phase::Waiting | Phase::Stopping => true,
    };
    view.target.is_some() && view.job.goals.movable && settled && view.target.copies() == 1
}

impl Desk {
    pub(super) fn new(rule: Rule, least: Least, since: fn(&JobView) -> Time) -> Self {
        Self {
            plan: Plan::default(),
            rule,
            least,
            since,
            queue: BTreeMap::new(),
            turns: BTreeMap::new(),
            weights_milli: 0,
            shapes: BTreeMap::new(),
            graphs: BTreeMap::new(),
            idle: FreeCapacity::new(&Cluster::default()),
            stuck: BTreeSet::new(),
            news: Vec::new(),
        }
    }

    /// Brings everything in step with a snapshot. Returns the jobs that changed, and whether these are all there are.
    pub(super) fn follow(&mut self, seen: &Snapshot) -> (bool, Vec<JobId>) {
        let news = self.plan.follow(seen);
        if news.rebuilt {
            self.queue.clear();
            self.turns.clear();
            self.weights_milli = 0;
            self.shapes.clear();
            self.graphs.clear();
            let mut idle = (*seen.cluster).clone();
            idle.nodes.iter_mut().for_each(|node| node.state = NodeState::Up);
            self.idle = FreeCapacity::new(&idle);
        }
        self.stuck.clear();
        self.news.clear();
        for id in &news.jobs {
            self.dequeue(*id);
            let Some(view) = seen.job(*id) else {
                self.graphs.remove(id);
                continue;
            };
            if self.plan.target(*id).is_some() {
                continue;
            }
            match self.never_fits(seen, &view.job) {
                Some(reason) => self.plan.say(*id, Verdict::Wait(reason)),
                None => {
                    self.enqueue(view);
                    self.news.push(*id);
                }
            }
        }
        (news.rebuilt, news.jobs)
    }

    /// Why a job could not even run on the idle cluster.
    pub(super) fn never_fits(&mut self, seen: &Snapshot, job: &Job) -> Option<Reason> {
        let Parallelism::TaskGraph(graph) = &job.shape else {
            let of_shape = || Plan::unplaceable(seen, job, self.rule);
            return *self.shapes.entry(Shape::of(job)).or_insert_with(of_shape);
        };
        let (idle, least) = (&mut self.idle, self.least);
        *self.graphs.entry(job.id).or_insert_with(|| {
            let ask =
                TasksAsk { graph, wanted: &job.wanted, tasks: &least.tasks(graph), held: &Allocation::NONE };
            // Filling looks at the fewest nodes.
            let placed = idle.place_tasks(Rule::Fill, &ask).or_else(|| idle.place_tasks(self.rule, &ask));
            let placed = placed.map(Allocation::new);
            match placed {
                Some(placed) => {
                    idle.release(&placed, &job.shape);
                    None
                }
                None => Some(Reason::Unplaceable { workers: 0, largest: 0 }),
            }
        })
    }

    /// A job waits from now on.
    pub(super) fn enqueue(&mut self, view: &JobView) {
        let turn = (Reverse(view.job.goals.class), (self.since)(view), view.id());
        let sizes = match &view.job.shape {
            Parallelism::TaskGraph(graph) => Some(self.least.sizes(graph)),
            Parallelism::DataParallel(_) => None,
        };
        self.queue.insert(turn, Waiting { job: Arc::clone(&view.job), sizes });
        self.turns.insert(view.id(), turn);
        self.weights_milli += weight_milli(&view.job);
    }

    fn dequeue(&mut self, id: JobId) {
        if let Some(turn) = self.turns.remove(&id)
            && let Some(waiting) = self.queue.remove(&turn)
        {
            self.weights_milli -= weight_milli(&waiting.job);
        }
    }

    /// Those who wait and for whom GPUs may have room left, in their order.
    pub(super) fn hopeful(&mut self) -> Vec<(Turn, Arc<Job>)> {
        let plan = &mut self.plan;
        let may =
            |waiting: &Waiting| waiting.sizes.is_none_or(|sizes| plan.may_hold(&waiting.job.wanted, &sizes));
        let mut may = may;
        self.queue
            .iter()
            .filter(|(_, waiting)| may(waiting))
            .map(|(turn, waiting)| (*turn, Arc::clone(&waiting.job)))
            .collect()
    }

    /// All who wait, in their order.
    pub(super) fn all_waiting(&self) -> Vec<(Turn, Arc<Job>)> {
        self.queue.iter().map(|(turn, waiting)| (*turn, Arc::clone(&waiting.job))).collect()
    }

    /// Gives a waiting job its least, wherever `place` finds room for it. Gangs of a shape for which there was no room are
    /// not tried again.
    pub(super) fn start_by(
        &mut self,
        job: &Arc<Job>,
        reason: Reason,
        place: impl FnOnce(&mut Plan) -> bool,
    ) -> bool {
        let shape = job.shape.data_parallel().map(|_| Shape::of(job));
        if shape.is_some_and(|shape| self.stuck.contains(&shape)) {
            return false;
        }
        if !place(&mut self.plan) {
            // A job that keeps away from a node says nothing about the others of its shape.
            self.stuck.extend(shape.filter(|_| !self.plan.keeps_away(job.id)));
            return false;
        }
        self.dequeue(job.id);
        self.plan.say(job.id, Verdict::Run(reason));
        true
    }

    /// Gives a waiting job what it begins with, by the rule.
    pub(super) fn start(&mut self, job: &Arc<Job>) -> bool {
        let (rule, least) = (self.rule, self.least);
        self.start_by(job, Reason::Chosen, |plan| least.place(plan, job, rule))
    }

    /// Takes away what jobs have, one after the other, until one that waits has its least; what was taken too much goes back.
    /// Returns those who wait from now on. `None` means that it cannot be and that nothing has changed.
    pub(super) fn displace(
        &mut self,
        seen: &Snapshot,
        job: &Arc<Job>,
        victims: &[JobId],
    ) -> Option<Vec<JobId>> {
        let held = |id: &JobId| self.plan.target(*id).map_or(0, Allocation::gpu_milli);
        let room = self.plan.free().gpu_milli(job.wanted.gpu_types);
        if room + victims.iter().map(held).sum::<u64>() < self.least_gpu_milli(job) {
            return None;
        }
        let placed = victims.iter().position(|id| {
            self.plan.evict(*id);
            self.least.place(&mut self.plan, job, self.rule)
        });
        let taken = &victims[..placed.map_or(victims.len(), |last| last + 1)];
        let mut gave_way = Vec::new();
        for id in taken.iter().rev() {
            let view = seen.job(*id).expect("a running job is in the snapshot");
            if self.plan.undo_evict(&view.job) {
                continue;
            }
            assert!(placed.is_some(), "what was taken a moment ago is still free");
            self.enqueue(view);
            self.plan.say(*id, Verdict::Yield(Reason::TurnOver { by: job.id }));
            gave_way.push(*id);
        }
        placed?;
        self.stuck.clear();
        self.dequeue(job.id);
        self.plan.say(job.id, Verdict::Run(Reason::Chosen));
        Some(gave_way)
    }

    /// Takes away what a job has; it waits from now on.
    pub(super) fn pause(&mut self, view: &JobView, reason: Reason) {
        self.plan.evict(view.id());
        self.stuck.clear();
        self.enqueue(view);
        self.plan.say(view.id(), Verdict::Yield(reason));
    }

    /// Says why jobs that are new to the queue are still there.
    pub(super) fn explain_news(&mut self, seen: &Snapshot) {
        for id in std::mem::take(&mut self.news) {
            if let Some(reason) = self.waits_because(seen, id) {
                self.plan.say(id, Verdict::Wait(reason));
            }
        }
    }

    /// Why a job is still in the queue after the queue was walked.
    pub(super) fn waits_because(&mut self, seen: &Snapshot, id: JobId) -> Option<Reason> {
        let job = Arc::clone(&self.queue.get(self.turns.get(&id)?)?.job);
        let shuns = seen.job(id).and_then(|view| view.shuns).filter(|(_, until)| *until > seen.at);
        if let Some((_, until)) = shuns
            && self.would_fit(&job)
        {
            return Some(Reason::Backoff { until });
        }
        Some(Reason::NoCapacity(self.plan.no_room(&job)))
    }

    /// Whether a job would fit if it did not keep away from a node.
    fn would_fit(&mut self, job: &Arc<Job>) -> bool {
        match &job.shape {
            Parallelism::TaskGraph(graph) => self.plan.would_fit(job, &self.least.tasks(graph), self.rule),
            Parallelism::DataParallel(_) => self.plan.backs_off(job, self.rule).is_some(),
        }
    }

    /// What a job begins with takes of GPUs, in thousandths.
    fn least_gpu_milli(&self, job: &Job) -> u64 {
        match &job.shape {
            Parallelism::TaskGraph(graph) => {
                let tasks = self.least.tasks(graph);
                tasks.iter().map(|task| graph.tasks()[task.index()].demand.gpu_milli).sum()
            }
            Parallelism::DataParallel(_) => job.shape.minimum().gpu_milli,
        }
    }

    /// The verdict on one job after the queue was walked; ends the decision.
    pub(super) fn explain(&mut self, seen: &Snapshot, id: JobId) -> Verdict {
        let view = seen.job(id).expect("only jobs of the snapshot are explained");
        let waits = self.waits_because(seen, id);
        let said = self.plan.finish().verdicts.into_iter().find(|(job, _)| *job == id);
        match (said, self.plan.target(id).is_some()) {
            (Some((_, verdict)), _) => verdict,
            (None, true) => Verdict::Run(Reason::Kept),
            (None, false) => {
                Verdict::Wait(self.never_fits(seen, &view.job).or(waits).unwrap_or(Reason::NotYetEvaluated))
            }
        }
    }

    /// Who stands before a waiting job in the order of the queue, once [`Self::follow`] has been called.
    pub(super) fn ahead(&self, id: JobId) -> Ahead {
        let Some(turn) = self.turns.get(&id) else { return Ahead { jobs: Vec::new(), is_total: true } };
        Ahead { jobs: self.queue.range(..turn).map(|((.., id), _)| *id).collect(), is_total: true }
    }
}

/// What a job with a target could have more of.
pub(super) enum More {
    /// Another replica: these tasks.
    Replica(Vec<TaskId>),
    /// Another worker.
    Worker,
}

/// Whether a job is of a kind that can have more than its least.
pub(super) fn is_elastic(job: &Job) -> bool {
    match &job.shape {
        Parallelism::TaskGraph(graph) => graph.is_partial() && graph.replicas().len() > 1,
        Parallelism::DataParallel(shape) => !shape.workers.is_fixed(),
    }
}

/// What a job with a target could have more of, if anything.
pub(super) fn more_of(plan: &Plan, job: &Job) -> Option<More> {
    let target = plan.target(job.id)?;
    match &job.shape {
        Parallelism::TaskGraph(graph) if graph.is_partial() => {
            let mut units = units(graph).into_iter();
            let missing = |unit: &Vec<TaskId>| unit.iter().any(|task| target.count_of(*task) == 0);
            let replica = units.find(missing)?;
            Some(More::Replica(replica.into_iter().filter(|task| target.count_of(*task) == 0).collect()))
        }
        Parallelism::TaskGraph(_) => None,
        Parallelism::DataParallel(shape) => {
            let most = crate::decide::most_of(WorkerRange { min: shape.workers.min.max(1), ..shape.workers });
            (target.workers() < most && target.copies() == 1).then_some(More::Worker)
        }
    }
}

/// Gives a job with a target more, if there is room.
pub(super) fn grow(plan: &mut Plan, job: &Arc<Job>, more: &More, rule: Rule) -> bool {
    match more {
        More::Replica(tasks) => plan.add_tasks(job, tasks, rule),
        More::Worker => plan.grow(job.id, rule),
    }
}

/// How many units a job has: complete replicas, or workers.
pub(super) fn units_of(plan: &Plan, job: &Job) -> u32 {
    let Some(target) = plan.target(job.id) else { return 0 };
    match &job.shape {
        Parallelism::TaskGraph(graph) => complete_units(graph, target),
        Parallelism::DataParallel(_) => target.workers(),
    }
}

/// A job's weight in thousandths, so that sums are exact; at least one.
pub(super) fn weight_milli(job: &Job) -> u64 {
    ((job.goals.weight * 1000.0) as u64).max(1)
}

/// GPUs of a job's smallest gang, shared ones counted whole: what MLFS calls its GPU count.
pub(super) fn gpus_of(job: &Job) -> u64 {
    let whole = |gpu_milli: u64| gpu_milli.div_ceil(crate::model::GPU);
    match &job.shape {
        Parallelism::TaskGraph(graph) => graph.tasks().iter().map(|task| whole(task.demand.gpu_milli)).sum(),
        Parallelism::DataParallel(shape) => {
            whole(shape.worker.gpu_milli) * u64::from(Ask::minimum(&job.shape, &job.wanted).workers)
        }
    }
}
