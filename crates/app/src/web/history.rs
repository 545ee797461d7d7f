//! The latest steps, for those who follow, and how long steps took, for those who measure. Older steps are in the journal.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};

use prometheus_client::metrics::histogram::Histogram;
use tokio::sync::watch;
use trainyard_live::daemon::{Follower, Told};
use trainyard_live::store::{Store, StoreError};

/// So many steps are held in memory.
const HELD: usize = 512;
/// Upper bounds of the histogram of steps, in seconds: from a tenth of a millisecond to ten seconds.
const BOUNDS_S: [f64; 16] =
    [1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];

/// The latest steps.
pub(crate) struct History {
    journal: PathBuf,
    held: RwLock<VecDeque<Told>>,
    latest: watch::Sender<u64>,
    /// How long steps took from their messages to the disk.
    pub(crate) took: Histogram,
}

impl History {
    /// The history of a journal, of which nothing is known yet.
    pub(crate) fn new(journal: PathBuf) -> Self {
        Self {
            journal,
            held: RwLock::default(),
            latest: watch::Sender::new(0),
            took: Histogram::new(BOUNDS_S),
        }
    }

    /// What a daemon is to call with each step.
    pub(crate) fn follower(self: std::sync::Arc<Self>) -> Follower {
        Box::new(move |told| {
            let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
            if held.len() == HELD {
                held.pop_front();
            }
            held.push_back(told.clone());
            drop(held);
            self.took.observe(told.took.as_secs_f64());
            self.latest.send_replace(told.number);
        })
    }

    /// Looks up where the journal of a daemon that has begun ended before.
    pub(crate) fn resume(&self) -> Result<(), StoreError> {
        let last = Store::last_number(&self.journal)?;
        self.latest.send_if_modified(|latest| {
            let is_later = last > *latest;
            *latest = last.max(*latest);
            is_later
        });
        Ok(())
    }

    /// The number of the latest step; it changes with each step.
    pub(crate) fn latest(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }

    /// Up to `most` steps after the one of this number, from memory or from the journal.
    pub(crate) fn after(&self, number: u64, most: usize) -> Result<Vec<Told>, String> {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        if held.front().is_some_and(|first| first.number <= number + 1) {
            return Ok(held.iter().filter(|told| told.number > number).take(most).cloned().collect());
        }
        drop(held);
        let read = Store::read_after(&self.journal, number, most).map_err(|error| error.to_string())?;
        let told = |(number, record, wall)| Told {
            number,
            wall,
            record: std::sync::Arc::new(record),
            took: std::time::Duration::ZERO,
        };
        Ok(read.into_iter().map(told).collect())
    }
}
