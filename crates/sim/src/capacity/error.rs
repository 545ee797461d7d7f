//! Why a capacity series cannot be used: one variant for each way.

use trainyard_sched::model::Span;

use crate::document::DocumentError;
use crate::strangers::Stranger;
use crate::supplement::SupplementError;

/// Why there is no changing capacity.
#[derive(Debug, thiserror::Error)]
pub enum CapacityError {
    /// The file cannot be read, or a row of it is not understood.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// What was added after a question mark is not understood.
    #[error(transparent)]
    Supplement(#[from] SupplementError),
    /// The file is known and holds something else.
    #[error("{file} is no series of capacity: {stranger}")]
    NotCapacity {
        /// The file's name.
        file: String,
        /// What it is.
        stranger: Stranger,
    },
    /// The file begins like nothing that is known.
    #[error(
        "{file}:{line}: `{start}` begins no known series of capacity; known are {known} (docs/cluster-format.md)"
    )]
    Unknown {
        /// The file's name.
        file: String,
        /// The first line with text.
        line: usize,
        /// Its beginning.
        start: String,
        /// The names of the formats.
        known: String,
    },
    /// The file is not the JSON that it seems to be. The cause shows the line.
    #[error("{file}:{}: not the JSON of a spot series", .source.line())]
    Json {
        /// The file's name.
        file: String,
        /// The cause, with line and column.
        source: serde_json::Error,
    },
    /// Everything is skipped.
    #[error("{file}: skip_s skips the whole series, which lasts {length}; skip less")]
    AllSkipped {
        /// The file's name.
        file: String,
        /// How long the series lasts.
        length: Span,
    },
    /// Nobody says how many GPUs a node has.
    #[error(
        "{file} does not say how many GPUs a node has; say it, such as `{file}?gpus=8,type=v100`, or give a --cluster"
    )]
    NoNodeSize {
        /// The file's name.
        file: String,
    },
    /// The series is zero throughout.
    #[error("{file}: there is never any capacity in this series")]
    Nothing {
        /// The file's name.
        file: String,
    },
    /// No cluster can be made for it.
    #[error("{file}: {source}")]
    Words {
        /// The file's name.
        file: String,
        /// The cause.
        source: crate::cluster::WordError,
    },
    /// No node of the cluster is meant.
    #[error(
        "{file}: no node of the cluster {which}; choose others with `type=` or `nodes=` (the beginning of their names)"
    )]
    NoSuchNodes {
        /// The file's name.
        file: String,
        /// What was looked for.
        which: String,
    },
    /// The cluster is smaller than the series.
    #[error(
        "{file}: the series has up to {most} {unit}, but it applies to {have} of the cluster; give a larger cluster, or none"
    )]
    TooSmall {
        /// The file's name.
        file: String,
        /// The most that the series has.
        most: u64,
        /// Nodes or GPUs.
        unit: &'static str,
        /// How many the cluster has.
        have: u64,
    },
}
