//! One decision of MLF-H (MLFS, section 3.3.3).

use std::collections::{BTreeMap, BTreeSet};

use crate::decide::{Decision, Plan, Reason};
use crate::model::{
    Allocation, Cluster, GpuTypeSet, JobId, NodeId, NodeState, Placement, Resources, TaskId, Time, Topology,
};
use crate::place::{Ask, Rule};
use crate::view::{JobView, Snapshot};

use super::hopeless::Hopeless;
use super::member::{Fit, Member, bounded, load};
use super::memory::Memory;
use super::parameters::{Parameters, Unplaced};
use super::placing::{Sought, piece, pieces, placements, talks};
use super::queue::{Key, Ranking, What, tasks_of, waiting};
use super::relief::{Leaving, jobs_on_overloaded, relieve, settled_before};
use super::servers::{Load, Piece, Servers};

/// What a decision is made with, kept in step with the snapshots.
pub(super) struct Mlfs {
    pub(super) parameters: Parameters,
    pub(super) servers: Servers,
    /// A cluster on which nothing runs and every node takes work.
    pub(super) idle: Servers,
    pub(super) members: BTreeMap<JobId, Member>,
    /// Jobs of which something has no place.
    waiting: BTreeSet<JobId>,
    /// Jobs that hold something.
    running: BTreeSet<JobId>,
    following: Option<u64>,
    pub(super) made: Made,
}

/// What was decided so far.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// The jobs to speak of, whatever comes.
    pub(super) news: Vec<JobId>,
    /// What jobs had that have something else now.
    pub(super) before: BTreeMap<JobId, Allocation>,
    /// What kept jobs waiting.
    pub(super) misses: BTreeMap<JobId, Miss>,
    /// The first in the queue that found no room.
    pub(super) first_missed: Vec<JobId>,
    /// Those that have waited so long for room that nothing behind them gets any.
    pub(super) impatient: Vec<JobId>,
    /// Tasks that moved, and from which node their job was relieved.
    pub(super) relieved: BTreeMap<JobId, Relieved>,
    pub(super) wake: Option<Time>,
}

/// What kept a job waiting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Miss {
    /// The task that found no node.
    pub(super) task: TaskId,
    /// How many before it had found one.
    pub(super) found: u32,
    /// How many looked for one together.
    pub(super) tasks: u32,
    /// Whether all of it would have found one, were it not for the node on which it failed.
    pub(super) until: Option<Time>,
}

/// A job of which a task had to leave a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Relieved {
    pub(super) node: NodeId,
    pub(super) moved: Vec<TaskId>,
}

impl Mlfs {
    pub(super) fn new(parameters: Parameters) -> Self {
        let nothing = Servers::new(&Cluster::default(), parameters.overload, parameters.bandwidth);
        Self {
            parameters,
            servers: nothing.clone(),
            idle: nothing,
            members: BTreeMap::new(),
            waiting: BTreeSet::new(),
            running: BTreeSet::new(),
            following: None,
            made: Made::default(),
        }
    }

    /// Brings everything in step with a snapshot.
    pub(super) fn follow(&mut self, seen: &Snapshot) {
        self.made = Made::default();
        let in_step = self.following.is_some_and(|number| number + 1 == seen.number)
            && self.servers.len() == seen.cluster.nodes.len();
        self.following = Some(seen.number);
        if !in_step {
            return self.rebuild(seen);
        }
        for node in &seen.changed.nodes {
            self.servers.set_state(*node, seen.cluster.node(*node).state);
        }
        // What one job no longer has may be what another has now.
        for id in &seen.changed.jobs {
            if let Some(member) = self.members.get_mut(id) {
                std::mem::take(&mut member.loads).iter().for_each(|(_, load)| self.servers.remove(load));
            }
        }
        for id in &seen.changed.jobs {
            self.adopt(*id, seen.job(*id));
        }
        self.made.news = seen.changed.jobs.clone();
        self.made.news.retain(|id| seen.job(*id).is_some());
    }

