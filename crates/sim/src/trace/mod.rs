//! Traces: the table of formats and the one way in. What a format's columns mean stands beside its reader; what
//! happens to rows of any format is in `import`. Formats are recognised by content, never by a file's name.

mod acme;
mod alibaba;
mod bounds;
mod chronus;
mod duplicates;
mod elasticflow;
mod elements;
mod error;
mod fields;
mod gavel;
mod gavel_result;
mod helios;
mod import;
mod kubernetes;
mod lines;
mod logged;
mod muri;
mod names;
mod native;
mod open;
mod options;
mod philly;
mod rows;
mod rubick;
mod sacct;
mod shockwave;
mod sia_philly;
mod sia_workload;
mod swf;
mod tiresias;
mod tiresias_result;
mod wall;
mod write;

use std::io::Read;
use std::path::Path;

use trainyard_sched::model::PriorityClass;

pub use error::{TraceError, nearest};
pub use native::graph_text;
pub use options::{Declaring, OnDuplicate, Options, Preset, Repairs};
pub use write::{Unwritten, WriteError, write_csv};

use crate::strangers::{self, Asked};
use crate::workload::Workload;
pub(crate) use error::{LONGEST_LIST, shortened};
pub(crate) use fields::{Header, Problem, Splitter, number, time_s};
use import::Import;
pub(crate) use import::declare;
pub(crate) use lines::{Head, Lines};
pub(crate) use open::unpacked;
use open::{Bytes, HEAD_BYTES, Wish, with_file, with_stream};

/// The largest [`Declaring::Noisy`] spread; a declaration is then off by a factor of thousands.
pub(crate) const SPREAD_LIMIT: f64 = 10.0;

