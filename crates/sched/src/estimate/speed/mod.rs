//! How fast? Measured speeds of one job, by its size, and functions fitted to them.

mod fit;
mod measured;
mod nnls;

use serde::{Deserialize, Serialize};

use crate::model::SpeedFunction;

pub use fit::{OUTLIER, PROFILE_SIZES, SpeedFamily, SpeedFit, fit_speed};
pub use measured::{MeasuredRate, MeasuredRates};
pub use nnls::NormalEquations;

/// Sizes kept of one job; the one measured longest ago goes first.
pub const MAX_SPEED_POINTS: usize = 32;

/// A measured speed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpeedPoint {
    /// Workers.
    pub workers: u32,
    /// Parameter servers.
    pub servers: u32,
    /// Iterations a second with them.
    pub iterations_per_s: f64,
}

/// The speeds that were measured of one job: one for each size, the latest last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SpeedHistory(Vec<SpeedPoint>);

impl SpeedHistory {
    /// Takes in a measurement. What is no speed above zero is not one.
    pub fn measure(&mut self, point: SpeedPoint) {
        if !(point.iterations_per_s.is_finite() && point.iterations_per_s > 0.0 && point.workers > 0) {
            return;
        }
        self.0.retain(|known| (known.workers, known.servers) != (point.workers, point.servers));
        if self.0.len() == MAX_SPEED_POINTS {
            self.0.remove(0);
        }
        self.0.push(point);
    }

    /// The measurements, the latest last.
    pub fn points(&self) -> &[SpeedPoint] {
        &self.0
    }
}

/// The time of one iteration as a part that divides among workers and one that does not, both of them not negative:
/// least squares over the measurements (SLAQ specification, A2.3). Until two sizes were seen, all of it divides.
pub fn fit_fixed_part(points: &[SpeedPoint]) -> Option<SpeedFunction> {
    let n = points.len() as f64;
    let share = |point: &SpeedPoint| 1.0 / f64::from(point.workers);
    let time_s = |point: &SpeedPoint| 1.0 / point.iterations_per_s;
    let sum = |of: &dyn Fn(&SpeedPoint) -> f64| points.iter().map(of).sum::<f64>();
    let (x, y) = (sum(&share), sum(&time_s));
    let xx = sum(&|point| share(point) * share(point));
    let xy = sum(&|point| share(point) * time_s(point));
    if points.is_empty() {
        return None;
    }
    let only_divides = SpeedFunction::WithFixedPart { work_s: xy / xx, fixed_s: 0.0 };
    let determinant = n * xx - x * x;
    if determinant <= 1e-12 * n * xx {
        return Some(only_divides);
    }
    let (work_s, fixed_s) = ((n * xy - x * y) / determinant, (xx * y - x * xy) / determinant);
    Some(match (work_s < 0.0, fixed_s < 0.0) {
        (true, _) => SpeedFunction::WithFixedPart { work_s: 0.0, fixed_s: y / n },
        (_, true) => only_divides,
        _ => SpeedFunction::WithFixedPart { work_s, fixed_s },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(work_s: f64, fixed_s: f64, sizes: &[u32]) -> Vec<SpeedPoint> {
        let truth = SpeedFunction::WithFixedPart { work_s, fixed_s };
        let point = |workers: &u32| SpeedPoint {
            workers: *workers,
            servers: 0,
            iterations_per_s: truth.iterations_per_s(*workers, 0),
        };
        sizes.iter().map(point).collect()
    }

    #[test]
    fn a_fixed_part_is_found_from_two_sizes_on() {
        let fit = |sizes: &[u32]| match fit_fixed_part(&measured(8.0, 0.5, sizes)) {
            Some(SpeedFunction::WithFixedPart { work_s, fixed_s }) => (work_s, fixed_s),
            other => panic!("{other:?}"),
        };
        assert_eq!(fit(&[4]), (10.0, 0.0), "with one size all of it divides");
        let (work_s, fixed_s) = fit(&[4, 16]);
        assert!((work_s - 8.0).abs() < 1e-9 && (fixed_s - 0.5).abs() < 1e-9, "{work_s} {fixed_s}");
        assert_eq!(fit_fixed_part(&[]), None);
    }

    #[test]
    fn neither_part_is_negative() {
        let point = |workers, time_s: f64| SpeedPoint { workers, servers: 0, iterations_per_s: 1.0 / time_s };
        // Faster than by division alone: no fixed part. Slower with more workers: nothing divides.
        let faster = fit_fixed_part(&[point(1, 10.0), point(2, 1.0)]);
        assert!(matches!(faster, Some(SpeedFunction::WithFixedPart { fixed_s: 0.0, .. })), "{faster:?}");
        let slower = fit_fixed_part(&[point(1, 1.0), point(2, 3.0)]);
        assert_eq!(slower, Some(SpeedFunction::WithFixedPart { work_s: 0.0, fixed_s: 2.0 }));
    }

    #[test]
    fn one_measurement_is_kept_for_each_size_and_no_nonsense() {
        let mut history = SpeedHistory::default();
        let point = |workers, iterations_per_s| SpeedPoint { workers, servers: 0, iterations_per_s };
        for (workers, speed) in [(1, 1.0), (2, 2.0), (1, 1.5), (3, 0.0), (3, f64::NAN), (0, 1.0)] {
            history.measure(point(workers, speed));
        }
        assert_eq!(history.points(), [point(2, 2.0), point(1, 1.5)]);
        for workers in 10..100 {
            history.measure(point(workers, 1.0));
        }
        assert_eq!(history.points().len(), MAX_SPEED_POINTS);
        assert_eq!(history.points()[0].workers, 68);
    }
}
