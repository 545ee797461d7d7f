//! The latest steps, for those who follow, and how long steps took, for those who measure. Older steps are in the journal.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;
use tokio::sync::watch;
use trainyard_live::clock::Wall;
use trainyard_live::daemon::{Follower, Told};
use trainyard_live::store::{Store, StoreError};
use trainyard_sched::control::{Event, Record};

/// So many steps are held in memory.
const HELD: usize = 512;
/// So many of those in which more happened than progress are held besides.
const TELLING: usize = 256;
/// So many of the last steps of a journal are looked through for such ones at the start.
const LOOKED_THROUGH: u64 = 2_000;
/// Upper bounds of the histogram of steps, in seconds: from a tenth of a millisecond to ten seconds.
const BOUNDS_S: [f64; 16] =
    [1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];

/// The latest steps.
pub(crate) struct History {
    journal: PathBuf,
    held: RwLock<VecDeque<Told>>,
    telling: RwLock<VecDeque<Told>>,
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
            telling: RwLock::default(),
            latest: watch::Sender::new(0),
            took: Histogram::new(BOUNDS_S),
        }
    }

    /// What a daemon is to call with each step.
    pub(crate) fn follower(self: Arc<Self>) -> Follower {
        Box::new(move |told| {
            push(&self.held, HELD, told);
            if tells(&told.record) {
                push(&self.telling, TELLING, told);
            }
            self.took.observe(told.took.as_secs_f64());
            self.latest.send_replace(told.number);
        })
    }

    /// Looks up where the journal of a daemon that has begun ended before, and its last steps.
    pub(crate) fn resume(&self) -> Result<(), StoreError> {
        let last = Store::last_number(&self.journal)?;
        let from = last.saturating_sub(LOOKED_THROUGH);
        let before = Store::read_after(&self.journal, from, LOOKED_THROUGH as usize)?.into_iter().map(kept);
        let mut telling = self.telling.write().unwrap_or_else(PoisonError::into_inner);
        // Steps that came meanwhile are there already.
        let first = telling.front().map_or(u64::MAX, |first| first.number);
        let before = before.filter(|told| told.number < first && tells(&told.record));
        let mut all: VecDeque<Told> = before.chain(std::mem::take(&mut *telling)).collect();
        all.drain(..all.len().saturating_sub(TELLING));
        *telling = all;
        drop(telling);
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
        Ok(read.into_iter().map(kept).collect())
    }

    /// The latest steps in which more happened than progress, and the number of the latest of all.
    pub(crate) fn telling(&self) -> (Vec<Told>, u64) {
        let telling = self.telling.read().unwrap_or_else(PoisonError::into_inner);
        let last = *self.latest.borrow();
        (telling.iter().filter(|told| told.number <= last).cloned().collect(), last)
    }
}

fn push(held: &RwLock<VecDeque<Told>>, most: usize, told: &Told) {
    let mut held = held.write().unwrap_or_else(PoisonError::into_inner);
    // One that was looked up in the journal meanwhile is there already.
    if held.back().is_some_and(|last| last.number >= told.number) {
        return;
    }
    if held.len() == most {
        held.pop_front();
    }
    held.push_back(told.clone());
}

/// A step as it is in the journal.
fn kept((number, record, wall): (u64, Record, Wall)) -> Told {
    Told { number, wall, record: Arc::new(record), took: Duration::ZERO }
}

/// Whether more happened than progress, or anything was ordered.
fn tells(record: &Record) -> bool {
    let is_progress = |event: &Event| matches!(event, Event::Progress { .. });
    !record.step.actions.is_empty() || record.step.panic.is_some() || !record.events.iter().all(is_progress)
}
