//! A partition at work. All go on from one state, then iterate together; whenever somebody is lost or comes back they stop where they
//! are, and agree on a state anew.
//!
//! They agree along the chain: the first offers what states it has, each one after strikes out what it has not, and the last
//! takes the latest that is left and tells it back. Whatever was sent before that is of an older round and is ignored.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Partitioning;
use super::links::{Heard, Links, Side, frames};
use super::message::{Common, Message};
use super::states::States;
use super::wave::{Wave, fits, outputs, part};
use crate::checkpoint::Progress;
use crate::error::TrainError;
use crate::net::Numbers;
use crate::notice::Notice;
use crate::program::{Ended, Files, Outcome, Stops, Training, outcome};
use crate::report::{Line, Report};
use crate::served::MEASURED;

/// How often whoever waits looks whether a signal came.
const LOOK: Duration = Duration::from_millis(20);
/// How long one that was asked to end goes on to the end of the iteration under way. After that it goes back to where that began.
const LEAVE: Duration = Duration::from_secs(2);
/// How long the last ones wait for the connection to those who leave before them to be closed.
const FAREWELL: Duration = Duration::from_secs(2);
/// So many pieces are on their way at a time when the loss is measured.
const ON_THEIR_WAY: usize = 4;

/// Trains one partition of a model, with the processes of the others; until it is time to stop, or until `asked` is set.
pub fn partition(
    training: &mut Training,
    stops: &Stops,
    files: &Files,
    report: &mut Report,
    asked: &AtomicBool,
    notice: &mut dyn FnMut(Notice),
    settings: &Partitioning,
) -> Result<Outcome, TrainError> {
    training.cut(settings.number, settings.count)?;
    fits(training)?;
    let states = States::new(training, files.checkpoint.clone(), settings.resume)?;
    let identity = training.identity().clone();
    let common = Common { identity, count: settings.count, stops: *stops };
    let begun = states.latest();
    let mut chain = Chain {
        links: Links::open(settings, common)?,
        training,
        states,
        settings,
        stops,
        control: files.control.clone(),
        report,
        notice,
        asked,
        asked_since: None,
        under_way: false,
        round: 0,
        offer: None,
        passed: false,
        go: None,
        over: false,
        leave: false,
        told: begun,
        last: None,
        seconds: 0.0,
    };
    let ended = loop {
        match chain.turn() {
            Ok(ended) => break ended,
            Err(Halt::Again) => {}
            Err(Halt::Leave) => break chain.left()?,
            Err(Halt::Failed(error)) => return Err(error),
        }
    };
    let (accuracy, seconds) = (chain.last.and_then(|line| line.accuracy), chain.seconds);
    let line = chain.line(accuracy, seconds);
    Ok(outcome(training, begun, ended, &line))
}

/// After how many iterations the latest state was saved that a partition may go on from.
pub fn latest(training: &Training, files: &Files, resume: bool) -> Result<u64, TrainError> {
    Ok(States::new(training, files.checkpoint.clone(), resume)?.latest())
}

/// Why a partition stops where it is.
enum Halt {
    /// All have to agree on a state anew.
    Again,
    /// It was asked to end.
    Leave,
    Failed(TrainError),
}

impl From<TrainError> for Halt {
    fn from(error: TrainError) -> Self {
        Self::Failed(error)
    }
}

struct Chain<'a> {
    links: Links<'a>,
    training: &'a mut Training,
    states: States,
    settings: &'a Partitioning,
    stops: &'a Stops,
    control: Option<PathBuf>,
    report: &'a mut Report,
    notice: &'a mut dyn FnMut(Notice),
    asked: &'a AtomicBool,
    asked_since: Option<Instant>,
    /// Whether something was done of the next iteration.
    under_way: bool,
    round: u64,
    /// The states that those before this one have, until it is known which one all go on from.
    offer: Option<Vec<u64>>,
    /// Whether the offer was passed on.
    passed: bool,
    /// What all go on from, and the round in which they agreed.
    go: Option<(u64, Progress)>,
    /// Whether all before this one have saved the last state, and whether all have.
    over: bool,
    leave: bool,
    /// The latest iteration that was reported.
    told: u64,
    last: Option<Line>,
    seconds: f64,
}

