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

pub use error::{TraceError, nearest};
pub use write::{WriteError, write_csv};

use crate::cluster::ClusterFile;
use crate::physics::ThroughputTable;
use crate::workload::Workload;
pub(crate) use fields::{Header, Problem, Splitter, time_s};
use import::Import;
pub(crate) use import::declare;
pub(crate) use lines::Lines;

/// The largest [`Declaring::Noisy`] spread; a declaration is then off by a factor of thousands.
pub(crate) const SPREAD_LIMIT: f64 = 10.0;

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

impl Options {
    /// Options for jobs that will run on this cluster: its GPU types and tenants are known.
    pub fn for_cluster(file: &ClusterFile) -> Self {
        let gpu_types = file.cluster.gpu_types.iter().map(|gpu_type| gpu_type.name.clone()).collect();
        Self { gpu_types, tenants: file.tenants.clone(), ..Self::default() }
    }
}

/// What jobs declare about their length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Declaring {
    /// The truth.
    #[default]
    Exact,
    /// The truth times `exp(spread * N(0, 1))`, drawn for each job by its name.
    Noisy {
        /// The standard deviation of the logarithm, up to 10.
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
        && !(0.0..=SPREAD_LIMIT).contains(&spread)
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

#[cfg(test)]
mod tests {
    use trainyard_sched::model::TenantId;

    use super::*;

    const ROWS: &str = "job_id,submit_s,duration_s,gpus,tenant,gpu_types\na,5,9,1,new,k80\nb,6,9,1,team,\n";

    #[test]
    fn tenants_and_gpu_types_keep_the_numbers_of_the_cluster() {
        let text = "[[nodes]]\ngpus = 8\ngpu_type = \"v100\"\n[[nodes]]\ngpus = 8\ngpu_type = \"k80\"\n\
            [[tenants]]\nname = \"other\"\n[[tenants]]\nname = \"team\"\nweight = 3\n";
        let file = crate::cluster::parse("c.toml", text).unwrap();
        let workload = read_from("own.csv", ROWS.as_bytes(), &Options::for_cluster(&file)).unwrap();
        let owners: Vec<TenantId> = workload.jobs.iter().map(|(job, _)| job.tenant).collect();
        assert_eq!(owners, [TenantId(2), TenantId(1)]);
        assert_eq!(workload.tenants.get(TenantId(1)).unwrap().weight.0, 3.0);
        let k80 = file.cluster.gpu_type("k80").unwrap();
        assert!(workload.jobs[0].0.wanted.gpu_types.has(k80));
        assert!(!workload.jobs[0].0.wanted.gpu_types.has(file.cluster.gpu_type("v100").unwrap()));
    }

    #[test]
    fn an_empty_window_is_an_error_that_says_so() {
        let options = Options { until: Some(Time::from_secs(5)), ..Options::default() };
        let error = read_from("own.csv", ROWS.as_bytes(), &options).unwrap_err();
        assert!(error.to_string().contains("no job arrives in the window"), "{error}");
        let options = Options { until: Some(Time::from_secs(6)), ..Options::default() };
        assert_eq!(read_from("own.csv", ROWS.as_bytes(), &options).unwrap().jobs.len(), 1);
    }

    #[test]
    fn a_format_can_be_forced_and_a_wrong_name_is_met_with_a_suggestion() {
        let with = |format: &str| {
            let options = Options { format: Some(format.to_owned()), ..Options::default() };
            read_from("own.csv", ROWS.as_bytes(), &options).map(|workload| workload.jobs.len())
        };
        assert_eq!(with("native").unwrap(), 2);
        assert!(matches!(with("tiresias"), Err(TraceError::MissingColumn { column: "num_gpu", .. })));
        assert!(with("nativ").unwrap_err().to_string().contains("did you mean `native`?"));
    }

    #[test]
    fn a_spread_that_is_no_number_is_refused() {
        for spread in [-1.0, f64::NAN, 11.0] {
            let options = Options { declared: Declaring::Noisy { spread }, ..Options::default() };
            let error = read_from("own.csv", ROWS.as_bytes(), &options).unwrap_err();
            assert!(matches!(error, TraceError::BadSpread { .. }));
        }
    }

    #[test]
    fn what_begins_no_format_is_shown() {
        let error = read_from("own.csv", &b"hello\n"[..], &Options::default()).unwrap_err();
        let told = error.to_string();
        assert!(
            told.starts_with("own.csv:1: `hello` begins no known trace format") && told.contains("gavel")
        );
    }
}
