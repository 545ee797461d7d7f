//! How much is left of devices, to say at once that a graph of tasks does not fit.
//!
//! Where GPUs are shared, much may be free in all and nowhere enough for a task. A graph of `n` tasks of which the smallest
//! demands `d` needs devices that have `d` left at least `n` times, and the same holds of its larger tasks alone.

use smallvec::SmallVec;

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
    /// Parts of a device that are demanded, in thousandths, and how many tasks demand so much or more: that of all of them, of
    /// half, of a quarter, and the largest. The least first.
    parts: [(u16, u32); 4],
    /// All of these parts together.
    sum: u64,
    /// Whole devices that the others demand.
    whole: u64,
}

impl Sizes {
    /// What these demands come to.
    pub fn of<'a>(demands: impl Iterator<Item = &'a Resources>) -> Self {
        let mut sizes = Self::default();
        let mut parts: SmallVec<[u16; 32]> = SmallVec::new();
        for demand in demands {
            match demand.gpu_milli {
                0 => {}
                share if share < GPU => parts.push(share as u16),
                whole => sizes.whole += whole.div_ceil(GPU),
            }
        }
        parts.sort_unstable();
        let count = parts.len();
        if count > 0 {
            sizes.parts = [0, count / 2, count - count.div_ceil(4), count - 1].map(|at| {
                let so_much = parts.partition_point(|part| *part < parts[at]);
                (parts[at], (count - so_much) as u32)
            });
        }
        sizes.sum = parts.iter().copied().map(u64::from).sum();
        sizes
    }

    fn is_none(&self) -> bool {
        self.sum == 0 && self.whole == 0
    }

    fn fit(&self, whole: u64, left: &[&[(u16, u32)]]) -> bool {
        if self.whole > whole {
            return false;
        }
        if self.sum == 0 {
            return true;
        }
        let devices = |least: u16| left.iter().copied().flatten().filter(move |(share, _)| *share >= least);
        let fits = |(part, count): &(u16, u32)| {
            let slots = devices(*part).map(|(share, devices)| u64::from(share / part) * u64::from(*devices));
            slots.sum::<u64>() >= u64::from(*count)
        };
        let sum = |(share, count): &(u16, u32)| u64::from(*share) * u64::from(*count);
        devices(self.parts[0].0).map(sum).sum::<u64>() >= self.sum && self.parts.iter().all(fits)
    }
}

impl FreeCapacity {
    /// Whether GPUs have enough left for tasks of these sizes. `false` is certain, `true` is not.
    pub fn may_hold(&mut self, wanted: &Wanted, sizes: &Sizes) -> bool {
        let types: Vec<usize> = self.types_in(wanted.gpu_types).collect();
        let left = self.left.0.take().unwrap_or_else(|| self.count_left());
        let whole = |i: usize| self.whole_gpus(GpuTypeSet::of(&[crate::model::GpuTypeId(i as u8)]));
        let may = if sizes.is_none() {
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
        assert!(may(&mut free, &[200, 200, 200, 200]) && !may(&mut free, &[100, 200, 200, 200, 200, 200]));
        assert!(!may(&mut free, &[301, 100]) && !may(&mut free, &[300, 300, 300, 100, 100, 100, 100]));
        assert!(!may(&mut free, &[1000]) && may(&mut free, &[]) && may(&mut free, &[0]));
    }

    /// Whether tasks of these sizes fit devices that have so much left, tried in every way.
    fn packs(left: &mut [u64], tasks: &[u64]) -> bool {
        let Some((first, rest)) = tasks.split_first() else { return true };
        (0..left.len()).any(|device| {
            let fits = left[device] >= *first;
            if fits {
                left[device] -= first;
            }
            let all = fits && packs(left, rest);
            left[device] += if fits { *first } else { 0 };
            all
        })
    }

    #[test]
    fn nothing_is_ruled_out_that_fits_and_most_that_does_not_is() {
        let (mut fit, mut ruled_out, mut missed) = (0, 0, 0);
        for i in 0..3000 {
            let mut rolls = 0;
            let mut roll = |sides: u64| {
                rolls += 1;
                crate::model::Seed(i).numbered(rolls).0 % sides
            };
            let mut left: Vec<u64> = (0..1 + roll(4)).map(|_| 100 * roll(11)).collect();
            let mut tasks: Vec<u64> = (0..1 + roll(6)).map(|_| 50 * (1 + roll(19))).collect();
            let mut free = FreeCapacity::new(&Cluster::uniform(1, left.len() as u64, "v100"));
            let share = |gpu_milli: &u64| Resources { gpu_milli: *gpu_milli, ..Resources::NONE };
            for (device, left) in left.iter().enumerate().filter(|(_, left)| **left < GPU) {
                let place = (NodeId(0), device as u32);
                let _ = free.take_on((CopyId(0), TaskId(0)), place, &share(&(GPU - left)));
            }
            let demands: Vec<Resources> = tasks.iter().map(share).collect();
            let may = free.may_hold(&Wanted::default(), &Sizes::of(demands.iter()));
            tasks.sort_unstable_by(|a, b| b.cmp(a));
            match (packs(&mut left, &tasks), may) {
                (true, may) => {
                    assert!(may, "draw {i}: {tasks:?} fit {left:?}");
                    fit += 1;
                }
                (false, true) => missed += 1,
                (false, false) => ruled_out += 1,
            }
        }
        assert!(
            fit > 500 && ruled_out > 20 * missed,
            "{fit} fit, {ruled_out} were ruled out, {missed} were not"
        );
    }
}
