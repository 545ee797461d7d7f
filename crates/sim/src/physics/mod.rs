//! How fast jobs really go: tables, functions, distance, and who else is there.

mod fill;
mod measured;
mod rate;
mod table;
mod throughputs;

pub use fill::{Cell, Figure, family_and_batch, fill_alone, fill_pairs, left_out};
pub use measured::{Extent, MeasuredSpeeds, Place};
pub use rate::{Crowd, Physics};
pub use table::{Locality, ThroughputTable};
pub use throughputs::{
    NAMED, TableError, gavel_physical_throughputs, gavel_throughputs, load_throughputs, parse_throughputs,
};
