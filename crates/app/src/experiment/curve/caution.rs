//! Why what is said of a curve may mean little.

use serde::Serialize;
use trainyard_sched::estimate::{Expected, Fitting, LossHealth, LossHistory, LossTrend};
use trainyard_sched::model::LossPoint;

use super::FIRST_LOOK;

/// A scatter of more than this part of what was gained is told.
const MUCH_NOISE: f64 = 0.1;
/// A curve that is to gain so many times what it has gained has not bent yet.
const UNBENT: f64 = 3.0;

/// A reason to believe less.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "caution", rename_all = "snake_case")]
pub(crate) enum Caution {
    /// It rose from the beginning: is the direction right?
    Backwards,
    /// It rises, or stays above what it had come to.
    Diverging {
        /// The last iteration at which it was about as low as ever.
        since: f64,
    },
    /// One report is far from all about it, and the curve is bent by it.
    Outlier {
        /// Its iteration.
        iteration: f64,
        /// What was reported.
        loss: f64,
    },
    /// With so few points nothing can be held against what came.
    FewPoints {
        /// How many there are.
        points: usize,
    },
    /// No trend stands out from the noise.
    NoTrend,
    /// The reports scatter about the curve.
    Noise {
        /// The scatter as a part of what was gained.
        part: f64,
    },
    /// So far it falls along a line, so its end lies beyond all that was seen.
    Unbent,
}

/// Everything that speaks against believing.
pub(super) fn cautions(
    points: &[LossPoint],
    history: &LossHistory,
    health: &LossHealth,
    fitting: &Fitting,
) -> Vec<Caution> {
    let mut cautions = Vec::new();
    match health.trend {
        LossTrend::Backwards => cautions.push(Caution::Backwards),
        LossTrend::Diverging { since } => cautions.push(Caution::Diverging { since }),
        LossTrend::Unclear => cautions.push(Caution::NoTrend),
        LossTrend::Unknown | LossTrend::Falling | LossTrend::Constant | LossTrend::Flat { .. } => {}
    }
    cautions.extend(health.outlier.and_then(|iteration| outlier(points, iteration, fitting)));
    if points.len() < FIRST_LOOK {
        cautions.push(Caution::FewPoints { points: points.len() });
    }
    if health.trend == LossTrend::Falling && health.outlier.is_none() {
        cautions.extend(noise(history));
        cautions.extend(
            history.expected().filter(|expected| is_unbent(history, expected)).map(|_| Caution::Unbent),
        );
    }
    cautions
}

/// An outlier that a curve may still be fitted to.
fn outlier(points: &[LossPoint], iteration: f64, fitting: &Fitting) -> Option<Caution> {
    let later = points.iter().rev().take_while(|point| point.iteration > iteration).count();
    let point = points.iter().find(|point| point.iteration == iteration)?;
    let bends = match fitting {
        Fitting::Families(recency) => later < recency.window as usize,
        Fitting::Inverse => true,
    };
    bends.then_some(Caution::Outlier { iteration, loss: point.loss })
}

fn noise(history: &LossHistory) -> Option<Caution> {
    let gained = history.first()?.loss - history.lowest();
    let part = history.fit()?.residual / gained;
    (part > MUCH_NOISE).then_some(Caution::Noise { part })
}

fn is_unbent(history: &LossHistory, expected: &Expected) -> bool {
    let (Some(first), Some(latest)) = (history.first(), history.latest()) else { return false };
    expected.excess(latest.iteration) > UNBENT * (first.loss - latest.loss)
}
