//! What coordinator, servers and workers say to each other. Blocks of numbers travel beside these, as numbers.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::checkpoint::Identity;
use crate::momentum::Momentum;

/// What a process is in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    Worker,
    Server,
}

impl Role {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Server => "server",
        }
    }
}

/// A server as workers know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Home {
    pub(super) address: SocketAddr,
    /// What lies there, in ascending order.
    pub(super) blocks: Vec<u32>,
}

/// A message. Versions count updates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Message {
    /// To the coordinator: somebody would like to take part. A worker says what it trains, a server where it listens.
    Join { role: Role, process: u32, identity: Option<Identity>, address: Option<SocketAddr> },
    /// From the coordinator: it may.
    Welcome { number: u32, width: usize, rule: Momentum },
    /// To the coordinator: it is ready, so long after it began to connect.
    Ready { microseconds: u64 },
    /// To a server: from the version `clock` on it shall have these blocks, `members` workers push to it, and some blocks go to
    /// others.
    Scale { clock: u64, own: Vec<u32>, members: usize, send: Vec<(u32, SocketAddr)> },
    /// From a server: it has what it should have, so long after it reached the clock.
    Moved { clock: u64, microseconds: u64 },
    /// To a worker: from this version on, this is where blocks lie and which worker it is.
    Table { clock: u64, member: usize, members: usize, homes: Vec<Home> },
    /// From a worker: it knows them, and has stood still for so many microseconds if it worked before.
    Resumed { clock: u64, waited: Option<u64> },
    /// To a worker: it may make the updates before the version `until`, and says when it reaches `tell`.
    Grant { until: u64, tell: u64 },
    /// From a worker: it is as far.
    Reached { version: u64 },
    /// To a server: a worker has pushed all it has for the version before, or wants what is there.
    Pull { version: u64 },
    /// To a server: the coordinator wants all blocks at this version.
    Fetch { version: u64 },
    /// To the coordinator: a signal asked for an end.
    Asked,
    /// From the coordinator: it is done, or goes on without the receiver.
    End,
    /// It is over; the reason.
    Abort { reason: String },
}
