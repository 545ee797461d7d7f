//! A run at one moment, its policy aside: what is believed, how the loop stands, and nothing else. It can be
//! gone on with any number of times, each time with a policy of its own.
//!
//! That is sound because a policy keeps nothing that it could not rebuild from a snapshot: a fresh instance goes
//! on as the old one would have.

use serde::{Deserialize, Serialize};

use crate::decide::Policy;
use crate::model::Time;
use crate::view::{Causes, Snapshot};

use super::{Core, Settings, State};

/// A run at one moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Moment {
    /// When.
    pub at: Time,
    /// What is believed.
    pub state: State,
    /// How the loop runs.
    pub settings: Settings,
    /// Decisions made so far.
    pub(super) decisions: u64,
    /// Why a decision is asked for, as far as none was made since.
    pub(super) cause: Causes,
    /// When the policy asked to be woken.
    pub(super) alarm: Option<Time>,
    /// When the next round begins.
    pub(super) next_round: Option<Time>,
}

impl Moment {
    /// A loop that goes on from here with a fresh instance of the policy.
    pub fn resume(&self, policy: Box<dyn Policy>) -> Core {
        Core::resumed(self, policy)
    }

    /// The picture that a policy would be shown.
    pub fn snapshot(&self) -> Snapshot {
        let number = self.decisions;
        self.state.snapshot(self.at, self.cause, self.settings.seed.numbered(number), number)
    }
}
