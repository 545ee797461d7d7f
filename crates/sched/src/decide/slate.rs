//! A clean slate: all targets made anew in each decision, unit by unit, as slotted schedulers do (Optimus, DL2).
//!
//! Unlike a [`super::Plan`] it knows nothing of the decision before. What a job holds matters only where it may not be
//! moved. A unit is a worker, a parameter server, or one of each together on one node.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{
    Allocation, CopyId, DataParallel, GPU, Job, JobId, NodeId, Placement, PriorityClass, Resources,
    SERVER_TASK, TaskId, Time, WORKER_TASK, WorkerRange,
};
use crate::place::{Ask, Board, NoRoom, Rule, no_room};
use crate::rank::Shape;
use crate::view::{JobView, Phase, Snapshot};

use super::{Ahead, Decision, Plan, Reason, Verdict};

/// What a job can be given at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A worker.
    Worker,
    /// A parameter server.
    Server,
    /// A worker and, if the job uses servers and may have another, a server on the same node.
    Bundle,
}

/// What happens when a unit does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Misfit {
    /// Every node is tried, and then the others go on without it.
    #[default]
    Skip,
    /// Only the least loaded node is tried, and if the unit does not fit there the slot is over: the public code of DL2.
    Stop,
}

/// No job is given more workers, or more servers, unit by unit; unless it cannot run with less. It is far above any real
/// job, and ends the giving where units take nothing that nodes keep count of.
pub const MOST_UNITS: u32 = 1 << 12;

/// The most of a range that is given out.
pub fn most_of(range: WorkerRange) -> u32 {
    range.max.min(MOST_UNITS.max(range.min))
}

/// What became of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// The job has it.
    Yes,
    /// The job can use no more of it, or there is no room.
    No,
    /// It does not fit, and that ends the slot.
    Over,
}

/// Cached answers that depend on shapes and machines only.
#[derive(Debug, Default)]
pub struct Memory {
    nodes: usize,
    unplaceable: BTreeMap<Shape, Option<Reason>>,
}

/// One job on the slate.
#[derive(Debug)]
pub struct Line {
    /// The job.
    pub job: Arc<Job>,
    /// What it is given.
    held: Vec<Placement>,
    /// Whether it keeps what it has, because it may not be moved.
    pub is_bound: bool,
    /// Where it keeps away from.
    shuns: Option<NodeId>,
    /// Workers given.
    pub workers: u32,
    /// Servers given.
    pub servers: u32,
}

impl Line {
    /// Whether it is given anything.
    pub const fn runs(&self) -> bool {
        !self.held.is_empty()
    }

    /// Its shape, if its size can be chosen unit by unit.
    pub fn elastic(&self) -> Option<&DataParallel> {
        // Workers that share a device would have to be kept apart; nobody has elastic ones.
        self.job.shape.data_parallel().filter(|shape| !(1..GPU).contains(&shape.worker.gpu_milli))
    }

    /// Whether one worker, with one server where there are some, is the smallest gang.
    pub fn starts_with_a_bundle(&self) -> bool {
        let one = |shape: &DataParallel| {
            let servers = shape.servers.min <= 1 && shape.servers.max > 0;
            shape.workers.min <= 1 && (shape.server.is_none() || servers)
        };
        self.elastic().is_some_and(one)
    }

    /// Whether it could use another worker or bundle.
    pub fn wants_more(&self) -> bool {
        self.elastic().is_some_and(|shape| self.workers < most_of(shape.workers))
    }

    /// What it is given, added up.
    pub fn resources(&self) -> Resources {
        match self.job.shape.data_parallel() {
            Some(shape) => {
                let servers = shape.server.unwrap_or_default().times(u64::from(self.servers));
                shape.worker.times(u64::from(self.workers)) + servers
            }
            None => self.target().resources(&self.job.shape),
        }
    }

    /// The parts that a unit is made of, as far as the job may have more of them.
    fn parts(&self, unit: Unit) -> Vec<(TaskId, Resources)> {
        let Some(shape) = self.elastic() else { return Vec::new() };
        let worker = (self.workers < most_of(shape.workers)).then_some((WORKER_TASK, shape.worker));
        let server = shape.server.filter(|_| self.servers < most_of(shape.servers));
        let server = server.map(|server| (SERVER_TASK, server));
        match unit {
            Unit::Worker => worker.into_iter().collect(),
            Unit::Server => server.into_iter().collect(),
            Unit::Bundle => worker.into_iter().chain(server.filter(|_| worker.is_some())).collect(),
        }
    }

