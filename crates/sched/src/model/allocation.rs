//! What a job holds, down to the device.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{CopyId, GPU, NodeId, Parallelism, Resources, TaskId};

/// The task of the workers of a data-parallel job.
pub const WORKER_TASK: TaskId = TaskId(0);
/// The task of the parameter servers of a data-parallel job.
pub const SERVER_TASK: TaskId = TaskId(1);
/// How many devices a [`GpuSet`] can name.
pub const MAX_GPUS_PER_NODE: u32 = 64;

/// Devices of one node, and how much of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GpuSet {
    /// One bit a device.
    pub devices: u64,
    /// Thousandths of each of these devices: 1000, or less for a single shared one.
    pub share_milli: u16,
}

impl GpuSet {
    /// No device.
    pub const NONE: Self = Self { devices: 0, share_milli: 0 };

    /// These devices, whole.
    pub const fn whole(devices: u64) -> Self {
        Self { devices, share_milli: if devices == 0 { 0 } else { GPU as u16 } }
    }

    /// Half of each of these devices: what a gang has of them that shares them all with another gang.
    pub const fn half(devices: u64) -> Self {
        Self { devices, share_milli: if devices == 0 { 0 } else { GPU as u16 / 2 } }
    }

    /// How many devices are touched.
    pub const fn count(self) -> u32 {
        self.devices.count_ones()
    }

    /// The lowest devices that `count` workers of `gpu_milli` each use.
    #[must_use]
    pub const fn first(self, count: u32, gpu_milli: u64) -> Self {
        if gpu_milli == 0 || count == 0 {
            return Self::NONE;
        }
        let per_worker = gpu_milli.div_ceil(GPU) as u32;
        let (mut devices, mut left, mut taken) = (0, self.devices, 0);
        while taken < count * per_worker && left != 0 {
            devices |= left & left.wrapping_neg();
            left &= left - 1;
            taken += 1;
        }
        Self { devices, share_milli: self.share_milli }
    }

    /// What is held of one device, in thousandths.
    pub const fn part_of(self, device: u32) -> u64 {
        if self.devices >> device & 1 == 1 { self.share_milli as u64 } else { 0 }
    }

    /// The sum over the devices, in thousandths.
    pub const fn milli(self) -> u64 {
        self.devices.count_ones() as u64 * self.share_milli as u64
    }
}

/// Equal instances of one task of one copy of a job, on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Placement {
    /// Which copy of the job.
    pub copy: CopyId,
    /// Which task of the job; see [`WORKER_TASK`] and [`SERVER_TASK`].
    pub task: TaskId,
    /// Where.
    pub node: NodeId,
    /// How many instances of the task.
    pub count: u32,
    /// The devices that they use together.
    pub gpus: GpuSet,
}

impl Placement {
    /// What it takes of its node, where one instance demands so much. Instances that demand whole GPUs take half of each
    /// where they share them with another gang, and everything else as ever.
    pub fn takes(&self, demand: Resources) -> Resources {
        let mut taken = demand.times(u64::from(self.count));
        if self.is_beside(demand) {
            taken.gpu_milli = taken.gpu_milli * u64::from(self.gpus.share_milli) / GPU;
        }
        taken
    }

    /// Whether it shares devices that one instance demands whole.
    pub const fn is_beside(&self, demand: Resources) -> bool {
        demand.gpu_milli >= GPU && self.gpus.devices != 0 && (self.gpus.share_milli as u64) < GPU
    }
}

/// All that one job holds: placements in ascending order, at most one for each copy, task and node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Allocation(Option<Arc<[Placement]>>);

impl Allocation {
    /// Nothing.
    pub const NONE: Self = Self(None);

    /// An allocation of these placements, in any order.
    ///
    /// # Panics
    /// If a copy has the same task twice on one node, or a placement of no instances.
    pub fn new(mut placements: Vec<Placement>) -> Self {
        if placements.is_empty() {
            return Self::NONE;
        }
        placements.sort_unstable();
        assert!(placements.iter().all(|p| p.count > 0), "a placement holds at least one instance");
        let same = |a: &Placement, b: &Placement| (a.copy, a.task, a.node) == (b.copy, b.task, b.node);
        assert!(
            placements.windows(2).all(|pair| !same(&pair[0], &pair[1])),
            "a task of a copy stands on a node once"
        );
        Self(Some(placements.into()))
    }

