//! A parameter server: it holds blocks of numbers, sums what workers push, updates, and answers pulls; and at a scaling clock it gives
//! blocks away and takes others up.
//!
//! An update is made when every worker has pulled the version after it, which each does once it has pushed all it has. So nobody can
//! be left behind, not even a worker that had nothing to push.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::blocks::Blocks;
use super::message::{Message, Role};
use super::{Joining, LOOK};
use crate::error::TrainError;
use crate::merge::{Merge, Piece};
use crate::momentum::Momentum;
use crate::net::{Frame, Hub, Numbers, Peer, What};

/// The most shards that a push may speak of.
const MOST_SHARDS: u32 = crate::pool::SHARDS as u32;

/// A block with what belongs to it.
struct Block {
    weights: Vec<f64>,
    velocity: Vec<f64>,
    /// What was pushed for the update under way.
    pushed: Option<Merge>,
}

/// What the coordinator ordered.
struct Scale {
    clock: u64,
    own: Vec<u32>,
    members: usize,
    send: Vec<(u32, SocketAddr)>,
    /// The connections to those who shall have something.
    peers: BTreeMap<SocketAddr, Peer>,
    /// When the clock was reached.
    reached: Option<Instant>,
}

struct Server {
    hub: Hub,
    coordinator: Peer,
    rule: Momentum,
    blocks: Blocks,
    held: BTreeMap<u32, Block>,
    /// What others sent before it was due.
    arrived: BTreeMap<u32, Block>,
    /// None before the first blocks.
    version: Option<u64>,
    /// How many workers push.
    members: usize,
    /// Who pulls the next version.
    pulling: Vec<Peer>,
    scale: Option<Scale>,
}

/// Holds blocks of a job's parameters until the coordinator lets it go. If `asked` is set, it asks for the end of the job.
pub fn serve(joining: &Joining, asked: &AtomicBool) -> Result<(), TrainError> {
    let mut hub = Hub::new(joining.token.clone(), joining.patience);
    let mut own = hub.listen(&joining.listen)?;
    let address = joining.address()?;
    let began = Instant::now();
    let (coordinator, local) = hub.connect(&address)?;
    if own.ip().is_unspecified() {
        own.set_ip(local.ip());
    }
    let process = std::process::id();
    let join = Message::Join { role: Role::Server, process, identity: None, address: Some(own) };
    hub.send(coordinator, &[Frame::text(&join)]);
    let (width, rule) = loop {
        match hub.next(joining.patience) {
            Some((_, What::Frame(frame))) => match frame.parse() {
                Ok(Message::Welcome { width, rule, .. }) if rule.is_sound() => break (width, rule),
                Ok(Message::Abort { reason }) => return Err(lost(reason)),
                Ok(_) => return Err(lost("it answered with something else than a welcome".to_owned())),
                Err(error) => return Err(lost(error.to_string())),
            },
            Some((_, What::Gone(error))) => return Err(lost(error.to_string())),
            Some((_, What::Joined)) => {}
            None => return Err(lost("it does not answer".to_owned())),
        }
    };
    let ready = Message::Ready { microseconds: began.elapsed().as_micros() as u64 };
    hub.send(coordinator, &[Frame::text(&ready)]);
    let mut server = Server {
        hub,
        coordinator,
        rule,
        blocks: Blocks::of(width),
        held: BTreeMap::new(),
        arrived: BTreeMap::new(),
        version: None,
        members: 0,
        pulling: Vec::new(),
        scale: None,
    };
    let left = server.work(asked);
    if let Err(ServerError::Own(reason)) = &left {
        let reason = format!("a server gave up: {reason}");
        server.hub.send(coordinator, &[Frame::text(&Message::Abort { reason })]);
    }
    left.map_err(|error| match error {
        ServerError::Coordinator(reason) => lost(reason),
        ServerError::Own(reason) => TrainError::Lost { who: "this server".to_owned(), reason },
    })
}

fn lost(reason: String) -> TrainError {
    TrainError::Lost { who: "the coordinator".to_owned(), reason }
}

/// Why a server ends.
enum ServerError {
    /// The coordinator said so, or is gone.
    Coordinator(String),
    /// Something came that cannot be.
    Own(String),
}

