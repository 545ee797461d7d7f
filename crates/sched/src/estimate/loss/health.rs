//! Whether a job's losses look as losses should.

use serde::{Deserialize, Serialize};

use crate::model::LossPoint;

use super::LossHistory;

/// Changes that are looked at.
const RECENT: usize = 10;
/// A job whose changes stay below this share of its largest one for five iterations has converged (our filler for what
/// SLAQ leaves to the job).
const FLAT: f64 = 1e-4;
const FLAT_FOR: usize = 5;
/// Of the recent changes, so many must be rises.
const MOST_RISE: usize = 8;

/// What stands out in the losses of a job. All false and nought is well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossHealth {
    /// The loss rises steadily.
    pub diverging: bool,
    /// The loss does not change any more.
    pub flat: bool,
    /// The number has done nothing but rise since the beginning: it may be a score that is to be maximised, or, if it was
    /// declared as a score, a loss.
    pub direction_suspicious: bool,
    /// Reports that were no numbers.
    pub ignored: u64,
    /// How often the iterations began anew.
    pub restarts: u32,
}

impl LossHealth {
    /// Nothing is odd. To have converged is not odd.
    pub const fn is_healthy(&self) -> bool {
        !self.diverging && !self.direction_suspicious && self.ignored == 0 && self.restarts == 0
    }
}

impl LossHistory {
    /// Looks at the history.
    pub fn health(&self) -> LossHealth {
        let points = self.points();
        let diverging = is_rising(points);
        LossHealth {
            diverging,
            flat: is_flat(points, self.largest_change()),
            direction_suspicious: diverging && never_fell(points),
            ignored: self.ignored(),
            restarts: self.restarts(),
        }
    }

    /// The mean decrease in one iteration over the last so many changes. Nothing before the second report.
    pub fn recent_decrease(&self, changes: usize) -> Option<f64> {
        let points = self.points();
        let from = points.get(points.len().checked_sub(changes.min(points.len().saturating_sub(1)) + 1)?)?;
        let to = points.last().filter(|to| to.iteration > from.iteration)?;
        Some((from.loss - to.loss) / (to.iteration - from.iteration))
    }
}

fn is_rising(points: &[LossPoint]) -> bool {
    let Some(recent) = points.last_chunk::<{ RECENT + 1 }>() else { return false };
    let rises = recent.windows(2).filter(|pair| pair[1].loss > pair[0].loss).count();
    rises >= MOST_RISE && recent[RECENT].loss > recent[0].loss
}

fn is_flat(points: &[LossPoint], largest_change: f64) -> bool {
    let Some(recent) = points.last_chunk::<{ FLAT_FOR + 1 }>() else { return false };
    let change = |pair: &[LossPoint]| (pair[1].loss - pair[0].loss) / (pair[1].iteration - pair[0].iteration);
    recent.windows(2).all(|pair| change(pair).abs() <= FLAT * largest_change)
}

/// All that it ever fell below its start is little beside how far it rose.
fn never_fell(points: &[LossPoint]) -> bool {
    let start = points.first().map_or(0.0, |point| point.loss);
    let lowest = points.iter().map(|point| point.loss).fold(start, f64::min);
    let highest = points.iter().map(|point| point.loss).fold(start, f64::max);
    start - lowest <= 0.05 * (highest - lowest)
}
