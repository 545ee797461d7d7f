//! How fast each job would go with other numbers of workers and servers, as far as can be known (Optimus, section 3.2).
//!
//! What is known: a declared function, a declared table (earlier runs of jobs of the same kind) and what was measured of
//! the job itself. A fit is made from the profile points of the table and from the job's own measurements, which count for
//! more recent ones; it is kept until there is a new measurement.

use std::collections::BTreeMap;

use crate::estimate::{PROFILE_SIZES, SpeedFit, SpeedPoint, fit_speed};
use crate::model::{DataParallel, JobId, SpeedFunction, WorkerRange};
use crate::view::JobView;

/// From where speeds are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Knowledge {
    /// From a function fitted to profile points and measurements.
    Fitted,
    /// From what is declared, as it is: an oracle.
    Declared,
}

/// What is known of one job's speed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Known {
    /// A function.
    Function(SpeedFunction),
    /// Too little: it should be measured at this size, workers and servers.
    Explore(u32, u32),
}

/// Fits by job, with the number and the latest of the measurements they were made from.
#[derive(Debug, Default)]
pub(super) struct Speeds {
    fits: BTreeMap<JobId, (Vec<SpeedPoint>, Known)>,
}

impl Speeds {
    /// What is known of a job's speed. `profile` is how many points of a declared table are looked at; 0 means all.
    pub(super) fn of(
        &mut self,
        view: &JobView,
        shape: &DataParallel,
        knowledge: Knowledge,
        profile: usize,
    ) -> Known {
        let declared = view.job.declared.speed.as_ref();
        match declared {
            Some(SpeedFunction::Measured(_)) if knowledge == Knowledge::Fitted => {}
            Some(function) => return Known::Function(function.clone()),
            None => {}
        }
        let measured = view.speeds.points();
        if let Some((from, known)) = self.fits.get(&view.id())
            && from == measured
        {
            return known.clone();
        }
        let known = fitted(declared, measured, shape, profile);
        self.fits.insert(view.id(), (measured.to_vec(), known.clone()));
        known
    }

    /// Forgets the jobs that are gone.
    pub(super) fn keep(&mut self, is_there: impl Fn(JobId) -> bool) {
        self.fits.retain(|id, _| is_there(*id));
    }
}

fn fitted(
    declared: Option<&SpeedFunction>,
    measured: &[SpeedPoint],
    shape: &DataParallel,
    profile: usize,
) -> Known {
    let with_servers = shape.server.is_some() && shape.servers.max > 0;
    let mut points = declared.map_or_else(Vec::new, |table| profiled(table, profile));
    points.retain(|point| !measured.iter().any(|own| size(own) == size(point)));
    points.extend(measured);
    match fit_speed(&points, with_servers) {
        Some(SpeedFit { function, .. }) => Known::Function(function),
        None => {
            next_size(measured, shape).map_or_else(|| by_division(measured), |(w, p)| Known::Explore(w, p))
        }
    }
}

const fn size(point: &SpeedPoint) -> (u32, u32) {
    (point.workers, point.servers)
}

/// Points of a table: so many of mixed ratios, or all.
fn profiled(table: &SpeedFunction, count: usize) -> Vec<SpeedPoint> {
    let SpeedFunction::Measured(known) = table else { return Vec::new() };
    let (most_workers, most_servers) = known.largest();
    let sizes: Vec<(u32, u32)> = if count == 0 {
        (1..=most_servers)
            .flat_map(|servers| (1..=most_workers).map(move |workers| (workers, servers)))
            .collect()
    } else {
        PROFILE_SIZES
            .iter()
            .take(count)
            .map(|(w, p)| ((*w).min(most_workers), (*p).min(most_servers)))
            .collect()
    };
    let point = |(workers, servers)| SpeedPoint {
        workers,
        servers,
        iterations_per_s: table.iterations_per_s(workers, servers),
    };
    sizes.into_iter().map(point).filter(|point| point.iterations_per_s > 0.0).collect()
}

/// The next size to measure, among those that the job can have.
fn next_size(measured: &[SpeedPoint], shape: &DataParallel) -> Option<(u32, u32)> {
    // A range may end at 0.
    let within = |count: u32, range: WorkerRange| count.max(range.min.max(1)).min(range.max);
    let servers = |count: u32| shape.server.map_or(0, |_| within(count, shape.servers));
    let sizes = PROFILE_SIZES.iter().map(|(w, p)| (within(*w, shape.workers), servers(*p)));
    sizes.into_iter().find(|wanted| !measured.iter().any(|point| size(point) == *wanted))
}

