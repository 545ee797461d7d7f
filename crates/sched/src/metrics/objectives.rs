//! What jobs are for, and what they cost others: deadlines, accuracies, traffic between nodes, and nodes of which more was used
//! than is good (MLFS, section 4.1; specification 4.2). From reports only.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::control::{Action, Batch, Event, Log, Outcome, Step};
use crate::estimate::traffic_bytes;
use crate::model::{
    Accuracy, Allocation, Cluster, GPU, Job, JobId, Parallelism, Placement, Resources, Time, UNLIMITED,
    Urgency, Usage,
};

/// A node or a device is overloaded where more than this part of it is used (MLFS, section 4.1).
const OVERLOADED_PERCENT: u64 = 90;
/// Jobs above this urgency are urgent (MLFS, section 4.2.2).
pub const URGENT: Urgency = Urgency(8);

/// What the jobs of a run are for, and how far they came.
#[derive(Clone, Debug, Default)]
pub struct Objectives {
    nodes: Vec<Resources>,
    jobs: BTreeMap<JobId, Aim>,
    /// The jobs that hold something, and what their tasks use there.
    running: BTreeMap<JobId, (Allocation, Usage)>,
    overloaded: Vec<bool>,
    overloads: u64,
    task_moves: u64,
}

/// One job.
#[derive(Clone, Debug)]
struct Aim {
    job: std::sync::Arc<Job>,
    ended: Option<(Time, Outcome)>,
    iterations: f64,
    /// Bytes that it sends from node to node in one iteration.
    bytes: f64,
    traffic_bytes: f64,
    /// The best accuracy that it reported until its deadline.
    accuracy: Option<f64>,
}

/// The numbers. Ratios are over the jobs that have such an aim, and absent where none has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectivesSummary {
    /// The part of the jobs that reached the accuracy that they need by their deadline.
    pub accuracy_ratio: Option<f64>,
    /// The mean of the best accuracy that jobs reported by their deadline; 0 for those that reported none.
    pub avg_accuracy: Option<f64>,
    /// The part of the jobs that ended by their deadline.
    pub deadline_ratio: Option<f64>,
    /// How often a node or one of its devices came to be overloaded, as seen from report to report.
    pub overloads: u64,
    /// How often a task of a graph went on on another node while its job ran.
    #[serde(default)]
    pub task_moves: u64,
    /// Bytes that went from node to node, moves included.
    pub traffic_bytes: f64,
    /// The part of the urgent jobs that ended by their deadline.
    pub urgent_deadline_ratio: Option<f64>,
}

impl Aim {
    fn is_by_deadline(&self, at: Time) -> bool {
        self.job.goals.deadline.is_none_or(|deadline| at <= deadline)
    }

    fn moved_on(&mut self, iterations: f64) {
        if iterations.is_finite() {
            self.traffic_bytes += self.bytes * (iterations - self.iterations).max(0.0);
            self.iterations = iterations;
        }
    }
}

impl Objectives {
    /// Nothing has happened yet.
    pub fn new(cluster: &Cluster) -> Self {
        let nodes: Vec<Resources> = cluster.nodes.iter().map(|node| node.holds).collect();
        Self { overloaded: vec![false; nodes.len()], nodes, ..Self::default() }
    }

