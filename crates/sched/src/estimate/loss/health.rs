//! Whether a job's losses look as losses should. Everything here is judged by medians and ranks, so that a single wild
//! report neither hides a trend nor makes one.

use serde::{Deserialize, Serialize};

use crate::model::LossPoint;

use super::LossHistory;
use super::window::{median, median_around};

/// Changes that are looked at, and how many of them must be rises.
const RECENT: usize = 10;
const MOST_RISE: usize = 8;
/// Reports whose median is the level at the start, and at the end.
const LEVEL: usize = 5;
/// With fewer reports no trend is told.
const FEWEST: usize = 4;
/// With fewer reports none is called an outlier, and no direction mistaken.
const FEW: usize = 10;
/// So many reports that stay above the start are no chance, whatever their order.
const MANY: usize = 30;
/// The part of the later reports that may lie below the start where the direction is mistaken.
const BELOW: f64 = 0.05;
/// Kendall's statistic in standard deviations: a fall with one of twenty chances of being none, and a sure rise.
const FALLS: f64 = -1.64;
const RISES: f64 = 3.0;
/// A loss that stays within this part of its whole range, over this part of its iterations and so many reports, is flat
/// (ours; SLAQ leaves it to the job when it has converged).
const FLAT_BAND: f64 = 1e-3;
const FLAT_SHARE: f64 = 0.25;
const FLAT_REPORTS: usize = 6;
/// What is so many times as far from the medians as three quarters of the reports stay is beyond the noise.
const BEYOND_NOISE: f64 = 5.0;
/// A loss that lost so much of what it had gained diverges.
const LOST: f64 = 0.5;

/// Where the losses of a job go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "trend", rename_all = "snake_case")]
pub enum LossTrend {
    /// There are too few reports to say.
    #[default]
    Unknown,
    /// It gets better.
    Falling,
    /// No trend stands out from the noise.
    Unclear,
    /// All reports are the same.
    Constant,
    /// It changed once, and does not change any more.
    Flat {
        /// The first iteration of the flat part.
        since: f64,
    },
    /// It got better, and gets worse or lost most of what it had gained.
    Diverging {
        /// The last iteration at which it was about as low as ever.
        since: f64,
    },
    /// It has done nothing but rise since the beginning: it may be a score that is to be maximised, or, if it was
    /// declared as a score, a loss; or it diverged at once.
    Backwards,
}

/// What stands out in the losses of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LossHealth {
    /// Where they go.
    #[serde(flatten)]
    pub trend: LossTrend,
    /// The iteration of the latest report that is far from all about it.
    pub outlier: Option<f64>,
    /// Reports that were no numbers.
    pub ignored: u64,
    /// How often the iterations began anew.
    pub restarts: u32,
}

impl LossHealth {
    /// Nothing is odd. To have converged is not odd, and neither is noise.
    pub const fn is_healthy(&self) -> bool {
        !self.is_diverging() && self.outlier.is_none() && self.ignored == 0 && self.restarts == 0
    }

    /// Whether the loss rises, be it from the beginning.
    pub const fn is_diverging(&self) -> bool {
        matches!(self.trend, LossTrend::Diverging { .. } | LossTrend::Backwards)
    }
}

impl LossHistory {
    /// Looks at the history.
    pub fn health(&self) -> LossHealth {
        if is_constant(self.points()) {
            let (ignored, restarts) = (self.ignored(), self.restarts());
            return LossHealth { trend: LossTrend::Constant, outlier: None, ignored, restarts };
        }
        let (trend, outlier) = Looked::at(self.points()).map_or_else(Default::default, |looked| {
            let trend = looked.trend();
            let is_rising = matches!(trend, LossTrend::Diverging { .. } | LossTrend::Backwards);
            (trend, if is_rising { None } else { looked.outlier() })
        });
        LossHealth { trend, outlier, ignored: self.ignored(), restarts: self.restarts() }
    }

    /// The mean decrease in one iteration over the last so many changes. Nothing before the second report.
    pub fn recent_decrease(&self, changes: usize) -> Option<f64> {
        let points = self.points();
        let from = points.get(points.len().checked_sub(changes.min(points.len().saturating_sub(1)) + 1)?)?;
        let to = points.last().filter(|to| to.iteration > from.iteration)?;
        Some((from.loss - to.loss) / (to.iteration - from.iteration))
    }
}

/// Reports beside what is left of them without their noise.
struct Looked<'a> {
    points: &'a [LossPoint],
    /// The median of the reports about each.
    smooth: Vec<f64>,
    /// How far from those three quarters of the reports stay.
    noise: f64,
    /// The lowest of them, and the highest.
    low: f64,
    high: f64,
}

