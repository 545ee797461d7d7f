//! Trainyard's virtual backend: what jobs really do, how fast machines really are, and where jobs come from.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod backend;
pub mod cluster;
pub mod faults;
pub mod generate;
mod occupancy;
pub mod physics;
pub mod resample;
mod running;
pub mod simulate;
pub mod trace;
pub mod truth;
pub mod workload;
