//! A network that learns: its numbers in one row, and their gradients by the library.
//!
//! Forward and backward passes are the library's (`burn`, its processor back end, one thread). Its optimisers work on
//! modules of its own; here steps are taken on plain rows of numbers (`Adam`), because gradients of several clusters are
//! averaged before a step, in a fixed order.

use burn::tensor::{Device, Tensor, TensorData, activation};
use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64;
use trainyard_sched::nets::{Dense, Mlp};

/// A network with all its numbers in one row: layer by layer, the weights `[inputs, outputs]` and then the biases.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// The widths, from what goes in to what comes out.
    widths: Vec<usize>,
    values: Vec<f32>,
}

/// A batch: rows of inputs.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// How many numbers a row has.
    pub width: usize,
    /// Row after row.
    pub values: Vec<f32>,
}

impl Rows {
    /// No rows yet.
    pub const fn new(width: usize) -> Self {
        Self { width, values: Vec::new() }
    }

    /// One more.
    pub fn push(&mut self, row: &[f32]) {
        debug_assert_eq!(row.len(), self.width);
        self.values.extend_from_slice(row);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.values.len() / self.width.max(1)
    }

    pub(crate) fn tensor(&self, device: &Device) -> Tensor<2> {
        Tensor::from_data(TensorData::new(self.values.clone(), [self.count(), self.width]), device)
    }
}

/// A column of numbers as a tensor.
pub(crate) fn column(values: &[f32], device: &Device) -> Tensor<1> {
    Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), device)
}

impl Network {
    /// A new network: weights as by He et al. (2015) for rectifiers, biases zero, and the last layer a hundredth of that, so
    /// that all actions are about equally likely at first.
    pub fn new(widths: &[usize], random: &mut Pcg64) -> Self {
        let mut values = Vec::new();
        let last = widths.len() - 2;
        for (i, pair) in widths.windows(2).enumerate() {
            let scale = (2.0 / pair[0] as f64).sqrt() * if i == last { 0.01 } else { 1.0 };
            let draw = |_| {
                let normal: f64 = StandardNormal.sample(random);
                (normal * scale) as f32
            };
            values.extend((0..pair[0] * pair[1]).map(draw));
            values.extend(std::iter::repeat_n(0.0, pair[1]));
        }
        Self { widths: widths.to_vec(), values }
    }

    /// The network with the numbers of one that decides.
    pub fn of(net: &Mlp) -> Self {
        let widths = std::iter::once(net.inputs()).chain(net.layers().iter().map(Dense::outputs)).collect();
        let numbers =
            |layer: &Dense| layer.weight().iter().chain(layer.bias()).copied().collect::<Vec<f32>>();
        Self { widths, values: net.layers().iter().flat_map(numbers).collect() }
    }

    /// The network that decides with these numbers.
    pub fn mlp(&self) -> Mlp {
        let mut rest = self.values.as_slice();
        let layers = self.widths.windows(2).map(|pair| {
            let (weight, after) = rest.split_at(pair[0] * pair[1]);
            let (bias, after) = after.split_at(pair[1]);
            rest = after;
            Dense::new(pair[0], weight.to_vec(), bias.to_vec())
        });
        Mlp::new(layers.collect())
    }

    /// All its numbers.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// All its numbers, to be changed.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// What comes out, and the weights and biases that it came by.
    fn pass(
        &self,
        inputs: &Rows,
        device: &Device,
        leaf: impl Fn(Tensor<2>) -> Tensor<2>,
    ) -> (Tensor<2>, Vec<(Tensor<2>, Tensor<2>)>) {
        let mut rest = self.values.as_slice();
        let mut layers: Vec<(Tensor<2>, Tensor<2>)> = Vec::new();
        for pair in self.widths.windows(2) {
            let (weight, after) = rest.split_at(pair[0] * pair[1]);
            let (bias, after) = after.split_at(pair[1]);
            rest = after;
            let tensor = |values: &[f32], shape: [usize; 2]| {
                leaf(Tensor::<2>::from_data(TensorData::new(values.to_vec(), shape), device))
            };
            layers.push((tensor(weight, [pair[0], pair[1]]), tensor(bias, [1, pair[1]])));
        }
        let mut here = inputs.tensor(device);
        for (i, (weight, bias)) in layers.iter().enumerate() {
            if i > 0 {
                here = activation::relu(here);
            }
            here = here.matmul(weight.clone()) + bias.clone();
        }
        (here, layers)
    }

