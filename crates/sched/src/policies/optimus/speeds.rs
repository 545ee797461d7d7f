//! How fast each job would go with other numbers of workers and servers, as far as can be known (Optimus, section 3.2).
//!
//! What is known: a declared function, a declared table (earlier runs of jobs of the same kind), what was measured of the
//! job itself, and what was measured of others of its type that are there: of the same model, with workers and servers that
//! demand the same. A fit is made from the profile points of the table and from measurements. Of one size the job's own
//! measurement counts, else the mean time of an iteration of the others, else the table. A fit is kept until there is a new
//! measurement.

use std::collections::BTreeMap;

use crate::estimate::{PROFILE_SIZES, SpeedFit, SpeedPoint, fit_speed};
use crate::model::{DataParallel, Job, JobId, ModelId, Resources, SpeedFunction, WorkerRange};
use crate::view::{JobView, Snapshot};

/// What speeds are planned on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Knowledge {
    /// A function fitted to measurements and to so many profile points of a declared table; 0 means all.
    Fitted(usize),
    /// What is declared, as it is: an oracle.
    Declared,
}

/// What is known of one job's speed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Known {
    /// A function.
    Function(SpeedFunction),
    /// Too little.
    Explore {
        /// It should be measured at one of these, workers and servers, the first ones first.
        sizes: Vec<(u32, u32)>,
        /// What to go by where it cannot be.
        meanwhile: SpeedFunction,
    },
}

/// Jobs with the same speeds: of one model, with the same workers and servers.
type Type = (ModelId, Resources, Option<Resources>);

/// Fits by job, with the measurements they were made from, and measurements by type.
#[derive(Debug, Default)]
pub(super) struct Speeds {
    fits: BTreeMap<JobId, (Vec<SpeedPoint>, Known)>,
    of_types: BTreeMap<Type, Vec<SpeedPoint>>,
}

fn type_of(job: &Job) -> Option<Type> {
    let shape = job.shape.data_parallel()?;
    Some((job.model?, shape.worker, shape.server.filter(|_| shape.servers.max > 0)))
}

/// The sum of times of an iteration by size, and their number.
type Times = BTreeMap<(u32, u32), (f64, f64)>;

impl Speeds {
    /// Forgets the jobs that are gone and gathers what was measured of each type, if that is shared.
    pub(super) fn look_at(&mut self, seen: &Snapshot, shares: bool) {
        self.fits.retain(|id, _| seen.jobs.contains_key(id));
        let mut types: BTreeMap<Type, Times> = BTreeMap::new();
        for view in seen.jobs().filter(|view| shares && !view.speeds.points().is_empty()) {
            let Some(of_type) = type_of(&view.job) else { continue };
            let times = types.entry(of_type).or_default();
            for point in view.speeds.points() {
                let (sum, count) = times.entry(size(point)).or_default();
                (*sum, *count) = (*sum + 1.0 / point.iterations_per_s, *count + 1.0);
            }
        }
        let mean = |((workers, servers), (sum, count)): ((u32, u32), (f64, f64))| SpeedPoint {
            workers,
            servers,
            iterations_per_s: count / sum,
        };
        self.of_types =
            types.into_iter().map(|(kind, times)| (kind, times.into_iter().map(mean).collect())).collect();
    }

    /// What is known of a job's speed.
    pub(super) fn of(&mut self, view: &JobView, shape: &DataParallel, knowledge: Knowledge) -> Known {
        let declared = view.job.declared.speed.as_ref();
        let profile = match (declared, knowledge) {
            (Some(SpeedFunction::Measured(_)) | None, Knowledge::Fitted(profile)) => profile,
            (Some(function), _) => return Known::Function(function.clone()),
            // There is nothing to be had as declared.
            (None, Knowledge::Declared) => 0,
        };
        let measured = self.measured(view);
        if let Some((from, known)) = self.fits.get(&view.id())
            && *from == measured
        {
            return known.clone();
        }
        let known = fitted(declared, &measured, shape, profile);
        self.fits.insert(view.id(), (measured, known.clone()));
        known
    }

