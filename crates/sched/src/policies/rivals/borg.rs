//! Fair shares as TensorFlow had them on Borg: one more replica to the job that holds least (`borg`).
//!
//! # Idea
//! While there is room, the job with the smallest dominant share that still wants something gets one more unit, on the nodes
//! with most free GPUs (worst fit). Whoever has something keeps it to its end.
//!
//! # Source
//! Named "TensorFlow" by Wang, Liu and Shen (MLFS, CoNEXT 2020, section 4.1), with nothing but "fairness of resource
//! allocation among jobs". The rest is recalled of Borg (Verma et al., EuroSys 2015) and of dominant shares (Ghodsi et al.,
//! NSDI 2011).
//!
//! # What it sees
//! What jobs demand and hold.
//!
//! # Parameters
//! `placement`: the rule; worst fit is `spread`. `round_s`: how often the queue is looked at when nothing happens.
//!
//! # Where we differ
//! A unit is what trains by itself: a complete replica of a graph, the first together with its parameter servers; the whole
//! graph where it makes no progress in parts; a worker of an elastic gang, after its smallest gang. Handing out single tasks
//! by least share would give every waiting job one task that cannot train. A job's weight divides its share. Higher priority
//! classes start before lower ones. Tenants are not looked at.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use serde::{Deserialize, Serialize};

use crate::decide::{Entry, PLACEMENT, Parameter, ROUND_S, Reason, Suits, Verdict, defaults, parameters};
use crate::model::{Job, JobId, PriorityClass, Resources, Time};
use crate::place::Rule;
use crate::rank::ordered;
use crate::view::Snapshot;

use super::desk::{Desk, Least, by_submission, can_change, grow, is_elastic, more_of};
use super::seat::{Rival, Seated};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Parameters {
    placement: Rule,
    round_s: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { placement: Rule::Spread, round_s: 60.0 }
    }
}

/// What its parameters mean and may be.
const PARAMETERS: &[Parameter] = &[PLACEMENT, ROUND_S];

/// Who gets the next unit: class, share per weight, submission, number.
type Claim = (Reverse<PriorityClass>, u64, Time, JobId);

struct Borg {
    parameters: Parameters,
    desk: Desk,
    /// Jobs with a target that can have more than their least.
    elastic: BTreeSet<JobId>,
    total: Resources,
}

impl Borg {
    fn new(parameters: Parameters) -> Self {
        let desk = Desk::new(parameters.placement, Least::Replica, by_submission);
        Self { parameters, desk, elastic: BTreeSet::new(), total: Resources::NONE }
    }

    fn follow(&mut self, seen: &Snapshot) {
        let (rebuilt, changed) = self.desk.follow(seen);
        if rebuilt {
            self.elastic.clear();
        }
        if rebuilt || !seen.changed.nodes.is_empty() {
            self.total = seen.cluster.total();
        }
        for id in changed {
            self.elastic.remove(&id);
            let has_target = self.desk.plan.target(id).is_some();
            if seen.job(id).is_some_and(|view| has_target && is_elastic(&view.job)) {
                self.elastic.insert(id);
            }
        }
    }

    fn claim(&self, job: &Job) -> Claim {
        let held = self.desk.plan.target(job.id).map(|target| target.resources(&job.shape));
        let share = held.unwrap_or_default().dominant_share(&self.total) / job.goals.weight;
        (Reverse(job.goals.class), ordered(share), job.submitted, job.id)
    }

    /// One more unit to the job with the least share, until nobody wants more or none fits.
    fn grow(&mut self, seen: &Snapshot) {
        let may_grow = |id: &JobId| {
            let view = seen.job(*id).expect("a job with a target is in the snapshot");
            (view.target.is_none() || can_change(view)).then_some(&view.job)
        };
        let mut claims: BinaryHeap<Reverse<Claim>> =
            self.elastic.iter().filter_map(may_grow).map(|job| Reverse(self.claim(job))).collect();
        while let Some(Reverse((.., id))) = claims.pop() {
            let job = &seen.job(id).expect("a job with a target is in the snapshot").job;
            let Some(more) = more_of(&self.desk.plan, job) else { continue };
            if grow(&mut self.desk.plan, job, &more, self.parameters.placement) {
                self.desk.plan.say(id, Verdict::Run(Reason::Chosen));
                claims.push(Reverse(self.claim(job)));
            }
        }
    }
}

impl Rival for Borg {
    fn desk(&mut self) -> &mut Desk {
        &mut self.desk
    }

    fn round_s(&self) -> f64 {
        self.parameters.round_s
    }

    fn arrange(&mut self, seen: &Snapshot) {
        self.follow(seen);
        // Nobody holds less than those who hold nothing.
        for (_, job) in self.desk.hopeful() {
            if self.desk.start(&job) && is_elastic(&job) {
                self.elastic.insert(job.id);
            }
        }
        self.grow(seen);
    }

    fn is_work_conserving(&self) -> bool {
        self.parameters.placement.uses_any_room()
    }
}

/// Fair shares by dominant share, worst fit, without preemption.
pub(in super::super) const ENTRY: Entry = Entry {
    name: "borg",
    title: "the next replica to the job with the smallest dominant share, on the emptiest nodes; nothing is taken back",
    source: "\"TensorFlow\" in Wang et al., MLFS, CoNEXT 2020",
    reads_declared: false,
    suits: Suits::AnyJobs,
    parameters: PARAMETERS,
    sizes: true,
    defaults: defaults::<Parameters>,
    build: |given| Ok(Box::new(Seated(Borg::new(parameters("borg", PARAMETERS, given)?)))),
};
