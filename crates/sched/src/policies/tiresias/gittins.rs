//! The Gittins index of a job by its attained service, from the service of past jobs.

use serde::{Deserialize, Serialize};

/// Which form of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Index {
    /// By the service that remains.
    #[default]
    Textbook,
    /// By the whole service, looked up at the next past job, as in the public code.
    AsCoded,
}

/// The index as a function of attained service.
#[derive(Clone, Debug)]
pub(super) struct Gittins {
    /// Service of past jobs, ascending.
    history: Vec<f64>,
    /// Sums of the first so many.
    sums: Vec<f64>,
    quantum: f64,
    form: Index,
}

impl Gittins {
    pub(super) fn new(history_gpu_s: &[f64], quantum_gpu_s: f64, form: Index) -> Option<Self> {
        let sorted = history_gpu_s.windows(2).all(|pair| pair[0] <= pair[1]);
        let sound = history_gpu_s.iter().all(|service| service.is_finite() && *service > 0.0);
        if history_gpu_s.is_empty() || !sorted || !sound || quantum_gpu_s.is_nan() || quantum_gpu_s <= 0.0 {
            return None;
        }
        let mut sums = vec![0.0];
        for service in history_gpu_s {
            sums.push(sums[sums.len() - 1] + service);
        }
        Some(Self { history: history_gpu_s.to_vec(), sums, quantum: quantum_gpu_s, form })
    }

    /// The first past job with more than `service`.
    fn above(&self, service: f64) -> usize {
        self.history.partition_point(|past| *past <= service)
    }

    /// A million times the chance to end within a quantum of further service, over the service that
    /// takes on average; 0 for a job that has had more than every past job.
    pub(super) fn index(&self, attained_gpu_s: f64) -> f64 {
        let n = self.history.len();
        match self.form {
            Index::Textbook => self.at(attained_gpu_s, self.above(attained_gpu_s), n),
            Index::AsCoded => match self.above(attained_gpu_s) {
                i if i == n => 0.0,
                i => self.at(self.history[i] - 1.0, self.above(self.history[i] - 1.0), n - 1),
            },
        }
    }

    /// `beyond` stands for a horizon past the last sample.
    fn at(&self, attained: f64, first: usize, beyond: usize) -> f64 {
        let n = self.history.len();
        if first >= n {
            return 0.0;
        }
        let last = match self.above(attained + self.quantum) {
            i if i == n => beyond,
            i => i,
        };
        let left = (n - first) as f64;
        let ends = last.saturating_sub(first) as f64;
        let whole = self.sums[last.max(first)] - self.sums[first];
        let (sum, spared) = match self.form {
            Index::Textbook => (whole - ends * attained, self.quantum * (n - last) as f64),
            Index::AsCoded => (whole, self.quantum * (n - last) as f64),
        };
        let (chance, expected) = (ends / left, (sum + spared) / left);
        if expected <= 0.0 {
            return 0.0;
        }
        match self.form {
            Index::Textbook => 1e6 * chance / expected,
            // The public code rounds on the way, which makes equals of near equals.
            Index::AsCoded => round(1e6 * round(chance, 5) / round(expected, 5), 4),
        }
    }
}

fn round(value: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_chance_over_expected_service() {
        let history = [10.0, 20.0, 100.0, 1000.0];
        let gittins = Gittins::new(&history, 15.0, Index::Textbook).unwrap();
        // From 0 within 15: one of four ends, after 10; the others take 15 each.
        let expected = 1e6 * 0.25 / ((10.0 + 3.0 * 15.0) / 4.0);
        assert!((gittins.index(0.0) - expected).abs() < 1e-9);
        // From 10 within 15: one of three, after 10 more.
        let expected = 1e6 / 3.0 / ((10.0 + 2.0 * 15.0) / 3.0);
        assert!((gittins.index(10.0) - expected).abs() < 1e-9);
        assert_eq!(gittins.index(500.0), 0.0, "nobody ended within 15 of 500");
        assert_eq!(gittins.index(1000.0), 0.0, "beyond the last sample");
        let coded = Gittins::new(&history, 15.0, Index::AsCoded).unwrap();
        // At 19 (the next sample less one) within 15: one of three, counted with its whole service of 20.
        let expected = 1e6 * 0.33333 / 16.66667;
        assert!((coded.index(10.0) - expected).abs() < 1e-4);
    }

    #[test]
    fn a_senseless_history_is_refused() {
        assert!(Gittins::new(&[], 1.0, Index::Textbook).is_none());
        assert!(Gittins::new(&[2.0, 1.0], 1.0, Index::Textbook).is_none());
        assert!(Gittins::new(&[1.0], 0.0, Index::Textbook).is_none());
    }
}
