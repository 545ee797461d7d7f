//! Which elastic job gets the next worker: one of the tenant with the least share, and of its jobs the one with the least.
//!
//! A worker more changes the share of one job and of the tenants above it. So jobs stand in order inside their tenant, and
//! only tenants are compared anew each time: a worker costs a step for each tenant, and not for each job.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Job, JobId, TenantId, Time};
use crate::rank::ordered;
use crate::view::Snapshot;

use super::ledger::Accounts;

/// What became of a worker that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// The job has it.
    Grown,
    /// The job can use no more, or there is no room.
    NoRoom,
    /// Its tenant would be over a limit.
    Unwanted,
}

/// Where a job stands inside its tenant: by share, submission and number.
type Place = (u64, Time, JobId);

/// The jobs that may still grow.
#[derive(Debug)]
pub(super) struct Growing {
    by_tenant: BTreeMap<TenantId, BTreeSet<Place>>,
}

impl Growing {
    pub(super) fn new(seen: &Snapshot, accounts: &Accounts, elastic: &BTreeSet<JobId>) -> Self {
        let mut new = Self { by_tenant: BTreeMap::new() };
        for id in elastic {
            new.again(accounts, &seen.job(*id).expect("a job with a target is in the snapshot").job);
        }
        new
    }

    /// A job may have another worker.
    pub(super) fn again(&mut self, accounts: &Accounts, job: &Job) {
        let share = ordered(accounts.job_share(job.id, job.goals.weight));
        self.by_tenant.entry(job.tenant).or_default().insert((share, job.submitted, job.id));
    }

