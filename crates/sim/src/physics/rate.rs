//! The true speed of a job on an allocation.
//!
//! Deliberately absent: jitter and stragglers, and any knowledge of policies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use trainyard_sched::estimate::ring_all_reduce_s;
use trainyard_sched::model::{Allocation, Cluster, GpuTypeId, Job, Link, Parallelism, SERVER_TASK, TaskId};

use crate::tasks::{self, Flows};
use crate::truth::{Speed, Truth};

use super::{Extent, Locality};

/// Constants of the simulated world. The defaults change nothing: every job goes as its trace says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Physics {
    /// Speed by GPU type name, relative to what a job's truth was measured on; 1 where not listed.
    /// Measured tables know their own types and ignore this.
    pub gpu_speed: BTreeMap<String, f64>,
    /// Factor on the speed of a job on several nodes of one rack.
    pub rack_factor: f64,
    /// Factor on the speed of a job on several racks.
    pub cluster_factor: f64,
    /// How much slower a job gets for each other job on one of its devices: `1 / (1 + x n)`.
    pub sharing_slowdown: f64,
    /// Whether jobs on several nodes share the links of their nodes.
    pub shared_links: bool,
    /// What shares the network of a node among jobs that are graphs of tasks.
    pub flows: Flows,
}

impl Default for Physics {
    fn default() -> Self {
        Self {
            gpu_speed: BTreeMap::new(),
            rack_factor: 1.0,
            cluster_factor: 1.0,
            sharing_slowdown: 0.0,
            shared_links: false,
            flows: Flows::Jobs,
        }
    }
}

/// Who else is on the nodes of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crowd {
    /// Jobs on several nodes that use the link of the job's busiest node, itself included.
    pub flows: u32,
    /// Other jobs on the job's most shared device.
    pub sharers: u32,
    /// The row of the job's table of the gang with which it shares all its devices, if it does and that one has a row.
    pub beside: Option<u32>,
}

impl Physics {
    /// Whether the speed of every job depends on its neighbours. That of gangs that share all their devices always does.
    pub fn has_neighbours(&self) -> bool {
        self.shared_links || self.sharing_slowdown > 0.0
    }

    /// Iterations a second of a job on an allocation. Zero if it makes no progress there.
    pub fn iterations_per_s(
        &self,
        cluster: &Cluster,
        job: &Job,
        truth: &Truth,
        held: &Allocation,
        crowd: Crowd,
    ) -> f64 {
        let copies = held.copies();
        if copies > 1 {
            // Copies train side by side; each does its own iterations.
            return split_by_copy(held)
                .iter()
                .map(|copy| self.iterations_per_s(cluster, job, truth, copy, crowd))
                .sum();
        }
        let per_s = match &job.shape {
            Parallelism::TaskGraph(_) => Self::graph_speed(cluster, job, truth, held),
            Parallelism::DataParallel(_) => self.gang_speed(cluster, truth, held, crowd),
        };
        let beside = beside_factor(cluster, job, truth, held, crowd);
        // What was measured of a pair is all that the one costs the other.
        let sharers = crowd.sharers.saturating_sub(u32::from(beside.is_some()));
        let shared = 1.0 + self.sharing_slowdown * f64::from(sharers);
        per_s * self.distance_factor(cluster, held) / shared * beside.unwrap_or(1.0)
    }

