//! When a loss comes to a target, by what was reported and by a curve that does not know of the target.

use serde::Serialize;
use trainyard_sched::estimate::{Expected, LossHealth, LossHistory};
use trainyard_sched::model::LossPoint;

/// A target is where the curve tends to if it is no further from there than so many deviations, or this part of what was
/// gained.
const DEVIATIONS: f64 = 2.0;
const NEAR: f64 = 1e-3;
/// Far beyond everything, where only the asymptote is left.
const FAR: f64 = 1e6;

/// A target, and when it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct TargetAnswer {
    /// The loss, or score, that was asked for.
    pub(crate) loss: f64,
    /// Whether and when it is reached.
    #[serde(flatten)]
    pub(crate) reach: Reach,
}

/// Whether and when a target is reached.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "reach", rename_all = "snake_case")]
pub(crate) enum Reach {
    /// It has been.
    Reached {
        /// The first iteration that reported as much.
        iteration: f64,
    },
    /// It will be.
    Expected {
        /// The iteration.
        iteration: f64,
    },
    /// It is where the curve tends to, as far as can be told.
    Asymptote,
    /// The curve ends before it.
    NotReachable {
        /// Where the curve ends.
        asymptote: f64,
    },
    /// Nothing is expected of so few points, or of a loss that rises.
    Unknown,
}

/// All of this is about losses: a score is turned around, and `shown` turns it back.
pub(super) fn reach(
    points: &[LossPoint],
    target: f64,
    free: &LossHistory,
    health: &LossHealth,
    shown: impl Fn(f64) -> f64,
) -> TargetAnswer {
    let wanted = shown(target);
    let first = points.iter().find(|point| shown(point.loss) <= wanted);
    let expected = free.expected().filter(|_| !health.is_diverging());
    let reach = match (first, expected) {
        (Some(point), _) => Reach::Reached { iteration: point.iteration },
        (None, None) => Reach::Unknown,
        (None, Some(expected)) => ahead(wanted, free, &expected, shown),
    };
    TargetAnswer { loss: target, reach }
}

fn ahead(target: f64, free: &LossHistory, expected: &Expected, shown: impl Fn(f64) -> f64) -> Reach {
    let end = expected.asymptote();
    let latest = free.latest().map_or(0.0, |latest| latest.iteration);
    let deviation = free.fit().map_or(0.0, |fit| fit.curve_deviation(FAR * latest.max(1.0)));
    let gained = free.first().map_or(0.0, |first| first.loss - end).abs();
    if (target - end).abs() <= (DEVIATIONS * deviation).max(NEAR * gained) {
        return Reach::Asymptote;
    }
    if target < end {
        return Reach::NotReachable { asymptote: shown(end) };
    }
    let iteration = expected.iterations_to_excess(target - end);
    // The curve passes below what was reported where it fits badly; what has not been reported is still ahead.
    if iteration.is_finite() { Reach::Expected { iteration: iteration.max(latest) } } else { Reach::Unknown }
}
