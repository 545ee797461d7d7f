//! Trainyard's virtual backend: what jobs really do, how fast machines really are, and where jobs come from.

pub mod backend;
mod occupancy;
pub mod physics;
mod running;
pub mod simulate;
pub mod truth;
pub mod workload;
