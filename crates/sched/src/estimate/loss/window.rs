//! The points that a curve is fitted to: the latest ones, scaled, weighted, and laid out for the passes over them.

use crate::model::LossPoint;

use super::{MAX_LOSS_POINTS, Recency};

/// Points of less weight than this are left out, which bounds the work further.
const LEAST_WEIGHT: f64 = 1e-6;
/// Distances between points of which so many are told apart.
const GAPS: usize = 12;

/// The latest points of a job. Losses are scaled to the range 0 to 1 first, so that curves and their tolerances mean the
/// same for a loss of 1e-8 as for one of 1e6, and so that a change of the loss's unit changes nothing.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// Points; an even number is filled, the last perhaps with weight 0.
    pub count: usize,
    /// Iterations since the first point.
    pub since: [f64; MAX_LOSS_POINTS],
    /// Iterations since the job's start, over those at the last point.
    pub share: [f64; MAX_LOSS_POINTS],
    /// Scaled losses.
    pub y: [f64; MAX_LOSS_POINTS],
    /// Weights on squared errors. The last point has 1.
    pub weight: [f64; MAX_LOSS_POINTS],
    /// Which of the gaps lies before a point.
    pub gap: [u8; MAX_LOSS_POINTS],
    /// The different distances between neighbours; nothing if there are too many.
    pub gaps: Option<smallvec::SmallVec<[f64; GAPS]>>,
    /// The iteration of the first point.
    pub first: f64,
    /// The iteration of the last point.
    pub last: f64,
    /// The lowest loss.
    pub low: f64,
    /// From the lowest loss to the highest.
    pub range: f64,
    /// The sum of the weights, and of their squares.
    pub weights: (f64, f64),
}

impl Window {
    /// Looks at the latest of some points. Nothing if there are too few, or if they show no difference.
    ///
    /// SLAQ's weights fall exponentially with the age of a point in iterations. Where only some iterations are reported,
    /// that would leave nothing but the last point, so ours fall with the number of later points; where each iteration
    /// is reported, that is the same.
    pub(super) fn new(points: &[LossPoint], recency: &Recency, median: bool) -> Option<Self> {
        let heavy = (LEAST_WEIGHT.ln() / recency.decay.ln()).floor() + 1.0;
        let heavy = if recency.decay < 1.0 { heavy as usize } else { MAX_LOSS_POINTS };
        let least = (recency.least_points as usize).max(3);
        let count = points.len().min(recency.window as usize).min(heavy.max(least)).min(MAX_LOSS_POINTS);
        if count < least {
            return None;
        }
        let mut new = Self::unweighted(&points[points.len() - count..], median)?;
        new.weigh(recency.decay);
        Some(new)
    }

    /// Looks at the latest of some points, with weights of their own.
    pub(super) fn weighted(points: &[LossPoint], weight: impl Fn(usize) -> f64) -> Option<Self> {
        let from = points.len().saturating_sub(MAX_LOSS_POINTS);
        let mut new = Self::unweighted(&points[from..], false)?;
        for i in 0..new.count {
            let weight = weight(from + i);
            new.weight[i] = weight;
            new.weights.0 += weight;
            new.weights.1 += weight * weight;
        }
        Some(new)
    }

    fn unweighted(points: &[LossPoint], median: bool) -> Option<Self> {
        let count = points.len();
        let (first, last) = (points[0].iteration, points[count - 1].iteration);
        let zeros = [0.0; MAX_LOSS_POINTS];
        let mut new = Self {
            count,
            since: zeros,
            share: zeros,
            y: zeros,
            weight: zeros,
            gap: [0; MAX_LOSS_POINTS],
            gaps: Some(smallvec::SmallVec::new()),
            first,
            last,
            low: f64::INFINITY,
            range: 0.0,
            weights: (0.0, 0.0),
        };
        new.scale(points, median)?;
        new.lay_out(points);
        Some(new)
    }

