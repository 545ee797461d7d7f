//! How fast each job went, by size and place, from how far it was at each report.
//!
//! Between two reports a job may have held several sizes, and how its iterations divide among them is not seen. They are
//! divided in proportion to what each size should have done, and speeds are worked out anew from that, again and again
//! (expectation and maximisation for Poisson counts). Whatever comes of it, all speeds together give as many iterations in
//! the time as there were.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainyard_sched::estimate::{SpeedPoint, fit_fixed_part};
use trainyard_sched::model::Time;

use super::ByJob;
use super::attempts::{AttemptSeen, JobSeen, Over};
use crate::physics::{Extent, MeasuredSpeeds, Place};

/// So often is what was done divided anew.
const ROUNDS: u32 = 30;
/// How fast places are in proportion and how fast jobs are is worked out in turn, so often.
const PLACE_ROUNDS: u32 = 5;
/// A size at which less than so many iterations were done counts as not measured.
const LEAST_ITERATIONS: f64 = 1.0;
/// A count below this part of what it was has begun anew; a higher one that is less than before came late.
const BEGAN_ANEW: f64 = 0.5;
/// What is expected of a size from the others counts as much as so many iterations at it.
const EXPECTED_COUNTS: f64 = 2.0;
/// The expectation rests on sizes at which at least so many were done, if there are any.
const WELL_MEASURED: f64 = 10.0;

/// How far a job came in a while.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Interval {
    pub(super) iterations: f64,
    /// What it held meanwhile, and for how many seconds.
    pub(super) parts: Vec<(Extent, f64)>,
}

/// The speeds of all jobs of which any were measured.
#[derive(Debug, Default)]
pub(super) struct Speeds {
    pub(super) by_job: ByJob<Arc<MeasuredSpeeds>>,
}

impl Speeds {
    pub(super) fn estimate(jobs: &[JobSeen]) -> Self {
        let intervals: ByJob<Vec<Interval>> =
            jobs.iter().map(|job| (job.job.id, intervals(job))).filter(|(_, all)| !all.is_empty()).collect();
        let mut factors: BTreeMap<Place, f64> = BTreeMap::new();
        for interval in intervals.values().flatten() {
            factors.extend(interval.parts.iter().map(|(extent, _)| (extent.place.clone(), 1.0)));
        }
        let rounds = if factors.len() > 1 { PLACE_ROUNDS } else { 1 };
        let mut speeds = ByJob::new();
        for _ in 0..rounds {
            speeds = intervals.iter().map(|(job, all)| (*job, by_extent(all, &factors))).collect();
            if factors.len() > 1 {
                factors = place_factors(&intervals, &speeds, &factors);
            }
        }
        let factors = Arc::new(factors);
        let measured = |(job, all): (_, BTreeMap<Extent, f64>)| {
            (job, Arc::new(MeasuredSpeeds::new(all, Arc::clone(&factors))))
        };
        Self { by_job: speeds.into_iter().filter(|(_, all)| !all.is_empty()).map(measured).collect() }
    }
}

/// The whiles between reports of a job. What came before the first report of an attempt is left out, since it begins with
/// what a start costs; only where there is nothing else it is better than nothing.
pub(super) fn intervals(job: &JobSeen) -> Vec<Interval> {
    let mut all: Vec<Interval> = job.attempts.iter().flat_map(between_reports).collect();
    if all.is_empty() {
        all.extend(job.attempts.iter().filter_map(as_a_whole));
    }
    all
}

fn between_reports(attempt: &AttemptSeen) -> Vec<Interval> {
    let until = attempt.trained_until(Time::NEVER);
    let mut all = Vec::new();
    let mut since: Option<(Time, f64)> = None;
    let last = attempt.reports.len();
    for (i, told) in attempt.reports.iter().enumerate().filter(|(_, told)| told.at <= until) {
        let Some((from, before)) = since else {
            since = Some((told.at, told.iterations));
            continue;
        };
        // The end of a job is part of its work: the time until it is over belongs to its last iterations.
        let to = match attempt.over {
            Some((at, Over::Finished)) if i + 1 == last => at,
            _ => told.at,
        };
        let iterations = told.iterations - before;
        if told.iterations < BEGAN_ANEW * before {
            since = Some((told.at, told.iterations));
        } else if iterations > 0.0 && to > from {
            all.push(Interval { iterations, parts: attempt.parts(from, to) });
            since = Some((told.at, told.iterations));
        }
    }
    all
}

fn as_a_whole(attempt: &AttemptSeen) -> Option<Interval> {
    let began = attempt.began?;
    let (at, over) = attempt.over?;
    let iterations = match (attempt.reports.last(), over) {
        (Some(told), _) => told.iterations - attempt.from,
        // A job that reports nothing is one iteration.
        (None, Over::Finished) => 1.0,
        (None, _) => return None,
    };
    let parts = attempt.parts(began, attempt.stop.unwrap_or(at));
    (iterations > 0.0 && !parts.is_empty()).then_some(Interval { iterations, parts })
}

