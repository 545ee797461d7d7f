//! Shortest job first, with and without preemption.
//!
//! # Idea
//! The job that claims to be done soonest goes first. With preemption this minimises the mean completion
//! time on one machine; on many it is a strong rule of thumb.
//!
//! # Source
//! Schrage, 1968; `shortest` and `shortest-gpu` in the code of Tiresias (NSDI 2019).
//!
//! # What it sees
//! What jobs *declare*. Whether that is exact, noisy or absent is the workload's affair; a job that
//! declares nothing goes after all that do, in the order of submission.
//!
//! # Parameters
//! `by`: `time` ranks by remaining time, `gpu_time` by remaining time times GPUs. `placement`: the rule.
//! `ties`: `submission` goes by submission; `as_coded` (with `gpu_time`) follows the public code's stable
//! sort, in which of two jobs that become equal the one stays ahead that was ahead, that is the one
//! whose rank falls more slowly.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use crate::decide::{
    Ahead, Cadence, Decision, Entry, Manner, PLACEMENT, Parameter, Policy, Rank, Ranked, Suits, Verdict,
    chosen, defaults, parameters,
};
use crate::model::{JobId, PriorityClass, Time};
use crate::place::Rule;
use crate::view::{Causes, JobView, Snapshot};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum By {
    #[default]
    Time,
    GpuTime,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ties {
    #[default]
    Submission,
    AsCoded,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Parameters {
    by: By,
    placement: Rule,
    ties: Ties,
}

/// What their parameters mean and may be.
const PARAMETERS: &[Parameter] = &[
    chosen(
        "by",
        &["time", "gpu_time"],
        "what has to be short: the remaining time, or that times the GPUs of the smallest gang",
    ),
    PLACEMENT,
    chosen(
        "ties",
        &["submission", "as_coded"],
        "who goes first of equals: the earlier submitted, or as in the code of Tiresias",
    ),
];

/// Class first, then remaining time, then submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Order {
    class: Reverse<PriorityClass>,
    /// What remains in microseconds (times GPUs); or, for a running job ranked by time, the time when
    /// nothing will.
    remaining: u64,
    /// Breaks ties before submission does.
    behind: u32,
    submitted: Time,
    falls: bool,
}

const UNKNOWN: u64 = u64::MAX;

impl Rank for Order {
    fn at(self, now: Time) -> Self {
        if self.falls {
            Self { remaining: self.remaining.saturating_sub(now.0), falls: false, ..self }
        } else {
            self
        }
    }
}

/// Shortest job first.
struct Shortest {
    by: By,
    ties: Ties,
    manner: Manner,
    /// Jobs that arrived with the previous decision and are still behind their equals.
    newcomers: Vec<JobId>,
    ranked: Ranked<Order>,
}

impl Shortest {
    fn boxed(Parameters { by, placement, ties }: Parameters, preempts: bool) -> Box<dyn Policy> {
        let manner = Manner { rule: placement, preempts };
        Box::new(Self { by, ties, manner, newcomers: Vec::new(), ranked: Ranked::placing_by(placement) })
    }

    fn order(by: By, ties: Ties, now: Time, view: &JobView, runs: bool) -> Order {
        let class = Reverse(view.job.goals.class);
        let submitted = view.job.submitted;
        let left = view.declared_remaining(now);
        let gpus = view.job.shape.minimum().gpu_milli.div_ceil(1000).max(1);
        let end = if runs && by == By::Time { view.declared_end() } else { None };
        let (remaining, falls) = match (left, by) {
            (None, _) => (UNKNOWN, false),
            // What has a target and does not train yet, or no more, does not come nearer to its end.
            _ if end.is_some() => (end.map_or(UNKNOWN, |end| end.0), true),
            (Some(left), By::Time) => (left.0, false),
            (Some(left), By::GpuTime) => (left.0.saturating_mul(gpus), false),
        };
        let behind = match ties {
            Ties::Submission => 0,
            // In one decision a job keeps the place that it had when the decision began.
            Ties::AsCoded if view.target.is_some() => gpus as u32,
            Ties::AsCoded if view.served.arrived == now => u32::MAX,
            Ties::AsCoded => 0,
        };
        Order { class, remaining, behind, submitted, falls }
    }

    /// Brings all ranks in step with the snapshot.
    fn follow(&mut self, seen: &Snapshot) {
        let (by, ties, now) = (self.by, self.ties, seen.at);
        let order = |view: &JobView, runs: bool| Self::order(by, ties, now, view, runs);
        let changed = self.ranked.follow(seen, order);
        if by == By::GpuTime && self.manner.preempts {
            // Jobs of different size fall at different speeds, so all running ones are ranked anew.
            let running: Vec<JobId> = self.ranked.running().map(|(_, id)| id).collect();
            for id in running {
                let view = seen.job(id).expect("a running job is in the snapshot");
                self.ranked.rerank_running(id, order(view, true));
            }
        }
        if ties == Ties::AsCoded {
            for id in std::mem::replace(&mut self.newcomers, changed) {
                if let (Some(_), Some(view)) = (self.ranked.queue.key(id), seen.job(id)) {
                    self.ranked.queue.insert(order(view, false), &view.job);
                }
            }
        }
    }

    fn fill(&mut self, seen: &Snapshot) {
        self.follow(seen);
        let (by, ties, now) = (self.by, self.ties, seen.at);
        self.ranked.fill(seen, self.manner, |view, runs| Self::order(by, ties, now, view, runs));
    }
}

impl Policy for Shortest {
    fn cadence(&self) -> Cadence {
        Cadence::OnEvents(Causes::CAPACITY)
    }

    fn decide(&mut self, seen: &Snapshot) -> Decision {
        self.fill(seen);
        self.ranked.plan.finish()
    }

    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.fill(seen);
        self.ranked.explain(seen, job, self.manner.rule)
    }

    fn ahead(&mut self, seen: &Snapshot, job: JobId) -> Ahead {
        self.follow(seen);
        self.ranked.ahead(job)
    }

    fn is_work_conserving(&self) -> bool {
        self.manner.rule.uses_any_room()
    }
}

/// Shortest remaining time first.
pub(super) const SRTF: Entry = Entry {
    name: "srtf",
    title: "shortest remaining time first, with preemption, by what jobs declare",
    source: "Schrage 1968; `shortest` in the code of Tiresias (NSDI 2019)",
    reads_declared: true,
    suits: Suits::AnyJobs,
    parameters: PARAMETERS,
    sizes: false,
    defaults: defaults::<Parameters>,
    build: |given| Ok(Shortest::boxed(parameters("srtf", PARAMETERS, given)?, true)),
};

/// Shortest job first.
pub(super) const SJF: Entry = Entry {
    name: "sjf",
    title: "shortest job first, without preemption, by what jobs declare",
    source: "folklore",
    reads_declared: true,
    suits: Suits::AnyJobs,
    parameters: PARAMETERS,
    sizes: false,
    defaults: defaults::<Parameters>,
    build: |given| Ok(Shortest::boxed(parameters("sjf", PARAMETERS, given)?, false)),
};