    /// The placements in ascending order.
    pub fn placements(&self) -> &[Placement] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Whether nothing is held.
    pub const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Whether anything is held.
    pub const fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Instances of `task` over all copies and nodes.
    pub fn count_of(&self, task: TaskId) -> u32 {
        self.placements().iter().filter(|p| p.task == task).map(|p| p.count).sum()
    }

    /// Where a task of a graph is, whose tasks each have one place.
    pub fn place_of(&self, task: TaskId) -> Option<&Placement> {
        let placements = self.placements();
        placements.binary_search_by_key(&task, |p| p.task).ok().map(|i| &placements[i])
    }

    /// Workers of a data-parallel job.
    pub fn workers(&self) -> u32 {
        self.count_of(WORKER_TASK)
    }

    /// GPUs in thousandths.
    pub fn gpu_milli(&self) -> u64 {
        self.placements().iter().map(|p| p.gpus.milli()).sum()
    }

    /// What the placements take together, given the shape of the job.
    pub fn resources(&self, shape: &Parallelism) -> Resources {
        let of = |p: &Placement| p.takes(shape.demand_of(p.task).unwrap_or_default());
        self.placements().iter().fold(Resources::NONE, |sum, p| sum + of(p))
    }

    /// The same with half of each device that is now taken whole, to be shared with another gang.
    #[must_use]
    pub fn halved(&self) -> Self {
        let halved = |p: &Placement| {
            let whole = u64::from(p.gpus.share_milli) == GPU;
            Placement { gpus: if whole { GpuSet::half(p.gpus.devices) } else { p.gpus }, ..*p }
        };
        Self::new(self.placements().iter().map(halved).collect())
    }

    /// Whether both are on the same devices, whatever share of each they have.
    pub fn is_on_same_devices(&self, other: &Self) -> bool {
        let (here, there) = (self.placements(), other.placements());
        let same = |(a, b): (&Placement, &Placement)| {
            (a.copy, a.task, a.node, a.count) == (b.copy, b.task, b.node, b.count)
                && a.gpus.devices == b.gpus.devices
        };
        here.len() == there.len() && here.iter().zip(there).all(same)
    }

    /// Whether it shares devices that the job demands whole.
    pub fn is_beside(&self, shape: &Parallelism) -> bool {
        self.placements().iter().any(|p| p.is_beside(shape.demand_of(p.task).unwrap_or_default()))
    }

    /// The different nodes in ascending order.
    pub fn nodes(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.placements().iter().map(|p| p.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Whether any part is on `node`.
    pub fn touches(&self, node: NodeId) -> bool {
        self.placements().iter().any(|p| p.node == node)
    }

    /// This allocation with only the first `count` workers; everything else stays. `gpu_milli` is what
    /// one worker demands.
    #[must_use]
    pub fn first_workers(&self, count: u32, gpu_milli: u64) -> Self {
        self.first_of(WORKER_TASK, count, gpu_milli)
    }

    /// This allocation with only the first `count` instances of a task; everything else stays. `gpu_milli` is what one
    /// instance demands.
    #[must_use]
    pub fn first_of(&self, task: TaskId, count: u32, gpu_milli: u64) -> Self {
        let mut left = count;
        let kept = self.placements().iter().filter_map(|p| {
            if p.task != task {
                return Some(*p);
            }
            let mut kept = *p;
            kept.count = p.count.min(left);
            left -= kept.count;
            kept.gpus = p.gpus.first(kept.count, gpu_milli);
            (kept.count > 0).then_some(kept)
        });
        Self::new(kept.collect())
    }

    /// One worker that this allocation has and `held` does not, as an allocation of its own.
    pub fn next_worker(&self, held: &Self, gpu_milli: u64) -> Option<Self> {
        let next = self.further_workers(held, 1, gpu_milli);
        (!next.is_empty()).then(|| Self::new(next))
    }

    /// Up to `most` workers that this allocation has and `held` does not, node by node. `gpu_milli` is what one worker
    /// demands.
    pub fn further_workers(&self, held: &Self, most: u32, gpu_milli: u64) -> Vec<Placement> {
        let mut left = most;
        let mut further = Vec::new();
        for p in self.placements().iter().filter(|p| p.task == WORKER_TASK) {
            let here = |q: &&Placement| (q.copy, q.task, q.node) == (p.copy, p.task, p.node);
            let (count, devices) =
                held.placements().iter().find(here).map_or((0, 0), |q| (q.count, q.gpus.devices));
            let rest = GpuSet { devices: p.gpus.devices & !devices, ..p.gpus };
            let mut more = p.count.saturating_sub(count).min(left);
            if gpu_milli > 0 {
                more = more.min(rest.count() / gpu_milli.div_ceil(GPU) as u32);
            }
            if more > 0 {
                left -= more;
                further.push(Placement { count: more, gpus: rest.first(more, gpu_milli), ..*p });
            }
        }
        further
    }

    /// Both allocations together. They must not have a device in common.
    #[must_use]
    pub fn with(&self, more: &Self) -> Self {
        let mut all = self.placements().to_vec();
        for p in more.placements() {
            let here = |q: &&mut Placement| (q.copy, q.task, q.node) == (p.copy, p.task, p.node);
            match all.iter_mut().find(here) {
                Some(same) => {
                    same.count += p.count;
                    same.gpus.devices |= p.gpus.devices;
                    same.gpus.share_milli = p.gpus.share_milli;
                }
                None => all.push(*p),
            }
        }
        Self::new(all)
    }

    /// How many copies hold something.
    pub fn copies(&self) -> usize {
        self.placements().chunk_by(|a, b| a.copy == b.copy).count()
    }
}

impl fmt::Display for Allocation {
    /// `2 on n3, 1 on n7`, with node numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str("nothing");
        }
        for (i, p) in self.placements().iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{} on n{}", p.count, p.node.0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(task: u32, node: u32, count: u32) -> Placement {
        let gpus = GpuSet::whole((1 << count) - 1);
        Placement { copy: CopyId(0), task: TaskId(task), node: NodeId(node), count, gpus }
    }

