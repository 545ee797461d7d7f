//! One of several copies of a job: it saves when all are to be brought together, waits, and goes on from what came of that. The
//! scheduler says so in its control file; see `docs/job-contract.md`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::checkpoint::beside;
use crate::error::TrainError;
use crate::program::Training;
use crate::report::Report;

/// How often a copy that waits looks whether it may go on.
const LOOK: Duration = Duration::from_millis(10);

/// Which copy this process is, and where it is told what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneCopy {
    /// Its number, from 0.
    pub number: u32,
    /// What the scheduler says.
    pub control: PathBuf,
    /// Where it answers.
    pub answer: PathBuf,
}

/// The part of the training data that is one copy's own until all are brought together: from one fraction to another of an order
/// that all copies draw alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// The iteration from which all copies go on.
    pub since: u64,
}

/// What stands in the control file, as far as it matters here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Said {
    stop: bool,
    until: Option<u64>,
    merge: u64,
    merged: u64,
    part: Option<[f64; 2]>,
}

/// What it answers.
#[derive(Serialize)]
struct Answer {
    merge: u64,
    iteration: u64,
}

/// What a copy is to do before its next iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Train,
    /// Save, and answer that merge.
    Save(u64),
    /// Take up the state that lies where it saves, which is of that merge.
    Load(u64),
    Wait,
    Stop,
}

/// A copy at work.
#[derive(Debug)]
pub(crate) struct Copied {
    pub(crate) copy: OneCopy,
    said: Said,
    /// The last merge that it answered, and the last that it took up.
    answered: u64,
    taken: u64,
    /// The iteration that it goes on from since all were equal.
    since: u64,
}

impl Copied {
    /// One that begins after so many iterations.
    pub(crate) fn new(copy: OneCopy, since: u64) -> Self {
        Self { copy, said: Said::default(), answered: 0, taken: 0, since }
    }

    /// The part of the data that it was told to take.
    fn part(&self) -> Option<Part> {
        self.said.part.map(|[from, to]| Part { from, to, since: self.since })
    }

    /// What to do after so many iterations.
    pub(crate) fn turn(&mut self, iteration: u64) -> Turn {
        // A file that cannot be read now can be at the next look; until then holds what it said.
        if let Some(said) = read(&self.copy.control) {
            self.said = said;
        }
        let Said { stop, until, merge, merged, .. } = self.said;
        if stop {
            Turn::Stop
        } else if merge > self.answered.max(self.taken) {
            Turn::Save(merge)
        } else if merged > self.taken {
            Turn::Load(merged)
        } else if self.answered > self.taken || until.is_some_and(|until| until <= iteration) {
            Turn::Wait
        } else {
            Turn::Train
        }
    }

    /// Does what is to be done before the next iteration, and says what that was.
    pub(crate) fn obey(
        &mut self,
        training: &mut Training,
        path: &Path,
        save: &mut dyn FnMut(&mut Training) -> Result<(), TrainError>,
        report: &mut Report,
    ) -> Result<Turn, TrainError> {
        let turn = self.turn(training.iteration());
        match turn {
            Turn::Save(merge) => {
                save(training)?;
                report.saved(training.iteration())?;
                self.answer(merge, training.iteration())?;
            }
            Turn::Load(merged) => {
                training.resume(path)?;
                (self.taken, self.since) = (merged, training.iteration());
            }
            Turn::Wait => std::thread::sleep(LOOK),
            Turn::Train => training.algorithm.take_part(self.part()),
            Turn::Stop => {}
        }
        Ok(turn)
    }

    /// Says that the state after so many iterations is safe; merge 0 tells what it began from.
    pub(crate) fn answer(&mut self, merge: u64, iteration: u64) -> Result<(), TrainError> {
        let text = serde_json::to_string(&Answer { merge, iteration }).expect("it has no keys but strings");
        let path = &self.copy.answer;
        let written = std::fs::write(beside(path), text).and_then(|()| std::fs::rename(beside(path), path));
        written.map_err(|source| TrainError::File { act: "answer in", path: path.clone(), source })?;
        self.answered = self.answered.max(merge);
        Ok(())
    }
}

fn read(path: &Path) -> Option<Said> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_does_what_it_is_told_in_the_right_order() {
        let place = tempfile::tempdir().expect("a folder");
        let copy = OneCopy { number: 1, control: place.path().join("c"), answer: place.path().join("a") };
        let mut copied = Copied::new(copy.clone(), 5);
        let say = |text: &str| std::fs::write(&copy.control, text).expect("it is written");
        assert_eq!(copied.turn(5), Turn::Train, "nobody says anything yet");
        say("{\"version\":1,\"until\":7,\"merge\":0,\"merged\":0,\"more\":1}");
        assert_eq!([copied.turn(6), copied.turn(7)], [Turn::Train, Turn::Wait]);
        say("{\"until\":7,\"merge\":1,\"merged\":0}");
        assert_eq!(copied.turn(7), Turn::Save(1));
        copied.answer(1, 7).expect("it can be written");
        assert_eq!(
            std::fs::read_to_string(&copy.answer).expect("it is there"),
            "{\"merge\":1,\"iteration\":7}"
        );
        say("half a file");
        assert_eq!(copied.turn(7), Turn::Wait);
        say("{\"until\":20,\"merge\":1,\"merged\":1}");
        assert_eq!(copied.turn(7), Turn::Load(1));
        copied.taken = 1;
        assert_eq!(copied.turn(12), Turn::Train);
        assert_eq!(copied.part(), None, "all of the data");
        say("{\"until\":20,\"merge\":1,\"merged\":1,\"part\":[0.25,0.75]}");
        assert_eq!(copied.turn(12), Turn::Train);
        assert_eq!(copied.part(), Some(Part { from: 0.25, to: 0.75, since: 5 }));
        say("{\"stop\":true,\"until\":20,\"merge\":2,\"merged\":1}");
        assert_eq!(copied.turn(12), Turn::Stop);
    }
}
