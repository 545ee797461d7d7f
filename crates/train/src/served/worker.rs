//! A worker: it pulls the parameters from the servers, computes the gradient of its share of the shards, pushes it, and so on, as far
//! as the coordinator has granted. Told of another table at a scaling clock, it finds the servers anew and goes on.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::blocks::Blocks;
use super::message::{Home, Message, Role};
use super::{Joining, LOOK, Share};
use crate::error::TrainError;
use crate::merge::Merge;
use crate::momentum::Momentum;
use crate::net::{Frame, Hub, Numbers, Peer, What};
use crate::program::Training;

/// How long the coordinator has to say what became of a server before its worker gives up.
const WORD: Duration = Duration::from_secs(2);

/// Where blocks lie and which worker this is.
struct Table {
    clock: u64,
    share: Share,
    homes: Vec<Home>,
}

struct Worker<'a> {
    training: &'a mut Training,
    asked: &'a AtomicBool,
    told_asked: bool,
    hub: Hub,
    patience: Duration,
    coordinator: Peer,
    rule: Momentum,
    blocks: Blocks,
    servers: BTreeMap<SocketAddr, Peer>,
    homes: Vec<Home>,
    share: Share,
    version: u64,
    /// How far it may go, and where it says that it has come.
    granted: (u64, u64),
    /// The version that is pulled, how many blocks are still to come, and which of them came.
    pulled: Option<(u64, Vec<bool>)>,
    table: Option<Table>,
    /// When a server was lost, and how.
    broken: Option<(Instant, String)>,
    ended: bool,
}

/// Works for a job until the coordinator lets it go. If `asked` is set, it asks for the end of the job.
pub fn work(training: &mut Training, joining: &Joining, asked: &AtomicBool) -> Result<(), TrainError> {
    let (rule, width) = training.served()?;
    let mut hub = Hub::new(joining.token.clone(), joining.patience);
    let address = joining.address()?;
    let began = Instant::now();
    let (coordinator, _) = hub.connect(&address)?;
    let (process, identity) = (std::process::id(), Some(training.identity().clone()));
    hub.send(
        coordinator,
        &[Frame::text(&Message::Join { role: Role::Worker, process, identity, address: None })],
    );
    let mut worker = Worker {
        training,
        asked,
        told_asked: false,
        hub,
        patience: joining.patience,
        coordinator,
        rule,
        blocks: Blocks::of(width),
        servers: BTreeMap::new(),
        homes: Vec::new(),
        share: Share { member: 0, members: 1 },
        version: 0,
        granted: (0, 0),
        pulled: None,
        table: None,
        broken: None,
        ended: false,
    };
    let left = worker.welcome(width, began).and_then(|()| worker.work());
    if let Err(error) = &left {
        let reason = format!("a worker gave up: {error}");
        worker.hub.send(coordinator, &[Frame::text(&Message::Abort { reason })]);
    }
    left
}

fn lost(who: &str, reason: impl Into<String>) -> TrainError {
    TrainError::Lost { who: who.to_owned(), reason: reason.into() }
}

