//! A policy's working copy of the targets: kept in step with the snapshots, edited, and turned into a decision.
//!
//! Cost: following a snapshot is proportional to what changed, not to the number of jobs.

mod tasks;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{Allocation, GpuTypeSet, Job, JobId, NodeId, NodeState, Quotas, Time, Topology, Wanted};
use crate::place::{Ask, FreeCapacity, NoRoom, Rule, largest_gang_by, no_room};
use crate::view::{JobView, Note, Snapshot};

use super::{Change, Decision, Reason, Verdict};

/// The targets as the policy would have them.
#[derive(Debug)]
pub struct Plan {
    /// The number of the snapshot it is in step with.
    following: Option<u64>,
    free: FreeCapacity,
    targets: BTreeMap<JobId, Target>,
    /// What each edited job had before the edits.
    before: BTreeMap<JobId, Allocation>,
    /// What jobs had when they were last evicted in this decision.
    evicted: BTreeMap<JobId, Allocation>,
    /// Jobs that should keep away from a node for a while.
    shuns: BTreeMap<JobId, (NodeId, Time)>,
    at: Time,
    answer: Decision,
}

#[derive(Debug)]
struct Target {
    job: Arc<Job>,
    allocation: Allocation,
}

/// What a policy has to look at after following a snapshot.
#[derive(Debug)]
pub struct News {
    /// Whether everything was rebuilt, so that the policy's own caches are void.
    pub rebuilt: bool,
    /// The jobs to look at, in ascending order; all of them after a rebuild.
    pub jobs: Vec<JobId>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            following: None,
            free: FreeCapacity::new(&crate::model::Cluster::default()),
            targets: BTreeMap::new(),
            before: BTreeMap::new(),
            evicted: BTreeMap::new(),
            shuns: BTreeMap::new(),
            at: Time::ZERO,
            answer: Decision::default(),
        }
    }
}

impl Plan {
    /// Brings the plan in step with a snapshot. Call it first in every decision.
    pub fn follow(&mut self, seen: &Snapshot) -> News {
        self.answer = Decision::default();
        self.before.clear();
        self.evicted.clear();
        self.at = seen.at;
        let in_step = self.is_in_step(seen);
        self.following = Some(seen.number);
        if !in_step {
            return self.rebuild(seen);
        }
        for node in &seen.changed.nodes {
            self.free.set_state(*node, seen.cluster.node(*node).state);
        }
        // What one job no longer has may be what another has now.
        for id in &seen.changed.jobs {
            self.forget(*id, seen.job(*id));
        }
        for id in &seen.changed.jobs {
            self.adopt(*id, seen.job(*id));
        }
        News { rebuilt: false, jobs: seen.changed.jobs.clone() }
    }

    /// Whether the snapshot follows the one that the plan knows, so that only what changed matters.
    pub fn is_in_step(&self, seen: &Snapshot) -> bool {
        self.following.is_some_and(|number| number + 1 == seen.number)
    }

    fn rebuild(&mut self, seen: &Snapshot) -> News {
        self.free = FreeCapacity::new(&seen.cluster);
        self.targets.clear();
        self.shuns.clear();
        for view in seen.jobs() {
            self.adopt(view.id(), Some(view));
        }
        News { rebuilt: true, jobs: seen.jobs.keys().copied().collect() }
    }

    /// Gives back the target of a job, unless it is the one that the snapshot shows.
    fn forget(&mut self, id: JobId, view: Option<&JobView>) {
        let shown = view.map(|view| &view.target).filter(|target| target.is_some());
        if self.targets.get(&id).map(|target| &target.allocation) != shown
            && let Some(old) = self.targets.remove(&id)
        {
            self.free.release(&old.allocation, &old.job.shape);
        }
    }

    /// Takes over the target that the snapshot shows for one job, which has no other.
    fn adopt(&mut self, id: JobId, view: Option<&JobView>) {
        match view.and_then(|view| view.shuns) {
            Some(shuns) => self.shuns.insert(id, shuns),
            None => self.shuns.remove(&id),
        };
        let shown = view.map(|view| &view.target).filter(|target| target.is_some());
        if self.targets.contains_key(&id) {
            return;
        }
        if let (Some(view), Some(shown)) = (view, shown) {
            self.free.take(shown, &view.job.shape);
            let target = Target { job: view.job.clone(), allocation: shown.clone() };
            self.targets.insert(id, target);
        }
    }

    /// What no target takes.
    pub const fn free(&self) -> &FreeCapacity {
        &self.free
    }

