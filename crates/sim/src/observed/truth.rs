//! From what was seen of a job to what it is: its speed, its work, its end, and what starts and stops cost. Where a job was
//! never seen doing something, it is taken to do it like the others, and that is counted.

use std::sync::Arc;

use trainyard_sched::control::Outcome;
use trainyard_sched::model::{JobId, MoveCost, Span, Time};

use super::attempts::{AttemptSeen, JobSeen, Over, Seen};
use super::speeds::Speeds;
use super::{mean, median};
use crate::curves::Recording;
use crate::loss::TrueLoss;
use crate::physics::{Extent, MeasuredSpeeds, Place};
use crate::truth::{Ending, Overheads, Reporting, Speed, Truth};
use crate::workload::{Done, ImportReport};

/// More iterations than any job comes to: the job goes on until somebody or its stop rule ends it.
const ENDLESS: f64 = 1e12;

/// What was seen of one job, or of all.
#[derive(Clone, Copy, Debug, Default)]
struct Costs {
    /// From an order to start until the program was there.
    launch_s: Option<f64>,
    /// From an order to stop until it had stopped.
    save_s: Option<f64>,
    /// From an order to hold something else until that was reported.
    resize_s: Option<f64>,
    /// Iterations that it still did once it was told to stop.
    until_stopped: Option<f64>,
    /// The part of the stops at which it lost what it had done.
    loses: Option<f64>,
}

/// What everything is made from.
pub(super) struct Truths<F> {
    speeds: Speeds,
    all: Costs,
    /// A job that never trained is taken to be like this one.
    usual: Option<(f64, Arc<MeasuredSpeeds>)>,
    resizes_in_place: F,
}

impl<F: Fn(JobId) -> bool> Truths<F> {
    pub(super) fn new(seen: &Seen, speeds: Speeds, resizes_in_place: F) -> Self {
        let each: Vec<Costs> = seen.jobs.iter().map(|job| Costs::of(job, &speeds)).collect();
        let all_of = |cost: fn(&Costs) -> Option<f64>| mean(each.iter().filter_map(cost));
        let all = Costs {
            launch_s: all_of(|costs| costs.launch_s),
            save_s: all_of(|costs| costs.save_s),
            resize_s: all_of(|costs| costs.resize_s),
            until_stopped: all_of(|costs| costs.until_stopped),
            loses: all_of(|costs| costs.loses),
        };
        let usual = usual(seen, &speeds);
        Self { speeds, all, usual, resizes_in_place }
    }

    pub(super) fn is_measured(&self, job: JobId) -> bool {
        self.speeds.by_job.contains_key(&job)
    }

    /// The truth about a job; what was assumed goes into the report.
    pub(super) fn of(&self, job: &JobSeen, report: &mut ImportReport) -> Truth {
        let id = job.job.id;
        let own = Costs::of(job, &self.speeds);
        let mut assumed = |what: &str| report.find(Done::Assumed, what, Some(job.job.name.to_string()));
        let (speed, seen) = match (self.speeds.by_job.get(&id), as_declared(job), &self.usual) {
            (Some(speeds), _, _) => (Arc::clone(speeds), job.iterations().unwrap_or(1.0)),
            (None, Some(speeds), _) => {
                assumed("it never trained, and is taken to do so as it declared");
                (Arc::new(speeds), 0.0)
            }
            (None, None, Some((iterations, speeds))) => {
                assumed("it never trained, and is taken to do so as the job in the middle did");
                (Arc::clone(speeds), job.job.declared.iterations.map_or(*iterations, |_| 0.0))
            }
            (None, None, None) => {
                assumed("it never trained, and neither did any other; it does not in the simulation");
                (Arc::default(), 1.0)
            }
        };
        if self.is_measured(id) && job.attempts.iter().all(|attempt| attempt.reports.is_empty()) {
            assumed("it reported nothing, and is taken to be one iteration that lasts as long as it ran");
        }
        let (iterations, ending) = Self::work(job, seen);
        let loses = own.loses.or(self.all.loses).unwrap_or(0.0) >= 0.5;
        let move_cost = MoveCost {
            save: seconds(own.save_s.or(self.all.save_s)),
            load: Span::ZERO,
            checkpoint_every: checkpoints(job),
            loses_when_stopped: loses,
            merge: Span::ZERO,
        };
        if job.no_numbers > 0 {
            let what = "losses that are no numbers are left out; policies saw them in the real run";
            report.find_many(Done::Noted, what, job.no_numbers);
        }
        if job.failures() > 0 {
            let what = "attempts that failed by themselves; in the simulation they do not";
            report.find_many(Done::Noted, what, u64::from(job.failures()));
        }
        let loss =
            Recording::new(job.losses.clone()).map(|recording| TrueLoss::recorded(Arc::new(recording)));
        let overheads = Some(self.overheads(job, own, &speed));
        let speed = Speed::Measured(speed);
        Truth { iterations, speed, move_cost, gradient_bytes: 0.0, loss, ending, overheads }
    }

