//! Why a decision is asked for.

use std::ops::BitOr;

use serde::{Deserialize, Serialize};

/// A set of causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Causes(u16);

impl Causes {
    /// Nothing happened.
    pub const NONE: Self = Self(0);
    /// A job arrived.
    pub const ARRIVED: Self = Self(1);
    /// A job finished, failed for good or was withdrawn.
    pub const ENDED: Self = Self(1 << 1);
    /// A node came, went or began to drain.
    pub const NODES: Self = Self(1 << 2);
    /// A job reported progress.
    pub const REPORTED: Self = Self(1 << 3);
    /// A job lost what it held: its node died or its start failed.
    pub const LOST: Self = Self(1 << 4);
    /// A job started, stopped or was resized as ordered.
    pub const SETTLED: Self = Self(1 << 5);
    /// The policy's own alarm or the start of a round.
    pub const ALARM: Self = Self(1 << 6);
    /// The policy was replaced.
    pub const POLICY: Self = Self(1 << 7);
    /// Everything that changes who wants or has what.
    pub const CAPACITY: Self =
        Self(Self::ARRIVED.0 | Self::ENDED.0 | Self::NODES.0 | Self::LOST.0 | Self::ALARM.0 | Self::POLICY.0);

    /// Whether any of `others` is in the set.
    pub const fn any_of(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Adds causes.
    pub const fn add(&mut self, others: Self) {
        self.0 |= others.0;
    }
}

impl BitOr for Causes {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
