//! Trainyard's virtual backend: what jobs really do, how fast machines really are, and where jobs come from.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod accuracy;
pub mod backend;
pub mod capacity;
pub mod cluster;
mod copies;
pub mod curves;
mod document;
pub mod faults;
pub mod forecast;
pub mod generate;
pub mod loss;
pub mod observed;
mod occupancy;
mod options;
pub mod physics;
mod quantity;
pub mod resample;
mod running;
pub mod simulate;
pub mod slotted;
mod strangers;
mod supplement;
pub mod tasks;
pub mod trace;
pub mod truth;
pub mod workload;

pub use document::DocumentError;
pub use strangers::Stranger;
pub use supplement::SupplementError;
