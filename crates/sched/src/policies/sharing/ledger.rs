//! What tenants hold, with everything below them, and what of that is theirs.

use std::collections::BTreeMap;

use crate::decide::most_of;
use crate::model::{DataParallel, JobId, Resources, TenantId};
use crate::view::Snapshot;

use super::Measure;

/// What every job and every tenant holds by the targets.
#[derive(Clone, Debug)]
pub(super) struct Accounts {
    measure: Measure,
    total: Resources,
    jobs: BTreeMap<JobId, (TenantId, Resources)>,
    /// What a tenant holds, everything below it included.
    tenants: BTreeMap<TenantId, Resources>,
}

impl Accounts {
    pub(super) const fn new(measure: Measure) -> Self {
        Self { measure, total: Resources::NONE, jobs: BTreeMap::new(), tenants: BTreeMap::new() }
    }

    pub(super) fn clear(&mut self) {
        self.jobs.clear();
        self.tenants.clear();
    }

    pub(super) const fn set_total(&mut self, total: Resources) {
        self.total = total;
    }

    /// A job holds so much from now on, or nothing.
    pub(super) fn set(&mut self, seen: &Snapshot, id: JobId, held: Option<(TenantId, Resources)>) {
        if let Some((tenant, before)) = self.jobs.remove(&id) {
            for above in seen.tenants.line(tenant) {
                let sum = self.tenants.get_mut(&above).expect("it was counted there");
                *sum -= before;
            }
        }
        if let Some((tenant, now)) = held {
            for above in seen.tenants.line(tenant) {
                *self.tenants.entry(above).or_default() += now;
            }
            self.jobs.insert(id, (tenant, now));
        }
    }

    pub(super) fn held_by(&self, id: JobId) -> Resources {
        self.jobs.get(&id).map_or(Resources::NONE, |(_, held)| *held)
    }

    fn held(&self, tenant: TenantId) -> Resources {
        self.tenants.get(&tenant).copied().unwrap_or_default()
    }

    /// A tenant's own share divided by its weight.
    pub(super) fn share(&self, seen: &Snapshot, tenant: TenantId) -> f64 {
        let weight = seen.tenants.get(tenant).map_or(1.0, |tenant| tenant.weight.0);
        let share = (self.measure)(&self.held(tenant), &self.total);
        if weight > 0.0 { share / weight } else { f64::INFINITY }
    }

    /// A job's own share divided by its weight.
    pub(super) fn job_share(&self, id: JobId, weight: f64) -> f64 {
        let share = (self.measure)(&self.held_by(id), &self.total);
        if weight > 0.0 { share / weight } else { f64::INFINITY }
    }

    /// How many workers a job is given at the most: as many as it can use, unless they take nothing that is kept count of,
    /// which would never come to an end.
    pub(super) fn most_workers(&self, shape: &DataParallel) -> u32 {
        let counts = shape.worker.dominant_share(&self.total) > 0.0;
        if counts { shape.workers.max } else { most_of(shape.workers) }
    }

    /// Tenants by share, compared level by level from the top of the tree; ties by number.
    pub(super) fn by_share(&self, seen: &Snapshot, tenants: impl Iterator<Item = TenantId>) -> Vec<TenantId> {
        let path = |tenant: TenantId| {
            let mut levels: Vec<(f64, TenantId)> =
                seen.tenants.line(tenant).map(|above| (self.share(seen, above), above)).collect();
            levels.reverse();
            levels
        };
        let mut paths: Vec<(Vec<(f64, TenantId)>, TenantId)> = tenants.map(|t| (path(t), t)).collect();
        paths.sort_by(|(a, _), (b, _)| {
            let levels = a.iter().zip(b).map(|(a, b)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let different = levels.into_iter().find(|order| order.is_ne());
            different.unwrap_or_else(|| a.len().cmp(&b.len()))
        });
        paths.into_iter().map(|(_, tenant)| tenant).collect()
    }

    /// The tenant, or one above it, that would hold more than its limit with so much more.
    pub(super) fn over_limit(&self, seen: &Snapshot, tenant: TenantId, more: Resources) -> Option<TenantId> {
        seen.tenants.line(tenant).find(|above| {
            let limit = seen.tenants.get(*above).map(|tenant| tenant.quota.limit);
            limit.is_some_and(|limit| !(self.held(*above) + more).fits_in(&limit))
        })
    }

    /// Whether with so much more a tenant still holds no more of anything asked for than it was promised.
    pub(super) fn within_guarantee(&self, seen: &Snapshot, tenant: TenantId, more: Resources) -> bool {
        let Some(known) = seen.tenants.get(tenant) else { return false };
        let after = (self.held(tenant) + more).amounts();
        let (asked, promised) = (more.amounts(), known.quota.guaranteed.amounts());
        let promised_at_all = (0..4).any(|i| asked[i] > 0 && promised[i] > 0);
        promised_at_all && (0..4).all(|i| asked[i] == 0 || promised[i] == 0 || after[i] <= promised[i])
    }

    /// Whether a tenant would still hold its guarantee without `part`, in what `part` is made of.
    pub(super) fn borrows(&self, seen: &Snapshot, tenant: TenantId, part: Resources) -> bool {
        let promised = seen.tenants.get(tenant).map_or([0; 4], |tenant| tenant.quota.guaranteed.amounts());
        let (held, part) = (self.held(tenant).amounts(), part.amounts());
        (0..4).all(|i| part[i] == 0 || promised[i] == 0 || held[i] - part[i] >= promised[i])
    }
}
