//! The connections of a partition: it listens for the one after it, writes its address where that can read it, and connects to the one
//! before, again and again until that is there.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::Partitioning;
use super::message::{Common, Message};
use crate::address;
use crate::error::TrainError;
use crate::net::{Frame, Hub, MOST_VALUES_IN_FRAME, Numbers, Peer, What};

/// How long to wait before another attempt to reach the one before.
const AGAIN: Duration = Duration::from_millis(50);

/// One of the two neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    After,
}

/// What a neighbour did.
#[derive(Debug)]
pub(super) enum Heard {
    /// It can be spoken with; it knows of this round.
    Joined(Side, u64),
    Said(Side, Message),
    Lost(Side, String),
}

/// The connections.
pub(super) struct Links<'a> {
    hub: Hub,
    settings: &'a Partitioning,
    common: Common,
    before: Option<Peer>,
    after: Option<Peer>,
    /// Who was asked whether this one may follow, and when.
    knocked: Option<(Peer, Instant)>,
    tried: Option<Instant>,
    rows: VecDeque<Numbers>,
    slopes: VecDeque<Numbers>,
}

/// Where a partition writes where it listens.
fn place(settings: &Partitioning, number: usize) -> PathBuf {
    settings.meet.join(format!("partition-{number}.address"))
}

impl<'a> Links<'a> {
    /// Begins to listen, if somebody comes after.
    pub(super) fn open(settings: &'a Partitioning, common: Common) -> Result<Self, TrainError> {
        let mut hub = Hub::new(settings.token.clone(), settings.patience);
        if settings.number + 1 < settings.count {
            let refuse = |source| TrainError::File { act: "make", path: settings.meet.clone(), source };
            std::fs::create_dir_all(&settings.meet).map_err(refuse)?;
            let address = hub.listen(&settings.listen)?;
            address::write(&place(settings, settings.number), address)?;
        }
        let (rows, slopes) = (VecDeque::new(), VecDeque::new());
        Ok(Self {
            hub,
            settings,
            common,
            before: None,
            after: None,
            knocked: None,
            tried: None,
            rows,
            slopes,
        })
    }

    pub(super) const fn has(&self, side: Side) -> bool {
        match side {
            Side::Before => self.before.is_some(),
            Side::After => self.after.is_some(),
        }
    }

    /// The number of a neighbour.
    pub(super) const fn number(&self, side: Side) -> usize {
        match side {
            Side::Before => self.settings.number.saturating_sub(1),
            Side::After => self.settings.number + 1,
        }
    }

    /// Says something to a neighbour, if it is there.
    pub(super) fn say(&mut self, side: Side, message: &Message) {
        let peer = if side == Side::Before { self.before } else { self.after };
        if let Some(peer) = peer {
            self.hub.send(peer, &[Frame::text(message)]);
        }
    }

    /// Sends the numbers of a piece of a step.
    pub(super) fn send(&mut self, side: Side, (round, step, piece): (u64, u64, usize), values: &[f64]) {
        let peer = if side == Side::Before { self.before } else { self.after };
        let Some(peer) = peer else { return };
        let count = frames(values.len());
        let part = |level: usize| {
            let from = level * MOST_VALUES_IN_FRAME;
            values[from..values.len().min(from + MOST_VALUES_IN_FRAME)].to_vec()
        };
        let numbers = |level: usize| Numbers {
            version: round,
            block: step as u32,
            first: piece as u32,
            level: level as u32,
            count: count as u32,
            values: part(level),
        };
        let frames: Vec<Frame> = (0..count).map(|level| Frame::Numbers(numbers(level))).collect();
        self.hub.send(peer, &frames);
    }

    /// The next numbers from a neighbour, if any came.
    pub(super) fn pop(&mut self, side: Side) -> Option<Numbers> {
        if side == Side::Before { self.rows.pop_front() } else { self.slopes.pop_front() }
    }

    /// Forgets what came and was not yet taken.
    pub(super) fn forget(&mut self) {
        self.rows.clear();
        self.slopes.clear();
    }

