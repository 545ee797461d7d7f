//! Sharing: whoever has least of what is theirs goes next (`fair` and `drf`).
//!
//! # Idea
//! Progressive filling. Tenants are asked in the order of their share of the cluster divided by their
//! weight, at each level of the tree of tenants; inside a tenant jobs go by priority class and
//! submission. The first whose next job fits gets it, and the order is looked at again. When no waiting
//! job fits, elastic jobs grow by one worker at a time, again by least share. Running gangs of fixed
//! size are left alone. A tenant whose guaranteed quota is not used up takes back what others borrowed:
//! from tenants over their own guarantee, the jobs that lose least work first.
//!
//! # Source
//! DRF: Ghodsi et al., NSDI 2011, section 4.1. Fair sharing with one resource: Demers et al., SIGCOMM
//! 1989; the equal split of SLAQ's baseline (SoCC 2017) is what growing by single workers comes to.
//!
//! # What it sees
//! What everybody holds, weights, quotas. Not what jobs declare.
//!
//! # Parameters
//! `placement`: the rule. `reclaim`: whether guaranteed quotas are taken back by preemption.
//! `stop_at_misfit`: stop at the first job that does not fit, as the DRF of DL2's public code does.
//!
//! # Where we differ
//! A job of fixed size counts with all that it holds; DRF's paper has many small tasks. An owner with
//! weight 0 is served after all others. A job of which workers take nothing that nodes keep count of is given no more of them
//! than `MOST_UNITS`.

mod growing;
mod ledger;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::decide::{
    Abilities, Ahead, Cadence, Decision, Entry, PLACEMENT, Parameter, Plan, Policy, Reason, Suits, Verdict,
    defaults, flagged, parameters,
};
use crate::model::{Allocation, Job, JobId, PriorityClass, Resources, TenantId, Time};
use crate::place::Rule;
use crate::rank::{Queue, Shape};
use crate::view::{Causes, JobView, Snapshot};

use growing::{Growing, Growth};
use ledger::Accounts;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Parameters {
    placement: Rule,
    reclaim: bool,
    stop_at_misfit: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { placement: Rule::Pack, reclaim: true, stop_at_misfit: false }
    }
}

/// What their parameters mean and may be.
const PARAMETERS: &[Parameter] = &[
    PLACEMENT,
    flagged("reclaim", "take back guaranteed quotas by preemption"),
    flagged("stop_at_misfit", "stop at the first job that does not fit, as the public code of DL2 does"),
];

type Order = (Reverse<PriorityClass>, Time);

/// What fraction of the cluster an amount is.
type Measure = fn(&Resources, &Resources) -> f64;

/// Fair sharing counts GPUs, and CPUs for those who hold no GPU.
fn one_resource(held: &Resources, total: &Resources) -> f64 {
    let only = if held.gpu_milli > 0 {
        Resources { gpu_milli: held.gpu_milli, ..Resources::NONE }
    } else {
        Resources { cpu_milli: held.cpu_milli, ..Resources::NONE }
    };
    only.dominant_share(total)
}

struct Sharing {
    parameters: Parameters,
    plan: Plan,
    accounts: Accounts,
    queues: BTreeMap<TenantId, Queue<Order>>,
    queued_by: BTreeMap<JobId, TenantId>,
    /// Jobs with a target that could be larger or smaller.
    elastic: BTreeSet<JobId>,
    unplaceable: BTreeMap<Shape, Option<Reason>>,
    news: Vec<JobId>,
}

impl Sharing {
    fn new(parameters: Parameters, measure: Measure) -> Self {
        Self {
            parameters,
            plan: Plan::default(),
            accounts: Accounts::new(measure),
            queues: BTreeMap::new(),
            queued_by: BTreeMap::new(),
            elastic: BTreeSet::new(),
            unplaceable: BTreeMap::new(),
            news: Vec::new(),
        }
    }

