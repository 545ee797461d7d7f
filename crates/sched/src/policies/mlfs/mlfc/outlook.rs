//! What is expected of the accuracy of jobs, kept from decision to decision.
//!
//! A forecast takes about a millisecond, so it is made anew only with every few measurements. Which measurements it rests on
//! depends on what was reported and on nothing else, so that whoever has lost all forecasts makes the same ones again.

use std::collections::BTreeMap;

use crate::estimate::AccuracyForecast;
use crate::model::JobId;
use crate::view::JobView;

/// Steps in which a forecast is looked through.
const STEPS: u32 = 64;

/// The forecasts of all jobs that had one.
#[derive(Debug, Default)]
pub(super) struct Outlooks(BTreeMap<JobId, Kept>);

/// A forecast, and what it rests on.
#[derive(Debug)]
struct Kept {
    measured: Vec<(f64, f64)>,
    end: f64,
    outlook: Option<Outlook>,
}

/// What is expected of one job.
#[derive(Debug)]
pub(super) struct Outlook {
    forecast: AccuracyForecast,
    /// From the latest measurement to the end.
    ahead: Vec<Point>,
    end: f64,
}

/// What is expected after so many iterations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// The iterations.
    pub(super) iteration: f64,
    /// The accuracy.
    pub(super) mean: f64,
    /// Its standard deviation.
    pub(super) deviation: f64,
}

impl Outlooks {
    /// Forgets all others.
    pub(super) fn keep(&mut self, stays: impl Fn(JobId) -> bool) {
        self.0.retain(|id, _| stays(*id));
    }

    /// Forgets a job.
    pub(super) fn forget(&mut self, id: JobId) {
        self.0.remove(&id);
    }

    /// What is expected of a job, as of the latest measurement whose number is a multiple of `every`. Nothing if its
    /// measurements say nothing. Of a job that does not say how many iterations it has, as far as twice what it did.
    pub(super) fn of(&mut self, view: &JobView, every: u64) -> Option<&Outlook> {
        let mut measured: Vec<(f64, f64)> = view.losses.accuracies().collect();
        let newer = (view.losses.measured() % every) as usize;
        measured.truncate(measured.len().saturating_sub(newer));
        let last = measured.last()?.0;
        let end = view.job.goal().unwrap_or(2.0 * last).max(last);
        let stale = |kept: &Kept| kept.end.total_cmp(&end).is_ne() || kept.measured != measured;
        if self.0.get(&view.id()).is_none_or(stale) {
            let outlook = Outlook::new(&measured, end);
            self.0.insert(view.id(), Kept { measured, end, outlook });
        }
        self.0[&view.id()].outlook.as_ref()
    }
}

impl Outlook {
    fn new(measured: &[(f64, f64)], end: f64) -> Option<Self> {
        let forecast = AccuracyForecast::fit(measured, end)?;
        let from = measured.last()?.0;
        let point = |step: u32| {
            let iteration = from + (end - from) * f64::from(step) / f64::from(STEPS);
            Point { iteration, mean: forecast.mean(iteration), deviation: forecast.deviation(iteration) }
        };
        let ahead = (0..=STEPS).map(point).collect();
        Some(Self { forecast, ahead, end })
    }

    /// The best that is expected, at the latest after so many iterations.
    pub(super) fn best(&self, limit: f64) -> Point {
        let later = self.ahead[1..].iter().take_while(|point| point.iteration <= limit);
        later.fold(self.ahead[0], |best, point| if point.mean > best.mean { *point } else { best })
    }

    /// When an accuracy is expected first, if ever.
    pub(super) fn reaches(&self, accuracy: f64) -> Option<f64> {
        self.ahead.iter().find(|point| point.mean >= accuracy).map(|point| point.iteration)
    }

    /// The probability of more than an accuracy after so many iterations.
    pub(super) fn exceeds(&self, accuracy: f64, iterations: f64) -> f64 {
        self.forecast.exceeds(accuracy, iterations)
    }

    /// The last iteration that is looked at.
    pub(super) const fn end(&self) -> f64 {
        self.end
    }
}
