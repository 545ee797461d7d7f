//! How fast jobs really go.

mod table;

pub use table::{Locality, ThroughputTable};
