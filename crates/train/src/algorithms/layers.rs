//! What the layers of a perceptron do with rows: forward, the loss at the end, and back. Each layer works by itself, so that it does not
//! matter whether all of them are in one process.

use std::ops::Range;

use crate::algorithm::Measured;
use crate::data::Table;
use crate::descent::{add, dot};
use crate::partitions::Held;

/// What the outputs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Classes,
    Numbers,
}

/// What does not change in training.
pub(super) struct Net {
    pub(super) task: Task,
    /// Widths from the columns to the outputs.
    pub(super) widths: Vec<usize>,
    pub(super) relu: bool,
    /// The class of each row as a number of an output, or nothing with a regression.
    pub(super) classes: Vec<u32>,
}

/// What a row goes through, kept between rows so that nothing is allocated for each.
struct Scratch {
    /// The values of each layer after the columns.
    values: Vec<Vec<f64>>,
    /// The slopes of the loss there, before the activation.
    slopes: Vec<Vec<f64>>,
}

impl Net {
    /// How many layers of weights there are.
    pub(super) fn layers(&self) -> usize {
        self.widths.len() - 1
    }

    /// How many numbers a layer has.
    pub(super) fn numbers(&self, layer: usize) -> usize {
        (self.widths[layer] + 1) * self.widths[layer + 1]
    }

    /// How many numbers these layers have.
    pub(super) fn width(&self, layers: Range<usize>) -> usize {
        layers.map(|layer| self.numbers(layer)).sum()
    }

    fn scratch(&self) -> Scratch {
        let zeros = || self.widths[1..].iter().map(|width| vec![0.0; *width]).collect();
        Scratch { values: zeros(), slopes: zeros() }
    }

    /// Runs a row through one layer with these weights.
    fn ahead(&self, layer: usize, weights: &[f64], input: &[f64], values: &mut [f64]) {
        let (inputs, outputs) = (self.widths[layer], self.widths[layer + 1]);
        let (matrix, rest) = weights.split_at(inputs * outputs);
        let hidden = layer + 1 < self.layers();
        for ((value, units), intercept) in values.iter_mut().zip(matrix.chunks_exact(inputs)).zip(rest) {
            let sum = dot(units, input) + intercept;
            *value = match (hidden, self.relu) {
                (false, _) => sum,
                (true, true) => sum.max(0.0),
                (true, false) => sum.tanh(),
            };
        }
    }

    /// Adds the gradient of a row that was run through a layer, given the slopes of its values; leaves the slopes of what came in, if
    /// there is a layer before.
    fn back(
        &self,
        layer: usize,
        weights: &[f64],
        (input, slopes): (&[f64], &[f64]),
        gradient: &mut [f64],
        below: Option<&mut [f64]>,
    ) {
        let (inputs, outputs) = (self.widths[layer], self.widths[layer + 1]);
        let (matrix, intercepts) = gradient.split_at_mut(inputs * outputs);
        for ((units, intercept), slope) in matrix.chunks_exact_mut(inputs).zip(intercepts).zip(slopes) {
            add(units, *slope, input);
            *intercept += slope;
        }
        let Some(below) = below else { return };
        below.fill(0.0);
        for (units, slope) in weights.chunks_exact(inputs).zip(slopes) {
            add(below, *slope, units);
        }
        for (slope, value) in below.iter_mut().zip(input) {
            *slope *= match self.relu {
                true => f64::from(*value > 0.0),
                false => 1.0 - value * value,
            };
        }
    }

