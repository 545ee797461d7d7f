//! What each tenant got, what it asked for, and what it was entitled to.
//!
//! A tenant asks for GPUs while its jobs hold or want them; jobs that could never run do not count. It is entitled, while it asks for anything, to the part of
//! the cluster that its weight is of the weights of all tenants that ask for anything then. A tenant's weight is
//! the product, from the top of the tree, of its part of its siblings' weights. This is the entitlement of weighted fair
//! sharing without the limit by demand (max-min fairness, Bertsekas and Gallager, *Data Networks*, section 6.5): a tenant
//! that asks for less than its part gets less, and that is no injustice; hence what it asked for stands beside it.
//!
//! Cost: O(1) for each change. Memory: 80 bytes for each tenant.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{JobId, Tenant, TenantId, Tenants, Time};

/// What tenants got.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    tenants: Vec<Account>,
    /// The sum of the weights of tenants that ask for something.
    asking_weight: f64,
    /// The integral over time of one over that sum, while it is not zero, in seconds.
    per_weight_s: f64,
    now: Time,
    gpus: f64,
    /// Open jobs that could never run; they do not count as asking.
    impossible: BTreeSet<JobId>,
}

#[derive(Clone, Debug, Default)]
struct Account {
    weight: f64,
    guaranteed_gpus: f64,
    jobs: u64,
    open_jobs: u64,
    held_gpus: f64,
    wanted_gpus: f64,
    since: Time,
    held_gpu_s: f64,
    wanted_gpu_s: f64,
    /// The integral [`Shares::per_weight_s`] when it began to ask.
    began: f64,
    entitled_s: f64,
}

/// One tenant's account, in GPU-seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The tenant.
    pub tenant: TenantId,
    /// Its jobs.
    pub jobs: u64,
    /// What its jobs held.
    pub held_gpu_s: f64,
    /// What its jobs wanted while they held nothing.
    pub wanted_gpu_s: f64,
    /// What its weight entitled it to while it asked for anything.
    pub entitled_gpu_s: f64,
    /// What its quota promises it, in GPUs; zero where nothing is promised.
    pub guaranteed_gpus: f64,
}

impl Shares {
    /// Nobody has asked for anything yet.
    pub fn new(tenants: &Tenants, gpus: u64) -> Self {
        let sum = |parent: Option<TenantId>| -> f64 {
            tenants
                .iter()
                .filter(|(_, tenant)| tenant.parent == parent)
                .map(|(_, tenant)| tenant.weight.0)
                .sum()
        };
        let mut sums: BTreeMap<Option<TenantId>, f64> = BTreeMap::new();
        let mut weights: Vec<f64> = Vec::with_capacity(tenants.len());
        for (_, tenant) in tenants.iter() {
            let all = *sums.entry(tenant.parent).or_insert_with(|| sum(tenant.parent));
            let above = tenant.parent.map_or(1.0, |parent| weights[parent.index()]);
            weights.push(if all > 0.0 { above * tenant.weight.0 / all } else { 0.0 });
        }
        let account = |((_, tenant), weight): ((_, &Tenant), f64)| Account {
            weight,
            guaranteed_gpus: tenant.quota.guaranteed.gpu_milli as f64 / 1000.0,
            ..Account::default()
        };
        let tenants = tenants.iter().zip(weights).map(account).collect();
        Self { tenants, gpus: gpus as f64, ..Self::default() }
    }

    /// The accounts of tenants that had jobs.
    pub fn rows(&self) -> impl Iterator<Item = Share> {
        let share = |(i, account): (usize, &Account)| Share {
            tenant: TenantId(i as u32),
            jobs: account.jobs,
            held_gpu_s: account.held_gpu_s,
            wanted_gpu_s: account.wanted_gpu_s,
            entitled_gpu_s: account.entitled_s * self.gpus,
            guaranteed_gpus: account.guaranteed_gpus,
        };
        self.tenants.iter().enumerate().filter(|(_, account)| account.jobs > 0).map(share)
    }

    pub(super) fn arrived(&mut self, at: Time, tenant: TenantId, gpus: f64) {
        if self.tenants.len() <= tenant.index() {
            // A tenant that nobody told of is one of weight zero.
            self.tenants.resize_with(tenant.index() + 1, Account::default);
        }
        self.tenants[tenant.index()].jobs += 1;
        self.asks(at, tenant, gpus);
    }

    /// A waiting job was judged: whether it could ever run.
    pub(super) fn judged(&mut self, at: Time, job: JobId, tenant: TenantId, wanted: f64, possible: bool) {
        if possible && self.impossible.remove(&job) {
            self.asks(at, tenant, wanted);
        } else if !possible && self.impossible.insert(job) {
            self.gone(at, tenant, wanted);
        }
    }

    /// One more job of a tenant wants something: a new one, or one that had ended and was counted before.
    pub(super) fn asks(&mut self, at: Time, tenant: TenantId, gpus: f64) {
        self.advance(at);
        let began = self.per_weight_s;
        let account = self.tenants[tenant.index()].at(at);
        account.open_jobs += 1;
        account.wanted_gpus += gpus;
        if account.open_jobs == 1 {
            account.began = began;
            self.asking_weight += account.weight;
        }
    }

