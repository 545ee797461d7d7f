//! How good jobs became, and when: times to most of the loss reduction, the mean normalised loss of the jobs that are
//! there, and who holds the workers (SLAQ, SoCC 2017, section 5; specification A2.1 and A3.2). From reports only.
//!
//! A loss is normalised by what the job itself reported: 1 is its first, 0 the lowest that it ever reached. Progress between
//! events is a straight line, losses between reports likewise. Scores that are to be maximised count as their negative.
//!
//! Memory: nothing for jobs that report no loss, once they have ended. Of each other one there are three courses of at most
//! [`MOST_POINTS`] points; from [`MANY_JOBS`] jobs on, ended ones keep [`FEW_POINTS`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::control::{Action, Batch, Event, Log, Step};
use crate::model::{Attempt, Better, JobId, Span, Time};

/// Points kept of a course.
pub(super) const MOST_POINTS: usize = 2048;

/// With so many jobs that learn, not all points are kept of those that have ended.
pub(super) const MANY_JOBS: usize = 1000;

/// Points that are kept then.
pub(super) const FEW_POINTS: usize = 64;

/// With fewer jobs at a time shares by loss are not counted.
const FEWEST_JOBS: usize = 4;

/// How good the jobs of a run became.
#[derive(Clone, Debug, Default)]
pub struct Quality {
    jobs: BTreeMap<JobId, Learner>,
}

/// One job that learns.
#[derive(Clone, Debug)]
pub struct Learner {
    /// When it arrived.
    pub arrived: Time,
    /// When it ended.
    pub ended: Option<Time>,
    better: Better,
    attempt: Attempt,
    /// Iterations over time.
    progress: Course,
    /// Workers over time, each number from then on.
    workers: Course,
    /// Losses over iterations.
    losses: Course,
}

/// Points in ascending order of the first number.
#[derive(Clone, Debug, Default, PartialEq)]
struct Course(Vec<(f64, f64)>);

impl Course {
    fn push(&mut self, x: f64, y: f64) {
        match self.0.last_mut() {
            Some(last) if last.0 == x => last.1 = y,
            Some(last) if last.0 > x => return,
            _ => self.0.push((x, y)),
        }
        if self.0.len() > MOST_POINTS {
            let mut i = 0;
            self.0.retain(|_| {
                i += 1;
                i > MOST_POINTS / 2 || i % 2 == 1
            });
        }
    }

    /// Keeps evenly many points, both ends included.
    fn thin(&mut self, most: usize) {
        let last = self.0.len().saturating_sub(1);
        if last >= most {
            self.0 = (0..most).map(|i| self.0[i * last / (most - 1)]).collect();
            self.0.shrink_to_fit();
        }
    }

    /// The value at `x` on a straight line between the points around it; the nearest one outside.
    fn at(&self, x: f64) -> Option<f64> {
        let i = self.0.partition_point(|point| point.0 <= x);
        let (Some(before), after) = (self.0.get(i.checked_sub(1)?), self.0.get(i)) else { return None };
        let Some(after) = after else { return Some(before.1) };
        Some(before.1 + (after.1 - before.1) * (x - before.0) / (after.0 - before.0))
    }

    /// The value of the latest point up to `x`.
    fn step_at(&self, x: f64) -> Option<f64> {
        let i = self.0.partition_point(|point| point.0 <= x);
        self.0.get(i.checked_sub(1)?).map(|point| point.1)
    }

    /// Where a straight line between points first comes to `y` or beyond it; `rises` says from which side.
    fn first(&self, y: f64, rises: bool) -> Option<f64> {
        let there = |value: f64| if rises { value >= y } else { value <= y };
        let i = self.0.iter().position(|point| there(point.1))?;
        let after = self.0[i];
        let Some(before) = i.checked_sub(1).map(|before| self.0[before]) else { return Some(after.0) };
        Some(before.0 + (after.0 - before.0) * (y - before.1) / (after.1 - before.1))
    }
}

impl Learner {
    fn new(arrived: Time, better: Better) -> Self {
        Self {
            arrived,
            ended: None,
            better,
            attempt: Attempt::default(),
            progress: Course::default(),
            workers: Course::default(),
            losses: Course::default(),
        }
    }

    /// Whether it reported any loss.
    pub fn has_reported(&self) -> bool {
        !self.losses.0.is_empty()
    }