    /// The next job in order. It is asked no more unless it is put back.
    pub(super) fn next(&mut self, seen: &Snapshot, accounts: &Accounts) -> Option<JobId> {
        let tenants = || self.by_tenant.keys().copied();
        let first = match self.by_tenant.len() {
            0 | 1 => tenants().next()?,
            _ => accounts.by_share(seen, tenants()).into_iter().next()?,
        };
        let jobs = self.by_tenant.get_mut(&first)?;
        let (.., id) = jobs.pop_first()?;
        if jobs.is_empty() {
            self.by_tenant.remove(&first);
        }
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{PARAMETERS, Parameters, Sharing, one_resource};
    use super::*;
    use crate::decide::{Policy, parameters};
    use crate::model::{
        Cluster, Declared, Goals, MoveCost, NodeState, Parallelism, Quota, RackId, Resources, Seed, Tenant,
        Tenants, UNLIMITED, Wanted, Weight, WorkerRange,
    };
    use crate::view::{Causes, Changed, JobView, Note};

    fn elastic(id: u32, tenant: u32, workers: WorkerRange, worker: Resources) -> Job {
        Job {
            id: JobId(id),
            name: format!("job-{id}").into(),
            tenant: TenantId(tenant),
            model: None,
            submitted: Time::from_secs(u64::from(id % 3)),
            shape: Parallelism::elastic(workers, worker),
            wanted: Wanted::default(),
            goals: Goals::default(),
            declared: Declared::default(),
            move_cost: MoveCost::default(),
        }
    }

    fn picture(cluster: Cluster, tenants: Tenants, jobs: Vec<Job>) -> Snapshot {
        let at = Time::from_secs(9);
        let ids = jobs.iter().map(|job| job.id).collect();
        Snapshot {
            at,
            cause: Causes::ALARM,
            seed: Seed(0),
            number: 3,
            cluster: Arc::new(cluster),
            tenants: Arc::new(tenants),
            note: Note::default(),
            jobs: jobs.into_iter().map(|job| (job.id, Arc::new(JobView::new(Arc::new(job), at)))).collect(),
            changed: Arc::new(Changed { jobs: ids, nodes: Vec::new() }),
        }
    }

    fn sharing(stop_at_misfit: bool, by_dominant: bool) -> Sharing {
        let given = toml::Table::from_iter([("stop_at_misfit".to_owned(), stop_at_misfit.into())]);
        let given: Parameters = parameters("fair", PARAMETERS, &given).expect("it is fine");
        Sharing::new(given, if by_dominant { Resources::dominant_share } else { one_resource })
    }

    /// Grows as the text says: all jobs are looked at for each worker.
    fn grow_slowly(policy: &mut Sharing, seen: &Snapshot) {
        let mut able = policy.elastic.clone();
        loop {
            let job = |id: &JobId| &seen.job(*id).expect("it is there").job;
            let tenants: BTreeSet<TenantId> = able.iter().map(|id| job(id).tenant).collect();
            let Some(first) = policy.accounts.by_share(seen, tenants.into_iter()).first().copied() else {
                return;
            };
            let share = |id: &JobId| policy.accounts.job_share(*id, job(id).goals.weight);
            let of_first = able.iter().filter(|id| job(id).tenant == first);
            let key = |id: &JobId| (job(id).submitted, *id);
            let next = of_first.min_by(|a, b| share(a).total_cmp(&share(b)).then(key(a).cmp(&key(b))));
            let next = *next.expect("the tenant has one");
            match policy.grow_one(seen, job(&next)) {
                Growth::Grown => {}
                Growth::NoRoom if policy.parameters.stop_at_misfit => return,
                Growth::NoRoom | Growth::Unwanted => _ = able.remove(&next),
            }
        }
    }

    /// Random jobs of random tenants; some tenants stand below others, have a limit, or weigh more.
    fn drawn(seed: Seed) -> Snapshot {
        let mut rolls = 0;
        let mut roll = |sides: u64| {
            rolls += 1;
            seed.numbered(rolls).0 % sides
        };
        let mut cluster = Cluster::default();
        let gpu_type = cluster.intern_gpu_type("gpu");
        for _ in 0..1 + roll(5) {
            let holds = Resources { cpu_milli: 8000 + 1000 * roll(16), ..Resources::gpus(8) };
            cluster.push(RackId(0), Some(gpu_type), holds, None);
        }
        let mut tenants = Vec::new();
        for i in 0..1 + roll(4) {
            let parent = (i > 1 && roll(2) == 0).then_some(TenantId(0));
            let limit = if roll(3) == 0 { Resources::gpus(4 + roll(6)) } else { Quota::default().limit };
            let limit = Resources { cpu_milli: UNLIMITED, ..limit };
            let (name, weight) = (format!("tenant-{i}").into(), Weight(1.0 + roll(3) as f64));
            tenants.push(Tenant { name, parent, weight, quota: Quota { limit, ..Quota::default() } });
        }
        let tenants = Tenants::new(tenants, cluster.total()).expect("they are sound");
        let count = tenants.len() as u64;
        let jobs = (0..1 + roll(12) as u32).map(|i| {
            let most = 1 + roll(9) as u32;
            let worker = Resources { cpu_milli: 1000 * roll(4), ..Resources::gpus(roll(3)) };
            let mut job = elastic(i, roll(count) as u32, WorkerRange { min: 1, max: most }, worker);
            job.goals.weight = 1.0 + roll(2) as f64;
            job
        });
        let jobs = jobs.collect();
        picture(cluster, tenants, jobs)
    }

    #[test]
    fn workers_go_where_they_would_if_all_jobs_were_looked_at_for_each() {
        let mut grown = 0;
        for i in 0..400 {
            let seen = drawn(Seed(11).numbered(i));
            let (stops, by_dominant) = (i % 5 == 0, i % 2 == 0);
            let mut slow = sharing(stops, by_dominant);
            // All but growing: with an empty set of elastic jobs there is nothing to grow.
            slow.follow(&seen);
            slow.start(&seen);
            let least: u32 = slow.plan.running().map(|(.., target)| target.workers()).sum();
            grow_slowly(&mut slow, &seen);
            let mut fast = sharing(stops, by_dominant);
            fast.decide(&seen);
            let targets = |policy: &Sharing| -> Vec<_> {
                policy.plan.running().map(|(id, _, target)| (id, target.clone())).collect()
            };
            assert_eq!(targets(&fast), targets(&slow), "draw {i}");
            grown += fast.plan.running().map(|(.., target)| target.workers()).sum::<u32>() - least;
        }
        assert!(grown > 1000, "there was something to grow: {grown}");
    }

    #[test]
    fn jobs_without_end_on_cpus_that_are_not_counted_get_so_many_workers_and_no_more() {
        let mut cluster = Cluster::default();
        let holds = Resources { cpu_milli: UNLIMITED, ..Resources::gpus(8) };
        let gpu_type = cluster.intern_gpu_type("gpu");
        let node = cluster.push(RackId(0), Some(gpu_type), holds, None);
        assert_eq!(cluster.node(node).state, NodeState::Up);
        let range = WorkerRange { min: 1, max: u32::MAX };
        let jobs = vec![elastic(0, 0, range, Resources::cpus(1)), elastic(1, 0, range, Resources::gpus(1))];
        let mut tenants = Tenants::default();
        tenants.intern("team");
        let seen = picture(cluster, tenants, jobs);
        let mut policy = sharing(false, true);
        policy.decide(&seen);
        let workers = |id| policy.plan.target(JobId(id)).map_or(0, |target| target.workers());
        assert_eq!((workers(0), workers(1)), (crate::decide::MOST_UNITS, 8));
    }
}
