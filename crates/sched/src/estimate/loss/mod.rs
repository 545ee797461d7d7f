//! How good? What a job reported of its loss, and the curve that describes it, kept up report by report.
//!
//! A history is a fold over reports: the same reports in the same order give the same fit, bit by bit. So fits are part
//! of the state and of snapshots, and a policy that starts anew sees what its predecessor saw.

mod history;

use serde::{Deserialize, Serialize};

use crate::model::{Curve, LossPoint};

pub use history::{LossHistory, MAX_LOSS_POINTS};

/// How loss curves are to be fitted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fitting {
    /// The weight of a point on squared errors, relative to that of the point after it. Its value is not published;
    /// SLAQ's paper says only that weights fall exponentially.
    pub decay: f64,
    /// Points beyond so many are not looked at.
    pub window: u32,
    /// With fewer points no curve is fitted.
    pub least_points: u32,
}

impl Default for Fitting {
    fn default() -> Self {
        Self { decay: 0.9, window: 200, least_points: 5 }
    }
}

/// A fitted curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// The curve.
    pub curve: Curve,
    /// The weighted root mean square of what it leaves unexplained, in units of the loss.
    pub residual: f64,
}

/// What is expected of a loss from the latest report on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// As a curve says.
    Curve(Curve),
    /// Each change is the one before times a ratio: where no curve can be fitted.
    Continued {
        /// The latest report.
        from: LossPoint,
        /// The decrease from the iteration before.
        change: f64,
        /// From one change to the next, below 1.
        ratio: f64,
    },
}

impl Expected {
    /// The loss after `k` iterations.
    pub fn loss(&self, k: f64) -> f64 {
        self.excess(k) + self.asymptote()
    }

    /// By how much the loss after `k` iterations is above the one that it tends to.
    pub fn excess(&self, k: f64) -> f64 {
        match *self {
            Self::Curve(curve) => curve.excess(k),
            Self::Continued { from, change, ratio } => {
                let steps = (k - from.iteration).max(0.0);
                change * ratio * ratio.powf(steps) / (1.0 - ratio)
            }
        }
    }

    /// The loss that it tends to.
    pub fn asymptote(&self) -> f64 {
        match *self {
            Self::Curve(curve) => curve.asymptote(),
            Self::Continued { from, change, ratio } => from.loss - change * ratio / (1.0 - ratio),
        }
    }
}
