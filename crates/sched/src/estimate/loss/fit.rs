//! A fitted curve, what it says of losses to come, and how sure that is.

use serde::{Deserialize, Serialize};

use crate::model::{Curve, LossPoint};

use super::fitter::Family;

/// A fitted curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// The curve, over the iterations since `origin`.
    pub curve: Curve,
    /// The iteration that the curve counts from. Far from the job's start a geometric curve could not be written down
    /// otherwise, as its excess loss at the start would overflow.
    pub origin: f64,
    /// The weighted root mean square of what it leaves unexplained, in units of the loss.
    pub residual: f64,
    /// The standard deviation of one report about the curve.
    pub(super) report: f64,
    /// Independent changes of the parameters by one standard deviation each.
    pub(super) spread: [[f64; 4]; 4],
}

impl Fit {
    /// The loss after `k` iterations.
    pub fn loss(&self, k: f64) -> f64 {
        self.curve.loss(k - self.origin)
    }

    /// The loss that it tends to.
    pub const fn asymptote(&self) -> f64 {
        self.curve.asymptote()
    }

    /// Which family the curve is of.
    pub const fn family(&self) -> Family {
        match self.curve {
            Curve::Sublinear { .. } => Family::Sublinear,
            Curve::Geometric { .. } => Family::Geometric,
        }
    }

    /// The standard deviation of the curve at `k`, from what the data leave open of its parameters, to first order.
    pub fn curve_deviation(&self, k: f64) -> f64 {
        let slope = self.slope(k - self.origin);
        let along = |column: &[f64; 4]| column.iter().zip(slope).map(|(c, s)| c * s).sum::<f64>();
        self.spread.iter().map(|column| along(column).powi(2)).sum::<f64>().sqrt()
    }

    /// The standard deviation of a loss that is reported at `k`: of the curve, and of the report about it.
    pub fn deviation(&self, k: f64) -> f64 {
        self.curve_deviation(k).hypot(self.report)
    }

    /// How the loss changes with each of the parameters. The second one of a geometric curve is its rate, `-ln mu`.
    fn slope(&self, k: f64) -> [f64; 4] {
        match self.curve {
            Curve::Sublinear { a, b, c, .. } => {
                let q = 1.0 / ((a * k + b) * k + c);
                [-q * q * k * k, -q * q * k, -q * q, 1.0]
            }
            Curve::Geometric { amplitude, mu, .. } => {
                let power = mu.powf(k);
                [power, -amplitude * k * power, 1.0, 0.0]
            }
        }
    }

    /// Curves whose parameters lie one standard deviation to either side, one pair for each independent direction. What
    /// no curve of the family can do, it does as far as it can.
    pub(super) fn neighbours(&self) -> impl Iterator<Item = [Expected; 2]> + '_ {
        self.spread.iter().filter(|column| column.iter().any(|part| *part != 0.0)).map(|column| {
            [1.0, -1.0].map(|sign| Expected::Fitted { curve: self.moved(column, sign), origin: self.origin })
        })
    }

    fn moved(&self, column: &[f64; 4], sign: f64) -> Curve {
        let by = |i: usize| sign * column[i];
        match self.curve {
            Curve::Sublinear { a, b, c, d } => Curve::Sublinear {
                a: (a + by(0)).max(0.0),
                b: (b + by(1)).max(0.0),
                c: (c + by(2)).max(c * 1e-3),
                d: d + by(3),
            },
            Curve::Geometric { amplitude, mu, c } => Curve::Geometric {
                amplitude: (amplitude + by(0)).max(0.0),
                mu: (mu * (-by(1)).exp()).min(1.0 - 1e-9),
                c: c + by(2),
            },
        }
    }
}

/// What is expected of a loss from the latest report on. It never rises.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// As a curve says.
    Curve(Curve),
    /// As a curve says that counts from a later iteration.
    Fitted {
        /// The curve.
        curve: Curve,
        /// The iteration that it counts from.
        origin: f64,
    },
    /// Each change is the one before times a ratio: where no curve can be fitted.
    Continued {
        /// The latest report.
        from: LossPoint,
        /// The decrease from the iteration before; never below 0.
        change: f64,
        /// From one change to the next, below 1.
        ratio: f64,
    },
}

impl Expected {
    /// The loss after `k` iterations.
    #[inline]
    pub fn loss(&self, k: f64) -> f64 {
        self.excess(k) + self.asymptote()
    }

    /// By how much the loss after `k` iterations is above the one that it tends to.
    #[inline]
    pub fn excess(&self, k: f64) -> f64 {
        match *self {
            Self::Curve(curve) => curve.excess(k),
            Self::Fitted { curve, origin } => curve.excess(k - origin),
            Self::Continued { from, change, ratio } => {
                let steps = (k - from.iteration).max(0.0);
                change * ratio * ratio.powf(steps) / (1.0 - ratio)
            }
        }
    }

    /// After how many iterations the loss is so far above its end; infinite if never.
    pub fn iterations_to_excess(&self, excess: f64) -> f64 {
        match *self {
            Self::Curve(curve) => curve.iterations_to_excess(excess),
            Self::Fitted { curve, origin } => origin + curve.iterations_to_excess(excess),
            Self::Continued { from, change, ratio } => {
                let steps = (excess * (1.0 - ratio) / (change * ratio)).ln() / ratio.ln();
                if steps.is_nan() { f64::INFINITY } else { from.iteration + steps }
            }
        }
    }

    /// The loss that it tends to.
    pub fn asymptote(&self) -> f64 {
        match *self {
            Self::Curve(curve) | Self::Fitted { curve, .. } => curve.asymptote(),
            Self::Continued { from, change, ratio } => from.loss - change * ratio / (1.0 - ratio),
        }
    }
}

impl From<Fit> for Expected {
    fn from(fit: Fit) -> Self {
        Self::Fitted { curve: fit.curve, origin: fit.origin }
    }
}
