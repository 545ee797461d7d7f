//! All-or-nothing gangs in the order of a rank, with or without preemption.
//!
//! Walking all jobs in order of rank and giving each its gang if it still fits costs O(jobs) a decision.
//! The same set comes out of a walk over the waiting jobs alone, if a waiting job that does not fit may
//! take from running jobs that rank below it, lowest first, and what was taken too much is looked at
//! again in its turn: what ranks above a job is not changed by it, and room for it is all room minus
//! what ranks above it, either way. A test holds this equal to the plain walk. The cost is that of what
//! starts, stops, and of the number of different shapes that wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{GPU, GpuTypeSet, Job, JobId, Parallelism, Placement, Resources, Time};
use crate::place::Rule;
use crate::rank::{Queue, Shape, Waiting, Walk};
use crate::view::{JobView, Snapshot};

use super::{Ahead, Plan, Reason, Verdict};

/// A rank: less goes first.
pub trait Rank: Ord + Copy + std::fmt::Debug {
    /// The rank of a running job in terms of waiting jobs at `now`; by default it is the same.
    ///
    /// A running job's stored rank must not change while it runs. One that falls with time, such as its
    /// remaining time, is stored as the time when it would reach zero and turned back here.
    #[must_use]
    fn at(self, now: Time) -> Self {
        let _ = now;
        self
    }
}

/// How gangs are given out.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Where gangs go.
    pub rule: Rule,
    /// Whether a job may take from running jobs of lower rank.
    pub preempts: bool,
}

/// Waiting and running jobs by rank.
#[derive(Debug)]
pub struct Ranked<K> {
    /// The targets.
    pub plan: Plan,
    /// Jobs without a target that could run.
    pub queue: Queue<K>,
    running: BTreeSet<(K, JobId)>,
    ranks: BTreeMap<JobId, K>,
    /// How the idle cluster is filled to tell what could never run.
    rule: Rule,
    /// Whether a shape fits the idle cluster.
    verdicts: BTreeMap<Shape, Option<Reason>>,
    /// Jobs that began or ceased to have a target in this decision, in order of their rank at the time.
    started: Vec<JobId>,
    evicted: Vec<JobId>,
    /// Jobs to say something about, because they are new to the queue.
    news: Vec<JobId>,
}

impl<K> Default for Ranked<K> {
    fn default() -> Self {
        Self {
            plan: Plan::default(),
            queue: Queue::default(),
            running: BTreeSet::new(),
            ranks: BTreeMap::new(),
            rule: Rule::default(),
            verdicts: BTreeMap::new(),
            started: Vec::new(),
            evicted: Vec::new(),
            news: Vec::new(),
        }
    }
}

impl<K> Ranked<K> {
    /// For a policy that places by this rule only: what the rule can never place is not queued.
    pub fn placing_by(rule: Rule) -> Self {
        Self { rule, ..Self::default() }
    }
}

impl<K: Rank> Ranked<K> {
    /// Brings everything in step with a snapshot; `rank` gives a job's rank while it waits or runs.
    /// Returns the jobs that changed.
    pub fn follow(&mut self, seen: &Snapshot, rank: impl Fn(&JobView, bool) -> K) -> Vec<JobId> {
        let news = self.plan.follow(seen);
        if news.rebuilt {
            self.queue = Queue::default();
            self.running.clear();
            self.ranks.clear();
            self.verdicts.clear();
        }
        self.started.clear();
        self.evicted.clear();
        self.news.clear();
        for id in &news.jobs {
            self.forget(*id);
            let Some(view) = seen.job(*id) else { continue };
            if self.plan.target(*id).is_some() {
                self.put_running(rank(view, true), *id);
            } else if let Some(reason) = self.unplaceable(seen, &view.job) {
                self.plan.say(*id, Verdict::Wait(reason));
            } else {
                self.queue.insert(rank(view, false), &view.job);
                self.news.push(*id);
            }
        }
        news.jobs
    }

    /// The jobs that [`Self::follow`] will look at.
    pub fn would_follow(&self, seen: &Snapshot) -> Vec<JobId> {
        if self.plan.is_in_step(seen) {
            seen.changed.jobs.clone()
        } else {
            seen.jobs.keys().copied().collect()
        }
    }

    fn forget(&mut self, id: JobId) {
        self.queue.remove(id);
        if let Some(rank) = self.ranks.remove(&id) {
            self.running.remove(&(rank, id));
        }
    }

    fn put_running(&mut self, rank: K, id: JobId) {
        self.running.insert((rank, id));
        self.ranks.insert(id, rank);
    }

    /// Why a job could not even run on the idle cluster.
    pub fn unplaceable(&mut self, seen: &Snapshot, job: &Job) -> Option<Reason> {
        *self.verdicts.entry(Shape::of(job)).or_insert_with(|| Plan::unplaceable(seen, job, self.rule))
    }

