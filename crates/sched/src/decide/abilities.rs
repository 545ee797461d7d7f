//! What a backend can do, and what a policy needs.

use std::fmt;
use std::ops::BitOr;

use serde::{Deserialize, Serialize};

/// A set of abilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Abilities(u16);

const NAMES: [&str; 8] =
    ["RESIZE", "TASKS", "COPIES", "MIXED_GPU_TYPES", "LOSS", "RELAX", "SHARED_GPUS", "QUOTAS"];

impl Abilities {
    /// Nothing beyond starting and stopping whole gangs.
    pub const NONE: Self = Self(0);
    /// Change the size of a running job.
    pub const RESIZE: Self = Self(1);
    /// Place the tasks of a graph one by one.
    pub const TASKS: Self = Self(1 << 1);
    /// Run forked copies of a job and merge their parameters.
    pub const COPIES: Self = Self(1 << 2);
    /// Run one gang on GPUs of several types.
    pub const MIXED_GPU_TYPES: Self = Self(1 << 3);
    /// Report losses.
    pub const LOSS: Self = Self(1 << 4);
    /// Replace a job's stop rule by a cheaper one.
    pub const RELAX: Self = Self(1 << 5);
    /// Share one GPU among jobs.
    pub const SHARED_GPUS: Self = Self(1 << 6);
    /// Let each copy of a job do as many iterations as it was given and then wait. A backend without this is given none, and
    /// divides the work among copies by the speeds that it measures.
    pub const QUOTAS: Self = Self(1 << 7);
    /// All of them.
    pub const ALL: Self = Self((1 << NAMES.len()) - 1);

    /// Whether all of `needed` are in the set.
    pub const fn has(self, needed: Self) -> bool {
        self.0 & needed.0 == needed.0
    }

    /// What of `needed` is missing.
    pub const fn lacks(self, needed: Self) -> Self {
        Self(needed.0 & !self.0)
    }

    /// Whether it is empty.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for Abilities {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Abilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = (0..NAMES.len()).filter(|i| self.0 >> i & 1 == 1).map(|i| NAMES[i]).collect();
        f.write_str(if names.is_empty() { "nothing" } else { "" })?;
        f.write_str(&names.join(", "))
    }
}