    fn follow(&mut self, seen: &Snapshot) {
        let news = self.plan.follow(seen);
        if news.rebuilt {
            self.queues.clear();
            self.queued_by.clear();
            self.elastic.clear();
            self.unplaceable.clear();
            self.accounts.clear();
        }
        if news.rebuilt || !seen.changed.nodes.is_empty() {
            self.accounts.set_total(seen.cluster.total());
        }
        self.news.clear();
        for id in news.jobs {
            self.accounts.set(seen, id, None);
            self.elastic.remove(&id);
            self.dequeue(id);
            let Some(view) = seen.job(id) else { continue };
            if self.plan.target(id).is_some() {
                self.count(seen, &view.job);
                continue;
            }
            let shape = Shape::of(&view.job);
            let never = *self
                .unplaceable
                .entry(shape)
                .or_insert_with(|| Plan::unplaceable(seen, &view.job, self.parameters.placement));
            match never {
                Some(reason) => self.plan.say(id, Verdict::Wait(reason)),
                None => {
                    self.enqueue(&view.job);
                    self.news.push(id);
                }
            }
        }
    }

    fn enqueue(&mut self, job: &Arc<Job>) {
        let order = (Reverse(job.goals.class), job.submitted);
        self.queues.entry(job.tenant).or_default().insert(order, job);
        self.queued_by.insert(job.id, job.tenant);
    }

    fn dequeue(&mut self, id: JobId) {
        if let Some(queue) = self.queued_by.remove(&id).and_then(|tenant| self.queues.get_mut(&tenant)) {
            queue.remove(id);
        }
    }

    /// Books what a job holds by its target.
    fn count(&mut self, seen: &Snapshot, job: &Arc<Job>) {
        let held = self.plan.target(job.id).map(|target| target.resources(&job.shape));
        self.accounts.set(seen, job.id, held.map(|held| (job.tenant, held)));
        if held.is_some() && job.shape.data_parallel().is_some_and(|shape| !shape.workers.is_fixed()) {
            self.elastic.insert(job.id);
        }
    }

    fn place(&mut self, seen: &Snapshot, job: &Arc<Job>, reason: Reason) -> bool {
        if !self.plan.place(job, self.parameters.placement) {
            return false;
        }
        self.dequeue(job.id);
        self.count(seen, job);
        self.plan.say(job.id, Verdict::Run(reason));
        true
    }

    fn fill(&mut self, seen: &Snapshot) {
        self.start(seen);
        self.grow(seen);
        for id in self.elastic.clone() {
            if seen.job(id).is_some_and(|view| view.target.is_some()) {
                self.plan.say(id, Verdict::Run(Reason::Kept));
            }
        }
    }

    /// Starts jobs with their smallest gang.
    fn start(&mut self, seen: &Snapshot) {
        // Elastic jobs begin with their smallest gang and grow back below, so that newcomers get theirs.
        for id in self.elastic.clone() {
            let view = seen.job(id).expect("a job with a target is in the snapshot");
            if view.job.goals.movable {
                self.plan.shrink(id);
                self.count(seen, &view.job);
            }
        }
        let mut stuck = BTreeSet::new();
        let mut aside = Vec::new();
        while let Some(job) = self.next_waiting(seen, &stuck) {
            if self.place(seen, &job, Reason::Chosen) {
                continue;
            }
            if self.reclaim(seen, &job) {
                // What was taken may leave room for others.
                stuck.clear();
            } else {
                if self.plan.keeps_away(job.id) {
                    // That it does not fit says nothing about the others of its shape.
                    self.dequeue(job.id);
                    aside.push(job);
                    continue;
                }
                stuck.extend([(None, Shape::of(&job)), (Some(job.tenant), Shape::of(&job))]);
                if self.parameters.stop_at_misfit {
                    break;
                }
            }
        }
        for job in aside {
            self.enqueue(&job);
        }
    }

    /// The next job by share that is neither of a stuck shape nor over a limit. A shape for which there
    /// is no room may still go on for a tenant that can reclaim and has not tried.
    fn next_waiting(&self, seen: &Snapshot, stuck: &BTreeSet<(Option<TenantId>, Shape)>) -> Option<Arc<Job>> {
        let with_jobs = self.queues.iter().filter(|(_, queue)| !queue.is_empty()).map(|(id, _)| *id);
        for tenant in self.accounts.by_share(seen, with_jobs) {
            let heads = self.queues[&tenant].heads().filter(|head| {
                let need = head.job.shape.minimum();
                let shape = Shape::of(&head.job);
                let may_reclaim =
                    || self.parameters.reclaim && self.accounts.within_guarantee(seen, tenant, need);
                !stuck.contains(&(Some(tenant), shape))
                    && (!stuck.contains(&(None, shape)) || may_reclaim())
                    && self.accounts.over_limit(seen, tenant, need).is_none()
            });
            if let Some(head) = heads.min_by_key(|head| (head.key, head.job.id)) {
                return Some(head.job);
            }
        }
        None
    }

