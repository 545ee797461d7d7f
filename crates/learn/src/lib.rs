//! Learning to schedule: training loops over the real core and the simulator.
//!
//! There is no second simulator here. A learner is a policy like any other (`actor`): it is asked by the core, sees
//! snapshots, and answers decisions; beside that it writes down what it saw and did. Between two slots (`gym`) a trainer
//! reads what was written and moves the weights. What comes out are weights (`trainyard_sched::nets`) that the policy
//! of the same name decides with, without this crate.
//!
//! `network` learns, `replay` remembers, `imitate` shows what another policy does, `dl2` is the training of DL2 from top to
//! bottom, `evaluate` compares. Everything random hangs from one seed; the same seed gives the same weights, byte for byte,
//! on any number of threads.

pub mod actor;
pub mod dl2;
pub mod evaluate;
mod gradients;
pub mod gym;
pub mod imitate;
pub mod network;
pub mod replay;
mod settings;
mod shuffle;

/// Why there was no training.
#[derive(Debug, thiserror::Error)]
pub enum LearnError {
    /// A run could not begin.
    #[error("a run of {what} cannot begin: {source}")]
    Setup {
        /// Of what.
        what: String,
        /// Why.
        source: trainyard_sim::simulate::SetupError,
    },
    /// A policy cannot be made.
    #[error(transparent)]
    Policy(#[from] trainyard_sched::decide::ParameterError),
    /// Nothing was there to learn from.
    #[error("{0}")]
    Nothing(String),
}
