//! Rivals as policies. Whoever works on a desk only says what it does with the queue, and in which order jobs wait; the rest is the
//! same for all.

use crate::decide::{Abilities, Ahead, Cadence, Decision, Policy, Verdict};
use crate::model::{JobId, Span};
use crate::view::{Causes, Snapshot};

use super::desk::Desk;

/// A policy that works on a desk.
pub(super) trait Rival: Send {
    /// Its desk.
    fn desk(&mut self) -> &mut Desk;

    /// How often it looks at the queue when nothing happens.
    fn round_s(&self) -> f64;

    /// Brings its desk in step with a snapshot, and gives targets to jobs.
    fn arrange(&mut self, seen: &Snapshot);

    /// Which waiting jobs go before one that waits; as they stand on the desk, if nothing else is said.
    fn ahead(&mut self, seen: &Snapshot, job: JobId) -> Ahead {
        self.desk().follow(seen);
        self.desk().ahead(job)
    }

    /// What it needs of the backend.
    fn needs(&self) -> Abilities {
        Abilities::NONE
    }

    /// Whether it never leaves a job waiting that fits what is free.
    fn is_work_conserving(&self) -> bool;
}

/// A rival at its desk, as a policy.
pub(super) struct Seated<R>(pub(super) R);

impl<R: Rival> Policy for Seated<R> {
    /// In rounds, and whenever room may have changed.
    fn cadence(&self) -> Cadence {
        Cadence::Both(Causes::CAPACITY, Span::from_secs_f64(self.0.round_s()))
    }

    fn needs(&self) -> Abilities {
        self.0.needs()
    }

    fn decide(&mut self, seen: &Snapshot) -> Decision {
        self.0.arrange(seen);
        let desk = self.0.desk();
        desk.explain_news(seen);
        desk.plan.finish()
    }

    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.0.arrange(seen);
        self.0.desk().explain(seen, job)
    }

    fn ahead(&mut self, seen: &Snapshot, job: JobId) -> Ahead {
        self.0.ahead(seen, job)
    }

    fn is_work_conserving(&self) -> bool {
        self.0.is_work_conserving()
    }
}
