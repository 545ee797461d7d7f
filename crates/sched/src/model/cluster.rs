//! Machines, their GPU types and racks.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{GPU, GpuTypeId, Links, MAX_GPUS_PER_NODE, NodeId, RackId, Resources, UNLIMITED};

/// Everything that jobs can be placed on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// The machines; a node's id is its position.
    pub nodes: Vec<Node>,
    /// The kinds of GPU; a type's id is its position.
    pub gpu_types: Vec<GpuType>,
    /// Bandwidth and delay between machines.
    pub links: Links,
}

/// One machine. All its GPUs are of one type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The position in [`Cluster::nodes`].
    pub id: NodeId,
    /// What people call it.
    pub name: Arc<str>,
    /// The rack it stands in.
    pub rack: RackId,
    /// The type of its GPUs; `None` for a machine without any.
    pub gpu_type: Option<GpuTypeId>,
    /// All that it has, whether in use or not.
    pub holds: Resources,
    /// Whether new work may be put there.
    pub state: NodeState,
}

impl Node {
    /// The number of GPU devices.
    pub const fn gpu_count(&self) -> u32 {
        (self.holds.gpu_milli / GPU) as u32
    }
}

/// A kind of GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuType {
    /// Its name in lower case, such as `v100`.
    pub name: Arc<str>,
    /// Memory of one device in bytes, where known.
    pub memory_bytes: Option<u64>,
}

/// Whether a node takes work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// Takes work.
    Up,
    /// Keeps what runs there and takes nothing new.
    Draining,
    /// Gone; whatever ran there is lost.
    Down,
}

/// A set of GPU types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GpuTypeSet(u64);

impl GpuTypeSet {
    /// Every type.
    pub const ALL: Self = Self(u64::MAX);
    /// No type.
    pub const NONE: Self = Self(0);
    /// How many types a cluster may have.
    pub const MAX_TYPES: usize = 64;

    /// Just these types.
    pub fn of(types: &[GpuTypeId]) -> Self {
        Self(types.iter().fold(0, |set, gpu_type| set | 1 << gpu_type.0))
    }

    /// Whether the two sets have a type in common.
    pub const fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether `gpu_type` is in the set.
    pub const fn has(self, gpu_type: GpuTypeId) -> bool {
        self.0 >> gpu_type.0 & 1 == 1
    }
}

/// Why a cluster cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// There is not a single node.
    #[error("the cluster has no nodes; name at least one, for example `4x8:v100`")]
    Empty,
    /// A node's id is not its position.
    #[error("node {name} has id {id} but stands at position {position}")]
    Misnumbered {
        /// The node's name.
        name: Arc<str>,
        /// The id it carries.
        id: u32,
        /// Where it stands.
        position: usize,
    },
    /// More devices than a [`super::GpuSet`] can name.
    #[error(
        "node {name} has {gpus} GPUs; a node may have at most {MAX_GPUS_PER_NODE}: describe it as several nodes of one rack"
    )]
    TooManyGpus {
        /// The node's name.
        name: Arc<str>,
        /// Its devices.
        gpus: u64,
    },
    /// A number of GPUs that is not whole.
    #[error("node {name} has {gpu_milli} thousandths of a GPU; a node holds whole devices")]
    BrokenGpu {
        /// The node's name.
        name: Arc<str>,
        /// Its GPUs in thousandths.
        gpu_milli: u64,
    },
    /// GPUs of no type, or a type that the cluster does not list.
    #[error("node {name} has GPUs but no known GPU type")]
    UnknownType {
        /// The node's name.
        name: Arc<str>,
    },
    /// More types than a [`GpuTypeSet`] can hold.
    #[error("the cluster has {0} GPU types; at most {max} are possible", max = GpuTypeSet::MAX_TYPES)]
    TooManyTypes(usize),
}

impl Cluster {
    /// A cluster of equal nodes, each a rack of its own switch-wide rack 0, with GPUs only.
    pub fn uniform(nodes: u32, gpus_per_node: u64, gpu_type: &str) -> Self {
        let mut cluster = Self::default();
        cluster.add(nodes, gpus_per_node, gpu_type);
        cluster
    }

    /// Adds equal nodes; CPU, memory and network are not tracked on them.
    pub fn add(&mut self, nodes: u32, gpus_per_node: u64, gpu_type: &str) {
        let gpu_type = self.intern_gpu_type(gpu_type);
        let holds = Resources {
            gpu_milli: gpus_per_node * GPU,
            cpu_milli: UNLIMITED,
            memory_bytes: UNLIMITED,
            network_bytes_per_s: UNLIMITED,
        };
        for _ in 0..nodes {
            self.push(RackId(0), Some(gpu_type), holds, None);
        }
    }