    /// The target of a job.
    pub fn target(&self, id: JobId) -> Option<&Allocation> {
        self.targets.get(&id).map(|target| &target.allocation)
    }

    /// All jobs with a target, in ascending order.
    pub fn running(&self) -> impl Iterator<Item = (JobId, &Arc<Job>, &Allocation)> {
        self.targets.iter().map(|(id, target)| (*id, &target.job, &target.allocation))
    }

    /// Gives a job without a target its smallest gang, if there is room.
    pub fn place(&mut self, job: &Arc<Job>, rule: Rule) -> bool {
        self.place_as(job, rule, &Ask::minimum(&job.shape, &job.wanted))
    }

    /// Gives a job without a target what is asked, if there is room.
    ///
    /// # Panics
    /// If the job has a target.
    pub fn place_as(&mut self, job: &Arc<Job>, rule: Rule, ask: &Ask<'_>) -> bool {
        let until = self.shun(job.id, NodeState::Draining);
        let placed = self.free.place(rule, ask);
        if let Some(until) = until {
            self.shun(job.id, NodeState::Up);
            if placed.is_none() {
                self.wake_at(until);
            }
        }
        let found = placed.is_some();
        if let Some(allocation) = placed {
            self.set(job, allocation);
        }
        found
    }

    /// Gives a job without a target exactly this, if all of it is free, on nodes that take work. Whether the job accepts
    /// the place is the caller's concern.
    ///
    /// # Panics
    /// If the job has a target.
    pub fn give(&mut self, job: &Arc<Job>, allocation: Allocation) -> bool {
        let free = self.free.has_room_for(&allocation, &job.shape);
        if free {
            self.free.take(&allocation, &job.shape);
            self.set(job, allocation);
        }
        free
    }

    /// Where [`Self::place`] would put a job now.
    pub fn would_place(&mut self, job: &Arc<Job>, rule: Rule) -> Option<Allocation> {
        let hidden = self.shun(job.id, NodeState::Draining);
        let placed = self.free.place(rule, &Ask::minimum(&job.shape, &job.wanted));
        if hidden.is_some() {
            self.shun(job.id, NodeState::Up);
        }
        placed.inspect(|placed| self.free.release(placed, &job.shape))
    }

    /// Hides the node on which a job failed lately, or shows it again.
    fn shun(&mut self, id: JobId, state: NodeState) -> Option<Time> {
        let (node, until) = *self.shuns.get(&id).filter(|(_, until)| *until > self.at)?;
        if !self.free.takes_work(node) && state == NodeState::Draining {
            return None;
        }
        self.free.set_state(node, state);
        Some(until)
    }

    /// Whether a job keeps away from a node on which it failed.
    pub fn keeps_away(&self, id: JobId) -> bool {
        self.shuns.get(&id).is_some_and(|(_, until)| *until > self.at)
    }

    /// Until when a job keeps away from a node on which it failed, if that is all that keeps it waiting.
    pub fn backs_off(&mut self, job: &Arc<Job>, rule: Rule) -> Option<Time> {
        let (_, until) = *self.shuns.get(&job.id).filter(|(_, until)| *until > self.at)?;
        let placed = self.free.place(rule, &Ask::minimum(&job.shape, &job.wanted))?;
        self.free.release(&placed, &job.shape);
        Some(until)
    }

    /// Gives a job back exactly what it had before it was evicted in this decision, if that is still free.
    pub fn restore(&mut self, job: &Arc<Job>) -> bool {
        let Some(had) = self.before.get(&job.id).filter(|had| had.is_some()).cloned() else {
            return false;
        };
        let free = self.free.keep(&had, &job.shape);
        if free {
            self.set(job, had);
        }
        free
    }

    /// Takes back an eviction of this decision, for a job that had a target of this decision or before.
    pub fn undo_evict(&mut self, job: &Arc<Job>) -> bool {
        let Some(had) = self.evicted.remove(&job.id) else {
            return false;
        };
        let free = self.free.keep(&had, &job.shape);
        if free {
            self.set(job, had);
        }
        free
    }

    fn set(&mut self, job: &Arc<Job>, allocation: Allocation) {
        self.before.entry(job.id).or_insert(Allocation::NONE);
        let old = self.targets.insert(job.id, Target { job: job.clone(), allocation });
        assert!(old.is_none(), "{} already has a target", job.id);
    }

