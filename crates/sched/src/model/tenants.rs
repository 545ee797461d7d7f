//! Who shares the cluster: a tree of tenants with weights and quotas.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Resources, TenantId, UNLIMITED};

/// A tenant's entitlement relative to its siblings. Zero means: only what nobody else wants.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Weight(pub f64);

/// What a tenant is promised and what it may never exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quota {
    /// Its own, to be had back from those who borrowed it.
    pub guaranteed: Resources,
    /// The most it may hold, borrowed or not. What is not limited is [`UNLIMITED`].
    pub limit: Resources,
}

impl Quota {
    /// No promise and no limit.
    pub const OPEN: Self = Self {
        guaranteed: Resources::NONE,
        limit: Resources {
            gpu_milli: UNLIMITED,
            cpu_milli: UNLIMITED,
            memory_bytes: UNLIMITED,
            network_bytes_per_s: UNLIMITED,
        },
    };
}

impl Default for Quota {
    fn default() -> Self {
        Self::OPEN
    }
}

/// A user, team or virtual cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tenant {
    /// Its name.
    pub name: Arc<str>,
    /// The tenant it is a part of.
    pub parent: Option<TenantId>,
    /// Its weight among its siblings.
    pub weight: Weight,
    /// Its quota.
    pub quota: Quota,
}

/// All tenants; a tenant's id is its position and its parent stands before it. Of several tenants of one
/// name the first is found by it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<Tenant>", into = "Vec<Tenant>")]
pub struct Tenants {
    all: Vec<Tenant>,
    by_name: BTreeMap<Arc<str>, TenantId>,
}

impl From<Vec<Tenant>> for Tenants {
    fn from(all: Vec<Tenant>) -> Self {
        let mut by_name = BTreeMap::new();
        for (i, tenant) in all.iter().enumerate() {
            by_name.entry(tenant.name.clone()).or_insert(TenantId(i as u32));
        }
        Self { all, by_name }
    }
}

impl From<Tenants> for Vec<Tenant> {
    fn from(tenants: Tenants) -> Self {
        tenants.all
    }
}

/// Why a tree of tenants cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TenantsError {
    /// Nobody could ever get anything.
    #[error("the weights of all tenants under {under} are zero; give at least one a positive weight")]
    AllWeightsZero {
        /// The parent's name, or "the cluster".
        under: Arc<str>,
    },
    /// A weight that is negative, infinite or not a number.
    #[error("tenant {tenant} has weight {weight}; a weight is a number from 0 upwards")]
    BadWeight {
        /// The tenant's name.
        tenant: Arc<str>,
        /// What was given.
        weight: f64,
    },
    /// A parent that is not before its child.
    #[error("tenant {tenant} names a parent that is not listed before it")]
    BadParent {
        /// The tenant's name.
        tenant: Arc<str>,
    },
    /// More is promised than may be held.
    #[error("tenant {tenant} is guaranteed {}, more than its limit of {}", amount(.resource, *.guaranteed), amount(.resource, *.limit))]
    GuaranteedOverLimit {
        /// The tenant's name.
        tenant: Arc<str>,
        /// Which resource.
        resource: &'static str,
        /// The promise.
        guaranteed: u64,
        /// The limit.
        limit: u64,
    },
    /// More is promised to the children, or at the top, than there is.
    #[error("tenants under {under} are guaranteed {} together, but there are {}", amount(.resource, *.promised), amount(.resource, *.available))]
    Overpromised {
        /// The parent's name, or "the cluster".
        under: Arc<str>,
        /// Which resource.
        resource: &'static str,
        /// The sum of the promises.
        promised: u64,
        /// What the parent is guaranteed, or the cluster has.
        available: u64,
    },
}

/// An amount as people write it: whole GPUs and CPUs, not thousandths.
fn amount(resource: &str, value: u64) -> String {
    match resource {
        _ if value == super::UNLIMITED => "unlimited".to_owned(),
        "gpu_milli" => format!("{} GPUs", value as f64 / 1000.0),
        "cpu_milli" => format!("{} CPUs", value as f64 / 1000.0),
        "memory_bytes" => format!("{} GB of memory", value as f64 / 1e9),
        _ => format!("{value} {resource}"),
    }
}

const RESOURCE_NAMES: [&str; 4] = ["gpu_milli", "cpu_milli", "memory_bytes", "network_bytes_per_s"];

impl Tenants {
    /// A checked tree for a cluster that holds `total`.
    pub fn new(tenants: Vec<Tenant>, total: Resources) -> Result<Self, TenantsError> {
        let tenants = Self::from(tenants);
        tenants.validate(total)?;
        Ok(tenants)
    }

    /// The id of the tenant called `name`, made at the top level with weight 1 if it is new.
    pub fn intern(&mut self, name: &str) -> TenantId {
        if let Some(known) = self.find(name) {
            return known;
        }
        let (id, name) = (TenantId(self.all.len() as u32), Arc::from(name));
        self.by_name.insert(Arc::clone(&name), id);
        self.all.push(Tenant { name, parent: None, weight: Weight(1.0), quota: Quota::OPEN });
        id
    }

    /// The tenant called `name`.
    pub fn find(&self, name: &str) -> Option<TenantId> {
        self.by_name.get(name).copied()
    }

