//! The tasks of a job that is a graph of tasks: where each is, where it shall be, and what it asks for.

use serde::{Deserialize, Serialize};
use trainyard_live::board::{Board, Card, Standing};
use trainyard_sched::model::{Parallelism, Placement, TaskId};
use utoipa::ToSchema;

use super::shown::{devices, word};

/// One task.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct TaskShown {
    /// Its number, from 0.
    pub(crate) task: u32,
    /// `starting`, `running` or `stopping`, as its job, if it has a place; `moving` if it shall be somewhere else; `ordered` if it
    /// shall have its first place; else `waiting`.
    pub(crate) state: String,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) node: Option<String>,
    /// The GPUs that it has there, from 0.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) devices: Vec<u32>,
    /// The node where it shall be, if that is not where it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) to: Option<String>,
    /// CPU cores that it asks for.
    pub(crate) cpus: f64,
    /// GPUs that it asks for; below 1 a share of one.
    pub(crate) gpus: f64,
    /// Main memory that it asks for, in bytes.
    pub(crate) memory_bytes: u64,
}

/// How many tasks have a place.
pub(crate) fn placed(card: &Card) -> usize {
    card.tasks.held.placements().len()
}

/// Each task of a job that has not ended; nothing of one that is no graph of tasks.
pub(crate) fn each(card: &Card, board: &Board) -> Option<Vec<TaskShown>> {
    let Parallelism::TaskGraph(graph) = &card.asked.shape else { return None };
    if card.state == Standing::Ended {
        return None;
    }
    let name = |placement: &Placement| board.nodes.get(placement.node.index()).map(|n| n.name.to_string());
    let state = word(&card.state);
    let shown = |(number, task): (usize, &trainyard_sched::model::Task)| {
        let id = TaskId(number as u32);
        let (is, shall) = (card.tasks.held.place_of(id), card.tasks.target.place_of(id));
        let (state, to) = match (is, shall) {
            (Some(is), Some(shall)) if (is.node, is.gpus) != (shall.node, shall.gpus) => {
                ("moving", name(shall))
            }
            (Some(_), _) => (state.as_str(), None),
            (None, Some(shall)) => ("ordered", name(shall)),
            (None, None) => ("waiting", None),
        };
        TaskShown {
            task: id.0,
            state: state.to_owned(),
            node: is.and_then(name),
            devices: is.map(|is| devices(is.gpus).collect()).unwrap_or_default(),
            to,
            cpus: task.demand.cpu_milli as f64 / 1e3,
            gpus: task.demand.gpu_milli as f64 / 1e3,
            memory_bytes: task.demand.memory_bytes,
        }
    };
    Some(graph.tasks().iter().enumerate().map(shown).collect())
}
