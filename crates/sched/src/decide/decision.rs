//! A policy's answer.

use serde::{Deserialize, Serialize};

use crate::model::{Allocation, JobId, Quotas, StopRule, Time};
use crate::view::Note;

use super::Verdict;

/// What shall be. It *means* a whole target and is *carried* as the difference from the one before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The targets that change, by ascending job; [`Allocation::NONE`] means: holds nothing.
    pub targets: Vec<(JobId, Allocation)>,
    /// The jobs whose copies are to be brought together now, though nothing else may change for them, and how far each copy
    /// of the target may go from then on; by ascending job. Where a backend cannot heed quotas it divides the work itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merges: Vec<(JobId, Quotas)>,
    /// Verdicts on the jobs whose verdict may have changed, by ascending job.
    pub verdicts: Vec<(JobId, Verdict)>,
    /// Changes to the jobs themselves.
    pub changes: Vec<Change>,
    /// What to remember about jobs, by ascending job.
    pub notes: Vec<(JobId, Note)>,
    /// What to remember about the run as a whole, if that changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Note>,
    /// When to ask again, whatever happens.
    pub wake: Option<Time>,
}

/// A change to a job itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A cheaper stop rule, only where the owner allows it.
    Relax {
        /// The job.
        job: JobId,
        /// Its new rule.
        to: StopRule,
    },
    /// The job can never run and leaves the queue.
    Reject {
        /// The job.
        job: JobId,
    },
}