/// A trace format.
pub struct Format {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// Its columns.
    pub columns: &'static [Column],
    /// Whether a file that begins like this belongs to it.
    detect: fn(&Head<'_>) -> bool,
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

/// All formats; the first that the beginning of a file fits is used.
pub const FORMATS: &[Format] = &[
    native::CSV,
    kubernetes::FORMAT,
    native::JSON,
    philly::FORMAT,
    helios::FORMAT,
    acme::FORMAT,
    sacct::FORMAT,
    sia_philly::FORMAT,
    sia_workload::FORMAT,
    tiresias::FORMAT,
    muri::FORMAT,
    chronus::FORMAT,
    elasticflow::FORMAT,
    rubick::FORMAT,
    tiresias_result::FORMAT,
    gavel_result::FORMAT,
    alibaba::TASKS,
    alibaba::PODS,
    alibaba::INSTANCES,
    alibaba::SPOT,
    swf::FORMAT,
    gavel::FORMAT,
    shockwave::FORMAT,
];

/// The class of a job that takes what others leave, in formats that tell such jobs from those with a guarantee.
const BEST_EFFORT: PriorityClass = PriorityClass(-1);

/// Reads a trace from a file, plain or packed: gzip, zstd, or a member of a tar or zip archive.
pub fn read(path: &Path, options: &Options) -> Result<Workload, TraceError> {
    let forced = forced(options)?;
    let is_known = |head: &[u8]| knows(head, forced);
    let wish = Wish { member: options.member.as_deref(), is_known: &is_known };
    with_file(path, &wish, |name, bytes| read_with_curves(name, bytes, forced, options))
}

/// Reads a trace from anything but a zip archive; `file` is what errors and findings call it.
pub fn read_from(file: &str, source: impl Read, options: &Options) -> Result<Workload, TraceError> {
    let forced = forced(options)?;
    let is_known = |head: &[u8]| knows(head, forced);
    let wish = Wish { member: options.member.as_deref(), is_known: &is_known };
    with_stream(file, source, &wish, |name, bytes| read_with_curves(name, bytes, forced, options))
}

/// What was done to recorded losses belongs to the report of the jobs that name them.
fn read_with_curves(
    name: &str,
    bytes: Bytes<'_>,
    forced: Option<&'static Format>,
    options: &Options,
) -> Result<Workload, TraceError> {
    let mut workload = read_bytes(name, bytes, forced, options)?;
    if let Some(curves) = &options.curves {
        workload.report.include(&curves.report);
    }
    Ok(workload)
}

fn read_bytes(
    name: &str,
    bytes: Bytes<'_>,
    forced: Option<&'static Format>,
    options: &Options,
) -> Result<Workload, TraceError> {
    if let Declaring::Noisy { spread } = options.declared
        && !(0.0..=SPREAD_LIMIT).contains(&spread)
    {
        return Err(TraceError::BadSpread { spread });
    }
    let mut lines = Lines::new(name, bytes);
    let format = match forced {
        Some(format) => format,
        None => recognised(&mut lines)?,
    };
    let mut import = Import::new(lines.file(), format.name, options)?;
    (format.read)(&mut lines, &mut import)?;
    lines.drain()?;
    import.report.sha256_16 = lines.sha256_16();
    import.finish(format.name)
}

/// The format that was asked for.
fn forced(options: &Options) -> Result<Option<&'static Format>, TraceError> {
    let Some(name) = &options.format else { return Ok(None) };
    let found = FORMATS.iter().find(|format| format.name == name);
    found.map(Some).ok_or_else(|| TraceError::NoSuchFormat {
        name: name.clone(),
        hint: nearest(name, FORMATS.iter().map(|format| format.name)),
    })
}

/// Whether a file that begins like this holds jobs, in the format that was asked for or in any.
fn knows(head: &[u8], forced: Option<&Format>) -> bool {
    let Ok(Some(head)) = Head::of(head) else { return false };
    match forced {
        Some(format) => (format.detect)(&head),
        None => FORMATS.iter().any(|format| (format.detect)(&head)),
    }
}

/// The first format that the beginning of the file fits.
fn recognised(lines: &mut Lines<'_>) -> Result<&'static Format, TraceError> {
    let file = lines.file().to_owned();
    let head = match Head::of(lines.head()) {
        Ok(Some(head)) => head,
        Err(line) => {
            return Err(match strangers::binary(lines.head()) {
                Some(what) => TraceError::Binary { file, what },
                None => TraceError::HeaderNotText { file, line },
            });
        }
        Ok(None) => {
            // Nothing but blanks, or a fault before anything else.
            lines.drain()?;
            return Err(TraceError::Empty { file });
        }
    };
    let found = FORMATS.iter().find(|format| (format.detect)(&head));
    // Any JSON object may be meant as a job of ours, so that what is known to be something else comes first.
    let is_sure = found.is_some() && !head.line.starts_with('{');
    if !is_sure && let Some(stranger) = strangers::recognise(head.text, Asked::Jobs) {
        return Err(TraceError::NotJobs { file, stranger });
    }
    if let Some(format) = found {
        return Ok(format);
    }
    let (line, start) = (head.number, shortened(head.line, 60));
    if lines.head().len() < HEAD_BYTES {
        // A fault in a packed file may be why the beginning says nothing.
        lines.drain()?;
    }
    let known = FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ");
    Err(TraceError::UnknownFormat { file, line, start, known })
}

/// The format of a text that begins like this, if it is a list of jobs.
pub(crate) fn recognise(text: &str) -> Option<&'static Format> {
    let head = Head::of(text.as_bytes()).ok()??;
    FORMATS.iter().find(|format| (format.detect)(&head))
}

/// The names in a comma-separated header.
fn header_names(head: &str) -> impl Iterator<Item = String> {
    head.split(',').map(|name| name.trim().trim_matches('"').trim().to_owned())
}

/// Whether a comma-separated header has all these columns.
pub(crate) fn header_has(head: &str, columns: &[&str]) -> bool {
    let found: Vec<String> = header_names(head).collect();
    columns.iter().all(|column| found.iter().any(|name| name == column))
}

/// The places of all dropped rows in the order of their lines, for tests of readers.
#[cfg(test)]
fn dropped_places(workload: &Workload) -> Vec<&str> {
    let line = |place: &&str| place.split(':').nth(1).and_then(|line| line.parse::<u64>().ok());
    let dropped = workload.report.findings.iter().filter(|f| f.done == crate::workload::Done::Dropped);
    let mut places: Vec<&str> = dropped.flat_map(|f| &f.examples).map(String::as_str).collect();
    places.sort_by_key(line);
    places
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::{TenantId, Time};

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
