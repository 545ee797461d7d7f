//! How copies are brought together: they are asked to save, and what they saved is merged by a thread of its own.

use std::time::{Duration, Instant};

use trainyard_sched::control::Event;
use trainyard_sched::model::Quotas;

use super::files::{Ledger, Order, Source};
use super::{Closing, Forked, LOADING, MOST_TRIES, TRY_AGAIN, Working};
use crate::consolidate::Merged;
use crate::executor::Reporter;
use crate::local::member::Member;

impl Forked {
    /// The copies are to be brought together.
    pub(in crate::local) fn order_merge(&mut self, number: u32, quotas: &Quotas) {
        // Journals of older daemons have orders without numbers.
        let was_made = number > 0 && number <= self.performed;
        if !self.begun || self.closing.is_some() {
            return;
        }
        if was_made {
            // What an earlier daemon made, and what this one did not tell, is told once more.
            self.again = self.untold.take_if(|untold| *untold == number).or(self.again);
            return;
        }
        self.next_quotas = quotas.clone();
        let base = self.ledger.iterations;
        if self.trouble.is_some() || self.copies.iter().all(|copy| copy.done_since(base) == 0.0) {
            // Nobody is asked: there is nothing to merge, as while programs load, or no room to do it. Whoever is to stop saves
            // as it leaves, and that is merged then.
            self.needless = Some(number);
            return;
        }
        let was_ordered = self.ordered.replace(number).is_some();
        if self.is_merging() {
            // From now on they are in a hurry.
            self.asked = self.asked.filter(|_| was_ordered);
        } else if self.working.is_none() && !self.is_out_of_place() {
            self.ask();
        }
    }

    /// Whether there was no room for a merge, and nobody is to wait for it any longer.
    pub(super) const fn gives_up(&self) -> bool {
        self.is_for_good && self.tries >= MOST_TRIES
    }

    /// Tells the loop that it need not wait for the merge that it ordered.
    pub(super) fn note_needless(&mut self, reporter: &Reporter) {
        if self.again.is_some() && self.working.is_none() && !self.is_out_of_place() {
            self.tell_again(reporter);
        }
        let Some(number) = self.needless.take().filter(|_| self.closing.is_none()) else { return };
        // What they did since the latest merge is none of what they may do from now on.
        let base = self.ledger.iterations;
        self.counted_from = self.copies.iter().map(|copy| copy.done_since(base)).collect();
        let (ordered, counted_from) = (number.max(self.performed), self.counted_from.clone());
        self.ledger = Ledger { ordered, counted_from, ..self.ledger.clone() };
        // Where there is no room for it, an order that comes again after a restart is taken for a new one.
        if self.working.is_none() {
            let _ = self.ledger.write(&self.folder);
        }
        self.note_ordered(number, reporter);
    }

    /// The number of the latest merge that the loop ordered.
    pub(super) fn ordered(&self) -> u32 {
        self.ordered.unwrap_or(0).max(self.performed)
    }

    /// The loop may not have heard that what it ordered is done.
    fn tell_again(&mut self, reporter: &Reporter) {
        let Some(number) = self.again.take().filter(|_| self.closing.is_none()) else { return };
        self.tell_progress(Vec::new(), reporter);
        reporter.tell(Event::Merged { job: self.held.job.id, attempt: self.held.attempt, number });
    }

    /// The loop is told that what it ordered is done, and copies go on as far as it said.
    fn note_ordered(&mut self, number: u32, reporter: &Reporter) {
        self.performed = self.performed.max(number);
        self.quotas = std::mem::take(&mut self.next_quotas);
        reporter.tell(Event::Merged { job: self.held.job.id, attempt: self.held.attempt, number });
    }

    fn ask(&mut self) {
        let (merged, next) = (self.ledger.number, self.ledger.number + 1);
        self.asked.get_or_insert_with(Instant::now);
        for copy in &mut self.copies {
            let until = copy.until();
            copy.tell(until, next, merged);
        }
    }

    pub(super) fn is_merging(&self) -> bool {
        self.copies.iter().any(|copy| copy.merges().0 > self.ledger.number)
    }

    /// Whether a merge was made and, as far as is known, not put in place.
    pub(super) fn is_out_of_place(&self) -> bool {
        self.copies.iter().any(|copy| copy.watched.is_some() && copy.merges().1 < self.ledger.number)
    }