impl Chain<'_> {
    const fn is_first(&self) -> bool {
        self.settings.number == 0
    }

    const fn is_last(&self) -> bool {
        self.settings.number + 1 == self.settings.count
    }

    /// From one agreement to the next, or to the end.
    fn turn(&mut self) -> Result<Ended, Halt> {
        self.agree()?;
        loop {
            if let Some(ended) = self.training.ended(self.stops) {
                self.finish()?;
                return Ok(ended);
            }
            if self.asked.load(Ordering::SeqCst) {
                return Err(Halt::Leave);
            }
            self.iterate()?;
        }
    }

    /// Finds the state that all go on from, and goes there.
    fn agree(&mut self) -> Result<(), Halt> {
        (self.under_way, self.over, self.leave) = (false, false, false);
        loop {
            if self.asked.load(Ordering::SeqCst) {
                return Err(Halt::Leave);
            }
            if self.is_last() || self.links.has(Side::After) {
                self.pass()?;
            }
            if let Some((_, progress)) = self.go.take_if(|(round, _)| *round == self.round) {
                self.step(progress)?;
                self.links.say(Side::Before, &Message::Go { round: self.round, progress });
                self.offer = None;
                return Ok(());
            }
            match self.hear() {
                Ok(()) | Err(Halt::Again) => {}
                Err(halt) => return Err(halt),
            }
        }
    }

    /// Passes an offer on; the first one makes it, the last one answers it.
    fn pass(&mut self) -> Result<(), TrainError> {
        if self.is_first() && self.offer.is_none() {
            self.round += 1;
            (self.offer, self.passed) = (Some(self.states.all().into_iter().collect()), false);
            self.links.forget();
        }
        let Some(offer) = self.offer.as_ref().filter(|_| !self.passed) else { return Ok(()) };
        let own = self.states.all();
        let states: Vec<u64> = offer.iter().copied().filter(|state| own.contains(state)).collect();
        if self.is_last() {
            let latest = states.iter().max().copied().unwrap_or_default();
            self.go = Some((self.round, self.states.progress(self.training, latest)?));
        } else {
            self.links.say(Side::After, &Message::Offer { round: self.round, states });
        }
        self.passed = true;
        Ok(())
    }

    /// Goes to a state.
    fn step(&mut self, progress: Progress) -> Result<(), TrainError> {
        let from = self.training.iteration();
        self.states.back(self.training, progress)?;
        (self.notice)(Notice::Together { iteration: progress.iteration, from });
        Ok(())
    }

    /// Takes in what comes next.
    fn hear(&mut self) -> Result<(), Halt> {
        if self.asked.load(Ordering::SeqCst) {
            let since = *self.asked_since.get_or_insert_with(Instant::now);
            if !self.under_way || since.elapsed() > LEAVE {
                return Err(Halt::Leave);
            }
        }
        match self.links.hear(LOOK, self.round)? {
            None => Ok(()),
            Some(Heard::Joined(side, round)) => {
                (self.notice)(Notice::Linked { partition: self.links.number(side) });
                self.joined(side, round);
                Ok(())
            }
            Some(Heard::Lost(side, reason)) => {
                (self.notice)(Notice::Waiting { partition: self.links.number(side), reason });
                Err(Halt::Again)
            }
            Some(Heard::Said(side, message)) => self.obey(side, message),
        }
    }

    /// Somebody is there, or is again, who knows of a round.
    fn joined(&mut self, side: Side, round: u64) {
        if side == Side::Before {
            // What it was told as this one knocked may have been less.
            if round < self.round {
                self.links.say(Side::Before, &Message::Again { round: self.round });
            }
            return;
        }
        self.passed = false;
        if self.offer.is_none() || round >= self.round {
            self.again(round);
        }
    }

    /// All have to agree anew, in a later round than this and any that is known here.
    fn again(&mut self, round: u64) {
        self.round = self.round.max(round);
        self.offer = None;
        self.links.say(Side::Before, &Message::Again { round: self.round });
    }

    fn obey(&mut self, side: Side, message: Message) -> Result<(), Halt> {
        match (side, message) {
            (Side::Before, Message::Offer { round, states }) => {
                if round <= self.round {
                    return Ok(());
                }
                (self.round, self.offer, self.passed) = (round, Some(states), false);
                self.links.forget();
                return Err(Halt::Again);
            }
            (Side::After, Message::Again { round }) => {
                self.again(round);
                return Err(Halt::Again);
            }
            (Side::After, Message::Go { round, progress }) => self.go = Some((round, progress)),
            (Side::Before, Message::Over { round }) => self.over |= round == self.round,
            (Side::After, Message::Leave { round }) => self.leave |= round == self.round,
            (side, message) => return Err(self.nonsense(side, &format!("it said {message:?}"))),
        }
        Ok(())
    }

    /// Somebody who knows the secret says what makes no sense here: it is left, and may come again.
    fn nonsense(&mut self, side: Side, what: &str) -> Halt {
        self.links.lose(side, what.to_owned());
        (self.notice)(Notice::Waiting { partition: self.links.number(side), reason: what.to_owned() });
        Halt::Again
    }

    /// The numbers of a piece of a step, of which there must be so many.
    fn take(&mut self, side: Side, (step, piece): (u64, usize), count: usize) -> Result<Vec<f64>, Halt> {
        let mut values = Vec::with_capacity(count);
        let mut level = 0;
        while level < frames(count) {
            let Some(numbers) = self.links.pop(side) else {
                self.hear()?;
                continue;
            };
            if numbers.version != self.round {
                continue;
            }
            let Numbers { block, first, level: at, count: of, values: some, .. } = numbers;
            let fits = (u64::from(block), first as usize) == (step, piece)
                && (at as usize, of as usize) == (level, frames(count))
                && values.len() + some.len() <= count;
            if !fits {
                let what = format!(
                    "it sent part {at} of piece {first} of step {block} where piece {piece} of {step} was due"
                );
                return Err(self.nonsense(side, &what));
            }
            values.extend(some);
            level += 1;
        }
        if values.len() == count {
            Ok(values)
        } else {
            Err(self.nonsense(side, &format!("{} of {count} numbers came", values.len())))
        }
    }

    fn send(&mut self, side: Side, (step, piece): (u64, usize), values: &[f64]) {
        self.links.send(side, (self.round, step, piece), values);
    }

    /// One iteration, from the first update to the loss.
    fn iterate(&mut self) -> Result<(), Halt> {
        if let Some(control) = self.control.clone() {
            self.training.obey(&control, self.notice)?;
        }
        let mut began = Instant::now();
        let updates = part(self.training).rule().updates();
        let first = self.training.iteration() * updates;
        for step in 0..updates {
            self.update(first + step, step, &mut began)?;
        }
        if !self.is_last() {
            self.states.arrive(self.training.iteration() + 1);
        }
        let (sums, last) = self.measure(updates)?;
        self.commit((updates, last), &sums, began)
    }

    /// One update: rows go through and their slopes come back.
    fn update(&mut self, update: u64, step: u64, began: &mut Instant) -> Result<(), Halt> {
        let wave = Wave::update(self.training, update);
        let (inputs, out) = (part(self.training).inputs(), part(self.training).outputs());
        let mut gradient = wave.sum();
        let mut on_their_way = Vec::with_capacity(wave.pieces());
        for piece in 0..wave.pieces() {
            let input = match self.is_first() {
                true => Vec::new(),
                false => self.take(Side::Before, (step, piece), wave.rows(piece) * inputs)?,
            };
            if !std::mem::replace(&mut self.under_way, true) {
                *began = Instant::now();
            }
            let held = wave.forward(self.training, piece, &input);
            if self.is_last() {
                let slopes = wave.losses(self.training, piece, &held, &mut wave.sum());
                let below = wave.backward(self.training, piece, held, &slopes, &mut gradient);
                self.send(Side::Before, (step, piece), &below);
            } else {
                self.send(Side::After, (step, piece), &outputs(&held));
                on_their_way.push(held);
            }
        }
        for (piece, held) in on_their_way.into_iter().enumerate() {
            let slopes = self.take(Side::After, (step, piece), wave.rows(piece) * out)?;
            let below = wave.backward(self.training, piece, held, &slopes, &mut gradient);
            self.send(Side::Before, (step, piece), &below);
        }
        self.states.leave(self.training);
        part(self.training).apply(update, &gradient.total());
        Ok(())
    }

    /// Runs all rows through. Each piece is answered, and the last answer is what all of them came to; it is passed on by whoever
    /// has taken it up.
    fn measure(&mut self, step: u64) -> Result<(Vec<f64>, usize), Halt> {
        let wave = Wave::measure(self.training);
        let (inputs, last) = (part(self.training).inputs(), wave.pieces() - 1);
        let mut sums = wave.sum();
        let mut answered = 0;
        for piece in 0..wave.pieces() {
            let input = match self.is_first() {
                true => Vec::new(),
                false => self.take(Side::Before, (step, piece), wave.rows(piece) * inputs)?,
            };
            let held = wave.forward(self.training, piece, &input);
            if self.is_last() {
                wave.losses(self.training, piece, &held, &mut sums);
                if piece < last {
                    self.send(Side::Before, (step, piece), &[]);
                }
                continue;
            }
            self.send(Side::After, (step, piece), &outputs(&held));
            if piece + 1 - answered >= ON_THEIR_WAY && answered < last {
                self.answer(step, answered)?;
                answered += 1;
            }
        }
        if self.is_last() {
            return Ok((sums.total(), last));
        }
        for piece in answered..last {
            self.answer(step, piece)?;
        }
        Ok((self.take(Side::After, (step, last), MEASURED)?, last))
    }

    /// Takes the answer to a piece, and passes it on.
    fn answer(&mut self, step: u64, piece: usize) -> Result<(), Halt> {
        self.take(Side::After, (step, piece), 0)?;
        self.send(Side::Before, (step, piece), &[]);
        Ok(())
    }

    /// An iteration is done. It is told and, if that is due, saved, before those before this one learn of it: so all after have saved
    /// what one may need who was lost.
    fn commit(&mut self, last: (u64, usize), sums: &[f64], began: Instant) -> Result<(), Halt> {
        let measured = part(self.training).measured(sums);
        let counted = self.training.count(measured, began.elapsed().as_secs_f64(), self.stops);
        let mut line = match counted {
            Ok(line) => line,
            Err(error) => {
                // All shall know that it diverged.
                self.send(Side::Before, last, sums);
                return Err(error.into());
            }
        };
        self.states.arrive(line.iteration);
        self.under_way = false;
        line.workers = self.line(None, 0.0).workers;
        self.seconds += line.seconds;
        self.last = Some(line);
        if line.iteration > self.told {
            if let Err(error) = self.report.write(&line) {
                // That nobody can be told is no reason to lose what was done.
                self.states.save_all(self.training)?;
                return Err(error.into());
            }
            self.told = line.iteration;
        }
        if self.states.is_due(line.iteration) {
            self.states.save_due(self.training)?;
            self.tell_saved(line.iteration)?;
        }
        self.send(Side::Before, last, sums);
        Ok(())
    }

    fn tell_saved(&mut self, iteration: u64) -> Result<(), TrainError> {
        (self.notice)(Notice::Saved { iteration });
        self.report.saved(iteration)
    }

    /// The last state is reached: it is saved, and when all have saved it, they leave, from the last one to the first.
    fn finish(&mut self) -> Result<(), Halt> {
        if self.states.save(self.training)? {
            self.tell_saved(self.training.iteration())?;
        }
        while !self.is_first() && !self.over {
            self.hear()?;
        }
        self.links.say(Side::After, &Message::Over { round: self.round });
        while !self.is_last() && !self.leave {
            self.hear()?;
        }
        self.links.say(Side::Before, &Message::Leave { round: self.round });
        let until = Instant::now() + FAREWELL;
        while self.links.has(Side::Before) && Instant::now() < until {
            if self.links.hear(LOOK, self.round).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// It was asked to end: it takes along what it has.
    fn left(&mut self) -> Result<Ended, TrainError> {
        if let Some(iteration) = self.states.save_all(self.training)? {
            self.tell_saved(iteration)?;
        }
        Ok(self.training.ended(self.stops).unwrap_or(Ended::Asked))
    }

    /// A line without a loss that says who is at work.
    fn line(&self, accuracy: Option<f64>, seconds: f64) -> Line {
        let (iteration, threads) = (self.training.iteration(), self.training.pool.threads());
        let workers = (self.settings.count > 1).then_some(self.settings.count);
        Line { iteration, loss: 0.0, accuracy, seconds, threads, workers, servers: None }
    }
}
