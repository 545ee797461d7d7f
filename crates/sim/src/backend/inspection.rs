//! What is really so, for whoever compares it with what is believed.

use std::collections::BTreeMap;

use trainyard_sched::model::{Allocation, Attempt, JobId, NodeId, Resources};

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

    /// What is really used of a node, where any job is a graph of tasks; else nobody asks.
    pub fn used(&self, node: NodeId) -> Resources {
        self.loads.used(node)
    }

    /// What every job really holds, for comparison with what is believed.
    pub fn holdings(&self) -> BTreeMap<JobId, Allocation> {
        let held =
            |(i, life): (usize, &Life)| life.run.as_ref().map(|run| (JobId(i as u32), run.held.clone()));
        self.jobs.iter().enumerate().filter_map(held).collect()
    }
}
