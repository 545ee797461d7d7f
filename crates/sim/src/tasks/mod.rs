//! Jobs that are graphs of tasks, as they really go: what their tasks use from minute to minute, how crowded nodes and devices
//! are, and how long an iteration takes in that crowd (MLFS specification, section 1.8).
//!
//! A task uses its demand times a factor that wanders ([`Wander`]). Where more is used than there is, everybody there slows
//! down in proportion (`loads`); what goes from node to node shares their network (`pace`).

mod loads;
mod pace;
mod wander;

use serde::{Deserialize, Serialize};
use trainyard_sched::model::{Allocation, NodeId, Resources, TaskGraph, TaskId, Time};

pub(crate) use loads::{Loads, scaled};
pub(crate) use pace::{Around, crossings, iterations_per_s};
pub use wander::{TrueGraph, Wander};

/// What shares the network of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flows {
    /// The jobs of which tasks there talk to other nodes: data passes through a graph from layer to layer, so most edges of a
    /// job are idle while one of them is used.
    #[default]
    Jobs,
    /// Each edge that leads from or to another node, as if all of them were used all the time.
    Edges,
}

/// The tasks of one attempt of a job.
#[derive(Clone, Debug)]
pub(crate) struct RunningTasks {
    /// Where each task is, and on which devices.
    pub(crate) placed: Vec<Option<(NodeId, u64)>>,
    /// What each task uses, as a part of its demand.
    pub(crate) factors: Vec<f64>,
    /// Tasks that are on their way, and when they go on.
    pub(crate) away: Vec<(TaskId, Time)>,
}

impl RunningTasks {
    pub(crate) fn new(graph: &TaskGraph, held: &Allocation) -> Self {
        let count = graph.tasks().len();
        let mut tasks = Self { placed: vec![None; count], factors: vec![1.0; count], away: Vec::new() };
        tasks.hold(held);
        tasks
    }

    /// They are where this allocation says.
    pub(crate) fn hold(&mut self, held: &Allocation) {
        self.placed.fill(None);
        for p in held.placements() {
            self.placed[p.task.index()] = Some((p.node, p.gpus.devices));
        }
    }

    /// Where a task is, if it is anywhere and not on its way.
    pub(crate) fn at_work(&self, task: TaskId) -> Option<NodeId> {
        let (node, _) = self.placed[task.index()]?;
        (!self.away.iter().any(|(away, _)| *away == task)).then_some(node)
    }

    /// What a task uses.
    pub(crate) fn used(&self, graph: &TaskGraph, task: TaskId) -> Resources {
        scaled(&graph.tasks()[task.index()].demand, self.factors[task.index()])
    }
}
