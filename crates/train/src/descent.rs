//! Minimising a smooth function: gradient descent and L-BFGS, both with a line search that halves.
//!
//! Sources: Nocedal and Wright, "Numerical Optimization" (2nd edition, 2006), algorithms 3.1 (backtracking), 7.4 (two loops) and
//! 7.5 (L-BFGS). We differ in that a pair with too little curvature is left out, since backtracking alone does not promise any;
//! and that gradient descent first tries twice the step that it took last.

use std::collections::VecDeque;

use crate::tensors::{StateError, Tensors};

/// How much of what the slope promises a step must hold.
const ENOUGH: f64 = 1e-4;
/// A step that had to be halved so often is not taken: the point is a minimum as far as rounding shows.
const MOST_HALVINGS: usize = 50;
/// The pairs of steps and changes of the gradient that L-BFGS remembers.
const MEMORY: usize = 10;

/// A way of minimising.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Against the gradient.
    Gradient,
    /// A quasi-Newton method.
    Lbfgs,
}

/// A point with what is known there.
#[derive(Clone, Debug)]
struct Known {
    point: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
}

/// A step and how it changed the gradient.
#[derive(Clone, Debug)]
struct Pair {
    moved: Vec<f64>,
    bent: Vec<f64>,
}

/// A minimisation under way.
#[derive(Clone, Debug)]
pub(crate) struct Descent {
    method: Method,
    point: Vec<f64>,
    /// The value and the gradient at the point, once they were asked for. They follow from the point.
    here: Option<(f64, Vec<f64>)>,
    /// The step that was taken last.
    step: f64,
    /// The latest pairs, the oldest first.
    pairs: VecDeque<Pair>,
}

impl Descent {
    pub(crate) fn new(method: Method, point: Vec<f64>) -> Self {
        Self { method, point, here: None, step: 1.0, pairs: VecDeque::new() }
    }

    pub(crate) fn point(&self) -> &[f64] {
        &self.point
    }

    /// One step; the function gives value and gradient. The answer is the value that was reached.
    pub(crate) fn step<E>(
        &mut self,
        mut function: impl FnMut(&[f64]) -> Result<(f64, Vec<f64>), E>,
    ) -> Result<f64, E> {
        let (value, gradient) = match self.here.take() {
            Some(known) => known,
            None => function(&self.point)?,
        };
        let mut direction = self.direction(&gradient);
        let mut slope = dot(&direction, &gradient);
        if slope >= 0.0 {
            // What is remembered points uphill, which rounding can bring about.
            self.pairs.clear();
            direction = gradient.iter().map(|g| -g).collect();
            slope = dot(&direction, &gradient);
        }
        let mut step = self.first_step(&gradient);
        for _ in 0..MOST_HALVINGS {
            let point: Vec<f64> = self.point.iter().zip(&direction).map(|(x, d)| x + step * d).collect();
            let (reached, slopes) = function(&point)?;
            if reached <= value + ENOUGH * step * slope {
                let next = Known { point, value: reached, gradient: slopes };
                self.go(next, &gradient, step);
                return Ok(reached);
            }
            step /= 2.0;
        }
        self.pairs.clear();
        self.here = Some((value, gradient));
        Ok(value)
    }

    fn go(&mut self, next: Known, gradient: &[f64], step: f64) {
        if self.method == Method::Lbfgs {
            let moved = minus(&next.point, &self.point);
            let bent = minus(&next.gradient, gradient);
            if dot(&moved, &bent) > 1e-10 * dot(&bent, &bent) {
                if self.pairs.len() == MEMORY {
                    self.pairs.pop_front();
                }
                self.pairs.push_back(Pair { moved, bent });
            }
        }
        self.step = step;
        self.point = next.point;
        self.here = Some((next.value, next.gradient));
    }

    fn first_step(&self, gradient: &[f64]) -> f64 {
        match self.method {
            Method::Gradient => 2.0 * self.step,
            Method::Lbfgs if self.pairs.is_empty() => dot(gradient, gradient).sqrt().max(1.0).recip(),
            Method::Lbfgs => 1.0,
        }
    }

