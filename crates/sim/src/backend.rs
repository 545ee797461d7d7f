//! The virtual backend: a clock, a heap of things to come, and the truth about every job.
//!
//! Progress between events is analytic: rate times time. It checks its own physics with panics, apart
//! from what the loop believes: a device given twice or a job started while it still runs ends the run.

mod forking;
mod inspection;
mod neighbours;
mod outside;
mod tasks;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use trainyard_sched::control::{Action, Backend, Batch, Event, How};
use trainyard_sched::decide::Abilities;
use trainyard_sched::model::{
    Allocation, Attempt, Cluster, CopyId, JobId, LossPoint, NodeId, NodeState, Quotas, Span, Time,
};

use crate::copies::Copies;
use crate::occupancy::Occupancy;
pub use crate::options::Options;
use crate::physics::Physics;
use crate::running::{Life, Running};
use crate::tasks::Loads;
use crate::truth::{Overheads, Reporting};
use crate::workload::Workload;

/// After so many alarms in a row at which nothing was ordered, with nothing running and nothing to
/// come, nothing ever will be.
const IDLE_ALARMS: u32 = 100;

/// The simulated cluster.
pub struct SimBackend {
    now: Time,
    cluster: Cluster,
    physics: Physics,
    workload: Workload,
    /// The next job to arrive.
    next_arrival: usize,
    jobs: Vec<Life>,
    coming: BinaryHeap<Reverse<(Time, u64, Coming)>>,
    sequence: u64,
    /// What happened at this very instant and was not yet told.
    ready: Vec<Event>,
    occupancy: Occupancy,
    running: BTreeSet<JobId>,
    options: Options,
    idle_alarms: u32,
    /// Whether any job is a graph of tasks. Without one, nobody asks what is used.
    has_graphs: bool,
    loads: Loads,
    /// Nodes where somebody came or went since jobs of tasks there were timed.
    crowded: BTreeSet<NodeId>,
    is_ticking: bool,
}

/// Something to come. The number tells what has become void.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Coming {
    NodeChange(u32),
    Outside(u32),
    Loaded(JobId, Attempt),
    Saved(JobId, Attempt),
    Moved(JobId, Attempt),
    Merged(JobId, Attempt),
    CopyLoaded(JobId, Attempt, CopyId, u32),
    Rested(JobId, Attempt, u64),
    Finished(JobId, Attempt, u64),
    Report(JobId, Attempt),
    Tick,
    TasksLoaded(JobId, Attempt),
}

impl SimBackend {
    /// A cluster on which nothing has happened yet.
    pub fn new(cluster: Cluster, workload: Workload, physics: Physics, options: Options) -> Self {
        let mut backend = Self {
            now: Time::ZERO,
            occupancy: Occupancy::new(&cluster),
            loads: Loads::new(&cluster),
            has_graphs: workload.jobs.iter().any(|(job, _)| job.shape.data_parallel().is_none()),
            crowded: BTreeSet::new(),
            is_ticking: false,
            jobs: workload.jobs.iter().map(|_| Life::default()).collect(),
            cluster,
            physics,
            workload,
            next_arrival: 0,
            coming: BinaryHeap::new(),
            sequence: 0,
            ready: Vec::new(),
            running: BTreeSet::new(),
            options,
            idle_alarms: 0,
        };
        for i in 0..backend.options.node_changes.len() {
            let at = backend.options.node_changes[i].0;
            backend.expect(at, Coming::NodeChange(i as u32));
        }
        for i in 0..backend.options.outside.len() {
            let at = backend.options.outside[i].0;
            backend.expect(at, Coming::Outside(i as u32));
        }
        backend
    }

    /// The time.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// When the run is cut off.
    pub const fn horizon(&self) -> Time {
        self.options.horizon
    }

    /// A node changes now, by command; other changes are among the [`Options`].
    pub fn set_node(&mut self, node: NodeId, state: NodeState) {
        self.idle_alarms = 0;
        self.change_node(node, state);
    }

    fn expect(&mut self, at: Time, what: Coming) {
        self.coming.push(Reverse((at, self.sequence, what)));
        self.sequence += 1;
    }

    fn is_void(&self, what: Coming) -> bool {
        let run = |id: JobId| self.jobs[id.index()].run.as_ref();
        match what {
            Coming::NodeChange(_) | Coming::Outside(_) | Coming::Tick => false,
            Coming::Loaded(id, attempt)
            | Coming::Saved(id, attempt)
            | Coming::Moved(id, attempt)
            | Coming::Merged(id, attempt)
            | Coming::CopyLoaded(id, attempt, ..)
            | Coming::TasksLoaded(id, attempt)
            | Coming::Report(id, attempt) => run(id).is_none_or(|run| {
                // A job that was told to stop neither comes to training nor goes on.
                run.attempt != attempt || (run.is_stopping && !matches!(what, Coming::Saved(..)))
            }),
            Coming::Finished(id, attempt, forecast) | Coming::Rested(id, attempt, forecast) => {
                run(id).is_none_or(|run| (run.attempt, run.forecast) != (attempt, forecast))
            }
        }
    }