    fn rebuild(&mut self, seen: &Snapshot) {
        let (threshold, with_bytes) = (self.parameters.overload, self.parameters.bandwidth);
        self.servers = Servers::new(&seen.cluster, threshold, with_bytes);
        self.servers.together = self.parameters.together;
        let mut idle = (*seen.cluster).clone();
        idle.nodes.iter_mut().for_each(|node| node.state = NodeState::Up);
        self.idle = Servers::new(&idle, threshold, with_bytes);
        self.members.clear();
        self.waiting.clear();
        self.running.clear();
        for view in seen.jobs() {
            self.adopt(view.id(), Some(view));
        }
        self.made.news = seen.jobs.keys().copied().collect();
    }

    /// Takes over what the snapshot shows of a job of which nothing is counted.
    fn adopt(&mut self, id: JobId, view: Option<&JobView>) {
        let Some(view) = view else {
            self.members.remove(&id);
            self.waiting.remove(&id);
            self.running.remove(&id);
            return;
        };
        let member = self.members.entry(id).or_insert_with(|| Member::new(&view.job));
        member.target = view.target.clone();
        member.loads = view.target.placements().iter().map(|p| (p.task, load(view, p))).collect();
        member.loads.iter().for_each(|(_, load)| self.servers.add(load));
        self.sort_in(id);
    }

    /// Keeps the sets of jobs true.
    fn sort_in(&mut self, id: JobId) {
        let member = &self.members[&id];
        let set = |set: &mut BTreeSet<JobId>, has: bool| {
            if has { set.insert(id) } else { set.remove(&id) }
        };
        set(&mut self.waiting, member.waits());
        set(&mut self.running, member.target.is_some());
    }

