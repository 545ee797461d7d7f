//! A multi-layer perceptron, trained by back-propagation.
//!
//! Sources: Rumelhart, Hinton and Williams, "Learning representations by back-propagating errors" (Nature 323, 1986), with momentum
//! as there; weights begin as in Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks"
//! (AISTATS 2010), eq. 16. An iteration is a pass over as many rows as there are in a new order, drawn from the seed and the number of
//! the pass, with an update for each batch (`order`); its loss is that of all rows after the last update.

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::algorithm::{Algorithm, Entry, Measured};
use crate::copy::Part;
use crate::data::{Data, Needs, Table, bounded};
use crate::descent::{add, dot};
use crate::error::TrainError;
use crate::merge::Merge;
use crate::momentum::Momentum;
use crate::order::Orders;
use crate::parameters::{Parameter, Values};
use crate::pool::{Pool, Shards};
use crate::served::{MEASURED, Served, Share, State};
use crate::tensors::{StateError, Tensors};

/// The most classes.
const MOST_CLASSES: usize = 1000;

/// See the file.
pub(super) static ENTRY: Entry = Entry {
    name: "mlp",
    title: "multi-layer perceptron",
    source: "Rumelhart, Hinton and Williams 1986",
    needs: Needs::Rows,
    generator: "blobs",
    parameters: &[
        Parameter::word(
            "task",
            &["classification", "regression"],
            "Cross-entropy of classes, or squared errors.",
        ),
        Parameter::whole("hidden", 32, 1, 10_000, "The width of a hidden layer."),
        Parameter::whole("layers", 1, 1, 20, "How many hidden layers."),
        Parameter::word("activation", &["tanh", "relu"], "What hidden units do."),
        Parameter::real("step", 0.01, 0.0, 1000.0, "How far an update goes."),
        Parameter::real("momentum", 0.9, 0.0, 0.999_999, "What is kept of the update before."),
        Parameter::real("decay", 0.0, 0.0, 1000.0, "In pass k the step is divided by 1 + decay k."),
        Parameter::whole("batch", 256, 0, 10_000_000, "Rows of an update; 0 takes all."),
    ],
    begin,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Classes,
    Numbers,
}

/// What does not change in training.
struct Net {
    task: Task,
    /// Widths from the columns to the outputs.
    widths: Vec<usize>,
    relu: bool,
    /// The class of each row as a number of an output, or nothing with a regression.
    classes: Vec<u32>,
}

struct Mlp {
    net: Net,
    rule: Momentum,
    orders: Orders,
    /// Layer by layer: a row of weights for each unit, then the intercepts.
    weights: Vec<f64>,
    velocity: Vec<f64>,
    passes: u64,
    /// A pass, and the order of its rows.
    order: Option<(u64, Vec<u32>)>,
}

fn begin(given: &Values, data: &Data, seed: u64, _: &Pool) -> Result<Box<dyn Algorithm>, TrainError> {
    let table = data.table().expect("it was checked");
    let task = if given.word("task") == "regression" { Task::Numbers } else { Task::Classes };
    let (outputs, classes) = match task {
        Task::Numbers => (1, Vec::new()),
        Task::Classes => {
            let wanted = "rows whose targets are at most 1000 classes; for others say `task=regression`";
            let wrong = || TrainError::WrongData { algorithm: "mlp", wanted, given: data.words() };
            let known = table.classes(MOST_CLASSES).ok_or_else(wrong)?;
            let number = |target: &f64| known.partition_point(|class| class < target) as u32;
            (known.len(), table.targets.iter().map(number).collect())
        }
    };
    let mut widths = vec![table.columns];
    widths.extend(std::iter::repeat_n(given.whole("hidden"), given.whole("layers")));
    widths.push(outputs);
    let count: u64 = widths.windows(2).map(|pair| (pair[0] as u64 + 1) * pair[1] as u64).sum();
    bounded("mlp", 4 * count, "say a smaller `hidden`")?;
    let mut draws = Pcg64::seed_from_u64(seed);
    let mut weights = Vec::with_capacity(count as usize);
    for pair in widths.windows(2) {
        let most = (6.0 / (pair[0] + pair[1]) as f64).sqrt();
        weights.extend((0..pair[0] * pair[1]).map(|_| most * (2.0 * draws.random::<f64>() - 1.0)));
        weights.extend(std::iter::repeat_n(0.0, pair[1]));
    }
    if task == Task::Numbers {
        // Otherwise the first passes learn nothing but the mean.
        *weights.last_mut().expect("there is an output") =
            table.targets.iter().sum::<f64>() / table.rows() as f64;
    }
    let batch = given.whole("batch");
    Ok(Box::new(Mlp {
        net: Net { task, widths, relu: given.word("activation") == "relu", classes },
        rule: Momentum {
            step: given.real("step"),
            momentum: given.real("momentum"),
            decay: given.real("decay"),
            batch: if batch == 0 { table.rows() } else { batch.min(table.rows()) },
            rows: table.rows(),
        },
        orders: Orders::new(table.rows(), seed),
        velocity: vec![0.0; weights.len()],
        weights,
        passes: 0,
        order: None,
    }))
}

