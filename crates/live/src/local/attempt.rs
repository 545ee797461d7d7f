//! The folder of one attempt: what was ordered, who took the order, what runs, and how it ended. Every file appears as a
//! whole or not at all, so that a daemon or a keeper may die at any moment and the other still knows where things stand.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use trainyard_sched::model::{Attempt, CopyId, JobId, TaskId};

use super::process::{Identity, kill_marked};
use crate::mailbox;

/// In the environment of every process of an attempt: its folder.
pub(super) const MARK: &str = "TRAINYARD_DIR";

/// The folder of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Folder(pub(super) PathBuf);

/// What a keeper is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Order {
    /// How long programs may take to leave when told to, in seconds.
    pub(super) grace_s: u32,
    /// From how many iterations it goes on.
    #[serde(default)]
    pub(super) begun_from: f64,
    /// The programs.
    pub(super) programs: Vec<Program>,
}

/// One program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Program {
    pub(super) command: Vec<String>,
    pub(super) directory: PathBuf,
    pub(super) environment: BTreeMap<String, String>,
    /// Where its output goes.
    pub(super) output: PathBuf,
    /// Groups of the kernel that it joins.
    pub(super) groups: Vec<PathBuf>,
    /// Where there are no such groups: how nice it is.
    pub(super) nice: Option<i32>,
    /// Where there are no such groups: the processors it may use.
    pub(super) processors: Option<usize>,
    /// Where there are no such groups: address space in bytes.
    pub(super) address_space: Option<u64>,
}

/// Who runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Running {
    /// The programs, in the order of [`Order::programs`]; each leads a process group.
    pub(super) programs: Vec<Identity>,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ended {
    /// The exit code of the program that failed first, or 0.
    pub(super) code: Option<i32>,
    /// The signal that ended it.
    pub(super) signal: Option<i32>,
    /// Whether the programs had been told to stop before the first of them ended.
    pub(super) told: bool,
    /// Why a program could not be started.
    pub(super) refused: Option<String>,
}

impl Ended {
    /// Told to stop, and left well.
    pub(super) const WELL: Self = Self { code: Some(0), signal: None, told: true, refused: None };

    /// Killed.
    pub(super) fn killed(told: bool) -> Self {
        Self { code: None, signal: Some(Signal::KILL.as_raw()), told, refused: None }
    }
}

/// What a program is told while it runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Control {
    pub(super) version: u64,
    pub(super) workers: u32,
    pub(super) servers: u32,
    pub(super) cpus: f64,
    pub(super) stop: bool,
    pub(super) grace_s: u32,
    /// For a copy: up to which iteration it may train for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<u64>,
    /// For a copy: the merge that it shall save for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) merge: Option<u64>,
    /// For a copy: the merge whose result lies in its folder of checkpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) merged: Option<u64>,
    /// For a copy: the part of the training data that is its own until then, from one fraction to another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) part: Option<[f64; 2]>,
}

/// What a copy answers when it is to save for a merge.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(super) struct Answer {
    /// Which merge; 0 tells the state that it has begun from.
    pub(super) merge: u64,
    /// The iterations of the state that it saved.
    pub(super) iteration: f64,
}

/// An answer has a few bytes.
const MOST_ANSWER: u64 = 64 << 10;

impl Folder {
    /// The folder of an attempt below the one where all jobs are.
    pub(super) fn of(jobs: &Path, job: JobId, attempt: Attempt) -> Self {
        Self(mailbox::folder_of(jobs, job, attempt))
    }

    /// The folder of one of the copies of this attempt.
    pub(super) fn of_copy(&self, copy: CopyId) -> Self {
        Self(mailbox::folder_of_copy(&self.0, copy))
    }

    /// The folder of one start of one of its tasks.
    pub(super) fn of_task(&self, task: TaskId, start: u32) -> Self {
        Self(mailbox::folder_of_task(&self.0, (task, start)))
    }

    /// Where its tasks find each other.
    pub(super) fn meeting(&self) -> PathBuf {
        self.0.join("meeting")
    }

