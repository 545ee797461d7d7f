//! Clusters from words and files. Says what machines and tenants there are; what happens to them is elsewhere.
//!
//! The formats are described in `docs/cluster-format.md`; files are recognised by content, never by name.

mod builder;
mod error;
mod file;
mod gavel;
mod kubernetes;
mod lists;
mod slurm;
mod tiresias;
mod words;

use std::path::Path;

use trainyard_sched::model::{Cluster, Tenant, Tenants};

use self::builder::Builder;
use crate::document::{Document, printable};
use crate::physics::Physics;
use crate::strangers::{self, Asked};
use crate::supplement::{self, Supplement};
use crate::workload::ImportReport;

pub use error::ClusterFileError;
pub use words::{WordError, parse_words};

/// What a cluster file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterFile {
    /// The machines, checked.
    pub cluster: Cluster,
    /// The tenants, checked against the cluster; none if the file names none.
    pub tenants: Tenants,
    /// How fast jobs go on it, where the file says.
    pub physics: Physics,
    /// What was read and assumed. Rows are machines, or what the format counts in their place.
    pub report: ImportReport,
}

/// A way to describe a cluster.
pub struct Format {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// Whether a text that begins like this belongs to it.
    pub(crate) detect: fn(&str) -> bool,
    /// Reads it all.
    pub(crate) read: fn(&Document, &Supplement) -> Result<Draft, ClusterFileError>,
}

/// All public formats; the first that fits is used, and TOML if none does.
pub const FORMATS: &[Format] = &[
    tiresias::FORMAT,
    lists::ALIBABA_2023,
    lists::ALIBABA_2026,
    lists::ALIBABA_2020,
    lists::LINGJUN,
    lists::PHILLY_MACHINES,
    lists::PHILLY_TENANTS,
    gavel::FORMAT,
    kubernetes::FORMAT,
    slurm::FORMAT,
];

/// What a reader makes of a file, to be checked as a whole.
#[derive(Default)]
pub(crate) struct Draft {
    cluster: Cluster,
    tenants: Vec<Tenant>,
    physics: Physics,
    report: ImportReport,
}

impl Draft {
    /// All that was built, from so many rows.
    fn of(builder: Builder<'_>, rows: u64) -> Self {
        let Builder { cluster, mut report, .. } = builder;
        (report.rows, report.kept) = (rows, rows);
        Self { cluster, report, ..Self::default() }
    }
}

/// The cluster that an argument means: the file of that name, or else words like `16x8:v100`. What a file does not
/// say may be added: `topo.csv?gpus=8,type=h800`.
pub fn load(argument: &str) -> Result<ClusterFile, ClusterFileError> {
    let (path, supplement) = supplement::split(argument)?;
    let path = Path::new(path);
    let ends = [".toml", ".csv", ".json", ".txt", ".gz"];
    let names_a_file =
        ends.iter().any(|end| path.as_os_str().to_string_lossy().ends_with(end)) || path.is_file();
    if names_a_file {
        return understand(&Document::open(path)?, &supplement);
    }
    let cluster = parse_words(argument).map_err(ClusterFileError::Words)?;
    let nodes = cluster.nodes.len() as u64;
    let report = ImportReport { rows: nodes, kept: nodes, ..ImportReport::default() };
    checked(argument, argument.to_owned(), Draft { cluster, report, ..Draft::default() })
}

/// Reads a cluster file: TOML, or one of [`FORMATS`], plain or gzip.
pub fn read(path: &Path) -> Result<ClusterFile, ClusterFileError> {
    understand(&Document::open(path)?, &Supplement::default())
}

/// Reads a cluster from bytes; `file` is what errors call it, and `words` what the user adds: `gpus=8,type=h800`.
pub fn read_from(file: &str, bytes: Vec<u8>, words: &str) -> Result<ClusterFile, ClusterFileError> {
    understand(&Document::new(file, bytes)?, &Supplement::new(file, words)?)
}

/// Parses the text of a cluster file; `file` is what errors call it.
pub fn parse(file: &str, text: &str) -> Result<ClusterFile, ClusterFileError> {
    read_from(file, text.as_bytes().to_vec(), "")
}