/// What a row goes through, kept between rows so that nothing is allocated for each.
struct Scratch {
    /// The values of each layer after the columns.
    values: Vec<Vec<f64>>,
    /// The slopes of the loss there, before the activation.
    slopes: Vec<Vec<f64>>,
}

impl Net {
    fn scratch(&self) -> Scratch {
        let zeros = || self.widths[1..].iter().map(|width| vec![0.0; *width]).collect();
        Scratch { values: zeros(), slopes: zeros() }
    }

    /// Runs a row forward; the last values are the outputs.
    fn forward(&self, weights: &[f64], row: &[f64], scratch: &mut Scratch) {
        let mut at = 0;
        for (layer, pair) in self.widths.windows(2).enumerate() {
            let (inputs, outputs) = (pair[0], pair[1]);
            let (matrix, rest) = weights[at..].split_at(inputs * outputs);
            at += (inputs + 1) * outputs;
            let (before, after) = scratch.values.split_at_mut(layer);
            let input = before.last().map_or(row, |values| values.as_slice());
            let hidden = layer + 2 < self.widths.len();
            for ((value, units), intercept) in after[0].iter_mut().zip(matrix.chunks_exact(inputs)).zip(rest)
            {
                let sum = dot(units, input) + intercept;
                *value = match (hidden, self.relu) {
                    (false, _) => sum,
                    (true, true) => sum.max(0.0),
                    (true, false) => sum.tanh(),
                };
            }
        }
    }

    /// The loss of the outputs and whether the class is right; leaves the slopes of the outputs.
    fn loss(&self, table: &Table, row: usize, scratch: &mut Scratch) -> (f64, bool) {
        let last = self.widths.len() - 2;
        let (outputs, slopes) = (&scratch.values[last], &mut scratch.slopes[last]);
        if self.task == Task::Numbers {
            let error = outputs[0] - table.targets[row];
            slopes[0] = 2.0 * error;
            return (error * error, false);
        }
        let class = self.classes[row] as usize;
        let most = outputs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        slopes.iter_mut().zip(outputs).for_each(|(slope, output)| *slope = (output - most).exp());
        let sum: f64 = slopes.iter().sum();
        slopes.iter_mut().for_each(|slope| *slope /= sum);
        slopes[class] -= 1.0;
        let right = outputs.iter().position(|output| *output == most) == Some(class);
        (sum.ln() + most - outputs[class], right)
    }

