//! The stage over the simulator.

use std::sync::Arc;

use trainyard_sched::control::{Action, Backend, Batch, Event};
use trainyard_sched::decide::Abilities;
use trainyard_sched::model::{Curve, JobId, MoveCost, NodeId, NodeState, Span, Time};
use trainyard_sim::backend::{Options, SimBackend};
use trainyard_sim::loss::TrueLoss;
use trainyard_sim::physics::Physics;
use trainyard_sim::tasks::TrueGraph;
use trainyard_sim::truth::{Ending, Speed, Truth};
use trainyard_sim::workload::Workload;

use super::stage::{Presence, Setting, Stage, Training};

/// How long saving and loading take, and how often jobs report.
const SAVE: Span = Span(30_000);
const LOAD: Span = Span(30_000);
/// How long copies take to be brought together.
const MERGE: Span = Span(30_000);
const REPORT_EVERY: Span = Span(40_000);

/// A simulated cluster.
pub(crate) struct Simulated {
    backend: SimBackend,
    jobs: usize,
    /// The simulator has no owners who change their minds, so that is told from here.
    withdrawn: Vec<Event>,
    now: Time,
}

/// Makes one.
pub(crate) fn simulated(setting: &Setting) -> Box<dyn Stage> {
    let jobs = setting.trainings.iter().enumerate();
    let jobs = jobs.map(|(id, training)| (Arc::new(training.job(id)), truth(training))).collect();
    let workload = Workload { jobs, ..Workload::default() };
    let options = Options { report_every: Some(REPORT_EVERY), ..Options::default() };
    let backend = SimBackend::new(setting.cluster(), workload, Physics::default(), options);
    let (jobs, withdrawn) = (setting.trainings.len(), Vec::new());
    Box::new(Simulated { backend, jobs, withdrawn, now: Time::ZERO })
}

fn truth(training: &Training) -> Truth {
    let each = Span(u64::from(training.each_ms) * 1000);
    let checkpoint_every = Some(each.scaled(f64::from(training.save_every)));
    let loses_when_stopped = false;
    let curve = Curve::Sublinear { a: 0.0, b: 1.0, c: 1.0, d: 0.1 };
    Truth {
        iterations: f64::from(training.fails.map_or(training.total, |(_, after)| after)),
        speed: match training.tasks {
            Some(_) => Speed::Graph(TrueGraph { pace: 1.0, wander: None }),
            None => Speed::Fixed { iteration: each, workers: training.workers.0 },
        },
        move_cost: MoveCost { save: SAVE, load: LOAD, checkpoint_every, loses_when_stopped, merge: MERGE },
        overheads: None,
        gradient_bytes: 0.0,
        loss: Some(TrueLoss::exact(curve)),
        ending: if training.fails.is_some() { Ending::Failed } else { Ending::Completed },
    }
}

impl Backend for Simulated {
    fn abilities(&self) -> Abilities {
        self.backend.abilities()
    }

    fn wait(&mut self, until: Option<Time>) -> Option<Batch> {
        if !self.withdrawn.is_empty() {
            return Some(Batch { at: self.now, events: std::mem::take(&mut self.withdrawn) });
        }
        let batch = self.backend.wait(until)?;
        self.now = batch.at;
        Some(batch)
    }

    fn perform(&mut self, action: &Action) {
        self.backend.perform(action);
    }
}

impl Stage for Simulated {
    fn backend(&mut self) -> &mut dyn Backend {
        self
    }

    fn set_node(&mut self, node: NodeId, state: NodeState) {
        self.backend.set_node(node, state);
    }

    fn withdraw(&mut self, job: JobId) {
        self.withdrawn.push(Event::Withdrawn { job });
    }

    fn really_there(&mut self) -> Vec<Presence> {
        let holdings = self.backend.holdings();
        let there = (0..self.jobs as u32).map(JobId).filter_map(|job| {
            let attempt = self.backend.attempt(job)?;
            let held = holdings.get(&job)?.placements();
            let mut devices: Vec<u64> = held.iter().map(|placement| placement.gpus.devices).collect();
            devices.sort_unstable();
            Some(Presence { job, attempt, parts: held.len(), devices: Some(devices) })
        });
        there.collect()
    }

    fn words(&mut self) -> String {
        String::new()
    }
}
