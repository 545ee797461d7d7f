//! Why there is no cluster: one variant for each way in which words or a file fail to describe machines.

use trainyard_sched::model::{ClusterError, TenantsError};

use super::WordError;
use crate::document::DocumentError;
use crate::strangers::Stranger;
use crate::supplement::SupplementError;

/// Why there is no cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterFileError {
    /// The words are no cluster, and there is no file of that name.
    #[error("{0}; and there is no file of that name")]
    Words(WordError),
    /// The file cannot be read, or a row of it is not understood.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// What was added after a question mark is not understood or not enough.
    #[error(transparent)]
    Supplement(#[from] SupplementError),
    /// The file is known and holds something else.
    #[error("{file} is not a cluster: {stranger}")]
    NotCluster {
        /// The file's name.
        file: String,
        /// What it is.
        stranger: Stranger,
    },
    /// The file begins like nothing that is known.
    #[error(
        "{file}:{line}: `{start}` begins no known description of a cluster; known are {known}, and TOML (docs/cluster-format.md)"
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
    /// Several clusters in one file.
    #[error(
        "{file} describes several clusters; choose one, such as `{file}?name={first}` (there are {names})"
    )]
    Choose {
        /// The file's name.
        file: String,
        /// The first that can be chosen.
        first: String,
        /// All that can be chosen.
        names: String,
    },
    /// The file is not the JSON that it seems to be. The cause shows the line.
    #[error("{file}:{}: not the JSON of {format}", .source.line())]
    Json {
        /// The file's name.
        file: String,
        /// What was expected.
        format: &'static str,
        /// The cause, with line and column.
        source: serde_json::Error,
    },
    /// The file is not TOML, or a value has the wrong type. The cause shows the line.
    #[error("{file}: the cluster file is not understood; see docs/cluster-format.md")]
    Toml {
        /// The file's name.
        file: String,
        /// The cause, with line and column.
        source: Box<toml::de::Error>,
    },
    /// A key that does not exist.
    #[error("{file}:{line}: unknown key `{key}` in {place}; {hint}")]
    UnknownKey {
        /// The file's name.
        file: String,
        /// The line.
        line: usize,
        /// The key.
        key: String,
        /// The table that it stands in.
        place: String,
        /// The nearest key, or all of them.
        hint: String,
    },
    /// A value that is out of range or contradicts another.
    #[error("{file}: {place}: {key} = {value}: {what}")]
    Value {
        /// The file's name.
        file: String,
        /// The table that it stands in.
        place: String,
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The machines contradict each other.
    #[error("{file}: {conflict}")]
    Cluster {
        /// The file's name.
        file: String,
        /// The contradiction.
        conflict: ClusterError,
    },
    /// The tenants contradict each other or the cluster.
    #[error("{file}: {conflict}")]
    Tenants {
        /// The file's name.
        file: String,
        /// The contradiction.
        conflict: TenantsError,
    },
}