    /// Adds the gradient of a row that was run forward.
    fn backward(&self, weights: &[f64], row: &[f64], scratch: &mut Scratch, gradient: &mut [f64]) {
        let mut end = weights.len();
        for layer in (0..self.widths.len() - 1).rev() {
            let (inputs, outputs) = (self.widths[layer], self.widths[layer + 1]);
            let begin = end - (inputs + 1) * outputs;
            let (matrix, intercepts) = gradient[begin..end].split_at_mut(inputs * outputs);
            let (below, here) = scratch.slopes.split_at_mut(layer);
            let input = layer.checked_sub(1).map_or(row, |below| scratch.values[below].as_slice());
            for ((units, intercept), slope) in matrix.chunks_exact_mut(inputs).zip(intercepts).zip(&here[0]) {
                add(units, *slope, input);
                *intercept += slope;
            }
            if let Some(below) = below.last_mut() {
                below.fill(0.0);
                for (units, slope) in weights[begin..].chunks_exact(inputs).zip(&here[0]) {
                    add(below, *slope, units);
                }
                for (slope, value) in below.iter_mut().zip(input) {
                    *slope *= match self.relu {
                        true => f64::from(*value > 0.0),
                        false => 1.0 - value * value,
                    };
                }
            }
            end = begin;
        }
    }

    /// What some rows contribute to the gradient. `sums` is as wide as the weights.
    fn gradient(&self, weights: &[f64], table: &Table, rows: &[u32], sums: &mut [f64]) {
        let mut scratch = self.scratch();
        for row in rows.iter().map(|row| *row as usize) {
            self.forward(weights, table.row(row), &mut scratch);
            self.loss(table, row, &mut scratch);
            self.backward(weights, table.row(row), &mut scratch, sums);
        }
    }

    /// What some rows contribute to what is measured: losses, and how many are classified rightly.
    fn losses(&self, weights: &[f64], table: &Table, rows: Range<usize>, sums: &mut [f64]) {
        let mut scratch = self.scratch();
        for row in rows {
            self.forward(weights, table.row(row), &mut scratch);
            let (loss, right) = self.loss(table, row, &mut scratch);
            sums[0] += loss;
            sums[1] += f64::from(right);
        }
    }

    /// The sums over all rows as means.
    fn measured(&self, sums: &[f64], rows: usize) -> Measured {
        let rows = rows as f64;
        Measured { loss: sums[0] / rows, accuracy: (self.task == Task::Classes).then(|| sums[1] / rows) }
    }
}

impl Mlp {
    /// Brings the rows into the order of a pass.
    fn shuffle(&mut self, pass: u64) {
        if self.order.as_ref().is_none_or(|(of, _)| *of != pass) {
            self.order = Some((pass, self.orders.of(pass)));
        }
    }

    /// What a shard of an update contributes to its gradient, given the order of its pass.
    fn part(&self, table: &Table, update: u64, rows: Range<usize>, sums: &mut [f64]) {
        let (_, order) = self.order.as_ref().expect("it was shuffled");
        self.net.gradient(&self.weights, table, &order[self.rule.rows(update)][rows], sums);
    }
}

impl Algorithm for Mlp {
    fn iterate(&mut self, data: &Data, pool: &Pool) -> Result<Measured, TrainError> {
        let table = data.table().expect("it was checked");
        let first = self.passes * self.rule.updates();
        self.shuffle(self.passes);
        for update in first..first + self.rule.updates() {
            let part = |rows: Range<usize>, sums: &mut [f64]| self.part(table, update, rows, sums);
            let gradient = pool.sum(self.rule.shards(update), self.weights.len(), part)?;
            self.rule.apply(update, &mut self.weights, &mut self.velocity, &gradient);
        }
        self.passes += 1;
        let losses = |rows: Range<usize>, sums: &mut [f64]| self.net.losses(&self.weights, table, rows, sums);
        let sums = pool.sum(Shards::of(table.rows()), MEASURED, losses)?;
        Ok(self.net.measured(&sums, table.rows()))
    }

    fn fork(&mut self, copy: u32) -> bool {
        (self.orders.copy, self.order) = (copy, None);
        true
    }

    fn take_part(&mut self, part: Option<Part>) {
        if self.orders.part != part {
            (self.orders.part, self.order) = (part, None);
        }
    }

    fn served(&mut self) -> Option<&mut dyn Served> {
        Some(self)
    }