    /// The numbers; nothing if no job has a deadline, needs an accuracy, or is a graph of tasks.
    pub fn summary(&self) -> Option<ObjectivesSummary> {
        let aims = || self.jobs.values();
        aims().next()?;
        let ratio = |has: &dyn Fn(&Aim) -> Option<bool>| {
            let (met, all) =
                aims().filter_map(has).fold((0u64, 0u64), |(met, all), is| (met + u64::from(is), all + 1));
            (all > 0).then(|| met as f64 / all as f64)
        };
        let in_time = |aim: &Aim| {
            aim.job.goals.deadline.map(|deadline| aim.ended.is_some_and(|(ended, _)| ended <= deadline))
        };
        let accurate = |aim: &Aim| {
            let needed = aim.job.goals.accuracy?;
            Some(aim.accuracy.is_some_and(|reached| Accuracy(reached) >= needed))
        };
        let needing: Vec<f64> = aims()
            .filter(|aim| aim.job.goals.accuracy.is_some() || aim.accuracy.is_some())
            .map(|aim| aim.accuracy.unwrap_or(0.0))
            .collect();
        Some(ObjectivesSummary {
            accuracy_ratio: ratio(&accurate),
            avg_accuracy: (!needing.is_empty()).then(|| needing.iter().sum::<f64>() / needing.len() as f64),
            deadline_ratio: ratio(&in_time),
            overloads: self.overloads,
            task_moves: self.task_moves,
            traffic_bytes: aims().map(|aim| aim.traffic_bytes).sum(),
            urgent_deadline_ratio: ratio(&|aim| in_time(aim).filter(|_| aim.job.goals.urgency > URGENT)),
        })
    }

    fn event(&mut self, at: Time, event: &Event) {
        let Some(id) = event.job() else { return };
        if let Event::Arrived { job } = event {
            let goals = &job.goals;
            let has_aims = goals.deadline.is_some() || goals.accuracy.is_some();
            if has_aims || job.shape.data_parallel().is_none() {
                self.jobs.entry(id).or_insert_with(|| Aim {
                    job: std::sync::Arc::clone(job),
                    ended: None,
                    iterations: 0.0,
                    bytes: 0.0,
                    traffic_bytes: 0.0,
                    accuracy: None,
                });
            }
        }
        if let (Event::Resumed { .. }, Some(aim)) = (event, self.jobs.get_mut(&id)) {
            // Only a job that was cut short comes back.
            aim.ended = aim.ended.filter(|(_, outcome)| *outcome != Outcome::StopRuleMet);
        }
        let Some(aim) = self.jobs.get_mut(&id).filter(|aim| aim.ended.is_none()) else {
            return self.aimless(id, event);
        };
        match event {
            Event::Started { iterations, .. } => aim.iterations = *iterations,
            Event::Progress { iterations, losses, .. } => {
                aim.moved_on(*iterations);
                if aim.is_by_deadline(at) {
                    let reached = losses.iter().filter_map(|point| point.accuracy).filter(|x| x.is_finite());
                    aim.accuracy =
                        reached.fold(aim.accuracy, |best, x| Some(best.map_or(x, |best| best.max(x))));
                }
            }
            Event::Resized { iterations, allocation, .. } => {
                aim.moved_on(*iterations);
                let before = self.running.get(&id).map(|(held, _)| held.clone()).unwrap_or_default();
                let (moves, bytes) = moved(&aim.job, &before, allocation);
                aim.traffic_bytes += bytes;
                self.task_moves += moves;
                self.holds(id, allocation);
            }
            Event::Used { usage, .. } => {
                if let Some(running) = self.running.get_mut(&id) {
                    running.1 = usage.clone();
                }
            }
            Event::Stopped { iterations, .. } => {
                aim.moved_on(*iterations);
                self.running.remove(&id);
            }
            Event::Lost { iterations, .. } => {
                aim.iterations = *iterations;
                self.running.remove(&id);
            }
            Event::StartFailed { .. } | Event::Finished { .. } => {
                self.running.remove(&id);
            }
            Event::Arrived { .. }
            | Event::Withdrawn { .. }
            | Event::Resumed { .. }
            | Event::NodeChanged { .. }
            | Event::PolicyChanged { .. }
            | Event::Merged { .. } => {}
        }
    }

    /// Of jobs without aims only what they hold matters.
    fn aimless(&mut self, id: JobId, event: &Event) {
        match event {
            Event::Resized { allocation, .. } => self.holds(id, allocation),
            Event::Stopped { .. }
            | Event::StartFailed { .. }
            | Event::Lost { .. }
            | Event::Finished { .. } => {
                self.running.remove(&id);
            }
            _ => {}
        }
    }

