//! `replay`: the recorded events go to a fresh loop with the same policy, and everything must come out the same. Or, with
//! `--live-journal`, a real run is simulated from what its journal shows of jobs and machines, and the two are compared.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use trainyard_sched::control::{Batch, Core, Log, Record, Settings, Step};
use trainyard_sched::metrics::{Metrics, Summary};
use trainyard_sched::model::Time;
use trainyard_sched::policies;

use super::{Ending, Output, print, say};
use crate::config::parse_policies;
use crate::experiment::{
    Journal, Recording, RecordingError, SUMMARY, make_folder, sound, write_json, write_text,
};
use crate::failure::Failure;
use crate::fidelity::{self, FidelityError, LiveJournal, fidelity, maker};
use crate::render::{fidelity_page, fidelity_text, summary_table};

/// The answer in a file.
const FIDELITY: &str = "fidelity.json";
/// The page for people.
const REPORT: &str = "report.html";

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
    /// The folder that a run left, or that a daemon keeps: all that was decided is decided again from what happened.
    #[arg(required_unless_present = "live_journal", conflicts_with = "live_journal")]
    folder: Option<PathBuf>,
    /// The folder that a daemon keeps: its jobs are simulated from what was measured of them, and the simulated run is
    /// compared with the real one.
    #[arg(long, value_name = "DIR")]
    live_journal: Option<PathBuf>,
    /// Other policies, to see what they would have made of the same jobs; such as srtf,fair.
    #[arg(long, value_name = "LIST", requires = "live_journal")]
    policies: Option<String>,
    /// The folder that is left, with fidelity.json and report.html; without it nothing is left.
    #[arg(long, value_name = "DIR", requires = "live_journal")]
    out: Option<PathBuf>,
}

/// A replay that came out the same.
#[derive(Serialize)]
struct Replayed {
    steps: u64,
    /// Steps of a real run in which the policy failed; what was done then is taken over.
    #[serde(skip_serializing_if = "is_zero")]
    taken_over: u64,
    summary: Summary,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Replays a run.
pub(super) fn perform(given: &ReplayArguments, output: Output) -> Result<Ending, Failure> {
    match (&given.live_journal, &given.folder) {
        (Some(folder), _) => simulate_live(folder, given, output),
        (None, Some(folder)) if fidelity::is_live(folder) => verify_live(folder, output),
        (None, Some(folder)) => verify(folder, output),
        (None, None) => unreachable!("one of them is required"),
    }
}

/// Simulates a real run and compares.
fn simulate_live(folder: &Path, given: &ReplayArguments, output: Output) -> Result<Ending, Failure> {
    let others = given.policies.as_deref().map(parse_policies).transpose()?.unwrap_or_default();
    let journal = LiveJournal::read(folder)?;
    let answer = fidelity(&journal, &folder.display().to_string(), &others)?;
    if let Some(out) = &given.out {
        make_folder(out)?;
        write_json(&out.join(FIDELITY), &answer)?;
        write_text(&out.join(REPORT), &fidelity_page(&answer))?;
    }
    print(output, &answer, fidelity_text)?;
    if let Some(out) = &given.out {
        say(&format!("The page is {}.", out.join(REPORT).display()));
    }
    Ok(Ending::Done)
}

/// Decides a real run again from its events.
fn verify_live(folder: &Path, output: Output) -> Result<Ending, Failure> {
    let journal = LiveJournal::read(folder)?;
    let head = journal.head;
    let policy = policies::build(&head.policy, &head.parameters)?;
    let loop_settings = Settings { seed: head.seed, abilities: head.abilities, strict: false };
    let mut metrics = Metrics::new(&head.cluster);
    let mut core = Core::new(head.cluster, head.tenants, policy, loop_settings).with_maker(maker());
    let (mut steps, mut taken_over, mut last) = (0, 0, Time::ZERO);
    for Record { at, events, step: recorded } in journal.records {
        let batch = Batch { at, events };
        steps += 1;
        let nonsense = |what| FidelityError::Nonsense { path: journal.path.clone(), number: steps, what };
        // That a policy failed or took too long cannot be had again.
        let replayed = if recorded.panic.is_some() {
            taken_over += 1;
            sound(&batch, || core.retell(&batch, &recorded)).and_then(|told| told).map(|()| recorded.clone())
        } else {
            sound(&batch, || core.step(&batch))
        };
        let replayed = replayed.map_err(nonsense)?;
        if replayed != recorded {
            return Err(differs((&journal.path, steps), &batch, &recorded, &replayed).into());
        }
        sound(&batch, || metrics.step(&batch, &replayed)).map_err(nonsense)?;
        last = at;
    }
    print(output, &Replayed { steps, taken_over, summary: metrics.summary(last) }, replayed_text)?;
    Ok(Ending::Done)
}

fn replayed_text(all: &Replayed) -> String {
    let taken_over = match all.taken_over {
        0 => String::new(),
        count => format!("; in {count} of them the policy had failed, and what was done is taken over"),
    };
    format!("{}\nAll {} steps came out as recorded{taken_over}.", summary_table(&all.summary), all.steps)
}

/// Decides a simulated run again from its events.
fn verify(folder: &Path, output: Output) -> Result<Ending, Failure> {
    let mut run = Recording::open(folder).map_err(ReplayError::from)?;
    let head = run.head.clone();
    let policy = policies::build(&head.policy, &head.parameters)?;
    // Not strict, so that a changed journal is a difference to be shown, and not a panic.
    let loop_settings = Settings { seed: head.seed, abilities: head.abilities, strict: false };
    let mut metrics = Metrics::new(&head.cluster);
    let mut core = Core::new(head.cluster, head.tenants, policy, loop_settings).with_maker(maker());
    let mut steps = 0;
    while let Some(record) = run.record().map_err(ReplayError::from)? {
        let Record { at, events, step: recorded } = record;
        let batch = Batch { at, events };
        let replayed = run.sound(&batch, || core.step(&batch)).map_err(ReplayError::from)?;
        if replayed != recorded {
            let Journal { path, line, .. } = &run.journal;
            return Err(differs((path, *line), &batch, &recorded, &replayed).into());
        }
        run.sound(&batch, || metrics.step(&batch, &replayed)).map_err(ReplayError::from)?;
        steps += 1;
    }
    let mut summary = metrics.summary(run.settings.ended.at_us);
    compare_numbers(&folder.join(SUMMARY), &mut summary)?;
    print(output, &Replayed { steps, taken_over: 0, summary }, replayed_text)?;
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

fn differs((path, line): (&Path, u64), batch: &Batch, recorded: &Step, replayed: &Step) -> ReplayError {
    let (recorded, replayed) = first_difference(recorded, replayed);
    ReplayError::Differs { path: path.to_owned(), line, at: batch.at.to_string(), recorded, replayed }
}

/// The parts of two steps that differ.
fn first_difference(recorded: &Step, replayed: &Step) -> (String, String) {
    let (old, new) = (serde_json::json!(recorded), serde_json::json!(replayed));
    let keys = ["decision", "faults", "panic", "unchanged", "ended", "actions", "wake"];
    let key = keys.into_iter().find(|key| old.get(key) != new.get(key)).unwrap_or("decision");
    let show = |value: &serde_json::Value| {
        let text = value.get(key).map_or_else(|| "nothing".to_owned(), ToString::to_string);
        let cut: String = text.chars().take(SHOWN_CHARS).collect();
        format!("{key} {cut}{}", if cut.len() < text.len() { "..." } else { "" })
    };
    (show(&old), show(&new))
}
