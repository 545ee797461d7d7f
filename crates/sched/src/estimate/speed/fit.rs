//! Speed functions fitted to measured speeds: parameter servers and rings (Optimus, EuroSys 2018, section 3.2; fits of the
//! specification of DL2, section 5.1).
//!
//! The time of an iteration is linear in the coefficients, so each is a least-squares problem with coefficients that are
//! not negative. Errors count relative to the measured time. A measurement that the fit misses by more than
//! [`OUTLIER`] is left out and the rest fitted anew, once.
//!
//! Bounded: a history keeps at most [`super::MAX_SPEED_POINTS`] measurements, and a fit is a handful of sums over them.

use crate::model::SpeedFunction;

use super::SpeedPoint;
use super::nnls::NormalEquations;

/// A measurement that is off by more than this part is not believed.
pub const OUTLIER: f64 = 0.6;

/// The sizes to measure, workers and servers, the first ones first. Their ratios are mixed, because from equal numbers
/// alone nobody can tell a cost of `w / p` from one that is always there.
pub const PROFILE_SIZES: [(u32, u32); 10] =
    [(1, 1), (1, 4), (4, 1), (4, 4), (2, 8), (8, 2), (8, 8), (1, 12), (2, 2), (12, 4)];

/// A kind of speed function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpeedFamily {
    /// Parameter servers; each worker goes at its own pace.
    Asynchronous,
    /// Parameter servers; all workers wait for each other. The total batch is taken as 1.
    Synchronous,
    /// Workers alone.
    AllReduce,
}

impl SpeedFamily {
    /// The fewest measurements by which its coefficients can be told.
    pub const fn least_points(self) -> usize {
        match self {
            Self::Asynchronous => 4,
            Self::Synchronous => 5,
            Self::AllReduce => 3,
        }
    }

    /// The fitted function, or `None` with too few measurements.
    pub fn fit(self, points: &[SpeedPoint]) -> Option<SpeedFit> {
        let of = |point: &SpeedPoint| (f64::from(point.workers), f64::from(point.servers));
        if points.len() < self.least_points() {
            return None;
        }
        Some(match self {
            Self::Asynchronous => fit(
                points,
                |point| (of(point), f64::from(point.workers) / point.iterations_per_s),
                |(w, p)| [1.0, w / p, w, p],
                |theta| SpeedFunction::AsynchronousServers { theta },
            ),
            Self::Synchronous => fit(
                points,
                |point| (of(point), 1.0 / point.iterations_per_s),
                |(w, p)| [1.0 / w, 1.0, w / p, w, p],
                |theta| SpeedFunction::SynchronousServers { batch: 1.0, theta },
            ),
            Self::AllReduce => fit(
                points,
                |point| (of(point), 1.0 / point.iterations_per_s),
                |(w, _)| [1.0 / w, 1.0, w - 1.0],
                |theta| SpeedFunction::AllReduce { theta },
            ),
        })
    }
}

/// A fitted speed function.
#[derive(Clone, Debug, PartialEq)]
pub struct SpeedFit {
    /// The function.
    pub function: SpeedFunction,
    /// The relative standard deviation of a measurement around it.
    pub spread: f64,
    /// Measurements that it is made from, without those that were not believed.
    pub points: usize,
}

/// The family that leaves least unexplained: of the two with servers, or the ring for workers alone. Of equal ones it is
/// the one with fewer coefficients.
pub fn fit_speed(points: &[SpeedPoint], with_servers: bool) -> Option<SpeedFit> {
    if !with_servers {
        return SpeedFamily::AllReduce.fit(points);
    }
    let usable: Vec<SpeedPoint> = points.iter().filter(|point| point.servers > 0).copied().collect();
    let families = [SpeedFamily::Asynchronous, SpeedFamily::Synchronous];
    families.iter().filter_map(|family| family.fit(&usable)).min_by(|a, b| a.spread.total_cmp(&b.spread))
}

fn fit<const N: usize>(
    points: &[SpeedPoint],
    measured: impl Fn(&SpeedPoint) -> ((f64, f64), f64),
    basis: impl Fn((f64, f64)) -> [f64; N],
    function: impl Fn([f64; N]) -> SpeedFunction,
) -> SpeedFit {
    let rows: Vec<([f64; N], f64)> = points
        .iter()
        .map(|point| {
            let (size, time_s) = measured(point);
            (basis(size), time_s)
        })
        .collect();
    let miss = |theta: &[f64; N], (row, time_s): &([f64; N], f64)| {
        row.iter().zip(theta).map(|(a, b)| a * b).sum::<f64>() / time_s - 1.0
    };
    let first = coefficients(rows.iter());
    let believed: Vec<_> = rows.iter().filter(|row| miss(&first, row).abs() <= OUTLIER).collect();
    let enough = believed.len() >= N && believed.len() < rows.len();
    let kept = if enough { believed } else { rows.iter().collect() };
    let theta = if enough { coefficients(kept.iter().copied()) } else { first };
    let used = theta.iter().filter(|value| **value > 0.0).count();
    let freedom = kept.len().saturating_sub(used).max(1) as f64;
    let squares: f64 = kept.iter().map(|row| miss(&theta, row).powi(2)).sum();
    SpeedFit { function: function(theta), spread: (squares / freedom).sqrt(), points: kept.len() }
}

