//! Threads, and sums over fixed shards of rows that come out the same on any number of them, and of processes.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use rayon::prelude::*;

use crate::error::TrainError;
use crate::merge::{Merge, Piece, share};
use crate::ring::Ring;

/// The most shards that rows are cut into, and so the most threads that help.
pub const SHARDS: usize = 64;
/// A shard smaller than this is not worth handing over.
const LEAST_ROWS: usize = 64;

/// Rows cut into shards. How depends on the number of rows and on nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shards {
    rows: usize,
    count: usize,
}

impl Shards {
    /// Shards of equal size, give or take one row.
    pub fn of(rows: usize) -> Self {
        Self::at_least(rows, LEAST_ROWS)
    }

    /// The same, with another least number of rows.
    pub fn at_least(rows: usize, least: usize) -> Self {
        Self { rows, count: rows.div_ceil(least.max(1)).clamp(1, SHARDS) }
    }

    /// How many there are.
    pub fn count(self) -> usize {
        self.count
    }

    /// The rows of one.
    pub fn rows(self, shard: usize) -> Range<usize> {
        let at = |shard: usize| shard * self.rows / self.count;
        at(shard)..at(shard + 1)
    }
}

/// Some threads. How many may change between two calls and changes no result.
pub struct Pool {
    /// None with a single thread, which then is the caller's.
    workers: Option<rayon::ThreadPool>,
    threads: usize,
    /// The other processes that sum with this one.
    ring: Option<Mutex<Ring>>,
}

/// No panic happens while it is held that would not end the program.
fn hold(ring: &Mutex<Ring>) -> MutexGuard<'_, Ring> {
    ring.lock().expect("nobody panicked while holding it")
}

impl Pool {
    /// A pool of so many threads.
    pub fn new(threads: usize) -> Result<Self, TrainError> {
        let threads = threads.max(1);
        let build = || rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let workers = (threads > 1).then(build).transpose();
        let workers = workers.map_err(|source| TrainError::Threads { threads, source })?;
        Ok(Self { workers, threads, ring: None })
    }

    /// How many threads there are.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Changes the number of threads.
    pub fn resize(&mut self, threads: usize) -> Result<(), TrainError> {
        if threads.max(1) != self.threads {
            *self = Self { ring: self.ring.take(), ..Self::new(threads)? };
        }
        Ok(())
    }

    /// Takes part in a ring of processes from now on: each sums a part of the shards, and all learn the sum.
    pub(crate) fn join(&mut self, ring: Ring) {
        self.ring = Some(Mutex::new(ring));
    }

    /// How many processes sum together, if not this one alone.
    pub(crate) fn processes(&self) -> Option<usize> {
        self.ring.as_ref().map(|ring| hold(ring).size())
    }

    /// Whether any of the processes says yes.
    pub(crate) fn any(&self, yes: bool) -> Result<bool, TrainError> {
        let Some(ring) = &self.ring else { return Ok(yes) };
        let mut ring = hold(ring);
        let mut own = Merge::of(ring.size());
        let piece = Piece { first: ring.rank(), level: 0, values: vec![f64::from(yes)] };
        own.insert(piece).expect("each rank has a place");
        Ok(ring.all_reduce(own, 1)?[0] > 0.0)
    }

    /// The sum of what the shards contribute: `part` adds the contribution of some rows to zeros. Contributions are added along
    /// a fixed tree, so rounding depends neither on who was faster nor on how many share the work. That another process is
    /// gone is the only error.
    pub fn sum(
        &self,
        shards: Shards,
        width: usize,
        part: impl Fn(Range<usize>, &mut [f64]) + Sync,
    ) -> Result<Vec<f64>, TrainError> {
        let part = |shard: usize, sums: &mut [f64]| part(shards.rows(shard), sums);
        match &self.ring {
            None => Ok(self.merged(shards.count(), 0..shards.count(), width, part).total()),
            Some(ring) => {
                let mut ring = hold(ring);
                let own = share(shards.count(), ring.rank(), ring.size());
                ring.all_reduce(self.merged(shards.count(), own, width, part), width)
            }
        }
    }

    /// The merged contributions of some of `count` shards.
    pub(crate) fn merged(
        &self,
        count: usize,
        own: Range<usize>,
        width: usize,
        part: impl Fn(usize, &mut [f64]) + Sync,
    ) -> Merge {
        let mut merge = Merge::of(count);
        // Only so many parts are held at a time as keep all threads busy: with wide sums they are what takes memory.
        let held = 2 * self.threads;
        for first in own.clone().step_by(held) {
            let last = (first + held).min(own.end);
            let mut parts: Vec<Vec<f64>> = (first..last).map(|_| vec![0.0; width]).collect();
            self.chunks(&mut parts, 1, |i, parts| part(first + i, &mut parts[0]));
            for (i, values) in parts.into_iter().enumerate() {
                merge.insert(Piece { first: first + i, level: 0, values }).expect("each shard comes once");
            }
        }
        merge
    }

    /// Fills chunks of a slice, each by its number. The last may be shorter.
    pub fn chunks<T: Send>(&self, slice: &mut [T], chunk: usize, fill: impl Fn(usize, &mut [T]) + Sync) {
        match &self.workers {
            None => slice.chunks_mut(chunk).enumerate().for_each(|(i, chunk)| fill(i, chunk)),
            Some(workers) => workers.install(|| {
                slice.par_chunks_mut(chunk).enumerate().for_each(|(i, chunk)| fill(i, chunk));
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_cover_all_rows_once_and_in_order() {
        for rows in [0, 1, 63, 64, 65, 1000, 4096, 100_003] {
            let shards = Shards::of(rows);
            let all: Vec<usize> = (0..shards.count()).flat_map(|shard| shards.rows(shard)).collect();
            assert_eq!(all, (0..rows).collect::<Vec<_>>(), "{rows}");
            assert!(shards.count() <= SHARDS);
        }
    }

    #[test]
    fn sums_are_the_same_bits_on_any_number_of_threads() {
        let value = |row: usize| 1.0 / (row as f64 + 0.3);
        let sum = |threads| {
            let part = |rows: Range<usize>, out: &mut [f64]| {
                for row in rows {
                    out[0] += value(row);
                    out[1] -= value(row).sqrt();
                }
            };
            Pool::new(threads).unwrap().sum(Shards::of(10_007), 2, part).unwrap()
        };
        let one = sum(1);
        assert!((one[0] - (0..10_007).map(value).sum::<f64>()).abs() < 1e-9);
        for threads in [2, 3, 8, 33] {
            assert_eq!(
                sum(threads).iter().map(|v| v.to_bits()).collect::<Vec<_>>(),
                one.iter().map(|v| v.to_bits()).collect::<Vec<_>>()
            );
        }
    }
}