    /// Adds one node and returns its id.
    pub fn push(
        &mut self,
        rack: RackId,
        gpu_type: Option<GpuTypeId>,
        holds: Resources,
        name: Option<Arc<str>>,
    ) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        let name = name.unwrap_or_else(|| format!("n{}", id.0).into());
        self.nodes.push(Node { id, name, rack, gpu_type, holds, state: NodeState::Up });
        id
    }

    /// The id of the GPU type called `name`, made if it is new.
    pub fn intern_gpu_type(&mut self, name: &str) -> GpuTypeId {
        if let Some(known) = self.gpu_type(name) {
            return known;
        }
        self.gpu_types.push(GpuType { name: name.into(), memory_bytes: None });
        GpuTypeId((self.gpu_types.len() - 1) as u8)
    }

    /// The id of the GPU type called `name`.
    pub fn gpu_type(&self, name: &str) -> Option<GpuTypeId> {
        self.gpu_types.iter().position(|known| &*known.name == name).map(|i| GpuTypeId(i as u8))
    }

    /// The node with this id.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Everything that nodes which are not down hold together.
    pub fn total(&self) -> Resources {
        self.nodes
            .iter()
            .filter(|node| node.state != NodeState::Down)
            .fold(Resources::NONE, |sum, node| sum + node.holds)
    }

    /// All GPU devices, whatever the state of their nodes.
    pub fn gpu_count(&self) -> u64 {
        self.nodes.iter().map(|node| u64::from(node.gpu_count())).sum()
    }

    /// Checks what the rest of the program relies on.
    pub fn validate(&self) -> Result<(), ClusterError> {
        if self.nodes.is_empty() {
            return Err(ClusterError::Empty);
        }
        if self.gpu_types.len() > GpuTypeSet::MAX_TYPES {
            return Err(ClusterError::TooManyTypes(self.gpu_types.len()));
        }
        for (position, node) in self.nodes.iter().enumerate() {
            let name = node.name.clone();
            if node.id.index() != position {
                return Err(ClusterError::Misnumbered { name, id: node.id.0, position });
            }
            let gpu_milli = node.holds.gpu_milli;
            if !gpu_milli.is_multiple_of(GPU) {
                return Err(ClusterError::BrokenGpu { name, gpu_milli });
            }
            if gpu_milli / GPU > u64::from(MAX_GPUS_PER_NODE) {
                return Err(ClusterError::TooManyGpus { name, gpus: gpu_milli / GPU });
            }
            let known = node.gpu_type.is_some_and(|t| t.index() < self.gpu_types.len());
            if gpu_milli > 0 && !known {
                return Err(ClusterError::UnknownType { name });
            }
        }
        Ok(())
    }
}

impl fmt::Display for Cluster {
    /// A line such as `3 nodes, 24 GPUs (16 v100, 8 k80)`, or `2 nodes, 8 CPUs` where there are no GPUs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus_milli = |node: &Node| Some(node.holds.cpu_milli).filter(|milli| *milli != UNLIMITED);
        if self.gpu_count() == 0
            && let Some(cpus_milli) = self.nodes.iter().map(cpus_milli).sum::<Option<u64>>()
        {
            return write!(f, "{} nodes, {} CPUs", self.nodes.len(), cpus_milli as f64 / 1e3);
        }
        write!(f, "{} nodes, {} GPUs", self.nodes.len(), self.gpu_count())?;
        let counts: Vec<String> = (0..self.gpu_types.len())
            .map(|i| {
                let of_type = |node: &&Node| node.gpu_type == Some(GpuTypeId(i as u8));
                let gpus: u64 = self.nodes.iter().filter(of_type).map(|n| u64::from(n.gpu_count())).sum();
                format!("{gpus} {}", self.gpu_types[i].name)
            })
            .collect();
        if counts.is_empty() { Ok(()) } else { write!(f, " ({})", counts.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_cluster_is_refused_with_the_node_named() {
        assert_eq!(Cluster::default().validate(), Err(ClusterError::Empty));
        let mut cluster = Cluster::uniform(2, 65, "v100");
        assert!(matches!(cluster.validate(), Err(ClusterError::TooManyGpus { gpus: 65, .. })));
        cluster = Cluster::uniform(2, 8, "v100");
        assert_eq!(cluster.validate(), Ok(()));
        cluster.nodes[1].gpu_type = None;
        assert!(matches!(cluster.validate(), Err(ClusterError::UnknownType { .. })));
        cluster.nodes[1].id = NodeId(7);
        assert!(matches!(cluster.validate(), Err(ClusterError::Misnumbered { position: 1, .. })));
    }

    #[test]
    fn a_cluster_describes_itself() {
        let mut cluster = Cluster::uniform(2, 8, "v100");
        cluster.add(4, 2, "k80");
        assert_eq!(cluster.to_string(), "6 nodes, 24 GPUs (16 v100, 8 k80)");
    }
}
