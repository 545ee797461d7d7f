//! The files of copies: each has a folder of its own with the state that all began from; a merge makes one state of all of them,
//! which becomes the job's and each copy's.
//!
//! A merge is a folder that is filled, then one small file that says it is done, and then files that are put in place; so a daemon
//! that is killed finds a merge that never was, or one whose files only have to be put in place again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::consolidate::{ConsolidateError, Merged, Part, consolidate, most};
use crate::local::attempt::Folder;

/// The end of the names of files that can be merged.
const FORM: &str = "safetensors";
/// So deep below a folder of checkpoints files are looked for.
const MOST_DEPTH: usize = 8;

/// How far a job with several copies is: what is merged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Ledger {
    /// The number of the latest merge; 0 at first.
    pub(super) number: u64,
    /// The iterations of the state that came of it, over all copies.
    pub(super) iterations: f64,
    /// Those of each copy in this attempt, in their order. What an older daemon wrote does not say.
    #[serde(default)]
    pub(super) copies: Vec<f64>,
    /// The number of the latest merge that the loop ordered and that is made, or for which there was nothing to merge.
    #[serde(default)]
    pub(super) ordered: u32,
    /// What each copy had done then since the latest merge that was made; nothing if that is the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) counted_from: Vec<f64>,
}

impl Ledger {
    pub(super) fn read(attempt: &Folder) -> Option<Self> {
        attempt.read("merged.json").ok()
    }

    /// Once this is written the merge is done.
    pub(super) fn write(&self, attempt: &Folder) -> io::Result<()> {
        attempt.replace_safely("merged.json", self)
    }

    /// The ledger after one more merge, to which each copy contributes so many iterations, and what the loop had ordered by then.
    pub(super) fn after(&self, iterations: f64, contributed: &[f64], ordered: u32) -> Self {
        let before = self.copies.iter().copied().chain(std::iter::repeat(0.0));
        let copies = contributed.iter().zip(before).map(|(more, before)| before + more).collect();
        Self { number: self.number + 1, iterations, copies, ordered, counted_from: Vec::new() }
    }
}

/// What a copy contributes.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// Its checkpoints.
    pub(super) folder: PathBuf,
    /// Iterations since the copies were equal; more than 0.
    pub(super) iterations: f64,
}

/// A merge to be made.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) attempt: Folder,
    /// What it comes to.
    pub(super) ledger: Ledger,
    pub(super) sources: Vec<Source>,
    /// The job's own checkpoints, from which all copies began.
    pub(super) job: PathBuf,
    /// Where else the result goes.
    pub(super) copies: Vec<PathBuf>,
}

/// Why a merge was not made.
#[derive(Debug, thiserror::Error)]
pub(super) enum MergeError {
    #[error(transparent)]
    Consolidate(#[from] Box<ConsolidateError>),
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(
        "{} has no file `{name}`, and that of another copy has; all copies must save under the same names",
        .folder.display()
    )]
    Missing { folder: PathBuf, name: String },
    #[error(
        "{} has no *.{FORM} file; copies can only be merged if they save as safetensors",
        .folder.display()
    )]
    Nothing { folder: PathBuf },
}

impl MergeError {
    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }

    /// Whether it may go better another time, as when the disk was full.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::File { .. } => true,
            Self::Consolidate(error) => matches!(**error, ConsolidateError::File { .. }),
            Self::Missing { .. } | Self::Nothing { .. } => false,
        }
    }
}

impl Order {
    fn staging(&self) -> PathBuf {
        self.attempt.0.join(format!("merge-{}", self.ledger.number))
    }

    /// Makes the merge, or ends one that was made and not yet put in place.
    pub(super) fn perform(&self) -> Result<Merged, MergeError> {
        let mut merged = Merged::default();
        if Ledger::read(&self.attempt).is_none_or(|ledger| ledger.number < self.ledger.number) {
            if !self.sources.is_empty() {
                merged = self.stage()?;
            }
            crate::fault::point();
            self.ledger.write(&self.attempt).map_err(MergeError::file(&self.attempt.0))?;
        }
        let staging = self.staging();
        if staging.exists() {
            for folder in std::iter::once(&self.job).chain(&self.copies) {
                put_in_place(&staging, folder).map_err(MergeError::file(folder))?;
            }
        }
        Ok(merged)
    }

    /// Fills a folder with the files that all copies shall have.
    fn stage(&self) -> Result<Merged, MergeError> {
        let staging = self.staging();
        // What an earlier try left, and the merge before, which is in place everywhere.
        for number in [self.ledger.number, self.ledger.number.saturating_sub(1)] {
            let old = self.attempt.0.join(format!("merge-{number}"));
            if old.exists() {
                fs::remove_dir_all(&old).map_err(MergeError::file(&old))?;
            }
        }
        fs::create_dir_all(&staging).map_err(MergeError::file(&staging))?;
        crate::fault::point();
        let parts: Vec<Part> = self
            .sources
            .iter()
            .map(|source| Part { path: source.folder.clone(), iterations: source.iterations })
            .collect();
        let lead = &self.sources[most(&parts).expect("somebody contributes")].folder;
        let names = self.names(lead)?;
        let steps: Vec<String> = parts.iter().map(|part| part.iterations.to_string()).collect();
        let told = BTreeMap::from([
            ("trainyard.iteration".to_owned(), self.ledger.iterations.to_string()),
            ("trainyard.merge".to_owned(), self.ledger.number.to_string()),
            ("trainyard.merged_of".to_owned(), steps.join(" ")),
        ]);
        let mut all = Merged::default();
        for name in &names {
            let parts: Vec<Part> =
                parts.iter().map(|part| Part { path: part.path.join(name), ..*part }).collect();
            let merged = consolidate(&parts, Some(&self.job.join(name)), &told, &staging.join(name))
                .map_err(Box::new)?;
            all.averaged += merged.averaged;
            all.counted += merged.counted;
            all.taken.extend(merged.taken);
        }
        // Whatever else a program keeps there has no mean.
        let others = other_files(lead).map_err(MergeError::file(lead))?;
        for name in &others {
            copy(&lead.join(name), &staging.join(name)).map_err(MergeError::file(&staging.join(name)))?;
        }
        sync(&staging, &others).map_err(MergeError::file(&staging))?;
        Ok(all)
    }