    /// The loss of the outputs and whether the class is right; leaves the slopes of the outputs.
    fn loss(&self, table: &Table, row: usize, outputs: &[f64], slopes: &mut [f64]) -> (f64, bool) {
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

    /// Runs a row forward through all layers; the last values are the outputs.
    fn forward(&self, weights: &[f64], row: &[f64], scratch: &mut Scratch) {
        let mut rest = weights;
        for layer in 0..self.layers() {
            let (here, after) = rest.split_at(self.numbers(layer));
            let (before, values) = scratch.values.split_at_mut(layer);
            let input = before.last().map_or(row, |values| values.as_slice());
            self.ahead(layer, here, input, &mut values[0]);
            rest = after;
        }
    }

    /// The loss of a row that was run forward.
    fn end(&self, table: &Table, row: usize, scratch: &mut Scratch) -> (f64, bool) {
        let last = self.layers() - 1;
        self.loss(table, row, &scratch.values[last], &mut scratch.slopes[last])
    }

    /// Adds the gradient of a row that was run forward to its end.
    fn backward(&self, weights: &[f64], row: &[f64], scratch: &mut Scratch, gradient: &mut [f64]) {
        let mut end = weights.len();
        for layer in (0..self.layers()).rev() {
            let begin = end - self.numbers(layer);
            let (below, here) = scratch.slopes.split_at_mut(layer);
            let input = layer.checked_sub(1).map_or(row, |below| scratch.values[below].as_slice());
            let below = below.last_mut().map(Vec::as_mut_slice);
            self.back(layer, &weights[begin..end], (input, &here[0]), &mut gradient[begin..end], below);
            end = begin;
        }
    }

    /// What some rows contribute to the gradient. `sums` is as wide as the weights.
    pub(super) fn gradient(&self, weights: &[f64], table: &Table, rows: &[u32], sums: &mut [f64]) {
        let mut scratch = self.scratch();
        for row in rows.iter().map(|row| *row as usize) {
            self.forward(weights, table.row(row), &mut scratch);
            self.end(table, row, &mut scratch);
            self.backward(weights, table.row(row), &mut scratch, sums);
        }
    }

    /// What some rows contribute to what is measured: losses, and how many are classified rightly.
    pub(super) fn losses(&self, weights: &[f64], table: &Table, rows: Range<usize>, sums: &mut [f64]) {
        let mut scratch = self.scratch();
        for row in rows {
            self.forward(weights, table.row(row), &mut scratch);
            let (loss, right) = self.end(table, row, &mut scratch);
            sums[0] += loss;
            sums[1] += f64::from(right);
        }
    }

    /// The sums over all rows as means.
    pub(super) fn measured(&self, sums: &[f64], rows: usize) -> Measured {
        let rows = rows as f64;
        Measured { loss: sums[0] / rows, accuracy: (self.task == Task::Classes).then(|| sums[1] / rows) }
    }

    /// Runs the rows of a shard through some of the layers, which have these weights. The first layer takes the columns.
    pub(super) fn through(&self, layers: Range<usize>, weights: &[f64], table: &Table, held: &mut Held) {
        let rows = held.rows.len();
        let mut rest = weights;
        for layer in layers.clone() {
            let (here, after) = rest.split_at(self.numbers(layer));
            let (inputs, outputs) = (self.widths[layer], self.widths[layer + 1]);
            let mut values = vec![0.0; rows * outputs];
            for (i, out) in values.chunks_exact_mut(outputs).enumerate() {
                let input = match (layer, held.values.last()) {
                    (0, _) => table.row(held.rows[i] as usize),
                    (_, None) => &held.input[i * inputs..(i + 1) * inputs],
                    (_, Some(before)) => &before[i * inputs..(i + 1) * inputs],
                };
                self.ahead(layer, here, input, out);
            }
            held.values.push(values);
            rest = after;
        }
    }

    /// What the rows of a shard that went through the last layer contribute to what is measured, and the slopes of the outputs.
    pub(super) fn ends(&self, table: &Table, held: &Held, sums: &mut [f64]) -> Vec<f64> {
        let outputs = self.widths[self.layers()];
        let values = held.values.last().expect("they went through a layer");
        let mut slopes = vec![0.0; values.len()];
        let rows = values.chunks_exact(outputs).zip(slopes.chunks_exact_mut(outputs));
        for ((values, slopes), row) in rows.zip(&held.rows) {
            let (loss, right) = self.loss(table, *row as usize, values, slopes);
            sums[0] += loss;
            sums[1] += f64::from(right);
        }
        slopes
    }

    /// What the rows of a shard that went through some of the layers contribute to the gradient of these, given the slopes of
    /// their values; and the slopes of what came in, if there is a layer before.
    pub(super) fn returns(
        &self,
        layers: Range<usize>,
        weights: &[f64],
        table: &Table,
        held: &Held,
        slopes: Vec<f64>,
        sums: &mut [f64],
    ) -> Vec<f64> {
        let (mut slopes, mut end) = (slopes, weights.len());
        for layer in layers.clone().rev() {
            let begin = end - self.numbers(layer);
            let (inputs, outputs) = (self.widths[layer], self.widths[layer + 1]);
            let mut below = if layer == 0 { Vec::new() } else { vec![0.0; held.rows.len() * inputs] };
            let mut places = below.chunks_exact_mut(inputs);
            for (i, slopes) in slopes.chunks_exact(outputs).enumerate() {
                let input = match (layer, layer - layers.start) {
                    (0, _) => table.row(held.rows[i] as usize),
                    (_, 0) => &held.input[i * inputs..(i + 1) * inputs],
                    (_, own) => &held.values[own - 1][i * inputs..(i + 1) * inputs],
                };
                let (weights, sums) = (&weights[begin..end], &mut sums[begin..end]);
                self.back(layer, weights, (input, slopes), sums, places.next());
            }
            (slopes, end) = (below, begin);
        }
        slopes
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
