//! A journal as a file: a head, then one line for each step. Reading one is the replay's affair.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use trainyard_sched::control::{Batch, Event, Head, Log, Step};
use trainyard_sched::model::Time;

use super::JOURNAL;
use crate::failure::Failure;

/// Writes every step; the first error is kept and reported at the end.
pub(super) struct JournalFile {
    path: PathBuf,
    output: BufWriter<File>,
    failed: Option<std::io::Error>,
}

/// The same line as [`trainyard_sched::control::Record`], without copying what it holds.
#[derive(Serialize)]
struct RecordLine<'a> {
    at: Time,
    events: &'a [Event],
    #[serde(flatten)]
    step: &'a Step,
}

impl JournalFile {
    /// Begins a journal in a folder.
    pub(super) fn create(folder: &Path, head: &Head) -> Result<Self, Failure> {
        let path = folder.join(JOURNAL);
        let file = File::create(&path).map_err(Failure::file("write", &path))?;
        let mut journal = Self { path, output: BufWriter::with_capacity(1 << 20, file), failed: None };
        journal.line(head);
        Ok(journal)
    }

    fn line(&mut self, line: &impl Serialize) {
        if self.failed.is_some() {
            return;
        }
        let written = serde_json::to_writer(&mut self.output, line).map_err(std::io::Error::from);
        self.failed = written.and_then(|()| self.output.write_all(b"\n")).err();
    }

    /// Writes what is left and tells whether all went well.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        let result = self.failed.take().map_or_else(|| self.output.flush(), Err);
        result.map_err(Failure::file("write", &self.path))
    }
}

impl Log for JournalFile {
    fn step(&mut self, batch: &Batch, step: &Step) {
        self.line(&RecordLine { at: batch.at, events: &batch.events, step });
    }
}
