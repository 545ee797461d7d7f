//! Threads, and sums over fixed shards of rows that come out the same on any number of them.

use std::ops::Range;

use rayon::prelude::*;

use crate::error::TrainError;

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
}

impl Pool {
    /// A pool of so many threads.
    pub fn new(threads: usize) -> Result<Self, TrainError> {
        let threads = threads.max(1);
        let build = || rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let workers = (threads > 1).then(build).transpose();
        Ok(Self { workers: workers.map_err(|source| TrainError::Threads { threads, source })?, threads })
    }

    /// How many threads there are.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Changes the number of threads.
    pub fn resize(&mut self, threads: usize) -> Result<(), TrainError> {
        if threads.max(1) != self.threads {
            *self = Self::new(threads)?;
        }
        Ok(())
    }

    /// The sum of what the shards contribute: `part` adds the contribution of some rows to zeros. Contributions are added up in
    /// the order of the shards, so rounding does not depend on who was faster.
    pub fn sum(
        &self,
        shards: Shards,
        width: usize,
        part: impl Fn(Range<usize>, &mut [f64]) + Sync,
    ) -> Vec<f64> {
        let mut total = vec![0.0; width];
        // Only so many parts are held at a time as keep all threads busy: with wide sums they are what takes memory.
        let held = shards.count().min(2 * self.threads);
        let mut parts = vec![0.0; held * width.max(1)];
        for first in (0..shards.count()).step_by(held) {
            let last = (first + held).min(shards.count());
            parts.fill(0.0);
            let used = &mut parts[..(last - first) * width.max(1)];
            self.chunks(used, width.max(1), |i, into| part(shards.rows(first + i), into));
            for part in used.chunks(width.max(1)) {
                total.iter_mut().zip(part).for_each(|(total, part)| *total += part);
            }
        }
        total
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
            Pool::new(threads).unwrap().sum(Shards::of(10_007), 2, part)
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