    /// Waits until all copies have saved, or one takes too long.
    pub(super) fn gather(&mut self, reporter: &Reporter) {
        // Perhaps an earlier daemon had not told all of them.
        self.ask();
        let (base, next) = (self.ledger.iterations, self.ledger.number + 1);
        let (mut sources, mut silent, mut first) = (Vec::new(), Vec::new(), None);
        for (at, copy) in self.copies.iter_mut().enumerate() {
            match copy.answer(reporter).filter(|answer| answer.merge == next) {
                Some(answer) => {
                    first = first.or(Some(answer.iteration));
                    let iterations = (answer.iteration - base).max(0.0);
                    sources.push(Source { folder: copy.folder.0.join("checkpoints"), iterations });
                }
                None => silent.push(at),
            }
        }
        if silent.is_empty() {
            let mut iterations = base + sources.iter().map(|source| source.iterations).sum::<f64>();
            if let Some(own) = first.filter(|_| self.is_new) {
                // All begin from the state of the first one, whether or not it has done anything, and it alone knows how far that
                // is: what the loop believes is of a state that is not there.
                iterations = own;
                sources.truncate(1);
                sources[0].iterations = own.max(1.0);
            }
            let contributed: Vec<f64> = match self.is_new {
                true => Vec::new(),
                false => sources.iter().map(|source| source.iterations).collect(),
            };
            sources.retain(|source| source.iterations > 0.0);
            self.merge(self.ledger.after(iterations, &contributed, self.ordered()), sources);
            return;
        }
        let grace = Duration::from_secs(self.held.work.grace_s.max(1).into());
        let trains = |at: &usize| self.copies[*at].done_since(base) > 0.0;
        let may_load = self.is_new && self.ordered.is_none() && !silent.iter().any(trains);
        // Whoever is in the middle of an iteration answers after it.
        let one_s =
            |at: &usize| if self.copies[*at].speed > 0.0 { 1.0 / self.copies[*at].speed } else { 0.0 };
        let longest_s = silent.iter().map(one_s).fold(0.0, f64::max).min(LOADING.as_secs_f64());
        let grace = grace + Duration::from_secs_f64(longest_s);
        let grace = if may_load { grace.max(LOADING) } else { grace };
        if self.asked.is_some_and(|since| since.elapsed() >= grace) {
            let who: Vec<String> = silent.iter().map(|at| self.copies[*at].id().0.to_string()).collect();
            self.reason = Some(format!(
                "copy {} did not save for merge {next} within {} s; does the program read its control file?",
                who.join(", "),
                grace.as_secs()
            ));
            self.leave(Closing::Silent);
        }
    }

    /// Begins a merge, or the end of one that was made.
    pub(super) fn merge(&mut self, ledger: Ledger, sources: Vec<Source>) {
        if self.not_before.is_some_and(|not_before| Instant::now() < not_before) {
            return;
        }
        // One that was told of it may have gone on already.
        let number = ledger.number;
        let waits = |copy: &&Member| copy.end.is_none() && copy.merges().1 < number;
        let copies = self.copies.iter().filter(waits);
        let order = Order {
            attempt: self.folder.clone(),
            ledger,
            sources,
            job: self.checkpoints.clone(),
            copies: copies.map(|copy| copy.folder.0.join("checkpoints")).collect(),
        };
        let task = order.clone();
        self.working = Some(Working { order, thread: std::thread::spawn(move || task.perform()) });
    }

    /// Whether a merge is being made. Takes over what came of one that was.
    pub(super) fn is_working(&mut self, reporter: &Reporter) -> bool {
        let Some(working) = self.working.take_if(|working| working.thread.is_finished()) else {
            return self.working.is_some();
        };
        let (job, attempt) = (self.held.job.id, self.held.attempt);
        let order = working.order;
        match working.thread.join().expect("a merge does not panic") {
            Ok(merged) => {
                if let Some(text) = words(&order, &merged) {
                    reporter.say(job, attempt, text);
                }
                (self.ledger, self.tries, self.not_before, self.trouble) = (order.ledger, 0, None, None);
                let reached = self.ledger.iterations;
                self.total = if self.is_new { reached } else { self.total.max(reached) };
                self.done = vec![0.0; self.copies.len()];
                self.counted_from = vec![0.0; self.copies.len()];
                let number = self.ledger.number;
                let until = self.goal().map(|_| self.ledger.iterations as u64);
                for copy in &mut self.copies {
                    copy.tell(until, number, number);
                }
                (self.asked, self.is_new) = (None, false);
                if let Some(number) = self.ordered.take().filter(|_| self.closing.is_none()) {
                    self.tell_progress(Vec::new(), reporter);
                    self.note_ordered(number, reporter);
                }
            }
            Err(error) => {
                let text = format!("the copies cannot be merged: {error}");
                // It is tried again and again.
                if self.trouble.as_ref() != Some(&text) {
                    reporter.say(job, attempt, text.clone());
                    self.trouble = Some(text.clone());
                }
                self.tries += 1;
                self.not_before = Some(Instant::now() + TRY_AGAIN);
                let is_made = Ledger::read(&self.folder).is_some_and(|ledger| ledger == order.ledger);
                let is_hopeless = !is_made && !error.may_pass();
                // Whatever the loop waits for need not wait for room.
                if !is_hopeless && let Some(number) = self.ordered.take() {
                    self.needless = Some(number);
                }
                if is_made {
                    self.ledger = order.ledger;
                } else if is_hopeless || self.gives_up() {
                    self.leave(Closing::Unmerged);
                    (self.closing, self.reason) = (Some(Closing::Unmerged), Some(text));
                }
            }
        }
        false
    }
}

/// What people are told of a merge.
fn words(order: &Order, merged: &Merged) -> Option<String> {
    if order.sources.is_empty() {
        return None;
    }
    let iterations: Vec<String> = order.sources.iter().map(|source| source.iterations.to_string()).collect();
    let mut text = format!("merged after {} iterations of its copies", iterations.join(" + "));
    if !merged.taken.is_empty() {
        let first: Vec<&str> = merged.taken.iter().take(5).map(String::as_str).collect();
        let more = if merged.taken.len() > 5 { " and others" } else { "" };
        text += &format!("; {}{more} has no mean and is that of the copy that did most", first.join(", "));
    }
    Some(text)
}
