//! How jobs end, and how those that were cut short come back.

use std::sync::Arc;

use crate::decide::EarlyEnd;
use crate::model::{Allocation, JobId, Relaxing, StopRule, Time};
use crate::view::{Causes, JobView, Note};

use super::state::close_span;
use super::{Outcome, State};

/// So many of the jobs that were cut short last may be taken up again.
const MOST_PARTED: usize = 1000;

impl State {
    /// Lets a job that holds something stop for good.
    pub(super) fn begin_ending(&mut self, id: JobId, outcome: Outcome) {
        self.ending.entry(id).or_insert(outcome);
        self.set_target(id, Allocation::NONE);
        self.touch(id);
    }

    /// A job has had enough by its stop rule, before its own end.
    pub(super) fn cut_short(&mut self, at: Time, id: JobId, early: EarlyEnd) {
        if self.job(id).is_some() && !self.is_ending(id) {
            self.early.insert(id, early);
            self.end(at, id, Outcome::StopRuleMet);
        }
    }

    /// Ends a job, as soon as it holds nothing.
    pub(super) fn end(&mut self, at: Time, id: JobId, outcome: Outcome) {
        if self.job(id).is_some_and(|view| view.held.is_some()) {
            self.begin_ending(id, outcome);
            return;
        }
        if self.job(id).is_none() {
            return;
        }
        self.set_target(id, Allocation::NONE);
        self.edit(id, |view| close_span(view, at));
        if let Some(view) = self.jobs.remove(&id)
            && let Some(early) = self.early.remove(&id)
            && outcome == Outcome::StopRuleMet
        {
            self.just_early.push((id, early));
            self.remember(view);
        }
        self.verdicts.remove(&id);
        self.ending.remove(&id);
        self.stretches.remove(&id);
        self.unsettled.remove(&id);
        self.touch(id);
        let word = id.index() / 64;
        if self.ended.len() <= word {
            self.ended.resize(word + 1, 0);
        }
        self.ended[word] |= 1 << (id.index() % 64);
        self.just_ended.push((id, outcome));
    }

    fn remember(&mut self, view: Arc<JobView>) {
        self.parted.insert(view.id(), view);
        if self.parted.len() > MOST_PARTED
            && let Some(oldest) = self.parted.keys().next().copied()
        {
            self.parted.remove(&oldest);
        }
    }

    /// A job that was cut short and may be taken up again, as it was at its end.
    pub fn parted(&self, id: JobId) -> Option<&JobView> {
        self.parted.get(&id).map(|view| &**view)
    }

    /// The owner of a job that was cut short wants it to go on. It keeps what it had, and is not cut short again: it runs to
    /// its own end, or to the number of iterations that its owner set.
    pub(super) fn take_up(&mut self, at: Time, id: JobId) -> Causes {
        let Some(mut view) = self.parted.remove(&id).map(Arc::unwrap_or_clone) else { return Causes::NONE };
        let goals = &mut Arc::make_mut(&mut view.job).goals;
        if !matches!(goals.stop, StopRule::Iterations(_)) {
            goals.stop = StopRule::OwnIterations;
        }
        goals.may_relax = Relaxing::NONE;
        (view.relaxed, view.note, view.shuns, view.resumed) = (None, Note::default(), None, true);
        // While it had ended it neither ran nor waited.
        view.served.changed = at;
        self.ended[id.index() / 64] &= !(1 << (id.index() % 64));
        self.jobs.insert(id, Arc::new(view));
        self.touch(id);
        Causes::ARRIVED
    }

    /// Those that were cut short, of those that ended since this was asked last, and why.
    pub(super) fn take_early(&mut self) -> Vec<(JobId, EarlyEnd)> {
        std::mem::take(&mut self.just_early)
    }

    pub(super) fn relax(&mut self, id: JobId, to: StopRule) {
        self.edit(id, |view| {
            if view.job.goals.may_relax.allows(view.job.goals.stop, to) {
                view.relaxed = Some(to);
            }
        });
        self.touch(id);
    }

    /// The stop rule of its owner holds again.
    pub(super) fn restore(&mut self, id: JobId) {
        self.edit(id, |view| view.relaxed = None);
        self.touch(id);
    }
}
