//! A recorded run as it is read again: its settings and its journal, line by line. What is read is not believed: a
//! journal that was changed or cut off leads to a message and not to a panic.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::panic;
use std::path::{Path, PathBuf};

use trainyard_sched::control::{Batch, Event, Head, JOURNAL_VERSION, Record};
use trainyard_sched::model::Cluster;

use super::{JOURNAL, RUN_FILE};
use crate::config::RunFile;

/// No line of a journal is longer; a longer one is something else.
const MOST_BYTES: u64 = 1 << 30;

/// Why a recorded run cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordingError {
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
}

impl RecordingError {
    /// 1 where a journal speaks of what cannot be, 2 where there is nothing to read.
    pub(crate) const fn exit_code(&self) -> u8 {
        match self {
            Self::Nonsense { .. } => 1,
            Self::Unreadable { .. }
            | Self::Malformed { .. }
            | Self::Version { .. }
            | Self::TwoRuns { .. } => 2,
        }
    }
}

/// A run that was left in a folder, with its journal open behind the head.
pub(crate) struct Recording {
    /// Its settings.
    pub(crate) settings: RunFile,
    /// The first line of its journal.
    pub(crate) head: Head,
    /// The rest of its journal.
    pub(crate) journal: Journal,
    sense: Sense,
}

impl Recording {
    /// Opens the run in a folder.
    pub(crate) fn open(folder: &Path) -> Result<Self, RecordingError> {
        let settings = read_settings(&folder.join(RUN_FILE))?;
        let mut journal = Journal::open(folder.join(JOURNAL))?;
        let head = journal.head()?;
        if head.policy != settings.policy.name {
            let (settings, journal) = (settings.policy.name, head.policy);
            return Err(RecordingError::TwoRuns { path: folder.join(RUN_FILE), settings, journal });
        }
        let sense = Sense::new(head.cluster.clone());
        Ok(Self { settings, head, journal, sense })
    }

    /// The next record, if there is one.
    pub(crate) fn record(&mut self) -> Result<Option<Record>, RecordingError> {
        let Some(record) = self.journal.record()? else { return Ok(None) };
        match self.sense.wrong_in(&record) {
            Some(what) => Err(self.journal.nonsense(what)),
            None => Ok(Some(record)),
        }
    }

    /// Does something with the events of the latest record, which may turn out to be impossible.
    pub(crate) fn sound<T>(&self, batch: &Batch, act: impl FnOnce() -> T) -> Result<T, RecordingError> {
        sound(batch, act).map_err(|what| self.journal.nonsense(what))
    }
}

fn read_settings(path: &Path) -> Result<RunFile, RecordingError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| RecordingError::Unreadable { path: path.to_owned(), source })?;
    toml::from_str(&text).map_err(|error: toml::de::Error| {
        let before = error.span().map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count());
        RecordingError::Malformed { path: path.to_owned(), line: before as u64 + 1, source: Box::new(error) }
    })
}

/// A journal that is read line by line.
pub(crate) struct Journal {
    pub(crate) path: PathBuf,
    input: BufReader<File>,
    pub(crate) line: u64,
    text: String,
}

impl Journal {
    fn open(path: PathBuf) -> Result<Self, RecordingError> {
        let file =
            File::open(&path).map_err(|source| RecordingError::Unreadable { path: path.clone(), source })?;
        Ok(Self { path, input: BufReader::with_capacity(1 << 20, file), line: 0, text: String::new() })
    }

    fn malformed(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> RecordingError {
        RecordingError::Malformed { path: self.path.clone(), line: self.line, source: source.into() }
    }

    /// The next line; false at the end.
    fn next(&mut self) -> Result<bool, RecordingError> {
        self.text.clear();
        self.line += 1;
        let read = (&mut self.input).take(MOST_BYTES).read_line(&mut self.text);
        match read {
            Ok(0) => Ok(false),
            Ok(_) => Ok(true),
            Err(source) => Err(self.malformed(source)),
        }
    }

    fn head(&mut self) -> Result<Head, RecordingError> {
        /// The version alone, so that a head of a later version is refused for its version.
        #[derive(serde::Deserialize)]
        struct Version {
            version: u32,
        }
        self.next()?;
        let Version { version } = serde_json::from_str(&self.text).map_err(|error| self.malformed(error))?;
        if version != JOURNAL_VERSION {
            return Err(RecordingError::Version { path: self.path.clone(), found: version });
        }
        let head: Head = serde_json::from_str(&self.text).map_err(|error| self.malformed(error))?;
        head.cluster.validate().map_err(|error| self.malformed(error))?;
        Ok(head)
    }

    fn record(&mut self) -> Result<Option<Record>, RecordingError> {
        if !self.next()? {
            return Ok(None);
        }
        serde_json::from_str(&self.text).map(Some).map_err(|error| self.malformed(error))
    }

    fn nonsense(&self, what: String) -> RecordingError {
        RecordingError::Nonsense { path: self.path.clone(), line: self.line, what }
    }
}

/// Does something with events. They are believed there, since backends make them; those of a changed journal may
/// be impossible, and then what is done stops with a panic, which is a finding here and is told in our own words.
/// The usual hook is away only meanwhile, so that a panic anywhere else is still told by it.
pub(crate) fn sound<T>(batch: &Batch, act: impl FnOnce() -> T) -> Result<T, String> {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let done = panic::catch_unwind(panic::AssertUnwindSafe(act));
    panic::set_hook(usual);
    done.map_err(|cause| {
        let text = cause.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("no more is known");
        format!("the events at {} cannot have happened ({text})", batch.at)
    })
}

/// Knows what a record may speak of, so that a changed journal leads to a message and not to a panic.
pub(crate) struct Sense {
    cluster: Cluster,
    arrived: usize,
}

impl Sense {
    /// For the records of a run on these machines, in their order.
    pub(crate) const fn new(cluster: Cluster) -> Self {
        Self { cluster, arrived: 0 }
    }

    /// What of a record cannot be, if anything.
    pub(crate) fn wrong_in(&mut self, record: &Record) -> Option<String> {
        record.events.iter().find_map(|event| self.wrong(event))
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use trainyard_sched::model::Time;

    use super::*;

    #[test]
    fn only_what_a_journal_causes_is_kept_from_the_usual_hook() {
        static TOLD: AtomicU32 = AtomicU32::new(0);
        panic::set_hook(Box::new(|cause| {
            // Other tests may run meanwhile.
            if cause.payload().downcast_ref::<&str>() == Some(&"a planted bug") {
                TOLD.fetch_add(1, Ordering::SeqCst);
            }
        }));
        let batch = Batch { at: Time::ZERO, events: Vec::new() };
        let found = sound::<()>(&batch, || panic!("a planted bug")).unwrap_err();
        assert!(found.contains("a planted bug"), "{found}");
        assert_eq!(TOLD.load(Ordering::SeqCst), 0, "it is told in our own words");
        assert!(panic::catch_unwind(|| panic!("a planted bug")).is_err());
        let told = TOLD.load(Ordering::SeqCst);
        let _ = panic::take_hook();
        assert_eq!(told, 1, "the hook is back");
    }
}
