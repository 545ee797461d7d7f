//! The true loss of a job, as its reports would show it.

use std::sync::Arc;

use trainyard_sched::model::{Curve, LossPoint, Seed};

use crate::accuracy::TrueAccuracy;
use crate::curves::Recording;

/// A report carries no more losses than this; what lies between them is left out.
const POINTS_A_REPORT: u32 = 32;

/// The course of a loss over iterations.
#[derive(Clone, Debug, PartialEq)]
pub enum Course {
    /// It follows a formula.
    Formula(Curve),
    /// It goes as it once went.
    Recorded(Arc<Recording>),
}

impl Course {
    /// The loss after `k` iterations.
    pub fn loss(&self, k: f64) -> f64 {
        match self {
            Self::Formula(curve) => curve.loss(k),
            Self::Recorded(recording) => recording.loss(k),
        }
    }

    /// The formula, if it follows one.
    pub const fn formula(&self) -> Option<Curve> {
        match self {
            Self::Formula(curve) => Some(*curve),
            Self::Recorded(_) => None,
        }
    }

    /// The accuracy that was last measured by then, if any was.
    fn accuracy(&self, k: f64) -> Option<f64> {
        match self {
            Self::Formula(_) => None,
            Self::Recorded(recording) => recording.accuracy(k),
        }
    }
}

/// How the loss of a job really goes.
#[derive(Clone, Debug, PartialEq)]
pub struct TrueLoss {
    /// Its course.
    pub course: Course,
    /// The spread of a factor on the loss, `exp(noise N)`, drawn for each iteration.
    pub noise: f64,
    /// The seed of the noise.
    pub seed: Seed,
    /// The accuracy beside it, where the course has none of its own.
    pub accuracy: Option<TrueAccuracy>,
}

impl TrueLoss {
    /// The seed of the noise of the job of this name, where nothing else is said: it belongs to the job, whatever the run.
    pub(crate) fn seed_of(name: &str) -> Seed {
        Seed(0).branch("loss").branch(name)
    }

    /// A loss that follows a curve exactly.
    pub const fn exact(curve: Curve) -> Self {
        Self { course: Course::Formula(curve), noise: 0.0, seed: Seed(0), accuracy: None }
    }

    /// A loss that goes as it once went.
    pub const fn recorded(recording: Arc<Recording>) -> Self {
        Self { course: Course::Recorded(recording), noise: 0.0, seed: Seed(0), accuracy: None }
    }

    /// The loss that is reported after `k` iterations.
    pub fn reported(&self, k: f64) -> f64 {
        let loss = self.course.loss(k);
        if self.noise == 0.0 {
            return loss;
        }
        loss * (self.noise * normal(self.seed.numbered(k as u64))).exp()
    }

    /// The accuracy that is reported after `k` iterations, if any is.
    pub fn accuracy(&self, k: f64) -> Option<f64> {
        self.course.accuracy(k).or_else(|| Some(self.accuracy.as_ref()?.after(k)))
    }

    /// What a job reports that has come from `from` to `to` iterations: every whole iteration on the way, or as many of
    /// them as a report carries, evenly spaced, the last one included.
    pub fn points(&self, from: Option<f64>, to: f64) -> Vec<LossPoint> {
        let first = from.map_or(0.0, |from| from.floor() + 1.0);
        let last = to.floor();
        if last < first {
            return Vec::new();
        }
        let count = ((last - first + 1.0) as u32).min(POINTS_A_REPORT);
        let step = if count > 1 { (last - first) / f64::from(count - 1) } else { 0.0 };
        let at = |i: u32| (last - f64::from(count - 1 - i) * step).round();
        (0..count)
            .map(|i| LossPoint {
                iteration: at(i),
                loss: self.reported(at(i)),
                accuracy: self.accuracy(at(i)),
            })
            .collect()
    }
}

/// A standard normal number from two uniform ones (Box and Muller, 1958).
pub(crate) fn normal(seed: Seed) -> f64 {
    let uniform = |name: &str| ((seed.branch(name).0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    (-2.0 * uniform("radius").ln()).sqrt() * (std::f64::consts::TAU * uniform("angle")).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CURVE: Curve = Curve::Geometric { amplitude: 2.0, mu: 0.9, c: 1.0 };

    #[test]
    fn a_report_has_every_iteration_since_the_last_or_evenly_many() {
        let loss = TrueLoss::exact(CURVE);
        let iterations = |from, to| loss.points(from, to).iter().map(|p| p.iteration).collect::<Vec<_>>();
        assert_eq!(iterations(None, 2.7), [0.0, 1.0, 2.0]);
        assert_eq!(iterations(Some(2.7), 4.0), [3.0, 4.0]);
        assert_eq!(iterations(Some(4.0), 4.9), [] as [f64; 0]);
        let many = iterations(Some(100.0), 1000.5);
        assert_eq!((many.len(), many[0], many[31]), (32, 101.0, 1000.0));
        assert!(many.windows(2).all(|pair| (28.0..=30.0).contains(&(pair[1] - pair[0]))));
        assert_eq!(loss.points(None, 1.0)[1].loss, 2.8);
    }

    #[test]
    fn noise_has_the_spread_that_was_asked_for_and_repeats() {
        let loss = TrueLoss { noise: 0.1, seed: Seed(7), ..TrueLoss::exact(CURVE) };
        let factor = |k: u32| {
            let k = f64::from(k);
            (loss.reported(k) / CURVE.loss(k)).ln()
        };
        let drawn: Vec<f64> = (0..150).map(factor).collect();
        let mean = drawn.iter().sum::<f64>() / 150.0;
        let spread = (drawn.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 149.0).sqrt();
        assert!(mean.abs() < 0.03 && (0.08..0.12).contains(&spread), "{mean} {spread}");
        assert_eq!(loss.reported(5.0), loss.reported(5.0));
    }
}
