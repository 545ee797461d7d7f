//! What was learned: small networks, forward only, and the text of their weights.
//!
//! Training is none of this crate's business. A network that was trained elsewhere comes as bytes (`weights`), says for
//! which inputs it was made, and is asked one input at a time.

mod weights;

pub use weights::{Weights, WeightsError};

/// One layer: `output = bias + input * weight`.
#[derive(Clone, Debug, PartialEq)]
pub struct Dense {
    inputs: usize,
    outputs: usize,
    /// `[inputs, outputs]`, row by row.
    weight: Vec<f32>,
    /// `[outputs]`.
    bias: Vec<f32>,
}

impl Dense {
    /// A layer of these weights, `[inputs, outputs]` row by row, and biases, `[outputs]`.
    ///
    /// # Panics
    /// If the numbers do not fit each other.
    pub fn new(inputs: usize, weight: Vec<f32>, bias: Vec<f32>) -> Self {
        let outputs = bias.len();
        assert_eq!(weight.len(), inputs * outputs, "a weight for each input of each output");
        Self { inputs, outputs, weight, bias }
    }

    /// How many numbers go in.
    pub const fn inputs(&self) -> usize {
        self.inputs
    }

    /// How many come out.
    pub const fn outputs(&self) -> usize {
        self.outputs
    }

    /// Its weights, `[inputs, outputs]` row by row.
    pub fn weight(&self) -> &[f32] {
        &self.weight
    }

    /// Its biases.
    pub fn bias(&self) -> &[f32] {
        &self.bias
    }

    fn forward(&self, input: &[f32], output: &mut Vec<f32>) {
        output.clear();
        output.extend_from_slice(&self.bias);
        // Most of what goes in is zero: kinds of jobs are told by one of many, and about half of all units are off.
        for (x, row) in input.iter().zip(self.weight.chunks_exact(self.outputs)).filter(|(x, _)| **x != 0.0) {
            for (y, w) in output.iter_mut().zip(row) {
                *y += x * w;
            }
        }
    }
}

/// Layers one after the other, with a rectifier behind each but the last.
#[derive(Clone, Debug, PartialEq)]
pub struct Mlp {
    layers: Vec<Dense>,
}

/// Room for what is between layers, so that asking a network allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    here: Vec<f32>,
    next: Vec<f32>,
}

impl Mlp {
    /// A network of these layers.
    ///
    /// # Panics
    /// If there is none, or one does not take what the one before it gives.
    pub fn new(layers: Vec<Dense>) -> Self {
        assert!(!layers.is_empty(), "a network has a layer");
        assert!(layers.windows(2).all(|pair| pair[0].outputs == pair[1].inputs), "layers fit each other");
        Self { layers }
    }

    /// Its layers.
    pub fn layers(&self) -> &[Dense] {
        &self.layers
    }

    /// How many numbers go in.
    pub fn inputs(&self) -> usize {
        self.layers[0].inputs
    }

    /// How many come out.
    pub fn outputs(&self) -> usize {
        self.layers[self.layers.len() - 1].outputs
    }

    /// What comes out.
    ///
    /// # Panics
    /// If the input has another length than [`Self::inputs`].
    pub fn forward<'s>(&self, input: &[f32], scratch: &'s mut Scratch) -> &'s [f32] {
        assert_eq!(input.len(), self.inputs(), "a number for each input");
        for (i, layer) in self.layers.iter().enumerate() {
            if i == 0 {
                layer.forward(input, &mut scratch.here);
            } else {
                scratch.here.iter_mut().for_each(|x| *x = x.max(0.0));
                layer.forward(&scratch.here, &mut scratch.next);
                std::mem::swap(&mut scratch.here, &mut scratch.next);
            }
        }
        &scratch.here
    }
}

/// The position of the largest of those that are open; the first of equals. Nothing if none is, or one is no number.
pub fn best_of(outputs: &[f32], open: &[bool]) -> Option<usize> {
    let mut best: Option<usize> = None;
    for i in (0..outputs.len()).filter(|i| open[*i]) {
        if !outputs[i].is_finite() {
            return None;
        }
        if best.is_none_or(|best| outputs[i] > outputs[best]) {
            best = Some(i);
        }
    }
    best
}

/// Probabilities of what is open, by the exponentials of these outputs; zero for the rest.
pub fn softmax(outputs: &[f32], open: &[bool], probabilities: &mut Vec<f32>) {
    let is_open = |i: &usize| open[*i];
    let most = (0..outputs.len()).filter(is_open).map(|i| outputs[i]).fold(f32::NEG_INFINITY, f32::max);
    probabilities.clear();
    probabilities
        .extend(outputs.iter().zip(open).map(|(x, open)| if *open { (x - most).exp() } else { 0.0 }));
    let sum: f32 = probabilities.iter().sum();
    probabilities.iter_mut().for_each(|p| *p /= sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two inputs, two rectified units, one output: `2 max(0, a + b) - max(0, a - b - 1) + 0.5`.
    fn small() -> Mlp {
        let first = Dense::new(2, vec![1.0, 1.0, 1.0, -1.0], vec![0.0, -1.0]);
        Mlp::new(vec![first, Dense::new(2, vec![2.0, -1.0], vec![0.5])])
    }

    #[test]
    fn what_comes_out_is_as_worked_out_by_hand() {
        let (net, mut scratch) = (small(), Scratch::default());
        let out = |input: [f32; 2], scratch: &mut Scratch| net.forward(&input, scratch)[0];
        assert_eq!(out([3.0, 1.0], &mut scratch), 2.0 * 4.0 - 1.0 + 0.5);
        assert_eq!(out([-3.0, 1.0], &mut scratch), 0.5, "both units are off");
        assert_eq!(out([0.0, 2.0], &mut scratch), 4.5, "a zero counts for nothing");
    }

    #[test]
    fn the_best_is_open_and_a_number() {
        let outputs = [3.0, 1.0, 2.0, 2.0];
        assert_eq!(best_of(&outputs, &[true; 4]), Some(0));
        assert_eq!(best_of(&outputs, &[false, true, true, true]), Some(2), "the first of equals");
        assert_eq!(best_of(&outputs, &[false; 4]), None);
        assert_eq!(best_of(&[f32::NAN, 1.0], &[true; 2]), None);
        assert_eq!(best_of(&[f32::NAN, 1.0], &[false, true]), Some(1));
    }

    #[test]
    fn probabilities_add_up_over_what_is_open() {
        let mut p = Vec::new();
        softmax(&[1000.0, 0.0, 1000.0], &[true, true, false], &mut p);
        assert_eq!(p, [1.0, 0.0, 0.0]);
        softmax(&[0.0, 0.0, 3.0], &[true, true, false], &mut p);
        assert_eq!(p, [0.5, 0.5, 0.0]);
    }

    #[test]
    #[should_panic(expected = "a number for each input")]
    fn an_input_of_another_length_is_refused() {
        small().forward(&[1.0], &mut Scratch::default());
    }
}
