//! Logistic regression of two classes.
//!
//! Source: Hastie, Tibshirani and Friedman, "The Elements of Statistical Learning" (2nd edition, 2009), section 4.4, with a ridge
//! penalty; minimised by gradient descent or L-BFGS over all rows (`descent`), or by batches of rows (`stochastic`). Only the latter draws
//! anything, and can be trained as several copies.

use crate::algorithm::{Algorithm, Entry, Measured};
use crate::data::{Data, Needs, Table};
use crate::descent::{Descent, Method};
use crate::error::TrainError;
use crate::linear::Objective;
use crate::momentum::Momentum;
use crate::parameters::Parameter;
use crate::pool::Pool;
use crate::tensors::{StateError, Tensors};

use super::stochastic::Stochastic;

/// See the file.
pub(super) static ENTRY: Entry = Entry {
    name: "logistic",
    title: "logistic regression",
    source: "Hastie, Tibshirani and Friedman 2009, section 4.4",
    needs: Needs::TwoClasses,
    generator: "classification",
    parameters: &[
        Parameter::word("method", &["gradient", "lbfgs", "stochastic"], "How it is minimised."),
        Parameter::real("l2", 1e-4, 0.0, 1e6, "The weight of half the squared weights in the loss."),
        Parameter::real("step", 0.1, 0.0, 1000.0, "How far an update goes; only with `stochastic`."),
        Parameter::real(
            "momentum",
            0.0,
            0.0,
            0.999_999,
            "What is kept of the update before; only with `stochastic`.",
        ),
        Parameter::real(
            "decay",
            0.0,
            0.0,
            1000.0,
            "In pass k the step is divided by 1 + decay k; only with `stochastic`.",
        ),
        Parameter::whole(
            "batch",
            256,
            0,
            10_000_000,
            "Rows of an update, 0 takes all; only with `stochastic`.",
        ),
    ],
    begin: |given, data, seed, _| {
        let table = data.table().expect("it was checked");
        let objective = Objective::new(table, margin, given.real("l2"));
        if given.word("method") == "stochastic" {
            let (batch, rows) = (given.whole("batch"), table.rows());
            let rule = Momentum {
                step: given.real("step"),
                momentum: given.real("momentum"),
                decay: given.real("decay"),
                batch: if batch == 0 { rows } else { batch.min(rows) },
                rows,
            };
            return Ok(Box::new(Stochastic::new(objective, rule, table, seed)));
        }
        let method = if given.word("method") == "lbfgs" { Method::Lbfgs } else { Method::Gradient };
        Ok(Box::new(Smooth::new(objective, method, table)))
    },
};

/// `ln(1 + e^-m)` and its slope.
fn margin(margin: f64) -> (f64, f64) {
    // Whichever side of zero, the exponential is of a negative number and cannot overflow.
    let small = (-margin.abs()).exp();
    let loss = small.ln_1p() + (-margin).max(0.0);
    let slope = if margin >= 0.0 { -small / (1.0 + small) } else { -1.0 / (1.0 + small) };
    (loss, slope)
}

/// A smooth objective on its way down.
pub(super) struct Smooth {
    objective: Objective,
    descent: Descent,
}

impl Smooth {
    pub(super) fn new(objective: Objective, method: Method, table: &Table) -> Self {
        Self { objective, descent: Descent::new(method, vec![0.0; table.columns + 1]) }
    }
}

impl Algorithm for Smooth {
    fn iterate(&mut self, data: &Data, pool: &Pool) -> Result<Measured, TrainError> {
        let table = data.table().expect("it was checked");
        let objective = self.objective;
        let mut accuracies = Vec::new();
        let loss = self.descent.step::<TrainError>(|weights| {
            let evaluated = objective.evaluate(weights, table, pool)?;
            accuracies.push((evaluated.measured.loss, evaluated.measured.accuracy));
            Ok((evaluated.measured.loss, evaluated.gradient))
        })?;
        // The step that was taken is the last that was tried, unless none was good enough.
        let last = accuracies.last().filter(|(tried, _)| *tried == loss);
        let accuracy = match last {
            Some((_, accuracy)) => *accuracy,
            None => objective.evaluate(self.descent.point(), table, pool)?.measured.accuracy,
        };
        Ok(Measured { loss, accuracy })
    }

    fn tensors(&self) -> Tensors {
        let mut tensors = Tensors::default();
        self.descent.tensors(&mut tensors);
        tensors
    }

    fn restore(&mut self, state: &Tensors, _: &Data, _: &Pool) -> Result<(), StateError> {
        self.descent.restore(state)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::linear::Margin;
    use crate::pool::Pool;

    /// The gradient of the objective against differences of its values.
    pub(in super::super) fn gradient_is_that_of_differences(margin: Margin) {
        let values: Vec<f64> = (0..60).map(|i| (f64::from(i * i) * 0.7).sin() * 2.0).collect();
        let targets: Vec<f64> = (0..20).map(|i| f64::from(i % 3 == 0)).collect();
        let table = Table { columns: 3, values, targets };
        let objective = Objective::new(&table, margin, 0.3);
        let pool = Pool::new(1).unwrap();
        let at = [0.4, -0.9, 0.2, 0.1];
        let evaluated = objective.evaluate(&at, &table, &pool).unwrap();
        let told = evaluated.gradient;
        let right = evaluated.measured.accuracy.unwrap();
        assert!(right > 0.2 && right < 0.8, "both sides of the margin are seen: {right}");
        for (i, told) in told.iter().enumerate() {
            let value = |by: f64| {
                let mut moved = at;
                moved[i] += by;
                objective.evaluate(&moved, &table, &pool).unwrap().measured.loss
            };
            let seen = (value(1e-6) - value(-1e-6)) / 2e-6;
            assert!((seen - told).abs() < 1e-7, "weight {i}: {told} against {seen}");
        }
    }

    #[test]
    fn the_gradient_is_that_of_differences() {
        gradient_is_that_of_differences(margin);
    }

    #[test]
    fn huge_margins_are_no_trouble() {
        assert_eq!(margin(1000.0), (0.0, 0.0));
        assert_eq!(margin(-1000.0), (1000.0, -1.0));
        assert!((margin(0.0).0 - 2.0_f64.ln()).abs() < 1e-15 && margin(0.0).1 == -0.5);
    }
}
