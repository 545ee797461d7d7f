//! How long until a loss is done falling, by what is expected of it.

use super::{Expected, Fit};

/// When a loss counts as done. Each is reached once and for all on a curve that flattens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Milestone {
    /// What is left above the asymptote is at most a fraction of what was at the start.
    Excess {
        /// The loss at the start.
        start: f64,
        /// Such as 0.05 for 95 % of the reduction.
        fraction: f64,
    },
    /// Over the last iterations the loss fell by no more than so much; not before there were so many. With 0.05 over 10 epochs it is how Optimus (EuroSys
    /// 2018; its published code, `estimator.py`) stops.
    Slow {
        /// How much it may have fallen.
        fall: f64,
        /// Over so many iterations.
        over: f64,
    },
}

impl Milestone {
    fn is_reached(&self, expected: &Expected, k: f64) -> bool {
        match *self {
            Self::Excess { start, fraction } => {
                let end = expected.asymptote();
                expected.loss(k) - end <= fraction * (start - end)
            }
            // A loss is not defined before iteration 0.
            Self::Slow { fall, over } => k >= over && expected.loss(k - over) - expected.loss(k) <= fall,
        }
    }
}

/// When a milestone is expected to be reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reached {
    /// The iteration.
    pub iteration: f64,
    /// Its standard deviation. Parameters are moved by one deviation in each independent direction, and half the distances
    /// between the answers are added as squares.
    pub deviation: f64,
}

impl Expected {
    /// The first iteration, of those from `after` to `cap`, at which a milestone is reached; nothing if none is.
    pub fn reaches(&self, milestone: Milestone, after: f64, cap: f64) -> Option<f64> {
        if milestone.is_reached(self, after) {
            return Some(after);
        }
        if !milestone.is_reached(self, cap) || after >= cap {
            return None;
        }
        let (mut not_yet, mut reached) = (after, cap);
        // Doubling first, so that a far cap costs no digits.
        let mut step = 1.0;
        while not_yet + step < reached {
            if milestone.is_reached(self, not_yet + step) {
                reached = not_yet + step;
            } else {
                not_yet += step;
                step *= 2.0;
            }
        }
        while reached - not_yet > 1e-6 * reached.abs().max(1.0) {
            let middle = 0.5 * (not_yet + reached);
            if milestone.is_reached(self, middle) { reached = middle } else { not_yet = middle }
        }
        Some(reached)
    }
}

impl Fit {
    /// As [`Expected::reaches`], with how sure that is. Where a neighbouring curve never gets there it counts as `cap`.
    pub fn reaches(&self, milestone: Milestone, after: f64, cap: f64) -> Option<Reached> {
        let iteration = Expected::from(*self).reaches(milestone, after, cap)?;
        let apart = self.neighbours().map(|pair| {
            let [one, other] = pair.map(|curve| curve.reaches(milestone, after, cap).unwrap_or(cap));
            0.25 * (one - other) * (one - other)
        });
        Some(Reached { iteration, deviation: apart.sum::<f64>().sqrt() })
    }
}
