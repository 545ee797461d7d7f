//! The coordinator of a job on servers: it takes processes in, grants updates, gathers what is measured, and carries out changes of
//! workers and servers. It holds no parameters between checkpoints.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::blocks::Blocks;
use super::crew::Crew;
use super::message::{Message, Role};
use super::order::Order;
use super::scaling::{Scaled, Scaling};
use crate::algorithm::Measured;
use crate::error::TrainError;
use crate::merge::{Merge, Piece};
use crate::momentum::Momentum;
use crate::net::{Frame, FrameError, Hub, Numbers, Peer, Token, What};
use crate::notice::Notice;
use crate::program::{Engine, Files, Outcome, Stops, Training, run_by};
use crate::report::{Line, Report};

/// How often the control file is read.
const LOOK: Duration = Duration::from_millis(20);
/// How long those who were let go may take to close their connections.
const FAREWELL: Duration = Duration::from_secs(2);
/// The most updates that are granted at a time.
const MOST_AHEAD: f64 = 4096.0;

/// How a job on servers is coordinated.
pub struct Coordinating {
    /// Where the others connect.
    pub listen: String,
    /// A file to which the address is written.
    pub address: Option<PathBuf>,
    /// How many workers and servers it begins with.
    pub order: Order,
    /// A file that says how many there shall be; it is read all the time.
    pub control: Option<PathBuf>,
    /// What all processes share.
    pub token: Token,
    /// How long one waits for another, and how long another may be silent.
    pub patience: Duration,
}

/// Trains with workers and servers that join; iterates until it is time to stop, or until `asked` is set.
pub fn coordinate(
    training: &mut Training,
    stops: &Stops,
    files: &Files,
    report: &mut Report,
    asked: &AtomicBool,
    notice: &mut dyn FnMut(Notice),
    settings: &Coordinating,
) -> Result<Outcome, TrainError> {
    let (rule, width) = training.served()?;
    let mut hub = Hub::new(settings.token.clone(), settings.patience);
    let address = hub.listen(&settings.listen)?;
    if let Some(path) = &settings.address {
        crate::address::write(path, address)?;
    }
    notice(Notice::Listening { address });
    let mut coordinator = Coordinator {
        settings,
        hub,
        rule,
        blocks: Blocks::of(width),
        crew: Crew::default(),
        homes: Vec::new(),
        order: settings.order,
        looked: Instant::now(),
        told: String::new(),
        granted: training.iteration() * rule.updates(),
        end: training.iteration() * rule.updates(),
        ahead: 2,
        round_trip: Duration::ZERO,
        measure: None,
        fetching: None,
        scaling: None,
        owing: Vec::new(),
        asked: false,
        scaled: Vec::new(),
    };
    let came = match training.ended(stops) {
        None => coordinator.gather(training, asked, notice),
        Some(_) => Ok(()),
    };
    let outcome = came.and_then(|()| run_by(&mut coordinator, training, stops, files, report, asked, notice));
    coordinator.dismiss(outcome.as_ref().err());
    Ok(Outcome { scaled: coordinator.scaled, ..outcome? })
}

struct Coordinator<'a> {
    settings: &'a Coordinating,
    hub: Hub,
    rule: Momentum,
    blocks: Blocks,
    crew: Crew,
    /// The server of each block; empty before there is one.
    homes: Vec<Peer>,
    order: Order,
    looked: Instant,
    /// What was last said of the control file.
    told: String,
    /// Workers may go as far as this version, and all servers reach it.
    granted: u64,
    /// The version at which the pass under way ends.
    end: u64,
    /// How many updates are granted at a time.
    ahead: u64,
    /// The longest time that a process took to answer.
    round_trip: Duration,
    measure: Option<Merge>,
    /// Blocks that are still to come.
    fetching: Option<BTreeSet<u32>>,
    scaling: Option<Scaling>,
    /// Workers that were let go at the end of the pass, and may not have said what they measured.
    owing: Vec<Peer>,
    /// Whether a member was asked to end.
    asked: bool,
    scaled: Vec<Scaled>,
}

