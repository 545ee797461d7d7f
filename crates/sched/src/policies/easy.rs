//! EASY backfilling: first in, first out with one reservation.
//!
//! # Idea
//! Jobs start in order. The first that does not fit gets a reservation at the earliest time at which, by
//! what running jobs declare, there will be room for it. Later jobs may start now if they end before
//! that time or use only what the reserved job leaves over.
//!
//! # Source
//! Lifka, The ANL/IBM SP scheduling system, JSSPP 1995; Mu'alem and Feitelson, TPDS 2001.
//!
//! # What it sees
//! Declared run times. A job that declares nothing is taken to run for `assumed_s`; a running job that
//! has outlived what it declared is taken to end at any moment.
//!
//! # Parameters
//! `assumed_s`: see above. `placement`: the rule.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::decide::{
    Ahead, Cadence, Decision, Entry, PLACEMENT, Parameter, Policy, Rank, Ranked, Reason, Suits, Verdict,
    defaults, numbered, parameters,
};
use crate::model::{Job, JobId, PriorityClass, Span, Time};
use crate::place::{Ask, FreeCapacity, Rule};
use crate::rank::{Queue, Waiting};
use crate::view::{Causes, JobView, Phase, Snapshot};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Parameters {
    assumed_s: f64,
    placement: Rule,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { assumed_s: 86_400.0, placement: Rule::Pack }
    }
}

/// What its parameters mean and may be.
const PARAMETERS: &[Parameter] = &[
    numbered("assumed_s", "s", (0.001, 1e9), "how long a job is taken to run that declares no length"),
    PLACEMENT,
];

/// Class first, then submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Order(Reverse<PriorityClass>, Time);

impl Rank for Order {}

fn order(view: &JobView, _: bool) -> Order {
    Order(Reverse(view.job.goals.class), view.job.submitted)
}

struct Easy {
    rule: Rule,
    assumed: Span,
    ranked: Ranked<Order>,
    /// The waiting jobs by what they declare, to know the shortest of each shape.
    by_length: Queue<Span>,
    /// When running jobs are expected to end.
    ends: BTreeSet<(Time, JobId)>,
    end_of: BTreeMap<JobId, Time>,
    /// Jobs with a target that do not train yet, so that their end recedes.
    pending: BTreeSet<JobId>,
}

/// The job with the reservation, when it will start, and what it leaves over then.
struct Reservation {
    job: JobId,
    starts: Time,
    left_over: FreeCapacity,
}

impl Easy {
    fn length(&self, view: &JobView, now: Time) -> Span {
        view.declared_remaining(now).unwrap_or_else(|| self.assumed.saturating_sub(view.executed(now)))
    }

    fn follow(&mut self, seen: &Snapshot) {
        if !self.ranked.plan.is_in_step(seen) {
            self.by_length = Queue::default();
            self.ends.clear();
            self.end_of.clear();
            self.pending.clear();
        }
        let changed = self.ranked.follow(seen, order);
        for id in self.pending.iter().copied().chain(changed).collect::<BTreeSet<JobId>>() {
            self.note_length(seen, id);
        }
    }

    /// Brings the lists of lengths and ends in step with what one job does now.
    fn note_length(&mut self, seen: &Snapshot, id: JobId) {
        self.by_length.remove(id);
        if let Some(end) = self.end_of.remove(&id) {
            self.ends.remove(&(end, id));
        }
        self.pending.remove(&id);
        let Some(view) = seen.job(id) else { return };
        let length = self.length(view, seen.at);
        if self.ranked.plan.target(id).is_some() {
            if view.phase != Phase::Running {
                self.pending.insert(id);
            }
            self.end_of.insert(id, seen.at + length);
            self.ends.insert((seen.at + length, id));
        } else if self.ranked.queue.key(id).is_some() {
            self.by_length.insert(length, &view.job);
        }
    }

    fn start(&mut self, seen: &Snapshot, waiting: &Waiting<Order>, reason: Reason) -> bool {
        let started = self.ranked.start(seen, &waiting.job, self.rule, reason, order);
        if started {
            self.note_length(seen, waiting.job.id);
        }
        started
    }

    /// The earliest time at which running jobs will have left enough room for `job`.
    fn reserve(&self, seen: &Snapshot, job: &Job) -> Option<Reservation> {
        let mut free = self.ranked.plan.free().clone();
        let ask = Ask::minimum(&job.shape, &job.wanted);
        for (end, id) in &self.ends {
            let target = self.ranked.plan.target(*id).expect("only jobs with a target are expected to end");
            let view = seen.job(*id).expect("a job with a target is in the snapshot");
            free.release(target, &view.job.shape);
            if free.place(self.rule, &ask).is_some() {
                let starts = (*end).max(seen.at);
                return Some(Reservation { job: job.id, starts, left_over: free });
            }
        }
        // Some node that it needs is away: there is nothing to reserve.
        None
    }

