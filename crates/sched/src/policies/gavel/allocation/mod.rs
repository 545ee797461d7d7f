//! The mathematics of Gavel: how the time of GPUs of several types is shared out among jobs, one file for each objective.
//! All of it is pure: a problem goes in, shares come out, and what should be random is handed in.

mod allox;
mod cost;
mod finish_time;
mod frame;
mod gandiva;
mod hierarchical;
mod isolated;
mod makespan;
mod max_min;
mod orders;
mod packing;
mod pairing;
mod problem;
mod proportional;
mod sums;

pub use allox::{ALLOX_GPUS, allox};
pub use cost::{Cheapest, CostForm, min_cost, min_cost_packed};
pub use finish_time::{finish_time_fairness, finish_time_fairness_packed};
pub use gandiva::{Parting, Partners, gandiva};
pub use hierarchical::{Entity, Inside, hierarchical, hierarchical_packed};
pub use isolated::isolated;
pub use makespan::{bisected_makespan, min_makespan, min_makespan_packed};
pub use max_min::{max_min, max_min_packed};
pub use orders::{PACKING_THRESHOLD, fifo_aware, fifo_blind, fifo_packed, shortest_first};
pub use packing::{Combination, PackedAllocation, Pairs, Sharing};
pub use problem::{Allocation, Column, Demand, Pool, Problem, Rates, Shares, Sight};
pub use proportional::{proportional, strategy_proof};
pub use sums::{fifo_linear, max_sum};