impl Worker<'_> {
    fn welcome(&mut self, width: usize, began: Instant) -> Result<(), TrainError> {
        let until = Instant::now() + self.patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.hub.next(left) {
                Some((_, What::Frame(frame))) => match frame.parse() {
                    Ok(Message::Welcome { width: theirs, rule, .. })
                        if theirs == width && rule == self.rule =>
                    {
                        let microseconds = began.elapsed().as_micros() as u64;
                        self.say(&Message::Ready { microseconds });
                        return Ok(());
                    }
                    Ok(Message::Abort { reason }) => return Err(lost("the coordinator", reason)),
                    _ => return Err(lost("the coordinator", "its welcome is for another job")),
                },
                Some((_, What::Gone(error))) => return Err(lost("the coordinator", error.to_string())),
                Some((_, What::Joined)) => {}
                None => return Err(lost("the coordinator", "it does not answer")),
            }
        }
    }

    fn work(&mut self) -> Result<(), TrainError> {
        let mut idle = Instant::now();
        while !self.ended {
            if let Some(table) =
                self.table.take_if(|table| table.clock == self.version || self.homes.is_empty())
            {
                self.settle(table, idle)?;
            } else if self.version < self.granted.0 && self.table.is_none() {
                self.update()?;
                idle = Instant::now();
            } else {
                self.hear(LOOK)?;
            }
        }
        Ok(())
    }

    fn say(&mut self, message: &Message) {
        self.hub.send(self.coordinator, &[Frame::text(message)]);
    }

    /// One update, from the gradient to the new parameters.
    fn update(&mut self) -> Result<(), TrainError> {
        let version = self.version;
        let merge = self.training.gradient(version, self.share)?;
        let count = merge.count() as u32;
        let pieces = merge.into_pieces();
        for home in &self.homes {
            let mut frames = Vec::with_capacity(home.blocks.len() * pieces.len() + 1);
            for block in &home.blocks {
                for piece in &pieces {
                    let values = piece.values[self.blocks.numbers(*block as usize)].to_vec();
                    let (first, level) = (piece.first as u32, piece.level);
                    frames.push(Frame::Numbers(Numbers {
                        version,
                        block: *block,
                        first,
                        level,
                        count,
                        values,
                    }));
                }
            }
            frames.push(Frame::text(&Message::Pull { version: version + 1 }));
            self.hub.send(self.servers[&home.address], &frames);
        }
        self.pull(version + 1)?;
        if self.version >= self.granted.1 {
            self.granted.1 = u64::MAX;
            self.say(&Message::Reached { version: self.version });
        }
        if self.version.is_multiple_of(self.rule.updates()) {
            let merge = self.training.losses(self.share)?;
            self.measured(merge);
        }
        Ok(())
    }

    fn measured(&mut self, merge: Merge) {
        let (version, count) = (self.version, merge.count() as u32);
        let frames: Vec<Frame> = merge
            .into_pieces()
            .into_iter()
            .map(|piece| {
                let (first, level, values) = (piece.first as u32, piece.level, piece.values);
                Frame::Numbers(Numbers { version, block: 0, first, level, count, values })
            })
            .collect();
        self.hub.send(self.coordinator, &frames);
    }

    /// Waits until all blocks of a version that was asked for have come.
    fn pull(&mut self, version: u64) -> Result<(), TrainError> {
        // Some may have come already while this one was still asking others.
        self.pulled = Some((version, vec![false; self.blocks.count()]));
        while self.pulled.as_ref().is_some_and(|(_, came)| came.contains(&false)) {
            self.hear(LOOK)?;
        }
        self.pulled = None;
        self.version = version;
        Ok(())
    }

    /// Takes up a new table: connects to servers that are new, leaves those that are gone, and pulls if it has nothing yet.
    fn settle(&mut self, table: Table, idle: Instant) -> Result<(), TrainError> {
        let mut servers = BTreeMap::new();
        for home in &table.homes {
            let peer = match self.servers.remove(&home.address) {
                Some(peer) => peer,
                None => self.hub.connect(&home.address.to_string())?.0,
            };
            servers.insert(home.address, peer);
        }
        for peer in std::mem::replace(&mut self.servers, servers).into_values() {
            self.hub.leave(peer);
        }
        let new = self.homes.is_empty();
        (self.homes, self.share) = (table.homes, table.share);
        if new {
            for home in &self.homes {
                let pull = Frame::text(&Message::Pull { version: table.clock });
                self.hub.send(self.servers[&home.address], &[pull]);
            }
            self.pull(table.clock)?;
        }
        let waited = (!new).then(|| idle.elapsed().as_micros() as u64);
        self.say(&Message::Resumed { clock: table.clock, waited });
        Ok(())
    }

    /// Takes in what comes next.
    fn hear(&mut self, time: Duration) -> Result<(), TrainError> {
        if self.asked.load(Ordering::SeqCst) && !std::mem::replace(&mut self.told_asked, true) {
            self.say(&Message::Asked);
        }
        if let Some((since, reason)) = &self.broken
            && since.elapsed() > WORD
        {
            return Err(lost("a server", reason));
        }
        let Some((peer, what)) = self.hub.next(time) else { return Ok(()) };
        match what {
            What::Gone(error) if peer == self.coordinator => Err(lost("the coordinator", error.to_string())),
            What::Gone(error) => {
                if self.servers.values().any(|server| *server == peer) {
                    self.broken = Some((Instant::now(), error.to_string()));
                }
                Ok(())
            }
            What::Joined => Ok(()),
            What::Frame(Frame::Numbers(numbers)) => self.fill(numbers),
            What::Frame(frame) if peer == self.coordinator => {
                let message = frame.parse().map_err(|error| lost("the coordinator", error.to_string()))?;
                self.obey(message)
            }
            What::Frame(_) => Err(lost("a server", "it sent something else than numbers")),
        }
    }

    fn obey(&mut self, message: Message) -> Result<(), TrainError> {
        match message {
            Message::Grant { until, tell } => self.granted = (until, tell),
            Message::Table { clock, member, members, homes } => {
                let mut all: Vec<u32> = homes.iter().flat_map(|home| home.blocks.iter().copied()).collect();
                all.sort_unstable();
                if member >= members || !all.into_iter().eq(0..self.blocks.count() as u32) {
                    return Err(lost("the coordinator", "its table does not have each block once"));
                }
                self.table = Some(Table { clock, share: Share { member, members }, homes });
            }
            Message::End => self.ended = true,
            Message::Abort { reason } => return Err(lost("the coordinator", reason)),
            other => {
                return Err(lost("the coordinator", format!("it said {other:?}, which is not for workers")));
            }
        }
        Ok(())
    }

    /// Takes a block up that was pulled.
    fn fill(&mut self, numbers: Numbers) -> Result<(), TrainError> {
        let strange =
            || lost("a server", format!("it sent block {} at version {}", numbers.block, numbers.version));
        let range = self.blocks.known(numbers.block).ok_or_else(strange)?;
        let pulled = self.pulled.as_mut().filter(|(version, _)| *version == numbers.version);
        let (_, came) = pulled.ok_or_else(strange)?;
        if came[numbers.block as usize] || numbers.values.len() != range.len() {
            return Err(strange());
        }
        came[numbers.block as usize] = true;
        self.training.state()?.weights[range].copy_from_slice(&numbers.values);
        Ok(())
    }
}
