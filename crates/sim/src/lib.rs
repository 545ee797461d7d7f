//! Trainyard's virtual backend: what jobs really do, how fast machines really are, and where jobs come from.

pub mod physics;
pub mod truth;
pub mod workload;
