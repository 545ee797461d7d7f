//! How an attempt with several copies ends: what they left is merged, and the loop is told what came of the job.

use std::path::Path;

use trainyard_sched::control::{Event, Outcome};

use super::files::{self, Source};
use super::{Closing, Forked};
use crate::executor::Reporter;
use crate::local::attempt::Ended;
use crate::local::member::{End, Member, blamed, tell_end};
use crate::local::watch;

impl Forked {
    /// Goes on with the end. Says whether that is reached.
    pub(super) fn close(&mut self, jobs: &Path, reporter: &Reporter) -> bool {
        if self.copies.iter().any(|copy| copy.end.is_none()) {
            return false;
        }
        let base = self.ledger.iterations;
        let source = |copy: &Member| Source {
            folder: copy.folder.0.join("checkpoints"),
            iterations: copy.left_since(base),
        };
        let mut left: Vec<Source> = self.copies.iter().map(source).collect();
        if self.is_new {
            // They had nothing in common yet, so only what the first of them did counts.
            let rest = left.iter_mut().skip_while(|source| source.iterations <= 0.0).skip(1);
            rest.for_each(|source| source.iterations = 0.0);
        }
        let contributed: Vec<f64> = left.iter().map(|source| source.iterations).collect();
        left.retain(|source| source.iterations > 0.0);
        if !left.is_empty() && self.closing != Some(Closing::Unmerged) {
            let iterations = base + left.iter().map(|source| source.iterations).sum::<f64>();
            self.merge(self.ledger.after(iterations, &contributed, self.ordered()), left);
            return false;
        }
        let ended = self.ended();
        // By this later attempts know how this one ended. Where it cannot be written they know less.
        let _ = self.folder.write_ended(&ended);
        let event = self.last_word(&ended, jobs);
        if left.is_empty() && !self.is_out_of_place() {
            files::clean(&self.folder, self.ledger.number);
        }
        tell_end(reporter, &self.held, "copies", event, self.reason.as_ref());
        true
    }

    /// How it ended, for attempts to come.
    fn ended(&self) -> Ended {
        let broken = self.copies.iter().find(|copy| copy.end.is_some_and(End::is_broken));
        match (self.closing, broken) {
            _ if self.lost.is_some() => Ended::killed(true),
            (Some(Closing::Unmerged), _) => Ended { code: Some(1), told: false, ..Ended::WELL },
            (_, Some(copy)) => copy.ended().unwrap_or_else(|| Ended::killed(false)),
            // One that neither answers nor leaves well would do so for ever.
            (Some(Closing::Silent), _) if self.copies.iter().any(|copy| copy.end == Some(End::Badly)) => {
                Ended::killed(false)
            }
            _ => Ended::WELL,
        }
    }

    fn last_word(&self, ended: &Ended, jobs: &Path) -> Event {
        let (job, attempt, iterations) = (self.held.job.id, self.held.attempt, self.ledger.iterations);
        let is = |end: End| self.copies.iter().any(|copy| copy.end == Some(end));
        let (outcome, node) = blamed(self.copies.iter().filter_map(|copy| copy.end));
        let node = self.lost.or(node);
        let is_done = self.goal().is_some_and(|goal| iterations >= goal) || is(End::Completed);
        let lost = Event::Lost { job, attempt, iterations, node };
        if let Some(outcome) = outcome.filter(|_| !self.told) {
            return Event::Finished { job, attempt, outcome };
        }
        if node.is_some() {
            return lost;
        }
        // It may have been told just as it was done.
        if is_done
            && (self.closing == Some(Closing::Done) || !self.told)
            && self.closing != Some(Closing::Unmerged)
        {
            return Event::Finished { job, attempt, outcome: Outcome::Completed };
        }
        if self.told {
            return Event::Stopped { job, attempt, iterations };
        }
        if !self.begun {
            return Event::StartFailed { job, attempt, node: None };
        }
        match watch::given_up(&self.held, ended, jobs) {
            Some(outcome) => Event::Finished { job, attempt, outcome },
            None => lost,
        }
    }
}
