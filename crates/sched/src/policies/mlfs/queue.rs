//! The queue: what waits, in the order of the priorities of its tasks (MLFS, section 3.3.3).
//!
//! What stands in it is what makes progress only as a whole: a job, or a replica of one that runs with some of its replicas.
//! It stands where its first task would. Tasks one by one would, under load, take room for the first tasks of many jobs and
//! complete none.

use std::cmp::{Ordering, Reverse};

use crate::model::{JobId, PriorityClass, TaskId};
use crate::view::{JobView, Phase, Snapshot};

use super::member::Member;
use super::parameters::{Parameters, RankBy};
use super::priority::{OfTask, Parts, Weights};
use super::standing::{of_job, of_tasks};

/// Where something stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) class: PriorityClass,
    /// Whether a parameter server leads it that goes before everything else.
    pub(super) leads: bool,
    pub(super) priority: f64,
    pub(super) waited: f64,
    pub(super) job: JobId,
    /// Replicas of a job in their order.
    pub(super) place: u32,
}

impl Ord for Key {
    /// What goes first is less.
    fn cmp(&self, other: &Self) -> Ordering {
        Reverse((self.class, self.leads))
            .cmp(&Reverse((other.class, other.leads)))
            .then_with(|| other.priority.total_cmp(&self.priority))
            .then_with(|| other.waited.total_cmp(&self.waited))
            .then_with(|| (self.job, self.place).cmp(&(other.job, other.place)))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key {}

/// What stands in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// A job as a whole.
    Job,
    /// A replica, by its position among those of the job.
    Replica(usize),
    /// A task that is to leave an overloaded node, by its position among these.
    Leaving(usize),
}

/// The priorities of the tasks of some jobs.
#[derive(Debug, Default)]
pub(super) struct Ranking {
    /// The jobs in ascending order, with where their tasks begin.
    jobs: Vec<(JobId, usize)>,
    priorities: Vec<f64>,
    waited: Vec<f64>,
    parts: Vec<Parts>,
}

impl Ranking {
    /// Ranks the tasks of these jobs, given in ascending order.
    pub(super) fn of<'a>(
        seen: &Snapshot,
        jobs: impl Iterator<Item = (&'a JobView, &'a Member)> + Clone,
        parameters: &Parameters,
    ) -> Self {
        let (weights, mut ranking) = (parameters.weights(), Self::default());
        let mut tasks: Vec<OfTask> = Vec::new();
        for (view, member) in jobs.clone() {
            let begins = ranking.parts.len();
            ranking.jobs.push((view.id(), begins));
            let own = of_job(view, seen.at, parameters);
            tasks.clear();
            of_tasks(view, member, seen.at, parameters, &mut |task| tasks.push(task));
            ranking.waited.extend(tasks.iter().map(|task| task.waited));
            match parameters.rank_by {
                RankBy::Priority => {
                    ranking.parts.extend(tasks.iter().map(|task| weights.base(&own, task)));
                    weights.add_dependents(member.graph(), &mut ranking.parts[begins..]);
                }
                RankBy::Finishing => {
                    let worth = |task: &OfTask| own.urgency * task.remaining.map_or(0.0, |left| 1.0 / left);
                    let part = |task: &OfTask| worth(task) + weights.waiting * task.waited;
                    ranking
                        .parts
                        .extend(tasks.iter().map(|task| Parts { learning: 0.0, computing: part(task) }));
                }
            }
        }
        if parameters.rank_normalised {
            ranking.normalise();
        }
        ranking.weigh(seen, jobs, parameters, &weights);
        ranking
    }

    /// Replaces both parts of all priorities by their ranks, from 0 to 1; equal ones have the lowest rank of theirs.
    fn normalise(&mut self) {
        let most = self.parts.len().saturating_sub(1).max(1) as f64;
        const fn learning(parts: &mut Parts) -> &mut f64 {
            &mut parts.learning
        }
        const fn computing(parts: &mut Parts) -> &mut f64 {
            &mut parts.computing
        }
        for part in [learning, computing] {
            let mut order: Vec<(f64, usize)> =
                self.parts.iter_mut().enumerate().map(|(i, parts)| (*part(parts), i)).collect();
            order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            let mut first = 0;
            for at in 0..order.len() {
                if order[at].0 > order[first].0 {
                    first = at;
                }
                *part(&mut self.parts[order[at].1]) = first as f64 / most;
            }
        }
    }

