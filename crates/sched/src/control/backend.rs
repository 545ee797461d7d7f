//! The outermost edge: what differs between a simulated and a real cluster.

use serde::{Deserialize, Serialize};

use crate::decide::Abilities;
use crate::model::Time;

use super::{Action, Event};

/// Something that runs jobs, for real or not.
pub trait Backend {
    /// What it can do.
    fn abilities(&self) -> Abilities;

    /// What happened next, at `until` at the latest. An empty batch says only what time it is: as a rule that `until`
    /// came. `None` means that nothing will ever happen again.
    fn wait(&mut self, until: Option<Time>) -> Option<Batch>;

    /// Sets an action going. It returns at once; the outcome comes as an event. An action again, or of an attempt that is
    /// over or not the latest, is without effect.
    fn perform(&mut self, action: &Action);
}

/// What happened at one instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// When.
    pub at: Time,
    /// What, in order.
    pub events: Vec<Event>,
}
