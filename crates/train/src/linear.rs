//! Linear classification of two classes: what logistic regression and the support vector machine have in common.
//!
//! Both minimise the mean of a loss of margins plus `l2 / 2 |w|^2`; the intercept is the last weight and is not drawn to zero.

use std::ops::Range;

use crate::algorithm::Measured;
use crate::data::Table;
use crate::descent::{add, dot};
use crate::error::TrainError;
use crate::pool::{Pool, Shards};

/// Loss and slope at a margin `y f(x)`.
pub(crate) type Margin = fn(f64) -> (f64, f64);

/// What is minimised.
#[derive(Clone, Copy)]
pub(crate) struct Objective {
    pub(crate) margin: Margin,
    pub(crate) l2: f64,
    /// The target of the class that counts as +1.
    pub(crate) positive: f64,
}

/// Loss, gradient and accuracy somewhere.
pub(crate) struct Evaluated {
    pub(crate) measured: Measured,
    pub(crate) gradient: Vec<f64>,
}

impl Objective {
    /// The objective for the classes of a table: the larger target is +1.
    pub(crate) fn new(table: &Table, margin: Margin, l2: f64) -> Self {
        let positive = table.targets.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { margin, l2, positive }
    }

    /// What some rows contribute: the gradient, then the sum of losses, then how many are classified rightly.
    pub(crate) fn part(
        &self,
        weights: &[f64],
        table: &Table,
        rows: impl Iterator<Item = usize>,
        sums: &mut [f64],
    ) {
        let (slopes, intercept) = weights.split_at(table.columns);
        let (gradient, counts) = sums.split_at_mut(weights.len());
        for row in rows {
            let values = table.row(row);
            let sign = if table.targets[row] == self.positive { 1.0 } else { -1.0 };
            let margin = sign * (dot(slopes, values) + intercept[0]);
            let (loss, slope) = (self.margin)(margin);
            counts[0] += loss;
            counts[1] += f64::from(margin > 0.0);
            if slope != 0.0 {
                add(&mut gradient[..table.columns], sign * slope, values);
                gradient[table.columns] += sign * slope;
            }
        }
    }

    /// All rows together.
    pub(crate) fn evaluate(
        &self,
        weights: &[f64],
        table: &Table,
        pool: &Pool,
    ) -> Result<Evaluated, TrainError> {
        let rows = table.rows() as f64;
        let width = weights.len();
        let part = |rows: Range<usize>, sums: &mut [f64]| self.part(weights, table, rows, sums);
        let mut sums = pool.sum(Shards::of(table.rows()), width + 2, part)?;
        sums.iter_mut().for_each(|sum| *sum /= rows);
        let slopes = &weights[..table.columns];
        let loss = sums[width] + 0.5 * self.l2 * dot(slopes, slopes);
        let accuracy = Some(sums[width + 1]);
        sums.truncate(width);
        add(&mut sums[..table.columns], self.l2, slopes);
        Ok(Evaluated { measured: Measured { loss, accuracy }, gradient: sums })
    }
}