    /// Seconds from its arrival until it had done so many iterations, if it ever had.
    pub fn seconds_to_iteration(&self, iterations: f64) -> Option<f64> {
        Some(self.progress.first(iterations, true)? - self.arrived.as_secs_f64())
    }

    /// Seconds from its arrival until all but a part of its loss reduction was done.
    pub fn seconds_to(&self, part: f64) -> Option<f64> {
        let (first, lowest) = self.range()?;
        let iterations = self.losses.first(lowest + part * (first - lowest), false)?;
        self.seconds_to_iteration(iterations)
    }

    /// Iterations that it had done by then; 0 before it began.
    pub fn iterations_at(&self, at: Time) -> f64 {
        self.progress.at(at.as_secs_f64()).unwrap_or(0.0)
    }

    /// Its normalised loss then, 1 before its first report; nothing if its loss never fell.
    pub fn loss_at(&self, at: Time) -> Option<f64> {
        let (first, lowest) = self.range()?;
        let loss = self.losses.at(self.iterations_at(at)).unwrap_or(first);
        Some((loss - lowest) / (first - lowest))
    }

    /// Workers that it held then.
    pub fn workers_at(&self, at: Time) -> f64 {
        self.workers.step_at(at.as_secs_f64()).unwrap_or(0.0)
    }

    /// How many workers it held, each number from its second on.
    pub fn workers(&self) -> &[(f64, f64)] {
        &self.workers.0
    }

    /// Whether it is there.
    pub fn is_there(&self, at: Time) -> bool {
        self.arrived <= at && self.ended.is_none_or(|ended| at < ended)
    }

    /// Its first loss and its lowest.
    fn range(&self) -> Option<(f64, f64)> {
        let first = self.losses.0.first()?.1;
        let lowest = self.losses.0.iter().map(|point| point.1).fold(first, f64::min);
        (first > lowest).then_some((first, lowest))
    }
}

/// The jobs at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// When.
    pub at: Time,
    /// The mean normalised loss of the jobs that are there.
    pub mean_loss: f64,
    /// Parts of the workers that are held by the quarter of the jobs with the highest loss, by the next quarter, and by the
    /// other half; absent with fewer than four jobs.
    pub shares: Option<[f64; 3]>,
}

/// How good the jobs of a run became, in a few numbers. Means are over the jobs that lowered their loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct QualitySummary {
    /// The mean over time of the mean normalised loss of the jobs that were there.
    pub avg_loss: Option<f64>,
    /// Mean time from arrival until 90 % of the loss reduction was done, in seconds.
    pub avg_to_90_s: Option<f64>,
    /// The same with 95 %.
    pub avg_to_95_s: Option<f64>,
    /// The same with 99 %.
    pub avg_to_99_s: Option<f64>,
    /// Jobs that reported losses.
    pub jobs: u64,
    /// The part of the workers that the half of the jobs with the lower loss held, on average over time.
    pub workers_of_lower_half: Option<f64>,
    /// The part of the workers that the quarter of the jobs with the highest loss held.
    pub workers_of_top_quarter: Option<f64>,
}

/// The mean of some numbers, if there are any.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u64), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}

impl Quality {
    /// The numbers; nothing if no job reported a loss.
    pub fn summary(&self) -> Option<QualitySummary> {
        let jobs = self.jobs().count();
        let first = self.jobs().map(|(_, job)| job.arrived).min()?;
        let last = self.jobs().filter_map(|(_, job)| job.ended).max().unwrap_or(first);
        // As many moments as cost no more than a second, whatever the number of jobs.
        let count = (2_000_000 / jobs as u64).clamp(50, 1000);
        let every = Span((last.since(first).0 / count).max(1));
        let moments = self.moments(every, |_, job, at| job.loss_at(at));
        let to = |part: f64| mean(self.jobs().filter_map(|(_, job)| job.seconds_to(part)));
        let share =
            |i: usize| mean(moments.iter().filter_map(|moment| moment.shares).map(|shares| shares[i]));
        Some(QualitySummary {
            avg_loss: mean(moments.iter().map(|moment| moment.mean_loss)),
            avg_to_90_s: to(0.1),
            avg_to_95_s: to(0.05),
            avg_to_99_s: to(0.01),
            jobs: jobs as u64,
            workers_of_lower_half: share(2),
            workers_of_top_quarter: share(0),
        })
    }