fn own(reason: impl Into<String>) -> ServerError {
    ServerError::Own(reason.into())
}

impl Server {
    fn work(&mut self, asked: &AtomicBool) -> Result<(), ServerError> {
        let mut told = false;
        loop {
            if asked.load(Ordering::SeqCst) && !std::mem::replace(&mut told, true) {
                self.hub.send(self.coordinator, &[Frame::text(&Message::Asked)]);
            }
            let Some((peer, what)) = self.hub.next(LOOK) else { continue };
            match what {
                What::Joined => {}
                What::Gone(error) if peer == self.coordinator => {
                    return Err(ServerError::Coordinator(error.to_string()));
                }
                // A worker or a server that is let go; if not, the coordinator knows.
                What::Gone(_) => self.pulling.retain(|other| *other != peer),
                What::Frame(Frame::Numbers(numbers)) if peer == self.coordinator => self.take(numbers)?,
                What::Frame(Frame::Numbers(numbers)) if numbers.count == 0 => self.take(numbers)?,
                What::Frame(Frame::Numbers(numbers)) => self.push(numbers)?,
                What::Frame(frame) => {
                    let message = frame.parse().map_err(|error| own(error.to_string()))?;
                    if self.hear(peer, message)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Does as a message says; the answer is whether it is let go.
    fn hear(&mut self, peer: Peer, message: Message) -> Result<bool, ServerError> {
        match (message, peer == self.coordinator) {
            (Message::Scale { clock, own: blocks, members, send }, true) => {
                let mut peers = BTreeMap::new();
                for (_, to) in &send {
                    if !peers.contains_key(to) {
                        // Before the clock, while training goes on.
                        let connected = self.hub.connect(&to.to_string());
                        peers.insert(*to, connected.map_err(|error| own(error.to_string()))?.0);
                    }
                }
                self.scale = Some(Scale { clock, own: blocks, members, send, peers, reached: None });
                self.migrate()?;
            }
            (Message::Fetch { version }, true) => {
                if self.version != Some(version) {
                    return Err(own(format!("version {version} is fetched at version {:?}", self.version)));
                }
                let frames: Vec<Frame> =
                    self.held.iter().map(|(number, block)| whole(version, *number, block)).collect();
                self.hub.send(peer, &frames);
            }
            (Message::End, true) => return Ok(true),
            (Message::Abort { reason }, true) => return Err(ServerError::Coordinator(reason)),
            (Message::Pull { version }, false) => self.pull(peer, version)?,
            (other, _) => return Err(own(format!("it was told {other:?}, which is not for servers"))),
        }
        Ok(false)
    }

    /// Takes a block up that another server or the coordinator sends.
    fn take(&mut self, numbers: Numbers) -> Result<(), ServerError> {
        let width = self.blocks.known(numbers.block).map(|range| range.len());
        if width.is_none_or(|width| numbers.values.len() != 2 * width) {
            return Err(own(format!(
                "block {} with {} numbers was sent",
                numbers.block,
                numbers.values.len()
            )));
        }
        let mut weights = numbers.values;
        let velocity = weights.split_off(weights.len() / 2);
        self.arrived.insert(numbers.block, Block { weights, velocity, pushed: None });
        self.migrate()
    }

    /// Adds what a worker pushes.
    fn push(&mut self, numbers: Numbers) -> Result<(), ServerError> {
        let Numbers { version, block: number, first, level, count, values } = numbers;
        let refuse =
            |reason: &str| own(format!("a push to block {number} at version {version} is refused: {reason}"));
        if Some(version) != self.version {
            return Err(refuse(&format!("the version is {:?}", self.version)));
        }
        let block = self.held.get_mut(&number).ok_or_else(|| refuse("it is not held here"))?;
        if values.len() != block.weights.len() || !(1..=MOST_SHARDS).contains(&count) {
            return Err(refuse(&format!("{} numbers for {count} shards", values.len())));
        }
        let merge = block.pushed.get_or_insert_with(|| Merge::of(count as usize));
        if merge.count() != count as usize {
            return Err(refuse(&format!("it is for {count} shards, and others for {}", merge.count())));
        }
        merge
            .insert(Piece { first: first as usize, level, values })
            .map_err(|error| refuse(&error.to_string()))
    }

    fn pull(&mut self, peer: Peer, version: u64) -> Result<(), ServerError> {
        let here = self.version.ok_or_else(|| own("a pull came before any block"))?;
        if version == here {
            self.answer(peer, version);
        } else if version == here + 1 && !self.pulling.contains(&peer) {
            self.pulling.push(peer);
            if self.pulling.len() == self.members {
                self.update(here)?;
            }
        } else {
            return Err(own(format!("version {version} is pulled at version {here}")));
        }
        Ok(())
    }

    /// Makes an update, tells all who wait for it, and moves blocks if it is time.
    fn update(&mut self, version: u64) -> Result<(), ServerError> {
        for (number, block) in &mut self.held {
            let pushed = block.pushed.take().filter(Merge::is_whole);
            let gradient = pushed.ok_or_else(|| {
                own(format!(
                    "not all of block {number} was pushed at version {version}, though all workers are done"
                ))
            })?;
            self.rule.apply(version, &mut block.weights, &mut block.velocity, &gradient.total());
        }
        self.version = Some(version + 1);
        for peer in std::mem::take(&mut self.pulling) {
            self.answer(peer, version + 1);
        }
        self.migrate()
    }

    fn answer(&mut self, peer: Peer, version: u64) {
        let frame = |(number, block): (&u32, &Block)| {
            Frame::Numbers(Numbers {
                version,
                block: *number,
                first: 0,
                level: 0,
                count: 0,
                values: block.weights.clone(),
            })
        };
        let frames: Vec<Frame> = self.held.iter().map(frame).collect();
        self.hub.send(peer, &frames);
    }

    /// Goes on with what was ordered, as far as it is time and blocks have arrived.
    fn migrate(&mut self) -> Result<(), ServerError> {
        let Some(scale) = &mut self.scale else { return Ok(()) };
        let clock = scale.clock;
        match self.version {
            Some(version) if version < clock => return Ok(()),
            Some(version) if version > clock => {
                return Err(own(format!("version {clock} is ordered for scaling at version {version}")));
            }
            // A new one has reached no clock; its migration begins with the first block.
            None if self.arrived.is_empty() && !scale.own.is_empty() => return Ok(()),
            _ => {}
        }
        if scale.reached.is_none() {
            scale.reached = Some(Instant::now());
            let (send, peers) = (std::mem::take(&mut scale.send), std::mem::take(&mut scale.peers));
            self.give(clock, &send, &peers)?;
        }
        self.held.append(&mut self.arrived);
        let scale = self.scale.as_ref().expect("it is under way");
        if !scale.own.iter().eq(self.held.keys()) {
            return Ok(());
        }
        let elapsed = scale.reached.expect("it was set").elapsed();
        self.members = scale.members;
        self.version = Some(clock);
        self.scale = None;
        let moved = Message::Moved { clock, microseconds: elapsed.as_micros() as u64 };
        self.hub.send(self.coordinator, &[Frame::text(&moved)]);
        Ok(())
    }

    /// Sends blocks to those who shall have them.
    fn give(
        &mut self,
        clock: u64,
        send: &[(u32, SocketAddr)],
        peers: &BTreeMap<SocketAddr, Peer>,
    ) -> Result<(), ServerError> {
        let mut frames: BTreeMap<Peer, Vec<Frame>> = BTreeMap::new();
        for (number, to) in send {
            let block = self.held.remove(number);
            let block =
                block.ok_or_else(|| own(format!("block {number} shall move and is not held here")))?;
            frames.entry(peers[to]).or_default().push(whole(clock, *number, &block));
        }
        for (peer, frames) in frames {
            self.hub.send(peer, &frames);
            self.hub.leave(peer);
        }
        Ok(())
    }
}

/// A block with its velocity.
fn whole(version: u64, number: u32, block: &Block) -> Frame {
    let values = block.weights.iter().chain(&block.velocity).copied().collect();
    Frame::Numbers(Numbers { version, block: number, first: 0, level: 0, count: 0, values })
}