    /// How much work it turned out to be, and how it ended.
    fn work(job: &JobSeen, seen: f64) -> (f64, Ending) {
        let seen = seen.max(1e-6);
        let declared = job.job.declared.iterations.filter(|declared| *declared > seen);
        match job.ended.map(|(_, outcome)| outcome) {
            Some(Outcome::Completed) => (seen, Ending::Completed),
            Some(Outcome::Failed) => (seen, Ending::Failed),
            Some(Outcome::Killed) => (seen, Ending::Killed),
            // How far it would have gone is not known; it is ended as it was.
            Some(Outcome::StopRuleMet | Outcome::Withdrawn) => {
                (declared.unwrap_or(ENDLESS), Ending::Censored)
            }
            Some(Outcome::Rejected | Outcome::Censored) | None => {
                (declared.unwrap_or(seen), Ending::Censored)
            }
        }
    }

    fn overheads(&self, job: &JobSeen, own: Costs, speeds: &MeasuredSpeeds) -> Overheads {
        let warm_up = |later: bool| {
            let of_kind = job.attempts.iter().filter(|attempt| (attempt.number.0 > 1) == later);
            mean(of_kind.filter_map(|attempt| warm_up(attempt, speeds)))
        };
        let (first, again) = (warm_up(false), warm_up(true));
        Overheads {
            launch: seconds(own.launch_s.or(self.all.launch_s)),
            warm_up: first.or(again).unwrap_or(0.0).max(0.0),
            warm_up_again: again.or(first).unwrap_or(0.0).max(0.0),
            resize: seconds(own.resize_s.or(self.all.resize_s)),
            resizes_in_place: (self.resizes_in_place)(job.job.id),
            until_stopped: own.until_stopped.or(self.all.until_stopped).unwrap_or(0.0).max(0.0),
            reports: reporting(job),
        }
    }
}

impl Costs {
    fn of(job: &JobSeen, speeds: &Speeds) -> Self {
        let attempts = || job.attempts.iter();
        let launches =
            attempts().filter_map(|attempt| Some(attempt.began?.since(attempt.ordered).as_secs_f64()));
        let stopped = || {
            attempts().filter_map(|attempt| match attempt.over {
                Some((at, Over::Stopped(from))) => Some((attempt, attempt.stop?, at, from)),
                _ => None,
            })
        };
        let saves = stopped().map(|(_, ordered, at, _)| at.since(ordered).as_secs_f64());
        let last = |attempt: &AttemptSeen| attempt.reports.last().map(|told| told.iterations);
        let loses = stopped()
            .filter_map(|(attempt, _, _, from)| Some(if last(attempt)? > from + 0.5 { 1.0 } else { 0.0 }));
        let still = speeds.by_job.get(&job.job.id).and_then(|speeds| {
            mean(stopped().filter_map(|(attempt, ordered, _, _)| {
                let before = attempt.reports.iter().rev().find(|told| told.at <= ordered)?;
                let usual: f64 = parts_work(attempt, before.at, ordered, speeds);
                Some(last(attempt)? - before.iterations - usual)
            }))
        });
        Self {
            launch_s: mean(launches),
            save_s: mean(saves),
            resize_s: mean(attempts().flat_map(|attempt| &attempt.resizes).map(|span| span.as_secs_f64())),
            until_stopped: still,
            loses: mean(loses),
        }
    }
}