impl Coordinator<'_> {
    /// Waits for those with whom it begins, and gives servers their blocks.
    fn gather(
        &mut self,
        training: &mut Training,
        asked: &AtomicBool,
        notice: &mut dyn FnMut(Notice),
    ) -> Result<(), TrainError> {
        let until = Instant::now() + self.settings.patience;
        while !asked.load(Ordering::SeqCst) && !self.asked {
            let missing = self.crew.missing(self.order);
            if missing == (Order { workers: 0, servers: 0 }) {
                break;
            }
            if Instant::now() > until {
                let reason = format!(
                    "after {} s {} workers and {} servers are missing; were they started with this address?",
                    self.settings.patience.as_secs_f64(),
                    missing.workers,
                    missing.servers
                );
                return Err(TrainError::Lost { who: "others".to_owned(), reason });
            }
            self.hear(training, notice, LOOK)?;
        }
        Ok(())
    }

    /// Reads the control file, and begins a change if one is wanted and possible.
    fn look(&mut self, training: &mut Training, notice: &mut dyn FnMut(Notice)) -> Result<(), TrainError> {
        self.looked = Instant::now();
        if let Some(path) = &self.settings.control {
            let read = std::fs::read_to_string(path).map_err(|error| error.to_string());
            match read.and_then(|text| self.order.read(&text)) {
                Ok(order) => self.order = order,
                Err(reason) if reason != self.told => {
                    self.told.clone_from(&reason);
                    notice(Notice::NoOrder { path: path.clone(), reason });
                }
                Err(_) => {}
            }
        }
        if self.scaling.is_some() || self.crew.order() == self.order {
            return Ok(());
        }
        let missing = self.crew.missing(self.order);
        if missing != (Order { workers: 0, servers: 0 }) {
            let told = format!("{:?} {missing:?}", self.order);
            if told != self.told {
                self.told = told;
                notice(Notice::Missing { workers: missing.workers, servers: missing.servers });
            }
            return Ok(());
        }
        self.begin(training)
    }

    /// Plans a change and tells servers of it.
    fn begin(&mut self, training: &mut Training) -> Result<(), TrainError> {
        let mut scaling = Scaling::plan(&self.crew, self.blocks, &self.homes, self.order, self.granted);
        for (server, order) in scaling.orders(&self.crew, &self.homes) {
            self.hub.send(server, &[Frame::text(&order)]);
        }
        if self.homes.is_empty() {
            let state = training.state()?;
            for (block, home) in scaling.homes.iter().enumerate() {
                let range = self.blocks.numbers(block);
                let values = [&state.weights[range.clone()], &state.velocity[range]].concat();
                let (version, block) = (self.granted, block as u32);
                let numbers = Numbers { version, block, first: 0, level: 0, count: 0, values };
                self.hub.send(*home, &[Frame::Numbers(numbers)]);
            }
        }
        scaling.report.assign_seconds = scaling.since.elapsed().as_secs_f64();
        self.scaling = Some(scaling);
        Ok(())
    }

    /// A server has its blocks; when all have, workers are told.
    fn moved(&mut self, peer: Peer, clock: u64, time: Duration) {
        let Some(scaling) = self.scaling.as_mut().filter(|scaling| scaling.clock == clock) else { return };
        let report = &mut scaling.report;
        report.migrate_seconds = report.migrate_seconds.max(time.as_secs_f64());
        if scaling.moving.remove(&peer) && scaling.moving.is_empty() {
            scaling.since = Instant::now();
            scaling.resuming = scaling.workers.iter().copied().collect();
            for (worker, table) in scaling.tables(&self.crew) {
                self.hub.send(worker, &[Frame::text(&table)]);
            }
        }
    }

    /// A worker has taken the table up; when all have, the change is done.
    fn resumed(&mut self, peer: Peer, clock: u64, waited: Option<Duration>, notice: &mut dyn FnMut(Notice)) {
        let Some(scaling) = self.scaling.as_mut().filter(|scaling| scaling.clock == clock) else { return };
        let still = waited.and_then(|waited| Instant::now().checked_sub(waited));
        scaling.still = [scaling.still, still].into_iter().flatten().min();
        if !scaling.resuming.remove(&peer) || !scaling.resuming.is_empty() {
            return;
        }
        let Some(Scaling { workers, servers, homes, leaving, since, still, mut report, .. }) =
            self.scaling.take()
        else {
            return;
        };
        report.update_seconds = since.elapsed().as_secs_f64();
        report.pause_seconds = still.map_or(0.0, |still| still.elapsed().as_secs_f64());
        for peer in leaving {
            if let Some(member) = self.crew.members.get_mut(&peer) {
                member.released = true;
                self.owing.extend((member.role == Role::Worker && clock == self.end).then_some(peer));
            }
            self.hub.send(peer, &[Frame::text(&Message::End)]);
        }
        let begins = self.homes.is_empty();
        (self.crew.workers, self.crew.servers, self.homes) = (workers, servers, homes);
        if !begins {
            notice(Notice::Scaled(report.clone()));
            self.scaled.push(report);
        }
        self.grant(clock);
    }

    /// Lets workers go on from a version that all have reached.
    fn grant(&mut self, version: u64) {
        let until = self.end.min(version + self.ahead).max(self.granted);
        if self.scaling.is_some() || until <= version {
            return;
        }
        self.granted = until;
        let tell = if until == self.end { u64::MAX } else { until - self.ahead / 2 };
        let frame = Frame::text(&Message::Grant { until, tell });
        for worker in &self.crew.workers {
            self.hub.send(*worker, std::slice::from_ref(&frame));
        }
    }

    /// Takes in what comes next.
    fn hear(
        &mut self,
        training: &mut Training,
        notice: &mut dyn FnMut(Notice),
        time: Duration,
    ) -> Result<(), TrainError> {
        let Some((peer, what)) = self.hub.next(time) else { return Ok(()) };
        match what {
            What::Joined => Ok(()),
            What::Gone(error) => self.gone(peer, &error),
            What::Frame(Frame::Numbers(numbers)) => self.numbers(training, peer, numbers),
            What::Frame(frame) => match frame.parse() {
                Ok(message) => self.obey(training, peer, message, notice),
                Err(error) => self.refuse(peer, error.to_string()),
            },
        }
    }

    fn gone(&mut self, peer: Peer, error: &FrameError) -> Result<(), TrainError> {
        let needed = self.crew.workers.contains(&peer)
            || self.crew.servers.contains(&peer)
            || self.owing.contains(&peer) && !self.measure.as_ref().is_some_and(Merge::is_whole)
            || self.scaling.as_ref().is_some_and(|scaling| scaling.concerns(peer));
        let lost = self.crew.members.contains_key(&peer) && needed;
        let who = self.crew.name(peer);
        self.crew.members.remove(&peer);
        if lost { Err(TrainError::Lost { who, reason: error.to_string() }) } else { Ok(()) }
    }

    /// Ends a connection on which something strange came; a member cannot be done without.
    fn refuse(&mut self, peer: Peer, reason: String) -> Result<(), TrainError> {
        if self.crew.members.contains_key(&peer) {
            return Err(TrainError::Lost { who: self.crew.name(peer), reason });
        }
        self.hub.send(peer, &[Frame::text(&Message::Abort { reason })]);
        self.hub.leave(peer);
        Ok(())
    }

    fn obey(
        &mut self,
        training: &mut Training,
        peer: Peer,
        message: Message,
        notice: &mut dyn FnMut(Notice),
    ) -> Result<(), TrainError> {
        if !self.crew.members.contains_key(&peer) && !matches!(message, Message::Join { .. }) {
            return self.refuse(peer, "it spoke before it joined".to_owned());
        }
        match message {
            Message::Join { role, process, identity, address } => {
                let strange = match (role, &identity, address) {
                    _ if self.crew.members.contains_key(&peer) => Some("it joins twice".to_owned()),
                    (Role::Worker, Some(identity), None) => identity.differs(training.identity(), "this job"),
                    (Role::Server, None, Some(_)) => None,
                    _ => Some("a worker says what it trains, and a server where it listens".to_owned()),
                };
                if let Some(reason) = strange {
                    notice(Notice::Refused { process, reason: reason.clone() });
                    return self.refuse(peer, format!("the coordinator refuses: {reason}"));
                }
                let number = self.crew.join(peer, role, process, address);
                let (width, rule) = (training.state()?.weights.len(), self.rule);
                self.hub.send(peer, &[Frame::text(&Message::Welcome { number, width, rule })]);
            }
            Message::Ready { microseconds } => {
                if let Some(member) = self.crew.members.get_mut(&peer)
                    && let Some(welcomed) = member.welcomed.take()
                {
                    member.registered = Duration::from_micros(microseconds);
                    self.round_trip = self.round_trip.max(welcomed.elapsed());
                    notice(Notice::Joined { who: self.crew.name(peer) });
                }
            }
            Message::Reached { version } if version <= self.granted => self.grant(version),
            Message::Moved { clock, microseconds } => {
                self.moved(peer, clock, Duration::from_micros(microseconds));
            }
            Message::Resumed { clock, waited } => {
                self.resumed(peer, clock, waited.map(Duration::from_micros), notice);
            }
            Message::Asked => self.asked = true,
            Message::Abort { reason } => {
                return Err(TrainError::Lost { who: self.crew.name(peer), reason });
            }
            other => return self.refuse(peer, format!("it said {other:?}, which is not for coordinators")),
        }
        Ok(())
    }

    /// What was measured, from a worker, or a block, from a server.
    fn numbers(&mut self, training: &mut Training, peer: Peer, numbers: Numbers) -> Result<(), TrainError> {
        let strange = || format!("it sent block {} at version {}", numbers.block, numbers.version);
        let due = numbers.version == self.end;
        if due && self.crew.servers.contains(&peer) {
            let range = self.blocks.known(numbers.block);
            let fits = |range: &std::ops::Range<usize>| numbers.values.len() == 2 * range.len();
            let wanted = self.fetching.as_mut().is_some_and(|blocks| blocks.remove(&numbers.block));
            if let (Some(range), true) = (range.filter(fits), wanted) {
                let state = training.state()?;
                let (weights, velocity) = numbers.values.split_at(range.len());
                state.weights[range.clone()].copy_from_slice(weights);
                state.velocity[range].copy_from_slice(velocity);
                return Ok(());
            }
        } else if due
            && (self.crew.workers.contains(&peer) || self.owing.contains(&peer))
            && numbers.values.len() == super::MEASURED
        {
            let count = numbers.count as usize;
            let merge = self.measure.get_or_insert_with(|| Merge::of(count));
            let piece =
                Piece { first: numbers.first as usize, level: numbers.level, values: numbers.values.clone() };
            if merge.count() == count
                && (1..=crate::pool::SHARDS).contains(&count)
                && merge.insert(piece).is_ok()
            {
                return Ok(());
            }
        }
        self.refuse(peer, strange())
    }

    /// Lets everybody go, with the reason if something failed, and waits a moment until they went.
    fn dismiss(&mut self, error: Option<&TrainError>) {
        let word = match error {
            Some(error) => Message::Abort { reason: error.to_string() },
            None => Message::End,
        };
        for peer in self.hub.peers() {
            self.hub.send(peer, &[Frame::text(&word)]);
            self.hub.leave(peer);
        }
        let until = Instant::now() + FAREWELL;
        let mut there = self.crew.members.len();
        while there > 0 && Instant::now() < until {
            if let Some((peer, What::Gone(_))) = self.hub.next(LOOK)
                && self.crew.members.remove(&peer).is_some()
            {
                there -= 1;
            }
        }
    }
}

