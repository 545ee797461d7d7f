//! Loss reports and the curves that describe them.

use serde::{Deserialize, Serialize};

/// One report: the loss after so many iterations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossPoint {
    /// Iterations done.
    pub iteration: f64,
    /// The loss then.
    pub loss: f64,
    /// The validation accuracy then, if it was measured.
    pub accuracy: Option<f64>,
}

/// How the loss of a job is known to converge, from the algorithm that its owner uses (SLAQ, SoCC 2017, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Convergence {
    /// First-order methods, such as gradient descent: `O(1/k)`, at best `O(1/k^2)`.
    Sublinear,
    /// Quasi-Newton, expectation maximisation and the like: `O(mu^k)`.
    Linear,
    /// Nothing can be said, as for deep networks.
    NonConvex,
}

/// Which way the number that a job reports gets better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// It is a loss.
    #[default]
    Lower,
    /// It is a score, such as an accuracy.
    Higher,
}

/// A family of loss curves over the iteration number `k`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Curve {
    /// `1 / (a k^2 + b k + c) + d`: first-order methods (SLAQ, SoCC 2017).
    Sublinear {
        /// Quadratic term.
        a: f64,
        /// Linear term.
        b: f64,
        /// Inverse of the initial excess loss.
        c: f64,
        /// The asymptote.
        d: f64,
    },
    /// `amplitude * mu^k + c`: linear or superlinear convergence (SLAQ, SoCC 2017).
    Geometric {
        /// Excess loss at the start.
        amplitude: f64,
        /// Ratio from one iteration to the next, below 1.
        mu: f64,
        /// The asymptote.
        c: f64,
    },
}

impl Curve {
    /// The loss that it tends to.
    pub const fn asymptote(&self) -> f64 {
        match *self {
            Self::Sublinear { d, .. } => d,
            Self::Geometric { c, .. } => c,
        }
    }

    /// The loss after `k` iterations.
    pub fn loss(&self, k: f64) -> f64 {
        match *self {
            Self::Sublinear { a, b, c, d } => 1.0 / (a * k * k + b * k + c) + d,
            Self::Geometric { amplitude, mu, c } => amplitude * mu.powf(k) + c,
        }
    }
}