    /// Gives a running job another rank.
    pub fn rerank_running(&mut self, id: JobId, rank: K) {
        if let Some(old) = self.ranks.remove(&id) {
            self.running.remove(&(old, id));
            self.put_running(rank, id);
        }
    }

    /// Running jobs with their stored ranks, the highest (least) first.
    pub fn running(&self) -> impl DoubleEndedIterator<Item = (K, JobId)> + '_ {
        self.running.iter().copied()
    }

    /// Jobs that were given a target in this decision and had none before, in the order of the walk.
    pub fn started(&self) -> &[JobId] {
        &self.started
    }

    /// Jobs that lost their target in this decision, in no particular order.
    pub fn evicted(&self) -> &[JobId] {
        &self.evicted
    }

    /// Gives a waiting job a target, if there is room.
    pub fn start(
        &mut self,
        seen: &Snapshot,
        job: &Arc<Job>,
        rule: Rule,
        reason: Reason,
        rank: impl Fn(&JobView, bool) -> K,
    ) -> bool {
        let restored = self.plan.restore(job);
        if !restored && !self.plan.place(job, rule) {
            return false;
        }
        self.settle(seen, job, restored, reason, rank);
        true
    }

    fn settle(
        &mut self,
        seen: &Snapshot,
        job: &Arc<Job>,
        restored: bool,
        reason: Reason,
        rank: impl Fn(&JobView, bool) -> K,
    ) {
        let view = seen.job(job.id).expect("only jobs of the snapshot are queued");
        self.queue.remove(job.id);
        self.put_running(rank(view, true), job.id);
        self.plan.say(job.id, Verdict::Run(if restored { Reason::Kept } else { reason }));
        // A job that was evicted and placed again in one decision has not begun anew.
        if view.target.is_some() {
            self.evicted.retain(|id| *id != job.id);
        } else {
            self.started.push(job.id);
        }
    }

    /// Gives every waiting job its gang, in order of rank, as far as there is room.
    pub fn fill(&mut self, seen: &Snapshot, manner: Manner, rank: impl Fn(&JobView, bool) -> K + Copy) {
        let mut walk = self.queue.walk();
        while let Some(waiting) = walk.next(&self.queue) {
            let placed = self.start(seen, &waiting.job, manner.rule, Reason::Chosen, rank)
                || (manner.preempts && self.preempt(seen, &waiting, manner.rule, &mut walk, rank));
            // A job that keeps away from a node says nothing about the others of its shape.
            if placed || self.plan.keeps_away(waiting.job.id) {
                walk.go_on(&self.queue, &waiting);
            }
        }
        self.explain_news(manner.rule);
    }

    /// The jobs that are new to the queue, for a policy that explains them itself.
    pub fn take_news(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.news)
    }

    /// Says why jobs that are new to the queue are still there.
    pub fn explain_news(&mut self, rule: Rule) {
        let news = std::mem::take(&mut self.news);
        let evicted = self.evicted.clone();
        for id in news.into_iter().filter(|id| !evicted.contains(id)) {
            if let Some(reason) = self.waits_because(id, rule) {
                self.plan.say(id, Verdict::Wait(reason));
            }
        }
    }

    /// Why a job is still in the queue after the queue was walked.
    pub fn waits_because(&mut self, id: JobId, rule: Rule) -> Option<Reason> {
        let key = self.queue.key(id)?;
        let job = self.queued(id, key)?;
        if let Some(until) = self.plan.backs_off(&job, rule) {
            return Some(Reason::Backoff { until });
        }
        let first = self.queue.first_like(&job).expect("it is in the queue itself");
        Some(if first.id == id {
            Reason::NoCapacity(self.plan.no_room(&job))
        } else {
            Reason::Behind { ahead: first.id }
        })
    }

    /// Who stands before a waiting job, once [`Self::follow`] has been called and before the queue is walked.
    pub fn ahead(&self, id: JobId) -> Ahead {
        Ahead { jobs: self.queue.ahead_of(id), is_total: true }
    }

    /// The verdict on one job after the queue was walked; ends the decision.
    pub fn explain(&mut self, seen: &Snapshot, id: JobId, rule: Rule) -> Verdict {
        let view = seen.job(id).expect("only jobs of the snapshot are explained");
        let said = self.plan.finish().verdicts;
        if self.plan.target(id).is_some() {
            return Verdict::Run(if view.target.is_some() { Reason::Kept } else { Reason::Chosen });
        }
        if let Some(reason) = self.unplaceable(seen, &view.job) {
            return Verdict::Wait(reason);
        }
        let yields =
            said.into_iter().find(|(job, verdict)| *job == id && matches!(verdict, Verdict::Yield(_)));
        match (yields, self.waits_because(id, rule)) {
            (Some((_, verdict)), _) => verdict,
            (None, Some(reason)) => Verdict::Wait(reason),
            (None, None) => Verdict::Wait(Reason::NotYetEvaluated),
        }
    }

    fn queued(&self, id: JobId, key: K) -> Option<Arc<Job>> {
        self.queue.get(id, key).cloned()
    }

    /// Takes from running jobs that rank below `waiting`, lowest first, until it fits; or changes nothing.
    fn preempt(
        &mut self,
        seen: &Snapshot,
        waiting: &Waiting<K>,
        rule: Rule,
        walk: &mut Walk<K>,
        rank: impl Fn(&JobView, bool) -> K + Copy,
    ) -> bool {
        let Some(taken) = self.take_from_lower(seen, waiting, rule) else { return false };
        self.settle(seen, &waiting.job, false, Reason::Chosen, rank);
        for victim in taken {
            let view = seen.job(victim).expect("a running job is in the snapshot");
            let judged_by = self.ranks[&victim].at(seen.at);
            self.forget(victim);
            // It may have risen since its rank was stored, by rounding or because it comes nearer to its limit.
            let key = rank(view, false).max(judged_by);
            assert!(
                (key, victim) > (waiting.key, waiting.job.id),
                "{victim} must stay behind who took from it"
            );
            self.queue.insert(key, &view.job);
            walk.meet(&self.queue, victim);
            self.plan.say(victim, Verdict::Yield(Reason::Outranked { by: waiting.job.id }));
            if view.target.is_some() {
                self.evicted.push(victim);
            } else {
                self.started.retain(|id| *id != victim);
            }
        }
        true
    }

    /// Evicts running jobs of lower rank, the lowest first, until `waiting` fits, and places it. `None`
    /// means that it cannot be and that nothing has changed.
    fn take_from_lower(&mut self, seen: &Snapshot, waiting: &Waiting<K>, rule: Rule) -> Option<Vec<JobId>> {
        let is_part = |demand: &Resources| !demand.gpu_milli.is_multiple_of(GPU);
        let wants_part = match &waiting.job.shape {
            Parallelism::DataParallel(shape) => is_part(&shape.worker),
            Parallelism::TaskGraph(graph) => graph.tasks().iter().any(|task| is_part(&task.demand)),
        };
        let need = waiting.job.shape.minimum().gpu_milli;
        let Self { plan, running, .. } = self;
        let lower = || {
            let below = |(key, id): &&(K, JobId)| (key.at(seen.at), *id) > (waiting.key, waiting.job.id);
            running.iter().rev().take_while(below).map(|(_, id)| *id)
        };
        lower().next()?;
        let types = waiting.job.wanted.gpu_types;
        // Who wants a part of a GPU can use what is left of a shared one.
        let gain = |plan: &Plan, id| gain(plan, seen, waiting, id, wants_part);
        let free =
            if wants_part { plan.free().gpu_milli(types) } else { plan.free().whole_gpus(types) * GPU };
        // First by the number of GPUs alone, which looks at no more jobs than GPUs are needed.
        let mut found = free;
        let mut gains = lower().filter_map(|id| gain(plan, id));
        let enough = gains.any(|gain| {
            found += gain;
            found >= need
        });
        if !enough {
            return None;
        }
        found = free;
        let mut taken = Vec::new();
        for id in lower() {
            let Some(gain) = gain(plan, id) else { continue };
            plan.evict(id);
            taken.push(id);
            found += gain;
            if found >= need && plan.place(&waiting.job, rule) {
                return Some(taken);
            }
        }
        for victim in taken.iter().rev() {
            let view = seen.job(*victim).expect("a running job is in the snapshot");
            let back = plan.undo_evict(&view.job);
            assert!(back, "what was taken a moment ago is still free");
        }
        None
    }
}

