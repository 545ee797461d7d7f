//! One policy on given inputs: simulate, measure, and leave a folder. Several policies are several experiments.

mod curve;
mod folder;
mod histogram;
mod journal;
mod measure;
mod recording;
mod replicates;
mod stopwatch;
pub(crate) mod sweep;
mod trial;
pub(crate) mod whatif;

use std::path::Path;
use std::time::Instant;

use trainyard_sched::control::{Batch, Head, JOURNAL_VERSION, Log, Step};
use trainyard_sched::decide::Abilities;
use trainyard_sched::metrics::{Details, Metrics, Summary};
use trainyard_sim::simulate::simulate;

use crate::config::{Ended, Inputs, PolicyChoice, RunFile};
use crate::failure::Failure;
pub(crate) use curve::{Caution, CurveAnswer, Fitted, Reach, TargetAnswer, fit_curve, looked_at};
#[cfg(feature = "learn")]
pub(crate) use folder::write_bytes;
pub(crate) use folder::{make_folder, write_json, write_text};
use journal::JournalFile;
pub(crate) use measure::measure;
pub(crate) use recording::{Journal, Recording, RecordingError, Sense, sound};
pub(crate) use replicates::{pool, side_by_side};
pub(crate) use stopwatch::Stopwatch;
pub(crate) use trial::{Closer, Trial};

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
    /// What a report shows beyond that, if it was asked for.
    pub(crate) details: Option<Details>,
}

/// What shall be left of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leave<'a> {
    /// The folder.
    pub(crate) folder: &'a Path,
    /// Whether every step is written down.
    pub(crate) journal: bool,
    /// Whether what a report shows beyond the summary is folded too.
    pub(crate) details: bool,
}

/// What follows a run besides its metrics.
struct Followers {
    journal: Option<JournalFile>,
    details: Option<Details>,
}

impl Log for Followers {
    fn step(&mut self, batch: &Batch, step: &Step) {
        if let Some(journal) = &mut self.journal {
            journal.step(batch, step);
        }
        if let Some(details) = &mut self.details {
            details.step(batch, step);
        }
    }
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
    make_folder(leave.folder)?;
    let journal = leave.journal.then(|| JournalFile::create(leave.folder, &head)).transpose()?;
    let details = leave.details.then(|| Details::new(&inputs.cluster, &inputs.tenants));
    let mut followers = Followers { journal, details };
    let finished = simulate(setup, timed, &mut followers, progress)
        .map_err(|source| Failure::Setup { policy: policy.label(), source })?;
    let Followers { journal, mut details } = followers;
    if let Some(journal) = journal {
        journal.finish()?;
    }
    if let Some(details) = &mut details {
        details.finish(finished.ended);
    }
    let mut summary = finished.metrics.summary(finished.ended);
    summary.policy = policy.label();
    let ended = Ended { at_us: finished.ended, cut_off: finished.cut_off };
    folder::write_jobs(leave.folder, inputs, &finished.metrics)?;
    folder::write_run_file(leave.folder, &RunFile::new(inputs, policy, ended))?;
    (summary.decide_us_p50, summary.decide_us_p99) = times.percentiles_us();
    summary.wall_s = Some(began.elapsed().as_secs_f64());
    folder::write_json(&leave.folder.join(SUMMARY), &summary)?;
    Ok(Outcome { summary, metrics: finished.metrics, details })
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
