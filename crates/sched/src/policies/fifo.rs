//! First in, first out.
//!
//! # Idea
//! Jobs start in the order of priority class and submission and keep what they have until they end.
//!
//! # Source
//! Folklore; `yarn-cs` is the production baseline of Tiresias (NSDI 2019) as its authors coded it.
//!
//! # What it sees
//! Submission times and what is free.
//!
//! # Parameters
//! `placement`: the placement rule.
//!
//! # Where we differ
//! The head of the queue holds back only jobs that want what it waits for: a job without GPUs passes a
//! head that waits for GPUs, and a job that only accepts other GPU types passes too. The public code of
//! YARN-CS has one GPU type and cannot tell; where there are several, it looks at nodes in turn, whatever their type, and
//! keeps a gang on one type.

use serde::{Deserialize, Serialize};

use crate::decide::{
    Ahead, Cadence, Decision, Entry, Manner, PLACEMENT, ParameterError, Policy, Rank, Ranked, Reason, Suits,
    Verdict, defaults, parameters,
};
use crate::model::{GpuTypeSet, JobId, PriorityClass, Time};
use crate::place::Rule;
use crate::rank::Waiting;
use crate::view::{Causes, JobView, Snapshot};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Parameters {
    placement: Rule,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct YarnParameters {
    placement: Rule,
}

impl Default for YarnParameters {
    fn default() -> Self {
        Self { placement: Rule::Yarn }
    }
}

/// Class first, then submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Order(std::cmp::Reverse<PriorityClass>, Time);

impl Rank for Order {}

fn order(view: &JobView, _: bool) -> Order {
    Order(std::cmp::Reverse(view.job.goals.class), view.job.submitted)
}

struct Fifo {
    rule: Rule,
    /// Whether a job that does not fit holds back those behind it.
    strict: bool,
    ranked: Ranked<Order>,
}

impl Fifo {
    fn boxed(rule: Rule, strict: bool) -> Box<dyn Policy> {
        Box::new(Self { rule, strict, ranked: Ranked::placing_by(rule) })
    }

    /// Starts jobs in order until the head of every contended pool is stuck.
    fn fill_in_order(&mut self, seen: &Snapshot) -> Vec<Stuck> {
        let mut stuck: Vec<Stuck> = Vec::new();
        let mut walk = self.ranked.queue.walk();
        while let Some(waiting) = walk.next(&self.ranked.queue) {
            let held_back = stuck.iter().any(|head| head.holds_back(&waiting));
            if held_back {
                continue;
            }
            if self.ranked.start(seen, &waiting.job, self.rule, Reason::Chosen, order) {
                walk.go_on(&self.ranked.queue, &waiting);
            } else {
                stuck.push(Stuck::new(self, &waiting));
            }
        }
        stuck
    }
}

/// A job at the head of the queue that does not fit, and what it waits for.
#[derive(Clone, Copy)]
struct Stuck {
    job: JobId,
    /// The GPU types whose jobs it holds back.
    types: GpuTypeSet,
    /// Whether it also holds back jobs without GPUs.
    cpus_too: bool,
}

impl Stuck {
    fn new(policy: &Fifo, waiting: &Waiting<Order>) -> Self {
        let job = &waiting.job;
        let need = job.shape.minimum();
        let lacks_gpus = policy.ranked.plan.free().whole_gpus(job.wanted.gpu_types) * 1000 < need.gpu_milli;
        let types = if need.gpu_milli > 0 { job.wanted.gpu_types } else { GpuTypeSet::NONE };
        Self { job: job.id, types, cpus_too: !lacks_gpus }
    }

    fn holds_back(&self, waiting: &Waiting<Order>) -> bool {
        if waiting.job.shape.minimum().gpu_milli == 0 {
            return self.cpus_too;
        }
        self.types.overlaps(waiting.job.wanted.gpu_types)
    }
}

impl Policy for Fifo {
    fn cadence(&self) -> Cadence {
        Cadence::OnEvents(Causes::CAPACITY)
    }

    fn decide(&mut self, seen: &Snapshot) -> Decision {
        let changed = self.ranked.follow(seen, order);
        if !self.strict {
            self.ranked.fill(seen, Manner { rule: self.rule, preempts: false }, order);
            return self.ranked.plan.finish();
        }
        let stuck = self.fill_in_order(seen);
        for id in changed {
            if let Some(reason) = self.reason(id, &stuck) {
                self.ranked.plan.say(id, Verdict::Wait(reason));
            }
        }
        self.ranked.plan.finish()
    }

    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.ranked.follow(seen, order);
        let stuck = if self.strict {
            self.fill_in_order(seen)
        } else {
            self.ranked.fill(seen, Manner { rule: self.rule, preempts: false }, order);
            Vec::new()
        };
        match self.reason(job, &stuck) {
            Some(reason) => Verdict::Wait(reason),
            None => self.ranked.explain(seen, job, self.rule),
        }
    }

    fn ahead(&mut self, seen: &Snapshot, job: JobId) -> Ahead {
        self.ranked.follow(seen, order);
        self.ranked.ahead(job)
    }

    fn is_work_conserving(&self) -> bool {
        !self.strict && self.rule.uses_any_room()
    }

    fn is_starvation_free(&self) -> bool {
        self.strict
    }
}