/// The most GPUs, in thousandths, that `waiting` could use if a running job gave up what it holds; `None`
/// if it may not be moved or holds nothing of use. The rest of a shared device may be free already.
fn gain<K>(plan: &Plan, seen: &Snapshot, waiting: &Waiting<K>, id: JobId, wants_part: bool) -> Option<u64> {
    let target = plan.target(id).expect("a running job has a target");
    let types = waiting.job.wanted.gpu_types;
    let wants_gpus = waiting.job.shape.minimum().gpu_milli > 0;
    // What is on a node that drains is of no use to anybody else.
    let usable =
        |p: &&Placement| plan.free().takes_work(p.node) && (!wants_gpus || on_type(seen, types, p.node));
    let useful = target.placements().iter().any(|p| usable(&p));
    let movable = seen.job(id).is_some_and(|view| view.job.goals.movable);
    let of = |p: &Placement| if wants_part { p.gpus.milli() } else { u64::from(p.gpus.count()) * GPU };
    let milli = target.placements().iter().filter(usable).map(of).sum();
    (useful && movable).then_some(milli)
}

fn on_type(seen: &Snapshot, types: GpuTypeSet, node: crate::model::NodeId) -> bool {
    seen.cluster.node(node).gpu_type.is_some_and(|gpu_type| types.has(gpu_type))
}