    /// What comes out for each row, one row after the other.
    pub fn forward(&self, inputs: &Rows) -> Vec<f32> {
        let device = Device::flex();
        let (out, _) = self.pass(inputs, &device, |leaf| leaf);
        out.into_data().try_to_vec().expect("numbers are 32-bit floats")
    }

    /// The value of a loss, and its gradient by each number in the order of [`Self::values`]. `loss` is given what comes out
    /// for each row of `inputs`, and gives one number.
    pub fn gradient(
        &self,
        inputs: &Rows,
        loss: impl FnOnce(Tensor<2>, &Device) -> Tensor<1>,
    ) -> (f32, Vec<f32>) {
        let device = Device::flex().autodiff();
        let (here, layers) = self.pass(inputs, &device, Tensor::require_grad);
        let lost = loss(here, &device);
        let gradients = lost.backward();
        let mut flat = Vec::with_capacity(self.values.len());
        for (weight, bias) in &layers {
            for leaf in [weight, bias] {
                let gradient = leaf.grad(&gradients).expect("every layer has a part in the loss");
                flat.extend(gradient.into_data().try_to_vec::<f32>().expect("numbers are 32-bit floats"));
            }
        }
        (lost.into_scalar::<f32>(), flat)
    }
}

/// Steps by Adam (Kingma and Ba, 2015, algorithm 1).
#[derive(Clone, Debug, PartialEq)]
pub struct Adam {
    /// The size of a step.
    pub rate: f32,
    steps: i32,
    first: Vec<f32>,
    second: Vec<f32>,
}

impl Adam {
    /// Nothing was seen yet.
    pub fn new(rate: f32, count: usize) -> Self {
        Self { rate, steps: 0, first: vec![0.0; count], second: vec![0.0; count] }
    }

    /// One step against a gradient, which is shortened to `longest` if it is longer.
    pub fn step(&mut self, values: &mut [f32], gradient: &[f32], longest: f32) {
        const FIRST: f32 = 0.9;
        const SECOND: f32 = 0.999;
        const LEAST: f32 = 1e-8;
        let length = gradient.iter().map(|g| f64::from(*g) * f64::from(*g)).sum::<f64>().sqrt() as f32;
        // A gradient that is no number would spoil everything that was learned.
        if !length.is_finite() {
            return;
        }
        let shrink = if length > longest { longest / length } else { 1.0 };
        self.steps += 1;
        let (far, farther) = (1.0 - FIRST.powi(self.steps), 1.0 - SECOND.powi(self.steps));
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((value, gradient), (first, second)) in values.iter_mut().zip(gradient).zip(moments) {
            let gradient = gradient * shrink;
            *first = FIRST * *first + (1.0 - FIRST) * gradient;
            *second = SECOND * *second + (1.0 - SECOND) * gradient * gradient;
            *value -= self.rate * (*first / far) / ((*second / farther).sqrt() + LEAST);
        }
    }
}