    /// Takes workers from an elastic job until it has its smallest gang; it keeps the first ones.
    ///
    /// Parameter servers stay as they are. Jobs that are forked or task graphs are left alone.
    pub fn shrink(&mut self, id: JobId) {
        let Some(target) = self.targets.get(&id) else { return };
        let Some(shape) = target.job.shape.data_parallel() else { return };
        let least = shape.workers.min.max(1);
        if target.allocation.workers() <= least || target.allocation.copies() > 1 {
            return;
        }
        let job = target.job.clone();
        let smaller = target.allocation.first_workers(least, shape.worker.gpu_milli);
        self.evict(id);
        self.free.take(&smaller, &job.shape);
        self.set(&job, smaller);
    }

    /// Gives an elastic job one more worker, if it can use one and there is room: where it had one when
    /// the decision began, else by the rule.
    pub fn grow(&mut self, id: JobId, rule: Rule) -> bool {
        let Some(target) = self.targets.get(&id) else { return false };
        let (job, held) = (target.job.clone(), target.allocation.clone());
        let Some(shape) = job.shape.data_parallel() else { return false };
        let workers = held.workers();
        if workers >= shape.workers.max || held.copies() > 1 {
            return false;
        }
        let again = self.before.get(&id).and_then(|had| had.next_worker(&held, shape.worker.gpu_milli));
        let again = again.filter(|more| self.may_add(&job, &held, more) && self.free.keep(more, &job.shape));
        let Some(more) = again.or_else(|| self.more_workers(&job, rule, 1, &held)) else { return false };
        let larger = held.with(&more);
        self.change_target(id, &held, larger);
        true
    }

    /// Takes room for further workers of a job, by the rule, near what it holds and away from where it failed.
    fn more_workers(&mut self, job: &Job, rule: Rule, workers: u32, held: &Allocation) -> Option<Allocation> {
        let wanted = self.near(job, held);
        let ask = Ask { shape: &job.shape, wanted: &wanted, workers, servers: 0 };
        let until = self.shun(job.id, NodeState::Draining);
        let more = self.free.place_more_workers(rule, &ask, held);
        if let Some(until) = until {
            self.shun(job.id, NodeState::Up);
            if more.is_none() {
                self.wake_at(until);
            }
        }
        more
    }

    /// Whether a job may have more of what it had before to what it holds now, which may be elsewhere, and which is not empty.
    fn may_add(&self, job: &Job, held: &Allocation, more: &Allocation) -> bool {
        let wanted = self.near(job, held);
        let rack = |node: &NodeId| self.free.rack(*node);
        let (here, there) = (held.nodes(), more.nodes());
        let is_near = match wanted.topology {
            Topology::Anywhere => true,
            Topology::SameRack => there.iter().all(|node| rack(node) == rack(&here[0])),
            Topology::SameNode => here == there,
        };
        let may_use = |node: &NodeId| self.free.gpu_type(*node).is_none_or(|kind| wanted.gpu_types.has(kind));
        let shuns = self.shuns.get(&job.id).filter(|(_, until)| *until > self.at);
        is_near && there.iter().all(may_use) && shuns.is_none_or(|(node, _)| !more.touches(*node))
    }

    /// Gives an elastic job with a target so many workers, or as many as there is room for, and says how many it has then.
    ///
    /// A smaller job keeps its first workers. A larger one goes back first to where it had workers when the decision
    /// began, then where the rule says, all at once as far as that can be. Parameter servers stay as they are; forked jobs
    /// and task graphs are left alone.
    pub fn resize(&mut self, id: JobId, workers: u32, rule: Rule) -> u32 {
        let Some(target) = self.targets.get(&id) else { return 0 };
        let (job, held) = (target.job.clone(), target.allocation.clone());
        let has = held.workers();
        let Some(shape) = job.shape.data_parallel() else { return has };
        let wanted = workers.clamp(shape.workers.min.max(1), shape.workers.max.max(1));
        if held.copies() > 1 || wanted == has {
            return has;
        }
        if wanted < has {
            let smaller = held.first_workers(wanted, shape.worker.gpu_milli);
            self.free.release(&held, &job.shape);
            self.free.take(&smaller, &job.shape);
            self.change_target(id, &held, smaller);
            return wanted;
        }
        let mut larger = held.clone();
        let before = self.before.get(&id).cloned().unwrap_or_default();
        for part in before.further_workers(&held, wanted - has, shape.worker.gpu_milli) {
            let part = Allocation::new(vec![part]);
            if self.may_add(&job, &larger, &part) && self.free.keep(&part, &job.shape) {
                larger = larger.with(&part);
            }
        }
        let mut missing = wanted - larger.workers();
        let mut batch = missing;
        while missing > 0 && batch > 0 {
            match self.more_workers(&job, rule, batch, &larger) {
                Some(more) => {
                    larger = larger.with(&more);
                    missing -= batch;
                    batch = batch.min(missing);
                }
                None => batch /= 2,
            }
        }
        if larger != held {
            self.change_target(id, &held, larger);
        }
        wanted - missing
    }

