//! What partitions that are next to each other say. Rows and slopes travel beside these, as numbers.

use serde::{Deserialize, Serialize};

use crate::checkpoint::{Identity, Progress};
use crate::program::Stops;

/// What the partitions of a job must have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Common {
    pub(super) identity: Identity,
    pub(super) count: usize,
    pub(super) stops: Stops,
}

impl Common {
    /// What differs, if anything does.
    pub(super) fn differs(&self, other: &Self) -> Option<String> {
        let Self { identity, count, stops } = other;
        if self.count != *count {
            return Some(format!("it is one of {} partitions, and this one of {count}", self.count));
        }
        if self.stops != *stops {
            let settings = "--iterations, --until-loss or --until-change";
            return Some(format!(
                "it is to end otherwise than this partition; say the same {settings} to all"
            ));
        }
        self.identity.differs(identity, "this partition")
    }
}

/// A message. Rounds count how often all agreed on what to go on from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Message {
    /// To the one before: the partition of this number would like to follow.
    Hello { number: usize, round: u64, common: Common },
    /// It may.
    Welcome { round: u64 },
    /// Not here or not now; it may try again.
    Later { reason: String },
    /// Not at all.
    Refused { reason: String },
    /// To the one after: these states are left to be gone on from.
    Offer { round: u64, states: Vec<u64> },
    /// To the one before: this is what all go on from.
    Go { round: u64, progress: Progress },
    /// To the one before, up to the first: all have to agree anew, in a later round than this.
    Again { round: u64 },
    /// To the one after: all before have saved the last state.
    Over { round: u64 },
    /// To the one before: all have saved it.
    Leave { round: u64 },
}
