//! The journal of a daemon, read as a whole and checked. A daemon may be at work on it: it is taken up to its last record.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use trainyard_live::store::Store;
use trainyard_live::work::Launch;
use trainyard_sched::control::{Head, Record};
use trainyard_sched::model::JobId;
use trainyard_sim::observed::Observed;

use super::{FidelityError, LIVE_JOURNAL};
use crate::experiment::Sense;

/// The journal of a daemon.
pub(crate) struct LiveJournal {
    /// The file.
    pub(crate) path: PathBuf,
    /// Its beginning.
    pub(crate) head: Head,
    /// All its records.
    pub(crate) records: Vec<Record>,
    /// How the programs of jobs are started.
    launches: BTreeMap<JobId, Launch>,
}

impl LiveJournal {
    /// Reads the journal in a folder.
    pub(crate) fn read(folder: &Path) -> Result<Self, FidelityError> {
        let path = folder.join(LIVE_JOURNAL);
        if !path.is_file() {
            return Err(FidelityError::NotThere { folder: folder.to_owned() });
        }
        let contents = Store::read(&path)?;
        let wrong = |number: u64, what: String| FidelityError::Nonsense { path: path.clone(), number, what };
        contents.head.cluster.validate().map_err(|error| wrong(0, error.to_string()))?;
        let mut sense = Sense::new(contents.head.cluster.clone());
        for (number, (record, _)) in (1..).zip(&contents.tail) {
            if let Some(what) = sense.wrong_in(record) {
                return Err(wrong(number, what));
            }
        }
        Ok(Self {
            launches: contents.works.iter().map(|kept| (kept.job, kept.work.launch)).collect(),
            head: contents.head,
            records: contents.tail.into_iter().map(|(record, _)| record).collect(),
            path,
        })
    }

    /// What it shows of jobs and machines.
    pub(crate) fn observe(&self) -> Result<Observed, FidelityError> {
        let in_place = |job: JobId| self.launches.get(&job).is_none_or(|launch| *launch == Launch::PerNode);
        Observed::new(&self.head, &self.records, in_place)
            .map_err(|source| FidelityError::Observed { path: self.path.clone(), source })
    }
}
