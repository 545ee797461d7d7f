//! Loss reports and the curves that describe them.

use serde::{Deserialize, Serialize};

/// One report: the loss after so many iterations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossPoint {
    /// Iterations done.
    #[serde(with = "any_number", default = "any_number::missing")]
    pub iteration: f64,
    /// The loss then. What is not a number, as jobs report when they diverge, is kept as it is.
    #[serde(with = "any_number", default = "any_number::missing")]
    pub loss: f64,
    /// The validation accuracy then, if it was measured.
    pub accuracy: Option<f64>,
}

/// How the loss of a job is known to converge, from the algorithm that its owner uses (SLAQ, SoCC 2017, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Convergence {
    /// First-order methods, such as gradient descent: `O(1/k)`, at best `O(1/k^2)`.
    Sublinear,
    /// Quasi-Newton, expectation maximisation and the like: `O(mu^k)`.
    Linear,
    /// Nothing can be said, as for deep networks.
    NonConvex,
}

/// Which way the number that a job reports gets better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// It is a loss.
    #[default]
    Lower,
    /// It is a score, such as an accuracy.
    Higher,
}

/// A family of loss curves over the iteration number `k`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Curve {
    /// `1 / (a k^2 + b k + c) + d`: first-order methods (SLAQ, SoCC 2017).
    Sublinear {
        /// Quadratic term.
        a: f64,
        /// Linear term.
        b: f64,
        /// Inverse of the initial excess loss.
        c: f64,
        /// The asymptote.
        d: f64,
    },
    /// `amplitude * mu^k + c`: linear or superlinear convergence (SLAQ, SoCC 2017).
    Geometric {
        /// Excess loss at the start.
        amplitude: f64,
        /// Ratio from one iteration to the next, below 1.
        mu: f64,
        /// The asymptote.
        c: f64,
    },
}

impl Curve {
    /// The loss that it tends to.
    pub const fn asymptote(&self) -> f64 {
        match *self {
            Self::Sublinear { d, .. } => d,
            Self::Geometric { c, .. } => c,
        }
    }

    /// The loss after `k` iterations.
    pub fn loss(&self, k: f64) -> f64 {
        self.excess(k) + self.asymptote()
    }

    /// By how much the loss after `k` iterations is above the one that it tends to.
    pub fn excess(&self, k: f64) -> f64 {
        match *self {
            Self::Sublinear { a, b, c, .. } => 1.0 / (a * k * k + b * k + c),
            Self::Geometric { amplitude, mu, .. } => amplitude * mu.powf(k),
        }
    }

    /// The same course on another scale: each loss times `factor`, plus `offset`.
    #[must_use]
    pub fn rescaled(self, factor: f64, offset: f64) -> Self {
        match self {
            Self::Sublinear { a, b, c, d } => {
                Self::Sublinear { a: a / factor, b: b / factor, c: c / factor, d: d * factor + offset }
            }
            Self::Geometric { amplitude, mu, c } => {
                Self::Geometric { amplitude: amplitude * factor, mu, c: c * factor + offset }
            }
        }
    }

    /// After how many iterations only a part of what the loss is above its end at first is left; infinite if never.
    pub fn iterations_to(&self, part: f64) -> f64 {
        self.iterations_to_excess(part * self.excess(0.0))
    }

    /// After how many iterations the loss is so far above its end; infinite if never.
    pub fn iterations_to_excess(&self, excess: f64) -> f64 {
        let k = match *self {
            Self::Geometric { amplitude, mu, .. } => (excess / amplitude).ln() / mu.ln(),
            Self::Sublinear { a, b, c, .. } => {
                let rest = c - 1.0 / excess;
                if a > 0.0 { ((b * b - 4.0 * a * rest).sqrt() - b) / (2.0 * a) } else { -rest / b }
            }
        };
        if k.is_nan() { f64::INFINITY } else { k }
    }
}

/// Numbers in JSON, which has no words for those that are not finite: they are written as text. What is null or missing
/// is read as not a number.
pub(crate) mod any_number {
    use serde::{Deserialize, Deserializer, Serializer, de};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Word(String),
        Null(()),
    }

    pub(crate) fn serialize<S: Serializer>(number: &f64, to: S) -> Result<S::Ok, S::Error> {
        if number.is_finite() { to.serialize_f64(*number) } else { to.collect_str(number) }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        match Written::deserialize(from)? {
            Written::Number(number) => Ok(number),
            Written::Null(()) => Ok(f64::NAN),
            Written::Word(word) => match word.parse::<f64>() {
                Ok(number) if !number.is_finite() => Ok(number),
                _ => Err(de::Error::custom(format_args!(
                    "\"{word}\" stands where a number is wanted: write a number, \"NaN\", \"inf\" or \"-inf\""
                ))),
            },
        }
    }

    pub(super) const fn missing() -> f64 {
        f64::NAN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_comes_to_a_part_of_its_excess_when_it_says() {
        for curve in [
            Curve::Sublinear { a: 0.5, b: 0.1, c: 2.0, d: 3.0 },
            Curve::Sublinear { a: 0.0, b: 0.1, c: 2.0, d: 3.0 },
            Curve::Geometric { amplitude: 7.0, mu: 0.9, c: -1.0 },
        ] {
            for part in [0.5, 0.1, 0.01] {
                let k = curve.iterations_to(part);
                assert!((curve.excess(k) / curve.excess(0.0) - part).abs() < 1e-12, "{curve:?} {part}");
                let other = curve.rescaled(1e-3, 50.0);
                assert!((other.loss(k) - (curve.loss(k) * 1e-3 + 50.0)).abs() < 1e-12, "{curve:?}");
                assert!((other.iterations_to(part) / k - 1.0).abs() < 1e-9, "{curve:?}");
            }
        }
        assert_eq!(Curve::Sublinear { a: 0.0, b: 0.0, c: 1.0, d: 0.0 }.iterations_to(0.5), f64::INFINITY);
    }

    #[test]
    fn losses_that_are_no_numbers_are_written_and_read() {
        let read = |text: &str| serde_json::from_str::<LossPoint>(text).map(|point| point.loss);
        for (loss, written) in
            [(f64::NAN, "\"NaN\""), (f64::INFINITY, "\"inf\""), (f64::NEG_INFINITY, "\"-inf\"")]
        {
            let text = serde_json::to_string(&LossPoint { iteration: 1.0, loss, accuracy: None }).unwrap();
            assert!(text.contains(&format!("\"loss\":{written}")), "{text}");
            assert_eq!(read(&text).unwrap().total_cmp(&loss), std::cmp::Ordering::Equal, "{text}");
        }
        let exact = LossPoint { iteration: 3.0, loss: 0.1 + 0.2, accuracy: Some(0.5) };
        assert_eq!(
            serde_json::from_str::<LossPoint>(&serde_json::to_string(&exact).unwrap()).unwrap(),
            exact
        );
        assert!(read(r#"{"iteration":1,"loss":null}"#).unwrap().is_nan());
        assert!(read(r#"{"iteration":1}"#).unwrap().is_nan());
        assert_eq!(read(r#"{"iteration":1,"loss":2}"#).unwrap(), 2.0);
        let refused = read(r#"{"iteration":1,"loss":"low"}"#).unwrap_err().to_string();
        assert!(refused.contains("\"low\" stands where a number is wanted"), "{refused}");
        assert!(read(r#"{"iteration":1,"loss":"2.5"}"#).is_err());
    }
}
