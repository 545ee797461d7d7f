//! Where does it go? Free capacity, placement rules, and why something does not fit.
//!
//! Plain functions on nouns and numbers: no snapshot, no policy. A policy author should meet
//! [`FreeCapacity::keep`] first: try to stay where you are before you pack anew.

mod blockers;
mod board;
mod free_capacity;
mod left;
mod node_set;
mod rules;
mod tasks;

pub use blockers::{NoRoom, largest_gang, largest_gang_by, no_room};
pub use board::{Board, Near};
pub use free_capacity::FreeCapacity;
pub use left::Sizes;
pub use node_set::NodeSet;
pub use rules::{Ask, Rule};
pub use tasks::{Choose, TasksAsk, complete_units, units};
