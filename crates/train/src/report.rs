//! What a program reports: one line of JSON for each iteration, written at once.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::checkpoint::beside;
use crate::error::TrainError;

/// An iteration as it is reported.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Which one, from 1.
    pub iteration: u64,
    /// The loss.
    pub loss: f64,
    /// The part that is classified rightly, where there are classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// How long it took.
    pub seconds: f64,
    /// On how many threads.
    pub threads: usize,
    /// By how many processes, if there are others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
    /// On how many servers the parameters lie, if on any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<usize>,
}

/// Where lines go.
pub struct Report {
    to: Box<dyn Write + Send>,
    path: std::path::PathBuf,
    tells_saved: bool,
}

#[derive(Deserialize)]
struct Numbered {
    iteration: u64,
}

impl Report {
    /// To standard output or anything else; `name` is what errors call it.
    pub fn to(name: &str, to: Box<dyn Write + Send>) -> Self {
        Self { to, path: name.into(), tells_saved: false }
    }

    /// To a file. Lines that are there stay if they are of iterations up to `done`: what was reported after the checkpoint that a
    /// program goes on from will be reported again.
    pub fn file(path: &Path, done: u64) -> Result<Self, TrainError> {
        let refuse = |source| TrainError::File { act: "write the report to", path: path.to_owned(), source };
        keep(path, done).map_err(refuse)?;
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(refuse)?;
        Ok(Self { to: Box::new(file), path: path.to_owned(), tells_saved: false })
    }

    /// The same with a line for each state that was saved, which a scheduler likes to know.
    #[must_use]
    pub fn telling_saved(self) -> Self {
        Self { tells_saved: true, ..self }
    }

    /// Writes a line.
    pub fn write(&mut self, line: &Line) -> Result<(), TrainError> {
        let mut text = serde_json::to_string(line).expect("it has no keys but strings");
        text.push('\n');
        self.put(&text)
    }

    /// Says that the state after this iteration is safe, if that is to be told.
    pub fn saved(&mut self, iteration: u64) -> Result<(), TrainError> {
        if self.tells_saved { self.put(&format!("{{\"saved\":{iteration}}}\n")) } else { Ok(()) }
    }

    fn put(&mut self, text: &str) -> Result<(), TrainError> {
        let written = self.to.write_all(text.as_bytes()).and_then(|()| self.to.flush());
        written.map_err(|source| TrainError::File {
            act: "write the report to",
            path: self.path.clone(),
            source,
        })
    }
}

/// Takes lines out that are of later iterations, or cut short.
fn keep(path: &Path, done: u64) -> std::io::Result<()> {
    let old = match File::open(path) {
        Ok(old) if done > 0 => old,
        Ok(_) => return File::create(path).map(drop),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut new = File::create(beside(path))?;
    for line in BufReader::new(old).lines() {
        let line = line?;
        if serde_json::from_str(&line).is_ok_and(|line: Numbered| line.iteration <= done) {
            writeln!(new, "{line}")?;
        }
    }
    new.sync_all()?;
    std::fs::rename(beside(path), path)
}
