//! Tetris: pack by alignment, prefer little remaining work.
//!
//! # Idea
//! Of all jobs that fit now, start the one with the best score: how well its demand lines up with what is
//! free on the node where it would go, minus how much work it has left. Repeat until none fits. Elastic
//! jobs are then filled up by the same score.
//!
//! # Source
//! Grandl et al., Tetris, SIGCOMM 2014, sections 3.2 and 3.3, in the form that DL2 (2019) compares with:
//! score `A - e P` with `A = sum over resources of free times demand`, each as a fraction of the
//! node, `P` the remaining work, and `e = mean(A) / mean(P)` over the candidates.
//!
//! # What it sees
//! Declared run times; a job that declares nothing counts as the mean of the others.
//!
//! # Parameters
//! `placement`: the rule. `faithful`: as in DL2's public code, add the remaining work instead of
//! subtracting it and stop at the first job that does not fit.
//!
//! # Where we differ
//! Candidates are the job with least remaining work of each shape, as all jobs of a shape line up
//! equally; means are over these.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::decide::{
    Ahead, Cadence, Decision, Entry, PLACEMENT, Parameter, Policy, Rank, Ranked, Reason, Suits, Verdict,
    defaults, flagged, parameters,
};
use crate::model::{Allocation, Job, JobId, PriorityClass, Time};
use crate::place::{Ask, Rule};
use crate::rank::Waiting;
use crate::view::{Causes, JobView, Snapshot};

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Parameters {
    placement: Rule,
    faithful: bool,
}

/// What its parameters mean and may be.
const PARAMETERS: &[Parameter] = &[
    PLACEMENT,
    flagged(
        "faithful",
        "add remaining work to the score, as the public code of DL2 does, instead of taking it off",
    ),
];

/// Class, remaining time in microseconds, submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Order(Reverse<PriorityClass>, u64, Time);

impl Rank for Order {}

const UNKNOWN: u64 = u64::MAX;

fn order(now: Time, view: &JobView) -> Order {
    let left = view.declared_remaining(now).map_or(UNKNOWN, |left| left.0);
    Order(Reverse(view.job.goals.class), left, view.job.submitted)
}

struct Tetris {
    parameters: Parameters,
    ranked: Ranked<Order>,
}

/// A job that fits now, with the two halves of its score.
struct Candidate {
    waiting: Waiting<Order>,
    alignment: f64,
    work: Option<f64>,
}

impl Tetris {
    /// How well a placement lines up with what is free on its nodes, before it is taken.
    fn alignment(&self, seen: &Snapshot, job: &Job, placed: &Allocation) -> f64 {
        let fraction = |amount: u64, whole: u64| {
            if whole == 0 || whole == crate::model::UNLIMITED { 0.0 } else { amount as f64 / whole as f64 }
        };
        let of_node = |p: &crate::model::Placement| {
            let holds = seen.cluster.node(p.node).holds.amounts();
            let free = self.ranked.plan.free().room(p.node).amounts();
            let demand = job.shape.demand_of(p.task).unwrap_or_default().times(u64::from(p.count)).amounts();
            (0..4).map(|i| fraction(free[i], holds[i]) * fraction(demand[i], holds[i])).sum::<f64>()
        };
        placed.placements().iter().map(of_node).sum()
    }

    /// Remaining work: the share of the cluster it takes times the time it claims to take.
    fn work(seen: &Snapshot, waiting: &Waiting<Order>) -> Option<f64> {
        let Order(_, left, _) = waiting.key;
        let total = seen.cluster.total();
        let share: f64 = waiting
            .job
            .shape
            .minimum()
            .amounts()
            .iter()
            .zip(total.amounts())
            .filter(|(_, whole)| *whole > 0 && *whole != crate::model::UNLIMITED)
            .map(|(amount, whole)| *amount as f64 / whole as f64)
            .sum();
        (left != UNKNOWN).then(|| share * left as f64 / 1e6)
    }

