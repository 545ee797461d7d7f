//! What is really so, for whoever compares it with what is believed.

use std::collections::BTreeMap;

use trainyard_sched::model::{Allocation, Attempt, JobId};

use super::{Life, SimBackend};

impl SimBackend {
    /// How far along the arrivals the run is: jobs that have arrived and jobs in all.
    pub fn arrivals(&self) -> (usize, usize) {
        (self.next_arrival, self.workload.jobs.len())
    }

    /// The attempt of a job that really runs, for comparison with what was ordered.
    pub fn attempt(&self, job: JobId) -> Option<Attempt> {
        Some(self.jobs.get(job.index())?.run.as_ref()?.attempt)
    }

    /// What every job really holds, for comparison with what is believed.
    pub fn holdings(&self) -> BTreeMap<JobId, Allocation> {
        let held =
            |(i, life): (usize, &Life)| life.run.as_ref().map(|run| (JobId(i as u32), run.held.clone()));
        self.jobs.iter().enumerate().filter_map(held).collect()
    }
}
