//! Draws with given shares.

use rand::RngExt;
use rand_pcg::Pcg64;

/// Picks with given shares.
pub(super) struct Shares {
    sums: Vec<f64>,
}

impl Shares {
    pub(super) fn new(shares: impl Iterator<Item = f64>) -> Self {
        let sums = shares.scan(0.0, |sum, share| {
            *sum += share;
            Some(*sum)
        });
        Self { sums: sums.collect() }
    }

    pub(super) fn pick(&self, random: &mut Pcg64) -> usize {
        let last = self.sums.len() - 1;
        let drawn = random.random::<f64>() * self.sums[last];
        self.sums.partition_point(|sum| *sum <= drawn).min(last)
    }
}
