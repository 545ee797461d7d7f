//! What a partition computes of the rows of an update, or of all rows when the loss is measured: piece by piece forward, and back.

use std::ops::Range;

use super::{Held, Partition};
use crate::data::{Data, bounded};
use crate::error::TrainError;
use crate::merge::{Merge, Piece, share};
use crate::pool::{Pool, Shards};
use crate::program::Training;
use crate::served::MEASURED;

/// An update goes in at most so many pieces. More would keep a chain busier, and cost more messages.
const PIECES: usize = 8;
/// So many shards go in a piece when the loss is measured.
const MEASURED_SHARDS: usize = 4;

/// Rows on their way through the chain: cut into shards, as sums are, and into pieces, as they are sent.
pub(super) struct Wave {
    rows: Vec<u32>,
    shards: Shards,
    pieces: usize,
}

/// A shard at work.
#[derive(Default)]
struct Task {
    held: Held,
    slopes: Vec<f64>,
    sums: Vec<f64>,
}

impl Wave {
    /// The rows of an update.
    pub(super) fn update(training: &mut Training, update: u64) -> Self {
        let partition = part(training);
        let (rows, shards) = (partition.rows(update), partition.rule().shards(update));
        Self { rows, shards, pieces: shards.count().min(PIECES) }
    }

    /// All rows, to be measured.
    pub(super) fn measure(training: &mut Training) -> Self {
        let rows = part(training).rule().rows;
        let shards = Shards::of(rows);
        Self { rows: (0..rows as u32).collect(), shards, pieces: shards.count().div_ceil(MEASURED_SHARDS) }
    }

    pub(super) const fn pieces(&self) -> usize {
        self.pieces
    }

    /// A sum over all shards of a piece or more.
    pub(super) fn sum(&self) -> Merge {
        Merge::of(self.shards.count())
    }

    fn shards(&self, piece: usize) -> Range<usize> {
        share(self.shards.count(), piece, self.pieces)
    }

    /// How many rows a piece has.
    pub(super) fn rows(&self, piece: usize) -> usize {
        self.shards(piece).map(|shard| self.shards.rows(shard).len()).sum()
    }

    /// Runs a piece through the layers of this partition. What comes in has the rows of its shards one after the other.
    pub(super) fn forward(&self, training: &mut Training, piece: usize, input: &[f64]) -> Vec<Held> {
        let (partition, data, pool) = parts(training);
        let mut rest = input;
        let held = |shard: usize| {
            let rows = self.rows[self.shards.rows(shard)].to_vec();
            let (own, after) = rest.split_at((rows.len() * partition.inputs()).min(rest.len()));
            rest = after;
            Held { rows, input: own.to_vec(), values: Vec::new() }
        };
        let mut held: Vec<Held> = self.shards(piece).map(held).collect();
        pool.chunks(&mut held, 1, |_, held| partition.forward(data, &mut held[0]));
        held
    }

    /// What a piece that went through the last partition contributes to what is measured; the slopes of its outputs.
    pub(super) fn losses(
        &self,
        training: &mut Training,
        piece: usize,
        held: &[Held],
        merge: &mut Merge,
    ) -> Vec<f64> {
        let (partition, data, _) = parts(training);
        let mut all = Vec::new();
        for (held, first) in held.iter().zip(self.shards(piece)) {
            let mut values = vec![0.0; MEASURED];
            all.extend(partition.losses(data, held, &mut values));
            merge.insert(Piece { first, level: 0, values }).expect("each shard comes once");
        }
        all
    }

    /// Adds what a piece contributes to the gradient, given the slopes of what went out; tells those of what came in.
    pub(super) fn backward(
        &self,
        training: &mut Training,
        piece: usize,
        held: Vec<Held>,
        slopes: &[f64],
        merge: &mut Merge,
    ) -> Vec<f64> {
        let (partition, data, pool) = parts(training);
        let mut rest = slopes;
        let task = |held: Held| {
            let (own, after) = rest.split_at(held.rows.len() * partition.outputs());
            rest = after;
            Task { held, slopes: own.to_vec(), sums: vec![0.0; partition.width()] }
        };
        let mut tasks: Vec<Task> = held.into_iter().map(task).collect();
        pool.chunks(&mut tasks, 1, |_, tasks| {
            let Task { held, slopes, sums } = &mut tasks[0];
            *slopes = partition.backward(data, held, std::mem::take(slopes), sums);
        });
        let mut below = Vec::new();
        for (task, first) in tasks.into_iter().zip(self.shards(piece)) {
            below.extend(task.slopes);
            merge.insert(Piece { first, level: 0, values: task.sums }).expect("each shard comes once");
        }
        below
    }
}

/// What went out of a piece: the rows of its shards one after the other.
pub(super) fn outputs(held: &[Held]) -> Vec<f64> {
    held.iter().filter_map(|held| held.values.last()).flatten().copied().collect()
}

/// The partition of a training that was cut.
pub(super) fn part(training: &mut Training) -> &mut dyn Partition {
    training.algorithm.partition().expect("it was cut into partitions")
}

fn parts(training: &mut Training) -> (&dyn Partition, &Data, &Pool) {
    let Training { algorithm, data, pool, .. } = training;
    (&*algorithm.partition().expect("it was cut into partitions"), data, pool)
}

/// Refuses what would not fit into memory: all rows of a batch are held until their slopes come back, and those of a piece are
/// sent.
pub(super) fn fits(training: &mut Training) -> Result<(), TrainError> {
    let partition = part(training);
    let rule = partition.rule();
    let (values, widest) = (partition.values() as u64, partition.inputs().max(partition.outputs()) as u64);
    bounded("a batch on its way through a partition", values * rule.batch as u64, "say a smaller `batch`")?;
    let shards = Shards::of(rule.rows);
    let piece = (MEASURED_SHARDS * shards.rows(0).len().max(shards.rows(shards.count() - 1).len())) as u64;
    bounded("rows on their way through a partition", widest * piece, "say a smaller `hidden`")
}
