//! What is believed about the cluster and its jobs, changed by events and by orders, and by nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::decide::{Decision, EarlyEnd, Reason, Verdict};
use crate::estimate::Fitting;
use crate::model::{
    Allocation, Attempt, Cluster, Job, JobId, NodeId, NodeState, Seed, Span, Tenants, Time, Usage,
};
use crate::view::{Causes, Changed, JobView, Jobs, Note, Phase, Snapshot};

use super::copies::{Stretch, keep_copies};
use super::ledger::Ledger;
use super::moves::{Move, Parts, beyond};
use super::reports::resume_losses;
use super::{Action, Event, How, Outcome};

/// How long a job is kept away from a node on which it failed.
const BACK_OFF: Span = Span::from_secs(300);

/// What is believed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    cluster: Arc<Cluster>,
    tenants: Arc<Tenants>,
    pub(super) jobs: Jobs,
    /// Jobs that were known once and have ended: one bit each.
    pub(super) ended: Vec<u64>,
    pub(super) verdicts: BTreeMap<JobId, Verdict>,
    /// What the policy remembers about the run.
    #[serde(default)]
    note: Note,
    /// Jobs that reported fewer iterations than they had, with the number.
    pub(super) suspects: BTreeMap<JobId, f64>,
    /// How loss curves are fitted, if they are.
    pub(super) fitting: Option<Fitting>,
    /// What jobs hold.
    held: Ledger,
    /// What jobs are meant to hold.
    planned: Ledger,
    /// What actions found due in this step will take; empty between steps.
    reserved: Vec<(JobId, Parts)>,
    /// Jobs whose target is not what they hold.
    pub(super) unsettled: BTreeSet<JobId>,
    /// Jobs whose stop rule is met or whose owner has withdrawn them, and that still hold something.
    pub(super) ending: BTreeMap<JobId, Outcome>,
    /// Why those of them that are cut short are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) early: BTreeMap<JobId, EarlyEnd>,
    /// Jobs that were cut short, as they were at their end; their owners may take them up again.
    #[serde(default, skip_serializing_if = "Jobs::is_empty")]
    pub(super) parted: Jobs,
    /// What jobs that are being moved take beyond what they hold, until the move is reported.
    moving: BTreeMap<JobId, Move>,
    /// Forked jobs whose copies are to be brought together before they stop or change.
    pub(super) unmerged: BTreeSet<JobId>,
    /// What is wanted of jobs with several copies between two merges.
    #[serde(default)]
    pub(super) stretches: BTreeMap<JobId, Stretch>,
    pub(super) just_ended: Vec<(JobId, Outcome)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) just_early: Vec<(JobId, EarlyEnd)>,
    changed_jobs: BTreeSet<JobId>,
    changed_nodes: BTreeSet<NodeId>,
}

impl State {
    /// A cluster without jobs.
    pub fn new(cluster: Arc<Cluster>, tenants: Arc<Tenants>) -> Self {
        Self {
            held: Ledger::new(&cluster),
            planned: Ledger::new(&cluster),
            cluster,
            tenants,
            jobs: Jobs::new(),
            ended: Vec::new(),
            verdicts: BTreeMap::new(),
            note: Note::default(),
            suspects: BTreeMap::new(),
            fitting: None,
            reserved: Vec::new(),
            unsettled: BTreeSet::new(),
            ending: BTreeMap::new(),
            early: BTreeMap::new(),
            parted: Jobs::new(),
            moving: BTreeMap::new(),
            unmerged: BTreeSet::new(),
            stretches: BTreeMap::new(),
            just_ended: Vec::new(),
            just_early: Vec::new(),
            changed_jobs: BTreeSet::new(),
            changed_nodes: BTreeSet::new(),
        }
    }

    /// The machines.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The tenants.
    pub fn tenants(&self) -> &Tenants {
        &self.tenants
    }

    /// A job that has arrived and not ended.
    pub fn job(&self, id: JobId) -> Option<&JobView> {
        self.jobs.get(&id).map(|job| &**job)
    }

    pub(super) fn job_shared(&self, id: JobId) -> Option<&Arc<JobView>> {
        self.jobs.get(&id)
    }

    /// All jobs that have arrived and not ended.
    pub fn jobs(&self) -> impl Iterator<Item = &JobView> {
        self.jobs.values().map(|job| &**job)
    }

