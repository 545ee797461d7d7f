//! What the owner of a job wants from it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Time;

/// A validation accuracy as a fraction from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Accuracy(pub f64);

impl fmt::Display for Accuracy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.0)
    }
}

/// How urgent a job is, larger is more urgent (MLFS, section 3.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Urgency(pub u8);

/// A priority class: a higher class always goes before a lower one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PriorityClass(pub i16);

/// When a job has had enough (MLFS, section 3.5, options i to iii).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopRule {
    /// It ends by itself, when its own iterations are done.
    #[default]
    OwnIterations,
    /// After this many iterations, even if its program would go on.
    Iterations(u64),
    /// When its accuracy is as good as it is going to be.
    AtPeak,
    /// When it has reached this accuracy.
    AtAccuracy(Accuracy),
}

/// What the owner asks for beyond resources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Goals {
    /// When to stop.
    pub stop: StopRule,
    /// Whether an overloaded cluster may replace the stop rule by a cheaper one.
    pub may_relax: bool,
    /// When the job should be done.
    pub deadline: Option<Time>,
    /// The accuracy that its owner needs.
    pub accuracy: Option<Accuracy>,
    /// The job's weight among the jobs of its tenant.
    pub weight: f64,
    /// How urgent it is.
    pub urgency: Urgency,
    /// The priority class.
    pub class: PriorityClass,
    /// Whether it may be stopped or moved once it runs.
    pub movable: bool,
    /// Into how many copies on different nodes it may be forked; 1 means not at all.
    pub copies: u16,
}

impl Default for Goals {
    fn default() -> Self {
        Self {
            stop: StopRule::OwnIterations,
            may_relax: false,
            deadline: None,
            accuracy: None,
            weight: 1.0,
            urgency: Urgency(0),
            class: PriorityClass(0),
            movable: true,
            copies: 1,
        }
    }
}
