//! How good? What a job reported of its loss, and the curve that describes it, kept up report by report.
//!
//! A history is a fold over reports: the same reports in the same order give the same fit, bit by bit. So fits are part
//! of the state and of snapshots, and a policy that starts anew sees what its predecessor saw.
//!
//! The curves, the weighting by recency and the choice of the family are SLAQ's (SoCC 2017, sections 3 and 4). Bounds,
//! window, weights' decay and the least number of points are not published; ours are said where they stand. A policy may ask
//! for the one curve of Optimus (EuroSys 2018) instead.
//!
//! A score that gets better by rising is kept and fitted as its negative. So everything here is a loss: lower is better.

mod families;
mod fit;
mod fitter;
mod health;
mod history;
mod horizon;
mod inverse;
mod projection;
mod window;

use serde::{Deserialize, Serialize};

pub use fit::{Expected, Fit};
pub use fitter::Family;
pub use health::{LossHealth, LossTrend};
pub use history::{LossHistory, MAX_LOSS_POINTS};
pub use horizon::{Milestone, Reached};
pub use inverse::fit_inverse;

/// How loss curves are to be fitted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fitting {
    /// By the families of SLAQ.
    Families(Recency),
    /// By the one curve of Optimus, to all points that are kept; see [`fit_inverse`].
    Inverse,
}

impl Default for Fitting {
    fn default() -> Self {
        Self::Families(Recency::default())
    }
}

/// Which points the families are fitted to, and how much each of them counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Recency {
    /// The weight of a point on squared errors, relative to that of the point after it. Its value is not published;
    /// SLAQ's paper says only that weights fall exponentially.
    pub decay: f64,
    /// Points beyond so many are not looked at.
    pub window: u32,
    /// With fewer points no curve is fitted.
    pub least_points: u32,
}

impl Default for Recency {
    fn default() -> Self {
        Self { decay: 0.9, window: 200, least_points: 5 }
    }
}
