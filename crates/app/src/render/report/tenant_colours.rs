//! Which tenant has which colour and letter: the largest ones have their own, all others share one.

use std::collections::BTreeMap;

use trainyard_sched::metrics::Share;
use trainyard_sched::model::{TenantId, Tenants};

use super::figure::colour;
use crate::render::words::tenant_name;

/// The series of tenants without a colour of their own.
pub(crate) const OTHERS: usize = 0;
/// Tenants with a colour of their own.
const OWN: usize = 7;

/// Which tenant has which series.
pub(crate) struct TenantColours {
    own: BTreeMap<TenantId, usize>,
    there_are_others: bool,
}

impl TenantColours {
    /// The colours, by what tenants held.
    pub(crate) fn new(shares: &[Share]) -> Self {
        let mut all: Vec<&Share> = shares.iter().collect();
        all.sort_by(|a, b| b.held_gpu_s.total_cmp(&a.held_gpu_s));
        let own = all.iter().take(OWN).enumerate().map(|(i, share)| (share.tenant, i + 1)).collect();
        Self { own, there_are_others: all.len() > OWN }
    }

    /// The series of a tenant.
    pub(crate) fn of(&self, tenant: TenantId) -> usize {
        self.own.get(&tenant).copied().unwrap_or(OTHERS)
    }

    /// The colour of a series.
    pub(crate) fn colour(&self, series: usize) -> String {
        colour(series)
    }

    /// The letter of a series.
    pub(crate) fn letter(series: usize) -> char {
        char::from(b'A' + (series as u8).saturating_sub(1).min(25))
    }

    /// Colour, letter and name of each series that there is.
    pub(crate) fn legend(&self, tenants: &Tenants) -> Vec<(String, String, String)> {
        let mut own: Vec<_> = self.own.iter().map(|(tenant, series)| (*series, *tenant)).collect();
        own.sort();
        let mut all: Vec<_> = own
            .into_iter()
            .map(|(i, tenant)| (colour(i), Self::letter(i).to_string(), tenant_name(tenants, tenant)))
            .collect();
        if self.there_are_others {
            all.push((colour(OTHERS), String::new(), "other tenants".to_owned()));
        }
        all
    }
}