    /// The jobs that reported losses, in ascending order.
    pub fn jobs(&self) -> impl Iterator<Item = (JobId, &Learner)> {
        self.jobs.iter().filter(|(_, job)| job.has_reported()).map(|(id, job)| (*id, job))
    }

    /// One of them.
    pub fn job(&self, id: JobId) -> Option<&Learner> {
        self.jobs.get(&id).filter(|job| job.has_reported())
    }

    /// Moments so far apart at which jobs are there whose loss is known, from the first arrival to the last end. `loss`
    /// says how high the loss of a job is; [`Learner::loss_at`] is what its reports say.
    pub fn moments(&self, every: Span, loss: impl Fn(JobId, &Learner, Time) -> Option<f64>) -> Vec<Moment> {
        let Some(first) = self.jobs().map(|(_, job)| job.arrived).min() else { return Vec::new() };
        let last = self.jobs().map(|(_, job)| job.ended.unwrap_or(job.arrived)).max().unwrap_or(first);
        let count = last.since(first).0 / every.0.max(1);
        let times = (0..=count).map(|i| first + Span(every.0 * i));
        let moment = |at: Time| {
            let there = self.jobs().filter(|(_, job)| job.is_there(at));
            let losses = there.filter_map(|(id, job)| Some((loss(id, job, at)?, job.workers_at(at))));
            let mut jobs: Vec<(f64, f64)> = losses.collect();
            let mean_loss = jobs.iter().map(|job| job.0).sum::<f64>() / jobs.len() as f64;
            jobs.sort_by(|a, b| b.0.total_cmp(&a.0));
            mean_loss.is_finite().then(|| Moment { at, mean_loss, shares: shares(&jobs) })
        };
        times.filter_map(moment).collect()
    }

    fn open(&mut self, id: JobId) -> Option<&mut Learner> {
        self.jobs.get_mut(&id).filter(|job| job.ended.is_none())
    }

    fn current(&mut self, id: JobId, attempt: Attempt) -> Option<&mut Learner> {
        self.open(id).filter(|job| job.attempt == attempt)
    }

    fn event(&mut self, at: Time, event: &Event) {
        let at_s = at.as_secs_f64();
        match event {
            Event::Arrived { job } => {
                self.jobs.entry(job.id).or_insert_with(|| Learner::new(at, job.declared.loss.better));
            }
            Event::Started { job, attempt, iterations, .. } => {
                if let Some(job) = self.current(*job, *attempt) {
                    job.progress.push(at_s, *iterations);
                }
            }
            Event::Resized { job, attempt, iterations, allocation, .. } => {
                if let Some(job) = self.current(*job, *attempt) {
                    job.progress.push(at_s, *iterations);
                    job.workers.push(at_s, f64::from(allocation.workers()));
                }
            }
            Event::Progress { job, attempt, iterations, losses, .. } => {
                let Some(job) = self.current(*job, *attempt) else { return };
                job.progress.push(at_s, *iterations);
                let sign = if job.better == Better::Higher { -1.0 } else { 1.0 };
                for point in losses.iter().filter(|point| point.loss.is_finite()) {
                    job.losses.push(point.iteration, sign * point.loss);
                }
            }
            Event::Stopped { job, attempt, iterations } | Event::Lost { job, attempt, iterations, .. } => {
                if let Some(job) = self.current(*job, *attempt) {
                    job.progress.push(at_s, *iterations);
                    job.workers.push(at_s, 0.0);
                }
            }
            Event::StartFailed { job, attempt, .. } => {
                if let Some(job) = self.current(*job, *attempt) {
                    job.workers.push(at_s, 0.0);
                }
            }
            Event::Resumed { job } => {
                if let Some(job) = self.jobs.get_mut(job) {
                    job.ended = None;
                }
            }
            Event::Finished { .. }
            | Event::Withdrawn { .. }
            | Event::NodeChanged { .. }
            | Event::PolicyChanged { .. }
            | Event::Used { .. }
            | Event::Merged { .. } => {}
        }
    }
}