    fn holds(&mut self, id: JobId, held: &Allocation) {
        if let Some(aim) = self.jobs.get_mut(&id) {
            aim.bytes = traffic_bytes(&aim.job.shape, held);
        }
        let usage = self.running.remove(&id).map(|(_, usage)| usage).unwrap_or_default();
        self.running.insert(id, (held.clone(), usage));
    }

    /// Counts the nodes that came to be overloaded since this was asked last.
    fn look_at_loads(&mut self) {
        // Whole numbers, since what is used to the bound itself is no overload.
        let mut used: Vec<([u64; 4], Vec<u64>)> =
            self.nodes.iter().map(|holds| ([0; 4], vec![0; (holds.gpu_milli / GPU) as usize])).collect();
        for (id, (held, usage)) in &self.running {
            let shape = self.jobs.get(id).map(|aim| &aim.job.shape);
            for p in held.placements() {
                // Jobs without aims are not asked what they use; their devices are what they hold.
                let held = Resources { gpu_milli: p.gpus.milli(), ..Resources::NONE };
                let demand =
                    shape.and_then(|shape| shape.demand_of(p.task)).map_or(held, |demand| p.takes(demand));
                let uses = usage.of(p.task).unwrap_or(demand);
                let (sums, devices) = &mut used[p.node.index()];
                for (sum, amount) in sums.iter_mut().zip(uses.amounts()) {
                    *sum = sum.saturating_add(amount);
                }
                let each = uses.gpu_milli / u64::from(p.gpus.count().max(1));
                let there = |i: &usize| p.gpus.devices >> i & 1 == 1;
                for i in (0..devices.len()).filter(there) {
                    devices[i] += each;
                }
            }
        }
        for (i, (sums, devices)) in used.iter().enumerate() {
            let over = |(used, has): (&u64, u64)| {
                let (used, bound) =
                    (u128::from(*used) * 100, u128::from(has) * u128::from(OVERLOADED_PERCENT));
                has != UNLIMITED && has > 0 && used > bound
            };
            let is_over = sums.iter().zip(self.nodes[i].amounts()).any(over)
                || devices.iter().any(|device| over((device, GPU)));
            self.overloads += u64::from(is_over && !self.overloaded[i]);
            self.overloaded[i] = is_over;
        }
    }
}

/// How many tasks went to another node, and the bytes that went with them.
fn moved(job: &Job, before: &Allocation, after: &Allocation) -> (u64, f64) {
    let Parallelism::TaskGraph(graph) = &job.shape else { return (0, 0.0) };
    let is_moved = |p: &&Placement| before.place_of(p.task).is_some_and(|q| q.node != p.node);
    let moved = after.placements().iter().filter(is_moved);
    moved.fold((0, 0.0), |(moves, bytes), p| {
        (moves + 1, bytes + graph.tasks()[p.task.index()].state_bytes as f64)
    })
}

impl Log for Objectives {
    fn step(&mut self, batch: &Batch, step: &Step) {
        for event in &batch.events {
            self.event(batch.at, event);
        }
        if batch.events.iter().any(|event| matches!(event, Event::Used { .. })) {
            self.look_at_loads();
        }
        for (id, outcome) in &step.ended {
            self.end(batch.at, *id, *outcome);
        }
        for event in &batch.events {
            if let Event::Finished { job, outcome, .. } = event {
                self.end(batch.at, *job, *outcome);
            }
        }
        for action in &step.actions {
            if let Action::Start { job, allocation, .. } = action {
                self.holds(*job, allocation);
            }
        }
    }
}

impl Objectives {
    fn end(&mut self, at: Time, id: JobId, outcome: Outcome) {
        self.running.remove(&id);
        if let Some(aim) = self.jobs.get_mut(&id) {
            aim.ended.get_or_insert((at, outcome));
        }
    }
}
