//! Speeds that were measured of one real job, by size and place, and what is taken for sizes that never were.
//!
//! Between two sizes and beyond them a function with a fixed part is fitted to what was measured
//! ([`trainyard_sched::estimate`]); it is bent so that it goes through every measurement. Another place goes as fast in
//! proportion as other jobs went there.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainyard_sched::estimate::{SpeedPoint, fit_fixed_part, fit_speed};
use trainyard_sched::model::{Allocation, Cluster, GpuTypeId, SERVER_TASK, SpeedFunction};

use super::rate::gpu_types;

/// What of an allocation its speed depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extent {
    /// Workers.
    pub workers: u32,
    /// Parameter servers.
    pub servers: u32,
    /// Where they are.
    pub place: Place,
}

/// Where an allocation is, as far as its speed depends on that.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The types of its GPUs, ascending.
    pub gpu_types: Vec<GpuTypeId>,
    /// On how many nodes it is.
    pub nodes: u32,
}

/// What was measured of one job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredSpeeds {
    iterations_per_s: BTreeMap<Extent, f64>,
    /// How fast places are in proportion to each other, over all jobs; 1 where not listed.
    factors: Arc<BTreeMap<Place, f64>>,
    /// One speed for each size, on a place of factor 1, ascending by size.
    sizes: Vec<SpeedPoint>,
    /// What is fitted to them.
    shape: Option<SpeedFunction>,
}

impl Extent {
    /// That of an allocation.
    pub fn of(cluster: &Cluster, held: &Allocation) -> Self {
        let place = Place { gpu_types: gpu_types(cluster, held), nodes: held.nodes().len() as u32 };
        Self { workers: held.workers(), servers: held.count_of(SERVER_TASK), place }
    }
}

impl MeasuredSpeeds {
    /// From iterations a second by extent, and how fast places are in proportion. What is no speed above zero is left out.
    pub fn new(measured: BTreeMap<Extent, f64>, factors: Arc<BTreeMap<Place, f64>>) -> Self {
        let is_speed = |(extent, per_s): &(Extent, f64)| {
            per_s.is_finite() && *per_s > 0.0 && extent.workers + extent.servers > 0
        };
        let measured: BTreeMap<Extent, f64> = measured.into_iter().filter(is_speed).collect();
        let mut by_size: BTreeMap<(u32, u32), Vec<f64>> = BTreeMap::new();
        for (extent, per_s) in &measured {
            let factor = factors.get(&extent.place).copied().unwrap_or(1.0);
            by_size.entry((extent.workers, extent.servers)).or_default().push(per_s / factor);
        }
        let sizes: Vec<SpeedPoint> = by_size
            .into_iter()
            .map(|((workers, servers), speeds)| SpeedPoint {
                workers,
                servers,
                iterations_per_s: speeds.iter().sum::<f64>() / speeds.len() as f64,
            })
            .collect();
        let with_servers = sizes.iter().any(|size| size.servers > 0);
        let servers = with_servers.then(|| fit_speed(&sizes, true)).flatten().map(|fit| fit.function);
        let shape = servers.or_else(|| fit_fixed_part(&sizes));
        Self { iterations_per_s: measured, factors, sizes, shape }
    }

    /// Whether this very size was measured at this very place.
    pub fn is_measured(&self, extent: &Extent) -> bool {
        self.iterations_per_s.contains_key(extent)
    }

    /// What was measured.
    pub fn measured(&self) -> impl Iterator<Item = (&Extent, f64)> {
        self.iterations_per_s.iter().map(|(extent, per_s)| (extent, *per_s))
    }

    /// Iterations a second: as measured, or as follows from what was. 0 without any measurement.
    pub fn iterations_per_s(&self, extent: &Extent) -> f64 {
        if let Some(per_s) = self.iterations_per_s.get(extent) {
            return *per_s;
        }
        self.usual_per_s(extent)
    }

