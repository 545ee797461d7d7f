//! What is written down of a run: a head, then one record for each step. Every view of a run is a fold
//! over these.

use serde::{Deserialize, Serialize};

use crate::model::{Cluster, Seed, Tenants, Time};

use super::{Batch, Core, Event, Step};

/// The version of the journal's format. Readers refuse what they do not know.
pub const JOURNAL_VERSION: u32 = 1;

/// The first line of a journal: everything that a replay needs besides the records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// [`JOURNAL_VERSION`].
    pub version: u32,
    /// The seed of the run.
    pub seed: Seed,
    /// The policy's name.
    pub policy: String,
    /// The policy's parameters.
    pub parameters: toml::Table,
    /// What the backend can do.
    pub abilities: crate::decide::Abilities,
    /// The machines at the start.
    pub cluster: Cluster,
    /// The tenants.
    pub tenants: Tenants,
}

/// One line of a journal: what happened, and what was decided and ordered because of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// When.
    pub at: Time,
    /// What happened.
    pub events: Vec<Event>,
    /// What came of it.
    #[serde(flatten)]
    pub step: Step,
}

/// Something that follows a run.
pub trait Log {
    /// Takes note of one step.
    fn step(&mut self, batch: &Batch, step: &Step);

    /// Looks at the loop between two steps: what was due is ordered, and nothing is half done.
    fn rest(&mut self, _core: &Core) {}
}

/// Follows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Log for Nothing {
    fn step(&mut self, _: &Batch, _: &Step) {}
}
