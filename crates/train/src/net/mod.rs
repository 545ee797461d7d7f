//! Connections between the processes of one job: frames of bounded length over TCP, opened by a handshake that shows both sides to
//! know the job's secret, and kept alive by beats.
//!
//! What is sent is not encrypted: a job's network is trusted not to change what passes, and strangers on it can only be refused.

mod frame;
mod hub;
mod token;
mod wire;

pub(crate) use frame::{Frame, FrameError, MOST_VALUES_IN_FRAME, Numbers};
pub(crate) use hub::{Hub, Peer, What};
pub use token::Token;
pub(crate) use wire::{Reader, Wire, Writer, accept, connect, listen};