    /// The folders of its copies and of the starts of its tasks, if it has any.
    pub(super) fn members(&self) -> Vec<Self> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let is_member = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            path.is_dir() && name.is_some_and(|name| name.starts_with("copy-") || name.starts_with("task-"))
        };
        entries.map(|entry| entry.path()).filter(is_member).map(Self).collect()
    }

    /// Where a copy answers.
    pub(super) fn answer_file(&self) -> PathBuf {
        self.0.join("merge.json")
    }

    /// What a copy answered last; an error if nobody can understand it.
    pub(super) fn answer(&self) -> Result<Option<Answer>, String> {
        let path = self.answer_file();
        let size = fs::metadata(&path).map_or(0, |metadata| metadata.len());
        if size == 0 {
            return Ok(None);
        }
        if size > MOST_ANSWER {
            return Err(format!("its answer has {size} bytes"));
        }
        let text = fs::read(&path).map_err(|error| error.to_string())?;
        let answer: Answer = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        let is_sound = (0.0..9e15).contains(&answer.iteration);
        if is_sound { Ok(Some(answer)) } else { Err(format!("{} is no iteration", answer.iteration)) }
    }

    pub(super) fn progress(&self) -> PathBuf {
        self.0.join("progress.jsonl")
    }

    pub(super) fn control_file(&self) -> PathBuf {
        self.0.join("control.json")
    }

    /// What the first program prints; of others the number is part of the name.
    pub(super) fn output(&self, program: usize) -> PathBuf {
        self.0.join(if program == 0 { "output.log".to_owned() } else { format!("output-{program}.log") })
    }

    /// Writes the order; what was there before is of a start that never came about.
    pub(super) fn write_order(&self, order: &Order) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        self.replace("order.json", order)
    }

    pub(super) fn order(&self) -> io::Result<Order> {
        self.read("order.json")
    }

    pub(super) fn has_order(&self) -> bool {
        self.0.join("order.json").exists()
    }

    /// Takes the attempt: whoever is first has it, and nobody else ever will. A keeper takes it to run it; a daemon that
    /// comes back takes it to make sure that nobody does.
    pub(super) fn claim(&self, by: Option<Identity>) -> io::Result<bool> {
        // A link appears at once with its content, which a file that is created does not.
        let mine = self.0.join(format!("claim-{}", std::process::id()));
        fs::write(&mine, serde_json::to_vec(&by)?)?;
        crate::fault::point();
        let taken = fs::hard_link(&mine, self.0.join("claim"));
        crate::fault::point();
        fs::remove_file(&mine)?;
        match taken {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Who took it: nobody yet, a daemon that gave it up, or a keeper.
    pub(super) fn claimed(&self) -> Option<Option<Identity>> {
        self.read("claim").ok()
    }

    pub(super) fn write_running(&self, running: &Running) -> io::Result<()> {
        self.replace("running.json", running)
    }

    pub(super) fn running(&self) -> Option<Running> {
        self.read("running.json").ok()
    }

    /// The last word in place of a keeper that was killed.
    pub(super) fn write_ended(&self, ended: &Ended) -> io::Result<()> {
        self.replace("ended.json", ended)
    }

    /// Kills whatever was started in this attempt, its keeper aside. Says whether nothing is left.
    pub(super) fn kill_programs(&self) -> bool {
        kill_marked(MARK, &self.0)
    }

    pub(super) fn ended(&self) -> Option<Ended> {
        self.read("ended.json").ok()
    }

    pub(super) fn write_control(&self, control: &Control) -> io::Result<()> {
        self.replace("control.json", control)
    }

    pub(super) fn control(&self) -> Option<Control> {
        self.read("control.json").ok()
    }

    /// Makes room for the last word, so that it can be said even when the disk is full.
    pub(super) fn reserve_ended(&self) -> io::Result<Reserved> {
        let mut file =
            OpenOptions::new().create(true).truncate(true).write(true).open(self.0.join("ended.reserved"))?;
        file.write_all(&[b' '; 4096])?;
        Ok(Reserved { file, folder: self.clone() })
    }

    pub(super) fn replace(&self, name: &str, what: &impl Serialize) -> io::Result<()> {
        self.write_beside(name, what)?;
        self.take_over(name)
    }

    /// The same, and what it says is safe on disk before it has its name.
    pub(super) fn replace_safely(&self, name: &str, what: &impl Serialize) -> io::Result<()> {
        self.write_beside(name, what)?.sync_all()?;
        self.take_over(name)?;
        File::open(&self.0)?.sync_all()
    }

    fn write_beside(&self, name: &str, what: &impl Serialize) -> io::Result<File> {
        let mut file = File::create(self.0.join(format!("{name}.new")))?;
        file.write_all(&serde_json::to_vec(what)?)?;
        Ok(file)
    }

    fn take_over(&self, name: &str) -> io::Result<()> {
        crate::fault::point();
        fs::rename(self.0.join(format!("{name}.new")), self.0.join(name))?;
        crate::fault::point();
        Ok(())
    }

    pub(super) fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<T> {
        Ok(serde_json::from_slice(&fs::read(self.0.join(name))?)?)
    }
}

/// Room for the last word.
#[derive(Debug)]
pub(super) struct Reserved {
    file: File,
    folder: Folder,
}

impl Reserved {
    pub(super) fn write(mut self, ended: &Ended) -> io::Result<()> {
        self.file.rewind()?;
        // Spaces stay behind it, which JSON allows.
        self.file.write_all(&serde_json::to_vec(ended)?)?;
        fs::rename(self.folder.0.join("ended.reserved"), self.folder.0.join("ended.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_taken_once() {
        let at = tempfile::tempdir().unwrap();
        let folder = Folder::of(at.path(), JobId(3), Attempt(1));
        folder.write_order(&Order { grace_s: 1, begun_from: 0.0, programs: Vec::new() }).unwrap();
        assert_eq!(folder.claimed(), None);
        assert!(folder.claim(None).unwrap());
        assert!(!folder.claim(Some(Identity { pid: 1, began: 2 })).unwrap());
        assert_eq!(folder.claimed(), Some(None));
    }

    #[test]
    fn the_last_word_is_read_as_it_was_said() {
        let at = tempfile::tempdir().unwrap();
        let folder = Folder(at.path().to_owned());
        let reserved = folder.reserve_ended().unwrap();
        assert_eq!(folder.ended(), None);
        let ended = Ended { code: Some(3), signal: None, told: true, refused: None };
        reserved.write(&ended).unwrap();
        assert_eq!(folder.ended(), Some(ended));
    }
}
