//! A training program from beginning to end: iterations, reports, checkpoints, a number of threads that may change, and when to stop.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde::Serialize;

use crate::algorithm::{Algorithm, Entry};
use crate::checkpoint::{Checkpoint, Identity, Progress};
use crate::data::Data;
use crate::error::TrainError;
use crate::parameters::Values;
use crate::pool::Pool;
use crate::report::{Line, Report};

/// The most threads that a program takes.
const MOST_THREADS: usize = 1024;
/// So many iterations in succession must change little for a change to count as small.
const CALM: u32 = 5;

/// An algorithm at work on its data.
pub struct Training {
    algorithm: Box<dyn Algorithm>,
    data: Data,
    pool: Pool,
    identity: Identity,
    progress: Progress,
}

/// When to stop; whatever comes first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stops {
    /// After so many iterations, those before a checkpoint among them.
    pub iterations: u64,
    /// When the loss is no more than this.
    pub loss: Option<f64>,
    /// When the loss changed by less than this part of it in five iterations in succession.
    pub change: Option<f64>,
}

/// The files of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Where state is written, and after how many iterations each time; it is also written at the end.
    pub checkpoint: Option<(PathBuf, u64)>,
    /// Where the number of threads stands. It is read before each iteration.
    pub control: Option<PathBuf>,
}

/// Why a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// All iterations are done.
    Iterations,
    /// The loss is low enough.
    Loss,
    /// The loss hardly changes.
    Change,
    /// It was told to.
    Asked,
}

/// What is told while a program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// From this iteration on there is another number of threads.
    Resized {
        /// The iteration.
        iteration: u64,
        /// Before.
        from: usize,
        /// Now.
        to: usize,
    },
    /// The control file does not say a number of threads; it stays.
    NoNumber {
        /// The file.
        path: PathBuf,
        /// Its beginning, or why it cannot be read.
        text: String,
    },
    /// State was written.
    Saved {
        /// After this iteration.
        iteration: u64,
    },
}

/// What a program came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Whose.
    #[serde(flatten)]
    pub identity: Identity,
    /// Why it ended.
    pub ended: Ended,
    /// Iterations that are done.
    pub iterations: u64,
    /// How many of them were done by this process.
    pub iterations_here: u64,
    /// The loss of the first iteration.
    pub first_loss: Option<f64>,
    /// The loss of the last one.
    pub loss: Option<f64>,
    /// The accuracy after the last one, if it was measured by this process.
    pub accuracy: Option<f64>,
    /// How long the iterations of this process took.
    pub seconds: f64,
    /// On how many threads the last one ran.
    pub threads: usize,
}

impl Training {
    /// Begins an algorithm; nothing is iterated yet.
    pub fn begin(
        entry: &'static Entry,
        values: &Values,
        data: Data,
        seed: u64,
        threads: usize,
    ) -> Result<Self, TrainError> {
        data.check(entry.name, entry.needs)?;
        let pool = Pool::new(threads.min(MOST_THREADS))?;
        let algorithm = (entry.begin)(values, &data, seed, &pool)?;
        let identity = Identity {
            algorithm: entry.name.to_owned(),
            parameters: values.line(),
            seed,
            data: data.digest(),
        };
        Ok(Self { algorithm, data, pool, identity, progress: Progress::default() })
    }

    /// Goes back to a checkpoint of the same program.
    pub fn resume(&mut self, path: &Path) -> Result<(), TrainError> {
        let checkpoint = Checkpoint::read(path)?;
        if let Some(reason) = checkpoint.strange_to(&self.identity) {
            return Err(TrainError::Resume { path: path.to_owned(), reason });
        }
        let restored = self.algorithm.restore(&checkpoint.state, &self.data, &self.pool);
        restored.map_err(|source| TrainError::State { path: path.to_owned(), source })?;
        self.progress = checkpoint.progress;
        Ok(())
    }

    /// Iterations that are done.
    pub fn iteration(&self) -> u64 {
        self.progress.iteration
    }

