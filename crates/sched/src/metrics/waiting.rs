//! Why jobs waited, and who waited most. A job waits while it is open and holds nothing; it waits for the reason of
//! its latest verdict.
//!
//! Memory: 8 bytes for each job ever, about 300 for each open one, and [`MOST_NAMED`] jobs that are named.

use crate::decide::{Reason, Verdict};
use crate::model::{JobId, Span, Time};

/// How many of the longest waits are kept with their reasons.
pub const MOST_NAMED: usize = 12;
const KINDS: usize = Reason::KINDS.len();

/// Why jobs waited.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    jobs: Vec<Option<Box<Wait>>>,
    by_kind: [Waited; KINDS],
    /// The longest waits so far, unsorted, at most twice as many as are named.
    longest: Vec<LongWait>,
}

/// Time waited by all jobs together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waited {
    /// Jobs times seconds.
    pub job_s: f64,
    /// GPUs that were wanted times seconds.
    pub gpu_s: f64,
}

/// One job's wait.
#[derive(Clone, Debug, PartialEq)]
pub struct LongWait {
    /// The job.
    pub job: JobId,
    /// How long it waited in all.
    pub waited: Span,
    /// Whether it waited still when the run was over.
    pub waits_still: bool,
    /// The kind of reason for which it waited longest at a stretch, with the numbers at the end of that stretch.
    pub reason: Reason,
    /// When that stretch began.
    pub from: Time,
    /// How long it was.
    pub stretch: Span,
}

/// A job that is open.
#[derive(Clone, Debug)]
struct Wait {
    gpus: f64,
    /// The latest verdict's.
    reason: Reason,
    /// Since when it waits for a reason of this kind; `None` while it holds something.
    since: Option<Time>,
    waited: Span,
    /// The longest stretch for one kind of reason.
    longest: Option<(Reason, Time, Span)>,
}

impl Wait {
    /// Accounts for the wait up to now.
    fn close(&mut self, at: Time, by_kind: &mut [Waited; KINDS]) {
        let Some(since) = self.since.take() else { return };
        let stretch = at.since(since);
        self.waited += stretch;
        let sum = &mut by_kind[self.reason.kind_index()];
        sum.job_s += stretch.as_secs_f64();
        sum.gpu_s += self.gpus * stretch.as_secs_f64();
        if self.longest.is_none_or(|(_, _, longest)| stretch > longest) {
            self.longest = Some((self.reason, since, stretch));
        }
    }
}

impl Waiting {
    /// Time waited by the kind of reason, in the order of [`Reason::KINDS`], for kinds for which anybody waited.
    pub fn by_kind(&self) -> impl Iterator<Item = (&'static str, Waited)> {
        let kinds = Reason::KINDS.iter().zip(self.by_kind);
        kinds.map(|((kind, _), waited)| (*kind, waited)).filter(|(_, waited)| waited.job_s > 0.0)
    }

    /// The longest waits of jobs that could have run, longest first, at most [`MOST_NAMED`].
    pub fn longest(&self) -> Vec<LongWait> {
        let mut all = self.longest.clone();
        shorten(&mut all);
        all
    }

    pub(super) fn arrived(&mut self, at: Time, id: JobId, gpus: f64) {
        let i = id.index();
        if self.jobs.len() <= i {
            self.jobs.resize_with(i + 1, || None);
        }
        let (reason, since, waited) = (Reason::NotYetEvaluated, Some(at), Span::ZERO);
        self.jobs[i] = Some(Box::new(Wait { gpus, reason, since, waited, longest: None }));
    }

    /// A job that had ended is there again. What it waited before counts on.
    pub(super) fn taken_up(&mut self, at: Time, id: JobId, gpus: f64) {
        self.arrived(at, id, gpus);
        let before = self.longest.iter().position(|wait| wait.job == id);
        let before = before.map(|i| self.longest.swap_remove(i));
        if let (Some(before), Some((wait, _))) = (before, self.open(id)) {
            wait.waited = before.waited;
            wait.longest = Some((before.reason, before.from, before.stretch));
        }
    }

    fn open(&mut self, id: JobId) -> Option<(&mut Wait, &mut [Waited; KINDS])> {
        let wait = self.jobs.get_mut(id.index())?.as_mut()?;
        Some((wait, &mut self.by_kind))
    }

    pub(super) fn decided(&mut self, at: Time, id: JobId, verdict: &Verdict) {
        let Some((wait, by_kind)) = self.open(id) else { return };
        // A stretch goes on while the kind is the same, and its numbers are the latest.
        if wait.since.is_some() && wait.reason.kind_index() != verdict.reason().kind_index() {
            wait.close(at, by_kind);
            wait.since = Some(at);
        }
        wait.reason = *verdict.reason();
    }

    pub(super) fn took(&mut self, at: Time, id: JobId) {
        if let Some((wait, by_kind)) = self.open(id) {
            wait.close(at, by_kind);
        }
    }

    pub(super) fn let_go(&mut self, at: Time, id: JobId) {
        if let Some((wait, _)) = self.open(id) {
            wait.since.get_or_insert(at);
        }
    }

