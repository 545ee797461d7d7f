//! What all requests share: the way to the daemon, the tokens, the latest steps, and whether new work is taken.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLockReadGuard};

use tokio::sync::{Semaphore, watch};
use trainyard_live::Handle;
use trainyard_live::board::{Board, Card};
use trainyard_sched::model::JobId;

use super::access::{Access, Caller};
use super::history::History;
use super::problem::{Kind, Problem};

/// So many requests are answered at one time; streams are not counted.
const MOST_AT_ONCE: usize = 256;

/// Where the folders of jobs are, in the folder of a daemon.
pub(crate) fn jobs_in(folder: &Path) -> PathBuf {
    folder.join("jobs")
}

/// What all requests share.
pub(crate) struct Office {
    /// The way to the daemon.
    pub(crate) handle: Handle,
    /// Where the daemon keeps everything.
    pub(crate) folder: PathBuf,
    /// The tokens.
    pub(crate) access: Access,
    /// The latest steps.
    pub(crate) history: Arc<History>,
    /// Room for requests.
    pub(crate) room: Semaphore,
    draining: AtomicBool,
    closing: watch::Sender<bool>,
}

impl Office {
    /// An office for a daemon at work.
    pub(crate) fn new(
        handle: Handle,
        folder: PathBuf,
        access: Access,
        history: Arc<History>,
        draining: bool,
    ) -> Self {
        let (room, closing) = (Semaphore::new(MOST_AT_ONCE), watch::Sender::new(false));
        let draining = AtomicBool::new(draining);
        Self { handle, folder, access, history, room, draining, closing }
    }

    /// Whether no new work is taken.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Takes no new work from now on, or takes it again.
    pub(crate) fn drain(&self, drains: bool) {
        self.draining.store(drains, Ordering::SeqCst);
    }

    /// Ends all streams.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Becomes true when streams shall end.
    pub(crate) fn closing(&self) -> watch::Receiver<bool> {
        self.closing.subscribe()
    }

    /// Where the folders of jobs are.
    pub(crate) fn jobs(&self) -> PathBuf {
        jobs_in(&self.folder)
    }

    /// The jobs as they are shown.
    pub(crate) fn board(&self) -> RwLockReadGuard<'_, Board> {
        self.handle.board()
    }

    /// The job that a part of a path means, by number or by name; of several of one name the latest. Who may not see it
    /// is told the same as if it were not there.
    pub(crate) fn find(&self, caller: &Caller, word: &str) -> Result<Card, Problem> {
        let board = self.board();
        let by_number = word.parse().ok().and_then(|number| board.jobs.get(&JobId(number)));
        let visible = |card: &&Card| caller.sees(card.tenant);
        let by_name = || board.jobs.values().rev().filter(visible).find(|card| *card.name == *word);
        match by_number.or_else(by_name) {
            Some(card) if caller.sees(card.tenant) => Ok(card.clone()),
            _ if caller.sees_only().is_some() => Err(Problem::not_yours()),
            _ => {
                let names = board.jobs.values().map(|card| &*card.name);
                let meant = super::strict::meant(word, names);
                Err(Problem::new(Kind::NotFound, format!("no job has the number or name `{word}`{meant}")))
            }
        }
    }
}

/// Does something that may wait, away from the threads that serve.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Problem::new(Kind::Internal, error.to_string())),
    }
}
