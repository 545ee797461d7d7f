//! A real run against its simulation: what the journal of a daemon shows of jobs and machines is simulated, the policy
//! decides anew, and job by job it is looked at what came of it in either.

mod compare;
mod course;
mod live;

use std::path::{Path, PathBuf};

use trainyard_live::store::StoreError;
use trainyard_sim::observed::ObservedError;

pub(crate) use compare::fidelity;
pub(crate) use course::maker;
pub(crate) use live::LiveJournal;

/// The journal of a daemon in its folder.
pub(crate) const LIVE_JOURNAL: &str = "journal.sqlite";

/// Why the journal of a daemon cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FidelityError {
    /// There is none.
    #[error(
        "{}: there is no {LIVE_JOURNAL}; give a folder that `trainyard serve` keeps, or one of those below the folder of \
         `trainyard demo`",
        .folder.display()
    )]
    NotThere {
        /// The folder.
        folder: PathBuf,
    },
    /// It cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It says what cannot be.
    #[error("{}: record {number}: {what}; the journal was changed, so restore it from a copy", .path.display())]
    Nonsense {
        /// The file.
        path: PathBuf,
        /// The record.
        number: u64,
        /// What cannot be.
        what: String,
    },
    /// There is nothing to simulate.
    #[error("{}", .path.display())]
    Observed {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ObservedError,
    },
}

/// Whether a daemon keeps its journal in this folder.
pub(crate) fn is_live(folder: &Path) -> bool {
    folder.join(LIVE_JOURNAL).is_file()
}