/// Parts of the workers by quarters of the jobs, which stand in the order of their losses, the highest first.
fn shares(jobs: &[(f64, f64)]) -> Option<[f64; 3]> {
    let all: f64 = jobs.iter().map(|job| job.1).sum();
    if jobs.len() < FEWEST_JOBS || all <= 0.0 {
        return None;
    }
    // A job that lies across a border counts on both sides, in parts.
    let up_to = |part: f64| -> f64 {
        let end = part * jobs.len() as f64;
        let inside = |i: usize| (end - i as f64).clamp(0.0, 1.0);
        jobs.iter().enumerate().map(|(i, job)| inside(i) * job.1).sum::<f64>() / all
    };
    Some([up_to(0.25), up_to(0.5) - up_to(0.25), 1.0 - up_to(0.5)])
}

impl Log for Quality {
    fn step(&mut self, batch: &Batch, step: &Step) {
        for event in &batch.events {
            self.event(batch.at, event);
        }
        for (id, _) in &step.ended {
            let are_many = self.jobs.len() >= MANY_JOBS;
            if let Some(job) = self.open(*id) {
                job.ended = Some(batch.at);
                job.workers.push(batch.at.as_secs_f64(), 0.0);
                for course in [&mut job.progress, &mut job.workers, &mut job.losses] {
                    course.thin(if are_many { FEW_POINTS } else { MOST_POINTS });
                }
            }
            if !self.jobs.get(id).is_some_and(Learner::has_reported) {
                self.jobs.remove(id);
            }
        }
        for action in &step.actions {
            if let Action::Start { job, attempt, allocation, .. } = action
                && let Some(job) = self.open(*job)
            {
                job.attempt = *attempt;
                job.workers.push(batch.at.as_secs_f64(), f64::from(allocation.workers()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learner(losses: &[(f64, f64)]) -> Learner {
        let mut job = Learner::new(Time::from_secs(10), Better::Lower);
        for (at_s, iterations) in [(20.0, 0.0), (30.0, 10.0), (40.0, 10.0), (60.0, 50.0)] {
            job.progress.push(at_s, iterations);
        }
        losses.iter().for_each(|(k, loss)| job.losses.push(*k, *loss));
        job
    }

    #[test]
    fn times_to_a_part_of_the_reduction_lie_between_reports_and_events() {
        let job = learner(&[(0.0, 9.0), (10.0, 4.0), (30.0, 2.0), (50.0, -1.0)]);
        // 90 % of the reduction is a loss of 0, a third of the way from 30 to 50: iteration 43.33, at 56.67 s.
        assert!((job.seconds_to(0.1).unwrap() - (56.0 + 2.0 / 3.0 - 10.0)).abs() < 1e-9);
        assert_eq!(job.seconds_to(0.5), Some(20.0), "a loss of 4 after ten iterations");
        assert_eq!(job.seconds_to_iteration(51.0), None);
        assert_eq!(job.loss_at(Time::from_secs(5)), Some(1.0));
        assert_eq!(job.loss_at(Time::from_secs(35)), Some(0.5));
        assert_eq!(job.loss_at(Time::from_secs(99)), Some(0.0));
        assert_eq!(learner(&[(0.0, 1.0), (1.0, 2.0)]).seconds_to(0.1), None, "it never fell");
    }

    #[test]
    fn shares_are_by_the_order_of_losses_and_split_a_job_across_a_border() {
        let jobs = |workers: &[f64]| -> Vec<(f64, f64)> { workers.iter().map(|w| (0.0, *w)).collect() };
        let four = shares(&jobs(&[4.0, 3.0, 2.0, 1.0])).unwrap();
        assert!(four.iter().zip([0.4, 0.3, 0.3]).all(|(a, b)| (a - b).abs() < 1e-12), "{four:?}");
        assert_eq!(shares(&jobs(&[1.0; 3])), None);
        let five = shares(&jobs(&[5.0, 5.0, 0.0, 0.0, 0.0])).unwrap();
        assert!((five[0] - 0.625).abs() < 1e-12 && (five[1] - 0.375).abs() < 1e-12, "{five:?}");
    }

    #[test]
    fn courses_are_bounded() {
        let mut course = Course::default();
        (0..100_000).for_each(|i| course.push(f64::from(i), f64::from(i)));
        assert!(course.0.len() <= MOST_POINTS && course.at(77_777.0) == Some(77_777.0));
        course.push(5.0, 0.0);
        assert_eq!(course.0.last(), Some(&(99_999.0, 99_999.0)), "what comes late is left out");
        course.thin(FEW_POINTS);
        assert_eq!((course.0.len(), course.0[0].0, course.0[63].0), (FEW_POINTS, 0.0, 99_999.0));
    }
}
