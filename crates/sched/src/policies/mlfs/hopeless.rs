//! Demands for which no node was found in this decision: there only gets less room, so whoever asks for as much needs no search.

use crate::model::{Resources, TaskId};

use super::member::Member;
use super::queue::{What, tasks_of};
use super::round::Miss;
use super::servers::Piece;

/// How many demands are remembered, so that looking them up costs less than looking for room.
const MOST_HOPELESS: usize = 64;

/// Demands for which there is no room in this decision, since there only gets less.
#[derive(Debug, Default)]
pub(super) struct Hopeless(Vec<Resources>);

impl Hopeless {
    fn covers(&self, need: &Resources) -> bool {
        self.0.iter().any(|demand| demand.fits_in(need))
    }

    /// What keeps something from being placed, if that is known without looking.
    pub(super) fn miss(&self, member: &Member, what: What) -> Option<Miss> {
        if self.0.is_empty() {
            return None;
        }
        let shape = &member.job.shape;
        let covers = |task: &TaskId| self.covers(&shape.demand_of(*task).unwrap_or_default());
        let tasks = match what {
            What::Replica(_) => tasks_of(member, what),
            What::Job | What::Leaving(_) => (0..member.tasks() as u32).map(TaskId).collect(),
        };
        let task = tasks.iter().copied().find(covers)?;
        let gang = shape.data_parallel().map(|gang| gang.workers.min);
        Some(Miss { task, found: 0, tasks: gang.unwrap_or(tasks.len() as u32), until: None })
    }

    pub(super) fn add(&mut self, piece: Option<&Piece>) {
        let new = piece.filter(|piece| self.0.len() < MOST_HOPELESS && !self.covers(&piece.need));
        self.0.extend(new.map(|piece| piece.need));
    }
}
