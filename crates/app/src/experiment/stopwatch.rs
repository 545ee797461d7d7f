//! A policy that asks another one and takes the time. It stands here because nothing deeper reads a clock;
//! what it measures enters no decision.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use trainyard_sched::decide::{Abilities, Ahead, Cadence, Decision, Policy, Verdict};
use trainyard_sched::estimate::Fitting;
use trainyard_sched::model::JobId;
use trainyard_sched::view::Snapshot;

use super::histogram::Histogram;

/// The policy with a clock.
pub(crate) struct Stopwatch {
    inner: Box<dyn Policy>,
    times: Times,
}

/// The times of its decisions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times(Arc<Mutex<Histogram>>);

impl Stopwatch {
    /// Takes the time of a policy.
    pub(crate) fn around(inner: Box<dyn Policy>) -> (Box<dyn Policy>, Times) {
        let times = Times::default();
        (Box::new(Self { inner, times: times.clone() }), times)
    }
}

impl Times {
    /// The median and the 99th percentile in microseconds.
    pub(crate) fn percentiles_us(&self) -> (Option<f64>, Option<f64>) {
        let histogram = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (histogram.percentile_us(50.0), histogram.percentile_us(99.0))
    }
}

impl Policy for Stopwatch {
    fn cadence(&self) -> Cadence {
        self.inner.cadence()
    }

    fn needs(&self) -> Abilities {
        self.inner.needs()
    }

    fn decide(&mut self, seen: &Snapshot) -> Decision {
        let began = Instant::now();
        let decision = self.inner.decide(seen);
        let took = began.elapsed();
        self.times.0.lock().unwrap_or_else(PoisonError::into_inner).record(took);
        decision
    }

    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.inner.explain(seen, job)
    }

    fn ahead(&mut self, seen: &Snapshot, job: JobId) -> Ahead {
        self.inner.ahead(seen, job)
    }

    fn fitting(&self) -> Option<Fitting> {
        self.inner.fitting()
    }

    fn keeps_limits(&self) -> bool {
        self.inner.keeps_limits()
    }

    fn is_work_conserving(&self) -> bool {
        self.inner.is_work_conserving()
    }

    fn is_starvation_free(&self) -> bool {
        self.inner.is_starvation_free()
    }
}
