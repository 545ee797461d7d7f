//! Where what is believed differs from what is so.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Allocation, JobId};
use crate::view::JobView;

use super::State;

/// A difference between what is believed and what a backend says is so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The job.
    pub job: JobId,
    /// What is believed that it holds.
    pub believed: Allocation,
    /// What it holds.
    pub real: Allocation,
}

impl State {
    /// Where belief and truth differ; a backend's truth is given by job.
    pub fn drift(&self, real: &BTreeMap<JobId, Allocation>) -> Vec<Drift> {
        let believed = |id: &JobId| self.job(*id).map(|view| view.held.clone()).unwrap_or_default();
        let mut ids: BTreeSet<JobId> = real.keys().copied().collect();
        ids.extend(self.jobs().filter(|view| view.held.is_some()).map(JobView::id));
        ids.into_iter()
            .map(|job| Drift {
                job,
                believed: believed(&job),
                real: real.get(&job).cloned().unwrap_or_default(),
            })
            .filter(|drift| drift.believed != drift.real)
            .collect()
    }
}