    /// Replaces the target of a job, for which room was taken already.
    fn change_target(&mut self, id: JobId, had: &Allocation, has: Allocation) {
        self.before.entry(id).or_insert_with(|| had.clone());
        if let Some(target) = self.targets.get_mut(&id) {
            target.allocation = has;
        }
    }

    /// The constraints on one more worker of a job that already holds something.
    fn near(&self, job: &Job, held: &Allocation) -> Wanted {
        let mut wanted = job.wanted;
        let types = held.placements().iter().filter_map(|p| self.free.gpu_type(p.node));
        let types: Vec<_> = types.collect();
        if !wanted.mixed_gpu_types && !types.is_empty() {
            wanted.gpu_types = GpuTypeSet::of(&types);
        }
        wanted
    }

    /// Takes a job's target away.
    ///
    /// # Panics
    /// If it has none.
    pub fn evict(&mut self, id: JobId) -> Allocation {
        let target = self.targets.remove(&id).expect("only a job with a target can be evicted");
        self.free.release(&target.allocation, &target.job.shape);
        self.before.entry(id).or_insert_with(|| target.allocation.clone());
        self.evicted.insert(id, target.allocation.clone());
        target.allocation
    }

    /// Records a verdict; the latest one on a job counts.
    pub fn say(&mut self, id: JobId, verdict: Verdict) {
        self.answer.verdicts.push((id, verdict));
    }

    /// Records a note.
    pub fn note(&mut self, id: JobId, note: Note) {
        self.answer.notes.push((id, note));
    }

    /// Lets the copies of a job be brought together, and says how far each may go from then on.
    pub fn merge(&mut self, id: JobId, quotas: Quotas) {
        self.answer.merges.push((id, quotas));
    }

    /// Records what to remember about the run as a whole.
    pub fn note_run(&mut self, note: Note) {
        self.answer.note = Some(note);
    }

    /// Asks for a decision at `at` or earlier.
    pub fn wake_at(&mut self, at: Time) {
        self.answer.wake = Some(self.answer.wake.map_or(at, |wake| wake.min(at)));
    }

    /// Records a change to a job.
    pub fn change(&mut self, change: Change) {
        self.answer.changes.push(change);
    }

    /// What keeps the smallest gang of a job from fitting now.
    pub fn no_room(&self, job: &Job) -> NoRoom {
        no_room(&self.free, &job.shape, &job.wanted)
    }

    /// `Unplaceable` if the job would not even fit the idle cluster, placed by a rule.
    pub fn unplaceable(seen: &Snapshot, job: &Job, rule: Rule) -> Option<Reason> {
        let workers = Ask::minimum(&job.shape, &job.wanted).workers;
        let largest = largest_gang_by(rule, &seen.cluster, &job.shape, &job.wanted);
        let graph = job.shape.data_parallel().is_none();
        (largest < if graph { 1 } else { workers }).then_some(Reason::Unplaceable { workers, largest })
    }

    /// The decision: all edits that made a difference.
    pub fn finish(&mut self) -> Decision {
        let mut answer = std::mem::take(&mut self.answer);
        let before = std::mem::take(&mut self.before);
        let now = |id: &JobId| self.target(*id).cloned().unwrap_or_default();
        answer.targets = before
            .into_iter()
            .map(|(id, had)| (now(&id), id, had))
            .filter(|(has, _, had)| has != had)
            .map(|(has, id, _)| (id, has))
            .collect();
        // Of several verdicts on one job the last one counts; the sort is stable.
        answer.verdicts.sort_by_key(|(id, _)| *id);
        let latest = |verdicts: &mut Vec<(JobId, Verdict)>| {
            verdicts.reverse();
            verdicts.dedup_by_key(|(id, _)| *id);
            verdicts.reverse();
        };
        latest(&mut answer.verdicts);
        answer.merges.sort_by_key(|(id, _)| *id);
        answer.notes.sort_by_key(|(id, _)| *id);
        answer.notes.reverse();
        answer.notes.dedup_by_key(|(id, _)| *id);
        answer.notes.reverse();
        answer
    }
}