fn coefficients<'a, const N: usize>(rows: impl Iterator<Item = &'a ([f64; N], f64)>) -> [f64; N] {
    let mut equations = NormalEquations::<N>::default();
    rows.for_each(|(row, time_s)| equations.add(row.map(|value| value / time_s), 1.0));
    equations.solve_non_negative()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(truth: &SpeedFunction, sizes: &[(u32, u32)]) -> Vec<SpeedPoint> {
        let point = |(workers, servers): &(u32, u32)| SpeedPoint {
            workers: *workers,
            servers: *servers,
            iterations_per_s: truth.iterations_per_s(*workers, *servers),
        };
        sizes.iter().map(point).collect()
    }

    fn agree(fit: &SpeedFit, truth: &SpeedFunction) {
        for (w, p) in [(1, 1), (3, 2), (2, 15), (16, 4), (16, 16)] {
            let (ours, theirs) = (fit.function.iterations_per_s(w, p), truth.iterations_per_s(w, p));
            assert!((ours / theirs - 1.0).abs() < 1e-6, "{w} workers, {p} servers: {ours}, not {theirs}");
        }
    }

    #[test]
    fn each_family_is_found_again_from_its_fewest_measurements() {
        let asynchronous = SpeedFunction::AsynchronousServers { theta: [1.0, 0.2, 0.01, 0.02] };
        let synchronous =
            SpeedFunction::SynchronousServers { batch: 1.0, theta: [0.12, 0.42, 0.419, 0.0075, 0.003] };
        for (family, truth) in
            [(SpeedFamily::Asynchronous, asynchronous), (SpeedFamily::Synchronous, synchronous)]
        {
            let least = family.least_points();
            let points = measured(&truth, &PROFILE_SIZES[..least]);
            agree(&family.fit(&points).expect("enough"), &truth);
            assert_eq!(family.fit(&points[1..]), None);
            let chosen = fit_speed(&measured(&truth, &PROFILE_SIZES), true).expect("enough");
            agree(&chosen, &truth);
            assert!(chosen.spread < 1e-6, "{chosen:?}");
        }
        let ring = SpeedFunction::AllReduce { theta: [8.0, 0.5, 0.1] };
        let fit = fit_speed(&measured(&ring, &[(1, 0), (2, 0), (8, 0)]), false).expect("enough");
        agree(&fit, &ring);
    }

    #[test]
    fn from_equal_numbers_alone_the_ratio_cannot_be_told() {
        let truth = SpeedFunction::AsynchronousServers { theta: [1.0, 0.5, 0.0, 0.0] };
        let sizes: Vec<(u32, u32)> = (1..=10).map(|n| (n, n)).collect();
        let fit = SpeedFamily::Asynchronous.fit(&measured(&truth, &sizes)).expect("enough");
        let (ours, theirs) = (fit.function.iterations_per_s(8, 1), truth.iterations_per_s(8, 1));
        assert!((ours / theirs - 1.0).abs() > 0.5, "{ours} {theirs}");
        let mixed = SpeedFamily::Asynchronous.fit(&measured(&truth, &PROFILE_SIZES)).expect("enough");
        agree(&mixed, &truth);
    }

    #[test]
    fn no_coefficient_is_negative_however_odd_the_measurements() {
        // It gets faster with every worker than any such function can: the part that does not divide would be negative.
        let point = |workers, iterations_per_s| SpeedPoint { workers, servers: 0, iterations_per_s };
        let points = [point(1, 1.0), point(2, 3.0), point(4, 9.0), point(8, 27.0)];
        let Some(SpeedFit { function: SpeedFunction::AllReduce { theta }, spread, .. }) =
            fit_speed(&points, false)
        else {
            panic!("four are enough")
        };
        assert!(theta.iter().all(|value| *value >= 0.0), "{theta:?}");
        assert!(spread > 0.1, "{spread}");
    }

    #[test]
    fn a_measurement_that_cannot_be_is_not_believed_and_the_spread_is_told() {
        let truth = SpeedFunction::AsynchronousServers { theta: [1.0, 0.2, 0.01, 0.02] };
        let mut points = measured(&truth, &PROFILE_SIZES);
        points[7].iterations_per_s /= 20.0;
        let fit = SpeedFamily::Asynchronous.fit(&points).expect("enough");
        assert_eq!(fit.points, PROFILE_SIZES.len() - 1);
        agree(&fit, &truth);
        let mut noisy = measured(&truth, &PROFILE_SIZES);
        for (i, point) in noisy.iter_mut().enumerate() {
            point.iterations_per_s *= if i % 2 == 0 { 1.1 } else { 0.9 };
        }
        let spread = SpeedFamily::Asynchronous.fit(&noisy).expect("enough").spread;
        assert!((0.05..0.2).contains(&spread), "{spread}");
    }
}