    /// Iterations a second as they follow from all places of the size.
    pub(crate) fn usual_per_s(&self, extent: &Extent) -> f64 {
        let factor = self.factors.get(&extent.place).copied().unwrap_or(1.0);
        self.of_size(extent.workers, extent.servers) * factor
    }

    /// The least of the speeds that were measured.
    pub fn slowest_per_s(&self) -> Option<f64> {
        self.iterations_per_s.values().copied().min_by(f64::total_cmp)
    }

    fn of_size(&self, workers: u32, servers: u32) -> f64 {
        let Some(shape) = &self.shape else { return 0.0 };
        let bend = |size: &SpeedPoint| {
            let fitted = shape.iterations_per_s(size.workers, size.servers);
            if fitted > 0.0 { size.iterations_per_s / fitted } else { 1.0 }
        };
        let same: Vec<&SpeedPoint> = self.sizes.iter().filter(|size| size.servers == servers).collect();
        let above = same.iter().position(|size| size.workers >= workers);
        let bent = match above {
            Some(at) if same[at].workers == workers => bend(same[at]),
            Some(0) => bend(same[0]),
            Some(at) => {
                let (low, high) = (same[at - 1], same[at]);
                let part = f64::from(workers - low.workers) / f64::from(high.workers - low.workers);
                bend(low) + part * (bend(high) - bend(low))
            }
            None => same.last().map_or(1.0, |last| bend(last)),
        };
        shape.iterations_per_s(workers, servers) * bent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(workers: u32, nodes: u32) -> Extent {
        Extent { workers, servers: 0, place: Place { gpu_types: Vec::new(), nodes } }
    }

    fn speeds(measured: &[(u32, f64)]) -> MeasuredSpeeds {
        let all = measured.iter().map(|(workers, per_s)| (on(*workers, 1), *per_s)).collect();
        MeasuredSpeeds::new(all, Arc::default())
    }

    #[test]
    fn what_was_measured_is_as_measured_and_the_rest_follows_from_it() {
        // Exactly 1 / (4 / w + 1).
        let of = |w: u32| 1.0 / (4.0 / f64::from(w) + 1.0);
        let two = speeds(&[(1, of(1)), (4, of(4))]);
        for w in 1..20 {
            assert!((two.iterations_per_s(&on(w, 1)) / of(w) - 1.0).abs() < 1e-9, "{w}");
        }
        assert_eq!([1, 2, 4].map(|w| two.is_measured(&on(w, 1))), [true, false, true]);
        let one = speeds(&[(2, 3.0)]);
        assert_eq!(one.iterations_per_s(&on(4, 1)), 6.0, "with one size all of it divides");
        assert_eq!(speeds(&[(0, 3.0), (2, f64::NAN)]).iterations_per_s(&on(4, 1)), 0.0);
    }

    #[test]
    fn the_curve_goes_through_every_measurement_and_between_them() {
        // More workers do not help beyond four: no function with a fixed part is so.
        let odd = speeds(&[(1, 1.0), (2, 2.0), (4, 4.0), (8, 4.0)]);
        assert_eq!(odd.iterations_per_s(&on(8, 1)), 4.0);
        let six = odd.iterations_per_s(&on(6, 1));
        assert!((3.5..=4.6).contains(&six), "{six}");
    }

    #[test]
    fn another_place_is_as_fast_in_proportion_as_it_is_for_others() {
        let factors = [(on(1, 1).place, 1.25), (on(1, 2).place, 0.75)].into_iter().collect();
        let all = [(on(4, 1), 5.0)].into_iter().collect();
        let speeds = MeasuredSpeeds::new(all, Arc::new(factors));
        assert_eq!(speeds.iterations_per_s(&on(4, 1)), 5.0);
        assert_eq!(speeds.iterations_per_s(&on(4, 2)), 3.0);
        assert!(!speeds.is_measured(&on(4, 2)));
    }
}
