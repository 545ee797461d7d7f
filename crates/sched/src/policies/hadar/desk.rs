//! Which devices: offers say how many on which node, and here each gets its devices, so that nobody who stays is moved.

use crate::decide::Slate;
use crate::model::{Allocation, CopyId, GPU, GpuSet, NodeId, Placement, WORKER_TASK};
use crate::view::Snapshot;

use super::candidates::{Gang, Kind, Offer};
use super::stock::Stock;

/// The devices of every node, as bits.
pub(super) struct Desk {
    /// Those that nobody was given in this decision.
    free: Vec<u64>,
    /// Those that a running job holds which may still stay.
    claimed: Vec<u64>,
}

/// An offer that was accepted.
pub(super) struct Accepted<'a> {
    /// The position of the job on the slate.
    pub line: usize,
    /// What it has now.
    pub had: &'a Allocation,
    /// The job.
    pub gang: &'a Gang,
    /// What it is to have.
    pub offer: Offer,
}

impl Desk {
    /// What the slate has not given away.
    pub(super) fn new(seen: &Snapshot, slate: &Slate<'_>) -> Self {
        let all = |count: u32| if count == 64 { u64::MAX } else { (1 << count) - 1 };
        let free = seen.cluster.nodes.iter().map(|node| all(node.gpu_count())).collect();
        let mut desk = Self { free, claimed: vec![0; seen.cluster.nodes.len()] };
        for (line, view) in slate.lines().iter().zip(seen.jobs()) {
            if line.runs() {
                desk.mark_taken(&line.target());
            } else {
                for p in view.target.placements() {
                    desk.claimed[p.node.index()] |= p.gpus.devices;
                }
            }
        }
        desk
    }

    /// Follows what was given away.
    pub(super) fn mark_taken(&mut self, given: &Allocation) {
        for p in given.placements() {
            self.free[p.node.index()] &= !p.gpus.devices;
        }
    }

    /// Forgets that a job has a claim on what it holds.
    pub(super) fn let_go(&mut self, had: &Allocation) {
        for p in had.placements() {
            self.claimed[p.node.index()] &= !p.gpus.devices;
        }
    }

    /// Gives all of these jobs their devices, those that stay first. Returns the positions of those for which there were none
    /// after all.
    pub(super) fn give(
        &mut self,
        slate: &mut Slate<'_>,
        stock: &Stock,
        accepted: &[Accepted<'_>],
    ) -> Vec<usize> {
        let stays = |each: &Accepted<'_>| each.offer.kind == Kind::Stay;
        let mut moving = Vec::new();
        for each in accepted {
            self.let_go(each.had);
            if stays(each) && slate.keep(each.line, each.had) {
                self.mark_taken(each.had);
            } else {
                moving.push(each);
            }
        }
        let mut without = Vec::new();
        for each in moving {
            let given =
                self.devices(stock, each.gang, &each.offer).filter(|given| slate.keep(each.line, given));
            match given {
                Some(given) => self.mark_taken(&given),
                None => without.push(each.line),
            }
        }
        without
    }

    fn devices(&self, stock: &Stock, gang: &Gang, offer: &Offer) -> Option<Allocation> {
        let placement = |(at, count): &(u32, u32)| {
            let node = stock.spot(*at).node;
            let devices = self.pick(node, gang.worker.gpus * count)?;
            let gpus = GpuSet { devices, share_milli: GPU as u16 };
            Some(Placement { copy: CopyId(0), task: WORKER_TASK, node, count: *count, gpus })
        };
        let placements: Option<Vec<Placement>> = offer.counts.iter().map(placement).collect();
        placements.map(Allocation::new)
    }

    /// The lowest free devices of a node, such as nobody has a claim on first.
    fn pick(&self, node: NodeId, count: u32) -> Option<u64> {
        let (free, claimed) = (self.free[node.index()], self.claimed[node.index()]);
        let mut picked = 0_u64;
        for mut left in [free & !claimed, free & claimed] {
            while left != 0 && picked.count_ones() < count {
                picked |= left & left.wrapping_neg();
                left &= left - 1;
            }
        }
        (picked.count_ones() == count).then_some(picked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_somebody_may_keep_are_taken_last() {
        let desk = Desk { free: vec![0b1111, 0b1010], claimed: vec![0b0011, 0b0010] };
        let pick = |node, count| desk.pick(NodeId(node), count);
        assert_eq!((pick(0, 2), pick(0, 3), pick(0, 4)), (Some(0b1100), Some(0b1101), Some(0b1111)));
        assert_eq!((pick(1, 1), pick(1, 2), pick(1, 3)), (Some(0b1000), Some(0b1010), None));
    }
}
