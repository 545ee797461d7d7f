//! What a program says of itself while it runs, besides its losses.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::served::Scaled;

/// What is told while a program runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// The states of all copies were brought together, and this is what it goes on from.
    Merged {
        /// The iterations of all of them.
        iteration: u64,
    },
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
    /// Others may join here.
    Listening {
        /// The address with its port.
        address: SocketAddr,
    },
    /// A worker or a server has joined, and stands by until it is wanted.
    Joined {
        /// Which one.
        who: String,
    },
    /// The control file does not say how many workers and servers there shall be; the numbers stay.
    NoOrder {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// An order cannot be carried out before others join.
    Missing {
        /// How many workers.
        workers: usize,
        /// How many servers.
        servers: usize,
    },
    /// Workers or servers came or went.
    Scaled(Scaled),
    /// Somebody would have joined.
    Refused {
        /// Which process of its machine.
        process: u32,
        /// Why it may not.
        reason: String,
    },
    /// Two partitions of a chain can speak to each other.
    Linked {
        /// The other one's number.
        partition: usize,
    },
    /// A partition is waited for.
    Waiting {
        /// Its number.
        partition: usize,
        /// Why.
        reason: String,
    },
    /// All partitions of a chain go on from the state after this iteration.
    Together {
        /// The iteration.
        iteration: u64,
        /// How far this one had come.
        from: u64,
    },
}
