//! Programs with linear rows, and what solves them.

mod assignment;
pub mod blocks;
mod dense;
mod interior;
mod linear;

pub use assignment::assign;
pub use interior::Interior;
pub use linear::{LinearProgram, Optimum, Row, Sense, Solver, TOLERANCE};

/// Why a program has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unsolved {
    /// Nothing satisfies all of its rows.
    #[error("nothing satisfies all rows")]
    Infeasible,
    /// There is no best answer: it goes on for ever.
    #[error("the objective has no bound")]
    Unbounded,
    /// The method gave up.
    #[error("the method gave up after {iterations} iterations with a gap of {gap:e}")]
    Failed {
        /// How long it tried.
        iterations: u32,
        /// How far it was from an optimum, relative to the objective.
        gap: f64,
    },
}