impl Fifo {
    /// Why a job is still waiting after the queue was walked.
    fn reason(&mut self, id: JobId, stuck: &[Stuck]) -> Option<Reason> {
        let key = self.ranked.queue.key(id)?;
        let job = self.ranked.queue.get(id, key)?.clone();
        let shape = 0;
        let waiting = Waiting { key, job, shape };
        let head = stuck.iter().find(|head| head.job != id && head.holds_back(&waiting));
        match head {
            Some(head) if head.job < id || stuck.iter().all(|other| other.job != id) => {
                Some(Reason::Behind { ahead: head.job })
            }
            _ => self.ranked.waits_because(id, self.rule),
        }
    }
}

/// Strict first in, first out.
pub(super) const FIFO: Entry = Entry {
    name: "fifo",
    title: "first in, first out; the head of the queue blocks",
    source: "folklore",
    reads_declared: false,
    suits: Suits::AnyJobs,
    parameters: &[PLACEMENT],
    sizes: false,
    defaults: defaults::<Parameters>,
    build: |given| {
        let Parameters { placement } = parameters("fifo", &[PLACEMENT], given)?;
        Ok::<_, ParameterError>(Fifo::boxed(placement, true))
    },
};

/// First in, first out, where jobs that do not fit are passed by.
pub(super) const FIFO_SKIP: Entry = Entry {
    name: "fifo-skip",
    title: "first in, first out; jobs that do not fit are passed by",
    source: "folklore; `fjf` in the code of Tiresias (NSDI 2019)",
    reads_declared: false,
    suits: Suits::AnyJobs,
    parameters: &[PLACEMENT],
    sizes: false,
    defaults: defaults::<Parameters>,
    build: |given| {
        let Parameters { placement } = parameters("fifo-skip", &[PLACEMENT], given)?;
        Ok::<_, ParameterError>(Fifo::boxed(placement, false))
    },
};

/// The production baseline of Tiresias.
pub(super) const YARN_CS: Entry = Entry {
    name: "yarn-cs",
    title: "strict first in, first out with consolidated placement: YARN's capacity scheduler, one queue",
    source: "Gu et al., Tiresias, NSDI 2019, baseline",
    reads_declared: false,
    suits: Suits::AnyJobs,
    parameters: &[PLACEMENT],
    sizes: false,
    defaults: defaults::<YarnParameters>,
    build: |given| {
        let YarnParameters { placement } = parameters("yarn-cs", &[PLACEMENT], given)?;
        Ok::<_, ParameterError>(Fifo::boxed(placement, true))
    },
};