    /// Whether it is given exactly this.
    pub fn holds(&self, allocation: &Allocation) -> bool {
        self.held.len() == allocation.placements().len() && self.target() == *allocation
    }

    /// What it is given, as a target.
    pub fn target(&self) -> Allocation {
        Allocation::new(self.held.clone())
    }

    fn add(&mut self, placed: Placement) {
        let here = |p: &&mut Placement| (p.copy, p.task, p.node) == (placed.copy, placed.task, placed.node);
        match self.held.iter_mut().find(here) {
            Some(same) => {
                same.count += placed.count;
                same.gpus.devices |= placed.gpus.devices;
                same.gpus.share_milli = placed.gpus.share_milli;
            }
            None => self.held.push(placed),
        }
        match placed.task {
            SERVER_TASK => self.servers += placed.count,
            _ => self.workers += placed.count,
        }
    }

    fn set(&mut self, held: &Allocation) {
        self.held = held.placements().to_vec();
        self.workers = held.workers();
        self.servers = held.count_of(SERVER_TASK);
    }
}

/// The targets, made anew.
pub struct Slate<'a> {
    seen: &'a Snapshot,
    board: Board,
    misfit: Misfit,
    /// In ascending order of the jobs' numbers.
    lines: Vec<Line>,
    /// The job whose unit did not fit and ended the slot.
    over: Option<JobId>,
}

impl<'a> Slate<'a> {
    /// Nobody holds anything but jobs that may not be moved.
    pub fn new(seen: &'a Snapshot, misfit: Misfit) -> Self {
        let mut board = Board::new(&seen.cluster);
        let line = |view: &JobView| {
            let is_running = matches!(view.phase, Phase::Starting | Phase::Running);
            let is_bound = !view.job.goals.movable && is_running && view.target.is_some();
            let shuns = view.shuns.filter(|(_, until)| *until > seen.at).map(|(node, _)| node);
            let job = Arc::clone(&view.job);
            Line { job, held: Vec::new(), is_bound, shuns, workers: 0, servers: 0 }
        };
        let mut lines: Vec<Line> = seen.jobs().map(line).collect();
        for (line, view) in lines.iter_mut().zip(seen.jobs()).filter(|(line, _)| line.is_bound) {
            board.hold(&view.target, &view.job.shape);
            line.set(&view.target);
        }
        Self { seen, board, misfit, lines, over: None }
    }

    /// The lines in ascending order of the jobs' numbers; the functions below name a job by its position here.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// What is free.
    pub const fn board(&self) -> &Board {
        &self.board
    }

