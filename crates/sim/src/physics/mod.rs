//! How fast jobs really go: tables, functions, distance, and who else is there.

mod measured;
mod rate;
mod table;
mod throughputs;

pub use measured::{Extent, MeasuredSpeeds, Place};
pub use rate::{Crowd, Physics};
pub use table::{Locality, ThroughputTable};
pub use throughputs::{
    NAMED, TableError, gavel_physical_throughputs, gavel_throughputs, load_throughputs, parse_throughputs,
};
