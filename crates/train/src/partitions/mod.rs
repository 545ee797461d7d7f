//! Training in partitions: the layers of a model are cut into parts that follow each other, and each has a process of its own, for
//! the whole life of the job. Rows go through them forward, slopes come back, and each part improves its own numbers.
//!
//! Sources: partitions as persistent tasks are those of Wang, Liu and Shen, "Job scheduling for large-scale machine learning clusters"
//! (CoNEXT 2020), sections 3.2 and 4.1; rows go in pieces, so that all parts have something to do, as in Huang and others, "GPipe"
//! (NeurIPS 2019), with an update when all pieces are through. Sums go along the fixed tree of `merge`, so that losses are the same
//! bits wherever the model is cut.
//!
//! A part may leave at any time and come back elsewhere, or be lost; the others wait. What all go on from then is the latest state
//! that each of them still has (`states`), and they agree on it along the chain (`chain`). Since a state is the same bits however
//! often it is reached, no old one is ever wrong.

mod chain;
mod links;
mod message;
mod states;
mod wave;

use std::path::PathBuf;
use std::time::Duration;

use crate::algorithm::Measured;
use crate::data::Data;
use crate::momentum::Momentum;
use crate::net::Token;

pub use chain::{latest, partition};

/// Which partition a process is, and where it finds the others.
pub struct Partitioning {
    /// Its number, from 0; the first takes the rows, the last knows the loss.
    pub number: usize,
    /// How many there are.
    pub count: usize,
    /// A folder in which each partition writes where it listens.
    pub meet: PathBuf,
    /// Where it listens.
    pub listen: String,
    /// What all processes share.
    pub token: Token,
    /// How long another may be silent before it counts as lost. Who is missing is waited for without an end.
    pub patience: Duration,
    /// Whether to go on from states that were saved.
    pub resume: bool,
}

/// What a partition keeps of the rows of a shard until their slopes come back.
#[derive(Debug, Default)]
pub struct Held {
    pub(crate) rows: Vec<u32>,
    /// What came in; nothing for the first partition, which takes the columns.
    pub(crate) input: Vec<f64>,
    /// What came out of each of its layers.
    pub(crate) values: Vec<Vec<f64>>,
}

/// Some of the layers of an algorithm, in succession.
pub trait Partition: Send + Sync {
    /// What an update does.
    fn rule(&self) -> Momentum;

    /// How many numbers it improves.
    fn width(&self) -> usize;

    /// How many values a row has as it comes in.
    fn inputs(&self) -> usize;

    /// How many values a row has as it goes out.
    fn outputs(&self) -> usize;

    /// How many values are held for a row on its way.
    fn values(&self) -> usize;

    /// The rows of an update, in order.
    fn rows(&mut self, update: u64) -> Vec<u32>;

    /// Runs rows through its layers.
    fn forward(&self, data: &Data, held: &mut Held);

    /// What rows contribute to what is measured, and the slopes of their outputs; for the last partition.
    fn losses(&self, data: &Data, held: &Held, sums: &mut [f64]) -> Vec<f64>;

    /// Adds what rows contribute to the gradient, given the slopes of what went out; tells those of what came in.
    fn backward(&self, data: &Data, held: &Held, slopes: Vec<f64>, sums: &mut [f64]) -> Vec<f64>;

    /// Makes an update.
    fn apply(&mut self, update: u64, gradient: &[f64]);

    /// What the sums over all rows say.
    fn measured(&self, sums: &[f64]) -> Measured;
}