    fn tensors(&self) -> Tensors {
        let mut tensors = Tensors::default();
        let mut at = 0;
        for (layer, pair) in self.net.widths.windows(2).enumerate() {
            for (kind, values) in [("", &self.weights), ("velocity.", &self.velocity)] {
                let (matrix, rest) = values[at..].split_at(pair[0] * pair[1]);
                tensors.put(&format!("{kind}layer{}.weight", layer + 1), &[pair[1], pair[0]], matrix);
                tensors.put(&format!("{kind}layer{}.intercept", layer + 1), &[pair[1]], &rest[..pair[1]]);
            }
            at += (pair[0] + 1) * pair[1];
        }
        tensors.put_count("passes", self.passes);
        tensors
    }

    fn restore(&mut self, state: &Tensors, _: &Data, _: &Pool) -> Result<(), StateError> {
        let widths = self.net.widths.clone();
        for (kind, values) in [("", &mut self.weights), ("velocity.", &mut self.velocity)] {
            values.clear();
            for (layer, pair) in widths.windows(2).enumerate() {
                let name = format!("{kind}layer{}", layer + 1);
                values.extend(state.values(&format!("{name}.weight"), &[pair[1], pair[0]])?);
                values.extend(state.values(&format!("{name}.intercept"), &[pair[1]])?);
            }
        }
        self.passes = state.whole("passes", u64::from(u32::MAX))?;
        Ok(())
    }
}

impl Served for Mlp {
    fn rule(&self) -> Momentum {
        self.rule
    }

    fn state(&mut self) -> State<'_> {
        State { passes: &mut self.passes, weights: &mut self.weights, velocity: &mut self.velocity }
    }

    fn gradient(&mut self, update: u64, data: &Data, pool: &Pool, share: Share) -> Merge {
        self.shuffle(self.rule.pass(update));
        let table = data.table().expect("it was checked");
        let shards = self.rule.shards(update);
        let part = |shard, sums: &mut [f64]| self.part(table, update, shards.rows(shard), sums);
        pool.merged(shards.count(), share.of(shards.count()), self.weights.len(), part)
    }

    fn losses(&self, data: &Data, pool: &Pool, share: Share) -> Merge {
        let table = data.table().expect("it was checked");
        let shards = Shards::of(table.rows());
        let part = |shard, sums: &mut [f64]| self.net.losses(&self.weights, table, shards.rows(shard), sums);
        pool.merged(shards.count(), share.of(shards.count()), MEASURED, part)
    }

    fn measured(&self, sums: &[f64]) -> Measured {
        self.net.measured(sums, self.rule.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gradient_is_that_of_differences() {
        let values: Vec<f64> = (0..36).map(|i| (f64::from(i) * 1.3).sin()).collect();
        let targets: Vec<f64> = (0..12).map(|i| f64::from(i % 3)).collect();
        let table = Table { columns: 3, values, targets };
        let rows: Vec<u32> = (0..12).collect();
        for relu in [false, true] {
            for task in [Task::Classes, Task::Numbers] {
                let outputs = if task == Task::Classes { 3 } else { 1 };
                let classes = (0..12).map(|i| i % 3).collect();
                let net = Net { task, widths: vec![3, 5, 4, outputs], relu, classes };
                let count: usize = net.widths.windows(2).map(|pair| (pair[0] + 1) * pair[1]).sum();
                let weights: Vec<f64> = (0..count).map(|i| (i as f64 * 0.9).cos() * 0.6).collect();
                let mut told = vec![0.0; count];
                net.gradient(&weights, &table, &rows, &mut told);
                for (i, told) in told.iter().enumerate() {
                    let value = |by: f64| {
                        let mut moved = weights.clone();
                        moved[i] += by;
                        let mut sums = [0.0; 2];
                        net.losses(&moved, &table, 0..12, &mut sums);
                        sums[0]
                    };
                    let seen = (value(1e-6) - value(-1e-6)) / 2e-6;
                    assert!((seen - told).abs() < 1e-5, "{task:?} relu {relu} weight {i}: {told}, {seen}");
                }
            }
        }
    }
}
