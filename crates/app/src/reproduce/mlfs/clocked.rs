//! A policy by the clock.

use std::sync::mpsc::Sender;
use std::time::Instant;

use trainyard_sched::decide::{Abilities, Ahead, Cadence, Decision, Policy, Verdict};
use trainyard_sched::estimate::Fitting;
use trainyard_sched::model::JobId;
use trainyard_sched::view::Snapshot;

/// A policy that tells how long each of its decisions takes, in milliseconds.
pub(super) struct Clocked {
    pub(super) policy: Box<dyn Policy>,
    pub(super) took_ms: Sender<f64>,
}

impl Policy for Clocked {
    fn cadence(&self) -> Cadence {
        self.policy.cadence()
    }

    fn needs(&self) -> Abilities {
        self.policy.needs()
    }

    fn decide(&mut self, seen: &Snapshot) -> Decision {
        let began = Instant::now();
        let decision = self.policy.decide(seen);
        // Nobody listens any more where a run was given up.
        let _ = self.took_ms.send(began.elapsed().as_secs_f64() * 1e3);
        decision
    }

    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.policy.explain(seen, job)
    }

    fn ahead(&mut self, seen: &Snapshot, job: JobId) -> Ahead {
        self.policy.ahead(seen, job)
    }

    fn fitting(&self) -> Option<Fitting> {
        self.policy.fitting()
    }

    fn keeps_limits(&self) -> bool {
        self.policy.keeps_limits()
    }

    fn is_work_conserving(&self) -> bool {
        self.policy.is_work_conserving()
    }

    fn is_starvation_free(&self) -> bool {
        self.policy.is_starvation_free()
    }
}
