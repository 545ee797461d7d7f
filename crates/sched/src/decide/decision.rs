//! A policy's answer.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::{Allocation, JobId, Quotas, StopRule, Time, any_number};
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

impl Decision {
    /// What it says of a job, where it says anything.
    pub fn verdict_on(&self, job: JobId) -> Option<Verdict> {
        let found = self.verdicts.binary_search_by_key(&job, |(id, _)| *id);
        found.ok().map(|i| self.verdicts[i].1)
    }
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
    /// The owner's own stop rule holds again.
    Restore {
        /// The job.
        job: JobId,
    },
    /// The job has had enough by its stop rule and ends here, as one that met it. Its owner may take it up again.
    Stop {
        /// The job.
        job: JobId,
        /// Why.
        why: Enough,
        /// GPU-seconds that it would still have taken to its last iteration, as far as can be foretold; 0 where that cannot.
        #[serde(with = "any_number")]
        saved_gpu_s: f64,
    },
    /// The job can never run and leaves the queue.
    Reject {
        /// The job.
        job: JobId,
    },
}

/// Why a job has had enough before its last iteration (MLFS, section 3.5).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "enough")]
pub enum Enough {
    /// It has reached the accuracy that its owner needs.
    Reached {
        /// The best that it reported.
        #[serde(with = "any_number")]
        accuracy: f64,
        /// What its owner needs.
        #[serde(with = "any_number")]
        needed: f64,
    },
    /// It is as good as it is going to be.
    AtPeak {
        /// The best that it reported.
        #[serde(with = "any_number")]
        accuracy: f64,
        /// The best that is expected of it.
        #[serde(with = "any_number")]
        expected: f64,
        /// The standard deviation of that.
        #[serde(with = "any_number")]
        deviation: f64,
    },
    /// It has not become better for a while, and is unlikely to.
    Stalled {
        /// The best that it reported.
        #[serde(with = "any_number")]
        accuracy: f64,
        /// The probability that it becomes better.
        #[serde(with = "any_number")]
        chance: f64,
    },
    /// It is unlikely ever to reach the accuracy that its owner needs.
    Hopeless {
        /// The best that it reported.
        #[serde(with = "any_number")]
        accuracy: f64,
        /// What its owner needs.
        #[serde(with = "any_number")]
        needed: f64,
        /// The probability that it gets there.
        #[serde(with = "any_number")]
        chance: f64,
    },
}

/// Why a job ended before its own end, and what that spared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EarlyEnd {
    /// Why.
    #[serde(flatten)]
    pub why: Enough,
    /// GPU-seconds that it would still have taken, as far as could be foretold; 0 where that could not.
    #[serde(with = "any_number")]
    pub saved_gpu_s: f64,
}

impl fmt::Display for EarlyEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.saved_gpu_s / 3600.0;
        self.why.fmt(f)?;
        if hours > 0.0 {
            let digits = if hours < 0.1 { 3 } else { 1 };
            write!(f, "; {hours:.digits$} GPU-hours saved")?;
        }
        Ok(())
    }
}

impl Enough {
    /// The kinds, in the order of the declaration.
    pub const KINDS: [&'static str; 4] = ["reached", "at_peak", "stalled", "hopeless"];

    /// The machine-readable kind, as in JSON.
    pub const fn kind(&self) -> &'static str {
        let place = match self {
            Self::Reached { .. } => 0,
            Self::AtPeak { .. } => 1,
            Self::Stalled { .. } => 2,
            Self::Hopeless { .. } => 3,
        };
        Self::KINDS[place]
    }
}

impl fmt::Display for Enough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reached { accuracy, needed } => {
                write!(f, "stopped at {accuracy:.3} of {needed:.3} needed")
            }
            Self::AtPeak { accuracy, expected, deviation } => write!(
                f,
                "stopped at an accuracy of {accuracy:.3}; the best that is expected of it is {expected:.3}, give or take {deviation:.3}"
            ),
            Self::Stalled { accuracy, chance } => write!(
                f,
                "stopped at an accuracy of {accuracy:.3}, which has not become better for a while; the chance that it does is {}",
                Percent(*chance)
            ),
            Self::Hopeless { accuracy, needed, chance } => write!(
                f,
                "stopped at an accuracy of {accuracy:.3}; the chance that it comes to the {needed:.3} needed is {}",
                Percent(*chance)
            ),
        }
    }
}

/// A probability in words.
struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 0.001 { f.write_str("below 0.1 %") } else { write!(f, "{:.1} %", 100.0 * self.0) }
    }
}

impl Change {
    /// The job that it is about.
    pub const fn job(&self) -> JobId {
        match self {
            Self::Relax { job, .. }
            | Self::Restore { job }
            | Self::Stop { job, .. }
            | Self::Reject { job } => *job,
        }
    }
}