    /// All state, to be gone on from.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            identity: self.identity.clone(),
            progress: self.progress,
            state: self.algorithm.tensors(),
        }
    }

    /// Changes the number of threads; no result depends on it.
    pub fn resize(&mut self, threads: usize) -> Result<(), TrainError> {
        self.pool.resize(threads.min(MOST_THREADS))
    }

    /// One iteration.
    pub fn iterate(&mut self, stops: &Stops) -> Result<Line, TrainError> {
        let began = Instant::now();
        let measured = self.algorithm.iterate(&self.data, &self.pool);
        let seconds = began.elapsed().as_secs_f64();
        let iteration = self.progress.iteration + 1;
        if !measured.loss.is_finite() {
            return Err(TrainError::Diverged { iteration, loss: measured.loss });
        }
        let still = |before: f64| {
            stops.change.is_some_and(|change| (before - measured.loss).abs() < change * before.abs())
        };
        let calm = if self.progress.loss.is_some_and(still) { self.progress.calm + 1 } else { 0 };
        let first = self.progress.first.or(Some(measured.loss));
        self.progress = Progress { iteration, first, loss: Some(measured.loss), calm };
        let (loss, accuracy) = (measured.loss, measured.accuracy);
        Ok(Line { iteration, loss, accuracy, seconds, threads: self.pool.threads() })
    }

    /// Why it should stop here, if it should.
    fn ended(&self, stops: &Stops) -> Option<Ended> {
        let low = |loss: f64| stops.loss.is_some_and(|enough| loss <= enough);
        if self.progress.loss.is_some_and(low) {
            Some(Ended::Loss)
        } else if stops.change.is_some() && self.progress.calm >= CALM {
            Some(Ended::Change)
        } else {
            (self.progress.iteration >= stops.iterations).then_some(Ended::Iterations)
        }
    }

    /// Takes the number of threads from the control file.
    fn obey(&mut self, path: &Path, notice: &mut dyn FnMut(Notice)) -> Result<(), TrainError> {
        let said = std::fs::read_to_string(path);
        let number = said.as_ref().ok().and_then(|text| text.trim().parse().ok());
        let Some(to) = number.filter(|number| (1..=MOST_THREADS).contains(number)) else {
            let text = said.unwrap_or_else(|error| error.to_string());
            let text = text.trim().chars().take(40).collect();
            notice(Notice::NoNumber { path: path.to_owned(), text });
            return Ok(());
        };
        let from = self.pool.threads();
        if from != to {
            self.resize(to)?;
            notice(Notice::Resized { iteration: self.iteration() + 1, from, to });
        }
        Ok(())
    }
}

/// Iterates until it is time to stop, or until `asked` is set; then the iteration under way is ended and state is written.
pub fn run(
    training: &mut Training,
    stops: &Stops,
    files: &Files,
    report: &mut Report,
    asked: &AtomicBool,
    notice: &mut dyn FnMut(Notice),
) -> Result<Outcome, TrainError> {
    let begun = training.iteration();
    let (mut seconds, mut accuracy) = (0.0, None);
    let mut saved = begun;
    let ended = loop {
        if let Some(ended) = training.ended(stops) {
            break ended;
        }
        if asked.load(Ordering::SeqCst) {
            break Ended::Asked;
        }
        if let Some(control) = &files.control {
            training.obey(control, notice)?;
        }
        let line = training.iterate(stops)?;
        if let Err(error) = report.write(&line) {
            // That nobody can be told is no reason to lose what was done.
            if let Some((path, _)) = &files.checkpoint {
                training.checkpoint().write(path)?;
            }
            return Err(error);
        }
        seconds += line.seconds;
        accuracy = line.accuracy;
        if let Some((path, every)) = &files.checkpoint
            && training.iteration().is_multiple_of(*every)
        {
            training.checkpoint().write(path)?;
            saved = training.iteration();
            notice(Notice::Saved { iteration: saved });
        }
    };
    if let Some((path, _)) = &files.checkpoint
        && (saved != training.iteration() || saved == 0)
    {
        training.checkpoint().write(path)?;
        notice(Notice::Saved { iteration: training.iteration() });
    }
    Ok(Outcome {
        identity: training.identity.clone(),
        ended,
        iterations: training.iteration(),
        iterations_here: training.iteration() - begun,
        first_loss: training.progress.first,
        loss: training.progress.loss,
        accuracy,
        seconds,
        threads: training.pool.threads(),
    })
}
