//! The folder of a run, but for its journal. `docs/run-folder.md` describes every file.

use std::path::Path;

use serde::Serialize;
use trainyard_sched::control::Outcome as Ending;
use trainyard_sched::metrics::{JobRow, Metrics};
use trainyard_sched::model::Time;

use super::{JOBS, RUN_FILE};
use crate::config::{Inputs, RunFile};
use crate::failure::Failure;

/// The columns of `jobs.csv`.
const COLUMNS: [&str; 19] = [
    "job",
    "name",
    "tenant",
    "gpus",
    "submitted_s",
    "started_s",
    "ended_s",
    "outcome",
    "jct_s",
    "wait_s",
    "held_s",
    "trained_s",
    "gpu_s",
    "lost_gpu_s",
    "preemptions",
    "migrations",
    "failures",
    "ftf",
    "waits",
];

/// Further columns, where jobs reported losses: seconds from arrival until so much of the loss reduction was done.
const QUALITY_COLUMNS: [(&str, f64); 3] = [("to_90_s", 0.1), ("to_95_s", 0.05), ("to_99_s", 0.01)];

/// Further columns, where jobs were cut short: by which kind of rule, and what that spared.
const EARLY_COLUMNS: [&str; 2] = ["cut_short", "saved_gpu_s"];

/// Makes the folder, if it is not there. Called before the work, so that nothing is done in vain.
pub(crate) fn make_folder(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(Failure::file("make the folder", folder))
}

/// Writes a text file.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(Failure::file("write", path))
}

/// Writes a file of bytes.
#[cfg(feature = "learn")]
pub(crate) fn write_bytes(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(Failure::file("write", path))
}

/// Writes a value as indented JSON.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(std::io::Error::from);
    write_text(path, &(text.map_err(Failure::file("write", path))? + "\n"))
}

/// Writes `run.toml`.
pub(super) fn write_run_file(folder: &Path, run_file: &RunFile) -> Result<(), Failure> {
    let path = folder.join(RUN_FILE);
    let text = toml::to_string(run_file).map_err(std::io::Error::other);
    write_text(&path, &text.map_err(Failure::file("write", &path))?)
}

/// Writes `jobs.csv`.
pub(super) fn write_jobs(folder: &Path, inputs: &Inputs, metrics: &Metrics) -> Result<(), Failure> {
    let path = folder.join(JOBS);
    let write = || -> Result<(), csv::Error> {
        let mut writer = csv::Writer::from_path(&path)?;
        let learns = metrics.quality.jobs().next().is_some();
        let further = if learns { &QUALITY_COLUMNS[..] } else { &[] };
        let early = metrics.rows().any(|row| row.early.is_some());
        let of_early = if early { &EARLY_COLUMNS[..] } else { &[] };
        let names = COLUMNS.into_iter().chain(further.iter().map(|column| column.0));
        writer.write_record(names.chain(of_early.iter().copied()))?;
        for row in metrics.rows() {
            let tenant = inputs.tenants.get(row.tenant).map_or("", |tenant| &*tenant.name);
            let job = metrics.quality.job(row.id);
            let seconds = |part: f64| job.and_then(|job| job.seconds_to(part));
            let text = |part: f64| seconds(part).map_or_else(String::new, |seconds| seconds.to_string());
            let reached = further.iter().map(|column| text(column.1));
            let ends = row.early.map(|early| [early.why.kind().to_owned(), early.saved_gpu_s.to_string()]);
            let ends = ends.unwrap_or_default().into_iter().take(of_early.len());
            writer.write_record(fields(row, tenant).into_iter().chain(reached).chain(ends))?;
        }
        writer.flush()?;
        Ok(())
    };
    write().map_err(|error| Failure::file("write", &path)(error.into()))
}

fn fields(row: &JobRow, tenant: &str) -> [String; COLUMNS.len()] {
    let time = |time: Option<Time>| time.map_or_else(String::new, |time| time.as_secs_f64().to_string());
    let ended = |value: f64| if row.ended.is_some() { value.to_string() } else { String::new() };
    [
        row.id.0.to_string(),
        row.name.clone(),
        tenant.to_owned(),
        row.gpus.to_string(),
        time(Some(row.submitted)),
        time(row.started),
        time(row.ended),
        if row.is_impossible() { "impossible" } else { outcome(row.outcome) }.to_owned(),
        ended(row.jct_s()),
        ended(row.wait_s()),
        row.held_s.to_string(),
        row.trained_s.to_string(),
        row.gpu_s.to_string(),
        row.lost_gpu_s.to_string(),
        row.preemptions.to_string(),
        row.migrations.to_string(),
        row.failures.to_string(),
        row.ftf.map_or_else(String::new, |ftf| ftf.to_string()),
        row.waits.filter(|_| row.ended.is_none()).map_or("", |reason| reason.kind()).to_owned(),
    ]
}

const fn outcome(outcome: Option<Ending>) -> &'static str {
    match outcome {
        None => "unfinished",
        Some(Ending::Completed) => "completed",
        Some(Ending::Failed) => "failed",
        Some(Ending::Killed) => "killed",
        Some(Ending::Censored) => "censored",
        Some(Ending::StopRuleMet) => "stop_rule_met",
        Some(Ending::Withdrawn) => "withdrawn",
        Some(Ending::Rejected) => "rejected",
    }
}
