//! Durations by their logarithm, in a bounded number of bins. Percentiles are good to a few per cent.

use std::time::Duration;

/// Bins for each doubling; a bin is then 9 % wide.
const BINS_PER_DOUBLING: f64 = 8.0;
/// Durations from one nanosecond to 2^48 of them, which is three days.
const BINS: usize = 48 * 8;

/// How often durations of each length occurred.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: Box<[u64; BINS]>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::new([0; BINS]), total: 0 }
    }
}

impl Histogram {
    /// Counts one duration.
    pub(crate) fn record(&mut self, duration: Duration) {
        let nanos = (duration.as_nanos() as f64).max(1.0);
        let bin = ((nanos.log2() * BINS_PER_DOUBLING) as usize).min(BINS - 1);
        self.counts[bin] += 1;
        self.total += 1;
    }

    /// The middle of the bin that holds the percentile, in microseconds.
    pub(crate) fn percentile_us(&self, percent: f64) -> Option<f64> {
        let rank = ((percent / 100.0 * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let bin = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(((bin as f64 + 0.5) / BINS_PER_DOUBLING).exp2() / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_a_bin_of_the_truth() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile_us(50.0), None);
        for micros in 1..=1000 {
            histogram.record(Duration::from_micros(micros));
        }
        for (percent, truth) in [(50.0, 500.0), (99.0, 990.0)] {
            let found = histogram.percentile_us(percent).unwrap();
            assert!((found / truth - 1.0).abs() < 0.1, "{found} for {truth}");
        }
    }

    #[test]
    fn extreme_durations_have_a_bin() {
        let mut histogram = Histogram::default();
        histogram.record(Duration::ZERO);
        histogram.record(Duration::MAX);
        assert!(histogram.percentile_us(99.0).unwrap() > 1e11);
    }
}
