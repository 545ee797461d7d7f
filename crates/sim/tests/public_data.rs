//! Every file of the public data, where they are at hand: each is read as what it is, with a sane report, or refused
//! for a reason that names what it is. The files are found by walking the folder, so a new one is tried by itself;
//! one that nobody recognises fails the test.

mod shared_data;
#[path = "shared_data/walk.rs"]
mod walk;

use std::fmt::Write as _;
use std::path::Path;

use shared_data::public;
use trainyard_sched::model::Time;
use trainyard_sim::capacity::{self, Capacity, CapacityError};
use trainyard_sim::cluster::{self, ClusterFile, ClusterFileError};
use trainyard_sim::trace::{Options, TraceError, read};
use trainyard_sim::workload::{Done, ImportReport, Workload};
use trainyard_sim::{Stranger, SupplementError};
use walk::files;

/// More dropped rows than this need a reason that is known to hit so many.
const MOST_DROPPED: f64 = 0.1;
/// Reasons for which any share of rows may be dropped.
const EXPLAINED: &[&str] = &[
    // Gavel's Philly traces draw job types at random, and its own table has not all of them on several GPUs.
    "the table of throughputs has no row for the job type on so many GPUs",
    // Pods without a scheduled time are 11 to 15 percent of Alibaba's lists of 2023.
    "the pod never ran, so nobody knows for how long it would have",
    // Tiresias's smallest file has two equal rows.
    "the row repeats an earlier one word for word",
];

/// Descriptions of data, which are no data: by what they are called, wherever they are.
fn is_document(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_string_lossy();
    name == "README.md" || name == "MANIFEST.csv" || name.ends_with(".header")
}

/// What became of one file.
struct Line {
    kind: &'static str,
    format: String,
    count: String,
    dropped: u64,
    told: String,
}

/// Reads a file as everything it might be. The error says what is wrong with the readers, not with the file.
fn judge(path: &Path) -> Result<Line, String> {
    let argument = path.to_string_lossy();
    let jobs = read(path, &Options::default());
    let machines = cluster::load(&argument);
    let series = capacity::load(&argument);
    match (jobs, machines, series) {
        (Ok(jobs), Err(machines), Err(series)) => {
            is_sent(&strangers_name(&machines)?, "--trace")?;
            is_sent(&series_name(&series)?, "--trace")?;
            of_jobs(&jobs)
        }
        (Err(jobs), Ok(machines), Err(series)) => {
            is_sent(&jobs_name(&jobs)?, "--cluster")?;
            is_sent(&series_name(&series)?, "--cluster")?;
            of_machines(&machines)
        }
        (Err(jobs), Err(machines), Ok(series)) => {
            is_sent(&jobs_name(&jobs)?, "--capacity")?;
            is_sent(&strangers_name(&machines)?, "--capacity")?;
            of_series(&series)
        }
        (Err(jobs), Err(ClusterFileError::Supplement(missing)), Err(series)) => {
            is_sent(&jobs_name(&jobs)?, "--cluster")?;
            is_sent(&series_name(&series)?, "--cluster")?;
            with_supplement(&argument, &missing)
        }
        (Err(jobs), Err(machines), Err(series)) => {
            let stranger = jobs_name(&jobs)?;
            let (machines, series) = (strangers_name(&machines)?, series_name(&series)?);
            if machines != stranger || series != stranger {
                return Err(format!("one file is called {stranger}, {machines} and {series}"));
            }
            let told = format!("{}; {}", stranger.why, stranger.instead);
            Ok(Line { kind: "refused", format: stranger.what, count: "-".to_owned(), dropped: 0, told })
        }
        (jobs, machines, series) => Err(format!(
            "it is read as several things: jobs {}, cluster {}, capacity {}",
            jobs.is_ok(),
            machines.is_ok(),
            series.is_ok()
        )),
    }
}

fn jobs_name(error: &TraceError) -> Result<Stranger, String> {
    match error {
        TraceError::NotJobs { stranger, .. } => Ok(stranger.clone()),
        other => Err(format!("as jobs: {other}")),
    }
}

fn strangers_name(error: &ClusterFileError) -> Result<Stranger, String> {
    match error {
        ClusterFileError::NotCluster { stranger, .. } => Ok(stranger.clone()),
        other => Err(format!("as a cluster: {other}")),
    }
}

fn series_name(error: &CapacityError) -> Result<Stranger, String> {
    match error {
        CapacityError::NotCapacity { stranger, .. } => Ok(stranger.clone()),
        other => Err(format!("as capacity: {other}")),
    }
}

/// A file that is one thing and was given as another must be told where it belongs.
fn is_sent(stranger: &Stranger, argument: &str) -> Result<(), String> {
    let is_right = stranger.instead.contains(argument);
    if is_right { Ok(()) } else { Err(format!("it belongs to {argument}, but was told: {stranger}")) }
}

/// The error tells what to add; with that, the file must be read.
fn with_supplement(argument: &str, missing: &SupplementError) -> Result<Line, String> {
    let SupplementError::Missing { what, example, .. } = missing else { return Err(missing.to_string()) };
    let told = cluster::load(&format!("{argument}?{example}")).map_err(|error| error.to_string())?;
    let line = of_machines(&told)?;
    Ok(Line { told: format!("with ?{example}, since it does not say {what}"), ..line })
}

fn count(report: &ImportReport, done: Done) -> u64 {
    report.findings.iter().filter(|finding| finding.done == done).map(|finding| finding.count).sum()
}