    /// Against the gradient, bent by what is remembered.
    fn direction(&self, gradient: &[f64]) -> Vec<f64> {
        let mut direction: Vec<f64> = gradient.iter().map(|g| -g).collect();
        let mut parts = Vec::with_capacity(self.pairs.len());
        for Pair { moved, bent } in self.pairs.iter().rev() {
            let part = dot(moved, &direction) / dot(moved, bent);
            add(&mut direction, -part, bent);
            parts.push(part);
        }
        if let Some(Pair { moved, bent }) = self.pairs.back() {
            let scale = dot(moved, bent) / dot(bent, bent);
            direction.iter_mut().for_each(|d| *d *= scale);
        }
        for (Pair { moved, bent }, part) in self.pairs.iter().zip(parts.iter().rev()) {
            let other = dot(bent, &direction) / dot(moved, bent);
            add(&mut direction, part - other, moved);
        }
        direction
    }

    pub(crate) fn tensors(&self, tensors: &mut Tensors) {
        let width = self.point.len();
        tensors.put("weights", &[width], &self.point);
        tensors.put("descent.step", &[], &[self.step]);
        let flat =
            |pick: fn(&Pair) -> &[f64]| self.pairs.iter().flat_map(pick).copied().collect::<Vec<f64>>();
        tensors.put("descent.moved", &[self.pairs.len(), width], &flat(|pair| &pair.moved));
        tensors.put("descent.bent", &[self.pairs.len(), width], &flat(|pair| &pair.bent));
    }

    pub(crate) fn restore(&mut self, state: &Tensors) -> Result<(), StateError> {
        let width = self.point.len();
        self.point = state.values("weights", &[width])?.to_vec();
        self.step = state.number("descent.step")?;
        let count = state.get("descent.moved")?.shape.first().map_or(0, |count| (*count).min(MEMORY));
        let moved = state.values("descent.moved", &[count, width])?;
        let bent = state.values("descent.bent", &[count, width])?;
        let rows = |values: &[f64], i: usize| values[i * width..][..width].to_vec();
        self.pairs = (0..count).map(|i| Pair { moved: rows(moved, i), bent: rows(bent, i) }).collect();
        self.here = None;
        Ok(())
    }
}

pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    // Four sums at a time let the processor work on them side by side; the order is fixed all the same.
    let mut sums = [0.0; 4];
    let (long_a, rest_a) = a.as_chunks::<4>();
    let (long_b, rest_b) = b.as_chunks::<4>();
    for (a, b) in long_a.iter().zip(long_b) {
        for i in 0..4 {
            sums[i] += a[i] * b[i];
        }
    }
    let rest: f64 = rest_a.iter().zip(rest_b).map(|(a, b)| a * b).sum();
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

/// Adds a multiple of one to the other.
pub(crate) fn add(to: &mut [f64], times: f64, from: &[f64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += times * from);
}

fn minus(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// (x - 1)^2 + 50 (y + 2)^2.
    fn bowl(x: &[f64]) -> Result<(f64, Vec<f64>), Infallible> {
        let (a, b) = (x[0] - 1.0, x[1] + 2.0);
        Ok((a * a + 50.0 * b * b, vec![2.0 * a, 100.0 * b]))
    }

    #[test]
    fn both_methods_find_the_minimum_and_never_go_up() {
        for (method, steps) in [(Method::Gradient, 400), (Method::Lbfgs, 15)] {
            let mut descent = Descent::new(method, vec![5.0, 5.0]);
            let mut before = f64::INFINITY;
            for _ in 0..steps {
                let Ok(value) = descent.step(bowl);
                assert!(value <= before, "{method:?}");
                before = value;
            }
            assert!(
                (descent.point[0] - 1.0).abs() < 1e-6 && (descent.point[1] + 2.0).abs() < 1e-6,
                "{descent:?}"
            );
        }
    }

    #[test]
    fn at_the_minimum_nothing_moves() {
        let mut descent = Descent::new(Method::Lbfgs, vec![1.0, -2.0]);
        assert_eq!(descent.step(bowl), Ok(0.0));
        assert_eq!(descent.point, [1.0, -2.0]);
    }
}