    fn next_coming(&mut self) -> Option<Time> {
        while let Some(Reverse((at, _, what))) = self.coming.peek().copied() {
            if !self.is_void(what) {
                return Some(at);
            }
            self.coming.pop();
        }
        None
    }

    fn happen(&mut self, what: Coming) {
        match what {
            Coming::NodeChange(i) => {
                let (_, node, state) = self.options.node_changes[i as usize];
                self.change_node(node, state);
            }
            Coming::Outside(i) => self.come_from_outside(i),
            Coming::Loaded(id, _) => self.loaded(id),
            Coming::Saved(id, attempt) => {
                if self.reporting(id).is_some() {
                    self.tell_progress(id, attempt);
                }
                let iterations = self.release(id);
                self.ready.push(Event::Stopped { job: id, attempt, iterations });
            }
            Coming::Moved(id, _) => self.moved(id),
            Coming::Merged(id, attempt) => self.merged(id, attempt),
            Coming::CopyLoaded(id, attempt, copy, load) => self.copy_loaded(id, attempt, (copy, load)),
            Coming::Rested(id, attempt, _) => self.rested(id, attempt),
            Coming::Finished(id, ..) => self.finished(id),
            Coming::Report(id, attempt) => self.report(id, attempt),
            Coming::Tick => self.tick(),
            Coming::TasksLoaded(id, attempt) => self.tasks_loaded(id, attempt),
        }
    }

    fn change_node(&mut self, node: NodeId, state: NodeState) {
        if self.cluster.node(node).state == state {
            return;
        }
        self.cluster.nodes[node.index()].state = state;
        self.ready.push(Event::NodeChanged { node, state });
        if state != NodeState::Down {
            return;
        }
        let there = |id: &JobId| self.jobs[id.index()].run.as_ref().is_some_and(|run| run.held.touches(node));
        for id in self.running.iter().copied().filter(there).collect::<Vec<_>>() {
            let attempt = self.run(id).attempt;
            self.advance(id);
            let kept = self.run(id).kept_without(node);
            self.release(id);
            self.jobs[id.index()].iterations = kept;
            self.ready.push(Event::Lost { job: id, attempt, iterations: kept, node: Some(node) });
        }
    }

    fn run(&mut self, id: JobId) -> &mut Running {
        self.jobs[id.index()].run.as_mut().expect("only a job that holds something is asked")
    }

    fn overheads(&self, id: JobId) -> Option<&Overheads> {
        self.workload.jobs[id.index()].1.overheads.as_ref()
    }

    fn reporting(&self, id: JobId) -> Option<Reporting> {
        self.overheads(id)?.reports
    }

    fn loaded(&mut self, id: JobId) {
        let now = self.now;
        let iterations = self.jobs[id.index()].iterations;
        self.run(id).begin_training(now, iterations);
        let attempt = self.run(id).attempt;
        let warm_up = self.overheads(id).map(|overheads| overheads.warm_up_of(attempt));
        if warm_up.is_some() {
            self.run(id).reported = Some(iterations);
        }
        self.run(id).warm_up(iterations, warm_up.unwrap_or(0.0));
        let speed = self.retime(id);
        // A real program has shown nothing yet.
        let speed = if warm_up.is_some() { 0.0 } else { speed };
        self.ready.push(Event::Started { job: id, attempt, iterations, speed });
        if self.run(id).copies.is_some() && warm_up.is_none() {
            self.tell_progress(id, attempt);
        }
        self.report_later(id);
        let held = self.run(id).held.clone();
        self.retime_neighbours(id, &held);
    }

    fn report_later(&mut self, id: JobId) {
        let every = match (self.overheads(id).is_some(), self.reporting(id)) {
            (true, Some(reporting)) => {
                let run = self.run(id);
                reporting.next(run.iterations, run.warm_up, run.per_s)
            }
            (true, None) => None,
            (false, _) => self.options.report_every,
        };
        if let Some(every) = every {
            let (at, attempt) = (self.now + every.max(Span(1)), self.run(id).attempt);
            self.expect(at, Coming::Report(id, attempt));
        }
    }

    fn report(&mut self, id: JobId, attempt: Attempt) {
        self.advance(id);
        if self.run(id).is_stopping {
            return;
        }
        let run = self.run(id);
        let (reported, iterations) = (run.reported.unwrap_or(0.0), run.iterations);
        // It may have become slower since it was worked out when it would report.
        if self.reporting(id).is_none_or(|reporting| reporting.is_due(reported, iterations)) {
            self.tell_progress(id, attempt);
        }
        self.report_later(id);
    }

