//! A training program from beginning to end: iterations, reports, checkpoints, a number of threads that may change, and when to stop.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::algorithm::{Algorithm, Entry, Measured};
use crate::checkpoint::{Checkpoint, Identity, Progress};
use crate::copy::{Copied, OneCopy, Turn};
use crate::data::Data;
use crate::error::TrainError;
use crate::merge::Merge;
use crate::momentum::Momentum;
use crate::notice::Notice;
use crate::parameters::Values;
use crate::pool::Pool;
use crate::report::{Line, Report};
use crate::ring::{self, Meeting};
use crate::served::{Scaled, Served, Share, State};

/// The most threads that a program takes.
const MOST_THREADS: usize = 1024;
/// So many iterations in succession must change little for a change to count as small.
const CALM: u32 = 5;

/// An algorithm at work on its data.
pub struct Training {
    pub(crate) algorithm: Box<dyn Algorithm>,
    pub(crate) data: Data,
    pub(crate) pool: Pool,
    identity: Identity,
    pub(crate) progress: Progress,
    copied: Option<Copied>,
}

/// When to stop; whatever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// How many processes trained together at the end, if there were others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
    /// On how many servers the parameters lay at the end, if on any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<usize>,
    /// The changes of workers and servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scaled: Vec<Scaled>,
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
        Ok(Self { algorithm, data, pool, identity, progress: Progress::default(), copied: None })
    }

    /// Goes back to a checkpoint of the same program.
    pub fn resume(&mut self, path: &Path) -> Result<(), TrainError> {
        self.go_back(&Checkpoint::read(path)?, path)
    }

    pub(crate) fn go_back(&mut self, checkpoint: &Checkpoint, path: &Path) -> Result<(), TrainError> {
        if let Some(reason) = checkpoint.strange_to(&self.identity) {
            return Err(TrainError::Resume { path: path.to_owned(), reason });
        }
        let restored = self.algorithm.restore(&checkpoint.state, &self.data, &self.pool);
        restored.map_err(|source| TrainError::State { path: path.to_owned(), source })?;
        self.progress = checkpoint.progress;
        Ok(())
    }

    /// Makes it one of several copies, if they would not all do the same.
    pub fn fork(&mut self, copy: OneCopy) -> Result<(), TrainError> {
        if !self.algorithm.fork(copy.number) {
            return Err(TrainError::NotForked { algorithm: self.identity.algorithm.clone() });
        }
        self.copied = Some(Copied::new(copy, self.iteration()));
        Ok(())
    }

    /// Becomes one of some partitions of its layers, in a chain.
    pub(crate) fn cut(&mut self, number: usize, count: usize) -> Result<(), TrainError> {
        let (algorithm, layers) = (self.identity.algorithm.clone(), self.algorithm.layers());
        let remedy = match self.algorithm.partition() {
            None => "take `mlp`",
            Some(_) if count > layers => "ask for fewer, or say more `layers`",
            Some(_) => {
                self.algorithm.cut(number, count);
                return Ok(());
            }
        };
        Err(TrainError::NotCut { algorithm, layers, partitions: count, remedy })
    }

    /// Trains together with other processes from now on. Rank 0 tells the others the state to go on from.
    pub fn join(&mut self, meeting: &Meeting) -> Result<(), TrainError> {
        let first = meeting.place.rank == 0;
        let state = if first && self.iteration() > 0 { self.checkpoint().bytes() } else { Vec::new() };
        let (ring, state) = ring::meet(meeting, &self.identity, state)?;
        if !first && !state.is_empty() {
            let path = Path::new("the state of rank 0");
            let broken = |reason| TrainError::Resume { path: path.to_owned(), reason };
            self.go_back(&Checkpoint::parse(&state).map_err(broken)?, path)?;
        }
        self.pool.join(ring);
        Ok(())
    }

    /// Whose it is.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    fn on_servers(&mut self) -> Result<&mut dyn Served, TrainError> {
        let algorithm = &self.identity.algorithm;
        self.algorithm.served().ok_or_else(|| TrainError::NotServed { algorithm: algorithm.clone() })
    }

    /// The rule of its updates and how many numbers it has, if these may lie on servers.
    pub(crate) fn served(&mut self) -> Result<(Momentum, usize), TrainError> {
        let served = self.on_servers()?;
        Ok((served.rule(), served.state().weights.len()))
    }

    /// What lies on servers.
    pub(crate) fn state(&mut self) -> Result<State<'_>, TrainError> {
        Ok(self.on_servers()?.state())
    }

    /// What the sums over all shards say.
    pub(crate) fn measured(&mut self, sums: &[f64]) -> Result<Measured, TrainError> {
        Ok(self.on_servers()?.measured(sums))
    }

    /// A share of the gradient of an update.
    pub(crate) fn gradient(&mut self, update: u64, share: Share) -> Result<Merge, TrainError> {
        let algorithm = &self.identity.algorithm;
        let served = self.algorithm.served();
        let served = served.ok_or_else(|| TrainError::NotServed { algorithm: algorithm.clone() })?;
        Ok(served.gradient(update, &self.data, &self.pool, share))
    }

    /// A share of what is measured.
    pub(crate) fn losses(&mut self, share: Share) -> Result<Merge, TrainError> {
        let algorithm = &self.identity.algorithm;
        let served = self.algorithm.served();
        let served = served.ok_or_else(|| TrainError::NotServed { algorithm: algorithm.clone() })?;
        Ok(served.losses(&self.data, &self.pool, share))
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
        let measured = self.algorithm.iterate(&self.data, &self.pool)?;
        self.count(measured, began.elapsed().as_secs_f64(), stops)
    }

    /// Counts an iteration that was made.
    pub(crate) fn count(
        &mut self,
        measured: Measured,
        seconds: f64,
        stops: &Stops,
    ) -> Result<Line, TrainError> {
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
        let threads = self.pool.threads();
        Ok(Line { iteration, loss, accuracy, seconds, threads, workers: None, servers: None })
    }

    /// Why it should stop here, if it should.
    pub(crate) fn ended(&self, stops: &Stops) -> Option<Ended> {
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
    pub(crate) fn obey(&mut self, path: &Path, notice: &mut dyn FnMut(Notice)) -> Result<(), TrainError> {
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

/// Who makes iterations.
pub(crate) trait Engine {
    /// Makes one.
    fn iterate(
        &mut self,
        training: &mut Training,
        notice: &mut dyn FnMut(Notice),
    ) -> Result<Measured, TrainError>;

    /// Whether to end here, given whether this process was asked to.
    fn asked(&mut self, training: &Training, asked: bool) -> Result<bool, TrainError>;

    /// Brings all state together, to be written.
    fn collect(&mut self, training: &mut Training, notice: &mut dyn FnMut(Notice)) -> Result<(), TrainError>;

    /// Says who made an iteration.
    fn sign(&self, training: &Training, line: &mut Line);
}

/// Iterations by this process, alone or with others in a ring.
struct Own<'a> {
    control: Option<&'a Path>,
}

impl Engine for Own<'_> {
    fn iterate(
        &mut self,
        training: &mut Training,
        notice: &mut dyn FnMut(Notice),
    ) -> Result<Measured, TrainError> {
        if let Some(control) = self.control {
            training.obey(control, notice)?;
        }
        training.algorithm.iterate(&training.data, &training.pool)
    }

    fn asked(&mut self, training: &Training, asked: bool) -> Result<bool, TrainError> {
        training.pool.any(asked)
    }

    fn collect(&mut self, _: &mut Training, _: &mut dyn FnMut(Notice)) -> Result<(), TrainError> {
        Ok(())
    }

    fn sign(&self, training: &Training, line: &mut Line) {
        line.workers = training.pool.processes();
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
    let mut engine = Own { control: files.control.as_deref() };
    run_by(&mut engine, training, stops, files, report, asked, notice)
}

/// The same, by whoever makes the iterations.
pub(crate) fn run_by(
    engine: &mut dyn Engine,
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
    let save = |engine: &mut dyn Engine, training: &mut Training, notice: &mut dyn FnMut(Notice)| {
        let Some((path, _)) = &files.checkpoint else { return Ok(()) };
        engine.collect(training, notice)?;
        training.checkpoint().write(path)
    };
    let mut copied = training.copied.take().zip(files.checkpoint.as_ref().map(|(path, _)| path.as_path()));
    if let Some((copied, _)) = copied.as_mut().filter(|_| begun > 0) {
        copied.answer(0, begun)?;
    }
    let ended = loop {
        if let Some((copied, path)) = copied.as_mut() {
            let mut save = |training: &mut Training| save(engine, training, &mut |_| {});
            let turn = copied.obey(training, path, &mut save, report)?;
            if matches!(turn, Turn::Load(_)) {
                saved = training.iteration();
                notice(Notice::Merged { iteration: saved });
            }
            if turn == Turn::Stop || asked.load(Ordering::SeqCst) {
                break Ended::Asked;
            }
            if turn != Turn::Train {
                continue;
            }
        }
        if let Some(ended) = training.ended(stops) {
            break ended;
        }
        if engine.asked(training, asked.load(Ordering::SeqCst))? {
            break Ended::Asked;
        }
        let began = Instant::now();
        let measured = engine.iterate(training, notice)?;
        let mut line = training.count(measured, began.elapsed().as_secs_f64(), stops)?;
        engine.sign(training, &mut line);
        if let Err(error) = report.write(&line) {
            // That nobody can be told is no reason to lose what was done.
            save(engine, training, notice)?;
            return Err(error);
        }
        seconds += line.seconds;
        accuracy = line.accuracy;
        if files.checkpoint.as_ref().is_some_and(|(_, every)| training.iteration().is_multiple_of(*every)) {
            save(engine, training, notice)?;
            saved = training.iteration();
            notice(Notice::Saved { iteration: saved });
            report.saved(saved)?;
        }
    };
    if files.checkpoint.is_some() && (saved != training.iteration() || saved == 0) {
        save(engine, training, notice)?;
        notice(Notice::Saved { iteration: training.iteration() });
        report.saved(training.iteration())?;
    }
    let (threads, iteration) = (training.pool.threads(), training.iteration());
    let mut last = Line { iteration, loss: 0.0, accuracy, seconds, threads, workers: None, servers: None };
    engine.sign(training, &mut last);
    Ok(outcome(training, begun, ended, &last))
}

/// What a program came to that began after so many iterations; its seconds, accuracy and processes stand in a line.
pub(crate) fn outcome(training: &Training, begun: u64, ended: Ended, last: &Line) -> Outcome {
    Outcome {
        identity: training.identity.clone(),
        ended,
        iterations: training.iteration(),
        iterations_here: training.iteration().saturating_sub(begun),
        first_loss: training.progress.first,
        loss: training.progress.loss,
        accuracy: last.accuracy,
        seconds: last.seconds,
        threads: last.threads,
        workers: last.workers,
        servers: last.servers,
        scaled: Vec::new(),
    }
}
