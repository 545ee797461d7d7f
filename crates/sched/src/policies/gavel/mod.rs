//! Gavel: policies for clusters of several types of GPUs, as programs whose answer is a share of time for each job on each
//! type, and rounds in which jobs get these shares.
//!
//! # Idea
//! A policy works out for each job the share of time that it is owed on each type of GPUs (`allocation`). In every round
//! those go first whose share is largest beside the part of the time that they had, so over many rounds each gets what it
//! is owed (section 5, Algorithm 1).
//!
//! # Source
//! Narayanan et al., OSDI 2020, and its public code (repository stanford-futuredata/gavel, commit c4fa400). Each file says
//! where we differ.
//!
//! # What it sees
//! Rates by GPU type, iterations that are left, weights, deadlines, and how long jobs have held GPUs.
//!
//! # Parameters
//! See `parameters`. Those of `compatibility` make rounds go as in the public simulator, with all that is odd there: shares
//! are worked out at most every 1,920 s, a job that arrived since is chosen and not placed, a round ends with its last
//! job's iterations, and types are filled one after the other.
//!
//! `allox` and `gandiva` are other policies in the same rounds, as the public code has them.
//!
//! # Where we differ
//! Shares are worked out whenever jobs came or went, so a new job can run in the next round. When nothing runs any more,
//! the next round begins at once. Jobs that no share of one type describes (task graphs, gangs of several types or without
//! GPUs) go first, in the order of arrival, and run to their end. A job that may not be moved, or would lose all that it did if it were stopped,
//! keeps what it has; its GPUs are not shared out. The part of the time that a job had is counted among those that are still there. Where a job is owed
//! nothing, it still runs if GPUs would idle otherwise, as coded; not so in `fifo` and `shortest_job_first`. GPUs that
//! become free inside a round wait for the next one, as in the paper, unless `start_at_events` says otherwise. Should a
//! program not be solved, jobs share equally, as coded for finish-time fairness, and their reasons say so. A share below a
//! millionth is none. Jobs that may not be moved share GPUs with nobody. Where not all deadlines can be kept, as many as
//! can be are, those first that take the least part of their time; as coded none is. A type of which nothing is known
//! counts as those of which something is. `allox` owes gangs of several GPUs nothing, as coded: they run on GPUs that
//! nobody else wants, and are told so. With `compatibility` the shares of `makespan` are those at which the public solver
//! ends (`solve::blocks::within`); those of other objectives lie in the middle of all best ones, which is near where it
//! ends.

pub mod allocation;
mod answer;
pub mod checks;
mod deadlines;
mod members;
mod notes;
mod pairs;
mod parameters;
mod placing;
mod rounds;
mod saying;
mod shares;

use std::collections::BTreeSet;

use crate::decide::{
    Abilities, Ahead, Cadence, Decision, Entry, ParameterError, Plan, Policy, Suits, Verdict, defaults,
    parameters as read,
};
use crate::model::{Cluster, JobId, Time};
use crate::place::Rule;
use crate::solve::Unsolved;
use crate::view::{Causes, Snapshot};

use allocation::{Parting, Problem};
use answer::Answer;
use members::Members;
use notes::Round;
use parameters::{AlloxParameters, GandivaParameters, Given, Objective, Parameters, Prices, Rounds};
use rounds::Now;

/// What shares are worked out by.
#[derive(Clone, Copy, Debug)]
enum Goal {
    /// An objective of Gavel.
    Objective(Parameters),
    /// An assignment of jobs to GPUs.
    Allox {
        /// The share of waiting jobs that is looked at.
        alpha: f64,
    },
    /// Random pairs.
    Gandiva(Parting),
}

struct Gavel {
    goal: Goal,
    rounds: Rounds,
    plan: Plan,
    members: Members,
    round: Round,
    /// What was given of prices, and what that comes to for the types of the cluster.
    given_prices: Prices,
    prices: Vec<f64>,
    /// Jobs about which nothing was said that holds in a round.
    unsaid: BTreeSet<JobId>,
    /// How shares are worked out. Tests put something else in its place.
    work_out: WorkOut,
}

