//! Traces: the table of formats and the one way in. What a format's columns mean stands beside its reader; what
//! happens to rows of any format is in `import`. Formats are recognised by content, never by a file's name.

mod error;
mod fields;
mod gavel;
mod import;
mod lines;
mod native;
mod sia_philly;
mod sia_workload;
mod tiresias;
mod write;

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use trainyard_sched::model::{MoveCost, Seed, Tenants, Time};

pub use error::TraceError;
pub use write::{WriteError, write_csv};

use crate::physics::ThroughputTable;
use crate::workload::Workload;
pub(crate) use error::nearest;
pub(crate) use fields::{Header, Problem, Splitter, time_s};
use import::Import;
pub(crate) use import::declare;
pub(crate) use lines::Lines;

/// How a trace is to be read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Seeds the noise of [`Declaring::Noisy`].
    pub seed: Seed,
    /// What jobs declare about their length.
    pub declared: Declaring,
    /// What moving costs a job whose row does not say.
    pub move_cost: MoveCost,
    /// Jobs that arrive earlier are left out, and this moment becomes time zero.
    pub from: Time,
    /// Jobs that arrive at this moment of the trace or later are left out.
    pub until: Option<Time>,
    /// At most so many jobs are kept, the earliest first.
    pub jobs: Option<usize>,
    /// The GPU types of the cluster in the order of their ids. While empty, types are numbered as they appear.
    pub gpu_types: Vec<Arc<str>>,
    /// Tenants that are known before, usually the cluster's; those that only the trace names are added.
    pub tenants: Tenants,
    /// The throughputs that Gavel's job types refer to; `None` means Gavel's own.
    pub throughputs: Option<Arc<ThroughputTable>>,
    /// The name of the format, where it should not be recognised by content.
    pub format: Option<String>,
}

/// What jobs declare about their length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Declaring {
    /// The truth.
    #[default]
    Exact,
    /// The truth times `exp(spread * N(0, 1))`, drawn for each job by its name.
    Noisy {
        /// The standard deviation of the logarithm.
        spread: f64,
    },
    /// Nothing.
    Absent,
}

/// A trace format.
pub struct Format {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// Its columns.
    pub columns: &'static [Column],
    /// Whether the first line with text belongs to it.
    detect: fn(&str) -> bool,
    /// Reads all rows.
    read: fn(&mut Lines<'_>, &mut Import<'_>) -> Result<(), TraceError>,
}

/// A column of a format.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name in the header, or its key.
    pub name: &'static str,
    /// What it means, with its unit and default.
    pub meaning: &'static str,
}

/// All formats; the first whose header fits is used.
pub const FORMATS: &[Format] =
    &[native::CSV, native::JSON, sia_philly::FORMAT, sia_workload::FORMAT, tiresias::FORMAT, gavel::FORMAT];

/// Reads a trace from a file, plain or gzip.
pub fn read(path: &Path, options: &Options) -> Result<Workload, TraceError> {
    read_lines(Lines::open(path)?, options)
}

/// Reads a trace from anything; `file` is what errors and findings call it.
pub fn read_from(file: &str, source: impl Read, options: &Options) -> Result<Workload, TraceError> {
    read_lines(Lines::new(file, source)?, options)
}

fn read_lines(mut lines: Lines<'_>, options: &Options) -> Result<Workload, TraceError> {
    if let Declaring::Noisy { spread } = options.declared
        && !(spread.is_finite() && spread >= 0.0)
    {
        return Err(TraceError::BadSpread { spread });
    }
    let format = choose(&mut lines, options)?;
    let mut import = Import::new(lines.file(), format.name, options);
    (format.read)(&mut lines, &mut import)?;
    import.report.sha256_16 = lines.sha256_16();
    import.finish(format.name)
}

/// The format that was asked for, or the first that the first line fits.
fn choose(lines: &mut Lines<'_>, options: &Options) -> Result<&'static Format, TraceError> {
    if let Some(name) = &options.format {
        return FORMATS.iter().find(|format| format.name == name).ok_or_else(|| TraceError::NoSuchFormat {
            name: name.clone(),
            hint: nearest(name, FORMATS.iter().map(|format| format.name)),
        });
    }
    let file = lines.file().to_owned();
    let Some(head) = lines.peek()? else { return Err(TraceError::Empty { file }) };
    let Ok(text) = head.text() else {
        return Err(TraceError::HeaderNotText { file, line: head.number });
    };
    FORMATS.iter().find(|format| (format.detect)(text)).ok_or_else(|| TraceError::UnknownFormat {
        file,
        line: head.number,
        start: text.chars().take(60).collect(),
        known: FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", "),
    })
}

/// The names in a comma-separated header.
fn header_names(head: &str) -> impl Iterator<Item = String> {
    head.split(',').map(|name| name.trim().trim_matches('"').trim().to_owned())
}

/// Whether a comma-separated header has all these columns.
fn header_has(head: &str, columns: &[&str]) -> bool {
    let found: Vec<String> = header_names(head).collect();
    columns.iter().all(|column| found.iter().any(|name| name == column))
}
