//! How much is left of devices, to say at once that a graph of tasks does not fit.
//!
//! Where GPUs are shared, much may be free in all and nowhere enough for a task. A graph of `n` tasks of which the smallest
//! demands `d` needs devices that have `d` left at least `n` times.

use crate::model::{GPU, GpuTypeSet, Resources, Wanted};

use super::FreeCapacity;

/// Devices by what they have left, for each GPU type: thousandths with the number of devices, the most first.
#[derive(Clone, Debug, Default)]
pub(super) struct Left(Option<Vec<Vec<(u16, u32)>>>);

/// It says nothing that the nodes do not say.
impl PartialEq for Left {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Left {
    /// Something has changed.
    pub(super) fn forget(&mut self) {
        self.0 = None;
    }
}

/// What several tasks need of GPUs, in short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// How many demand a part of a device.
    parts: u32,
    /// The smallest and the largest of these parts, in thousandths.
    least: u16,
    most: u16,
    /// Whole devices that the others demand.
    whole: u64,
}

impl Sizes {
    /// What these demands come to.
    pub fn of<'a>(demands: impl Iterator<Item = &'a Resources>) -> Self {
        let mut sizes = Self { least: u16::MAX, ..Self::default() };
        for demand in demands {
            match demand.gpu_milli {
                0 => {}
                share if share < GPU => {
                    sizes.parts += 1;
                    sizes.least = sizes.least.min(share as u16);
                    sizes.most = sizes.most.max(share as u16);
                }
                whole => sizes.whole += whole.div_ceil(GPU),
            }
        }
        sizes
    }

    fn fit(&self, whole: u64, left: &[&[(u16, u32)]]) -> bool {
        if self.whole > whole {
            return false;
        }
        if self.parts == 0 {
            return true;
        }
        let devices = || left.iter().copied().flatten();
        let slots = || devices().map(|(share, count)| u64::from(share / self.least) * u64::from(*count));
        devices().any(|(share, _)| *share >= self.most) && slots().sum::<u64>() >= u64::from(self.parts)
    }
}

impl FreeCapacity {
    /// Whether GPUs have enough left for tasks of these sizes. `false` is certain, `true` is not.
    pub fn may_hold(&mut self, wanted: &Wanted, sizes: &Sizes) -> bool {
        let types: Vec<usize> = self.types_in(wanted.gpu_types).collect();
        let left = self.left.0.take().unwrap_or_else(|| self.count_left());
        let whole = |i: usize| self.whole_gpus(GpuTypeSet::of(&[crate::model::GpuTypeId(i as u8)]));
        let may = if sizes.parts == 0 && sizes.whole == 0 {
            true
        } else if wanted.mixed_gpu_types {
            let all: Vec<&[(u16, u32)]> = types.iter().map(|i| &left[*i][..]).collect();
            sizes.fit(types.iter().map(|i| whole(*i)).sum(), &all)
        } else {
            types.iter().any(|i| sizes.fit(whole(*i), &[&left[*i]]))
        };
        self.left.0 = Some(left);
        may
    }

    fn count_left(&self) -> Vec<Vec<(u16, u32)>> {
        let mut shares: Vec<Vec<u16>> = vec![Vec::new(); self.type_count()];
        for (_, room) in self.up() {
            let Some(gpu_type) = room.gpu_type else { continue };
            let of_type = &mut shares[gpu_type.index()];
            of_type.extend((0..room.device_count()).map(|i| room.free_share(i) as u16).filter(|s| *s > 0));
        }
        let counted = shares.into_iter().map(|mut shares| {
            shares.sort_unstable_by(|a, b| b.cmp(a));
            shares.chunk_by(|a, b| a == b).map(|equal| (equal[0], equal.len() as u32)).collect()
        });
        counted.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cluster, CopyId, NodeId, TaskId};

    #[test]
    fn what_is_free_in_all_but_nowhere_enough_is_seen() {
        let mut free = FreeCapacity::new(&Cluster::uniform(1, 4, "v100"));
        let share = |gpu_milli| Resources { gpu_milli, ..Resources::NONE };
        let may = |free: &mut FreeCapacity, shares: &[u64]| {
            let demands: Vec<Resources> = shares.iter().map(|milli| share(*milli)).collect();
            free.may_hold(&Wanted::default(), &Sizes::of(demands.iter()))
        };
        assert!(may(&mut free, &[1000, 1000, 1000, 1000]) && !may(&mut free, &[1000, 4000]));
        for device in 0..4 {
            let _ = free.take_on((CopyId(0), TaskId(0)), (NodeId(0), device), &share(700));
        }
        // 1.2 GPUs are free, and no device has more than 0.3.
        assert!(may(&mut free, &[300, 100]) && !may(&mut free, &[301]));
        assert!(may(&mut free, &[100; 12]) && !may(&mut free, &[100; 13]));
        assert!(may(&mut free, &[300, 100, 100, 100, 100, 100]), "four devices have three tenths each");
        assert!(!may(&mut free, &[1000]) && may(&mut free, &[]) && may(&mut free, &[0]));
    }
}
