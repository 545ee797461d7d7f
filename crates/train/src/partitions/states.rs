//! The states that a partition can still go back to: in memory those around the iteration under way, on disk those that were saved.
//!
//! In memory there are the state after the last iteration that was done, once the next one has made no update yet, or else the one
//! from which this began; and when all its updates are made, what came of them, before it is forgotten where it began. No partition
//! makes updates of an iteration before all have done the one before. So all partitions have one state in common at any time, and
//! one that leaves takes it along by saving all that it has.
//!
//! On disk there are the latest two of those that are saved every few iterations, and those of partitions that left since. An iteration
//! after such a save begins when all have saved. So after a partition was killed there is a common state, too. The state before the
//! first iteration everybody has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::checkpoint::{Checkpoint, Progress};
use crate::error::TrainError;
use crate::program::Training;

/// What can be gone back to.
pub(super) struct States {
    /// Where states are saved, and after how many iterations each time.
    files: Option<(PathBuf, u64)>,
    saved: BTreeSet<u64>,
    /// Before the first iteration.
    origin: Checkpoint,
    /// Where the iteration under way began, or the last one.
    start: Checkpoint,
    /// What the numbers at work are the state of, if they are one.
    current: Option<u64>,
}

/// The file of the state after an iteration.
fn place(path: &Path, iteration: u64) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{iteration}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

impl States {
    /// Those of a training that begins. States that were saved are looked for if it is to go on from them.
    pub(super) fn new(
        training: &Training,
        files: Option<(PathBuf, u64)>,
        resume: bool,
    ) -> Result<Self, TrainError> {
        let origin = training.checkpoint();
        let mut states =
            Self { files, saved: BTreeSet::new(), start: origin.clone(), origin, current: Some(0) };
        if resume {
            states.look(training)?;
        }
        Ok(states)
    }

    /// Looks for states that were saved. One that cannot be gone on from is an error.
    fn look(&mut self, training: &Training) -> Result<(), TrainError> {
        let Some((path, _)) = &self.files else { return Ok(()) };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let refuse = |source| TrainError::File { act: "read", path: folder.to_owned(), source };
        for entry in std::fs::read_dir(folder).map_err(refuse)? {
            let name = entry.map_err(refuse)?.file_name();
            let name = Path::new(&name);
            let digits = name.file_stem().and_then(|stem| stem.to_str()?.rsplit_once('-'));
            let Some(iteration) = digits.and_then(|(_, digits)| digits.parse::<u64>().ok()) else { continue };
            let file = place(path, iteration);
            if file.file_name() != Some(name.as_os_str()) {
                continue;
            }
            let checkpoint = Checkpoint::read(&file)?;
            if let Some(reason) = checkpoint.strange_to(training.identity()) {
                return Err(TrainError::Resume { path: file, reason });
            }
            if checkpoint.iteration() == iteration {
                self.saved.insert(iteration);
            }
        }
        Ok(())
    }

    /// All iterations after which there is a state.
    pub(super) fn all(&self) -> BTreeSet<u64> {
        let more = [0, self.start.iteration()].into_iter().chain(self.current);
        self.saved.iter().copied().chain(more).collect()
    }

    /// The latest one.
    pub(super) fn latest(&self) -> u64 {
        self.all().last().copied().unwrap_or_default()
    }

    /// The progress that belongs to a state, as this partition knows it.
    pub(super) fn progress(&self, training: &Training, iteration: u64) -> Result<Progress, TrainError> {
        if self.current == Some(iteration) {
            Ok(training.progress)
        } else {
            Ok(self.find(iteration)?.0.progress)
        }
    }

    /// A state that is not the one at work, and where it is from.
    fn find(&self, iteration: u64) -> Result<(Checkpoint, PathBuf), TrainError> {
        let memory = || PathBuf::from("memory");
        match &self.files {
            _ if self.start.iteration() == iteration => Ok((self.start.clone(), memory())),
            Some((path, _)) if self.saved.contains(&iteration) => {
                let path = place(path, iteration);
                Ok((Checkpoint::read(&path)?, path))
            }
            _ => Ok((self.origin.clone(), memory())),
        }
    }

    /// Goes back to a state, or stays there. What was measured is told by the partition that did.
    pub(super) fn back(&mut self, training: &mut Training, progress: Progress) -> Result<(), TrainError> {
        if self.current != Some(progress.iteration) {
            let (state, path) = self.find(progress.iteration)?;
            training.go_back(&state, &path)?;
            self.current = Some(progress.iteration);
        }
        training.progress = progress;
        Ok(())
    }

    /// Updates begin that lead away from the state at work.
    pub(super) fn leave(&mut self, training: &Training) {
        if self.current.take().is_some() {
            self.start = training.checkpoint();
        }
    }

    /// They have led to the state after this iteration.
    pub(super) fn arrive(&mut self, iteration: u64) {
        self.current = Some(iteration);
    }

    /// Whether there is to be a file after this iteration.
    pub(super) fn is_due(&self, iteration: u64) -> bool {
        self.files.as_ref().is_some_and(|(_, every)| iteration.is_multiple_of(*every))
    }

    /// Writes the state at work, if states are written.
    pub(super) fn save(&mut self, training: &Training) -> Result<bool, TrainError> {
        self.write(&training.checkpoint())?;
        Ok(self.files.is_some())
    }

    /// Writes what is only in memory, and tells the latest iteration that is safe.
    pub(super) fn save_all(&mut self, training: &Training) -> Result<Option<u64>, TrainError> {
        let start = self.start.clone();
        self.write(&start)?;
        if let Some(iteration) = self.current {
            let mut checkpoint = training.checkpoint();
            checkpoint.progress.iteration = iteration;
            self.write(&checkpoint)?;
        }
        Ok(self.saved.last().copied())
    }

    /// Writes the state at work as one of those that are written every few iterations, and forgets those that nobody can need any
    /// more.
    pub(super) fn save_due(&mut self, training: &Training) -> Result<(), TrainError> {
        self.write(&training.checkpoint())?;
        let Some((path, every)) = &self.files else { return Ok(()) };
        let now = training.iteration();
        let before = |iteration: &&u64| **iteration < now && iteration.is_multiple_of(*every);
        let Some(before) = self.saved.iter().rev().find(before).copied() else { return Ok(()) };
        let kept = self.saved.split_off(&before);
        for old in std::mem::replace(&mut self.saved, kept) {
            let old = place(path, old);
            std::fs::remove_file(&old).map_err(|source| TrainError::File {
                act: "remove",
                path: old,
                source,
            })?;
        }
        Ok(())
    }

    fn write(&mut self, checkpoint: &Checkpoint) -> Result<(), TrainError> {
        let Some((path, _)) = &self.files else { return Ok(()) };
        if !self.saved.contains(&checkpoint.iteration()) {
            checkpoint.write(&place(path, checkpoint.iteration()))?;
            self.saved.insert(checkpoint.iteration());
        }
        Ok(())
    }
}
