//! Draws by published figures: kinds by their shares, and run times by their quantiles.

use rand::RngExt;
use rand_pcg::Pcg64;

/// The run time that a share `p` of the jobs does not exceed; geometric between the known ones.
pub(super) fn quantile(known: &[(f64, f64)], p: f64) -> f64 {
    let upper = known.partition_point(|(share, _)| *share <= p).clamp(1, known.len() - 1);
    let ((p0, low), (p1, high)) = (known[upper - 1], known[upper]);
    low * (high / low).powf((p - p0) / (p1 - p0))
}

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
