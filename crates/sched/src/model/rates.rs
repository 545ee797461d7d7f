//! How fast a job goes by what kind of GPU it is on, as it was profiled.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{GpuTypeId, ModelId};

/// Speeds of one kind of job, known from profiles or from earlier jobs: what the throughput matrix of Gavel (OSDI 2020,
/// section 3.1) and the rates `X_j^r` of Hadar are made of. What is not listed is not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Alone on its devices, ascending by type, workers and spread.
    alone: Vec<Rate>,
    /// Beside another job on the same devices, ascending by the other's model, type and workers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    beside: Vec<RateBeside>,
    /// What was profiled, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    of: Option<Profiled>,
}

/// What a profile is of: profiles of one family with like batches say most about each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profiled {
    /// Those of one family have the same number, whatever their batches.
    pub family: u32,
    /// Samples in a batch, where known.
    pub batch: Option<f64>,
}

/// The speed of a whole gang on GPUs of one type.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// The type of all its GPUs.
    pub gpu_type: GpuTypeId,
    /// Workers.
    pub workers: u32,
    /// Whether they are on several nodes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub spread: bool,
    /// Iterations a second of the whole gang; 0 where it was found not to fit.
    pub iterations_per_s: f64,
}

/// The speed of a whole gang that shares all its GPUs with an equal gang of another job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateBeside {
    /// What the other job trains.
    pub other: ModelId,
    /// The type of the GPUs.
    pub gpu_type: GpuTypeId,
    /// Workers of each of the two.
    pub workers: u32,
    /// Iterations a second of this job; 0 where the two do not fit together.
    pub iterations_per_s: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
const fn is_false(spread: &bool) -> bool {
    !*spread
}

impl Rates {
    /// From measurements in any order; of two for the same place the later counts, and what is no number from 0 on is
    /// left out.
    pub fn new(alone: Vec<Rate>, beside: Vec<RateBeside>) -> Self {
        let sound = |per_s: f64| per_s.is_finite() && per_s >= 0.0;
        Self {
            alone: sorted(alone, Rate::key, |rate| sound(rate.iterations_per_s)),
            beside: sorted(beside, RateBeside::key, |rate| sound(rate.iterations_per_s)),
            of: None,
        }
    }

    /// The same, of which it is known what was profiled.
    #[must_use]
    pub const fn of(mut self, profiled: Profiled) -> Self {
        self.of = Some(profiled);
        self
    }

    /// What was profiled, if that is known.
    pub const fn profiled(&self) -> Option<Profiled> {
        self.of
    }

    /// Iterations a second of a gang of so many workers on GPUs of one type, on one node or spread over several. A gang
    /// that was only measured on one node counts as fast when it is spread. `None` if it was never measured.
    pub fn per_s(&self, gpu_type: GpuTypeId, workers: u32, spread: bool) -> Option<f64> {
        let find = |spread: bool| {
            let at = self.alone.binary_search_by_key(&(gpu_type, workers, spread), Rate::key);
            at.ok().map(|i| self.alone[i].iterations_per_s)
        };
        if spread { find(true).or_else(|| find(false)) } else { find(false) }
    }

    /// Iterations a second beside an equal gang of another model on the same GPUs. `None` if the pair was never measured.
    pub fn beside_per_s(&self, other: ModelId, gpu_type: GpuTypeId, workers: u32) -> Option<f64> {
        let at = self.beside.binary_search_by_key(&(other, gpu_type, workers), RateBeside::key);
        at.ok().map(|i| self.beside[i].iterations_per_s)
    }

    /// What was measured of it alone.
    pub fn alone(&self) -> &[Rate] {
        &self.alone
    }

    /// What was measured of it beside others.
    pub fn beside(&self) -> &[RateBeside] {
        &self.beside
    }

    /// Whether nothing is known.
    pub const fn is_empty(&self) -> bool {
        self.alone.is_empty() && self.beside.is_empty()
    }

    /// These rates, shared; `None` if nothing is known.
    pub fn shared(self) -> Option<Arc<Self>> {
        (!self.is_empty()).then(|| Arc::new(self))
    }
}

impl Rate {
    const fn key(&self) -> (GpuTypeId, u32, bool) {
        (self.gpu_type, self.workers, self.spread)
    }
}

impl RateBeside {
    const fn key(&self) -> (ModelId, GpuTypeId, u32) {
        (self.other, self.gpu_type, self.workers)
    }
}

/// Sorted by key, the last of each key only.
fn sorted<T, K: Ord>(mut rates: Vec<T>, key: impl Fn(&T) -> K, keep: impl Fn(&T) -> bool) -> Vec<T> {
    rates.retain(keep);
    rates.reverse();
    rates.sort_by_key(&key);
    rates.dedup_by(|later, first| key(later) == key(first));
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_measurement_of_a_place_counts_and_nonsense_does_not() {
        let rate = |gpu_type, workers, spread, iterations_per_s| Rate {
            gpu_type: GpuTypeId(gpu_type),
            workers,
            spread,
            iterations_per_s,
        };
        let all = vec![
            rate(1, 4, true, 2.0),
            rate(0, 4, false, 9.0),
            rate(1, 4, false, 3.0),
            rate(0, 4, false, 8.0),
            rate(2, 4, false, f64::NAN),
            rate(2, 1, false, -1.0),
        ];
        let rates = Rates::new(all, Vec::new());
        assert_eq!(rates.alone().len(), 3);
        let per_s = |gpu_type, workers, spread| rates.per_s(GpuTypeId(gpu_type), workers, spread);
        assert_eq!((per_s(0, 4, false), per_s(0, 4, true)), (Some(8.0), Some(8.0)));
        assert_eq!((per_s(1, 4, false), per_s(1, 4, true)), (Some(3.0), Some(2.0)));
        assert_eq!((per_s(2, 4, false), per_s(2, 1, false), per_s(0, 1, false)), (None, None, None));
        assert!(Rates::default().shared().is_none());
    }

    #[test]
    fn pairs_are_found_by_the_other_model() {
        let beside = |other, per_s| RateBeside {
            other: ModelId(other),
            gpu_type: GpuTypeId(0),
            workers: 1,
            iterations_per_s: per_s,
        };
        let rates = Rates::new(Vec::new(), vec![beside(7, 1.5), beside(3, 0.0)]);
        assert_eq!(rates.beside_per_s(ModelId(7), GpuTypeId(0), 1), Some(1.5));
        assert_eq!(rates.beside_per_s(ModelId(3), GpuTypeId(0), 1), Some(0.0));
        assert_eq!(rates.beside_per_s(ModelId(3), GpuTypeId(0), 2), None);
    }
}