/// The format of a text that begins like this, if it is one of [`FORMATS`].
pub(crate) fn recognise(head: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| (format.detect)(head))
}

fn understand(document: &Document, supplement: &Supplement) -> Result<ClusterFile, ClusterFileError> {
    let file = &document.file;
    let Some(format) = recognise(&document.text) else {
        if let Some(stranger) = strangers::recognise(&document.text, Asked::Cluster) {
            return Err(ClusterFileError::NotCluster { file: file.clone(), stranger });
        }
        if !is_toml(&document.text) {
            return Err(unknown(document));
        }
        supplement.finish("a cluster file in TOML")?;
        let mut draft = file::parse(file, &document.text)?;
        draft.report.sha256_16.clone_from(&document.sha256_16);
        return checked(file, format!("{file} (toml)"), draft);
    };
    let mut draft = (format.read)(document, supplement)?;
    supplement.finish(format.title)?;
    draft.report.sha256_16.clone_from(&document.sha256_16);
    checked(file, format!("{file} ({})", format.name), draft)
}

/// Whether a text may be meant as TOML: its first line that says something is a table or sets a key.
fn is_toml(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    first.is_none_or(|line| {
        let table = line.strip_prefix('[').map(|rest| rest.trim_start_matches('[').trim_start());
        let begins_a_name = |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphabetic());
        let key = line.split_once('=').map_or("", |(key, _)| key.trim());
        let is_key = |c: char| c.is_ascii_alphanumeric() || "_-.\"".contains(c);
        table.is_some_and(begins_a_name) || (!key.is_empty() && key.chars().all(is_key))
    })
}

fn unknown(document: &Document) -> ClusterFileError {
    let first = document.text.lines().enumerate().find(|(_, line)| !line.trim().is_empty());
    let (index, line) = first.unwrap_or((0, ""));
    ClusterFileError::Unknown {
        file: document.file.clone(),
        line: index + 1,
        start: printable(line),
        known: FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", "),
    }
}

/// Checks what was read as a whole.
fn checked(file: &str, source: String, draft: Draft) -> Result<ClusterFile, ClusterFileError> {
    let file = || file.to_owned();
    let Draft { cluster, tenants, physics, mut report } = draft;
    report.source = source;
    cluster.validate().map_err(|conflict| ClusterFileError::Cluster { file: file(), conflict })?;
    let tenants = Tenants::new(tenants, cluster.total())
        .map_err(|conflict| ClusterFileError::Tenants { file: file(), conflict })?;
    Ok(ClusterFile { cluster, tenants, physics, report })
}

#[cfg(test)]
pub(crate) use tests::parse_with;

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a text with additions.
    pub(crate) fn parse_with(file: &str, text: &str, words: &str) -> Result<ClusterFile, ClusterFileError> {
        read_from(file, text.as_bytes().to_vec(), words)
    }

    #[test]
    fn an_argument_is_words_or_a_file() {
        assert_eq!(load("2x8:v100").unwrap().cluster.gpu_count(), 16);
        let missing = load("no-such-cluster.toml").unwrap_err();
        assert!(matches!(missing, ClusterFileError::Document(crate::document::DocumentError::Open { .. })));
        let missing = load("no-such-topo.csv?gpus=8").unwrap_err().to_string();
        assert!(missing.contains("cannot read no-such-topo.csv:"), "{missing}");
        let neither = load("no-such-cluster").unwrap_err().to_string();
        assert!(neither.contains("no-such-cluster") && neither.contains("no file"), "{neither}");
    }

    #[test]
    fn what_is_no_cluster_is_told_from_broken_toml() {
        let told = |text: &str| parse("c", text).unwrap_err().to_string();
        assert!(told("hello world\n").starts_with("c:1: `hello world` begins no known description"));
        assert!(told("# a comment\n[[node]]\n").contains("did you mean `nodes`?"));
        assert!(told("nodes = [1\n").contains("the cluster file is not understood"));
        assert!(told("").contains("no nodes"));
    }

    #[test]
    fn every_format_has_its_own_name() {
        let names: std::collections::BTreeSet<&str> = FORMATS.iter().map(|format| format.name).collect();
        assert_eq!(names.len(), FORMATS.len());
    }
}