impl<'a> Looked<'a> {
    /// Nothing if there are too few reports.
    fn at(points: &'a [LossPoint]) -> Option<Self> {
        if points.len() < FEWEST {
            return None;
        }
        let smooth: Vec<f64> = (0..points.len()).map(|i| median_around(points, i)).collect();
        let mut distances: Vec<f64> =
            points.iter().zip(&smooth).map(|(point, smooth)| (point.loss - smooth).abs()).collect();
        distances.sort_by(f64::total_cmp);
        let noise = distances[distances.len() * 3 / 4];
        let low = smooth.iter().copied().fold(f64::INFINITY, f64::min);
        let high = smooth.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Self { points, smooth, noise, low, high })
    }

    fn trend(&self) -> LossTrend {
        let kendall = kendall(self.points);
        if self.is_backwards(kendall) {
            return LossTrend::Backwards;
        }
        if is_rising(self.points) || self.has_lost_most() {
            return LossTrend::Diverging { since: self.last_low() };
        }
        if let Some(since) = self.flat_since() {
            return LossTrend::Flat { since };
        }
        if kendall < FALLS { LossTrend::Falling } else { LossTrend::Unclear }
    }

    /// Next to nothing of what came later lies below the start, and it rose.
    fn is_backwards(&self, kendall: f64) -> bool {
        let count = self.points.len();
        if count < FEW {
            return false;
        }
        let (start, end) = (level(&self.points[..LEVEL]), level(&self.points[count - LEVEL..]));
        let later = &self.points[LEVEL..];
        let below = later.iter().filter(|point| point.loss < start).count();
        let rose = kendall > RISES || count >= MANY;
        rose && end > start && below as f64 <= BELOW * later.len() as f64
    }

    fn has_lost_most(&self) -> bool {
        let count = self.points.len();
        if count < FEW {
            return false;
        }
        let (start, end) = (level(&self.points[..LEVEL]), level(&self.points[count - 3..]));
        let (gained, lost) = (start - self.low, end - self.low);
        gained > 0.0 && lost >= LOST * gained && lost > BEYOND_NOISE * self.noise
    }

    /// The last iteration at which it was within the noise of its lowest.
    fn last_low(&self) -> f64 {
        let low = self.low + BEYOND_NOISE * self.noise;
        let last = self.smooth.iter().rposition(|loss| *loss <= low).unwrap_or(0);
        self.points[last].iteration
    }

    fn flat_since(&self) -> Option<f64> {
        let end = *self.smooth.last()?;
        let band = FLAT_BAND * (self.high - self.low);
        let from = self.smooth.iter().rposition(|loss| (loss - end).abs() > band).map_or(0, |i| i + 1);
        let (since, last) = (self.points.get(from)?.iteration, self.points.last()?.iteration);
        let is_long = last - since >= FLAT_SHARE * (last - self.points[0].iteration);
        (is_long && self.points.len() - from >= FLAT_REPORTS).then_some(since)
    }

    /// The latest report further from those about it than all of them go. The first two may be far from what follows.
    fn outlier(&self) -> Option<f64> {
        if self.points.len() < FEW {
            return None;
        }
        let far = (BEYOND_NOISE * self.noise).max(self.high - self.low);
        let is_far = |i: &usize| (self.points[*i].loss - self.smooth[*i]).abs() > far;
        (2..self.points.len()).rev().find(is_far).map(|i| self.points[i].iteration)
    }
}

fn level(points: &[LossPoint]) -> f64 {
    median(&mut points.iter().map(|point| point.loss).collect::<Vec<_>>())
}

fn is_constant(points: &[LossPoint]) -> bool {
    points.len() > 1 && points.windows(2).all(|pair| pair[1].loss == pair[0].loss)
}

fn is_rising(points: &[LossPoint]) -> bool {
    let Some(recent) = points.last_chunk::<{ RECENT + 1 }>() else { return false };
    let rises = recent.windows(2).filter(|pair| pair[1].loss > pair[0].loss).count();
    rises >= MOST_RISE && recent[RECENT].loss > recent[0].loss
}

/// How much oftener the later of two reports is the higher one than the lower one, in standard deviations of what chance
/// does (Mann, *Nonparametric tests against trend*, Econometrica 1945; Kendall's S without a correction for equals).
fn kendall(points: &[LossPoint]) -> f64 {
    let mut sum = 0_i64;
    for (i, earlier) in points.iter().enumerate() {
        for later in &points[i + 1..] {
            sum += i64::from(later.loss > earlier.loss) - i64::from(later.loss < earlier.loss);
        }
    }
    let n = points.len() as f64;
    sum as f64 / (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt()
}