    fn gang_speed(&self, cluster: &Cluster, truth: &Truth, held: &Allocation, crowd: Crowd) -> f64 {
        let (workers, servers) = (held.workers(), held.count_of(SERVER_TASK));
        let base = match &truth.speed {
            Speed::Fixed { iteration, workers: reference } => {
                f64::from(workers) / (f64::from((*reference).max(1)) * iteration.as_secs_f64())
            }
            Speed::Function(function) => function.iterations_per_s(workers, servers),
            // All that there is to its speed is in what was measured.
            // A gang that is no graph has no tasks to go by.
            Speed::Graph(_) => return 0.0,
            Speed::Measured(speeds) => return speeds.iterations_per_s(&Extent::of(cluster, held)),
            Speed::Table { table, row } => {
                let gpus: u32 = held.placements().iter().map(|p| p.gpus.count()).sum();
                let locality = locality(cluster, held);
                let each = gpu_types(cluster, held).into_iter().map(|gpu_type| {
                    let name = &cluster.gpu_types[gpu_type.index()].name;
                    table.per_s(*row, name, gpus, locality).unwrap_or(0.0)
                });
                // A gang goes at the pace of its slowest part.
                return with_all_reduce(each.fold(f64::INFINITY, f64::min), cluster, truth, held, crowd);
            }
        };
        let slowest = gpu_types(cluster, held)
            .into_iter()
            .map(|gpu_type| &*cluster.gpu_types[gpu_type.index()].name)
            .map(|name| self.gpu_speed.get(name).copied().unwrap_or(1.0))
            .fold(f64::INFINITY, f64::min);
        let slowest = if slowest.is_finite() { slowest } else { 1.0 };
        with_all_reduce(base * slowest, cluster, truth, held, crowd)
    }

    /// A graph where nobody is in anybody's way.
    fn graph_speed(cluster: &Cluster, job: &Job, truth: &Truth, held: &Allocation) -> f64 {
        let Parallelism::TaskGraph(graph) = &job.shape else { return 0.0 };
        let at = |task: TaskId| {
            let placement = held.place_of(task)?;
            Some((placement.node, placement.gpus.devices))
        };
        let pace = if let Speed::Graph(graph) = &truth.speed { graph.pace } else { 1.0 };
        tasks::iterations_per_s(graph, pace, at, &tasks::Around { cluster, loads: None })
    }

    fn distance_factor(&self, cluster: &Cluster, held: &Allocation) -> f64 {
        match locality(cluster, held) {
            Locality::Node => 1.0,
            Locality::Rack => self.rack_factor,
            Locality::Cluster => self.cluster_factor,
        }
    }
}

fn split_by_copy(held: &Allocation) -> Vec<Allocation> {
    held.placements().chunk_by(|a, b| a.copy == b.copy).map(|copy| Allocation::new(copy.to_vec())).collect()
}

/// The types of the GPUs that an allocation has, ascending.
pub(super) fn gpu_types(cluster: &Cluster, held: &Allocation) -> Vec<GpuTypeId> {
    let with_gpus = held.placements().iter().filter(|p| p.gpus.devices != 0);
    let mut types: Vec<GpuTypeId> = with_gpus.filter_map(|p| cluster.node(p.node).gpu_type).collect();
    types.sort_unstable();
    types.dedup();
    types
}

/// How far apart the parts of an allocation are.
pub(crate) fn locality(cluster: &Cluster, held: &Allocation) -> Locality {
    let placements = held.placements();
    let Some(first) = placements.first() else { return Locality::Node };
    if placements.iter().all(|p| p.node == first.node) {
        return Locality::Node;
    }
    let rack = cluster.node(first.node).rack;
    let one_rack = placements.iter().all(|p| cluster.node(p.node).rack == rack);
    if one_rack { Locality::Rack } else { Locality::Cluster }
}

/// How fast a gang goes, in proportion, because it shares all its devices with another one: as was measured of the two
/// kinds of job, else half as fast, as if they took turns. `None` if it does not share them.
fn beside_factor(
    cluster: &Cluster,
    job: &Job,
    truth: &Truth,
    held: &Allocation,
    crowd: Crowd,
) -> Option<f64> {
    const TURNS: f64 = 0.5;
    if crowd.sharers == 0 || !held.is_beside(&job.shape) {
        return None;
    }
    let Speed::Table { table, row } = &truth.speed else { return Some(TURNS) };
    let gpus: u32 = held.placements().iter().map(|p| p.gpus.count()).sum();
    let measured = |gpu_type: GpuTypeId| {
        let name = &cluster.gpu_types[gpu_type.index()].name;
        let alone = table.per_s(*row, name, gpus, Locality::Node).filter(|per_s| *per_s > 0.0)?;
        Some(table.pair_per_s(*row, crowd.beside?, name, gpus)? / alone)
    };
    let factors = gpu_types(cluster, held).into_iter().map(|gpu_type| measured(gpu_type).unwrap_or(TURNS));
    Some(factors.fold(f64::INFINITY, f64::min))
}