    /// Elastic jobs get one more worker each, the least share first, until none fits.
    fn grow(&mut self, seen: &Snapshot) {
        let mut growing = Growing::new(seen, &self.accounts, &self.elastic);
        while let Some(id) = growing.next(seen, &self.accounts) {
            let job = &seen.job(id).expect("a job with a target is in the snapshot").job;
            match self.grow_one(seen, job) {
                Growth::Grown => growing.again(&self.accounts, job),
                Growth::NoRoom if self.parameters.stop_at_misfit => break,
                Growth::NoRoom | Growth::Unwanted => {}
            }
        }
    }

    fn grow_one(&mut self, seen: &Snapshot, job: &Arc<Job>) -> Growth {
        let shape = job.shape.data_parallel();
        let worker = shape.map_or(Resources::NONE, |shape| shape.worker);
        if self.accounts.over_limit(seen, job.tenant, worker).is_some() {
            return Growth::Unwanted;
        }
        let workers = self.plan.target(job.id).map_or(0, Allocation::workers);
        let most = shape.map_or(0, |shape| self.accounts.most_workers(shape));
        if job.goals.movable && workers < most && self.plan.grow(job.id, self.parameters.placement) {
            self.count(seen, job);
            return Growth::Grown;
        }
        Growth::NoRoom
    }

    /// Takes back guaranteed quota for a job: from tenants that hold more than their own guarantee, the
    /// jobs that lose least first, until it fits; or changes nothing.
    fn reclaim(&mut self, seen: &Snapshot, job: &Arc<Job>) -> bool {
        let need = job.shape.minimum();
        if !self.parameters.reclaim || !self.accounts.within_guarantee(seen, job.tenant, need) {
            return false;
        }
        let mut taken: Vec<Arc<Job>> = Vec::new();
        let mut placed = false;
        for id in self.victims(seen, job.tenant) {
            let victim = seen.job(id).expect("a job with a target is in the snapshot").job.clone();
            let held = self.accounts.held_by(id);
            // Nobody is pushed below what it was promised; what both are part of holds as much as before.
            let shared: BTreeSet<TenantId> = seen.tenants.line(job.tenant).collect();
            let mut losers = seen.tenants.line(victim.tenant).filter(|above| !shared.contains(above));
            if !losers.all(|loser| self.accounts.borrows(seen, loser, held)) {
                continue;
            }
            self.plan.evict(id);
            self.count(seen, &victim);
            taken.push(victim);
            placed = self.place(seen, job, Reason::Chosen);
            if placed {
                break;
            }
        }
        // What was taken too much goes back, the last taken first.
        for victim in taken.into_iter().rev() {
            if self.plan.undo_evict(&victim) {
                self.count(seen, &victim);
                continue;
            }
            assert!(placed, "what was taken a moment ago is still free");
            self.elastic.remove(&victim.id);
            self.enqueue(&victim);
            self.plan.say(victim.id, Verdict::Yield(Reason::Reclaimed { by: job.tenant }));
        }
        placed
    }

    /// Jobs that may be taken from for the good of `tenant`, by the work that would be lost, the latest
    /// start first among equals.
    fn victims(&self, seen: &Snapshot, tenant: TenantId) -> Vec<JobId> {
        let mine: BTreeSet<TenantId> = seen.tenants.line(tenant).collect();
        let lost = |view: &JobView| view.loss_if_stopped_gpu_s(seen.at);
        let mut victims: Vec<&JobView> = self
            .plan
            .running()
            .filter_map(|(id, _, _)| seen.job(id))
            .filter(|view| {
                view.job.goals.movable && view.job.tenant != tenant && !mine.contains(&view.job.tenant)
            })
            // A job that this very decision started is not taken from again.
            .filter(|view| view.target.is_some())
            .collect();
        victims.sort_by(|a, b| {
            let later = b.served.changed.cmp(&a.served.changed);
            lost(a).total_cmp(&lost(b)).then(later).then(b.id().cmp(&a.id()))
        });
        victims.into_iter().map(JobView::id).collect()
    }

