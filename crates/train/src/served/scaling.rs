//! A change of workers and servers while training goes on: who comes and goes, what moves where, and how long each step took.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Instant;

use serde::Serialize;

use super::blocks::Blocks;
use super::crew::Crew;
use super::message::{Home, Message, Role};
use super::order::Order;
use crate::net::Peer;

/// A number before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Before.
    pub from: usize,
    /// After.
    pub to: usize,
}

/// What a change was and took, by the steps of DL2.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scaled {
    /// The scaling clock: updates that were made before it.
    pub version: u64,
    /// Workers.
    pub workers: Change,
    /// Servers.
    pub servers: Change,
    /// Numbers that moved from one server to another, each with its velocity.
    pub moved: usize,
    /// Step 1, the longest of those who came: from connecting to being welcomed. Training goes on meanwhile.
    pub register_seconds: f64,
    /// Step 2: who gets what is worked out and told. Training goes on meanwhile.
    pub assign_seconds: f64,
    /// Step 3, the longest of all servers: from reaching the clock to having all blocks.
    pub migrate_seconds: f64,
    /// Step 4: from telling workers the new table to the last one having taken it up.
    pub update_seconds: f64,
    /// How long training stood still: the longest time that a worker waited at the clock until all could go on.
    pub pause_seconds: f64,
}

/// A change under way.
pub(super) struct Scaling {
    pub(super) clock: u64,
    /// Who works from then on.
    pub(super) workers: Vec<Peer>,
    pub(super) servers: Vec<Peer>,
    /// The server of each block from then on.
    pub(super) homes: Vec<Peer>,
    /// Who is let go.
    pub(super) leaving: Vec<Peer>,
    /// Servers that have not yet said that they have what they should have.
    pub(super) moving: BTreeSet<Peer>,
    /// Workers that have not yet taken the new table up; empty before they are told.
    pub(super) resuming: BTreeSet<Peer>,
    /// When the step under way began.
    pub(super) since: Instant,
    /// When the worker that waited longest reached the clock, as far as is known.
    pub(super) still: Option<Instant>,
    pub(super) report: Scaled,
}

impl Scaling {
    /// Plans a change. `homes` is empty if no server has anything yet. There must be enough who stand by.
    pub(super) fn plan(crew: &Crew, blocks: Blocks, homes: &[Peer], order: Order, clock: u64) -> Self {
        let since = Instant::now();
        let join = |role, wanted: usize| -> Vec<Peer> {
            let mut all = crew.at_work(role).to_vec();
            all.extend(crew.standing_by(role));
            all.truncate(wanted.max(crew.at_work(role).len()));
            all
        };
        let mut workers = join(Role::Worker, order.workers);
        let mut leaving = workers.split_off(order.workers.min(workers.len()));
        let mut servers = join(Role::Server, order.servers);
        let index = |servers: &[Peer], home: &Peer| servers.iter().position(|server| server == home);
        while servers.len() > order.servers {
            let here: Vec<Option<usize>> = homes.iter().map(|home| index(&servers, home)).collect();
            leaving.push(servers.remove(blocks.least(&here, servers.len())));
        }
        let here: Vec<Option<usize>> = match homes {
            [] => vec![None; blocks.count()],
            homes => homes.iter().map(|home| index(&servers, home)).collect(),
        };
        let assigned: Vec<Peer> =
            blocks.assign(&here, servers.len()).into_iter().map(|server| servers[server]).collect();
        let moved = homes.iter().zip(&assigned).enumerate().filter(|(_, (old, new))| old != new);
        let moved = moved.map(|(block, _)| blocks.numbers(block).len()).sum();
        let came = |peer: &&Peer| !crew.workers.contains(peer) && !crew.servers.contains(peer);
        let registered =
            workers.iter().chain(&servers).filter(came).map(|peer| crew.members[peer].registered);
        let report = Scaled {
            version: clock,
            workers: Change { from: crew.workers.len(), to: workers.len() },
            servers: Change { from: crew.servers.len(), to: servers.len() },
            moved,
            register_seconds: registered.max().unwrap_or_default().as_secs_f64(),
            assign_seconds: 0.0,
            migrate_seconds: 0.0,
            update_seconds: 0.0,
            pause_seconds: 0.0,
        };
        let moving = servers.iter().chain(&crew.servers).copied().collect();
        let resuming = BTreeSet::new();
        Self {
            clock,
            workers,
            servers,
            homes: assigned,
            leaving,
            moving,
            resuming,
            since,
            still: None,
            report,
        }
    }

    /// What each server is told, by server.
    pub(super) fn orders(&self, crew: &Crew, homes: &[Peer]) -> BTreeMap<Peer, Message> {
        let order = |server: &Peer| {
            let own = (0_u32..).zip(&self.homes).filter(|(_, home)| *home == server).map(|(block, _)| block);
            let moves = (0_u32..).zip(homes.iter().zip(&self.homes));
            let send = moves
                .filter(|(_, (old, new))| *old == server && *new != server)
                .map(|(block, (_, new))| (block, address(crew, *new)));
            let (clock, members) = (self.clock, self.workers.len());
            (*server, Message::Scale { clock, own: own.collect(), members, send: send.collect() })
        };
        self.moving.iter().map(order).collect()
    }

    /// What each worker is told, by worker.
    pub(super) fn tables(&self, crew: &Crew) -> Vec<(Peer, Message)> {
        let home = |server: &Peer| Home {
            address: address(crew, *server),
            blocks: (0_u32..)
                .zip(&self.homes)
                .filter(|(_, home)| *home == server)
                .map(|(block, _)| block)
                .collect(),
        };
        let homes: Vec<Home> = self.servers.iter().map(home).collect();
        let members = self.workers.len();
        let table = |(member, worker): (usize, &Peer)| {
            (*worker, Message::Table { clock: self.clock, member, members, homes: homes.clone() })
        };
        self.workers.iter().enumerate().map(table).collect()
    }

    /// Whether somebody has a part in it.
    pub(super) fn concerns(&self, peer: Peer) -> bool {
        self.workers.contains(&peer) || self.servers.contains(&peer) || self.moving.contains(&peer)
    }
}

fn address(crew: &Crew, server: Peer) -> SocketAddr {
    crew.members[&server].address.expect("a server without an address is not taken in")
}
