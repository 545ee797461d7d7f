//! The true life of one job: how far it is, and what is saved.

use trainyard_sched::model::{Allocation, Attempt, Quotas, Span, Time};

use crate::copies::Copies;
use crate::tasks::RunningTasks;

/// One job, from its arrival to its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Life {
    /// Iterations that the next start begins from.
    pub(crate) iterations: f64,
    /// The latest start that was ordered.
    pub(crate) attempt: Attempt,
    /// What it holds now.
    pub(crate) run: Option<Running>,
    pub(crate) is_over: bool,
}

/// One attempt of a job.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) attempt: Attempt,
    pub(crate) held: Allocation,
    pub(crate) iterations: f64,
    /// Iterations a second since `as_of`; 0 while it loads or saves.
    pub(crate) per_s: f64,
    as_of: Time,
    /// When training began; checkpoints are counted from here.
    began: Option<Time>,
    pub(crate) saved: f64,
    /// Work that is left before the first new iteration, in iterations.
    pub(crate) warm_up: f64,
    pub(crate) is_stopping: bool,
    is_paused: bool,
    /// The iterations at the latest report; `None` before the first.
    pub(crate) reported: Option<f64>,
    /// Counts the forecasts of its end, so that older ones are void.
    pub(crate) forecast: u64,
    /// Its copies, if it has several; how far it is is what they did.
    pub(crate) copies: Option<Copies>,
    /// Its tasks, if it is a graph of them.
    pub(crate) tasks: Option<Box<RunningTasks>>,
}

impl Running {
    pub(crate) fn new(
        attempt: Attempt,
        held: Allocation,
        now: Time,
        iterations: f64,
        quotas: &Quotas,
    ) -> Self {
        Self {
            attempt,
            copies: Copies::of(&held, quotas, iterations),
            held,
            iterations,
            per_s: 0.0,
            as_of: now,
            began: None,
            saved: iterations,
            warm_up: 0.0,
            is_stopping: false,
            is_paused: false,
            reported: (iterations > 0.0).then_some(iterations),
            forecast: 0,
            tasks: None,
        }
    }

    pub(crate) const fn is_training(&self) -> bool {
        self.began.is_some() && !self.is_stopping && !self.is_paused
    }

    pub(crate) fn begin_training(&mut self, now: Time, iterations: f64) {
        self.iterations = iterations;
        self.saved = iterations;
        self.reported = (iterations > 0.0).then_some(iterations);
        self.as_of = now;
        self.began = Some(now);
    }

    /// Carries the iterations on to `now`, with the checkpoints on the way.
    pub(crate) fn advance(&mut self, now: Time, checkpoint_every: Option<Span>) {
        let passed = now.since(self.as_of).as_secs_f64();
        let is_training = self.is_training();
        if let Some(copies) = &mut self.copies {
            if is_training {
                copies.advance(passed);
                self.iterations = copies.iterations();
            }
            self.as_of = now;
            return;
        }
        if let (Some(every), Some(began)) = (checkpoint_every, self.began) {
            let every = every.0.max(1);
            let last = began + Span(now.since(began).0 / every * every);
            if last > self.as_of {
                let work = self.per_s * last.since(self.as_of).as_secs_f64();
                let at_checkpoint = self.iterations + (work - self.warm_up).max(0.0);
                self.saved = self.saved.max(at_checkpoint);
            }
        }
        let (mut work, before) = (self.per_s * passed, self.warm_up);
        self.warm_up = (before - work).max(0.0);
        work -= before - self.warm_up;
        self.iterations += work;
        self.as_of = now;
    }

    /// Training stops for a while; the job already holds what it will go on with.
    pub(crate) fn pause(&mut self, held: Allocation) {
        self.held = held;
        self.per_s = 0.0;
        self.is_paused = true;
        self.forecast += 1;
    }

    /// Training may go on.
    pub(crate) fn resume(&mut self) {
        if std::mem::take(&mut self.is_paused)
            && let Some(copies) = &mut self.copies
        {
            copies.all_loaded();
        }
    }

    /// Training ends here; what is not saved may be lost with it.
    pub(crate) fn halt(&mut self, loses_unsaved: bool) {
        if loses_unsaved {
            self.iterations = self.saved;
        }
        self.saved = self.iterations;
        self.per_s = 0.0;
        self.copies = None;
        self.is_stopping = true;
        self.forecast += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_are_taken_on_the_way() {
        let mut run = Running::new(Attempt(1), Allocation::NONE, Time::from_secs(100), 7.0, &Quotas::NONE);
        run.begin_training(Time::from_secs(100), 7.0);
        run.per_s = 2.0;
        run.advance(Time::from_secs(125), Some(Span::from_secs(10)));
        assert_eq!((run.iterations, run.saved), (57.0, 47.0));
        run.advance(Time::from_secs(129), Some(Span::from_secs(10)));
        assert_eq!((run.iterations, run.saved), (65.0, 47.0));
        run.halt(true);
        assert_eq!(run.iterations, 47.0);
    }

    #[test]
    fn without_checkpoints_only_the_start_is_safe() {
        let mut run = Running::new(Attempt(1), Allocation::NONE, Time::ZERO, 3.0, &Quotas::NONE);
        run.begin_training(Time::ZERO, 3.0);
        run.per_s = 1.0;
        run.advance(Time::from_secs(50), None);
        assert_eq!((run.iterations, run.saved), (53.0, 3.0));
        run.halt(false);
        assert_eq!((run.iterations, run.saved), (53.0, 53.0));
    }
}
