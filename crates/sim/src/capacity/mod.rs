//! Capacity that changes: a series says how much there is over time, and becomes changes of nodes. Says nothing of
//! failures, which come on top (`faults`).
//!
//! The formats and what is assumed are described in `docs/cluster-format.md`.

mod changes;
mod daily;
mod error;
mod own;
mod spot;

use std::path::Path;

use serde::Serialize;
use trainyard_sched::model::{Cluster, MAX_GPUS_PER_NODE, Span, Time};

use crate::document::{Document, printable};
use crate::strangers::{self, Asked};
use crate::supplement::{self, Supplement};
use crate::workload::{Done, ImportReport};

pub use changes::overlaid;
pub use error::CapacityError;

/// The GPU type of series that do not name one.
const SOME_GPU: &str = "gpu";
/// The most points of a series that are read.
const MOST_POINTS: usize = 10_000_000;
/// The most nodes or GPUs that a series may speak of.
const MOST: u64 = 1_000_000;

/// What a series counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Whole nodes.
    Nodes,
    /// GPUs; a node is there when all its GPUs are.
    Gpus,
}

/// How nodes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Leaving {
    /// At once; what runs there is lost back to its latest checkpoint.
    Down,
    /// They keep what runs there and take nothing new.
    Drain,
}

/// How much there is over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    /// What is counted.
    pub unit: Unit,
    /// From when on there is how much: the first at time zero, sorted, and each differs from the one before.
    pub points: Vec<(Time, u64)>,
    /// When the series ends; its last value stays.
    pub ends: Time,
    /// How nodes go.
    pub leaving: Leaving,
    /// What was read and assumed.
    pub report: ImportReport,
    /// GPUs of a node, where the series or its user says so.
    gpus_per_node: Option<u64>,
    /// The type of the GPUs it speaks of, where its user says so.
    gpu_type: Option<String>,
    /// The beginning of the names of the nodes it speaks of, where its user says so.
    nodes: Option<String>,
    file: String,
}

/// A kind of series.
pub struct Format {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// Whether a text that begins like this belongs to it.
    pub(crate) detect: fn(&str) -> bool,
    /// Reads it all.
    pub(crate) read: fn(&Document, &Supplement) -> Result<Draft, CapacityError>,
}

/// All kinds; the first that fits is used.
pub const FORMATS: &[Format] = &[own::FORMAT, spot::FORMAT, daily::FORMAT];

/// What a reader makes of a file.
pub(crate) struct Draft {
    unit: Unit,
    leaving: Leaving,
    gpus_per_node: Option<u64>,
    /// In order of time, from any start.
    points: Vec<(Time, u64)>,
    /// How long the last point lasts.
    step: Span,
    report: ImportReport,
}

/// Reads a series from the file of that name; what it does not say may be added: `spot.json?gpus=8,type=v100`.
///
/// # Errors
/// If it is no series, or a value is out of range.
pub fn load(argument: &str) -> Result<Capacity, CapacityError> {
    let (path, supplement) = supplement::split(argument)?;
    understand(&Document::open(Path::new(path))?, &supplement)
}

/// Reads a series from bytes, plain or gzip; `file` is what errors call it, and `words` what the user adds.
///
/// # Errors
/// If it is no series, or a value is out of range.
pub fn read_from(file: &str, bytes: Vec<u8>, words: &str) -> Result<Capacity, CapacityError> {
    understand(&Document::new(file, bytes)?, &Supplement::new(file, words)?)
}

/// The format of a text that begins like this, if it is a series.
pub(crate) fn recognise(head: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| (format.detect)(head))
}

fn understand(document: &Document, supplement: &Supplement) -> Result<Capacity, CapacityError> {
    let file = document.file.clone();
    let Some(format) = recognise(&document.text) else {
        if let Some(stranger) = strangers::recognise(&document.text, Asked::Capacity) {
            return Err(CapacityError::NotCapacity { file, stranger });
        }
        let first = document.text.lines().enumerate().find(|(_, line)| !line.trim().is_empty());
        let (index, line) = first.unwrap_or((0, ""));
        let known = FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ");
        return Err(CapacityError::Unknown { file, line: index + 1, start: printable(line), known });
    };
    let skip = Span::from_secs(supplement.whole("skip_s", 0, 1_000_000_000)?.unwrap_or(0));
    let gpus = supplement.whole("gpus", 1, u64::from(MAX_GPUS_PER_NODE))?;
    let leave = supplement.get("leave");
    let (gpu_type, nodes) = (supplement.get("type").map(str::to_lowercase), supplement.get("nodes"));
    let draft = (format.read)(document, supplement)?;
    supplement.finish(format.title)?;
    let leaving = match leave {
        None => draft.leaving,
        Some("down") => Leaving::Down,
        Some("drain") => Leaving::Drain,
        Some(other) => {
            return Err(supplement.value_error("leave", other, "give down or drain".to_owned()).into());
        }
    };
    let mut capacity = Capacity {
        unit: draft.unit,
        points: Vec::new(),
        ends: Time::ZERO,
        leaving,
        gpus_per_node: gpus.or(draft.gpus_per_node),
        gpu_type,
        nodes: nodes.map(str::to_owned),
        report: draft.report,
        file,
    };
    capacity.report.source = format!("{} ({})", document.file, format.name);
    capacity.report.sha256_16.clone_from(&document.sha256_16);
    capacity.settle(&draft.points, draft.step, skip)?;
    Ok(capacity)
}