    /// Whether there is any job.
    pub fn has_jobs(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// The latest verdict on a job that has not ended.
    pub fn verdict(&self, id: JobId) -> Verdict {
        self.verdicts.get(&id).copied().unwrap_or(Verdict::Wait(Reason::NotYetEvaluated))
    }

    /// Whether a job was known once and has ended.
    pub fn has_ended(&self, id: JobId) -> bool {
        self.ended.get(id.index() / 64).is_some_and(|word| word >> (id.index() % 64) & 1 == 1)
    }

    /// Whether a job ends as soon as it has stopped.
    pub fn is_ending(&self, id: JobId) -> bool {
        self.ending.contains_key(&id)
    }

    /// Jobs whose target is not what they hold, in ascending order.
    pub fn unsettled(&self) -> impl Iterator<Item = JobId> + '_ {
        self.unsettled.iter().copied()
    }

    /// Whether a move was ordered and not yet reported.
    pub(super) fn is_moving(&self, id: JobId) -> bool {
        self.moving.contains_key(&id)
    }

    /// Where a running job was ordered to move, until the move is reported.
    pub fn moves_to(&self, id: JobId) -> Option<&Allocation> {
        self.moving.get(&id).map(|moving| &moving.to)
    }

    fn end_move(&mut self, id: JobId) {
        if let Some(Move { extra, .. }) = self.moving.remove(&id)
            && let Some(view) = self.jobs.get(&id)
        {
            self.held.remove_parts(&extra, &view.job.shape);
        }
    }

    /// Takes a snapshot; O(1) in the number of jobs. What changed is counted from the decision before it.
    /// Jobs that end as soon as they have stopped are left out: there is nothing to decide about them.
    pub fn snapshot(&self, at: Time, cause: Causes, seed: Seed, number: u64) -> Snapshot {
        let changed = Changed {
            jobs: self.changed_jobs.iter().copied().collect(),
            nodes: self.changed_nodes.iter().copied().collect(),
        };
        let mut jobs = self.jobs.clone();
        for id in self.ending.keys() {
            jobs.remove(id);
        }
        Snapshot {
            at,
            cause,
            seed,
            number,
            cluster: self.cluster.clone(),
            tenants: self.tenants.clone(),
            note: self.note.clone(),
            jobs,
            changed: Arc::new(changed),
        }
    }

    /// Forgets what changed: a decision has seen it.
    pub(super) fn begin_changes(&mut self) {
        self.changed_jobs.clear();
        self.changed_nodes.clear();
    }

    pub(super) fn touch(&mut self, id: JobId) {
        self.changed_jobs.insert(id);
    }

    pub(super) const fn planned(&mut self) -> &mut Ledger {
        &mut self.planned
    }

    /// Jobs that ended since this was asked last.
    pub(super) fn take_ended(&mut self) -> Vec<(JobId, Outcome)> {
        std::mem::take(&mut self.just_ended)
    }

    pub(super) fn forget_notes(&mut self) {
        self.note = Note::default();
        let noted: Vec<JobId> = self.jobs().filter(|view| !view.note.0.is_empty()).map(JobView::id).collect();
        for id in noted {
            self.edit(id, |view| view.note = Note::default());
        }
    }

    pub(super) fn edit<R>(&mut self, id: JobId, change: impl FnOnce(&mut JobView) -> R) -> Option<R> {
        let view = self.jobs.get_mut(&id)?;
        Some(change(Arc::make_mut(view)))
    }

    /// Whether the target of a job that holds nothing is free now.
    pub(super) fn is_physically_free(&mut self, view: &JobView) -> bool {
        self.held.has_room(&view.target, &view.job.shape, &self.cluster)
    }

