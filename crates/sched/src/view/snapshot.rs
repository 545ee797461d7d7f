//! The picture that a policy decides on.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::{Cluster, JobId, NodeId, Seed, Tenants, Time};

use super::{Causes, JobView, Note};

/// The jobs that have arrived and not ended, by number, with structural sharing.
pub type Jobs = imbl::OrdMap<JobId, Arc<JobView>>;

/// An immutable picture of everything that a policy may know.
///
/// Taking one is O(1): jobs and cluster are shared with the state until either side changes. It owns
/// what it shows, so it can be saved on a live cluster and decided again on a laptop.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// The time.
    pub at: Time,
    /// What happened since the previous decision.
    pub cause: Causes,
    /// Randomness for this decision, from the run's seed and `number`.
    pub seed: Seed,
    /// Counts the decisions of the run.
    pub number: u64,
    /// The machines.
    pub cluster: Arc<Cluster>,
    /// The tenants.
    pub tenants: Arc<Tenants>,
    /// What the policy asked to remember about the run as a whole.
    #[serde(default)]
    pub note: Note,
    /// The jobs.
    pub jobs: Jobs,
    /// What changed since the snapshot with the number before this one.
    pub changed: Arc<Changed>,
}

/// What differs from the previous snapshot. Everything else is as the policy left it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    /// Jobs that arrived, ended, reported, moved, or were not given what the policy decided; ascending.
    pub jobs: Vec<JobId>,
    /// Nodes whose state changed; ascending.
    pub nodes: Vec<NodeId>,
}

impl Snapshot {
    /// The job with this number, unless it has ended.
    pub fn job(&self, id: JobId) -> Option<&JobView> {
        self.jobs.get(&id).map(|job| &**job)
    }

    /// All jobs in ascending order of their numbers.
    pub fn jobs(&self) -> impl Iterator<Item = &JobView> {
        self.jobs.values().map(|job| &**job)
    }
}