impl Capacity {
    /// Puts the first point at time zero, leaves out what is skipped, and joins points that are equal.
    fn settle(&mut self, points: &[(Time, u64)], step: Span, skip: Span) -> Result<(), CapacityError> {
        let first = points.first().map_or(Time::ZERO, |(at, _)| *at);
        let last = points.last().map_or(Time::ZERO, |(at, _)| *at);
        let start = first + skip;
        self.ends = Time((last + step).since(start).0);
        if self.ends == Time::ZERO && skip > Span::ZERO {
            return Err(CapacityError::AllSkipped {
                file: self.file.clone(),
                length: (last + step).since(first),
            });
        }
        let joined = |(at, count): &(Time, u64)| (Time(at.since(start).0), *count);
        for (at, count) in points.iter().map(joined) {
            match self.points.last_mut() {
                Some((known, last)) if *known == at => *last = count,
                _ => self.points.push((at, count)),
            }
        }
        self.points.dedup_by_key(|(_, count)| *count);
        let mut assume = |what: &str| self.report.find(Done::Assumed, what, None);
        assume("the run begins with the first point of the series (later, if skip_s is given)");
        assume("after its end the last value of the series stays");
        assume("which nodes leave is not in the series; they are drawn from the seed");
        assume(match self.leaving {
            Leaving::Down => "a node that leaves goes down at once (leave=down)",
            Leaving::Drain => "a node that leaves drains: what runs there goes on (leave=drain)",
        });
        Ok(())
    }

    /// The most that there ever is.
    pub fn most(&self) -> u64 {
        self.points.iter().map(|(_, count)| *count).max().unwrap_or(0)
    }

    /// How much there is on average until the series ends.
    pub fn mean(&self) -> f64 {
        let ends = self.points.iter().skip(1).map(|(at, _)| *at).chain([self.ends]);
        let area: f64 =
            self.points.iter().zip(ends).map(|((at, n), end)| *n as f64 * end.since(*at).as_secs_f64()).sum();
        let length = self.ends.as_secs_f64();
        if length > 0.0 { area / length } else { self.most() as f64 }
    }

    /// The words for a cluster that is just large enough for the most that there ever is.
    ///
    /// # Errors
    /// If the series never has anything, or nobody says how many GPUs a node has.
    pub fn words(&self) -> Result<String, CapacityError> {
        let file = || self.file.clone();
        let Some(gpus) = self.gpus_per_node else { return Err(CapacityError::NoNodeSize { file: file() }) };
        let nodes = match self.unit {
            Unit::Nodes => self.most(),
            Unit::Gpus => self.most().div_ceil(gpus),
        };
        if nodes == 0 {
            return Err(CapacityError::Nothing { file: file() });
        }
        Ok(format!("{nodes}x{gpus}:{}", self.gpu_type.as_deref().unwrap_or(SOME_GPU)))
    }

    /// The cluster of [`Self::words`].
    ///
    /// # Errors
    /// As there, or if the name of the GPU type cannot be.
    pub fn cluster(&self) -> Result<Cluster, CapacityError> {
        let file = || self.file.clone();
        crate::cluster::parse_words(&self.words()?)
            .map_err(|source| CapacityError::Words { file: file(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(text: &str, words: &str) -> Result<Capacity, CapacityError> {
        read_from("c.csv", text.as_bytes().to_vec(), words)
    }

    const TEXT: &str = "time_s,nodes\n100,4\n200,2\n300,2\n400,0\n";

    #[test]
    fn a_series_begins_at_zero_and_has_only_changes() {
        let found = series(TEXT, "gpus=8").unwrap();
        assert_eq!(found.points, [(Time::ZERO, 4), (Time::from_secs(100), 2), (Time::from_secs(300), 0)]);
        assert_eq!((found.most(), found.ends), (4, Time::from_secs(300)));
        assert!((found.mean() - 8.0 / 3.0).abs() < 1e-9);
        assert_eq!(found.cluster().unwrap().to_string(), "4 nodes, 32 GPUs (32 gpu)");
        let later = series(TEXT, "gpus=8,skip_s=150").unwrap();
        assert_eq!(later.points, [(Time::ZERO, 2), (Time::from_secs(150), 0)]);
        assert!(matches!(series(TEXT, "skip_s=300"), Err(CapacityError::AllSkipped { .. })));
    }

    #[test]
    fn what_is_not_said_is_asked_for() {
        let told = |words| series(TEXT, words).and_then(|found| found.cluster()).unwrap_err().to_string();
        assert!(told("").contains("c.csv?gpus=8"), "{}", told(""));
        assert!(told("gpu=8").contains("did you mean `gpus`?"));
        assert!(told("leave=slowly").contains("give down or drain"));
        assert!(told("gpus=1,type=a|b").contains("`4x1:a|b` is not nodes"), "{}", told("gpus=1,type=a|b"));
    }

    #[test]
    fn what_is_no_series_is_told() {
        let told = |text| series(text, "").unwrap_err().to_string();
        assert!(told("sn,cpu_milli,memory_mib,gpu,model\na,1,1,0,\n").contains("give it as --cluster"));
        assert!(told("hello\n").contains("c.csv:1: `hello`"));
        assert!(told("").contains("c.csv:1: ``"));
    }
}
