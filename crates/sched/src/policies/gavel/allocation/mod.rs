//! The mathematics of Gavel: how the time of GPUs of several types is shared out among jobs, one file for each objective.
//! All of it is pure: a problem goes in, shares come out, and what should be random is handed in.

mod packing;
mod problem;

use serde::{Deserialize, Serialize};

pub use packing::{Combination, PackedAllocation, Sharing};
pub use problem::{Allocation, Column, Demand, Pool, Problem, Rates, Shares, Sight};

/// What is kept from one solution to begin the next one with. It makes answers come sooner and changes them in the last
/// digits at most, so whoever must repeat a run to the last bit keeps it with the rest of its state, or hands in a new one each time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {}