    /// Why a job is still waiting after the queues were walked.
    fn reason(&mut self, seen: &Snapshot, id: JobId) -> Option<Reason> {
        let job = seen.job(id)?.job.clone();
        let queue = self.queues.get(&job.tenant)?;
        queue.key(id)?;
        if let Some(until) = self.plan.backs_off(&job, self.parameters.placement) {
            return Some(Reason::Backoff { until });
        }
        if let Some(tenant) = self.accounts.over_limit(seen, job.tenant, job.shape.minimum()) {
            return Some(Reason::QuotaFull { tenant });
        }
        let first = self.queues[&job.tenant].first_like(&job).expect("it is queued itself");
        if first.id != id {
            return Some(Reason::Behind { ahead: first.id });
        }
        let with_jobs = self.queues.iter().filter(|(_, queue)| !queue.is_empty()).map(|(id, _)| *id);
        let least = self.accounts.by_share(seen, with_jobs).into_iter().next();
        let share = self.accounts.share(seen, job.tenant);
        match least {
            Some(other) if other != job.tenant && share.is_infinite() => {
                Some(Reason::OnlyIdle { tenant: job.tenant })
            }
            Some(other) if other != job.tenant && self.accounts.share(seen, other) < share => {
                Some(Reason::ShareUsed { tenant: job.tenant, share })
            }
            _ => Some(Reason::NoCapacity(self.plan.no_room(&job))),
        }
    }
}

impl Policy for Sharing {
    fn cadence(&self) -> Cadence {
        Cadence::OnEvents(Causes::CAPACITY)
    }

    fn needs(&self) -> Abilities {
        Abilities::NONE
    }

    fn decide(&mut self, seen: &Snapshot) -> Decision {
        self.follow(seen);
        self.fill(seen);
        for id in std::mem::take(&mut self.news) {
            if let Some(reason) = self.reason(seen, id) {
                self.plan.say(id, Verdict::Wait(reason));
            }
        }
        self.plan.finish()
    }

    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.follow(seen);
        let view = seen.job(job).expect("only jobs of the snapshot are explained");
        if let Some(Some(reason)) = self.unplaceable.get(&Shape::of(&view.job)) {
            return Verdict::Wait(*reason);
        }
        self.fill(seen);
        let reason = self.reason(seen, job);
        let said = self.plan.finish().verdicts.into_iter().find(|(id, _)| *id == job);
        match (said, reason) {
            (Some((_, verdict @ (Verdict::Run(_) | Verdict::Yield(_)))), _) => verdict,
            (_, Some(reason)) => Verdict::Wait(reason),
            (_, None) => Verdict::Run(Reason::Kept),
        }
    }

    /// Shares change with every job that starts, so only the jobs of one tenant stand in an order.
    fn ahead(&mut self, seen: &Snapshot, job: JobId) -> Ahead {
        self.follow(seen);
        let queue = self.queued_by.get(&job).and_then(|tenant| self.queues.get(tenant));
        Ahead { jobs: queue.map(|queue| queue.ahead_of(job)).unwrap_or_default(), is_total: false }
    }

    fn keeps_limits(&self) -> bool {
        true
    }

    fn is_work_conserving(&self) -> bool {
        self.parameters.placement.uses_any_room() && !self.parameters.stop_at_misfit
    }
}

/// Fair sharing of one resource.
pub(super) const FAIR: Entry = Entry {
    name: "fair",
    title: "equal shares of GPUs (or CPUs) per weight, by tenant and then by job",
    source: "Demers et al., SIGCOMM 1989; baseline of SLAQ (SoCC 2017)",
    reads_declared: false,
    suits: Suits::AnyJobs,
    parameters: PARAMETERS,
    sizes: true,
    defaults: defaults::<Parameters>,
    build: |given| Ok(Box::new(Sharing::new(parameters("fair", PARAMETERS, given)?, one_resource))),
};

/// Dominant resource fairness.
pub(super) const DRF: Entry = Entry {
    name: "drf",
    title: "dominant resource fairness by progressive filling, with weights and quotas",
    source: "Ghodsi et al., NSDI 2011",
    reads_declared: false,
    suits: Suits::AnyJobs,
    parameters: PARAMETERS,
    sizes: true,
    defaults: defaults::<Parameters>,
    build: |given| {
        Ok(Box::new(Sharing::new(parameters("drf", PARAMETERS, given)?, Resources::dominant_share)))
    },
};
