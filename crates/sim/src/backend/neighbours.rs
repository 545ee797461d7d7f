//! Jobs that slow each other down: by links, and by devices that they share.

use std::sync::Arc;

use trainyard_sched::model::{Allocation, JobId};

use super::SimBackend;
use crate::physics::Crowd;
use crate::running::Running;
use crate::truth::Speed;

impl SimBackend {
    /// Who else is where a job is, as far as that matters for its speed.
    pub(super) fn crowd(&self, id: JobId) -> Crowd {
        let run = self.jobs[id.index()].run.as_ref().expect("only a running job has neighbours");
        let (job, truth) = &self.workload.jobs[id.index()];
        let is_beside = run.held.is_beside(&job.shape);
        if !self.physics.has_neighbours() && !is_beside {
            return Crowd { flows: 1, ..Crowd::default() };
        }
        let mut crowd = self.occupancy.crowd(id, &run.held, self.physics.shared_links);
        if is_beside && let Speed::Table { table, .. } = &truth.speed {
            let row = |other: JobId| match &self.workload.jobs[other.index()].1.speed {
                Speed::Table { table: same, row } if Arc::ptr_eq(table, same) => Some(*row),
                _ => None,
            };
            crowd.beside = self.occupancy.sharers(id, &run.held).into_iter().next().and_then(row);
        }
        crowd
    }

    /// Times the jobs anew that share a node with one that came or went.
    pub(super) fn retime_neighbours(&mut self, of: JobId, held: &Allocation) {
        let is_beside = held.is_beside(&self.workload.jobs[of.index()].0.shape);
        if !self.physics.has_neighbours() && !is_beside {
            return;
        }
        for id in self.occupancy.neighbours(held) {
            let training = self.jobs[id.index()].run.as_ref().is_some_and(Running::is_training);
            if id != of && training {
                self.retime(id);
                let (attempt, iterations) = (self.run(id).attempt, self.run(id).iterations);
                self.tell(id, attempt, iterations, Vec::new());
            }
        }
    }
}
