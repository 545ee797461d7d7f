//! The linear support vector machine.
//!
//! Sources: with the squared hinge loss, which is smooth, Fan and others, "LIBLINEAR" (JMLR 9, 2008), L2-loss SVM, minimised by
//! gradient descent or L-BFGS (`descent`). With the plain hinge, Pegasos: Shalev-Shwartz and others, "Pegasos: primal estimated
//! sub-gradient solver for SVM" (Mathematical Programming 127, 2011), algorithm of figure 1 with all rows in each step and the
//! optional projection. We differ in an intercept, which is neither drawn to zero nor projected.

use crate::algorithm::{Algorithm, Entry, Measured};
use crate::data::{Data, Needs};
use crate::descent::{Method, add, dot};
use crate::error::TrainError;
use crate::linear::{Evaluated, Objective};
use crate::parameters::Parameter;
use crate::pool::Pool;
use crate::tensors::{StateError, Tensors};

use super::logistic::Smooth;

/// See the file.
pub(super) static ENTRY: Entry = Entry {
    name: "svm",
    title: "linear support vector machine",
    source: "Fan and others 2008 (squared hinge); Shalev-Shwartz and others 2011 (Pegasos)",
    needs: Needs::TwoClasses,
    generator: "classification",
    parameters: &[
        Parameter::word(
            "method",
            &["gradient", "lbfgs", "pegasos"],
            "How it is minimised; pegasos has the plain hinge, the others the squared one.",
        ),
        Parameter::real("l2", 1e-2, 1e-9, 1e6, "The weight of half the squared weights in the loss."),
    ],
    begin: |given, data, _, _| {
        let table = data.table().expect("it was checked");
        let l2 = given.real("l2");
        let method = match given.word("method") {
            "pegasos" => {
                let objective = Objective::new(table, hinge, l2);
                let weights = vec![0.0; table.columns + 1];
                return Ok(Box::new(Pegasos { objective, weights, steps: 0, here: None }));
            }
            "lbfgs" => Method::Lbfgs,
            _ => Method::Gradient,
        };
        Ok(Box::new(Smooth::new(Objective::new(table, squared_hinge, l2), method, table)))
    },
};

fn hinge(margin: f64) -> (f64, f64) {
    if margin < 1.0 { (1.0 - margin, -1.0) } else { (0.0, 0.0) }
}

fn squared_hinge(margin: f64) -> (f64, f64) {
    let short = (1.0 - margin).max(0.0);
    (short * short, -2.0 * short)
}

struct Pegasos {
    objective: Objective,
    weights: Vec<f64>,
    /// Steps that were made.
    steps: u64,
    /// What is known at the weights; it follows from them.
    here: Option<Evaluated>,
}

impl Algorithm for Pegasos {
    fn iterate(&mut self, data: &Data, pool: &Pool) -> Result<Measured, TrainError> {
        let table = data.table().expect("it was checked");
        let here = match self.here.take() {
            Some(known) => known,
            None => self.objective.evaluate(&self.weights, table, pool)?,
        };
        self.steps += 1;
        let step = 1.0 / (self.objective.l2 * self.steps as f64);
        add(&mut self.weights, -step, &here.gradient);
        let slopes = &mut self.weights[..table.columns];
        let radius = self.objective.l2.sqrt().recip();
        let norm = dot(slopes, slopes).sqrt();
        if norm > radius {
            slopes.iter_mut().for_each(|weight| *weight *= radius / norm);
        }
        let here = self.objective.evaluate(&self.weights, table, pool)?;
        let measured = here.measured;
        self.here = Some(here);
        Ok(measured)
    }

    fn tensors(&self) -> Tensors {
        let mut tensors = Tensors::default();
        tensors.put("weights", &[self.weights.len()], &self.weights);
        tensors.put_count("pegasos.steps", self.steps);
        tensors
    }

    fn restore(&mut self, state: &Tensors, _: &Data, _: &Pool) -> Result<(), StateError> {
        self.weights = state.values("weights", &[self.weights.len()])?.to_vec();
        self.steps = state.whole("pegasos.steps", u64::from(u32::MAX))?;
        self.here = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::logistic::tests::gradient_is_that_of_differences;
    use super::*;

    #[test]
    fn the_gradients_are_those_of_differences() {
        gradient_is_that_of_differences(squared_hinge);
        // The hinge has a corner, and no row of the test stands on it.
        gradient_is_that_of_differences(hinge);
    }
}