    /// Whether a job may start now without delaying the reserved one; on yes it has been started.
    fn backfill(&mut self, seen: &Snapshot, waiting: &Waiting<Order>, held: &mut Reservation) -> Backfill {
        let length = self.by_length.key(waiting.job.id).unwrap_or(self.assumed);
        let reason = Reason::Backfilled { ahead_of: held.job };
        if seen.at + length <= held.starts {
            return if self.start(seen, waiting, reason) { Backfill::Started } else { Backfill::NoRoom };
        }
        let Some(now) = self.ranked.plan.would_place(&waiting.job, self.rule) else {
            return Backfill::NoRoom;
        };
        if held.left_over.keep(&now, &waiting.job.shape) {
            let started = self.start(seen, waiting, reason);
            assert!(started, "there was room a moment ago");
            return Backfill::Started;
        }
        Backfill::WouldDelay
    }

    /// Starts jobs in order, then backfills; returns the reservation, if there is one.
    fn fill(&mut self, seen: &Snapshot) -> Option<Reservation> {
        let mut walk = self.ranked.queue.walk();
        let mut reservation: Option<Reservation> = None;
        while let Some(waiting) = walk.next(&self.ranked.queue) {
            let Some(held) = &mut reservation else {
                if self.start(seen, &waiting, Reason::Chosen) {
                    walk.go_on(&self.ranked.queue, &waiting);
                } else {
                    reservation = self.reserve(seen, &waiting.job);
                }
                continue;
            };
            match self.backfill(seen, &waiting, held) {
                Backfill::Started => walk.go_on(&self.ranked.queue, &waiting),
                // A job that keeps away from a node says nothing about the others of its shape.
                Backfill::NoRoom if self.ranked.plan.keeps_away(waiting.job.id) => {
                    walk.go_on(&self.ranked.queue, &waiting);
                }
                Backfill::NoRoom => {}
                // Behind it only a job of this shape that ends before the reservation can start.
                Backfill::WouldDelay => {
                    let shortest = self.by_length.first_like(&waiting.job).map(|job| job.id);
                    let shortest = shortest.and_then(|id| self.by_length.key(id));
                    if shortest.is_some_and(|length| seen.at + length <= held.starts) {
                        walk.go_on(&self.ranked.queue, &waiting);
                    }
                }
            }
        }
        reservation
    }

    fn reason(&mut self, seen: &Snapshot, id: JobId, held: Option<&Reservation>) -> Option<Reason> {
        let key = self.ranked.queue.key(id)?;
        let job = self.ranked.queue.get(id, key)?.clone();
        let Some(held) = held.filter(|held| held.job != id) else {
            return self.ranked.waits_because(id, self.rule);
        };
        let ask = Ask::minimum(&job.shape, &job.wanted);
        let fits_now = self.ranked.plan.free().clone().place(self.rule, &ask).is_some();
        let length = self.length(seen.job(id)?, seen.at);
        if fits_now && seen.at + length > held.starts {
            return Some(Reason::WouldDelay { reserved: held.job, starts: held.starts });
        }
        self.ranked.waits_because(id, self.rule)
    }
}

enum Backfill {
    Started,
    NoRoom,
    WouldDelay,
}

impl Policy for Easy {
    fn cadence(&self) -> Cadence {
        Cadence::OnEvents(Causes::CAPACITY)
    }

    fn decide(&mut self, seen: &Snapshot) -> Decision {
        self.follow(seen);
        let news = self.ranked.take_news();
        let held = self.fill(seen);
        for id in news {
            if let Some(reason) = self.reason(seen, id, held.as_ref()) {
                self.ranked.plan.say(id, Verdict::Wait(reason));
            }
        }
        self.ranked.plan.finish()
    }

    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.follow(seen);
        let held = self.fill(seen);
        match self.reason(seen, job, held.as_ref()) {
            Some(reason) => Verdict::Wait(reason),
            None => self.ranked.explain(seen, job, self.rule),
        }
    }

    fn ahead(&mut self, seen: &Snapshot, job: JobId) -> Ahead {
        self.follow(seen);
        self.ranked.ahead(job)
    }

    fn is_starvation_free(&self) -> bool {
        true
    }
}

/// First in, first out with one reservation.
pub(super) const ENTRY: Entry = Entry {
    name: "easy",
    title: "first in, first out; later jobs may start if they do not delay the first that waits",
    source: "Lifka, JSSPP 1995; Mu'alem and Feitelson, TPDS 2001",
    reads_declared: true,
    suits: Suits::AnyJobs,
    parameters: PARAMETERS,
    sizes: false,
    defaults: defaults::<Parameters>,
    build: |given| {
        let Parameters { assumed_s, placement } = parameters("easy", PARAMETERS, given)?;
        Ok(Box::new(Easy {
            rule: placement,
            assumed: Span::from_secs_f64(assumed_s),
            ranked: Ranked::placing_by(placement),
            by_length: Queue::default(),
            ends: BTreeSet::new(),
            end_of: BTreeMap::new(),
            pending: BTreeSet::new(),
        }))
    },
};