    /// Tells how far a job is, and its losses since the report before.
    fn tell_progress(&mut self, job: JobId, attempt: Attempt) {
        let truth = &self.workload.jobs[job.index()].1;
        let run = self.jobs[job.index()].run.as_mut().expect("a report of a running job");
        // A real program counts iterations that are done.
        let told = if truth.overheads.is_some() { Reporting::whole(run.iterations) } else { run.iterations };
        let losses = truth.loss.as_ref().map_or_else(Vec::new, |loss| loss.points(run.reported, told));
        run.reported = Some(told);
        self.tell(job, attempt, told, losses);
    }

    fn tell(&mut self, job: JobId, attempt: Attempt, iterations: f64, losses: Vec<LossPoint>) {
        let run = self.run(job);
        let (speed, saved) = (run.per_s, run.saved);
        let copies = run.copies.as_ref().map_or_else(Vec::new, Copies::told);
        self.ready.push(Event::Progress { job, attempt, iterations, speed, saved, losses, copies });
    }

    fn finished(&mut self, id: JobId) {
        let attempt = self.run(id).attempt;
        let reports = match self.overheads(id) {
            Some(overheads) => overheads.reports.is_some(),
            None => self.options.report_every.is_some() || self.run(id).tasks.is_some(),
        };
        if reports {
            self.advance(id);
            self.tell_progress(id, attempt);
        }
        self.release(id);
        let outcome = self.workload.jobs[id.index()].1.ending.outcome();
        self.jobs[id.index()].is_over = true;
        self.ready.push(Event::Finished { job: id, attempt, outcome });
    }

    /// Brings a job's iterations up to now.
    fn advance(&mut self, id: JobId) {
        let now = self.now;
        let every = self.workload.jobs[id.index()].1.move_cost.checkpoint_every;
        self.run(id).advance(now, every);
    }

    /// Works out a job's speed anew and when it will be done; returns iterations a second.
    fn retime(&mut self, id: JobId) -> f64 {
        self.advance(id);
        if let Some(per_s) = self.tasks_per_s(id) {
            self.run(id).forecast += 1;
            return self.expect_end(id, per_s);
        }
        let crowd = self.crowd(id);
        let (job, truth) = &self.workload.jobs[id.index()];
        let run = self.jobs[id.index()].run.as_mut().expect("only a running job is timed");
        run.forecast += 1;
        let speed = |held: &Allocation| self.physics.iterations_per_s(&self.cluster, job, truth, held, crowd);
        if let Some(copies) = &mut run.copies {
            copies.retime(speed);
            return self.expect_of_copies(id);
        }
        let per_s = speed(&run.held);
        self.expect_end(id, per_s)
    }

    /// A job goes so fast from now on.
    fn expect_end(&mut self, id: JobId, per_s: f64) -> f64 {
        let truth = &self.workload.jobs[id.index()].1;
        let run = self.jobs[id.index()].run.as_mut().expect("only a running job is timed");
        run.per_s = per_s;
        let (left, attempt, forecast) =
            (truth.iterations - run.iterations + run.warm_up, run.attempt, run.forecast);
        if per_s > 0.0 {
            let at = self.now + Span::from_secs_f64((left / per_s).max(0.0));
            self.expect(at, Coming::Finished(id, attempt, forecast));
        }
        per_s
    }

    /// A job leaves its devices; returns its iterations.
    fn release(&mut self, id: JobId) -> f64 {
        self.advance(id);
        self.tasks_leave(id);
        let run = self.jobs[id.index()].run.take().expect("only a job that holds something is released");
        self.jobs[id.index()].iterations = run.iterations;
        self.occupancy.leave(id, &run.held, &self.workload.jobs[id.index()].0.shape);
        self.running.remove(&id);
        self.retime_neighbours(id, &run.held);
        run.iterations
    }

    fn start(&mut self, id: JobId, attempt: Attempt, allocation: &Allocation, quotas: &Quotas) {
        let Some(life) = self.jobs.get_mut(id.index()) else {
            return self.ready.push(Event::StartFailed { job: id, attempt, node: None });
        };
        if attempt <= life.attempt {
            return;
        }
        assert!(life.run.is_none(), "{id} is started while it still runs");
        assert!(!life.is_over, "{id} is started after its end");
        life.attempt = attempt;
        let iterations = life.iterations;
        if let Some(node) = self.down(allocation) {
            self.ready.push(Event::StartFailed { job: id, attempt, node: Some(node) });
            return;
        }
        let (job, truth) = &self.workload.jobs[id.index()];
        self.occupancy.enter(id, allocation, &job.shape);
        // The first start is part of the own time of a gang; only going on costs something. Tasks load at each start.
        let load = match &truth.overheads {
            Some(overheads) => overheads.launch,
            None if attempt > Attempt(1) || job.shape.data_parallel().is_none() => truth.move_cost.load,
            None => Span::ZERO,
        };
        self.jobs[id.index()].run =
            Some(Running::new(attempt, allocation.clone(), self.now, iterations, quotas));
        self.running.insert(id);
        self.tasks_enter(id);
        if load == Span::ZERO {
            self.loaded(id);
        } else {
            self.expect(self.now + load, Coming::Loaded(id, attempt));
        }
    }

