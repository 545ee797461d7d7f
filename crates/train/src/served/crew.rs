//! Who takes part in a job, as its coordinator knows them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::message::Role;
use super::order::Order;
use crate::net::Peer;

/// A process that joined.
pub(super) struct Member {
    pub(super) role: Role,
    pub(super) number: u32,
    /// Its process as its machine knows it.
    pub(super) process: u32,
    /// Where a server listens.
    pub(super) address: Option<SocketAddr>,
    /// When it was welcomed, until it said that it is ready.
    pub(super) welcomed: Option<Instant>,
    /// How long joining took it.
    pub(super) registered: Duration,
    /// Whether it was let go.
    pub(super) released: bool,
}

/// All of them. Who is neither at work as worker nor as server stands by.
#[derive(Default)]
pub(super) struct Crew {
    pub(super) members: BTreeMap<Peer, Member>,
    pub(super) workers: Vec<Peer>,
    pub(super) servers: Vec<Peer>,
    joined: u32,
}

impl Crew {
    /// Takes somebody in; the answer is its number.
    pub(super) fn join(&mut self, peer: Peer, role: Role, process: u32, address: Option<SocketAddr>) -> u32 {
        let number = self.joined;
        self.joined += 1;
        let (welcomed, registered) = (Some(Instant::now()), Duration::ZERO);
        self.members
            .insert(peer, Member { role, number, process, address, welcomed, registered, released: false });
        number
    }

    pub(super) fn at_work(&self, role: Role) -> &[Peer] {
        match role {
            Role::Worker => &self.workers,
            Role::Server => &self.servers,
        }
    }

    /// Those who could take part as well, the first to come first.
    pub(super) fn standing_by(&self, role: Role) -> Vec<Peer> {
        let free = |(peer, member): &(&Peer, &Member)| {
            let ready = member.welcomed.is_none() && !member.released;
            member.role == role && ready && !self.at_work(role).contains(peer)
        };
        let mut free: Vec<(&Peer, &Member)> = self.members.iter().filter(free).collect();
        free.sort_by_key(|(_, member)| member.number);
        free.into_iter().map(|(peer, _)| *peer).collect()
    }

    /// How many work now.
    pub(super) fn order(&self) -> Order {
        Order { workers: self.workers.len(), servers: self.servers.len() }
    }

    /// How many more workers and servers it takes to carry out an order.
    pub(super) fn missing(&self, order: Order) -> Order {
        let missing = |role, wanted: usize| {
            wanted.saturating_sub(self.at_work(role).len() + self.standing_by(role).len())
        };
        Order { workers: missing(Role::Worker, order.workers), servers: missing(Role::Server, order.servers) }
    }

    /// What errors call it.
    pub(super) fn name(&self, peer: Peer) -> String {
        match self.members.get(&peer) {
            Some(member) => format!("{} {} (process {})", member.role.word(), member.number, member.process),
            None => "a process that has not joined".to_owned(),
        }
    }
}
