//! How fast jobs really go: tables, functions, distance, and who else is there.

mod rate;
mod table;

pub use rate::{Crowd, Physics};
pub use table::{Locality, ThroughputTable};
