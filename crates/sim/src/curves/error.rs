//! Why a log of losses cannot be read.

use crate::trace::TraceError;

/// Why there is no curve.
#[derive(Debug, thiserror::Error)]
pub enum CurvesError {
    /// The file itself.
    #[error(transparent)]
    File(#[from] TraceError),
    /// Nothing names a loss.
    #[error(
        "{file}:{line}: `{start}` names no loss; the names that are looked for are {known}. If the log calls it something else, say --loss NAME"
    )]
    NoLoss {
        /// The file's name.
        file: String,
        /// The first line with text.
        line: u64,
        /// Its beginning.
        start: String,
        /// The names.
        known: String,
    },
    /// A name was asked for that is not there.
    #[error("{file}: nothing in it is called `{name}`; {hint}")]
    NoSuchName {
        /// The file's name.
        file: String,
        /// What was asked for.
        name: String,
        /// What there is.
        hint: String,
    },
    /// There is not a single loss that is a number.
    #[error("{file}: no line of it tells a loss that is a number; the first reason is: {first}")]
    NoPoints {
        /// The file's name.
        file: String,
        /// Why the first line was left out.
        first: String,
    },
    /// More points than fit.
    #[error("{file}:{line}: the log has more than {limit} losses; leave some out, every tenth is enough")]
    TooMany {
        /// The file's name.
        file: String,
        /// The line.
        line: u64,
        /// The limit.
        limit: usize,
    },
}
