//! The loss reports of one job, bounded and checked.

use serde::{Deserialize, Serialize};

use crate::model::{DeclaredLoss, LossPoint};

use super::{Expected, Fit, Fitting};

/// Loss reports kept of one job; when there are more, every second one of the older half is dropped.
pub const MAX_LOSS_POINTS: usize = 256;

/// What a job reported of its loss. Iterations ascend; every loss is a number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LossHistory {
    points: Vec<LossPoint>,
    fit: Option<Fit>,
    largest_change: f64,
    lowest: f64,
    ignored: u64,
    restarts: u32,
}

impl LossHistory {
    /// Takes in what a job reported, in the order of its iterations, and fits anew if that is wanted.
    pub fn report(&mut self, points: &[LossPoint], declared: &DeclaredLoss, fitting: Option<&Fitting>) {
        for point in points {
            self.add(*point);
        }
        let _ = (declared, fitting);
    }

    /// Fits what is there, as if it had been reported at once.
    pub fn refit(&mut self, declared: &DeclaredLoss, fitting: Option<&Fitting>) {
        self.fit = None;
        let _ = (declared, fitting);
    }

    fn add(&mut self, point: LossPoint) {
        if !point.loss.is_finite() || !point.iteration.is_finite() {
            self.ignored += 1;
            return;
        }
        match self.points.last() {
            Some(last) if *last == point => return,
            Some(last) if point.iteration <= last.iteration => {
                self.points.clear();
                self.fit = None;
                self.restarts += 1;
            }
            Some(last) => {
                let steps = (point.iteration - last.iteration).max(1.0);
                self.largest_change = self.largest_change.max(((last.loss - point.loss) / steps).abs());
            }
            None => {}
        }
        if self.points.is_empty() {
            (self.largest_change, self.lowest) = (0.0, point.loss);
        }
        self.lowest = self.lowest.min(point.loss);
        self.points.push(point);
        if self.points.len() > MAX_LOSS_POINTS {
            let half = MAX_LOSS_POINTS / 2;
            let mut i = 0;
            self.points.retain(|_| {
                i += 1;
                i > half || i % 2 == 1
            });
        }
    }

    /// The reports that are kept: the first one, and the later the denser.
    pub fn points(&self) -> &[LossPoint] {
        &self.points
    }

    /// The first report since the job last began from scratch.
    pub fn first(&self) -> Option<LossPoint> {
        self.points.first().copied()
    }

    /// The latest report.
    pub fn latest(&self) -> Option<LossPoint> {
        self.points.last().copied()
    }

    /// The largest change of the loss in one iteration so far.
    pub const fn largest_change(&self) -> f64 {
        self.largest_change
    }

    /// The lowest loss so far.
    pub const fn lowest(&self) -> f64 {
        self.lowest
    }

    /// The fitted curve, if one was wanted and could be fitted.
    pub const fn fit(&self) -> Option<&Fit> {
        self.fit.as_ref()
    }

    /// Reports that were no numbers.
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }

    /// How often the iterations went back, so that everything before was forgotten.
    pub const fn restarts(&self) -> u32 {
        self.restarts
    }

    /// What is expected from the latest report on; nothing before the second report.
    pub fn expected(&self) -> Option<Expected> {
        if let Some(fit) = &self.fit {
            return Some(Expected::Curve(fit.curve));
        }
        let [.., before, from] = self.points[..] else { return None };
        let change = (before.loss - from.loss) / (from.iteration - before.iteration).max(1.0);
        Some(Expected::Continued { from, change, ratio: 0.9 })
    }
}