    fn candidates(&self, seen: &Snapshot, stuck: &mut BTreeSet<usize>) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        let heads: Vec<Waiting<Order>> =
            self.ranked.queue.heads().filter(|head| !stuck.contains(&head.shape)).collect();
        let first_class = heads.iter().map(|head| head.key.0).min();
        for waiting in heads.into_iter().filter(|head| Some(head.key.0) == first_class) {
            let ask = Ask::minimum(&waiting.job.shape, &waiting.job.wanted);
            // Capacity only shrinks within a decision, so what does not fit now is out.
            let Some(placed) = self.ranked.plan.free().clone().place(self.parameters.placement, &ask) else {
                stuck.insert(waiting.shape);
                continue;
            };
            let alignment = self.alignment(seen, &waiting.job, &placed);
            let work = Self::work(seen, &waiting);
            candidates.push(Candidate { waiting, alignment, work });
        }
        candidates
    }

    /// The best of the candidates; ties go to the earlier submission.
    fn best(&self, candidates: Vec<Candidate>) -> Option<Waiting<Order>> {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let alignments: Vec<f64> = candidates.iter().map(|c| c.alignment).collect();
        let works: Vec<f64> = candidates.iter().filter_map(|c| c.work).collect();
        let mean_work = mean(&works);
        let weight = if mean_work > 0.0 { mean(&alignments) / mean_work } else { 0.0 };
        let sign = if self.parameters.faithful { -1.0 } else { 1.0 };
        let score = |c: &Candidate| c.alignment - sign * weight * c.work.unwrap_or(mean_work);
        let later = |c: &Candidate| Reverse((c.waiting.key.2, c.waiting.job.id));
        candidates
            .into_iter()
            .max_by(|a, b| score(a).total_cmp(&score(b)).then(later(a).cmp(&later(b))))
            .map(|c| c.waiting)
    }

    fn fill(&mut self, seen: &Snapshot) {
        let now = seen.at;
        self.ranked.follow(seen, |view, _| order(now, view));
        let mut stuck = BTreeSet::new();
        let mut aside = Vec::new();
        loop {
            let before = stuck.len();
            let candidates = self.candidates(seen, &mut stuck);
            let misfit = stuck.len() > before;
            if self.parameters.faithful && misfit {
                break;
            }
            let Some(waiting) = self.best(candidates) else {
                if misfit {
                    // The first class is stuck; the next one may still fit.
                    continue;
                }
                break;
            };
            let rule = self.parameters.placement;
            let rank = |view: &JobView, _: bool| order(now, view);
            let started = self.ranked.start(seen, &waiting.job, rule, Reason::Chosen, rank);
            if !started {
                // It keeps away from the node that would fit, which says nothing about others of its shape.
                self.ranked.queue.remove(waiting.job.id);
                aside.push(waiting);
            }
        }
        for waiting in aside {
            self.ranked.queue.insert(waiting.key, &waiting.job);
        }
        self.grow(seen);
    }

    /// Elastic jobs take what is left, the least remaining work first.
    fn grow(&mut self, seen: &Snapshot) {
        let elastic = |job: &Arc<Job>| job.shape.data_parallel().is_some_and(|s| !s.workers.is_fixed());
        let mut able: Vec<(Order, JobId)> = self
            .ranked
            .plan
            .running()
            .filter(|(_, job, _)| elastic(job) && job.goals.movable)
            .filter_map(|(id, _, _)| Some((order(seen.at, seen.job(id)?), id)))
            .collect();
        able.sort_unstable();
        for (_, id) in able {
            let mut grew = false;
            while self.ranked.plan.grow(id, self.parameters.placement) {
                grew = true;
            }
            if grew {
                self.ranked.plan.say(id, Verdict::Run(Reason::Chosen));
            }
        }
    }
}

impl Policy for Tetris {
    fn cadence(&self) -> Cadence {
        Cadence::OnEvents(Causes::CAPACITY)
    }

    fn decide(&mut self, seen: &Snapshot) -> Decision {
        self.fill(seen);
        self.ranked.explain_news(self.parameters.placement);
        self.ranked.plan.finish()
    }

    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.fill(seen);
        self.ranked.explain(seen, job, self.parameters.placement)
    }

    /// Scores depend on what is free, so only jobs of one shape stand in an order.
    fn ahead(&mut self, seen: &Snapshot, job: JobId) -> Ahead {
        let now = seen.at;
        self.ranked.follow(seen, |view, _| order(now, view));
        Ahead { jobs: self.ranked.queue.ahead_alike(job), is_total: false }
    }

    fn is_work_conserving(&self) -> bool {
        self.parameters.placement.uses_any_room()
    }
}

/// Packing by alignment.
pub(super) const ENTRY: Entry = Entry {
    name: "tetris",
    title: "multi-resource packing by alignment, less remaining work first",
    source: "Grandl et al., Tetris, SIGCOMM 2014",
    reads_declared: true,
    suits: Suits::AnyJobs,
    parameters: PARAMETERS,
    sizes: true,
    defaults: defaults::<Parameters>,
    build: |given| {
        let parameters: Parameters = parameters("tetris", PARAMETERS, given)?;
        let ranked = Ranked::placing_by(parameters.placement);
        Ok(Box::new(Tetris { parameters, ranked }))
    },
};