    pub(super) fn gone(&mut self, at: Time, id: JobId) {
        let Some(mut wait) = self.jobs.get_mut(id.index()).and_then(Option::take) else { return };
        wait.close(at, &mut self.by_kind);
        self.keep(id, &wait, false);
    }

    /// Accounts for what still waits.
    pub(super) fn finish(&mut self, at: Time) {
        for i in 0..self.jobs.len() {
            let Some(mut wait) = self.jobs[i].take() else { continue };
            let waits_still = wait.since.is_some();
            wait.close(at, &mut self.by_kind);
            self.keep(JobId(i as u32), &wait, waits_still);
        }
    }

    /// Keeps a wait if it is among the longest. A job that can never run is not one that was kept waiting.
    fn keep(&mut self, job: JobId, wait: &Wait, waits_still: bool) {
        let Some((reason, from, stretch)) = wait.longest else { return };
        if wait.waited == Span::ZERO || matches!(wait.reason, Reason::Unplaceable { .. }) {
            return;
        }
        self.longest.push(LongWait { job, waited: wait.waited, waits_still, reason, from, stretch });
        if self.longest.len() >= 2 * MOST_NAMED {
            shorten(&mut self.longest);
        }
    }
}

fn shorten(waits: &mut Vec<LongWait>) {
    waits.sort_by_key(|wait| (std::cmp::Reverse(wait.waited), wait.job));
    waits.truncate(MOST_NAMED);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_split_by_the_kind_of_its_reasons() {
        let (at, job) = (Time::from_secs, JobId(0));
        let behind = |ahead| Verdict::Wait(Reason::Behind { ahead: JobId(ahead) });
        let mut waiting = Waiting::default();
        waiting.arrived(at(0), job, 4.0);
        waiting.decided(at(10), job, &behind(7));
        waiting.decided(at(20), job, &behind(8));
        waiting.decided(at(40), job, &Verdict::Run(Reason::Chosen));
        waiting.took(at(45), job);
        // Runs until 100; the verdict that takes its place away comes while it still holds it.
        waiting.decided(at(90), job, &Verdict::Yield(Reason::Outranked { by: JobId(9) }));
        waiting.let_go(at(100), job);
        waiting.took(at(120), job);
        waiting.gone(at(200), job);
        waiting.finish(at(300));
        let found: Vec<_> = waiting.by_kind().map(|(kind, waited)| (kind, waited.job_s)).collect();
        assert_eq!(
            found,
            [("not_yet_evaluated", 10.0), ("chosen", 5.0), ("behind", 30.0), ("outranked", 20.0)]
        );
        assert!(waiting.by_kind().all(|(_, waited)| waited.gpu_s == 4.0 * waited.job_s));
        let [wait] = &waiting.longest()[..] else { panic!("one job waited") };
        let expected = LongWait {
            job,
            waited: Span::from_secs(65),
            waits_still: false,
            reason: Reason::Behind { ahead: JobId(8) },
            from: at(10),
            stretch: Span::from_secs(30),
        };
        assert_eq!(*wait, expected);
    }

    #[test]
    fn a_job_that_is_taken_up_again_waits_on_and_is_named_once() {
        let (at, job) = (Time::from_secs, JobId(0));
        let mut waiting = Waiting::default();
        waiting.arrived(at(0), job, 1.0);
        waiting.took(at(10), job);
        waiting.gone(at(20), job);
        waiting.taken_up(at(40), job, 1.0);
        waiting.took(at(45), job);
        waiting.gone(at(60), job);
        let [wait] = &waiting.longest()[..] else { panic!("one job waited") };
        assert_eq!((wait.waited, wait.stretch, wait.from), (Span::from_secs(15), Span::from_secs(10), at(0)));
    }

    #[test]
    fn only_the_longest_waits_are_named_and_those_that_last_still_are_among_them() {
        let mut waiting = Waiting::default();
        for i in 0..100 {
            waiting.arrived(Time::ZERO, JobId(i), 1.0);
        }
        for i in 0..99 {
            waiting.took(Time::from_secs(u64::from(i * 37 % 99)), JobId(i));
            waiting.gone(Time::from_secs(200), JobId(i));
        }
        waiting.finish(Time::from_secs(500));
        let all = waiting.longest();
        assert_eq!(all.len(), MOST_NAMED);
        assert_eq!((all[0].job, all[0].waits_still, all[0].waited), (JobId(99), true, Span::from_secs(500)));
        let waits: Vec<u64> = all[1..].iter().map(|wait| wait.waited.0 / 1_000_000).collect();
        assert_eq!(waits, (88..99).rev().collect::<Vec<_>>());
    }

    #[test]
    fn a_job_that_can_never_run_is_not_among_the_longest() {
        let mut waiting = Waiting::default();
        waiting.arrived(Time::ZERO, JobId(0), 64.0);
        let never = Reason::Unplaceable { workers: 64, largest: 8 };
        waiting.decided(Time::ZERO, JobId(0), &Verdict::Wait(never));
        waiting.finish(Time::from_secs(9));
        assert_eq!(waiting.longest(), []);
        assert_eq!(waiting.by_kind().next().map(|(kind, _)| kind), Some("unplaceable"));
    }
}
