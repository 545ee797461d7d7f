//! Who goes before a waiting job.

use serde::{Deserialize, Serialize};

use crate::model::JobId;

/// The waiting jobs that go before one, by the policy's own order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ahead {
    /// They, the first of all first.
    pub jobs: Vec<JobId>,
    /// Whether the policy has one order for all jobs, and these are all that go before. If not, these go before in
    /// any case, and of others it depends on what is free and on who holds what.
    pub is_total: bool,
}
