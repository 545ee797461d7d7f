//! Clusters from words and files. Says what machines and tenants there are; what happens to them is elsewhere.
//!
//! The formats are described in `docs/cluster-format.md`.

mod file;
mod tiresias;
mod words;

use std::path::{Path, PathBuf};

use crate::physics::Physics;
use trainyard_sched::model::{Cluster, ClusterError, Tenants, TenantsError};

pub use words::{WordError, parse_words};

/// A cluster file may be so large; a larger one is surely something else.
const LIMIT_BYTES: u64 = 64 << 20;

/// What a cluster file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterFile {
    /// The machines, checked.
    pub cluster: Cluster,
    /// The tenants, checked against the cluster; none if the file names none.
    pub tenants: Tenants,
    /// How fast jobs go on it, where the file says.
    pub physics: Physics,
}

/// Why there is no cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterFileError {
    /// The words are no cluster, and there is no file of that name.
    #[error("{0}; and there is no file of that name")]
    Words(WordError),
    /// The file may not be read.
    #[error("cannot read the cluster file {}: check the path and its permissions", .path.display())]
    Open {
        /// The path as it was given.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
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
    /// A row of a Tiresias cluster file that is not understood.
    #[error("{file}:{line}: {what}")]
    Row {
        /// The file's name.
        file: String,
        /// The line.
        line: usize,
        /// What is wrong, with column and value.
        what: String,
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

/// The cluster that an argument means: the file of that name, or else words like `16x8:v100`.
pub fn load(argument: &str) -> Result<ClusterFile, ClusterFileError> {
    let path = Path::new(argument);
    let names_a_file = [".toml", ".csv"].iter().any(|end| argument.ends_with(end)) || path.is_file();
    if names_a_file {
        return read(path);
    }
    let cluster = parse_words(argument).map_err(ClusterFileError::Words)?;
    checked(argument, cluster, Vec::new(), Physics::default())
}

/// Reads a cluster file: TOML, or Tiresias's CSV.
pub fn read(path: &Path) -> Result<ClusterFile, ClusterFileError> {
    let failed = |source| ClusterFileError::Open { path: path.to_owned(), source };
    let size_bytes = std::fs::metadata(path).map_err(failed)?.len();
    if size_bytes > LIMIT_BYTES {
        return Err(failed(std::io::ErrorKind::FileTooLarge.into()));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let name = path.file_name().unwrap_or(path.as_os_str());
    parse(&name.to_string_lossy(), &text)
}

/// Parses the text of a cluster file; `file` is what errors call it.
pub fn parse(file: &str, text: &str) -> Result<ClusterFile, ClusterFileError> {
    let text = text.trim_start_matches('\u{feff}');
    if tiresias::is_header(text) { tiresias::parse(file, text) } else { file::parse(file, text) }
}

/// Checks what was read as a whole.
fn checked(
    file: &str,
    cluster: Cluster,
    tenants: Vec<trainyard_sched::model::Tenant>,
    physics: Physics,
) -> Result<ClusterFile, ClusterFileError> {
    let file = || file.to_owned();
    cluster.validate().map_err(|conflict| ClusterFileError::Cluster { file: file(), conflict })?;
    let tenants = Tenants::new(tenants, cluster.total())
        .map_err(|conflict| ClusterFileError::Tenants { file: file(), conflict })?;
    Ok(ClusterFile { cluster, tenants, physics })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_words_or_a_file() {
        assert_eq!(load("2x8:v100").unwrap().cluster.gpu_count(), 16);
        let missing = load("no-such-cluster.toml").unwrap_err();
        assert!(matches!(missing, ClusterFileError::Open { .. }));
        let neither = load("no-such-cluster").unwrap_err().to_string();
        assert!(neither.contains("no-such-cluster") && neither.contains("no file"), "{neither}");
    }
}