    /// What was measured of a job, or else of its type, by size; its own measurements last.
    fn measured(&self, view: &JobView) -> Vec<SpeedPoint> {
        let own = view.speeds.points();
        let of_type = type_of(&view.job).and_then(|kind| self.of_types.get(&kind));
        let others = of_type.into_iter().flatten();
        let mut all: Vec<SpeedPoint> =
            others.filter(|other| !own.iter().any(|own| size(own) == size(other))).copied().collect();
        all.extend(own);
        all
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
    if let Some(SpeedFit { function, .. }) = fit_speed(&points, with_servers) {
        return Known::Function(function);
    }
    let (sizes, meanwhile) = (next_sizes(measured, shape), by_division(measured));
    if sizes.is_empty() { Known::Function(meanwhile) } else { Known::Explore { sizes, meanwhile } }
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

/// The sizes to measure next, among those that the job can have.
fn next_sizes(measured: &[SpeedPoint], shape: &DataParallel) -> Vec<(u32, u32)> {
    // A range may end at 0.
    let within = |count: u32, range: WorkerRange| count.max(range.min.max(1)).min(range.max);
    let servers = |count: u32| shape.server.map_or(0, |_| within(count, shape.servers));
    let mut sizes = Vec::new();
    for wanted in PROFILE_SIZES.iter().map(|(w, p)| (within(*w, shape.workers), servers(*p))) {
        if !measured.iter().any(|point| size(point) == wanted) && !sizes.contains(&wanted) {
            sizes.push(wanted);
        }
    }
    sizes
}

/// Where no more can be learnt, work is taken to divide as it did at the fastest size.
fn by_division(measured: &[SpeedPoint]) -> SpeedFunction {
    let best = measured.iter().max_by(|a, b| a.iterations_per_s.total_cmp(&b.iterations_per_s));
    best.map_or(SpeedFunction::Linear { iteration_s: 1.0, reference: 1 }, |best| SpeedFunction::Linear {
        iteration_s: 1.0 / best.iterations_per_s,
        reference: best.workers,
    })
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

    fn next(known: &Known) -> (u32, u32) {
        let Known::Explore { sizes, .. } = known else { panic!("{known:?}") };
        sizes[0]
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
                Known::Explore { sizes: next, .. } => sizes.push(next[0]),
                Known::Function(function) => break function,
            }
        };
        assert_eq!(sizes, [(1, 1), (1, 4), (4, 1), (4, 4)]);
        assert!((known.iterations_per_s(16, 3) / truth.iterations_per_s(16, 3) - 1.0).abs() < 1e-6);
        let ring = SpeedFunction::AllReduce { theta: [4.0, 1.0, 0.1] };
        let first = fitted(None, &[], &shape(false), 10);
        assert_eq!(next(&first), (1, 0));
        let points = measure(&ring, &[(1, 0), (4, 0), (2, 0)]);
        assert!(matches!(fitted(None, &points, &shape(false), 10), Known::Function(_)));
    }

    #[test]
    fn where_sizes_are_few_work_is_taken_to_divide() {
        let narrow = DataParallel { workers: WorkerRange { min: 2, max: 3 }, ..shape(false) };
        let points =
            [2, 3].map(|workers| SpeedPoint { workers, servers: 0, iterations_per_s: f64::from(workers) });
        assert_eq!(next(&fitted(None, &points[..1], &narrow, 10)), (3, 0));
        let divided = SpeedFunction::Linear { iteration_s: 1.0 / 3.0, reference: 3 };
        assert_eq!(fitted(None, &points, &narrow, 10), Known::Function(divided));
    }

    #[test]
    fn a_job_that_may_have_no_servers_is_explored_as_workers_alone() {
        let none = DataParallel { servers: WorkerRange { min: 0, max: 0 }, ..shape(true) };
        assert_eq!(next(&fitted(None, &[], &none, 10)), (1, 0));
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
