//! What the owner of a job wants from it.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

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

/// By which cheaper rules an overloaded cluster may replace a stop rule (MLFS, section 3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Relaxing {
    /// From its own iterations to the peak of its accuracy.
    pub own_to_peak: bool,
    /// From its own iterations to the accuracy that its owner needs.
    pub own_to_accuracy: bool,
    /// From the peak of its accuracy to the accuracy that its owner needs.
    pub peak_to_accuracy: bool,
}

impl Relaxing {
    /// By none.
    pub const NONE: Self = Self { own_to_peak: false, own_to_accuracy: false, peak_to_accuracy: false };
    /// By all of them.
    pub const ALL: Self = Self { own_to_peak: true, own_to_accuracy: true, peak_to_accuracy: true };

    /// Whether one rule may be replaced by another. An iteration count that the owner set is an end of its own, like
    /// the end of the program.
    pub const fn allows(self, from: StopRule, to: StopRule) -> bool {
        match (from, to) {
            (StopRule::OwnIterations | StopRule::Iterations(_), StopRule::AtPeak) => self.own_to_peak,
            (StopRule::OwnIterations | StopRule::Iterations(_), StopRule::AtAccuracy(_)) => {
                self.own_to_accuracy
            }
            (StopRule::AtPeak, StopRule::AtAccuracy(_)) => self.peak_to_accuracy,
            _ => false,
        }
    }

    /// Whether any rule may be replaced.
    pub const fn any(self) -> bool {
        self.own_to_peak || self.own_to_accuracy || self.peak_to_accuracy
    }
}

impl<'de> Deserialize<'de> for Relaxing {
    /// Reads the three, or one word for all of them.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Told {
            All(bool),
            Each(Each),
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Each {
            #[serde(default)]
            own_to_peak: bool,
            #[serde(default)]
            own_to_accuracy: bool,
            #[serde(default)]
            peak_to_accuracy: bool,
        }
        Ok(match Told::deserialize(from)? {
            Told::All(all) => {
                if all {
                    Self::ALL
                } else {
                    Self::NONE
                }
            }
            Told::Each(Each { own_to_peak, own_to_accuracy, peak_to_accuracy }) => {
                Self { own_to_peak, own_to_accuracy, peak_to_accuracy }
            }
        })
    }
}

/// What the owner asks for beyond resources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Goals {
    /// When to stop.
    pub stop: StopRule,
    /// By which cheaper rules an overloaded cluster may replace the stop rule.
    pub may_relax: Relaxing,
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
            may_relax: Relaxing::NONE,
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