/// Where no more can be learnt, work is taken to divide as it did at the fastest size.
fn by_division(measured: &[SpeedPoint]) -> Known {
    let best = measured.iter().max_by(|a, b| a.iterations_per_s.total_cmp(&b.iterations_per_s));
    let function = best.map_or(SpeedFunction::Linear { iteration_s: 1.0, reference: 1 }, |best| {
        SpeedFunction::Linear { iteration_s: 1.0 / best.iterations_per_s, reference: best.workers }
    });
    Known::Function(function)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Resources, SpeedTable};
    use std::sync::Arc;

    fn shape(servers: bool) -> DataParallel {
        let range = WorkerRange { min: 1, max: 16 };
        let server = servers.then(|| Resources::cpus(1));
        DataParallel { worker: Resources::gpus(1), workers: range, server, servers: range }
    }

    fn measure(truth: &SpeedFunction, sizes: &[(u32, u32)]) -> Vec<SpeedPoint> {
        let point = |(workers, servers): &(u32, u32)| SpeedPoint {
            workers: *workers,
            servers: *servers,
            iterations_per_s: truth.iterations_per_s(*workers, *servers),
        };
        sizes.iter().map(point).collect()
    }

    #[test]
    fn sizes_are_explored_in_mixed_ratios_until_a_function_can_be_fitted() {
        let truth = SpeedFunction::AsynchronousServers { theta: [1.0, 0.5, 0.01, 0.02] };
        let mut sizes = Vec::new();
        let known = loop {
            match fitted(None, &measure(&truth, &sizes), &shape(true), 10) {
                Known::Explore(workers, servers) => sizes.push((workers, servers)),
                Known::Function(function) => break function,
            }
        };
        assert_eq!(sizes, [(1, 1), (1, 4), (4, 1), (4, 4)]);
        assert!((known.iterations_per_s(16, 3) / truth.iterations_per_s(16, 3) - 1.0).abs() < 1e-6);
        let ring = SpeedFunction::AllReduce { theta: [4.0, 1.0, 0.1] };
        let first = fitted(None, &[], &shape(false), 10);
        assert_eq!(first, Known::Explore(1, 0));
        let points = measure(&ring, &[(1, 0), (4, 0), (2, 0)]);
        assert!(matches!(fitted(None, &points, &shape(false), 10), Known::Function(_)));
    }

    #[test]
    fn where_sizes_are_few_work_is_taken_to_divide() {
        let narrow = DataParallel { workers: WorkerRange { min: 2, max: 3 }, ..shape(false) };
        let points =
            [2, 3].map(|workers| SpeedPoint { workers, servers: 0, iterations_per_s: f64::from(workers) });
        assert_eq!(fitted(None, &points[..1], &narrow, 10), Known::Explore(3, 0));
        let divided = SpeedFunction::Linear { iteration_s: 1.0 / 3.0, reference: 3 };
        assert_eq!(fitted(None, &points, &narrow, 10), Known::Function(divided));
    }

    #[test]
    fn a_job_that_may_have_no_servers_is_explored_as_workers_alone() {
        let none = DataParallel { servers: WorkerRange { min: 0, max: 0 }, ..shape(true) };
        assert_eq!(fitted(None, &[], &none, 10), Known::Explore(1, 0));
        let ring = SpeedFunction::AllReduce { theta: [4.0, 1.0, 0.1] };
        let points = measure(&ring, &[(1, 0), (4, 0), (2, 0)]);
        let Known::Function(function) = fitted(None, &points, &none, 10) else { panic!("enough") };
        assert!((function.iterations_per_s(3, 0) / ring.iterations_per_s(3, 0) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_declared_table_is_seen_at_its_profile_points_only_and_own_measurements_go_first() {
        let truth = SpeedFunction::AsynchronousServers { theta: [1.0, 0.5, 0.01, 0.02] };
        // Away from the profile points the table is nonsense.
        let table = SpeedTable::new(16, 16, |w, p| {
            if PROFILE_SIZES.contains(&(w, p)) { truth.iterations_per_s(w, p) } else { 1000.0 }
        });
        let table = SpeedFunction::Measured(Arc::new(table));
        let Known::Function(function) = fitted(Some(&table), &[], &shape(true), 10) else { panic!("enough") };
        assert!((function.iterations_per_s(16, 3) / truth.iterations_per_s(16, 3) - 1.0).abs() < 1e-6);
        let own = SpeedPoint { workers: 1, servers: 1, iterations_per_s: truth.iterations_per_s(1, 1) / 2.0 };
        let Known::Function(other) = fitted(Some(&table), &[own], &shape(true), 10) else { panic!("enough") };
        assert!(other.iterations_per_s(1, 1) < function.iterations_per_s(1, 1));
    }
}
