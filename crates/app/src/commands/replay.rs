//! `replay`: the recorded events go to a fresh loop with the same policy, and everything must come out the same.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::panic;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use trainyard_sched::control::{Batch, Core, Event, Head, JOURNAL_VERSION, Log, Record, Settings, Step};
use trainyard_sched::metrics::{Metrics, Summary};
use trainyard_sched::model::Cluster;
use trainyard_sched::policies;

use super::{Ending, Output, print};
use crate::config::RunFile;
use crate::experiment::{JOURNAL, RUN_FILE, SUMMARY};
use crate::failure::Failure;
use crate::render::summary_table;

/// No line of a journal is longer; a longer one is something else.
const MOST_BYTES: u64 = 1 << 30;
/// How much of a differing step is shown.
const SHOWN_CHARS: usize = 600;

/// Why a recorded run does not replay.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplayError {
    /// A file of the folder cannot be read.
    #[error("cannot read {}; give a folder that `trainyard run` left, with its journal", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file that is not understood.
    #[error("{}:{line}: not understood; the file was cut off or changed", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line.
        line: u64,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The journal of another version.
    #[error("{}: the journal has version {found}, this program reads version {JOURNAL_VERSION}; use the program that wrote it", .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The settings and the journal do not belong together.
    #[error("{}: it speaks of policy {settings}, the journal of {journal}; the files are of two runs", .path.display())]
    TwoRuns {
        /// The settings file.
        path: PathBuf,
        /// Its policy.
        settings: String,
        /// The journal's policy.
        journal: String,
    },
    /// A record speaks of things that are not there.
    #[error("{}:{line}: {what}; the journal was changed", .path.display())]
    Nonsense {
        /// The file.
        path: PathBuf,
        /// The line.
        line: u64,
        /// What is wrong.
        what: String,
    },
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
            Self::Differs { .. } | Self::Numbers { .. } | Self::Nonsense { .. } => 1,
            Self::Unreadable { .. }
            | Self::Malformed { .. }
            | Self::Version { .. }
            | Self::TwoRuns { .. } => 2,
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
    let settings = read_settings(&given.folder.join(RUN_FILE))?;
    let mut journal = Journal::open(given.folder.join(JOURNAL))?;
    let head = journal.head()?;
    if head.policy != settings.policy.name {
        let (settings, journal) = (settings.policy.name, head.policy);
        return Err(ReplayError::TwoRuns { path: given.folder.join(RUN_FILE), settings, journal }.into());
    }
    let policy = policies::build(&head.policy, &head.parameters)?;
    // Not strict, so that a changed journal is a difference to be shown, and not a panic.
    let loop_settings = Settings { seed: head.seed, abilities: head.abilities, strict: false };
    let mut metrics = Metrics::new(&head.cluster);
    let cluster = head.cluster.clone();
    let mut core = Core::new(head.cluster, head.tenants, policy, loop_settings);
    let mut sense = Sense { cluster, arrived: 0 };
    let mut steps = 0;
    // What is caught below is told in our own words.
    panic::set_hook(Box::new(|_| {}));
    while let Some(record) = journal.record()? {
        sense.check(&journal, &record)?;
        let Record { at, events, step: recorded } = record;
        let batch = Batch { at, events };
        let replayed = sound(&batch, || core.step(&batch)).map_err(|what| journal.nonsense(what))?;
        if replayed != recorded {
            return Err(journal.differs(&batch, &recorded, &replayed).into());
        }
        sound(&batch, || metrics.step(&batch, &replayed)).map_err(|what| journal.nonsense(what))?;
        steps += 1;
    }
    // The usual hook comes back.
    let _ = panic::take_hook();
    let mut summary = metrics.summary(settings.ended.at_us);
    compare_numbers(&given.folder.join(SUMMARY), &mut summary)?;
    print(output, &Replayed { steps, summary }, |all: &Replayed| {
        format!("{}\nAll {} steps came out as recorded.", summary_table(&all.summary), all.steps)
    })?;
    Ok(Ending::Done)
}

fn read_settings(path: &Path) -> Result<RunFile, ReplayError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ReplayError::Unreadable { path: path.to_owned(), source })?;
    toml::from_str(&text).map_err(|error: toml::de::Error| {
        let before = error.span().map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count());
        ReplayError::Malformed { path: path.to_owned(), line: before as u64 + 1, source: Box::new(error) }
    })
}

