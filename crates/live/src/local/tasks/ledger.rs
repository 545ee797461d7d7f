//! What is written down of the tasks of an attempt: where each was started last, and how much of it is saved.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};
use trainyard_sched::model::{Placement, TaskId};

use crate::local::attempt::Folder;

/// The file in the folder of the attempt.
const FILE: &str = "tasks.json";

/// The tasks of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ledger {
    /// What its tasks know, and nobody else.
    pub(super) secret: String,
    pub(super) tasks: BTreeMap<TaskId, Entry>,
}

/// A task that was started in this attempt.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// How often.
    pub(super) starts: u32,
    /// What it holds, or held last.
    pub(super) placement: Placement,
    /// Iterations that it had saved when it was started last.
    pub(super) saved: f64,
}

impl Ledger {
    /// That of an attempt that begins, with a secret of its own.
    pub(super) fn new() -> io::Result<Self> {
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        let secret = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { secret, tasks: BTreeMap::new() })
    }

    pub(super) fn read(folder: &Folder) -> Option<Self> {
        folder.read(FILE).ok()
    }

    pub(super) fn write(&self, folder: &Folder) -> io::Result<()> {
        folder.replace_safely(FILE, self)
    }
}
