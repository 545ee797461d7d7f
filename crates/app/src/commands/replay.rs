//! `replay`: the recorded events go to a fresh loop with the same policy, and everything must come out the same.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use trainyard_sched::control::{Batch, Core, Log, Record, Settings, Step};
use trainyard_sched::metrics::{Metrics, Summary};
use trainyard_sched::policies;

use super::{Ending, Output, print};
use crate::experiment::{Journal, Recording, RecordingError, SUMMARY};
use crate::failure::Failure;
use crate::render::summary_table;

/// How much of a differing step is shown.
const SHOWN_CHARS: usize = 600;

/// Why a recorded run does not replay.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplayError {
    /// It cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// What was recorded is not what comes out.
    #[error("{}:{line}: at {at} the replay differs from the record\n  recorded: {recorded}\n  replayed: {replayed}", .path.display())]
    Differs {
        /// The file.
        path: PathBuf,
        /// The line.
        line: u64,
        /// When.
        at: String,
        /// What was recorded.
        recorded: String,
        /// What comes out.
        replayed: String,
    },
    /// The numbers of the run do not follow from its journal.
    #[error("{}: {key} is {recorded}, the journal gives {replayed}", .path.display())]
    Numbers {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// What was recorded.
        recorded: String,
        /// What comes out.
        replayed: String,
    },
}

impl ReplayError {
    /// 1 where the replay came to another result, 2 where there is nothing to replay.
    pub(crate) const fn exit_code(&self) -> u8 {
        match self {
            Self::Differs { .. } | Self::Numbers { .. } => 1,
            Self::Recording(error) => error.exit_code(),
        }
    }
}

/// What `replay` is told.
#[derive(Args, Debug)]
pub(super) struct ReplayArguments {
    /// The folder that a run left.
    folder: PathBuf,
}

/// A replay that came out the same.
#[derive(Serialize)]
struct Replayed {
    steps: u64,
    summary: Summary,
}

/// Replays a run.
pub(super) fn perform(given: &ReplayArguments, output: Output) -> Result<Ending, Failure> {
    let mut run = Recording::open(&given.folder).map_err(ReplayError::from)?;
    let head = run.head.clone();
    let policy = policies::build(&head.policy, &head.parameters)?;
    // Not strict, so that a changed journal is a difference to be shown, and not a panic.
    let loop_settings = Settings { seed: head.seed, abilities: head.abilities, strict: false };
    let mut metrics = Metrics::new(&head.cluster);
    let mut core = Core::new(head.cluster, head.tenants, policy, loop_settings);
    let mut steps = 0;
    while let Some(record) = run.record().map_err(ReplayError::from)? {
        let Record { at, events, step: recorded } = record;
        let batch = Batch { at, events };
        let replayed = run.sound(&batch, || core.step(&batch)).map_err(ReplayError::from)?;
        if replayed != recorded {
            return Err(differs(&run.journal, &batch, &recorded, &replayed).into());
        }
        run.sound(&batch, || metrics.step(&batch, &replayed)).map_err(ReplayError::from)?;
        steps += 1;
    }
    let mut summary = metrics.summary(run.settings.ended.at_us);
    compare_numbers(&given.folder.join(SUMMARY), &mut summary)?;
    print(output, &Replayed { steps, summary }, |all: &Replayed| {
        format!("{}\nAll {} steps came out as recorded.", summary_table(&all.summary), all.steps)
    })?;
    Ok(Ending::Done)
}

/// Every number that does not depend on a clock must follow from the journal. What was measured is taken over.
fn compare_numbers(path: &Path, replayed: &mut Summary) -> Result<(), ReplayError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| RecordingError::Unreadable { path: path.to_owned(), source })?;
    let recorded: Summary = serde_json::from_str(&text).map_err(|error| RecordingError::Malformed {
        path: path.to_owned(),
        line: error.line() as u64,
        source: Box::new(error),
    })?;
    replayed.policy.clone_from(&recorded.policy);
    replayed.decide_us_p50 = recorded.decide_us_p50;
    replayed.decide_us_p99 = recorded.decide_us_p99;
    replayed.wall_s = recorded.wall_s;
    let (old, new) = (serde_json::json!(recorded), serde_json::json!(replayed));
    let pairs = old.as_object().into_iter().flatten();
    match pairs.into_iter().find(|(key, value)| new.get(key) != Some(value)) {
        None => Ok(()),
        Some((key, value)) => Err(ReplayError::Numbers {
            path: path.to_owned(),
            key: key.clone(),
            recorded: value.to_string(),
            replayed: new[key].to_string(),
        }),
    }
}

fn differs(journal: &Journal, batch: &Batch, recorded: &Step, replayed: &Step) -> ReplayError {
    let (recorded, replayed) = first_difference(recorded, replayed);
    ReplayError::Differs {
        path: journal.path.clone(),
        line: journal.line,
        at: batch.at.to_string(),
        recorded,
        replayed,
    }
}

/// The parts of two steps that differ.
fn first_difference(recorded: &Step, replayed: &Step) -> (String, String) {
    let (old, new) = (serde_json::json!(recorded), serde_json::json!(replayed));
    let keys = ["decision", "faults", "ended", "actions", "wake"];
    let key = keys.into_iter().find(|key| old.get(key) != new.get(key)).unwrap_or("decision");
    let show = |value: &serde_json::Value| {
        let text = value.get(key).map_or_else(|| "nothing".to_owned(), ToString::to_string);
        let cut: String = text.chars().take(SHOWN_CHARS).collect();
        format!("{key} {cut}{}", if cut.len() < text.len() { "..." } else { "" })
    };
    (show(&old), show(&new))
}