/// Adds the time to bring gradients together over the nodes of the job.
fn with_all_reduce(per_s: f64, cluster: &Cluster, truth: &Truth, held: &Allocation, crowd: Crowd) -> f64 {
    if truth.gradient_bytes <= 0.0 || per_s <= 0.0 {
        return per_s;
    }
    let link: Link = match locality(cluster, held) {
        Locality::Node => return per_s,
        Locality::Rack => cluster.links.rack,
        Locality::Cluster => cluster.links.cluster,
    };
    let nodes = held.nodes().len() as u32;
    1.0 / (1.0 / per_s + ring_all_reduce_s(truth.gradient_bytes, nodes, link, crowd.flows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use trainyard_sched::model::{
        CopyId, Declared, Edge, Goals, GpuSet, JobId, MoveCost, NodeId, Placement, Resources, Span, Task,
        TaskGraph, TenantId, Time, WORKER_TASK, Wanted,
    };

    fn job(shape: Parallelism) -> Job {
        Job {
            id: JobId(0),
            name: "job".into(),
            tenant: TenantId(0),
            model: None,
            submitted: Time::ZERO,
            shape,
            wanted: Wanted::default(),
            goals: Goals::default(),
            declared: Declared::default(),
            move_cost: MoveCost::default(),
        }
    }

    fn on(nodes: &[(u32, u32)]) -> Allocation {
        let placement = |(node, count): &(u32, u32)| Placement {
            copy: CopyId(0),
            task: WORKER_TASK,
            node: NodeId(*node),
            count: *count,
            gpus: GpuSet::whole((1 << count) - 1),
        };
        Allocation::new(nodes.iter().map(placement).collect())
    }

    fn speed(physics: &Physics, cluster: &Cluster, truth: &Truth, held: &Allocation, flows: u32) -> f64 {
        let gang = job(Parallelism::gang(held.workers()));
        physics.iterations_per_s(cluster, &gang, truth, held, Crowd { flows, ..Crowd::default() })
    }

    #[test]
    fn a_job_goes_as_its_trace_says_unless_told_otherwise() {
        let cluster = Cluster::uniform(2, 8, "v100");
        let truth = Truth::lasting(Span::from_secs(100), 4);
        let physics = Physics::default();
        assert_eq!(speed(&physics, &cluster, &truth, &on(&[(0, 4)]), 0), 1.0);
        assert_eq!(speed(&physics, &cluster, &truth, &on(&[(0, 2), (1, 2)]), 0), 1.0);
        assert_eq!(speed(&physics, &cluster, &truth, &on(&[(0, 8)]), 0), 2.0);
    }

    #[test]
    fn type_distance_and_the_slowest_part_set_the_pace() {
        let mut cluster = Cluster::uniform(2, 8, "v100");
        cluster.add(1, 8, "k80");
        cluster.nodes[1].rack = trainyard_sched::model::RackId(1);
        let physics = Physics {
            gpu_speed: BTreeMap::from([("k80".to_owned(), 0.25)]),
            rack_factor: 0.9,
            cluster_factor: 0.5,
            ..Physics::default()
        };
        let truth = Truth::lasting(Span::from_secs(100), 4);
        assert_eq!(speed(&physics, &cluster, &truth, &on(&[(2, 4)]), 0), 0.25);
        assert_eq!(speed(&physics, &cluster, &truth, &on(&[(0, 2), (2, 2)]), 0), 0.25 * 0.9);
        assert_eq!(speed(&physics, &cluster, &truth, &on(&[(0, 2), (1, 2)]), 0), 0.5);
    }

    #[test]
    fn gradients_cross_the_link_and_neighbours_share_it() {
        let mut cluster = Cluster::uniform(2, 8, "v100");
        cluster.links.rack = Link { bytes_per_s: 1_000_000, delay: Span::ZERO };
        let mut truth = Truth::lasting(Span::from_secs(100), 4);
        truth.gradient_bytes = 1e6;
        let physics = Physics::default();
        assert_eq!(speed(&physics, &cluster, &truth, &on(&[(0, 4)]), 1), 1.0);
        assert_eq!(speed(&physics, &cluster, &truth, &on(&[(0, 2), (1, 2)]), 1), 0.5);
        assert_eq!(speed(&physics, &cluster, &truth, &on(&[(0, 2), (1, 2)]), 3), 0.25);
    }

    #[test]
    fn a_measured_table_knows_types_sizes_and_distance() {
        let mut table = crate::physics::ThroughputTable::default();
        let row = table.intern("resnet");
        table.insert(row, "v100", 4, false, 8.0);
        table.insert(row, "v100", 4, true, 5.0);
        let mut truth = Truth::lasting(Span::from_secs(100), 4);
        truth.speed = Speed::Table { table: Arc::new(table), row };
        let cluster = Cluster::uniform(2, 8, "v100");
        let physics = Physics::default();
        assert_eq!(speed(&physics, &cluster, &truth, &on(&[(0, 4)]), 0), 8.0);
        assert_eq!(speed(&physics, &cluster, &truth, &on(&[(0, 2), (1, 2)]), 0), 5.0);
        assert_eq!(speed(&physics, &cluster, &truth, &on(&[(0, 2)]), 0), 0.0, "not measured");
    }

    #[test]
    fn a_graph_needs_a_complete_replica() {
        let task = |replica| Task {
            demand: Resources::gpus(1),
            parameters: 1,
            replica: Some(replica),
            compute_s: 1.0,
            state_bytes: 0,
        };
        let edge = |from, to| Edge { from: TaskId(from), to: TaskId(to), bytes: 1_000_000 };
        let tasks = vec![task(0), task(0), task(1), task(1)];
        let graph = TaskGraph::new(tasks, vec![edge(0, 1), edge(2, 3)], None, true).expect("two chains");
        let graph_job = job(Parallelism::TaskGraph(graph));
        let mut cluster = Cluster::uniform(2, 8, "v100");
        cluster.links.rack = Link { bytes_per_s: 1_000_000, delay: Span::ZERO };
        let truth = Truth::lasting(Span::from_secs(100), 1);
        let held = |tasks: &[(u32, u32)]| {
            let placement = |(task, node): &(u32, u32)| Placement {
                copy: CopyId(0),
                task: TaskId(*task),
                node: NodeId(*node),
                count: 1,
                gpus: GpuSet::whole(1 << task),
            };
            Allocation::new(tasks.iter().map(placement).collect())
        };
        let per_s = |tasks: &[(u32, u32)]| {
            let physics = Physics::default();
            physics.iterations_per_s(&cluster, &graph_job, &truth, &held(tasks), Crowd::default())
        };
        assert_eq!(per_s(&[(0, 0), (1, 0), (2, 0), (3, 0)]), 0.5);
        assert_eq!(per_s(&[(0, 0), (1, 0)]), 0.25, "one of two replicas");
        assert_eq!(per_s(&[(0, 0), (2, 0)]), 0.0, "no replica is complete");
        assert_eq!(per_s(&[(0, 0), (1, 1), (2, 0), (3, 0)]), 1.0 / 3.0, "an edge crosses the link");
    }
}