    /// A job that wants so many has so many from now on.
    pub(super) fn took(&mut self, at: Time, tenant: TenantId, wanted: f64, held: f64) {
        let account = self.tenants[tenant.index()].at(at);
        account.wanted_gpus -= wanted;
        account.held_gpus += held;
    }

    pub(super) fn let_go(&mut self, at: Time, tenant: TenantId, wanted: f64, held: f64) {
        let account = self.tenants[tenant.index()].at(at);
        account.wanted_gpus += wanted;
        account.held_gpus -= held;
    }

    pub(super) fn gone(&mut self, at: Time, tenant: TenantId, wanted: f64) {
        self.advance(at);
        let until = self.per_weight_s;
        let account = self.tenants[tenant.index()].at(at);
        account.wanted_gpus -= wanted;
        account.open_jobs -= 1;
        if account.open_jobs == 0 {
            account.entitled_s += account.weight * (until - account.began);
            self.asking_weight -= account.weight;
        }
    }

    /// Accounts for what is still asked for.
    pub(super) fn finish(&mut self, at: Time) {
        self.advance(at);
        for account in &mut self.tenants {
            account.at(at);
            if account.open_jobs > 0 {
                account.entitled_s += account.weight * (self.per_weight_s - account.began);
                account.began = self.per_weight_s;
            }
        }
    }

    fn advance(&mut self, at: Time) {
        // What rounding leaves of a sum of weights is not a weight.
        if self.asking_weight > 1e-12 {
            self.per_weight_s += at.since(self.now).as_secs_f64() / self.asking_weight;
        }
        self.now = self.now.max(at);
    }
}

impl Account {
    /// The account with the time up to now in it.
    fn at(&mut self, at: Time) -> &mut Self {
        let passed = at.since(self.since).as_secs_f64();
        self.held_gpu_s += self.held_gpus * passed;
        self.wanted_gpu_s += self.wanted_gpus * passed;
        self.since = self.since.max(at);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Quota, Tenant, Weight};

    #[test]
    fn the_cluster_is_everybodys_who_asks_in_proportion_to_weights() {
        let tenant = |name: &str, weight: f64| Tenant {
            name: name.into(),
            parent: None,
            weight: Weight(weight),
            quota: Quota::OPEN,
        };
        let tenants = Tenants::from(vec![tenant("a", 1.0), tenant("b", 3.0), tenant("c", 5.0)]);
        let mut shares = Shares::new(&tenants, 8);
        let (at, a, b) = (Time::from_secs, TenantId(0), TenantId(1));
        shares.arrived(at(10), a, 4.0);
        shares.took(at(10), a, 4.0, 4.0);
        shares.arrived(at(20), b, 8.0);
        shares.let_go(at(50), a, 4.0, 4.0);
        shares.gone(at(50), a, 4.0);
        shares.took(at(50), b, 8.0, 8.0);
        shares.finish(at(60));
        let rows: Vec<Share> = shares.rows().collect();
        let facts = |row: &Share| (row.jobs, row.held_gpu_s, row.wanted_gpu_s, row.entitled_gpu_s.round());
        // `a` is alone for 10 s and has a quarter for 30 s; `b` has the rest of that and 10 s alone.
        assert_eq!(facts(&rows[0]), (1, 160.0, 0.0, 8.0 * (10.0 + 7.5)));
        assert_eq!(facts(&rows[1]), (1, 80.0, 240.0, 8.0 * (22.5 + 10.0)));
        assert_eq!(rows.len(), 2, "who asks for nothing has no row");
    }

    #[test]
    fn who_only_has_jobs_that_can_never_run_is_entitled_to_nothing() {
        let mut tenants = Tenants::default();
        let (a, b) = (tenants.intern("a"), tenants.intern("b"));
        let mut shares = Shares::new(&tenants, 8);
        let at = Time::from_secs;
        shares.arrived(at(0), a, 64.0);
        shares.judged(at(0), JobId(0), a, 64.0, false);
        shares.judged(at(5), JobId(0), a, 64.0, false);
        shares.arrived(at(0), b, 1.0);
        // The cluster grows.
        shares.judged(at(10), JobId(0), a, 64.0, true);
        shares.finish(at(20));
        let entitled: Vec<f64> = shares.rows().map(|row| row.entitled_gpu_s).collect();
        assert_eq!(entitled, [40.0, 80.0 + 40.0]);
        assert_eq!(shares.rows().next().unwrap().wanted_gpu_s, 640.0);
    }

    #[test]
    fn a_child_has_its_part_of_its_parents_weight() {
        let tenant = |name: &str, parent, weight| Tenant {
            name: name.into(),
            parent,
            weight: Weight(weight),
            quota: Quota::OPEN,
        };
        let top = Some(TenantId(0));
        let tenants = vec![
            tenant("top", None, 1.0),
            tenant("other", None, 1.0),
            tenant("x", top, 1.0),
            tenant("y", top, 3.0),
        ];
        let shares = Shares::new(&Tenants::from(tenants), 1);
        let weights: Vec<f64> = shares.tenants.iter().map(|account| account.weight).collect();
        assert_eq!(weights, [0.5, 0.5, 0.125, 0.375]);
    }
}
