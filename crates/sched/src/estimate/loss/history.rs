//! The loss reports of one job, bounded and checked.

use serde::{Deserialize, Serialize};

use crate::model::{DeclaredLoss, LossPoint};

use super::fitter::{Fitter, oriented};
use super::window::median;
use super::{Expected, Fit, Fitting, fit_inverse};

/// Loss reports kept of one job; when there are more, every second one of the older half is dropped.
pub const MAX_LOSS_POINTS: usize = 256;

/// What a job reported of its loss, as a loss: a score that gets better by rising is kept as its negative. Iterations
/// ascend; every loss is a number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LossHistory {
    points: Vec<LossPoint>,
    fit: Option<Fit>,
    fitter: Fitter,
    largest_change: f64,
    lowest: f64,
    taken: u64,
    ignored: u64,
    restarts: u32,
    /// Accuracies taken in since it last began from scratch.
    #[serde(default)]
    measured: u64,
    /// The best of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    best: Option<f64>,
}

impl LossHistory {
    /// Takes in what a job reported, in the order of its iterations, and fits anew if that is wanted. What is known
    /// already changes nothing, and neither does what comes late. Of several losses for the latest iteration the last one
    /// counts.
    pub fn report(&mut self, points: &[LossPoint], declared: &DeclaredLoss, fitting: Option<&Fitting>) {
        let before = self.taken;
        for point in points {
            let point = LossPoint { loss: oriented(declared.better, point.loss), ..*point };
            if !point.loss.is_finite() || !point.iteration.is_finite() || point.iteration < 0.0 {
                self.ignored += 1;
                continue;
            }
            self.add(point);
        }
        if self.taken != before {
            self.fit = fitting.and_then(|fitting| self.fitted(declared, fitting));
        }
    }

    /// Fits what is there, as if it had been reported at once.
    pub fn refit(&mut self, declared: &DeclaredLoss, fitting: Option<&Fitting>) {
        self.fitter = Fitter::default();
        self.fit = fitting.and_then(|fitting| self.fitted(declared, fitting));
    }

    fn fitted(&mut self, declared: &DeclaredLoss, fitting: &Fitting) -> Option<Fit> {
        match fitting {
            Fitting::Families(recency) => self.fitter.fit(&self.points, self.taken, declared, recency),
            Fitting::Inverse => fit_inverse(&self.points),
        }
    }

    /// An attempt begins from so many iterations. What was reported beyond them will be done again, and is dropped.
    pub fn resume(&mut self, from: f64, declared: &DeclaredLoss, fitting: Option<&Fitting>) {
        if self.points.last().is_none_or(|last| last.iteration <= from) {
            return;
        }
        self.points.retain(|point| point.iteration <= from);
        if self.points.is_empty() {
            self.forget();
            return;
        }
        self.lowest = self.points.iter().map(|point| point.loss).fold(f64::INFINITY, f64::min);
        let changes = self.points.windows(2).map(|pair| change(&pair[0], &pair[1]));
        self.largest_change = changes.fold(0.0, f64::max);
        self.measured = self.accuracies().count() as u64;
        self.best = self.accuracies().map(|(_, accuracy)| accuracy).reduce(f64::max);
        self.refit(declared, fitting);
    }

    /// The job's counter began anew: everything before is forgotten, and that is counted.
    pub fn restart(&mut self) {
        self.forget();
        self.restarts += 1;
    }

    /// Whether all of this may have been reported before: the job's counter did not begin anew.
    pub fn knows(&self, points: &[LossPoint], declared: &DeclaredLoss) -> bool {
        let known = |point: &LossPoint| {
            let loss = oriented(declared.better, point.loss);
            self.at(point.iteration).is_ok_and(|i| self.points[i].loss == loss)
        };
        let mut numbers = points.iter().filter(|point| point.loss.is_finite()).peekable();
        numbers.peek().is_none() || numbers.any(known)
    }

    fn add(&mut self, point: LossPoint) {
        if let Some(last) = self.points.last().copied() {
            if point.iteration < last.iteration || point == last {
                return;
            }
            if point.iteration == last.iteration {
                self.points.pop();
            }
        }
        if let Some(before) = self.points.last() {
            self.largest_change = self.largest_change.max(change(before, &point));
        }
        self.lowest = if self.points.is_empty() { point.loss } else { self.lowest.min(point.loss) };
        if let Some(accuracy) = point.accuracy.filter(|accuracy| accuracy.is_finite()) {
            self.measured += 1;
            self.best = Some(self.best.map_or(accuracy, |best| best.max(accuracy)));
        }
        self.points.push(point);
        self.taken += 1;
        if self.points.len() > MAX_LOSS_POINTS {
            let half = MAX_LOSS_POINTS / 2;
            let mut i = 0;
            self.points.retain(|_| {
                i += 1;
                i > half || i % 2 == 1
            });
        }
    }

    fn forget(&mut self) {
        self.points.clear();
        (self.fit, self.fitter) = (None, Fitter::default());
        (self.largest_change, self.lowest) = (0.0, 0.0);
        (self.measured, self.best) = (0, None);
    }

    fn at(&self, iteration: f64) -> Result<usize, usize> {
        self.points.binary_search_by(|point| point.iteration.total_cmp(&iteration))
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

    /// The largest of the reports that are kept, whatever its sign: what losses are divided by where their unit shall not
    /// matter. 0 before the first.
    pub fn largest(&self) -> f64 {
        self.points.iter().map(|point| point.loss.abs()).fold(0.0, f64::max)
    }

    /// The accuracies that are kept, with their iterations.
    pub fn accuracies(&self) -> impl DoubleEndedIterator<Item = (f64, f64)> + '_ {
        let finite = |point: &LossPoint| Some((point.iteration, point.accuracy.filter(|y| y.is_finite())?));
        self.points.iter().filter_map(finite)
    }

    /// How many accuracies were reported since the job last began from scratch, kept or not.
    pub const fn measured(&self) -> u64 {
        self.measured
    }

    /// The best accuracy that was reported since the job last began from scratch.
    pub const fn best_accuracy(&self) -> Option<f64> {
        self.best
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
        if let Some(fit) = self.fit {
            return Some(fit.into());
        }
        self.continued()
    }

    /// Where no curve is fitted: each change is the last one times the median of the latest four ratios of changes.
    fn continued(&self) -> Option<Expected> {
        let [.., before, from] = self.points[..] else { return None };
        let change = (before.loss - from.loss) / (from.iteration - before.iteration).max(1.0);
        let latest = &self.points[self.points.len().saturating_sub(6)..];
        let mut ratios: smallvec::SmallVec<[f64; 4]> = latest.windows(3).filter_map(ratio).collect();
        let ratio = if ratios.is_empty() { 0.9 } else { median(&mut ratios).clamp(0.5, 0.99) };
        Some(Expected::Continued { from, change: change.max(0.0), ratio })
    }
}

/// The size of the change from one point to the next, for one iteration.
fn change(from: &LossPoint, to: &LossPoint) -> f64 {
    ((from.loss - to.loss) / (to.iteration - from.iteration).max(1.0)).abs()
}

/// From one change to the next, for one iteration. A change of sign is a ratio of nought.
fn ratio(three: &[LossPoint]) -> Option<f64> {
    let [before, middle, after] = three else { return None };
    let gaps = (middle.iteration - before.iteration, after.iteration - middle.iteration);
    let changes = ((before.loss - middle.loss) / gaps.0, (middle.loss - after.loss) / gaps.1);
    let ratio = changes.1 / changes.0;
    ratio.is_finite().then(|| ratio.max(0.0).powf(2.0 / (gaps.0 + gaps.1)))
}
