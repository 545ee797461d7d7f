//! Trainyard's pure core.
//!
//! A scheduler is a function from a snapshot to a decision. Backends, virtual or real, produce events;
//! [`control`] folds events into state, shows it to a policy as a [`view::Snapshot`], checks the
//! [`decide::Decision`] that comes back, and derives the actions that are due. Nothing here reads a
//! clock, a file, the environment, or randomness that was not handed in.
//!
//! Each module uses only what stands left of it:
//! `model < estimate, nets, partition, place, rank, solve < view < decide < policies < control < metrics, why`.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod control;
pub mod decide;
pub mod estimate;
pub mod metrics;
pub mod model;
pub mod nets;
pub mod partition;
pub mod place;
pub mod policies;
pub mod rank;
pub mod solve;
pub mod view;
pub mod why;