/// Every number that does not depend on a clock must follow from the journal. What was measured is taken over.
fn compare_numbers(path: &Path, replayed: &mut Summary) -> Result<(), ReplayError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ReplayError::Unreadable { path: path.to_owned(), source })?;
    let recorded: Summary = serde_json::from_str(&text).map_err(|error| ReplayError::Malformed {
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

/// A journal that is read line by line.
struct Journal {
    path: PathBuf,
    input: BufReader<File>,
    line: u64,
    text: String,
}

impl Journal {
    fn open(path: PathBuf) -> Result<Self, ReplayError> {
        let file =
            File::open(&path).map_err(|source| ReplayError::Unreadable { path: path.clone(), source })?;
        Ok(Self { path, input: BufReader::with_capacity(1 << 20, file), line: 0, text: String::new() })
    }

    fn malformed(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ReplayError {
        ReplayError::Malformed { path: self.path.clone(), line: self.line, source: source.into() }
    }

    /// The next line; false at the end.
    fn next(&mut self) -> Result<bool, ReplayError> {
        self.text.clear();
        self.line += 1;
        let read = (&mut self.input).take(MOST_BYTES).read_line(&mut self.text);
        match read {
            Ok(0) => Ok(false),
            Ok(_) => Ok(true),
            Err(source) => Err(self.malformed(source)),
        }
    }

    fn head(&mut self) -> Result<Head, ReplayError> {
        /// The version alone, so that a head of a later version is refused for its version.
        #[derive(serde::Deserialize)]
        struct Version {
            version: u32,
        }
        self.next()?;
        let Version { version } = serde_json::from_str(&self.text).map_err(|error| self.malformed(error))?;
        if version != JOURNAL_VERSION {
            return Err(ReplayError::Version { path: self.path.clone(), found: version });
        }
        let head: Head = serde_json::from_str(&self.text).map_err(|error| self.malformed(error))?;
        head.cluster.validate().map_err(|error| self.malformed(error))?;
        Ok(head)
    }

    fn record(&mut self) -> Result<Option<Record>, ReplayError> {
        if !self.next()? {
            return Ok(None);
        }
        serde_json::from_str(&self.text).map(Some).map_err(|error| self.malformed(error))
    }

    fn nonsense(&self, what: String) -> ReplayError {
        ReplayError::Nonsense { path: self.path.clone(), line: self.line, what }
    }

    fn differs(&self, batch: &Batch, recorded: &Step, replayed: &Step) -> ReplayError {
        let (recorded, replayed) = first_difference(recorded, replayed);
        ReplayError::Differs {
            path: self.path.clone(),
            line: self.line,
            at: batch.at.to_string(),
            recorded,
            replayed,
        }
    }
}

/// Does something with events. They are believed there, since backends make them; those of a changed journal may
/// be impossible, and then what is done stops with a panic, which is a finding here.
fn sound<T>(batch: &Batch, act: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(panic::AssertUnwindSafe(act)).map_err(|cause| {
        let text = cause.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("no more is known");
        format!("the events at {} cannot have happened ({text})", batch.at)
    })
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

/// Knows what a record may speak of, so that a changed journal leads to a message and not to a panic.
struct Sense {
    cluster: Cluster,
    arrived: usize,
}

impl Sense {
    fn check(&mut self, journal: &Journal, record: &Record) -> Result<(), ReplayError> {
        for event in &record.events {
            if let Some(what) = self.wrong(event) {
                return Err(journal.nonsense(what));
            }
        }
        Ok(())
    }

    fn wrong(&mut self, event: &Event) -> Option<String> {
        let nodes = self.cluster.nodes.len();
        if let Event::NodeChanged { node, .. } = event
            && node.index() >= nodes
        {
            return Some(format!("an event names node {}, but there are only {nodes}", node.0));
        }
        if let Event::Arrived { job } = event {
            self.arrived += usize::from(job.id.index() == self.arrived);
        }
        if let Event::Resized { allocation, .. } = event
            && let Some(placement) = allocation.placements().iter().find(|p| p.node.index() >= nodes)
        {
            return Some(format!("an event names node {}, but there are only {nodes}", placement.node.0));
        }
        let job = event.job().filter(|job| job.index() >= self.arrived)?;
        Some(format!("an event names job {}, but only {} have arrived", job.0, self.arrived))
    }
}
