//! Stochastic gradient descent with momentum: what an update does to each number, and which rows it is of.
//!
//! Source: Rumelhart, Hinton and Williams, "Learning representations by back-propagating errors" (Nature 323, 1986), eq. 9. The step
//! falls as `1 / (1 + decay k)` in pass k. A number depends on its own gradient alone, so that numbers may lie on different servers.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::pool::Shards;

/// Rows of a batch that are worth a shard of their own.
const LEAST_ROWS: usize = 16;

/// The rule of the updates. They are numbered from 0, through all passes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Momentum {
    pub(crate) step: f64,
    pub(crate) momentum: f64,
    pub(crate) decay: f64,
    /// Rows of an update; the last one of a pass may have fewer.
    pub(crate) batch: usize,
    /// Rows of a pass.
    pub(crate) rows: usize,
}

impl Momentum {
    /// Whether the rule can be followed; one that was sent may be anything.
    pub(crate) fn is_sound(&self) -> bool {
        (1..=self.rows).contains(&self.batch)
            && [self.step, self.momentum, self.decay].iter().all(|value| value.is_finite() && *value >= 0.0)
    }

    /// Updates of a pass.
    pub(crate) fn updates(&self) -> u64 {
        self.rows.div_ceil(self.batch) as u64
    }

    /// The pass of an update.
    pub(crate) fn pass(&self, update: u64) -> u64 {
        update / self.updates()
    }

    /// Where the rows of an update stand in the order of its pass.
    pub(crate) fn rows(&self, update: u64) -> Range<usize> {
        let first = (update % self.updates()) as usize * self.batch;
        first..(first + self.batch).min(self.rows)
    }

    /// How these rows are cut.
    pub(crate) fn shards(&self, update: u64) -> Shards {
        Shards::at_least(self.rows(update).len(), LEAST_ROWS)
    }

    /// Updates some numbers from the sum of their gradients over the rows.
    pub(crate) fn apply(&self, update: u64, weights: &mut [f64], velocity: &mut [f64], gradient: &[f64]) {
        let step = self.step / (1.0 + self.decay * self.pass(update) as f64);
        let times = step / self.rows(update).len() as f64;
        for ((weight, velocity), slope) in weights.iter_mut().zip(velocity).zip(gradient) {
            *velocity = self.momentum * *velocity - times * slope;
            *weight += *velocity;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_cover_each_pass_once() {
        let rule = Momentum { step: 0.5, momentum: 0.5, decay: 1.0, batch: 30, rows: 100 };
        assert!(rule.is_sound());
        assert_eq!(rule.updates(), 4);
        for pass in [0, 3] {
            let rows: Vec<usize> = (4 * pass..4 * pass + 4).flat_map(|update| rule.rows(update)).collect();
            assert_eq!(rows, (0..100).collect::<Vec<_>>());
        }
        assert_eq!((rule.pass(3), rule.pass(4), rule.rows(7)), (0, 1, 90..100));
        let (mut weights, mut velocity) = ([1.0], [2.0]);
        // Pass 1 halves the step: 0.5 * 2 - 0.25 / 10 * 40.
        rule.apply(7, &mut weights, &mut velocity, &[40.0]);
        assert_eq!((weights, velocity), ([1.0], [0.0]));
    }

    #[test]
    fn a_rule_that_cannot_be_followed_is_known() {
        let rule = Momentum { step: 0.5, momentum: 0.5, decay: 1.0, batch: 30, rows: 100 };
        for wrong in [
            Momentum { batch: 0, ..rule },
            Momentum { batch: 101, ..rule },
            Momentum { rows: 0, ..rule },
            Momentum { step: f64::INFINITY, ..rule },
            Momentum { decay: -1.0, ..rule },
        ] {
            assert!(!wrong.is_sound(), "{wrong:?}");
        }
    }
}
