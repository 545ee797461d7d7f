//! Amounts of what machines have and tasks need. Integers only; GPUs and CPUs in thousandths.

use std::ops::{Add, AddAssign, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// One whole GPU (or CPU) in milli-units.
pub const GPU: u64 = 1000;

/// An amount that is not tracked: it never runs out and counts for no share.
pub const UNLIMITED: u64 = u64::MAX;

/// A bundle of resources: what a node holds or what one worker, server or task demands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Resources {
    /// GPUs in thousandths. A demand below 1000 is a share of one device; above it, whole devices.
    pub gpu_milli: u64,
    /// CPU cores in thousandths.
    pub cpu_milli: u64,
    /// Main memory in bytes.
    pub memory_bytes: u64,
    /// Network in bytes a second.
    pub network_bytes_per_s: u64,
}

impl Resources {
    /// Nothing.
    pub const NONE: Self = Self { gpu_milli: 0, cpu_milli: 0, memory_bytes: 0, network_bytes_per_s: 0 };

    /// Whole GPUs and nothing else.
    pub const fn gpus(count: u64) -> Self {
        Self { gpu_milli: count * GPU, ..Self::NONE }
    }

    /// Whole CPU cores and nothing else.
    pub const fn cpus(count: u64) -> Self {
        Self { cpu_milli: count * GPU, ..Self::NONE }
    }

    /// The four amounts in the order GPU, CPU, memory, network.
    pub const fn amounts(&self) -> [u64; 4] {
        [self.gpu_milli, self.cpu_milli, self.memory_bytes, self.network_bytes_per_s]
    }

    const fn from_amounts(amounts: [u64; 4]) -> Self {
        Self {
            gpu_milli: amounts[0],
            cpu_milli: amounts[1],
            memory_bytes: amounts[2],
            network_bytes_per_s: amounts[3],
        }
    }

    fn zip(self, other: Self, op: impl Fn(u64, u64) -> u64) -> Self {
        let (a, b) = (self.amounts(), other.amounts());
        Self::from_amounts(std::array::from_fn(|i| op(a[i], b[i])))
    }

    /// This demand `count` times.
    pub fn times(self, count: u64) -> Self {
        Self::from_amounts(self.amounts().map(|amount| amount.saturating_mul(count)))
    }

    /// Whether all four amounts are at most those of `room`.
    pub fn fits_in(&self, room: &Self) -> bool {
        self.amounts().iter().zip(room.amounts()).all(|(need, have)| *need <= have)
    }

    /// How many times this demand fits into `room`, at most `limit`.
    pub fn times_in(&self, room: &Self, limit: u64) -> u64 {
        self.amounts()
            .iter()
            .zip(room.amounts())
            .filter(|(need, _)| **need > 0)
            .map(|(need, have)| have / need)
            .fold(limit, u64::min)
    }

    /// The largest fraction that this amount is of `total`, over the resources that `total` tracks.
    ///
    /// This is the *dominant share* of DRF (Ghodsi et al., NSDI 2011, section 4.1). A resource of
    /// which there is none in `total`, but some in the demand, gives infinity.
    pub fn dominant_share(&self, total: &Self) -> f64 {
        self.amounts()
            .iter()
            .zip(total.amounts())
            .filter(|(used, total)| **used > 0 && *total != UNLIMITED)
            .map(|(used, total)| *used as f64 / total as f64)
            .fold(0.0, f64::max)
    }

    /// Whether nothing is asked for.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }
}

impl Add for Resources {
    type Output = Self;
    /// Saturates, so that an unlimited amount stays unlimited.
    fn add(self, other: Self) -> Self {
        self.zip(other, u64::saturating_add)
    }
}

impl AddAssign for Resources {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Resources {
    type Output = Self;
    /// Leaves an unlimited amount unlimited.
    ///
    /// # Panics
    /// If more is taken than there is: somebody over-committed a node.
    fn sub(self, other: Self) -> Self {
        self.zip(other, |have, take| {
            if have == UNLIMITED {
                return UNLIMITED;
            }
            have.checked_sub(take).expect("more was taken than there is")
        })
    }
}

impl SubAssign for Resources {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dominant_share_takes_the_scarcest_resource() {
        let total = Resources { cpu_milli: 9_000, memory_bytes: 18, ..Resources::NONE };
        let task_a = Resources { cpu_milli: 1_000, memory_bytes: 4, ..Resources::NONE };
        assert_eq!(task_a.dominant_share(&total), 4.0 / 18.0);
        assert_eq!(task_a.times(3).dominant_share(&total), 2.0 / 3.0);
    }

    #[test]
    fn an_unlimited_amount_never_runs_out_and_counts_for_no_share() {
        let total = Resources { gpu_milli: 8_000, cpu_milli: UNLIMITED, ..Resources::NONE };
        let demand = Resources { gpu_milli: 2_000, cpu_milli: 64_000, ..Resources::NONE };
        assert_eq!((total - demand).cpu_milli, UNLIMITED);
        assert_eq!(demand.dominant_share(&total), 0.25);
        assert_eq!(demand.times_in(&total, 100), 4);
    }

    #[test]
    fn a_demand_for_what_no_node_has_is_an_infinite_share() {
        assert_eq!(Resources::gpus(1).dominant_share(&Resources::cpus(4)), f64::INFINITY);
    }
}