/// A position drawn by these weights, which are not negative; the last with a weight if rounding leaves none.
pub(crate) fn drawn(weights: &[f32], random: &mut Pcg64) -> usize {
    let sum: f64 = weights.iter().map(|w| f64::from(*w)).sum();
    let mut left = random.random::<f64>() * sum;
    let mut last = 0;
    for (i, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
        last = i;
        left -= f64::from(*weight);
        if left < 0.0 {
            return i;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::rand_core::SeedableRng;
    use trainyard_sched::nets::Scratch;

    fn random() -> Pcg64 {
        Pcg64::seed_from_u64(7)
    }

    fn small() -> (Network, Rows) {
        let mut random = random();
        let mut net = Network::new(&[3, 5, 4, 2], &mut random);
        // The last layer of a new network is so small that nothing could be seen of what is before it.
        net.values_mut().iter_mut().for_each(|x| *x += 0.3 * (random.random::<f32>() - 0.5));
        let mut rows = Rows::new(3);
        (0..6).for_each(|i| rows.push(&[i as f32 * 0.3 - 0.7, 1.0 - i as f32 * 0.2, 0.1]));
        (net, rows)
    }

    fn squares(out: Tensor<2>) -> Tensor<1> {
        out.powi_scalar(2).sum()
    }

    #[test]
    fn both_forward_passes_say_the_same() {
        let (net, rows) = small();
        let (mlp, mut scratch) = (net.mlp(), Scratch::default());
        assert_eq!(Network::of(&mlp), net);
        let mut by_library = Vec::new();
        net.gradient(&rows, |out, _| {
            by_library = out.clone().into_data().try_to_vec::<f32>().unwrap();
            squares(out)
        });
        let own: Vec<f32> =
            rows.values.chunks(3).flat_map(|row| mlp.forward(row, &mut scratch).to_vec()).collect();
        assert!(own.iter().zip(&by_library).all(|(a, b)| (a - b).abs() < 1e-5), "{own:?} {by_library:?}");
        assert!(own.iter().any(|x| x.abs() > 0.05), "it says something: {own:?}");
    }

    #[test]
    fn gradients_are_those_of_finite_differences() {
        let (net, rows) = small();
        let (_, gradient) = net.gradient(&rows, |out, _| squares(out));
        assert_eq!(gradient.len(), net.values().len());
        let lost = |values: &[f32]| {
            let mut other = net.clone();
            other.values_mut().copy_from_slice(values);
            f64::from(other.gradient(&rows, |out, _| squares(out)).0)
        };
        let step = 1e-3_f32;
        for i in 0..gradient.len() {
            let moved = |by: f32| {
                let mut values = net.values().to_vec();
                values[i] += by;
                lost(&values)
            };
            let expected = (moved(step) - moved(-step)) / f64::from(2.0 * step);
            let found = f64::from(gradient[i]);
            assert!((found - expected).abs() < 2e-3 + 0.02 * expected.abs(), "{i}: {found} {expected}");
        }
    }

    #[test]
    fn steps_go_down_and_long_gradients_are_shortened() {
        let (mut net, rows) = small();
        let mut adam = Adam::new(0.01, net.values().len());
        let first = net.gradient(&rows, |out, _| squares(out)).0;
        for _ in 0..100 {
            let (_, gradient) = net.gradient(&rows, |out, _| squares(out));
            adam.step(net.values_mut(), &gradient, f32::INFINITY);
        }
        let last = net.gradient(&rows, |out, _| squares(out)).0;
        assert!(last < 0.1 * first, "{first} {last}");
        let mut adam = Adam::new(0.1, 2);
        let mut values = [0.0, 0.0];
        adam.step(&mut values, &[f32::NAN, 1.0], 1.0);
        assert_eq!(values, [0.0, 0.0]);
        // The first step of Adam is as long as its rate, whatever the gradient.
        adam.step(&mut values, &[3.0, -4.0], 0.5);
        assert!((values[0] + 0.1).abs() < 1e-6 && (values[1] - 0.1).abs() < 1e-6, "{values:?}");
        assert!((adam.first[0] - 0.1 * 0.3).abs() < 1e-6, "shortened to a half: {:?}", adam.first);
    }

    #[test]
    fn draws_follow_their_weights() {
        let mut random = random();
        let mut seen = [0_u32; 4];
        (0..4000).for_each(|_| seen[drawn(&[1.0, 0.0, 3.0, 0.0], &mut random)] += 1);
        assert_eq!((seen[1], seen[3]), (0, 0));
        assert!((2850..3150).contains(&seen[2]), "{seen:?}");
    }
}