/// What every report must keep: rows add up, and everything that was left out has a reason and a place.
fn is_sane(report: &ImportReport) -> Result<u64, String> {
    let dropped = count(report, Done::Dropped);
    // Rows that are no jobs of their own (the steps of a job, say) are passed over, counted and noted.
    let passed = report.rows.checked_sub(report.kept + dropped);
    if report.kept == 0 || passed.is_none_or(|passed| passed > count(report, Done::Noted)) {
        return Err(format!("{} rows, but {} kept and {dropped} dropped", report.rows, report.kept));
    }
    if report.sha256_16.len() != 16 {
        return Err("the report has no digest".to_owned());
    }
    for finding in report.findings.iter().filter(|finding| finding.done == Done::Dropped) {
        if finding.examples.is_empty() || finding.what.len() < 5 {
            return Err(format!("rows are dropped without a place: {finding:?}"));
        }
        let is_explained = EXPLAINED.iter().any(|part| finding.what.contains(part));
        if finding.count as f64 > report.rows as f64 * MOST_DROPPED && !is_explained {
            return Err(format!("{} of {} rows are dropped: {finding:?}", finding.count, report.rows));
        }
    }
    Ok(dropped)
}

fn findings(report: &ImportReport) -> String {
    let mut text = String::new();
    for finding in report.findings.iter().filter(|finding| finding.done != Done::Noted) {
        let _ = write!(text, "{}x {:?} {}; ", finding.count, finding.done, finding.what);
    }
    text.chars().take(100).collect()
}

fn format_of(report: &ImportReport) -> String {
    report.source.rsplit_once('(').map_or("?", |(_, rest)| rest.trim_end_matches(')')).to_owned()
}

fn of_jobs(workload: &Workload) -> Result<Line, String> {
    let report = &workload.report;
    let dropped = is_sane(report)?;
    let jobs = &workload.jobs;
    if jobs.len() as u64 != report.kept || !jobs.is_sorted_by_key(|(job, _)| job.submitted) {
        return Err("the jobs are not those of the report, or not in order".to_owned());
    }
    for (job, truth) in jobs {
        if !(truth.iterations > 0.0 && truth.iterations.is_finite()) || job.shape.minimum().is_none() {
            return Err(format!("job {} has no length or asks for nothing", job.name));
        }
    }
    let last = jobs.last().map_or(Time::ZERO, |(job, _)| job.submitted);
    if last >= Time::from_secs(100 * 365 * 86_400) {
        return Err(format!("the last job arrives at {last}: times are not counted from the first"));
    }
    Ok(Line {
        kind: "jobs",
        format: format_of(report),
        count: format!("{} jobs", jobs.len()),
        dropped,
        told: findings(report),
    })
}

fn of_machines(file: &ClusterFile) -> Result<Line, String> {
    let dropped = is_sane(&file.report)?;
    file.cluster.validate().map_err(|error| error.to_string())?;
    if file.cluster.gpu_count() == 0 {
        return Err("the cluster has no GPUs".to_owned());
    }
    let count = format!("{} nodes, {} GPUs", file.cluster.nodes.len(), file.cluster.gpu_count());
    let format = format_of(&file.report);
    Ok(Line { kind: "cluster", format, count, dropped, told: findings(&file.report) })
}

fn of_series(series: &Capacity) -> Result<Line, String> {
    let dropped = is_sane(&series.report)?;
    let least = series.points.iter().map(|(_, n)| *n).min().unwrap_or(0);
    if !(least as f64..=series.most() as f64).contains(&series.mean()) || series.ends == Time::ZERO {
        return Err(format!("{least} to {} with a mean of {}", series.most(), series.mean()));
    }
    let count =
        format!("{} to {} {:?}, {} changes", least, series.most(), series.unit, series.points.len() - 1);
    let format = format_of(&series.report);
    Ok(Line { kind: "capacity", format, count, dropped, told: findings(&series.report) })
}

#[test]
fn every_public_file_is_read_or_refused_for_a_reason() {
    let Some(folder) = public("") else { return };
    let files = files(&folder, "");
    assert!(files.len() > 100, "the folder is where this test looks");
    let (mut read, mut unknown) = (0, Vec::new());
    for path in &files {
        let name = path.strip_prefix(&folder).unwrap().display().to_string();
        if is_document(path) {
            println!("{name}: a document");
            continue;
        }
        match judge(path) {
            Ok(Line { kind, format, count, dropped, told }) => {
                read += usize::from(kind != "refused");
                println!("{name}: {kind}, {format}: {count}, {dropped} dropped; {told}");
            }
            Err(error) => unknown.push(format!("{name}: {error}")),
        }
    }
    assert!(unknown.is_empty(), "{} files:\n{}", unknown.len(), unknown.join("\n"));
    assert!(read > 50, "most job lists are read");
}

#[test]
fn a_file_that_nobody_knows_fails() {
    let folder = tempfile::tempdir().unwrap();
    let judged = |text: &str| {
        let path = folder.path().join("new.csv");
        std::fs::write(&path, text).unwrap();
        judge(&path)
    };
    assert!(judged("hello,world\n1,2\n").is_err_and(|told| told.contains("begins no known")));
    // Nine of ten rows are broken.
    let broken = format!("job_id,submit_s,duration_s,gpus\na,0,1,1\n{}", "b,x,1,1\n".repeat(9));
    assert!(judged(&broken).is_err_and(|told| told.contains("9 of 10 rows are dropped")));
    assert!(judged("job_id,submit_s,duration_s,gpus\na,0,1,1\n").is_ok_and(|line| line.kind == "jobs"));
}
