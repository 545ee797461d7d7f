//! What a training program is: state that an iteration improves, and an entry of the table of programs.

use crate::copy::Part;
use crate::data::{Data, Needs};
use crate::error::TrainError;
use crate::parameters::{Parameter, Values};
use crate::partitions::Partition;
use crate::pool::Pool;
use crate::served::Served;
use crate::tensors::{StateError, Tensors};

/// What an iteration came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The loss that is minimised, over all training data.
    pub loss: f64,
    /// The part of the training rows that is classified rightly, where there are classes.
    pub accuracy: Option<f64>,
}

/// A program in training.
///
/// All that an iteration reads is the data, what was fixed at the beginning, what [`Algorithm::tensors`] tells, and the
/// part that it was told to take. So a program
/// that is restored goes on exactly as if it had never stopped.
pub trait Algorithm: Send {
    /// One iteration over all data.
    fn iterate(&mut self, data: &Data, pool: &Pool) -> Result<Measured, TrainError>;

    /// The same, if its parameters may lie on servers.
    fn served(&mut self) -> Option<&mut dyn Served> {
        None
    }

    /// How many layers it is a chain of; it can be cut into as many partitions.
    fn layers(&self) -> usize {
        1
    }

    /// Keeps one of `count` partitions of its layers, and forgets the others. There must be as many layers.
    fn cut(&mut self, number: usize, count: usize) {
        assert_eq!((number, count), (0, 1), "what has one layer is not cut");
    }

    /// What it does as one of several partitions, if it is a chain of layers.
    fn partition(&mut self) -> Option<&mut dyn Partition> {
        None
    }

    /// Makes it one of several copies, which draw otherwise than each other from here on; copy 0 draws as if it were alone. Says
    /// whether it draws at all: if not, all copies would do the same.
    fn fork(&mut self, copy: u32) -> bool {
        let _ = copy;
        false
    }

    /// Says which part of the rows is its own from here on, as one of several copies that draws; nothing means all of them.
    fn take_part(&mut self, part: Option<Part>) {
        let _ = part;
    }

    /// All state.
    fn tensors(&self) -> Tensors;

    /// Takes up state that another instance told, one that was begun in the same way. What does not fit is an error and leaves
    /// an instance that must not be used.
    fn restore(&mut self, state: &Tensors, data: &Data, pool: &Pool) -> Result<(), StateError>;
}

/// Begins an algorithm from its parameters, its data, a seed and threads.
pub type Begin = fn(&Values, &Data, u64, &Pool) -> Result<Box<dyn Algorithm>, TrainError>;

/// An algorithm of the table.
pub struct Entry {
    /// The name on the command line.
    pub name: &'static str,
    /// What it is, in a few words.
    pub title: &'static str,
    /// Who described it.
    pub source: &'static str,
    /// What it learns from.
    pub needs: Needs,
    /// The generator of data if none is named.
    pub generator: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// Begins it; nothing is iterated yet.
    pub begin: Begin,
}