    /// The positions of the jobs that may be given something: by class, then by a key of position and view, then by number.
    pub fn in_order<K: Ord>(&self, key: impl Fn(usize, &JobView) -> K) -> Vec<usize> {
        let open =
            self.lines.iter().zip(self.seen.jobs()).enumerate().filter(|(_, (line, _))| !line.is_bound);
        let mut order: Vec<_> =
            open.map(|(i, (line, view))| (Reverse(line.job.goals.class), key(i, view), i)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, _, i)| i).collect()
    }

    /// Gives a job one more unit, or its smallest gang if it has nothing yet.
    pub fn give(&mut self, i: usize, unit: Unit) -> Given {
        if self.over.is_some() {
            return Given::Over;
        }
        let line = &self.lines[i];
        if !line.runs() && !line.starts_with_a_bundle() {
            return self.start_whole(i);
        }
        let unit = if line.runs() { unit } else { Unit::Bundle };
        let parts = line.parts(unit);
        if parts.is_empty() {
            return Given::No;
        }
        let first_only = self.misfit == Misfit::Stop;
        let near = self.board.near(&line.job.wanted, &line.held, line.shuns);
        if let Some(node) = self.board.least_loaded(&parts, near, first_only) {
            for placed in self.board.take(&parts, node) {
                self.lines[i].add(placed);
            }
            return Given::Yes;
        }
        match self.misfit {
            Misfit::Stop => self.end(i),
            // A first worker and its server may still fit on two nodes.
            Misfit::Skip if !self.lines[i].runs() => self.start_whole(i),
            Misfit::Skip => Given::No,
        }
    }

    /// Gives a job without anything its smallest gang, if that fits; the slot goes on if it does not.
    pub fn start_if_it_fits(&mut self, i: usize) {
        let line = &self.lines[i];
        if line.runs() || self.over.is_some() {
            return;
        }
        if self.misfit == Misfit::Stop && line.starts_with_a_bundle() {
            let parts = line.parts(Unit::Bundle);
            let near = self.board.near(&line.job.wanted, &line.held, line.shuns);
            if let Some(node) = self.board.least_loaded(&parts, near, true) {
                for placed in self.board.take(&parts, node) {
                    self.lines[i].add(placed);
                }
            }
            return;
        }
        let job = Arc::clone(&line.job);
        self.place(i, &Ask::minimum(&job.shape, &job.wanted));
    }

    /// Gives a job one worker or server by itself, though it may have none of the other yet.
    pub fn give_apart(&mut self, i: usize, unit: Unit) -> Given {
        if self.over.is_some() {
            return Given::Over;
        }
        let line = &self.lines[i];
        let parts = line.parts(unit);
        if parts.is_empty() {
            return Given::No;
        }
        let near = self.board.near(&line.job.wanted, &line.held, line.shuns);
        let Some(node) = self.board.least_loaded(&parts, near, self.misfit == Misfit::Stop) else {
            return if self.misfit == Misfit::Stop { self.end(i) } else { Given::No };
        };
        for placed in self.board.take(&parts, node) {
            self.lines[i].add(placed);
        }
        Given::Yes
    }

    /// The least loaded nodes for a job without anything; see [`Board::alike_nodes`].
    pub fn alike_nodes(&self, i: usize, most: usize) -> Vec<Vec<NodeId>> {
        let line = &self.lines[i];
        let near = self.board.near(&line.job.wanted, &line.held, line.shuns);
        let needs_gpu = line.elastic().is_some_and(|shape| shape.worker.gpu_milli > 0);
        self.board.alike_nodes(near, needs_gpu, line.job.wanted.mixed_gpu_types, most)
    }

    /// Puts so many of each of these parts of a job on a node.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn put_all(&mut self, i: usize, parts: &[(TaskId, Resources, u32)], node: NodeId) {
        for placed in self.board.take_all(parts, node) {
            self.lines[i].add(placed);
        }
    }

    /// Puts one more copy of a job on a node, made of so many of each of these parts, if they fit.
    pub fn put_copy(
        &mut self,
        i: usize,
        copy: CopyId,
        parts: &[(TaskId, Resources, u32)],
        node: NodeId,
    ) -> bool {
        let fits = self.lines[i].shuns != Some(node)
            && self.board.free().takes_work(node)
            && self.board.holds_all(parts, node);
        if fits {
            for placed in self.board.take_all(parts, node) {
                self.lines[i].add(Placement { copy, ..placed });
            }
        }
        fits
    }

    /// Gives a job without anything its smallest gang, or more if asked, by a rule.
    fn start_whole(&mut self, i: usize) -> Given {
        let job = Arc::clone(&self.lines[i].job);
        if self.place(i, &Ask::minimum(&job.shape, &job.wanted)) {
            return Given::Yes;
        }
        if self.misfit == Misfit::Stop { self.end(i) } else { Given::No }
    }

    /// Gives a job without anything what is asked, on as few nodes as possible.
    pub fn place(&mut self, i: usize, ask: &Ask<'_>) -> bool {
        let placed = self.board.place(Rule::Pack, ask, self.lines[i].shuns);
        if let Some(placed) = &placed {
            self.lines[i].set(placed);
        }
        placed.is_some()
    }

    /// Gives a job without anything exactly this, if it is free.
    pub fn keep(&mut self, i: usize, allocation: &Allocation) -> bool {
        let shunned = self.lines[i].shuns.is_some_and(|node| allocation.touches(node));
        let job = Arc::clone(&self.lines[i].job);
        let kept = !shunned && self.board.keep(allocation, &job.shape);
        if kept {
            self.lines[i].set(allocation);
        }
        kept
    }

    /// How many more bundles of a job fit on a node, at most `limit`.
    pub fn fits_on(&self, i: usize, node: NodeId, limit: u64) -> u64 {
        let line = &self.lines[i];
        let parts = line.parts(Unit::Bundle);
        let near = self.board.near(&line.job.wanted, &line.held, line.shuns);
        if parts.is_empty() { 0 } else { self.board.slots(&parts, near, node, limit) }
    }

    /// Puts a unit of a job on a node, if it can use it and it fits.
    pub fn put(&mut self, i: usize, unit: Unit, node: NodeId) -> bool {
        let line = &self.lines[i];
        let parts = line.parts(unit);
        let near = self.board.near(&line.job.wanted, &line.held, line.shuns);
        let fits = !parts.is_empty() && self.board.slots(&parts, near, node, 1) == 1;
        if fits {
            for placed in self.board.take(&parts, node) {
                self.lines[i].add(placed);
            }
        }
        fits
    }

    /// Takes back what a job was given beyond a size, workers and servers; the first ones stay.
    pub fn cut(&mut self, i: usize, (workers, servers): (u32, u32)) {
        if self.lines[i].workers <= workers && self.lines[i].servers <= servers {
            return;
        }
        let (held, job) = (self.lines[i].target(), Arc::clone(&self.lines[i].job));
        let gpus = |task| job.shape.demand_of(task).unwrap_or_default().gpu_milli;
        let kept = held.first_of(WORKER_TASK, workers, gpus(WORKER_TASK));
        let kept = kept.first_of(SERVER_TASK, servers, gpus(SERVER_TASK));
        self.board.release(&held, &job.shape);
        assert!(self.board.keep(&kept, &job.shape), "what was released a moment ago is free");
        self.lines[i].set(&kept);
    }

    /// Gives a job exactly this instead of what it has: something that it had in this decision, after units of its own only
    /// were given and taken.
    ///
    /// # Panics
    /// If that is not free.
    pub fn restore(&mut self, i: usize, had: &Allocation) {
        self.wipe(i);
        assert!(self.keep(i, had), "what a job had before it was given more is free without it");
    }

    /// Takes back all that a job was given.
    pub fn wipe(&mut self, i: usize) {
        let held = self.lines[i].target();
        self.board.release(&held, &self.lines[i].job.shape);
        self.lines[i].set(&Allocation::NONE);
    }

    fn end(&mut self, i: usize) -> Given {
        self.over = Some(self.lines[i].job.id);
        Given::Over
    }

    /// What each job gets, and why.
    pub fn finish(mut self, memory: &mut Memory) -> Decision {
        if memory.nodes != self.seen.cluster.nodes.len() {
            *memory = Memory { nodes: self.seen.cluster.nodes.len(), ..Memory::default() };
        }
        let mut decision = Decision::default();
        let mut rooms = BTreeMap::new();
        let lines = std::mem::take(&mut self.lines);
        for (line, view) in lines.iter().zip(self.seen.jobs()) {
            let target = line.target();
            let verdict = match (target.is_some(), view.target.is_some()) {
                (true, _) if target == view.target => Verdict::Run(Reason::Kept),
                (true, _) => Verdict::Run(Reason::Chosen),
                (false, true) => Verdict::Yield(self.why_not(line, memory, &mut rooms)),
                (false, false) => Verdict::Wait(self.why_not(line, memory, &mut rooms)),
            };
            decision.verdicts.push((view.id(), verdict));
            if target != view.target {
                decision.targets.push((view.id(), target));
            }
        }
        decision
    }

    fn why_not(&mut self, line: &Line, memory: &mut Memory, rooms: &mut BTreeMap<Shape, NoRoom>) -> Reason {
        let job = &line.job;
        let shape = Shape::of(job);
        let never = memory.unplaceable.entry(shape);
        if let Some(reason) = *never.or_insert_with(|| Plan::unplaceable(self.seen, job, Rule::Pack)) {
            return reason;
        }
        let until = self.seen.job(job.id).and_then(|view| view.shuns).filter(|_| line.shuns.is_some());
        let ask = Ask::minimum(&job.shape, &job.wanted);
        if let Some((_, until)) = until
            && let Some(room) = self.board.place(Rule::Pack, &ask, None)
        {
            self.board.release(&room, &job.shape);
            return Reason::Backoff { until };
        }
        if let Some(ahead) = self.over.filter(|ahead| *ahead != job.id) {
            return Reason::Behind { ahead };
        }
        let room = rooms.entry(shape);
        Reason::NoCapacity(*room.or_insert_with(|| no_room(self.board.free(), &job.shape, &job.wanted)))
    }
}

/// Where a job stands by class and submission.
pub fn by_arrival(view: &JobView) -> (Reverse<PriorityClass>, Time, JobId) {
    (Reverse(view.job.goals.class), view.job.submitted, view.id())
}

/// The waiting jobs before one by a key; the first of all first.
pub fn ahead_by<K: Ord>(seen: &Snapshot, job: JobId, key: impl Fn(&JobView) -> K) -> Ahead {
    let Some(own) = seen.job(job).map(&key) else { return Ahead::default() };
    let mut before: Vec<(K, JobId)> = seen
        .jobs()
        .filter(|view| view.target.is_none() && view.id() != job)
        .map(|view| (key(view), view.id()))
        .filter(|(key, _)| *key < own)
        .collect();
    before.sort();
    Ahead { jobs: before.into_iter().map(|(_, id)| id).collect(), is_total: true }
}
