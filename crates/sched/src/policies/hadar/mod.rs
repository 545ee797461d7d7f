//! The family of Hadar: gangs on mixed hardware by prices of GPUs. `policy` is Hadar itself. `hadare` forks jobs into copies:
//! `tracker` keeps the books of a slot, `levels` gives nodes away by `matching`, `kinds` of them at once, `quotas` divides what
//! is left, and `lookahead` plays slots to come. `told` are the prices of a round, written down, and `checks` holds parts
//! against brute force.

mod calendar;
mod candidates;
pub mod checks;
mod claim;
mod desk;
mod dual;
mod hadare;
mod isolated;
mod kinds;
mod levels;
mod lookahead;
mod matching;
mod parameters;
mod policy;
mod prices;
mod quotas;
mod reserved;
mod round;
mod stock;
mod targets;
mod told;
mod tracker;
mod utility;

pub(super) use hadare::HADARE;
pub(super) use policy::HADAR;
pub use told::{Price, told};
