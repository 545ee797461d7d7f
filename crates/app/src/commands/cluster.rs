//! `cluster`: look at machines, and at capacity that changes.

use clap::{Args, Subcommand};
use serde::Serialize;
use trainyard_sched::model::{Cluster, GPU, NodeState, Seed, Tenants, UNLIMITED};
use trainyard_sim::capacity::{self, Capacity, CapacityError, Leaving, Unit};
use trainyard_sim::cluster::{self, ClusterFile, ClusterFileError};
use trainyard_sim::workload::ImportReport;

use super::{Ending, Output, print};
use crate::failure::Failure;
use crate::render::cluster_text;

/// What can be done with clusters.
#[derive(Subcommand, Debug)]
pub(super) enum ClusterCommand {
    /// Tell which machines and tenants there are, and how much there is over time.
    Inspect(InspectArguments),
}

/// What `cluster inspect` is told.
#[derive(Args, Debug)]
pub(super) struct InspectArguments {
    /// Words such as 16x8:v100, a cluster file, a public list of nodes, or a series of capacity.
    #[arg(value_name = "WORDS|FILE")]
    cluster: String,
    /// A series of capacity that applies to the cluster.
    #[arg(long, value_name = "FILE")]
    capacity: Option<String>,
}

/// What a cluster holds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ClusterInspection {
    /// What was read and assumed.
    pub(crate) report: ImportReport,
    /// Machines.
    pub(crate) nodes: usize,
    /// Machines that take no new work.
    pub(crate) draining: usize,
    /// Machines that are gone.
    pub(crate) down: usize,
    /// GPUs.
    pub(crate) gpus: u64,
    /// Machines by GPU type and number.
    pub(crate) kinds: Vec<Kind>,
    /// Racks.
    pub(crate) racks: usize,
    /// Machines of the smallest and of the largest rack.
    pub(crate) rack_nodes: (usize, usize),
    /// The names of the first machines.
    pub(crate) names: Vec<String>,
    /// Tenants and the GPUs that they are promised.
    pub(crate) tenants: Vec<(String, f64)>,
    /// How much there is over time.
    pub(crate) capacity: Option<CapacityInspection>,
}

/// Equal machines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Kind {
    /// The type of their GPUs; none for machines without.
    pub(crate) gpu_type: Option<String>,
    /// GPUs of each.
    pub(crate) gpus: u32,
    /// CPU cores of each, where tracked.
    pub(crate) cpus: Option<u64>,
    /// Main memory of each in bytes, where tracked.
    pub(crate) memory_bytes: Option<u64>,
    /// How many.
    pub(crate) nodes: usize,
}

/// How much there is over time.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CapacityInspection {
    /// What was read and assumed.
    pub(crate) report: ImportReport,
    /// What is counted.
    pub(crate) unit: Unit,
    /// How nodes go.
    pub(crate) leaving: Leaving,
    /// How long it lasts.
    pub(crate) length_s: f64,
    /// The least, the mean and the most.
    pub(crate) range: (u64, f64, u64),
    /// How often it changes.
    pub(crate) changes: usize,
    /// How often a node leaves or comes back.
    pub(crate) node_changes: Option<usize>,
    /// From when on (in seconds) there is how much.
    pub(crate) points: Vec<(f64, u64)>,
}

/// Looks at clusters.
pub(super) fn perform(command: &ClusterCommand, output: Output) -> Result<Ending, Failure> {
    let ClusterCommand::Inspect(given) = command;
    let series = given.capacity.as_deref().map(capacity::load).transpose()?;
    let seen = match (cluster::load(&given.cluster), series) {
        (Ok(file), series) => look(&file, series.as_ref())?,
        // A series alone describes the cluster that it needs.
        (Err(error @ ClusterFileError::NotCluster { .. }), None) => match capacity::load(&given.cluster) {
            Ok(series) => of_series(&series)?,
            Err(CapacityError::NotCapacity { .. } | CapacityError::Unknown { .. }) => {
                return Err(error.into());
            }
            Err(error) => return Err(error.into()),
        },
        (Err(error), _) => return Err(error.into()),
    };
    print(output, &seen, cluster_text)?;
    Ok(Ending::Done)
}

fn of_series(series: &Capacity) -> Result<ClusterInspection, Failure> {
    match series.cluster() {
        Ok(cluster) => look(
            &ClusterFile { cluster, report: series.report.clone(), ..ClusterFile::default() },
            Some(series),
        ),
        // What there is can be told even where the size of a node is not known.
        Err(CapacityError::NoNodeSize { .. } | CapacityError::Nothing { .. }) => {
            let mut seen = of_cluster(&Cluster::default(), &Tenants::default(), series.report.clone());
            seen.capacity = Some(of_capacity(series, None));
            Ok(seen)
        }
        Err(error) => Err(error.into()),
    }
}

fn look(file: &ClusterFile, series: Option<&Capacity>) -> Result<ClusterInspection, Failure> {
    let mut seen = of_cluster(&file.cluster, &file.tenants, file.report.clone());
    if let Some(series) = series {
        let changes = series.changes(&file.cluster, Seed(0))?;
        seen.capacity = Some(of_capacity(series, Some(changes.len())));
    }
    Ok(seen)
}

fn of_capacity(series: &Capacity, node_changes: Option<usize>) -> CapacityInspection {
    CapacityInspection {
        report: series.report.clone(),
        unit: series.unit,
        leaving: series.leaving,
        length_s: series.ends.as_secs_f64(),
        range: (series.points.iter().map(|(_, n)| *n).min().unwrap_or(0), series.mean(), series.most()),
        changes: series.points.len().saturating_sub(1),
        node_changes,
        points: series.points.iter().map(|(at, n)| (at.as_secs_f64(), *n)).collect(),
    }
}

fn of_cluster(cluster: &Cluster, tenants: &Tenants, report: ImportReport) -> ClusterInspection {
    let tracked = |amount: u64| (amount != UNLIMITED).then_some(amount);
    let mut kinds: Vec<Kind> = cluster
        .nodes
        .iter()
        .map(|node| Kind {
            gpu_type: node.gpu_type.map(|id| cluster.gpu_types[id.index()].name.to_string()),
            gpus: node.gpu_count(),
            cpus: tracked(node.holds.cpu_milli).map(|milli| milli / GPU),
            memory_bytes: tracked(node.holds.memory_bytes),
            nodes: 1,
        })
        .collect();
    kinds.sort();
    kinds.dedup_by(|next, first| {
        let same = Kind { nodes: first.nodes, ..next.clone() } == *first;
        first.nodes += usize::from(same);
        same
    });
    let mut racks: Vec<u16> = cluster.nodes.iter().map(|node| node.rack.0).collect();
    racks.sort_unstable();
    let sizes: Vec<usize> = racks.chunk_by(|a, b| a == b).map(<[u16]>::len).collect();
    let of_state = |state| cluster.nodes.iter().filter(|node| node.state == state).count();
    ClusterInspection {
        report,
        nodes: cluster.nodes.len(),
        draining: of_state(NodeState::Draining),
        down: of_state(NodeState::Down),
        gpus: cluster.gpu_count(),
        kinds,
        racks: sizes.len(),
        rack_nodes: (sizes.iter().min().copied().unwrap_or(0), sizes.iter().max().copied().unwrap_or(0)),
        names: cluster.nodes.iter().take(3).map(|node| node.name.to_string()).collect(),
        tenants: tenants
            .iter()
            .map(|(_, t)| (t.name.to_string(), t.quota.guaranteed.gpu_milli as f64 / GPU as f64))
            .collect(),
        capacity: None,
    }
}