    /// The nodes where a job that keeps running cannot have its target yet. It holds both its old and
    /// its new devices until the backend has moved it.
    pub(super) fn nodes_in_the_way(&mut self, view: &JobView) -> SmallVec<[NodeId; 4]> {
        let (shape, extra) = (&view.job.shape, beyond(&view.target, &view.held));
        self.held.add_parts(&extra, shape);
        let in_the_way =
            |node: &NodeId| self.held.is_over(*node) || self.cluster.node(*node).state == NodeState::Down;
        let placements = view.target.placements().iter();
        let mut nodes: SmallVec<[NodeId; 4]> = placements.map(|p| p.node).filter(in_the_way).collect();
        self.held.remove_parts(&extra, shape);
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Books what an action found due will take, until all of the step's actions are known.
    pub(super) fn reserve(&mut self, action: &Action) {
        let (Action::Start { job, allocation, .. } | Action::Resize { job, allocation, .. }) = action else {
            return;
        };
        let view = self.jobs.get(job).expect("an action is due for a known job");
        let extra = beyond(allocation, &view.held);
        self.held.add_parts(&extra, &view.job.shape);
        self.reserved.push((*job, extra));
    }

    pub(super) fn release_reservations(&mut self) {
        for (id, extra) in std::mem::take(&mut self.reserved) {
            let view = self.jobs.get(&id).expect("an action is due for a known job");
            self.held.remove_parts(&extra, &view.job.shape);
        }
    }

    /// Applies an event. Applying it twice, or after its attempt is over, changes nothing.
    pub fn apply(&mut self, at: Time, event: &Event) -> Causes {
        match event {
            Event::Arrived { job } => self.arrive(at, job),
            Event::Withdrawn { job } => self.withdraw(at, *job),
            Event::Resumed { job } => self.take_up(at, *job),
            Event::NodeChanged { node, state } => self.change_node(*node, *state),
            // Who decides is not part of what is believed.
            Event::PolicyChanged { .. } => Causes::NONE,
            _ => {
                let (id, attempt) = event.attempt().expect("all other events are about an attempt");
                let current = self.job(id).is_some_and(|view| view.attempt == attempt && view.held.is_some());
                if current { self.apply_to_attempt(at, id, event) } else { Causes::NONE }
            }
        }
    }

    fn arrive(&mut self, at: Time, job: &Arc<Job>) -> Causes {
        if self.jobs.contains_key(&job.id) || self.has_ended(job.id) {
            return Causes::NONE;
        }
        self.jobs.insert(job.id, Arc::new(JobView::new(job.clone(), at)));
        self.touch(job.id);
        Causes::ARRIVED
    }

    fn withdraw(&mut self, at: Time, id: JobId) -> Causes {
        let Some(view) = self.job(id) else { return Causes::NONE };
        if view.held.is_none() {
            self.end(at, id, Outcome::Withdrawn);
            return Causes::ENDED;
        }
        self.begin_ending(id, Outcome::Withdrawn);
        Causes::NONE
    }

    fn change_node(&mut self, node: NodeId, state: NodeState) -> Causes {
        let known = self.cluster.nodes.get(node.index()).is_some_and(|known| known.state != state);
        if !known {
            return Causes::NONE;
        }
        Arc::make_mut(&mut self.cluster).nodes[node.index()].state = state;
        self.changed_nodes.insert(node);
        if state == NodeState::Down {
            // Nobody can be meant to run there; what still holds it is stopped or reported lost.
            let there: Vec<JobId> =
                self.jobs().filter(|view| view.target.touches(node)).map(JobView::id).collect();
            for id in there {
                self.set_target(id, Allocation::NONE);
                self.touch(id);
            }
        }
        Causes::NODES
    }

    fn apply_to_attempt(&mut self, at: Time, id: JobId, event: &Event) -> Causes {
        self.touch(id);
        match event {
            Event::Started { iterations, speed, .. } => self.started(at, id, *iterations, *speed),
            Event::Resized { allocation, iterations, speed, .. } => {
                self.resized(at, id, allocation, *iterations, *speed)
            }
            Event::Stopped { iterations, .. } => {
                let causes = self.let_go(at, id, *iterations);
                if causes == Causes::NONE { Causes::SETTLED } else { causes }
            }
            Event::Progress { iterations, speed, saved, losses, copies, .. } => {
                self.progress(at, id, (*iterations, *speed, *saved), (losses, copies))
            }
            Event::Used { usage, .. } => {
                self.edit(id, |view| view.used = usage.clone());
                Causes::NONE
            }
            Event::Merged { number, .. } => self.merged(id, *number),
            Event::StartFailed { node, .. } => {
                let kept = self.job(id).map_or(0.0, |view| view.done.saved);
                self.lost(at, id, kept, *node)
            }
            Event::Lost { iterations, node, .. } => self.lost(at, id, *iterations, *node),
            Event::Finished { outcome, .. } => {
                // One that was cut short may go on from there.
                let kept = self.job(id).map_or(0.0, |view| view.done.saved);
                let _ = self.let_go(at, id, kept);
                self.end(at, id, self.ending.get(&id).copied().unwrap_or(*outcome));
                Causes::ENDED
            }
            Event::Arrived { .. }
            | Event::Withdrawn { .. }
            | Event::Resumed { .. }
            | Event::NodeChanged { .. }
            | Event::PolicyChanged { .. } => unreachable!("these are not about an attempt"),
        }
    }

    fn started(&mut self, at: Time, id: JobId, iterations: f64, speed: f64) -> Causes {
        let fitting = self.fitting;
        self.suspects.remove(&id);
        self.edit(id, |view| {
            let starting = view.phase == Phase::Starting;
            if starting {
                view.phase = Phase::Running;
                view.done.iterations = iterations;
                view.done.saved = iterations;
                (view.done.speed, view.done.as_of, view.done.saved_at) = (speed, at, at);
                resume_losses(view, iterations, fitting.as_ref());
            }
        });
        self.note_unmerged(id);
        Causes::SETTLED
    }

    fn resized(
        &mut self,
        at: Time,
        id: JobId,
        allocation: &Allocation,
        iterations: f64,
        speed: f64,
    ) -> Causes {
        // A report that comes again, after the job was ordered elsewhere, is of no concern any more.
        let ordered = self.moving.get(&id).is_some_and(|moving| moving.to == *allocation);
        if !ordered || self.job(id).is_none_or(|view| view.phase != Phase::Running) {
            return Causes::NONE;
        }
        self.end_move(id);
        let Some(view) = self.jobs.get_mut(&id).map(Arc::make_mut) else { return Causes::NONE };
        self.held.remove(&view.held, &view.job.shape);
        self.held.add(allocation, &view.job.shape);
        let was_one = view.held.copies() == 1;
        close_span(view, at);
        // One that shares its devices now, or has them alone again, did not move.
        view.served.moves += u32::from(!view.held.is_on_same_devices(allocation));
        view.held = allocation.clone();
        view.done.iterations = iterations;
        (view.done.speed, view.done.as_of) = (speed, at);
        keep_copies(view);
        self.settle(id);
        if was_one {
            self.note_unmerged(id);
        }
        Causes::SETTLED
    }

    fn lost(&mut self, at: Time, id: JobId, iterations: f64, node: Option<NodeId>) -> Causes {
        let ended = self.let_go(at, id, iterations);
        if ended != Causes::NONE {
            return ended;
        }
        self.edit(id, |view| {
            view.served.failures += 1;
            view.shuns = node.map(|node| (node, at + BACK_OFF));
        });
        self.set_target(id, Allocation::NONE);
        Causes::LOST
    }

    /// A job holds nothing any more. It ends if that is what it was stopped for.
    fn let_go(&mut self, at: Time, id: JobId, iterations: f64) -> Causes {
        self.end_move(id);
        let Some(view) = self.jobs.get_mut(&id).map(Arc::make_mut) else { return Causes::NONE };
        self.held.remove(&view.held, &view.job.shape);
        close_span(view, at);
        view.held = Allocation::NONE;
        view.phase = Phase::Waiting;
        view.done.iterations = iterations;
        view.done.saved = iterations;
        view.done.copies.clear();
        view.used = Usage::NONE;
        (view.done.speed, view.done.as_of, view.done.saved_at) = (0.0, at, at);
        self.unmerged.remove(&id);
        self.forget_stretch(id);
        self.suspects.remove(&id);
        self.settle(id);
        if let Some(outcome) = self.ending.get(&id).copied() {
            self.end(at, id, outcome);
            return Causes::ENDED;
        }
        Causes::NONE
    }

    pub(super) fn set_target(&mut self, id: JobId, target: Allocation) {
        let Some(view) = self.jobs.get_mut(&id).map(Arc::make_mut) else { return };
        self.planned.remove(&view.target, &view.job.shape);
        self.planned.add(&target, &view.job.shape);
        view.target = target;
        self.settle(id);
        self.note_unmerged(id);
    }

    fn settle(&mut self, id: JobId) {
        let settled = self.job(id).is_none_or(|view| view.held == view.target);
        if settled {
            self.unsettled.remove(&id);
            self.unmerged.remove(&id);
        } else {
            self.unsettled.insert(id);
        }
    }

    /// Takes over a checked decision.
    pub(super) fn adopt(&mut self, decision: &Decision) {
        // First everything that gives up, then everything that takes, so that no sum is ever exceeded.
        for (id, _) in &decision.targets {
            self.set_target(*id, Allocation::NONE);
        }
        for (id, target) in &decision.targets {
            if self.is_ending(*id) {
                // It stops for good, whatever the policy would like; the policy is shown that.
                self.touch(*id);
            } else {
                self.set_target(*id, target.clone());
            }
        }
        self.adopt_merges(decision);
        for (id, verdict) in &decision.verdicts {
            self.verdicts.insert(*id, *verdict);
        }
        for (id, note) in &decision.notes {
            self.edit(*id, |view| view.note = note.clone());
        }
        if let Some(note) = &decision.note {
            self.note = note.clone();
        }
    }

    /// Books an action that is about to be performed.
    pub(super) fn order(&mut self, at: Time, action: &Action) {
        match action {
            Action::Start { job, attempt, allocation, .. } => {
                self.ordered_start(at, *job, *attempt, allocation);
            }
            Action::Stop { job, how, .. } => {
                self.touch(*job);
                let preempted = self.job(*job).is_some_and(|view| view.target.is_none());
                self.edit(*job, |view| {
                    // It makes no progress while it saves.
                    view.done.iterations = view.iterations(at);
                    (view.done.speed, view.done.as_of) = (0.0, at);
                    view.phase = Phase::Stopping;
                    match how {
                        How::Finish => {}
                        How::Save if preempted => view.served.preemptions += 1,
                        How::Save => view.served.moves += 1,
                    }
                });
            }
            Action::Resize { job, allocation, .. } => {
                let Some(view) = self.jobs.get(job) else { return };
                let extra = beyond(allocation, &view.held);
                self.held.add_parts(&extra, &view.job.shape);
                self.moving.insert(*job, Move { to: allocation.clone(), extra });
            }
            Action::Merge { job, number, quotas, .. } => self.ordered_merge(at, *job, *number, quotas),
        }
    }

    fn ordered_start(&mut self, at: Time, id: JobId, attempt: Attempt, allocation: &Allocation) {
        let Some(view) = self.jobs.get_mut(&id).map(Arc::make_mut) else { return };
        self.held.add(allocation, &view.job.shape);
        close_span(view, at);
        view.attempt = attempt;
        view.held = allocation.clone();
        view.phase = Phase::Starting;
        view.served.first_held.get_or_insert(at);
        self.settle(id);
        self.touch(id);
    }

    /// Checks everything that is kept twice against each other. For tests; O(jobs).
    ///
    /// # Panics
    /// If belief contradicts itself.
    pub fn assert_consistent(&self) {
        let (mut held, mut planned) = (Ledger::new(&self.cluster), Ledger::new(&self.cluster));
        for view in self.jobs() {
            held.add(&view.held, &view.job.shape);
            if let Some(Move { extra, .. }) = self.moving.get(&view.id()) {
                held.add_parts(extra, &view.job.shape);
            }
            planned.add(&view.target, &view.job.shape);
            let id = view.id();
            assert_eq!(self.unsettled.contains(&id), view.held != view.target, "{id}: settled or not");
            assert_eq!(view.held.is_none(), view.phase == Phase::Waiting, "{id}: phase and held");
            assert!(!self.has_ended(id), "{id} is there and has ended");
        }
        assert!(self.held == held, "the account of what is held is wrong");
        assert!(self.planned == planned, "the account of what is planned is wrong");
        assert!(self.reserved.is_empty(), "a reservation outlived its step");
        for node in &self.cluster.nodes {
            assert!(!held.is_over(node.id), "more of {} is held than there is", node.id);
            assert!(!planned.is_over(node.id), "more of {} is planned than there is", node.id);
        }
    }
}

/// Closes the span since the last change of what the job holds.
pub(super) fn close_span(view: &mut JobView, at: Time) {
    let span = at.since(view.served.changed);
    // A wide job that runs for millennia saturates instead of starting from zero again.
    let given = span.0.saturating_mul(view.held.gpu_milli());
    view.served.gpu_milli_us = view.served.gpu_milli_us.saturating_add(given);
    if view.held.is_some() {
        view.served.executed += span;
    } else {
        view.served.waited += span;
    }
    view.served.changed = at;
}