/// The speed that a job declared, on its smallest gang.
fn as_declared(job: &JobSeen) -> Option<MeasuredSpeeds> {
    let declared = &job.job.declared;
    let (_, iteration) = (declared.iterations?, declared.iteration.filter(|each| each.0 > 0)?);
    let workers = job.job.shape.data_parallel().map_or(1, |shape| shape.workers.min);
    let extent = Extent { workers, servers: 0, place: Place::default() };
    let speed = [(extent, 1.0 / iteration.as_secs_f64())].into_iter().collect();
    Some(MeasuredSpeeds::new(speed, Arc::default()))
}

fn seconds(value: Option<f64>) -> Span {
    Span::from_secs_f64(value.unwrap_or(0.0))
}

/// The iterations that would be done between two moments.
fn parts_work(attempt: &AttemptSeen, from: Time, to: Time, speeds: &MeasuredSpeeds) -> f64 {
    attempt.parts(from, to).iter().map(|(extent, seconds)| speeds.iterations_per_s(extent) * seconds).sum()
}

/// What a start cost before the first iteration, in iterations: what would have been done until the first report, without
/// what was.
fn warm_up(attempt: &AttemptSeen, speeds: &MeasuredSpeeds) -> Option<f64> {
    let (began, first) = (attempt.began?, attempt.reports.first()?);
    // In the report of its end is all that it did, from which nothing can be told apart.
    let known = attempt.reports.len() > 1 && attempt.stop.is_none_or(|stop| first.at <= stop);
    known.then(|| parts_work(attempt, began, first.at, speeds) - (first.iterations - attempt.from))
}

/// How often it saves by itself, where its reports show that.
fn checkpoints(job: &JobSeen) -> Option<Span> {
    let (mut saves, mut trained_s) = (0_u32, 0.0);
    for attempt in &job.attempts {
        let (Some(began), Some(last)) = (attempt.began, attempt.reports.last()) else { continue };
        let until = attempt.stop.unwrap_or(last.at);
        let told = attempt.reports.iter().filter(|told| told.at <= until);
        let mut saved = attempt.from;
        for told in told.filter(|told| told.saved > 0.0) {
            saves += u32::from(told.saved > saved);
            saved = saved.max(told.saved);
        }
        trained_s += until.since(began).as_secs_f64();
    }
    (saves > 0).then(|| Span::from_secs_f64(trained_s / f64::from(saves)))
}

/// When it reports: after so many iterations, and not sooner than it ever did.
fn reporting(job: &JobSeen) -> Option<Reporting> {
    let pairs = || job.attempts.iter().flat_map(|attempt| attempt.reports.windows(2));
    job.attempts.iter().find(|attempt| !attempt.reports.is_empty())?;
    let steps = pairs().map(|pair| pair[1].iterations - pair[0].iterations).filter(|step| *step > 0.0);
    let every_iterations = steps.fold(f64::INFINITY, f64::min);
    let gaps = pairs().filter(|pair| pair[1].iterations > pair[0].iterations);
    let gap = gaps.map(|pair| pair[1].at.since(pair[0].at).as_secs_f64()).fold(f64::INFINITY, f64::min);
    let finite = |value: f64| if value.is_finite() { value } else { 1.0 };
    Some(Reporting {
        every_iterations: finite(every_iterations),
        at_least: Span::from_secs_f64(if gap.is_finite() { gap } else { 0.0 }),
    })
}

/// The job in the middle, by how long it trained: its iterations and its speeds.
fn usual(seen: &Seen, speeds: &Speeds) -> Option<(f64, Arc<MeasuredSpeeds>)> {
    let length_s = |job: &JobSeen| {
        let speeds = speeds.by_job.get(&job.job.id)?;
        Some(job.iterations().unwrap_or(1.0) / speeds.slowest_per_s()?)
    };
    let middle = median(seen.jobs.iter().filter_map(length_s))?;
    let job = seen.jobs.iter().find(|job| length_s(job) == Some(middle))?;
    Some((job.iterations().unwrap_or(1.0), Arc::clone(speeds.by_job.get(&job.job.id)?)))
}
