//! Trainyard's virtual backend: what jobs really do, how fast machines really are, and where jobs come from.

pub mod cluster;
pub mod faults;
pub mod generate;
pub mod physics;
pub mod trace;
pub mod truth;
pub mod workload;
