//! How much of each node and device is really used.

use trainyard_sched::model::{Cluster, GPU, NodeId, Placement, Resources, UNLIMITED};

/// What is used of everything there is. It may be more than there is.
#[derive(Clone, Debug)]
pub(crate) struct Loads {
    nodes: Vec<Load>,
}

#[derive(Clone, Debug)]
struct Load {
    holds: Resources,
    used: [f64; 4],
    /// Of each device, in whole devices.
    devices: Vec<f64>,
    /// What shares its network; see [`Flows`](super::Flows).
    flows: u32,
}

/// A demand times a factor.
pub(crate) fn scaled(demand: &Resources, factor: f64) -> Resources {
    let part =
        |amount: u64| if amount == UNLIMITED { amount } else { (amount as f64 * factor).round() as u64 };
    let [gpu_milli, cpu_milli, memory_bytes, network_bytes_per_s] = demand.amounts().map(part);
    Resources { gpu_milli, cpu_milli, memory_bytes, network_bytes_per_s }
}

impl Loads {
    pub(crate) fn new(cluster: &Cluster) -> Self {
        let load = |node: &trainyard_sched::model::Node| Load {
            holds: node.holds,
            used: [0.0; 4],
            devices: vec![0.0; node.gpu_count() as usize],
            flows: 0,
        };
        Self { nodes: cluster.nodes.iter().map(load).collect() }
    }

    /// Nothing is used anywhere.
    pub(crate) fn clear(&mut self) {
        for node in &mut self.nodes {
            node.used = [0.0; 4];
            node.devices.fill(0.0);
            node.flows = 0;
        }
    }

    /// Something that stands here uses so much; `sign` is 1, or -1 where it uses that no longer.
    pub(crate) fn add(&mut self, placement: &Placement, used: &Resources, sign: f64) {
        let node = &mut self.nodes[placement.node.index()];
        for (sum, amount) in node.used.iter_mut().zip(used.amounts()) {
            *sum += sign * amount as f64;
        }
        let count = placement.gpus.count();
        if count > 0 {
            let each = used.gpu_milli as f64 / GPU as f64 / f64::from(count);
            let mut left = placement.gpus.devices;
            while left != 0 {
                node.devices[left.trailing_zeros() as usize] += sign * each;
                left &= left - 1;
            }
        }
    }

    /// Something flows to or from a node, or does so no longer.
    pub(crate) fn add_flow(&mut self, node: NodeId, sign: i32) {
        let flows = &mut self.nodes[node.index()].flows;
        *flows = flows.saturating_add_signed(sign);
    }

    /// What is used of a node, rounded.
    pub(crate) fn used(&self, node: NodeId) -> Resources {
        let [gpu_milli, cpu_milli, memory_bytes, network_bytes_per_s] =
            self.nodes[node.index()].used.map(|amount| amount.round() as u64);
        Resources { gpu_milli, cpu_milli, memory_bytes, network_bytes_per_s }
    }

    /// By how much everything on these devices of a node is slower: what is used most there, as a multiple of what there is,
    /// but at least 1.
    pub(crate) fn slowdown(&self, node: NodeId, devices: u64) -> f64 {
        let load = &self.nodes[node.index()];
        let part = |(used, holds): (&f64, u64)| match holds {
            UNLIMITED => 0.0,
            0 => f64::from(u8::from(*used > 0.0)),
            holds => used / holds as f64,
        };
        let mut worst = load.used.iter().zip(load.holds.amounts()).map(part).fold(1.0, f64::max);
        let mut left = devices;
        while left != 0 {
            worst = worst.max(load.devices[left.trailing_zeros() as usize]);
            left &= left - 1;
        }
        worst
    }

    /// The part of a node's network that one of the flows there has, in bytes a second; `None` if it has no limit.
    pub(crate) fn flow_bytes_per_s(&self, node: NodeId) -> Option<f64> {
        let load = &self.nodes[node.index()];
        let has = load.holds.network_bytes_per_s;
        (has != UNLIMITED).then(|| has as f64 / f64::from(load.flows.max(1)))
    }

    /// What is free of a node's network, in bytes a second, but at least a twentieth of it; `None` if it has no limit.
    pub(crate) fn free_bytes_per_s(&self, node: NodeId) -> Option<f64> {
        let load = &self.nodes[node.index()];
        let has = load.holds.network_bytes_per_s;
        (has != UNLIMITED).then(|| (has as f64 - load.used[3]).max(0.05 * has as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_sched::model::{CopyId, GpuSet, TaskId};

    #[test]
    fn the_scarcest_resource_and_device_slow_everybody_down() {
        let mut cluster = Cluster::uniform(1, 2, "v100");
        cluster.nodes[0].holds.cpu_milli = 4000;
        cluster.nodes[0].holds.memory_bytes = UNLIMITED;
        let mut loads = Loads::new(&cluster);
        let at = |devices, share_milli| Placement {
            copy: CopyId(0),
            task: TaskId(0),
            node: NodeId(0),
            count: 1,
            gpus: GpuSet { devices, share_milli },
        };
        let used =
            |gpu_milli, cpu_milli| Resources { gpu_milli, cpu_milli, memory_bytes: 9, ..Resources::NONE };
        loads.add(&at(1, 800), &used(900, 1000), 1.0);
        assert_eq!(loads.slowdown(NodeId(0), 1), 1.0);
        loads.add(&at(1, 200), &used(300, 1000), 1.0);
        assert!((loads.slowdown(NodeId(0), 1) - 1.2).abs() < 1e-12, "the device is full");
        assert_eq!(loads.slowdown(NodeId(0), 2), 1.0, "the other one is not");
        loads.add(&at(2, 1000), &used(1000, 3000), 1.0);
        assert_eq!(loads.slowdown(NodeId(0), 2), 1.25, "the processors are");
        loads.add(&at(2, 1000), &used(1000, 3000), -1.0);
        assert_eq!(loads.slowdown(NodeId(0), 2), 1.0);
    }

    #[test]
    fn flows_share_a_network() {
        let mut cluster = Cluster::uniform(2, 1, "v100");
        cluster.nodes[0].holds.network_bytes_per_s = 100;
        cluster.nodes[1].holds.network_bytes_per_s = UNLIMITED;
        let mut loads = Loads::new(&cluster);
        assert_eq!(loads.flow_bytes_per_s(NodeId(0)), Some(100.0));
        for _ in 0..4 {
            loads.add_flow(NodeId(0), 1);
        }
        assert_eq!(
            (loads.flow_bytes_per_s(NodeId(0)), loads.flow_bytes_per_s(NodeId(1))),
            (Some(25.0), None)
        );
        loads.add_flow(NodeId(0), -1);
        assert_eq!(loads.flow_bytes_per_s(NodeId(0)), Some(100.0 / 3.0));
        assert_eq!(loads.free_bytes_per_s(NodeId(0)), Some(100.0));
    }
}