    /// What waits, and these jobs, in ascending order.
    fn ranked<'a>(&'a self, seen: &'a Snapshot, others: &[JobId]) -> Vec<(&'a JobView, &'a Member)> {
        let mut ids: Vec<JobId> = self.waiting.iter().chain(others).copied().collect();
        if !others.is_empty() {
            ids.sort_unstable();
            ids.dedup();
        }
        ids.iter().filter_map(|id| Some((seen.job(*id)?, self.members.get(id)?))).collect()
    }

    /// The priorities of what waits, and of the tasks of these jobs; and what waits, in its order.
    pub(super) fn queue(&self, seen: &Snapshot, others: &[JobId]) -> (Ranking, Vec<(Key, What)>) {
        let lead = self.parameters.ps_global_first;
        let jobs = self.ranked(seen, others);
        let ranking = Ranking::of(seen, jobs.iter().copied(), &self.parameters);
        let mut queue = Vec::with_capacity(self.waiting.len());
        for (view, member) in jobs.into_iter().filter(|(_, member)| member.waits()) {
            for what in waiting(view, member) {
                let key = if let What::Replica(i) = what {
                    ranking.key(member, tasks_of(member, what).into_iter(), i, lead)
                } else {
                    ranking.key(member, (0..member.tasks() as u32).map(TaskId), 0, lead)
                };
                queue.push((key, what));
            }
        }
        queue.sort_unstable_by_key(|(key, _)| *key);
        (ranking, queue)
    }

    /// Decides all but what is said.
    pub(super) fn run(&mut self, seen: &Snapshot) {
        self.follow(seen);
        let overloaded = if self.parameters.migration {
            let running = self.running.iter().map(|id| (*id, &self.members[id]));
            jobs_on_overloaded(&self.servers, running)
        } else {
            Vec::new()
        };
        let (ranking, mut queue) = self.queue(seen, &overloaded);
        let leaving =
            relieve(seen, &mut self.servers, &mut self.members, &overloaded, &ranking, &self.parameters);
        if !leaving.is_empty() {
            queue.extend(leaving.iter().enumerate().map(|(i, task)| (task.key, What::Leaving(i))));
            queue.sort_by_key(|(key, what)| (*key, *what));
        }
        let mut unplaced: Vec<usize> = Vec::new();
        let mut scanned = 0;
        let mut hopeless = Hopeless::default();
        for (key, what) in queue {
            if let What::Leaving(i) = what {
                if !self.move_task(seen, &leaving[i]) {
                    unplaced.push(i);
                }
                continue;
            }
            if scanned >= self.parameters.most_scanned || self.is_held(key.job) {
                continue;
            }
            scanned += self.seek(seen, key.job, what, &ranking, &mut hopeless);
            self.hold_room(seen, &key);
        }
        for i in unplaced {
            self.stay_or_wait(&leaving[i]);
        }
    }

    /// Looks for nodes for something that waits; returns for how many tasks one was sought.
    fn seek(
        &mut self,
        seen: &Snapshot,
        id: JobId,
        what: What,
        ranking: &Ranking,
        hopeless: &mut Hopeless,
    ) -> i64 {
        let (Some(view), Some(member)) = (seen.job(id), self.members.get(&id)) else { return 0 };
        let shuns = view.shuns.filter(|(_, until)| *until > seen.at);
        let wanted = &member.job.wanted;
        let is_open = shuns.is_none()
            && member.target.is_none()
            && (wanted.gpu_types, wanted.topology) == (GpuTypeSet::ALL, Topology::Anywhere);
        if is_open && let Some(miss) = hopeless.miss(member, what) {
            return self.miss(seen, id, miss);
        }
        let pieces = pieces(view, member, what, Some((ranking, self.parameters.ps_global_first)));
        let sought = self.servers.seek(member, &pieces, shuns.map(|(node, _)| node));
        let (task, found) = match sought {
            Sought::Found(new) => {
                let count = new.len() as i64;
                self.give(id, new);
                return count;
            }
            Sought::NotFound { task, found } => (task, found),
        };
        if is_open && found == 0 {
            hopeless.add(pieces.iter().find(|piece| piece.task == task));
        }
        let mut miss = Miss { task, found, tasks: pieces.len() as u32, until: None };
        if let Some((_, until)) = shuns {
            self.made.wake = Some(self.made.wake.map_or(until, |wake| wake.min(until)));
            if let Sought::Found(new) = self.servers.seek(member, &pieces, None) {
                new.iter().for_each(|(_, load)| self.servers.remove(load));
                miss.until = Some(until);
            }
        }
        self.miss(seen, id, miss)
    }

    /// Something found no room. Returns for how many tasks it was sought.
    fn miss(&mut self, seen: &Snapshot, id: JobId, miss: Miss) -> i64 {
        let scanned = i64::from(miss.found) + 1;
        let has_nothing = self.members[&id].target.is_none();
        if has_nothing && self.fit(seen, id) == Fit::Tight && self.place_tight(seen, id) {
            return scanned;
        }
        if self.made.misses.insert(id, miss).is_none() && has_nothing {
            self.made.first_missed.push(id);
        }
        scanned
    }

    /// Gives a job more than it has.
    fn give(&mut self, id: JobId, new: Vec<(TaskId, Load)>) {
        let member = self.members.get_mut(&id).expect("it was found a moment ago");
        let mut all = member.target.placements().to_vec();
        all.extend(placements(member.graph().is_none(), &new));
        member.loads.extend(new);
        self.set_target(id, Allocation::new(all));
    }

    fn set_target(&mut self, id: JobId, target: Allocation) {
        let member = self.members.get_mut(&id).expect("it was found a moment ago");
        let had = std::mem::replace(&mut member.target, target);
        self.made.before.entry(id).or_insert(had);
        self.sort_in(id);
    }

    /// Whether a job can run at all.
    pub(super) fn fit(&mut self, seen: &Snapshot, id: JobId) -> Fit {
        let member = &self.members[&id];
        if let Some(fit) = member.fit {
            return fit;
        }
        let fit = self.find_fit(seen, id);
        self.members.get_mut(&id).expect("it was found a moment ago").fit = Some(fit);
        fit
    }

    fn find_fit(&mut self, seen: &Snapshot, id: JobId) -> Fit {
        let alone = Member::new(&self.members[&id].job);
        let view = JobView::new(alone.job.clone(), seen.at);
        let by_replica = alone.goes_by_replica();
        let what = if by_replica { What::Replica(0) } else { What::Job };
        // Nearly all jobs fit, which is found out without any copy of the cluster.
        let placed = self.idle.free.place(Rule::Pack, &Ask::minimum(&alone.job.shape, &alone.job.wanted));
        let never = match placed {
            Some(room) => {
                self.idle.free.release(&room, &alone.job.shape);
                None
            }
            None => Plan::unplaceable(seen, &alone.job, Rule::Pack),
        };
        let never = match never {
            Some(Reason::Unplaceable { workers, largest }) => Some(Fit::Never { workers, largest }),
            _ => None,
        };
        if let Some(never) = never.filter(|_| !by_replica) {
            return never;
        }
        match self.idle.seek(&alone, &pieces(&view, &alone, what, None), None) {
            Sought::Found(new) => {
                new.iter().for_each(|(_, load)| self.idle.remove(load));
                Fit::Within
            }
            Sought::NotFound { .. } => never.unwrap_or(Fit::Tight),
        }
    }

    /// Places a job that would not fit the idle cluster below the threshold, by what is free alone.
    fn place_tight(&mut self, seen: &Snapshot, id: JobId) -> bool {
        let Some(view) = seen.job(id) else { return false };
        let hidden = view
            .shuns
            .filter(|(node, until)| *until > seen.at && seen.cluster.node(*node).state == NodeState::Up);
        let free = &mut self.servers.free;
        hidden.iter().for_each(|(node, _)| free.set_state(*node, NodeState::Draining));
        let placed = free.place(Rule::Pack, &Ask::minimum(&view.job.shape, &view.job.wanted));
        hidden.iter().for_each(|(node, _)| free.set_state(*node, NodeState::Up));
        let Some(placed) = placed else { return false };
        let shown = JobView::new(view.job.clone(), seen.at);
        let loads: Vec<_> = placed.placements().iter().map(|p| (p.task, load(&shown, p))).collect();
        loads.iter().for_each(|(_, load)| self.servers.use_more(load));
        self.members.get_mut(&id).expect("it waits").loads = loads;
        self.set_target(id, placed);
        true
    }

    /// Finds another node for a task that leaves.
    fn move_task(&mut self, seen: &Snapshot, leaving: &Leaving) -> bool {
        let (Some(view), Some(member)) = (seen.job(leaving.job), self.members.get(&leaving.job)) else {
            return false;
        };
        let shuns = view.shuns.filter(|(_, until)| *until > seen.at).map(|(node, _)| node);
        let fence = self.servers.bounds(member, shuns);
        let waits = piece(view, leaving.task);
        let used = leaving.load.used;
        let piece = Piece { need: larger(waits.demand, used), used: bounded(used), ..waits };
        let place = |other: TaskId| member.place_of(other).map(|p| p.node);
        let talks = talks(member, &place, leaving.task);
        let Some((node, gpus)) = self.servers.nearest(&piece, &fence, &talks, &|_| 0) else { return false };
        let new = Load { node, gpus, ..leaving.load };
        if self.parameters.unplaced == Unplaced::Stay {
            self.servers.free.release_part(leaving.load.node, leaving.load.gpus, leaving.load.demand);
        }
        self.servers.add(&new);
        let moved = |p: &Placement| {
            if p.task == leaving.task { Placement { node, gpus, ..*p } } else { *p }
        };
        let target = Allocation::new(member.target.placements().iter().map(moved).collect());
        let stays = target == member.target;
        self.members.get_mut(&leaving.job).expect("it holds something").loads.push((leaving.task, new));
        if !stays {
            self.set_target(leaving.job, target);
            self.relieve_job(leaving).moved.push(leaving.task);
        }
        true
    }

    fn relieve_job(&mut self, leaving: &Leaving) -> &mut Relieved {
        let new = || Relieved { node: leaving.load.node, moved: Vec::new() };
        self.made.relieved.entry(leaving.job).or_insert_with(new)
    }

    /// A task that had to leave and found no other node stays where it is, if that is right or may be; else it waits, with
    /// everything that makes no progress without it.
    fn stay_or_wait(&mut self, leaving: &Leaving) {
        let member = self.members.get_mut(&leaving.job).expect("it holds something");
        if member.place_of(leaving.task).is_none() {
            return;
        }
        let load = leaving.load;
        let stays = match self.parameters.unplaced {
            Unplaced::Stay => {
                self.servers.use_more(&load);
                true
            }
            Unplaced::Queue if self.servers.free.has_part(load.node, load.gpus, &load.demand) => {
                self.servers.add(&load);
                let stays = !self.servers.is_overloaded(load.node);
                if !stays {
                    self.servers.remove(&load);
                }
                stays
            }
            Unplaced::Queue => false,
        };
        if stays {
            member.loads.push((leaving.task, load));
            return;
        }
        let goes = leaves_with(member, leaving.task);
        let loads = std::mem::take(&mut member.loads);
        let (gone, kept): (Vec<_>, Vec<_>) = loads.into_iter().partition(|(task, _)| goes(*task));
        gone.iter().for_each(|(_, load)| self.servers.remove(load));
        let rest = member.target.placements().iter().filter(|p| !goes(p.task)).copied().collect();
        member.loads = kept;
        self.set_target(leaving.job, Allocation::new(rest));
        self.relieve_job(leaving);
    }

    /// Targets that changed, and what is to be remembered of their jobs.
    pub(super) fn changes(&self, seen: &Snapshot) -> Decision {
        let mut decision = Decision { wake: self.made.wake, ..Decision::default() };
        for (id, had) in &self.made.before {
            let (Some(view), member) = (seen.job(*id), &self.members[id]) else { continue };
            if member.target == *had {
                continue;
            }
            decision.targets.push((*id, member.target.clone()));
            let mut memory = Memory::of(view);
            if member.goes_by_replica() {
                let before = Member { target: had.clone(), ..Member::new(&member.job) }.placed_replicas();
                let after = member.placed_replicas();
                let replicas = before.into_iter().zip(after).enumerate();
                let waited: Vec<_> = replicas
                    .map(|(i, (before, after))| (memory.waited(view, i, before, seen.at), after))
                    .collect();
                memory.set_waits(waited.into_iter(), seen.at);
            }
            let moved = self.made.relieved.get(id).map(|relieved| relieved.moved.as_slice());
            moved.unwrap_or_default().iter().for_each(|task| memory.moved(*task, seen.at));
            memory.forget(settled_before(seen.at, &self.parameters));
            let note = memory.to_note();
            if note != view.note {
                decision.notes.push((*id, note));
            }
        }
        decision
    }
}

/// The larger of each amount.
fn larger(a: Resources, b: Resources) -> Resources {
    Resources {
        gpu_milli: a.gpu_milli.max(b.gpu_milli),
        cpu_milli: a.cpu_milli.max(b.cpu_milli),
        memory_bytes: a.memory_bytes.max(b.memory_bytes),
        network_bytes_per_s: a.network_bytes_per_s.max(b.network_bytes_per_s),
    }
}

/// What leaves with a task: its replica, and parameter servers with the last one; or the whole job.
fn leaves_with(member: &Member, task: TaskId) -> impl Fn(TaskId) -> bool + use<> {
    let by_replica = member.goes_by_replica();
    let graph = member.graph();
    let replica_of = |task: TaskId| graph.and_then(|graph| graph.tasks()[task.index()].replica);
    let replica = replica_of(task);
    let others = member.target.placements().iter().map(|p| replica_of(p.task));
    let is_last = others.flatten().all(|other| Some(other) == replica);
    let goes: Vec<TaskId> = member
        .target
        .placements()
        .iter()
        .map(|p| p.task)
        .filter(|other| !by_replica || is_last || replica_of(*other) == replica)
        .collect();
    move |task| goes.binary_search(&task).is_ok()
}
