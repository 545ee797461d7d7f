//! One policy on given inputs: simulate, measure, and leave a folder. Several policies are several experiments.

mod folder;
mod histogram;
mod journal;
mod recording;
mod stopwatch;
mod trial;

use std::path::Path;
use std::time::Instant;

use trainyard_sched::control::{Head, JOURNAL_VERSION, Log, Nothing};
use trainyard_sched::decide::Abilities;
use trainyard_sched::metrics::{Metrics, Summary};
use trainyard_sim::simulate::simulate;

use crate::config::{Ended, Inputs, PolicyChoice, RunFile};
use crate::failure::Failure;
pub(crate) use folder::{write_json, write_text};
use journal::JournalFile;
pub(crate) use recording::{Journal, Quiet, Recording, RecordingError};
use stopwatch::Stopwatch;
pub(crate) use trial::Trial;

/// The name of the journal in a folder.
pub(crate) const JOURNAL: &str = "journal.jsonl";
/// The name of the settings in a folder.
pub(crate) const RUN_FILE: &str = "run.toml";
/// The name of the numbers in a folder.
pub(crate) const SUMMARY: &str = "summary.json";
/// The name of the table of jobs in a folder.
pub(crate) const JOBS: &str = "jobs.csv";

/// What one run amounts to.
pub(crate) struct Outcome {
    /// Its numbers, with what was measured.
    pub(crate) summary: Summary,
    /// All that was folded.
    pub(crate) metrics: Metrics,
}

/// What shall be left of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leave<'a> {
    /// The folder.
    pub(crate) folder: &'a Path,
    /// Whether every step is written down.
    pub(crate) journal: bool,
}

/// Runs one policy and leaves its folder.
pub(crate) fn perform(
    inputs: &Inputs,
    policy: &PolicyChoice,
    leave: Leave<'_>,
    progress: impl FnMut(usize, usize),
) -> Result<Outcome, Failure> {
    let began = Instant::now();
    let (timed, times) = Stopwatch::around(policy.build()?);
    let setup = inputs.setup();
    let head = head(inputs, policy);
    folder::prepare(leave.folder)?;
    let mut journal = leave.journal.then(|| JournalFile::create(leave.folder, &head)).transpose()?;
    let mut nothing = Nothing;
    let log: &mut dyn Log = match &mut journal {
        Some(journal) => journal,
        None => &mut nothing,
    };
    let finished = simulate(setup, timed, log, progress)
        .map_err(|source| Failure::Setup { policy: policy.label(), source })?;
    if let Some(journal) = journal {
        journal.finish()?;
    }
    let mut summary = finished.metrics.summary(finished.ended);
    summary.policy = policy.label();
    let ended = Ended { at_us: finished.ended, cut_off: finished.cut_off };
    folder::write_jobs(leave.folder, inputs, &finished.metrics)?;
    folder::write_run_file(leave.folder, &RunFile::new(inputs, policy, ended))?;
    (summary.decide_us_p50, summary.decide_us_p99) = times.percentiles_us();
    summary.wall_s = Some(began.elapsed().as_secs_f64());
    folder::write_json(&leave.folder.join(SUMMARY), &summary)?;
    Ok(Outcome { summary, metrics: finished.metrics })
}

fn head(inputs: &Inputs, policy: &PolicyChoice) -> Head {
    Head {
        version: JOURNAL_VERSION,
        seed: inputs.seed,
        policy: policy.name().to_owned(),
        parameters: policy.parameters(),
        abilities: Abilities::ALL,
        cluster: inputs.cluster.clone(),
        tenants: inputs.tenants.clone(),
    }
}
