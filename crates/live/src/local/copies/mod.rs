//! An attempt with several copies. Each copy is a gang with a keeper of its own and is followed like an attempt; here is what
//! makes one job of them: how far they are together, how far each may go, and that what they learned is brought together.
//!
//! What counts is what is merged. A copy contributes what it saved when it was asked to, or when it left well after it was told to
//! stop; what a copy did that was lost, or did not leave well, is dropped. Copies live and die together: when one is lost, or does
//! not answer, the others save and leave, what they did is merged, and the loop may start the job anew.
//!
//! Everything is derived afresh at each look from files: a daemon that comes back in the middle goes on from there.

mod end;
mod files;
mod merge;
mod one;
mod quota;
mod start;

use std::io;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use trainyard_sched::control::{Event, How};
use trainyard_sched::model::{Allocation, Cluster, CopyProgress, LossPoint, NodeId, Quotas};

use self::files::{Ledger, MergeError, Order};
use self::quota::Runner;
use super::attempt::{Folder, Running};
use super::member::{End, Member};
use super::{Options, devices};
use crate::consolidate::Merged;
use crate::executor::{Held, Reporter};
use crate::work::Launch;

/// After how long a merge that failed for want of room or the like is tried again, and how often if the job ends for good, so that
/// it can be withdrawn whatever the disk is like.
const MOST_TRIES: u32 = 5;
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// How long copies may take to load before they are asked for a state for the first time, if nobody is in a hurry.
const LOADING: Duration = Duration::from_secs(1800);

/// An attempt with several copies.
#[derive(Debug)]
pub(super) struct Forked {
    pub(super) held: Held,
    folder: Folder,
    /// The job's own checkpoints.
    checkpoints: PathBuf,
    copies: Vec<Member>,
    ledger: Ledger,
    /// Gives each copy the state that all begin from; nothing is launched before.
    preparing: Option<JoinHandle<io::Result<()>>>,
    working: Option<Working>,
    /// Whether there is no state yet that all copies begin from, so that they are given that of the first one.
    is_new: bool,
    /// Since when copies are asked to save for a merge.
    asked: Option<Instant>,
    /// The number of the merge that the loop ordered and was not told of since.
    ordered: Option<u32>,
    /// The same of one that it need not wait for.
    needless: Option<u32>,
    /// The number of the latest merge that the loop ordered and was told of, perhaps by an earlier daemon.
    performed: u32,
    /// The same as long as it is an earlier daemon that made it, which perhaps did not come to tell the loop; and once that is
    /// asked for.
    untold: Option<u32>,
    again: Option<u32>,
    /// How far each copy may go, and how far from the next merge on.
    quotas: Quotas,
    next_quotas: Quotas,
    /// From which iteration since the latest merge each copy counts what it may do; 0 unless a merge was not possible.
    counted_from: Vec<f64>,
    tries: u32,
    /// Why the latest merge failed.
    trouble: Option<String>,
    not_before: Option<Instant>,
    begun: bool,
    /// Whether the loop told it to stop.
    told: bool,
    /// Whether that is for good.
    is_for_good: bool,
    lost: Option<NodeId>,
    closing: Option<Closing>,
    /// What people are told in the end.
    reason: Option<String>,
    resized: Option<Allocation>,
    /// Iterations over all copies, as told last, and what each copy had done then.
    total: f64,
    done: Vec<f64>,
}

/// A merge that is being made.
#[derive(Debug)]
struct Working {
    order: Order,
    thread: JoinHandle<Result<Merged, MergeError>>,
}

/// Why all copies are to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    /// The loop says so.
    Told,
    /// All is done, or one of them thinks so.
    Done,
    /// One of them ended otherwise.
    Broken,
    /// One of them did not answer when it was to save.
    Silent,
    /// What they saved cannot be merged.
    Unmerged,
    /// They had been told before this daemon came back.
    Before,
}

