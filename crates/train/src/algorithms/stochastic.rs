//! A linear objective on its way down by batches of rows: stochastic gradient descent with momentum.
//!
//! Source: Bottou, Curtis and Nocedal, "Optimization methods for large-scale machine learning" (SIAM Review 60, 2018), section 4. An
//! iteration is a pass over as many rows as there are in a new order, drawn from the seed, the copy and the number of the pass, with an
//! update for each batch (`order`); its loss is that of all rows after the last update.

use std::ops::Range;

use crate::algorithm::{Algorithm, Measured};
use crate::copy::Part;
use crate::data::{Data, Table};
use crate::descent::add;
use crate::error::TrainError;
use crate::linear::Objective;
use crate::momentum::Momentum;
use crate::order::Orders;
use crate::pool::Pool;
use crate::tensors::{StateError, Tensors};

/// See the file.
pub(super) struct Stochastic {
    objective: Objective,
    rule: Momentum,
    orders: Orders,
    weights: Vec<f64>,
    velocity: Vec<f64>,
    passes: u64,
}

impl Stochastic {
    pub(super) fn new(objective: Objective, rule: Momentum, table: &Table, seed: u64) -> Self {
        let zeros = vec![0.0; table.columns + 1];
        let orders = Orders::new(rule.rows, seed);
        Self { objective, rule, orders, weights: zeros.clone(), velocity: zeros, passes: 0 }
    }
}

impl Algorithm for Stochastic {
    fn iterate(&mut self, data: &Data, pool: &Pool) -> Result<Measured, TrainError> {
        let table = data.table().expect("it was checked");
        let (order, width) = (self.orders.of(self.passes), self.weights.len());
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
        self.orders.copy = copy;
        true
    }

    fn take_part(&mut self, part: Option<Part>) {
        self.orders.part = part;
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