    /// Takes in what comes next, if anything does in this time.
    pub(super) fn hear(&mut self, time: Duration, round: u64) -> Result<Option<Heard>, TrainError> {
        self.knock(round);
        let Some((peer, what)) = self.hub.next(time) else { return Ok(None) };
        let side = match peer {
            _ if self.before == Some(peer) => Some(Side::Before),
            _ if self.after == Some(peer) => Some(Side::After),
            _ => None,
        };
        match (side, what) {
            (_, What::Joined) => Ok(None),
            (Some(side), What::Gone(error)) => Ok(Some(self.lose(side, error.to_string()))),
            (None, What::Gone(_)) => {
                self.knocked.take_if(|(knocked, _)| *knocked == peer);
                Ok(None)
            }
            (Some(side), What::Frame(Frame::Numbers(numbers))) => {
                if side == Side::Before { &mut self.rows } else { &mut self.slopes }.push_back(numbers);
                Ok(None)
            }
            (Some(side), What::Frame(frame)) => Ok(Some(match frame.parse() {
                Ok(message) => Heard::Said(side, message),
                Err(error) => self.lose(side, error.to_string()),
            })),
            (None, What::Frame(frame)) => self.stranger(peer, &frame, round),
        }
    }

    /// Leaves a neighbour that is gone or speaks nonsense.
    pub(super) fn lose(&mut self, side: Side, reason: String) -> Heard {
        let peer = if side == Side::Before { self.before.take() } else { self.after.take() };
        if let Some(peer) = peer {
            self.hub.leave(peer);
        }
        if side == Side::Before {
            self.rows.clear()
        } else {
            self.slopes.clear()
        }
        Heard::Lost(side, reason)
    }

    /// Tries to reach the one before, if it is not there.
    fn knock(&mut self, round: u64) {
        let waits = self.knocked.is_some_and(|(_, since)| since.elapsed() < self.settings.patience);
        if self.settings.number == 0 || self.before.is_some() || waits {
            return;
        }
        if self.tried.is_some_and(|tried| tried.elapsed() < AGAIN) {
            return;
        }
        if let Some((peer, _)) = self.knocked.take() {
            self.hub.leave(peer);
        }
        let address = address::read(&place(self.settings, self.settings.number - 1));
        if let Some(peer) = address.and_then(|address| self.hub.reach(&address).ok()) {
            let hello = Message::Hello { number: self.settings.number, round, common: self.common.clone() };
            self.hub.send(peer, &[Frame::text(&hello)]);
            self.knocked = Some((peer, Instant::now()));
        }
        self.tried = Some(Instant::now());
    }

    /// What somebody says who is no neighbour yet.
    fn stranger(&mut self, peer: Peer, frame: &Frame, round: u64) -> Result<Option<Heard>, TrainError> {
        let knocked = self.knocked.is_some_and(|(knocked, _)| knocked == peer);
        match frame.parse() {
            Ok(Message::Hello { number, round: theirs, common }) if !knocked => {
                let reason = if number != self.settings.number + 1 {
                    format!(
                        "this is partition {}, which partition {number} does not follow",
                        self.settings.number
                    )
                } else if self.after.is_some() {
                    format!("there is a partition {number} already")
                } else if let Some(reason) = common.differs(&self.common) {
                    self.hub.send(peer, &[Frame::text(&Message::Refused { reason })]);
                    self.hub.leave(peer);
                    return Ok(None);
                } else {
                    self.after = Some(peer);
                    self.hub.send(peer, &[Frame::text(&Message::Welcome { round })]);
                    return Ok(Some(Heard::Joined(Side::After, theirs)));
                };
                self.hub.send(peer, &[Frame::text(&Message::Later { reason })]);
                self.hub.leave(peer);
                Ok(None)
            }
            Ok(Message::Welcome { round }) if knocked => {
                (self.before, self.knocked) = (Some(peer), None);
                Ok(Some(Heard::Joined(Side::Before, round)))
            }
            Ok(Message::Refused { reason }) if knocked => {
                let who = format!("partition {}", self.settings.number - 1);
                Err(TrainError::Lost { who, reason: format!("it refuses: {reason}") })
            }
            _ => {
                self.knocked.take_if(|(knocked, _)| *knocked == peer);
                self.hub.leave(peer);
                Ok(None)
            }
        }
    }
}

/// In how many frames so many numbers go.
pub(super) fn frames(values: usize) -> usize {
    values.div_ceil(MOST_VALUES_IN_FRAME).max(1)
}