impl Forked {
    /// Looks once. Says whether it is over.
    pub(super) fn look(&mut self, options: &Options, cluster: &Cluster, reporter: &Reporter) -> bool {
        if self.preparing.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return false;
        }
        self.prepared(options, cluster, reporter);
        for copy in &mut self.copies {
            copy.look(&options.jobs, reporter);
        }
        self.begin(reporter);
        self.note_needless(reporter);
        self.note_beginnings(reporter);
        self.note_resized(reporter);
        self.report(reporter);
        self.note_ends();
        if self.is_working(reporter) {
            return false;
        }
        if self.is_out_of_place() && !self.gives_up() {
            self.merge(self.ledger.clone(), Vec::new());
            return false;
        }
        if self.closing.is_some() {
            return self.close(&options.jobs, reporter);
        }
        if self.is_merging() {
            self.gather(reporter);
        } else if self.begun {
            self.hand_out();
        }
        false
    }

    /// Once all copies have begun, the job has. If one cannot be launched, that is a start that failed, like that of any job.
    fn begin(&mut self, reporter: &Reporter) {
        if self.begun || !self.copies.iter().all(|copy| copy.begun) {
            return;
        }
        self.begun = true;
        let running = self.copies.iter().filter_map(|copy| copy.folder.running());
        let programs = running.flat_map(|running| running.programs).collect();
        // By this later attempts know that this one began.
        let _ = self.folder.write_running(&Running { programs });
        let (job, attempt, iterations) = (self.held.job.id, self.held.attempt, self.ledger.iterations);
        reporter.tell(Event::Started { job, attempt, iterations, speed: 0.0 });
    }

    /// A checkpoint knows better which iteration it is of than the loop does.
    fn note_beginnings(&mut self, reporter: &Reporter) {
        if self.ledger.number > 0 || self.is_merging() {
            return;
        }
        let told =
            self.copies.iter_mut().find_map(|copy| copy.answer(reporter).filter(|answer| answer.merge == 0));
        if let Some(answer) = told.filter(|answer| answer.iteration != self.ledger.iterations) {
            let ledger = Ledger { iterations: answer.iteration, ..self.ledger.clone() };
            if ledger.write(&self.folder).is_ok() {
                self.ledger = ledger;
                self.total = answer.iteration;
            }
        }
    }

    fn note_resized(&mut self, reporter: &Reporter) {
        let all = self.copies.iter().all(|copy| copy.is_resized || copy.end.is_some());
        let Some(allocation) = self.resized.take_if(|_| all) else { return };
        self.copies.iter_mut().for_each(|copy| copy.is_resized = false);
        let (job, attempt, iterations) = (self.held.job.id, self.held.attempt, self.total);
        let speed = self.copies.iter().map(|copy| copy.speed).sum();
        reporter.tell(Event::Resized { job, attempt, allocation, iterations, speed });
    }

    /// Says how far all of them are together. Losses are those of the copy that did most since the copies were equal, each at
    /// the iteration that all had reached by then.
    fn report(&mut self, reporter: &Reporter) {
        let has_news = self.copies.iter().any(|copy| copy.has_news);
        // What copies do before they are equal is not of one job.
        if !self.begun || !has_news || self.is_new {
            return;
        }
        let base = self.ledger.iterations;
        let done: Vec<f64> = self.copies.iter().map(|copy| copy.done_since(base)).collect();
        let total = base + done.iter().sum::<f64>();
        let lead = (0..done.len()).fold(0, |lead, i| if done[i] > done[lead] { i } else { lead });
        let losses = std::mem::take(&mut self.copies[lead].losses);
        let losses = between((base, self.done[lead], done[lead]), (self.total, total), losses);
        for copy in &mut self.copies {
            copy.has_news = false;
            copy.losses.clear();
        }
        (self.total, self.done) = (total, done);
        self.tell_progress(losses, reporter);
    }

    fn tell_progress(&self, losses: Vec<LossPoint>, reporter: &Reporter) {
        let copies = self.told();
        reporter.tell(Event::Progress {
            job: self.held.job.id,
            attempt: self.held.attempt,
            iterations: self.total,
            speed: copies.iter().filter(|copy| !copy.waits).map(|copy| copy.speed).sum(),
            saved: self.ledger.iterations,
            losses,
            copies,
        });
    }

    /// How far each copy is in this attempt, one that has reached what it may do as one that waits.
    fn told(&self) -> Vec<CopyProgress> {
        let (base, is_merging) = (self.ledger.iterations, self.is_merging());
        let told = |(at, copy): (usize, &Member)| CopyProgress {
            copy: copy.id(),
            iterations: self.ledger.copies.get(at).copied().unwrap_or(0.0) + copy.done_since(base),
            speed: copy.speed,
            // Without quotas it is given more before it has to wait.
            waits: is_merging
                || (!self.quotas.is_none()
                    && copy.until().is_some_and(|until| copy.iterations >= until as f64)),
        };
        self.copies.iter().enumerate().map(told).collect()
    }

    /// What the end of a copy means for the others.
    fn note_ends(&mut self) {
        if self.closing.is_some() {
            return;
        }
        let Some((end, said)) = self.copies.iter().find_map(|copy| Some((copy.end?, copy.said.clone())))
        else {
            return;
        };
        match end {
            End::Well | End::Badly => self.leave(Closing::Before),
            End::Completed => self.leave(Closing::Done),
            End::Failed(_) | End::Lost(_) | End::NotStarted => {
                self.reason = said;
                self.leave(Closing::Broken);
            }
        }
    }

    /// All copies are to save and leave.
    fn leave(&mut self, why: Closing) {
        if self.closing.is_none() {
            self.closing = Some(why);
            self.copies.iter_mut().for_each(Member::stop);
        }
    }

    /// The loop tells it to save and leave.
    pub(super) fn stop(&mut self, how: How) {
        self.told = true;
        self.is_for_good |= how == How::Finish;
        self.closing = Some(self.closing.unwrap_or(Closing::Told));
        self.copies.iter_mut().for_each(Member::stop);
    }

    /// Whether a node is gone that one of its copies is on.
    pub(super) const fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// A node is gone, and with it the copies there.
    pub(super) fn lose(&mut self, node: NodeId) {
        self.lost = Some(node);
        for copy in self.copies.iter_mut().filter(|copy| copy.gang.held.allocation.touches(node)) {
            if let Some(watched) = &mut copy.watched {
                watched.lose(node);
            }
        }
        self.leave(Closing::Broken);
    }

    /// Gives each copy another share without a restart, if that can be done.
    pub(super) fn resize(
        &mut self,
        allocation: &Allocation,
        quotas: &Quotas,
        options: &Options,
        cluster: &Cluster,
    ) {
        let parts = start::split(allocation);
        let may = self.held.work.launch == Launch::PerNode
            && parts.len() == self.copies.len()
            && parts.iter().zip(&self.copies).all(|((id, part), copy)| {
                let placements = |held: &Allocation| held.placements().len();
                *id == copy.id() && placements(part) == placements(&copy.gang.held.allocation)
            })
            // As with one copy, a program keeps the real devices that it began with.
            && (options.cpus_per_gpu.is_some() || devices(&self.held.allocation) == devices(allocation));
        if !may {
            self.stop(How::Save);
            return;
        }
        for ((_, part), copy) in parts.into_iter().zip(&mut self.copies) {
            if let Some(watched) = &mut copy.watched {
                watched.resize(&part, options, cluster);
            }
            copy.gang.held.allocation = part;
        }
        self.quotas = quotas.clone();
        self.held.allocation = allocation.clone();
        self.resized = Some(allocation.clone());
    }

    /// What the job is to come to, if that is known.
    fn goal(&self) -> Option<f64> {
        self.held.job.goal()
    }

    /// Lets copies train on, as long as there is something to do.
    fn hand_out(&mut self) {
        let Some(goal) = self.goal() else { return };
        let runners = self.copies.iter().map(|copy| Runner {
            iterations: copy.iterations,
            until: copy.until().unwrap_or(0),
            speed: copy.speed,
        });
        let (base, runners) = (self.ledger.iterations, runners.collect::<Vec<_>>());
        let given = self.copies.iter().zip(&self.counted_from);
        let given: Option<Vec<f64>> =
            given.map(|(copy, from)| self.quotas.of(copy.id()).map(|quota| from + quota as f64)).collect();
        let ends = match given {
            Some(given) if !quota::is_rest(base, goal, &runners, &given) => {
                quota::given(base, goal, &runners, &given)
            }
            _ => quota::ends(base, goal, &runners),
        };
        let Some(ends) = ends else {
            self.leave(Closing::Done);
            return;
        };
        let quotas: Option<Vec<u64>> = self.copies.iter().map(|copy| self.quotas.of(copy.id())).collect();
        let parts = quotas.and_then(|quotas| quota::parts(&quotas));
        for (at, (copy, until)) in self.copies.iter_mut().zip(ends).enumerate() {
            copy.let_train(until, parts.as_ref().map(|parts| parts[at]));
        }
    }

    /// Waits for what it has begun by threads of its own; the daemon leaves.
    pub(super) fn settle(&mut self) {
        if let Some(working) = self.working.take() {
            let _ = working.thread.join();
        }
        if let Some(thread) = self.preparing.take() {
            let _ = thread.join();
        }
    }
}

/// Losses of a copy that went from one number of iterations to another, while all of them together went from `from` to `to`.
/// What was told before the copies were equal last is left out.
fn between(
    (base, before, after): (f64, f64, f64),
    (from, to): (f64, f64),
    losses: Vec<LossPoint>,
) -> Vec<LossPoint> {
    let place = |point: LossPoint| {
        let done = point.iteration - base;
        let part = if after > before { ((done - before) / (after - before)).clamp(0.0, 1.0) } else { 1.0 };
        (done > 0.0).then_some(LossPoint { iteration: from + part * (to - from), ..point })
    };
    losses.into_iter().filter_map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_one_copy_are_placed_where_all_were() {
        let points = [99.0, 101.0, 105.0, 110.0];
        let losses = points.map(|iteration| LossPoint { iteration, loss: 1.0, accuracy: None }).to_vec();
        let placed = between((100.0, 0.0, 10.0), (100.0, 130.0), losses);
        assert_eq!(placed.iter().map(|point| point.iteration).collect::<Vec<_>>(), [103.0, 115.0, 130.0]);
    }
}