    fn scale(&mut self, points: &[LossPoint], median: bool) -> Option<()> {
        let mut high = f64::NEG_INFINITY;
        for (i, y) in self.y[..self.count].iter_mut().enumerate() {
            *y = if median { median_around(points, i) } else { points[i].loss };
            self.low = self.low.min(*y);
            high = high.max(*y);
        }
        self.range = high - self.low;
        let inverse = 1.0 / self.range;
        if !inverse.is_finite() || inverse <= 0.0 {
            return None;
        }
        self.y[..self.count].iter_mut().for_each(|y| *y = (*y - self.low) * inverse);
        Some(())
    }

    fn weigh(&mut self, decay: f64) {
        let mut weight = 1.0;
        for slot in self.weight[..self.count].iter_mut().rev() {
            *slot = weight;
            self.weights.0 += weight;
            self.weights.1 += weight * weight;
            weight *= decay;
        }
    }

    fn lay_out(&mut self, points: &[LossPoint]) {
        let inverse = 1.0 / self.last;
        for (i, point) in points.iter().enumerate() {
            self.since[i] = point.iteration - self.first;
            self.share[i] = point.iteration * inverse;
            if i > 0 {
                self.note_gap(i, self.since[i] - self.since[i - 1]);
            }
        }
        if let Some(slot) = self.share.get_mut(self.count) {
            // What is filled up stays harmless to divide by.
            *slot = 1.0;
        }
    }

    fn note_gap(&mut self, i: usize, gap: f64) {
        let Some(gaps) = &mut self.gaps else { return };
        let known = gaps.iter().rposition(|known| *known == gap);
        if known.is_none() && gaps.len() == GAPS {
            self.gaps = None;
            return;
        }
        self.gap[i] = known.unwrap_or_else(|| {
            gaps.push(gap);
            gaps.len() - 1
        }) as u8;
    }

    /// `exp(-rate k)` for each point, `k` counted from the first one.
    pub(super) fn powers(&self, rate: f64, out: &mut [f64; MAX_LOSS_POINTS]) {
        let Some(gaps) = &self.gaps else {
            for (out, since) in out.iter_mut().zip(&self.since[..self.count]) {
                *out = (-rate * since).exp();
            }
            return;
        };
        let mut factors = [1.0; GAPS];
        for (factor, gap) in factors.iter_mut().zip(gaps) {
            *factor = (-rate * gap).exp();
        }
        let mut power = 1.0;
        out[0] = power;
        for i in 1..self.count {
            power *= factors[usize::from(self.gap[i]) % GAPS];
            out[i] = power;
        }
    }

    /// A loss in the window's scale.
    pub(super) fn scaled(&self, loss: f64) -> f64 {
        (loss - self.low) / self.range
    }

    /// The length of a typical step between the points that count.
    pub(super) fn step(&self) -> f64 {
        let from = self.count.saturating_sub(20);
        (self.since[self.count - 1] - self.since[from]) / (self.count - 1 - from) as f64
    }
}

/// The median of the five points around one. The last point but one and the last one have fewer neighbours: there it is
/// that of the last three. Likewise at the beginning.
pub(super) fn median_around(points: &[LossPoint], i: usize) -> f64 {
    let loss = |at: usize| points[at].loss;
    let end = points.len() - 1;
    if i < 2 || i + 2 > end {
        let from = if i < 2 { 0 } else { end - 2 };
        return median_of_3(loss(from), loss(from + 1), loss(from + 2));
    }
    // Of two pairs, the lowest and the highest number of all four cannot be the median of five.
    let (a, b) = (loss(i - 2), loss(i - 1));
    let (c, d) = (loss(i + 1), loss(i + 2));
    median_of_3(a.min(b).max(c.min(d)), a.max(b).min(c.max(d)), loss(i))
}

fn median_of_3(a: f64, b: f64, c: f64) -> f64 {
    a.min(b).max(a.max(b).min(c))
}

/// The median of some numbers, which are put in order.
pub(super) fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    if numbers.len() % 2 == 1 { numbers[middle] } else { 0.5 * (numbers[middle - 1] + numbers[middle]) }
}
