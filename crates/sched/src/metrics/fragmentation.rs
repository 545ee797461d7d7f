//! GPUs that are free and of no use to a job that wants a whole node.
//!
//! A free GPU is *stranded* if it is not part of a piece: the whole of a node, or eight GPUs of a larger one, all free.
//! This is the fragmentation that is spoken of in reports of schedulers (several GPUs are free, and the gang that would
//! fill a node still waits), for the one size that hurts most. The measure of FGD (Weng and others, USENIX ATC 2023) is more general: there every kind of job of a workload counts with its frequency. Ours needs no
//! knowledge of the workload, so that policies and clusters can be compared by it.
//!
//! Cost: O(devices) for each change. Memory: two bytes for each device, and two series.

use crate::model::{Allocation, Cluster, GPU, Node, NodeId, NodeState, Time};

use super::Series;

/// GPUs of a piece, or of the whole node if that is smaller: what eight-way parallel training wants.
pub const PIECE_GPUS: u64 = 8;

/// What is free, and what of it is stranded.
#[derive(Clone, Debug)]
pub struct Fragmentation {
    nodes: Vec<NodeFree>,
    free_milli: u64,
    stranded_milli: u64,
    /// GPUs that are free on nodes that take work.
    pub free: Series,
    /// Those of them that are stranded.
    pub stranded: Series,
}

#[derive(Clone, Debug)]
struct NodeFree {
    takes_work: bool,
    /// Free thousandths of each device.
    devices: Vec<u16>,
}

impl NodeFree {
    fn new(node: &Node) -> Self {
        Self { takes_work: node.state == NodeState::Up, devices: vec![GPU as u16; node.gpu_count() as usize] }
    }

    /// Free thousandths, and those of them that are stranded.
    fn count(&self) -> (u64, u64) {
        if !self.takes_work || self.devices.is_empty() {
            return (0, 0);
        }
        let free: u64 = self.devices.iter().map(|free| u64::from(*free)).sum();
        let whole = self.devices.iter().filter(|free| u64::from(**free) == GPU).count() as u64;
        let piece = PIECE_GPUS.min(self.devices.len() as u64);
        (free, free - whole / piece * piece * GPU)
    }
}

impl Fragmentation {
    /// Everything is free.
    pub fn new(cluster: &Cluster) -> Self {
        let nodes: Vec<NodeFree> = cluster.nodes.iter().map(NodeFree::new).collect();
        let free_milli = nodes.iter().map(|node| node.count().0).sum();
        let mut all = Self {
            stranded_milli: nodes.iter().map(|node| node.count().1).sum(),
            nodes,
            free_milli,
            free: Series::default(),
            stranded: Series::default(),
        };
        all.note(Time::ZERO);
        all
    }

    pub(super) fn took(&mut self, held: &Allocation) {
        self.change(held, |free, share| free.saturating_sub(share));
    }

    pub(super) fn let_go(&mut self, held: &Allocation) {
        self.change(held, |free, share| (free + share).min(GPU as u16));
    }

    pub(super) fn node_changed(&mut self, node: NodeId, state: NodeState) {
        self.edit(node, |node| node.takes_work = state == NodeState::Up);
    }

    /// From now on it is as it is.
    pub(super) fn note(&mut self, at: Time) {
        self.free.set(at, self.free_milli as f64 / GPU as f64);
        self.stranded.set(at, self.stranded_milli as f64 / GPU as f64);
    }

    fn change(&mut self, held: &Allocation, change: impl Fn(u16, u16) -> u16) {
        for placement in held.placements() {
            let gpus = placement.gpus;
            self.edit(placement.node, |node| {
                for (i, free) in node.devices.iter_mut().enumerate() {
                    if gpus.devices >> i & 1 == 1 {
                        *free = change(*free, gpus.share_milli);
                    }
                }
            });
        }
    }

    fn edit(&mut self, node: NodeId, edit: impl FnOnce(&mut NodeFree)) {
        let Some(node) = self.nodes.get_mut(node.index()) else { return };
        let before = node.count();
        edit(node);
        let after = node.count();
        self.free_milli = self.free_milli + after.0 - before.0;
        self.stranded_milli = self.stranded_milli + after.1 - before.1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CopyId, GpuSet, Placement, WORKER_TASK};

    fn on(node: u32, devices: u64, share_milli: u16) -> Allocation {
        let gpus = GpuSet { devices, share_milli };
        let count = devices.count_ones();
        Allocation::new(vec![Placement {
            copy: CopyId(0),
            task: WORKER_TASK,
            node: NodeId(node),
            count,
            gpus,
        }])
    }

    #[test]
    fn what_is_not_part_of_a_free_piece_is_stranded() {
        let mut cluster = Cluster::uniform(2, 4, "v100");
        cluster.add(1, 16, "v100");
        let mut all = Fragmentation::new(&cluster);
        let now = |all: &Fragmentation| (all.free_milli, all.stranded_milli);
        assert_eq!(now(&all), (24_000, 0));
        all.took(&on(0, 0b1, 1000));
        assert_eq!(now(&all), (23_000, 3_000), "three of four are left on the first node");
        all.took(&on(2, 0b111, 1000));
        assert_eq!(now(&all), (20_000, 8_000), "thirteen of sixteen are one piece of eight and five");
        all.took(&on(1, 0b1, 300));
        assert_eq!(now(&all), (19_700, 11_700), "a node with a shared device is not whole");
        all.node_changed(NodeId(1), NodeState::Down);
        assert_eq!(now(&all), (16_000, 8_000), "a node that is down has nothing free");
        all.let_go(&on(1, 0b1, 300));
        all.node_changed(NodeId(1), NodeState::Up);
        all.let_go(&on(2, 0b111, 1000));
        all.let_go(&on(0, 0b1, 1000));
        assert_eq!(now(&all), (24_000, 0));
    }
}
