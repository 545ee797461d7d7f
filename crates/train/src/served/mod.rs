//! Training with parameter servers: the numbers of a model lie in blocks on servers, workers pull them, compute gradients of their
//! share of the shards, and push these; all in step by a version that counts updates.
//!
//! Sources: Li and others, "Scaling distributed machine learning with the parameter server" (OSDI 2014), synchronous; and for servers
//! and workers that come and go at work, Peng and others, "DL2: a deep learning-driven scheduler for deep learning clusters" (TPDS
//! 2021), section 5, in four steps: register, assign, migrate at a scaling clock, update. We differ in the clock: workers go only as
//! far as the coordinator has granted, and the clock is the end of what was granted, so that nobody can be past it. Pushes are pieces
//! of the fixed tree of `merge`, so that losses are the same bits whoever takes part.

mod blocks;
mod coordinator;
mod crew;
mod message;
mod order;
mod scaling;
mod server;
mod worker;

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use crate::algorithm::Measured;
use crate::data::Data;
use crate::error::TrainError;
use crate::merge::{Merge, share};
use crate::momentum::Momentum;
use crate::net::Token;
use crate::pool::Pool;

pub use coordinator::{Coordinating, coordinate};
pub use order::Order;
pub use scaling::Scaled;
pub use server::serve;
pub use worker::work;

/// How often whoever waits looks whether a signal came.
const LOOK: Duration = Duration::from_millis(100);
/// How many sums are measured: losses, and rows that are classified rightly.
pub(crate) const MEASURED: usize = 2;

/// Which of several workers one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub(crate) member: usize,
    pub(crate) members: usize,
}

impl Share {
    /// Its part of so many shards.
    pub(crate) fn of(self, shards: usize) -> Range<usize> {
        share(shards, self.member, self.members)
    }
}

/// What an algorithm on servers knows, to be read and written.
pub struct State<'a> {
    pub(crate) passes: &'a mut u64,
    pub(crate) weights: &'a mut [f64],
    pub(crate) velocity: &'a mut [f64],
}

/// An algorithm whose parameters may lie on servers, since an update changes each number by its own gradient alone.
pub trait Served {
    /// What an update does.
    fn rule(&self) -> Momentum;

    /// All that changes.
    fn state(&mut self) -> State<'_>;

    /// What a share of the shards contributes to the gradient of an update.
    fn gradient(&mut self, update: u64, data: &Data, pool: &Pool, share: Share) -> Merge;

    /// What a share of the shards contributes to what is measured after a pass.
    fn losses(&self, data: &Data, pool: &Pool, share: Share) -> Merge;

    /// What the sums of all shards say.
    fn measured(&self, sums: &[f64]) -> Measured;
}

/// How a process joins a job.
pub struct Joining {
    /// The coordinator: an address, or a file in which it stands.
    pub coordinator: String,
    /// Where a server listens.
    pub listen: String,
    /// What all processes share.
    pub token: Token,
    /// How long one waits for another, and how long another may be silent.
    pub patience: Duration,
}

impl Joining {
    /// The address of the coordinator.
    fn address(&self) -> Result<String, TrainError> {
        let address = self.coordinator.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        if address {
            return Ok(self.coordinator.clone());
        }
        crate::address::wait(&PathBuf::from(&self.coordinator), self.patience)
    }
}