    /// Makes priorities of both parts, and lets parameter servers go with the first worker of their job.
    fn weigh<'a>(
        &mut self,
        seen: &Snapshot,
        jobs: impl Iterator<Item = (&'a JobView, &'a Member)>,
        parameters: &Parameters,
        weights: &Weights,
    ) {
        for (view, member) in jobs {
            let begins = self.priorities.len();
            let own = of_job(view, seen.at, parameters);
            for parts in &self.parts[begins..begins + member.tasks()] {
                let total = match parameters.rank_by {
                    RankBy::Priority => weights.total(&own, *parts),
                    RankBy::Finishing => parts.computing,
                };
                self.priorities.push(total);
            }
            let Some(graph) = member.graph() else { continue };
            let is_server = |i: &usize| graph.is_server(TaskId(*i as u32));
            let workers = (0..member.tasks()).filter(|i| !is_server(i));
            let first = workers.map(|i| (self.priorities[begins + i], self.waited[begins + i]));
            let first = first.reduce(|best, other| if other > best { other } else { best });
            if let Some((priority, waited)) = first {
                for i in (0..member.tasks()).filter(is_server) {
                    (self.priorities[begins + i], self.waited[begins + i]) = (priority, waited);
                }
            }
        }
    }

    fn begins(&self, job: JobId) -> usize {
        let found = self.jobs.binary_search_by_key(&job, |(id, _)| *id);
        self.jobs[found.expect("the job was ranked")].1
    }

    /// Where something with these tasks stands.
    pub(super) fn key(
        &self,
        member: &Member,
        tasks: impl Iterator<Item = TaskId>,
        place: usize,
        servers_lead: bool,
    ) -> Key {
        let begins = self.begins(member.job.id);
        let (mut priority, mut waited, mut leads) = (f64::NEG_INFINITY, 0.0, false);
        for task in tasks {
            let at = begins + task.index();
            let own = (self.priorities[at], self.waited[at]);
            if own.0.total_cmp(&priority).then(own.1.total_cmp(&waited)).is_gt() {
                (priority, waited) = own;
            }
            leads |= servers_lead && member.graph().is_some_and(|graph| graph.is_server(task));
        }
        let class = member.job.goals.class;
        Key { class, leads, priority, waited, job: member.job.id, place: place as u32 }
    }

    /// Tasks in the order in which they look for a node: by priority, parameter servers before workers of the same.
    pub(super) fn sort(&self, member: &Member, tasks: &mut [TaskId], servers_lead: bool) {
        let begins = self.begins(member.job.id);
        let is_server = |task: &TaskId| member.graph().is_some_and(|graph| graph.is_server(*task));
        tasks.sort_by(|a, b| {
            let of =
                |task: &TaskId| (self.priorities[begins + task.index()], self.waited[begins + task.index()]);
            let ((p, w), (q, v)) = (of(a), of(b));
            let leads = |task: &TaskId| servers_lead && is_server(task);
            Reverse(leads(a))
                .cmp(&Reverse(leads(b)))
                .then_with(|| q.total_cmp(&p))
                .then_with(|| v.total_cmp(&w))
                .then_with(|| Reverse(is_server(a)).cmp(&Reverse(is_server(b))))
                .then_with(|| a.cmp(b))
        });
    }
}

/// Whether a job that holds something may be given more, or something else: it runs, has what it was to have, and may be moved.
pub(super) fn is_settled(view: &JobView) -> bool {
    view.phase == Phase::Running && view.held == view.target && view.job.goals.movable
}

/// What of a job stands in the queue.
pub(super) fn waiting(view: &JobView, member: &Member) -> Vec<What> {
    if !member.goes_by_replica() {
        return if member.target.is_none() { vec![What::Job] } else { Vec::new() };
    }
    if member.target.is_some() && !is_settled(view) {
        return Vec::new();
    }
    let placed = member.placed_replicas();
    (0..placed.len()).filter(|i| !placed[*i]).map(What::Replica).collect()
}

/// The tasks of what stands in the queue that have no place.
pub(super) fn tasks_of(member: &Member, what: What) -> Vec<TaskId> {
    let Some(graph) = member.graph() else { return vec![TaskId(0)] };
    let replica = match what {
        What::Replica(i) => Some(graph.replicas()[i]),
        What::Job | What::Leaving(_) => None,
    };
    let wanted = |task: &TaskId| {
        let own = graph.tasks()[task.index()].replica;
        replica.is_none() || own == replica || (own.is_none() && member.place_of(*task).is_none())
    };
    (0..graph.tasks().len() as u32).map(TaskId).filter(wanted).collect()
}