/// Iterations a second by extent.
fn by_extent(intervals: &[Interval], factors: &BTreeMap<Place, f64>) -> BTreeMap<Extent, f64> {
    let factor = |extent: &Extent| factors.get(&extent.place).copied().unwrap_or(1.0);
    let mut seconds: BTreeMap<Extent, f64> = BTreeMap::new();
    for (extent, spent) in intervals.iter().flat_map(|interval| &interval.parts) {
        *seconds.entry(extent.clone()).or_default() += spent;
    }
    let mut speeds: BTreeMap<Extent, f64> = seconds
        .keys()
        .map(|extent| (extent.clone(), f64::from(extent.workers.max(1)) * factor(extent)))
        .collect();
    let mut done = BTreeMap::new();
    for _ in 0..ROUNDS {
        done = divided(intervals, &speeds);
        let expected = expectation(&done, &seconds, &factor);
        for (extent, speed) in &mut speeds {
            let (done, seconds) = (done.get(extent).copied().unwrap_or(0.0), seconds[extent]);
            let usual = expected(extent);
            *speed = if usual > 0.0 {
                (done + EXPECTED_COUNTS) / (seconds + EXPECTED_COUNTS / usual)
            } else {
                done / seconds
            };
        }
    }
    // What was expected may have moved the whole a little; as much is done in the time as there was.
    let all: f64 = intervals.iter().map(|interval| interval.iterations).sum();
    let so_far: f64 = seconds.iter().map(|(extent, seconds)| speeds[extent] * seconds).sum();
    if so_far > 0.0 {
        speeds.values_mut().for_each(|speed| *speed *= all / so_far);
    }
    let most = done.values().copied().fold(0.0, f64::max);
    let least = LEAST_ITERATIONS.min(most);
    speeds.retain(|extent, _| done.get(extent).is_some_and(|done| *done >= least));
    speeds
}

/// The iterations of each extent, if each interval's are divided in proportion to these speeds.
fn divided(intervals: &[Interval], speeds: &BTreeMap<Extent, f64>) -> BTreeMap<Extent, f64> {
    let mut done: BTreeMap<Extent, f64> = BTreeMap::new();
    for interval in intervals {
        let should = |(extent, seconds): &(Extent, f64)| speeds[extent] * seconds;
        let all: f64 = interval.parts.iter().map(should).sum();
        for part in interval.parts.iter().filter(|_| all > 0.0) {
            *done.entry(part.0.clone()).or_default() += interval.iterations * should(part) / all;
        }
    }
    done
}

/// How fast an extent should be, as far as the well measured ones say.
fn expectation<'a>(
    done: &BTreeMap<Extent, f64>,
    seconds: &BTreeMap<Extent, f64>,
    factor: &'a dyn Fn(&Extent) -> f64,
) -> impl Fn(&Extent) -> f64 + use<'a> {
    let point = |(extent, done): (&Extent, &f64)| SpeedPoint {
        workers: extent.workers.max(1),
        servers: extent.servers,
        iterations_per_s: done / seconds[extent] / factor(extent),
    };
    let at_least = |least: f64| -> Vec<SpeedPoint> {
        done.iter().filter(|(_, done)| **done > 0.0 && **done >= least).map(point).collect()
    };
    let well = at_least(WELL_MEASURED);
    let fitted =
        fit_fixed_part(if well.is_empty() { &[] } else { &well }).or_else(|| fit_fixed_part(&at_least(0.0)));
    move |extent| {
        let per_s =
            fitted.as_ref().map_or(0.0, |fit| fit.iterations_per_s(extent.workers.max(1), extent.servers));
        per_s * factor(extent)
    }
}

/// How fast places are in proportion: what was done there over what the jobs' speeds at all places would have done.
fn place_factors(
    intervals: &ByJob<Vec<Interval>>,
    speeds: &ByJob<BTreeMap<Extent, f64>>,
    before: &BTreeMap<Place, f64>,
) -> BTreeMap<Place, f64> {
    let factors = Arc::new(before.clone());
    let mut done: BTreeMap<&Place, (f64, f64)> = BTreeMap::new();
    for (job, all) in intervals {
        // The job's own speed by size, whatever the place, in which places that it was at count alike.
        let own = MeasuredSpeeds::new(speeds[job].clone(), Arc::clone(&factors));
        for interval in all {
            let should: Vec<f64> =
                interval.parts.iter().map(|(extent, seconds)| own.usual_per_s(extent) * seconds).collect();
            let sum: f64 = should.iter().sum();
            for ((extent, _), should) in interval.parts.iter().zip(&should).filter(|_| sum > 0.0) {
                let (is, expected) = done.entry(&extent.place).or_default();
                *is += interval.iterations * should / sum;
                *expected += should / before[&extent.place];
            }
        }
    }
    let all: (f64, f64) = done.values().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    let usual = if all.1 > 0.0 { all.0 / all.1 } else { 1.0 };
    let factor = |place: &Place| match done.get(place) {
        Some((is, expected)) if *is > 0.0 && *expected > 0.0 && usual > 0.0 => is / expected / usual,
        _ => 1.0,
    };
    before.keys().map(|place| (place.clone(), factor(place))).collect()
}