    /// The tenant with this id.
    pub fn get(&self, id: TenantId) -> Option<&Tenant> {
        self.all.get(id.index())
    }

    /// All tenants with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (TenantId, &Tenant)> {
        self.all.iter().enumerate().map(|(i, tenant)| (TenantId(i as u32), tenant))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The tenant, its parent, and so on up to the top.
    pub fn line(&self, id: TenantId) -> impl Iterator<Item = TenantId> {
        std::iter::successors(Some(id), |id| self.get(*id).and_then(|tenant| tenant.parent))
    }

    fn name_of(&self, id: Option<TenantId>) -> Arc<str> {
        id.and_then(|id| self.get(id)).map_or_else(|| "the cluster".into(), |t| t.name.clone())
    }

    fn validate(&self, total: Resources) -> Result<(), TenantsError> {
        for (id, tenant) in self.iter() {
            let name = || tenant.name.clone();
            if !(tenant.weight.0.is_finite() && tenant.weight.0 >= 0.0) {
                return Err(TenantsError::BadWeight { tenant: name(), weight: tenant.weight.0 });
            }
            if tenant.parent.is_some_and(|parent| parent >= id) {
                return Err(TenantsError::BadParent { tenant: name() });
            }
            let (promised, limits) = (tenant.quota.guaranteed.amounts(), tenant.quota.limit.amounts());
            for (i, resource) in RESOURCE_NAMES.into_iter().enumerate() {
                let (guaranteed, limit) = (promised[i], limits[i]);
                if guaranteed > limit {
                    let tenant = name();
                    return Err(TenantsError::GuaranteedOverLimit { tenant, resource, guaranteed, limit });
                }
            }
        }
        let mut children: BTreeMap<Option<TenantId>, Vec<&Tenant>> = BTreeMap::new();
        for tenant in &self.all {
            children.entry(tenant.parent).or_default().push(tenant);
        }
        children
            .into_iter()
            .try_for_each(|(parent, children)| self.validate_children(parent, &children, total))
    }

    fn validate_children(
        &self,
        parent: Option<TenantId>,
        children: &[&Tenant],
        total: Resources,
    ) -> Result<(), TenantsError> {
        if children.iter().all(|tenant| tenant.weight.0 == 0.0) {
            return Err(TenantsError::AllWeightsZero { under: self.name_of(parent) });
        }
        let promised = children.iter().fold(Resources::NONE, |sum, tenant| sum + tenant.quota.guaranteed);
        let available = parent.and_then(|id| self.get(id)).map_or(total, |tenant| {
            // A parent without a promise of its own does not bound its children; the cluster does.
            if tenant.quota.guaranteed.is_none() { total } else { tenant.quota.guaranteed }
        });
        for (i, resource) in RESOURCE_NAMES.into_iter().enumerate() {
            let (promised, available) = (promised.amounts()[i], available.amounts()[i]);
            if promised > available {
                let under = self.name_of(parent);
                return Err(TenantsError::Overpromised { under, resource, promised, available });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str, weight: f64, guaranteed_cpus: u64) -> Tenant {
        let quota = Quota { guaranteed: Resources::cpus(guaranteed_cpus), ..Quota::OPEN };
        Tenant { name: name.into(), parent: None, weight: Weight(weight), quota }
    }

    #[test]
    fn weights_that_are_all_zero_are_refused() {
        let all_zero = vec![tenant("a", 0.0, 0), tenant("b", 0.0, 0)];
        let error = Tenants::new(all_zero, Resources::cpus(4)).unwrap_err();
        assert_eq!(error, TenantsError::AllWeightsZero { under: "the cluster".into() });
        let one_zero = vec![tenant("a", 1.0, 0), tenant("b", 0.0, 0)];
        assert!(Tenants::new(one_zero, Resources::cpus(4)).is_ok());
    }

    #[test]
    fn promises_beyond_the_cluster_are_a_load_time_conflict() {
        // users.md S9: 4 + 2 + 2 CPUs declared for a cluster of 4.
        let declared = vec![tenant("a", 1.0, 4), tenant("b", 1.0, 2), tenant("c", 1.0, 2)];
        let error = Tenants::new(declared, Resources::cpus(4)).unwrap_err();
        assert!(matches!(error, TenantsError::Overpromised { promised: 8000, available: 4000, .. }));
        let fair = vec![tenant("a", 1.0, 2), tenant("b", 1.0, 1), tenant("c", 1.0, 1)];
        assert!(Tenants::new(fair, Resources::cpus(4)).is_ok());
    }

    #[test]
    fn a_guarantee_over_the_limit_names_both() {
        let mut odd = tenant("a", 1.0, 3);
        odd.quota.limit.cpu_milli = 2000;
        let error = Tenants::new(vec![odd], Resources::cpus(4)).unwrap_err();
        let text = error.to_string();
        assert!(text == "tenant a is guaranteed 3 CPUs, more than its limit of 2 CPUs", "{text}");
    }

    #[test]
    fn the_line_of_a_tenant_ends_at_the_top() {
        let mut child = tenant("child", 1.0, 0);
        child.parent = Some(TenantId(0));
        let tree = Tenants::new(vec![tenant("top", 1.0, 0), child], Resources::cpus(4)).unwrap();
        assert_eq!(tree.line(TenantId(1)).collect::<Vec<_>>(), [TenantId(1), TenantId(0)]);
    }
}
