//! The mathematics of Gavel: how the time of GPUs of several types is shared out among jobs, one file for each objective.
//! All of it is pure: a problem goes in, shares come out, and what should be random is handed in.

mod cost;
mod finish_time;
mod frame;
mod isolated;
mod makespan;
mod max_min;
mod packing;
mod problem;
mod sums;

pub use cost::{Cheapest, CostForm, min_cost};
pub use finish_time::finish_time_fairness;
pub use isolated::isolated;
pub use makespan::{bisected_makespan, min_makespan};
pub use max_min::max_min;
pub use packing::{Combination, PackedAllocation, Sharing};
pub use problem::{Allocation, Column, Demand, Pool, Problem, Rates, Shares, Sight};
pub use sums::{fifo_linear, max_sum};
