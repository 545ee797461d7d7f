//! How fast one job really went, by the type of GPU it was on.

use serde::{Deserialize, Serialize};

use crate::model::GpuTypeId;

/// What a new measurement counts for beside those before it: as in Gavel's public code, and specification of Hadar and
/// Gavel, 2.6.4.
const NEW_PART: f64 = 0.5;
/// Rates kept of one job; the one measured longest ago goes first.
const MOST: usize = 64;

/// A measured speed of a gang, or of one copy of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRate {
    /// The type of all its GPUs.
    pub gpu_type: GpuTypeId,
    /// Workers.
    pub workers: u32,
    /// Whether they are on several nodes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub spread: bool,
    /// Iterations a second of all its workers together.
    pub iterations_per_s: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
const fn is_false(spread: &bool) -> bool {
    !*spread
}

/// The speeds that were measured of one job by GPU type and workers, the latest last. A first measurement counts for what it
/// is, and each later one for half: each report that tells of further iterations is one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MeasuredRates(Vec<MeasuredRate>);

impl MeasuredRates {
    /// Takes in a measurement. What is no speed above zero is not one.
    pub fn measure(&mut self, gpu_type: GpuTypeId, workers: u32, spread: bool, per_s: f64) {
        if !(per_s.is_finite() && per_s > 0.0 && workers > 0) {
            return;
        }
        let at = self
            .0
            .iter()
            .position(|rate| (rate.gpu_type, rate.workers, rate.spread) == (gpu_type, workers, spread));
        let before = at.map(|at| self.0.remove(at).iterations_per_s);
        let iterations_per_s = before.map_or(per_s, |before| before + NEW_PART * (per_s - before));
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push(MeasuredRate { gpu_type, workers, spread, iterations_per_s });
    }

    /// Iterations a second of so many workers on GPUs of a type, if that was ever measured.
    pub fn per_s(&self, gpu_type: GpuTypeId, workers: u32, spread: bool) -> Option<f64> {
        let known =
            |rate: &&MeasuredRate| (rate.gpu_type, rate.workers, rate.spread) == (gpu_type, workers, spread);
        self.0.iter().find(known).map(|rate| rate.iterations_per_s)
    }

    /// What was measured, the latest last.
    pub fn rates(&self) -> &[MeasuredRate] {
        &self.0
    }

    /// Whether nothing was.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_measurement_counts_fully_and_later_ones_for_half() {
        let mut rates = MeasuredRates::default();
        let (v100, k80) = (GpuTypeId(0), GpuTypeId(1));
        for per_s in [8.0, f64::NAN, 0.0, -1.0, 4.0] {
            rates.measure(v100, 1, false, per_s);
        }
        rates.measure(k80, 1, false, 1.0);
        rates.measure(k80, 0, false, 1.0);
        let per_s = |gpu_type, workers, spread| rates.per_s(gpu_type, workers, spread);
        assert_eq!((per_s(v100, 1, false), per_s(k80, 1, false)), (Some(6.0), Some(1.0)));
        assert_eq!((per_s(v100, 2, false), per_s(v100, 1, true)), (None, None));
        for workers in 1..=100 {
            rates.measure(k80, workers, false, 1.0);
        }
        assert_eq!((rates.rates().len(), rates.per_s(v100, 1, false)), (MOST, None));
    }
}
