//! Control's own account of what is given away on each node. It shares no code with the planner's
//! [`crate::place::FreeCapacity`], so that a mistake there does not hide itself here.

use serde::{Deserialize, Serialize};

use crate::model::{Allocation, Cluster, GPU, NodeId, NodeState, Parallelism, Placement, Resources};

/// What is given away on every node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ledger {
    nodes: Vec<Account>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Account {
    holds: Resources,
    used: [u64; 4],
    /// Thousandths of each device that are given away.
    devices: Box<[u16]>,
}

impl Ledger {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let account = |node: &crate::model::Node| Account {
            holds: node.holds,
            used: [0; 4],
            devices: vec![0; node.gpu_count() as usize].into(),
        };
        Self { nodes: cluster.nodes.iter().map(account).collect() }
    }

    pub(super) fn add(&mut self, allocation: &Allocation, shape: &Parallelism) {
        self.add_parts(allocation.placements(), shape);
    }

    /// The same for parts of an allocation; a part may have devices without further instances.
    pub(super) fn add_parts(&mut self, parts: &[Placement], shape: &Parallelism) {
        self.book(parts, shape, |have, change| have + change);
    }

    pub(super) fn remove(&mut self, allocation: &Allocation, shape: &Parallelism) {
        self.remove_parts(allocation.placements(), shape);
    }

    pub(super) fn remove_parts(&mut self, parts: &[Placement], shape: &Parallelism) {
        self.book(parts, shape, |have, change| have - change);
    }

    fn book(&mut self, parts: &[Placement], shape: &Parallelism, op: impl Fn(u64, u64) -> u64) {
        for p in parts {
            let account = &mut self.nodes[p.node.index()];
            let taken = p.takes(shape.demand_of(p.task).unwrap_or_default()).amounts();
            for (used, taken) in account.used.iter_mut().zip(taken) {
                *used = op(*used, taken);
            }
            for (i, device) in account.devices.iter_mut().enumerate() {
                if p.gpus.devices >> i & 1 == 1 {
                    *device = op(u64::from(*device), u64::from(p.gpus.share_milli)) as u16;
                }
            }
        }
    }

    /// Whether more of `node` is given away than it holds.
    pub(super) fn is_over(&self, node: NodeId) -> bool {
        let account = &self.nodes[node.index()];
        let over = account.used.iter().zip(account.holds.amounts()).any(|(used, holds)| *used > holds);
        over || account.devices.iter().any(|share| u64::from(*share) > GPU)
    }

    /// Whether an allocation could be added without giving anything away twice.
    pub(super) fn has_room(
        &mut self,
        allocation: &Allocation,
        shape: &Parallelism,
        cluster: &Cluster,
    ) -> bool {
        if allocation.placements().iter().any(|p| cluster.node(p.node).state == NodeState::Down) {
            return false;
        }
        self.add(allocation, shape);
        let fits = allocation.placements().iter().all(|p| !self.is_over(p.node));
        self.remove(allocation, shape);
        fits
    }
}
