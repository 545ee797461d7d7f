//! How an attempt of tasks ends, and what the loop is told of it.

use std::path::Path;

use trainyard_sched::control::{Event, Outcome};

use super::{Closing, Grouped};
use crate::executor::Reporter;
use crate::local::attempt::Ended;
use crate::local::member::{End, Member, blamed, tell_end};
use crate::local::watch;

impl Grouped {
    /// Goes on with the end. Says whether that is reached.
    pub(super) fn close(&mut self, jobs: &Path, reporter: &Reporter) -> bool {
        if let Some((Closing::Done, since)) = self.closing
            && since.elapsed() >= self.grace()
        {
            self.tasks.values_mut().for_each(Member::stop);
        }
        if self.tasks.values().any(|task| task.end.is_none()) {
            return false;
        }
        let ended = self.ended();
        // By this later attempts know how this one ended. Where it cannot be written they know less.
        let _ = self.folder.write_ended(&ended);
        let event = self.last_word(&ended, jobs);
        tell_end(reporter, &self.held, "tasks", event, self.reason.as_ref());
        true
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.closing, Some((Closing::Done, _)))
            || self.speaker().is_some_and(|task| self.tasks[&task].end == Some(End::Completed))
    }

    /// How it ended, for attempts to come.
    fn ended(&self) -> Ended {
        match self.tasks.values().find(|task| task.end.is_some_and(End::is_broken)) {
            _ if self.lost.is_some() => Ended::killed(true),
            Some(task) if !self.is_done() => task.ended().unwrap_or_else(|| Ended::killed(false)),
            _ => Ended::WELL,
        }
    }

    fn last_word(&self, ended: &Ended, jobs: &Path) -> Event {
        let (job, attempt, iterations) = (self.held.job.id, self.held.attempt, self.saved());
        if self.is_done() {
            return Event::Finished { job, attempt, outcome: Outcome::Completed };
        }
        let (outcome, node) = blamed(self.tasks.values().filter_map(|task| task.end));
        let node = self.lost.or(node);
        if let Some(outcome) = outcome.filter(|_| !self.told) {
            return Event::Finished { job, attempt, outcome };
        }
        if node.is_some() {
            return Event::Lost { job, attempt, iterations, node };
        }
        if self.told {
            return Event::Stopped { job, attempt, iterations };
        }
        // An earlier daemon may have seen it begin.
        if !self.begun && self.folder.running().is_none() {
            return Event::StartFailed { job, attempt, node: None };
        }
        match watch::given_up(&self.held, ended, jobs) {
            Some(outcome) => Event::Finished { job, attempt, outcome },
            None => Event::Lost { job, attempt, iterations, node: None },
        }
    }
}
