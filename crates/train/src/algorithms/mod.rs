//! The table of programs: a file for each.

mod factorisation;
mod kmeans;
mod layers;
mod logistic;
mod mlp;
mod stochastic;
mod svm;
mod trees;

use crate::algorithm::Entry;
use crate::error::{TrainError, hint};

/// All of them.
pub static ALL: [&Entry; 6] =
    [&logistic::ENTRY, &svm::ENTRY, &kmeans::ENTRY, &mlp::ENTRY, &trees::ENTRY, &factorisation::ENTRY];

/// The one of a name.
pub fn named(name: &str) -> Result<&'static Entry, TrainError> {
    let unknown = || TrainError::Unknown {
        what: "algorithm".to_owned(),
        name: name.to_owned(),
        hint: hint(name, ALL.iter().map(|entry| entry.name)),
    };
    ALL.iter().find(|entry| entry.name == name).copied().ok_or_else(unknown)
}
