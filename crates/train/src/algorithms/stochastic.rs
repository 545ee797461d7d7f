//! A linear objective on its way down by batches of rows: stochastic gradient descent with momentum.
//!
//! Source: Bottou, Curtis and Nocedal, "Optimization methods for large-scale machine learning" (SIAM Review 60, 2018), section 4. An
//! iteration is a pass over all rows in a new order, drawn from the seed, the copy and the number of the pass, with an update for each
//! batch; its loss is that of all rows after the last update.

use std::ops::Range;

use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

use crate::algorithm::{Algorithm, Measured};
use crate::data::{Data, Table};
use crate::descent::add;
use crate::error::TrainError;
use crate::linear::Objective;
use crate::momentum::Momentum;
use crate::pool::Pool;
use crate::tensors::{StateError, Tensors};

/// See the file.
pub(super) struct Stochastic {
    objective: Objective,
    rule: Momentum,
    seed: u64,
    /// Which of several copies it is; each draws orders of its own.
    copy: u32,
    weights: Vec<f64>,
    velocity: Vec<f64>,
    passes: u64,
}

impl Stochastic {
    pub(super) fn new(objective: Objective, rule: Momentum, table: &Table, seed: u64) -> Self {
        let zeros = vec![0.0; table.columns + 1];
        Self { objective, rule, seed, copy: 0, weights: zeros.clone(), velocity: zeros, passes: 0 }
    }

    /// The rows in the order of the next pass.
    fn order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.rule.rows as u32).collect();
        let seed = u128::from(self.seed) | u128::from(self.copy) << 64;
        order.shuffle(&mut Pcg64::new(seed, 2 * u128::from(self.passes) + 1));
        order
    }
}

impl Algorithm for Stochastic {
    fn iterate(&mut self, data: &Data, pool: &Pool) -> Result<Measured, TrainError> {
        let table = data.table().expect("it was checked");
        let (order, width) = (self.order(), self.weights.len());
        let first = self.passes * self.rule.updates();
        for update in first..first + self.rule.updates() {
            let batch = &order[self.rule.rows(update)];
            let part = |rows: Range<usize>, sums: &mut [f64]| {
                let rows = batch[rows].iter().map(|row| *row as usize);
                self.objective.part(&self.weights, table, rows, sums);
            };
            let mut sums = pool.sum(self.rule.shards(update), width + 2, part)?;
            sums.truncate(width);
            // The penalty is that of each row of the batch.
            let penalty = self.objective.l2 * batch.len() as f64;
            add(&mut sums[..table.columns], penalty, &self.weights[..table.columns]);
            self.rule.apply(update, &mut self.weights, &mut self.velocity, &sums);
        }
        self.passes += 1;
        Ok(self.objective.evaluate(&self.weights, table, pool)?.measured)
    }

    fn fork(&mut self, copy: u32) -> bool {
        self.copy = copy;
        true
    }

    fn tensors(&self) -> Tensors {
        let mut tensors = Tensors::default();
        tensors.put("weights", &[self.weights.len()], &self.weights);
        tensors.put("velocity", &[self.velocity.len()], &self.velocity);
        tensors.put_count("passes", self.passes);
        tensors
    }

    fn restore(&mut self, state: &Tensors, _: &Data, _: &Pool) -> Result<(), StateError> {
        let shape = [self.weights.len()];
        self.weights = state.values("weights", &shape)?.to_vec();
        self.velocity = state.values("velocity", &shape)?.to_vec();
        self.passes = state.whole("passes", u64::from(u32::MAX))?;
        Ok(())
    }
}
