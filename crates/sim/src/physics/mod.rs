//! How fast jobs really go.

mod table;
mod throughputs;

pub use table::{Locality, ThroughputTable};
pub use throughputs::{TableError, gavel_throughputs, parse_throughputs};