    #[test]
    fn placements_are_sorted_and_counted() {
        let held = Allocation::new(vec![placement(0, 5, 2), placement(0, 1, 3)]);
        assert_eq!(held.nodes(), [NodeId(1), NodeId(5)]);
        assert_eq!(held.workers(), 5);
        assert_eq!(held.gpu_milli(), 5000);
        assert_eq!(held.to_string(), "3 on n1, 2 on n5");
        assert!(Allocation::new(Vec::new()).is_none());
    }

    #[test]
    fn workers_can_be_taken_off_and_put_back_one_by_one() {
        let held = Allocation::new(vec![placement(0, 1, 3), placement(0, 5, 2)]);
        let least = held.first_workers(1, 1000);
        assert_eq!(least, Allocation::new(vec![placement(0, 1, 1)]));
        let mut grown = least.clone();
        for workers in 2..=5 {
            let more = held.next_worker(&grown, 1000).expect("one is missing");
            grown = grown.with(&more);
            assert_eq!(grown.workers(), workers);
        }
        assert_eq!(grown, held);
        assert_eq!(held.next_worker(&grown, 1000), None);
        assert_eq!(least.with(&Allocation::new(held.further_workers(&least, 9, 1000))), held);
        assert_eq!(held.further_workers(&least, 3, 1000).iter().map(|p| p.count).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn a_gang_that_shares_its_devices_takes_half_of_each() {
        let shape = Parallelism::rigid(2, Resources { cpu_milli: 3000, ..Resources::gpus(1) });
        let whole = Allocation::new(vec![placement(0, 1, 2)]);
        let halved = whole.halved();
        assert_eq!((halved.gpu_milli(), halved.workers()), (1000, 2));
        let both = [&whole, &halved].map(|held| held.resources(&shape));
        assert_eq!(both.map(|taken| taken.gpu_milli), [2000, 1000]);
        assert_eq!(both.map(|taken| taken.cpu_milli), [6000, 6000]);
        assert_eq!(halved.halved(), halved);
        // A part of one device that was asked for is not shared any further.
        let part = Parallelism::rigid(1, Resources { gpu_milli: 400, ..Resources::NONE });
        let gpus = GpuSet { devices: 1, share_milli: 400 };
        let held = Allocation::new(vec![Placement { gpus, ..placement(0, 1, 1) }]);
        assert_eq!((held.resources(&part).gpu_milli, held.halved()), (400, held.clone()));
    }

    #[test]
    #[should_panic(expected = "on a node once")]
    fn one_task_stands_on_a_node_once() {
        let _ = Allocation::new(vec![placement(0, 1, 2), placement(0, 1, 1)]);
    }
}