impl Engine for Coordinator<'_> {
    fn iterate(
        &mut self,
        training: &mut Training,
        notice: &mut dyn FnMut(Notice),
    ) -> Result<Measured, TrainError> {
        let began = Instant::now();
        let version = training.iteration() * self.rule.updates();
        self.end = version + self.rule.updates();
        self.measure = None;
        self.look(training, notice)?;
        self.grant(version);
        while self.scaling.is_some() || !self.measure.as_ref().is_some_and(Merge::is_whole) {
            if self.looked.elapsed() > LOOK {
                self.look(training, notice)?;
            }
            self.hear(training, notice, LOOK)?;
        }
        let pace = began.elapsed().as_secs_f64() / self.rule.updates() as f64;
        // So far that a word and its answer take no longer than half of what is granted.
        let ahead = 4.0 * self.round_trip.as_secs_f64() / pace;
        self.ahead = 2 + ahead.min(MOST_AHEAD) as u64;
        let sums = self.measure.take().expect("it is whole").total();
        self.owing.clear();
        training.measured(&sums)
    }

    fn asked(&mut self, _: &Training, asked: bool) -> Result<bool, TrainError> {
        Ok(asked || self.asked)
    }

    fn collect(&mut self, training: &mut Training, notice: &mut dyn FnMut(Notice)) -> Result<(), TrainError> {
        *training.state()?.passes = self.end / self.rule.updates();
        if self.homes.is_empty() {
            return Ok(());
        }
        self.fetching = Some((0..self.blocks.count() as u32).collect());
        for server in self.crew.servers.clone() {
            self.hub.send(server, &[Frame::text(&Message::Fetch { version: self.end })]);
        }
        while self.fetching.as_ref().is_some_and(|blocks| !blocks.is_empty()) {
            self.hear(training, notice, LOOK)?;
        }
        self.fetching = None;
        Ok(())
    }

    fn sign(&self, _: &Training, line: &mut Line) {
        line.workers = Some(self.crew.workers.len());
        line.servers = Some(self.crew.servers.len());
    }
}