    /// The names of the files that can be merged; all copies must have the same.
    fn names(&self, lead: &Path) -> Result<Vec<String>, MergeError> {
        let of = |folder: &Path| mergeable(folder).map_err(MergeError::file(folder));
        let names = of(lead)?;
        if names.is_empty() {
            return Err(MergeError::Nothing { folder: lead.to_owned() });
        }
        for source in &self.sources {
            let own = of(&source.folder)?;
            let missing = names.iter().find(|name| !own.contains(name));
            let missing = missing.map(|name| (source.folder.as_path(), name));
            let strange = own.iter().find(|name| !names.contains(name)).map(|name| (lead, name));
            if let Some((folder, name)) = missing.or(strange) {
                return Err(MergeError::Missing { folder: folder.to_owned(), name: name.clone() });
            }
        }
        Ok(names)
    }
}

/// Takes away what is no longer needed once an attempt is over and all that counts is merged.
pub(super) fn clean(attempt: &Folder, number: u64) {
    let _ = fs::remove_dir_all(attempt.0.join(format!("merge-{number}")));
    for copy in attempt.members() {
        let _ = fs::remove_dir_all(copy.0.join("checkpoints"));
    }
}

/// Gives a copy the state that all begin from. What a copy has of an earlier try is taken away.
pub(super) fn begin_copy(job: &Path, folder: &Path) -> io::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let mergeable =
        if job.exists() { mergeable(job)?.into_iter().map(PathBuf::from).collect() } else { Vec::new() };
    for name in other_files(job)?.into_iter().chain(mergeable) {
        copy(&job.join(&name), &folder.join(&name))?;
    }
    Ok(())
}

/// Whether there is a state that copies can begin from.
pub(super) fn has_state(job: &Path) -> bool {
    mergeable(job).is_ok_and(|names| !names.is_empty())
}

/// The files directly in a folder that can be merged.
fn mergeable(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().into_string();
        if let (true, Ok(name)) = (entry.file_type()?.is_file(), name)
            && Path::new(&name).extension().is_some_and(|end| end == FORM)
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// All other files in and below a folder, by their names from there. What a program was still writing is not among them.
fn other_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    if folder.exists() {
        gather(folder, Path::new(""), 0, &mut found)?;
    }
    found.sort();
    Ok(found)
}

fn gather(folder: &Path, below: &Path, depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder.join(below))? {
        let entry = entry?;
        let (name, kind) = (below.join(entry.file_name()), entry.file_type()?);
        let is_ending = |end: &str| name.extension().is_some_and(|extension| extension == end);
        if kind.is_dir() && depth < MOST_DEPTH {
            gather(folder, &name, depth + 1, found)?;
        } else if kind.is_file() && !is_ending("part") && (depth > 0 || !is_ending(FORM)) {
            found.push(name);
        }
    }
    Ok(())
}

/// Puts all files of a folder into another, each as a whole.
fn put_in_place(staging: &Path, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut names = other_files(staging)?;
    names.extend(mergeable(staging)?.into_iter().map(PathBuf::from));
    for name in &names {
        copy(&staging.join(name), &folder.join(name))?;
    }
    sync(folder, &names)
}

/// Copies a file as a whole, safe on disk.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut name = to.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let beside = to.with_file_name(name);
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, &beside)?;
    File::open(&beside)?.sync_all()?;
    crate::fault::point();
    fs::rename(&beside, to)?;
    crate::fault::point();
    Ok(())
}

/// Makes the names of files in and below a folder safe on disk, and its own.
fn sync(folder: &Path, names: &[PathBuf]) -> io::Result<()> {
    written(folder, names).iter().try_for_each(|folder| File::open(folder)?.sync_all())
}

/// All folders that have a new name in them once these files are in and below a folder, which may itself be new.
fn written(folder: &Path, names: &[PathBuf]) -> BTreeSet<PathBuf> {
    let below = names.iter().flat_map(|name| name.ancestors().skip(1)).map(|name| folder.join(name));
    below.chain([folder.to_owned()]).chain(folder.parent().map(Path::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_folder_with_a_new_name_is_made_safe() {
        let names = ["state.safetensors", "data/seen.txt", "data/old/a.bin", "data/old/b.bin"];
        let found = written(Path::new("/jobs/0/checkpoints"), &names.map(PathBuf::from));
        let all =
            ["/jobs/0", "/jobs/0/checkpoints", "/jobs/0/checkpoints/data", "/jobs/0/checkpoints/data/old"];
        assert_eq!(found.into_iter().collect::<Vec<_>>(), all.map(PathBuf::from));
    }

    #[test]
    fn files_are_put_in_place_below_folders_that_are_new() {
        let at = tempfile::tempdir().expect("a folder");
        let (staging, folder) = (at.path().join("staging"), at.path().join("new"));
        fs::create_dir_all(staging.join("data/old")).expect("a folder");
        for name in ["state.safetensors", "data/old/a.bin"] {
            fs::write(staging.join(name), name).expect("it can be written");
        }
        put_in_place(&staging, &folder).expect("it can be done");
        for name in ["state.safetensors", "data/old/a.bin"] {
            assert_eq!(fs::read_to_string(folder.join(name)).expect("it is there"), name);
        }
    }
}
