//! Who is really on which device. This is the backend's own account, kept apart from what the decision
//! loop believes; a contradiction is a bug and ends the run.

use std::collections::BTreeSet;

use trainyard_sched::model::{Allocation, Cluster, GPU, JobId, NodeId, Parallelism, Resources};

use crate::physics::Crowd;

/// The jobs on each node, and what each device gives to whom.
#[derive(Clone, Debug)]
pub(crate) struct Occupancy {
    nodes: Vec<Occupied>,
}

#[derive(Clone, Debug)]
struct Occupied {
    free: Resources,
    devices: Vec<u16>,
    jobs: BTreeSet<JobId>,
    /// Who shares each device; kept only for devices given away in parts.
    sharers: Vec<BTreeSet<JobId>>,
    /// Jobs here that also are on other nodes.
    crossing: BTreeSet<JobId>,
}

impl Occupancy {
    pub(crate) fn new(cluster: &Cluster) -> Self {
        let occupied = |node: &trainyard_sched::model::Node| Occupied {
            free: node.holds,
            devices: vec![0; node.gpu_count() as usize],
            jobs: BTreeSet::new(),
            sharers: vec![BTreeSet::new(); node.gpu_count() as usize],
            crossing: BTreeSet::new(),
        };
        Self { nodes: cluster.nodes.iter().map(occupied).collect() }
    }

    pub(crate) fn enter(&mut self, id: JobId, held: &Allocation, shape: &Parallelism) {
        let crosses = held.nodes().len() > 1;
        for p in held.placements() {
            let node = &mut self.nodes[p.node.index()];
            let demand = p.takes(shape.demand_of(p.task).expect("a placed task exists"));
            assert!(demand.fits_in(&node.free), "{} gives {id} more than it has", p.node);
            node.free -= demand;
            for i in (0..node.devices.len()).filter(|i| p.gpus.devices >> i & 1 == 1) {
                node.devices[i] += p.gpus.share_milli;
                assert!(u64::from(node.devices[i]) <= GPU, "device {i} of {} is given twice", p.node);
                if u64::from(p.gpus.share_milli) < GPU {
                    node.sharers[i].insert(id);
                }
            }
            node.jobs.insert(id);
            if crosses {
                node.crossing.insert(id);
            }
        }
    }

    pub(crate) fn leave(&mut self, id: JobId, held: &Allocation, shape: &Parallelism) {
        for p in held.placements() {
            let node = &mut self.nodes[p.node.index()];
            let demand = p.takes(shape.demand_of(p.task).expect("a placed task exists"));
            node.free += demand;
            for i in (0..node.devices.len()).filter(|i| p.gpus.devices >> i & 1 == 1) {
                node.devices[i] -= p.gpus.share_milli;
                node.sharers[i].remove(&id);
            }
            node.jobs.remove(&id);
            node.crossing.remove(&id);
        }
    }

    /// Everyone on the nodes of an allocation.
    pub(crate) fn neighbours(&self, held: &Allocation) -> BTreeSet<JobId> {
        held.placements().iter().flat_map(|p| self.nodes[p.node.index()].jobs.iter().copied()).collect()
    }

    /// Everyone on some nodes.
    pub(crate) fn on(&self, nodes: impl Iterator<Item = NodeId>) -> BTreeSet<JobId> {
        nodes.flat_map(|node| self.nodes[node.index()].jobs.iter().copied()).collect()
    }

    /// The other jobs on the devices of a job that are given away in parts.
    pub(crate) fn sharers(&self, id: JobId, held: &Allocation) -> BTreeSet<JobId> {
        let mut others = BTreeSet::new();
        for p in held.placements() {
            let node = &self.nodes[p.node.index()];
            let touched = (0..node.devices.len()).filter(|i| p.gpus.devices >> i & 1 == 1);
            others.extend(touched.flat_map(|i| node.sharers[i].iter().copied()).filter(|other| *other != id));
        }
        others
    }

    /// Who else is on the devices and links of a job.
    pub(crate) fn crowd(&self, id: JobId, held: &Allocation, shared_links: bool) -> Crowd {
        let mut crowd = Crowd { flows: 1, ..Crowd::default() };
        for p in held.placements() {
            let node = &self.nodes[p.node.index()];
            if shared_links && node.crossing.contains(&id) {
                crowd.flows = crowd.flows.max(node.crossing.len() as u32);
            }
            for i in (0..node.devices.len()).filter(|i| p.gpus.devices >> i & 1 == 1) {
                let others = node.sharers[i].iter().filter(|other| **other != id).count() as u32;
                crowd.sharers = crowd.sharers.max(others);
            }
        }
        crowd
    }
}
