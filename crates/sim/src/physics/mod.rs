//! How fast jobs really go: tables, functions, distance, and who else is there.

mod rate;
mod table;
mod throughputs;

pub use rate::{Crowd, Physics};
pub use table::{Locality, ThroughputTable};
pub use throughputs::{TableError, gavel_throughputs, parse_throughputs};