/// Works out shares of a problem, whose jobs are those members in that order.
type WorkOut = fn(&Gavel, &Snapshot, &Now<'_>, &[usize], &Problem) -> Result<Answer, Unsolved>;

/// Prices in dollars for an hour of a GPU that hold where none are given, by type of the cluster.
pub fn prices(cluster: &Cluster) -> Vec<f64> {
    Prices::default().of(cluster)
}

impl Gavel {
    fn new(goal: Goal, given: Rounds) -> Self {
        let rounds = given.effective();
        Self {
            goal,
            rounds,
            plan: Plan::default(),
            members: Members::new(rounds.placement),
            round: Round::default(),
            given_prices: Prices::default(),
            prices: Vec::new(),
            unsaid: BTreeSet::new(),
            work_out: Self::work_out,
        }
    }

    /// Whether types are filled in any order, since they are taken to be alike; as coded, not where jobs are packed.
    const fn is_blind(&self) -> bool {
        match self.goal {
            Goal::Objective(given) => {
                (!given.aware || matches!(given.objective, Objective::Isolated)) && !given.packed
            }
            Goal::Allox { .. } | Goal::Gandiva(_) => false,
        }
    }

    /// Whether nobody goes before a job that is ahead, even if GPUs idle.
    const fn keeps_order(&self) -> bool {
        match self.goal {
            Goal::Objective(given) => {
                matches!(given.objective, Objective::Fifo | Objective::ShortestJobFirst)
            }
            Goal::Allox { .. } | Goal::Gandiva(_) => false,
        }
    }

    /// Whether jobs may share GPUs.
    const fn packs(&self) -> bool {
        match self.goal {
            Goal::Objective(given) => given.packed,
            Goal::Allox { .. } => false,
            Goal::Gandiva(_) => true,
        }
    }

    /// Whether gangs that are close together are told from those that are spread.
    const fn is_by_place(&self) -> bool {
        match self.goal {
            Goal::Objective(given) => given.by_place,
            Goal::Allox { .. } | Goal::Gandiva(_) => false,
        }
    }

    /// How nodes are chosen for gangs on a column.
    fn rule_of(&self, column: usize) -> Rule {
        let is_close = self.is_by_place() && !self.members.columns[column].is_spread;
        if is_close { Rule::Consolidate } else { self.rounds.placement }
    }

    /// Brings all in step with a snapshot; returns the jobs to look at.
    fn follow(&mut self, seen: &Snapshot) -> Vec<JobId> {
        let news = self.plan.follow(seen);
        let by_place = self.is_by_place();
        self.members.follow(seen, &news.jobs, news.rebuilt, by_place);
        self.round = Round::of_note(&seen.note);
        if news.rebuilt {
            self.prices = self.given_prices.of(&seen.cluster);
            self.unsaid = news.jobs.iter().copied().collect();
        } else {
            self.unsaid.retain(|id| seen.job(*id).is_some());
            self.unsaid.extend(news.jobs.iter().filter(|id| seen.job(**id).is_some()));
        }
        news.jobs
    }

    fn is_round_over(&self, seen: &Snapshot) -> bool {
        let runs = self.members.all.iter().any(|member| member.is_gang() && member.on.is_some());
        let is_late = seen.at >= self.round.ends && !self.waits_for_last(seen);
        !runs || is_late || self.round.began.is_none() || self.round.ends == Time::NEVER
    }
}

impl Policy for Gavel {
    fn cadence(&self) -> Cadence {
        Cadence::OnEvents(Causes::CAPACITY)
    }

    fn needs(&self) -> Abilities {
        if self.packs() { Abilities::SHARED_GPUS } else { Abilities::NONE }
    }

    fn decide(&mut self, seen: &Snapshot) -> Decision {
        let news = self.follow(seen);
        if self.is_round_over(seen) {
            self.begin_round(seen);
        } else {
            self.go_on(seen, &news);
        }
        let mut decision = self.plan.finish();
        let note = self.round.to_note();
        decision.note = (note != seen.note).then_some(note);
        decision
    }

    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        if let Some(verdict) = self.decide(seen).verdict_on(job) {
            return verdict;
        }
        let i = self.members.find(job).expect("the job is in the snapshot");
        self.verdict(i, &Now::of(seen))
    }

    fn ahead(&mut self, seen: &Snapshot, job: JobId) -> Ahead {
        let order = self.order_of_waiting(seen);
        let own = order.iter().position(|id| *id == job).unwrap_or(0);
        Ahead { jobs: order[..own].to_vec(), is_total: true }
    }
}

/// Gavel's policies.
pub(super) const GAVEL: Entry = Entry {
    name: "gavel",
    title: "shares of time on each GPU type by an objective, given out in rounds",
    source: "Narayanan et al., OSDI 2020",
    reads_declared: true,
    suits: Suits::AnyJobs,
    parameters: &parameters::GAVEL,
    sizes: false,
    defaults: defaults::<Given>,
    build: |given| {
        let Given { parameters, prices } = read("gavel", &parameters::GAVEL, given)?;
        if let Some(message) = parameters.refusal() {
            return Err(ParameterError::BadValue { policy: "gavel", message });
        }
        let gavel = Gavel::new(Goal::Objective(parameters.effective()), parameters.rounds);
        Ok(Box::new(Gavel { given_prices: prices, ..gavel }))
    },
};

/// AlloX.
pub(super) const ALLOX: Entry = Entry {
    name: "allox",
    title: "jobs of one GPU are assigned to GPUs for the least mean completion time, in Gavel's rounds",
    source: "Le et al., AlloX, EuroSys 2020; as a baseline of Gavel (2020)",
    reads_declared: true,
    suits: Suits::OneGpu,
    parameters: &parameters::ALLOX,
    sizes: false,
    defaults: defaults::<AlloxParameters>,
    build: |given| {
        let AlloxParameters { alpha, rounds } = read("allox", &parameters::ALLOX, given)?;
        Ok(Box::new(Gavel::new(Goal::Allox { alpha }, rounds)))
    },
};

/// Gandiva.
pub(super) const GANDIVA: Entry = Entry {
    name: "gandiva",
    title: "equal time for all, with jobs in random pairs on the same GPUs while that pays, in Gavel's rounds",
    source: "Xiao et al., Gandiva, OSDI 2018; as a baseline of Gavel (2020)",
    reads_declared: true,
    suits: Suits::AnyJobs,
    parameters: &parameters::GANDIVA,
    sizes: false,
    defaults: defaults::<GandivaParameters>,
    build: |given| {
        let GandivaParameters { parting, rounds } = read("gandiva", &parameters::GANDIVA, given)?;
        Ok(Box::new(Gavel::new(Goal::Gandiva(parting), rounds)))
    },
};