    /// A node that is down, if an allocation has one.
    fn down(&self, allocation: &Allocation) -> Option<NodeId> {
        let is_down = |node: &NodeId| self.cluster.node(*node).state == NodeState::Down;
        allocation.nodes().into_iter().find(is_down)
    }

    /// The attempt, if it is the one that runs and was not told to stop.
    fn at_work(&self, id: JobId, attempt: Attempt) -> Option<&Running> {
        let run = self.jobs.get(id.index())?.run.as_ref();
        run.filter(|run| run.attempt == attempt && !run.is_stopping)
    }

    fn stop(&mut self, id: JobId, attempt: Attempt, how: How) {
        if self.at_work(id, attempt).is_none() {
            return;
        }
        self.advance(id);
        let truth = &self.workload.jobs[id.index()].1;
        let (cost, most) = (truth.move_cost, truth.iterations);
        let still = truth.overheads.as_ref().map(|overheads| overheads.until_stopped);
        let run = self.run(id);
        // Copies that were just brought together have nothing more to save.
        let is_saved = run.copies.as_ref().is_some_and(|copies| run.is_training() && copies.are_equal());
        if let Some(still) = still.filter(|_| run.is_training() && run.warm_up == 0.0) {
            run.iterations = (run.iterations + still).min(most);
        }
        run.halt(cost.loses_when_stopped && how == How::Save);
        if how == How::Finish {
            self.jobs[id.index()].is_over = true;
        }
        let saves = (how == How::Save || still.is_some()) && !is_saved;
        let save = if saves { cost.save } else { Span::ZERO };
        if save == Span::ZERO {
            self.happen(Coming::Saved(id, attempt));
        } else {
            self.expect(self.now + save, Coming::Saved(id, attempt));
        }
    }

    /// Whether nothing will ever happen again unless the policy orders something at an alarm.
    fn is_quiet(&mut self) -> bool {
        self.next_arrival == self.workload.jobs.len() && self.running.is_empty()
    }

    fn arrive_until(&mut self, at: Time) {
        while let Some((job, _)) = self.workload.jobs.get(self.next_arrival) {
            if job.submitted > at {
                break;
            }
            self.ready.push(Event::Arrived { job: Arc::clone(job) });
            self.next_arrival += 1;
        }
    }
}

impl Backend for SimBackend {
    fn abilities(&self) -> Abilities {
        self.options.abilities
    }

    fn wait(&mut self, until: Option<Time>) -> Option<Batch> {
        self.settle_crowd();
        if !self.ready.is_empty() {
            return Some(Batch { at: self.now, events: std::mem::take(&mut self.ready) });
        }
        let arrival = self.workload.jobs.get(self.next_arrival).map(|(job, _)| job.submitted);
        let coming = self.next_coming();
        if self.is_quiet() && (until.is_none() || self.idle_alarms >= IDLE_ALARMS) {
            // Nodes may still come back and let a waiting job start; without any such change it is over.
            coming?;
        }
        let next = [arrival, coming, until].into_iter().flatten().min()?;
        if next > self.options.horizon {
            self.now = self.options.horizon;
            return None;
        }
        let idle = Some(next) == until && self.is_quiet();
        self.idle_alarms = if idle { self.idle_alarms + 1 } else { 0 };
        self.now = self.now.max(next);
        self.arrive_until(self.now);
        while self.next_coming().is_some_and(|at| at <= self.now) {
            let Reverse((_, _, what)) = self.coming.pop().expect("it was just looked at");
            self.happen(what);
        }
        Some(Batch { at: self.now, events: std::mem::take(&mut self.ready) })
    }

    fn perform(&mut self, action: &Action) {
        self.idle_alarms = 0;
        match action {
            Action::Start { job, attempt, allocation, quotas } => {
                self.start(*job, *attempt, allocation, quotas);
            }
            Action::Stop { job, attempt, how } => self.stop(*job, *attempt, *how),
            Action::Resize { job, attempt, allocation, quotas } => {
                self.resize(*job, *attempt, allocation, quotas);
            }
            Action::Merge { job, attempt, number, quotas } => self.merge(*job, *attempt, *number, quotas),
        }
    }
}
