//! Changes of a cluster: nodes that are added and nodes that are taken away. Says nothing about jobs.

use std::str::FromStr;
use std::sync::Arc;

use trainyard_sched::model::{Cluster, NodeId, RackId};
use trainyard_sim::cluster::parse_words;
use trainyard_sim::faults::Fault;

use super::ArgumentError;

/// Nodes to add: cluster words such as `4x8:h100`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Addition {
    words: String,
    nodes: Cluster,
}

/// Nodes to take away: a GPU type, or words such as `2x8:k80`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// All nodes of a GPU type.
    Type(String),
    /// Some nodes of one kind.
    Nodes {
        /// How many.
        count: usize,
        /// GPUs of each.
        gpus: u32,
        /// Their type.
        gpu_type: String,
    },
}

/// A kind of node that may be bought one by one: `8:h100`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeKind {
    /// GPUs of a node.
    pub(crate) gpus: u32,
    /// Their type.
    pub(crate) gpu_type: String,
}

/// What is done to a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MachineChange {
    /// GPU types that are numbered first after the cluster's own, so that all variants number them alike.
    pub(crate) known_types: Vec<String>,
    /// What is added.
    pub(crate) added: Vec<Addition>,
    /// What is taken away.
    pub(crate) removed: Vec<Removal>,
}

/// A cluster after a change.
pub(crate) struct Changed {
    /// The nodes of today and those that are added. Failures are drawn for these, so that a node fails at the same
    /// times whatever is taken away.
    pub(crate) all: Cluster,
    /// The nodes that are left, numbered anew.
    pub(crate) cluster: Cluster,
    /// The new number of each node of `all` that is left.
    numbers: Vec<Option<NodeId>>,
}

impl FromStr for Addition {
    type Err = ArgumentError;

    fn from_str(value: &str) -> Result<Self, ArgumentError> {
        let nodes = parse_words(value).map_err(|error| ArgumentError::Machines(error.to_string()))?;
        Ok(Self { words: value.trim().to_owned(), nodes })
    }
}

impl FromStr for Removal {
    type Err = ArgumentError;

    fn from_str(value: &str) -> Result<Self, ArgumentError> {
        if !value.contains(':') {
            let gpu_type = value.trim().to_lowercase();
            let empty = ArgumentError::Machines("a GPU type has a name, such as k80".to_owned());
            return if gpu_type.is_empty() { Err(empty) } else { Ok(Self::Type(gpu_type)) };
        }
        let Addition { nodes, .. } = value.parse()?;
        let (first, alike) = kind_of(&nodes);
        let several =
            ArgumentError::Machines(format!("`{value}` is more than one kind of node; give each by itself"));
        if !alike {
            return Err(several);
        }
        Ok(Self::Nodes { count: nodes.nodes.len(), gpus: first.gpus, gpu_type: first.gpu_type })
    }
}

impl FromStr for NodeKind {
    type Err = ArgumentError;

    fn from_str(value: &str) -> Result<Self, ArgumentError> {
        let wrong = || {
            let what = format!("`{value}` is no kind of node; write GPUs : type, such as 8:h100");
            ArgumentError::Machines(what)
        };
        let nodes = parse_words(&format!("1x{}", value.trim())).map_err(|_| wrong())?;
        let (kind, alike) = kind_of(&nodes);
        if alike && nodes.nodes.len() == 1 { Ok(kind) } else { Err(wrong()) }
    }
}

impl std::fmt::Display for Addition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::fmt::Display for Removal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Type(gpu_type) => f.write_str(gpu_type),
            Self::Nodes { count, gpus, gpu_type } => write!(f, "{count}x{gpus}:{gpu_type}"),
        }
    }
}

impl std::fmt::Display for NodeKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.gpus, self.gpu_type)
    }
}

impl NodeKind {
    /// So many nodes of this kind.
    pub(crate) fn times(&self, count: u32) -> Addition {
        let words = format!("{count}x{self}");
        Addition { words, nodes: Cluster::uniform(count, u64::from(self.gpus), &self.gpu_type) }
    }
}

impl Addition {
    /// Its GPU types.
    pub(crate) fn gpu_types(&self) -> impl Iterator<Item = String> {
        self.nodes.gpu_types.iter().map(|gpu_type| gpu_type.name.to_string())
    }
}

impl std::fmt::Display for MachineChange {
    /// What follows the words of the cluster.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.added.iter().try_for_each(|addition| write!(f, " + {addition}"))?;
        self.removed.iter().try_for_each(|removal| write!(f, " - {removal}"))
    }
}

/// The kind of the first node, and whether all are of it.
fn kind_of(cluster: &Cluster) -> (NodeKind, bool) {
    let kinds: Vec<NodeKind> = (0..cluster.nodes.len()).map(|i| kind(cluster, NodeId(i as u32))).collect();
    let alike = kinds.iter().all(|kind| *kind == kinds[0]);
    (kinds.into_iter().next().expect("words name at least one node"), alike)
}

fn kind(cluster: &Cluster, node: NodeId) -> NodeKind {
    let node = cluster.node(node);
    let name = |id: trainyard_sched::model::GpuTypeId| cluster.gpu_types[id.index()].name.to_string();
    NodeKind { gpus: node.gpu_count(), gpu_type: node.gpu_type.map(name).unwrap_or_default() }
}

impl MachineChange {
    /// Whether nothing is added or taken away.
    pub(crate) fn is_none(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }

    /// The cluster after the change. What is taken away must be there today; the last of several equal nodes go first.
    pub(crate) fn apply(&self, today: &Cluster) -> Result<Changed, ArgumentError> {
        let mut all = today.clone();
        for name in &self.known_types {
            all.intern_gpu_type(name);
        }
        let mut stays = vec![true; today.nodes.len()];
        for removal in &self.removed {
            remove(today, removal, &mut stays)?;
        }
        for addition in &self.added {
            for node in &addition.nodes.nodes {
                let name = node.gpu_type.map(|id| &addition.nodes.gpu_types[id.index()].name);
                let gpu_type = name.map(|name| all.intern_gpu_type(name));
                let number = all.nodes.len() - today.nodes.len();
                all.push(RackId(0), gpu_type, node.holds, Some(format!("added{number}").into()));
            }
        }
        stays.resize(all.nodes.len(), true);
        let mut cluster = Cluster { nodes: Vec::new(), ..all.clone() };
        let mut numbers = Vec::with_capacity(all.nodes.len());
        for (node, stays) in all.nodes.iter().zip(stays) {
            let number = NodeId(cluster.nodes.len() as u32);
            numbers.push(stays.then_some(number));
            if stays {
                cluster.nodes.push(trainyard_sched::model::Node {
                    id: number,
                    name: Arc::clone(&node.name),
                    ..node.clone()
                });
            }
        }
        Ok(Changed { all, cluster, numbers })
    }
}

fn remove(today: &Cluster, removal: &Removal, stays: &mut [bool]) -> Result<(), ArgumentError> {
    let is_it = |node: usize| {
        let kind = kind(today, NodeId(node as u32));
        match removal {
            Removal::Type(gpu_type) => kind.gpu_type == *gpu_type,
            Removal::Nodes { gpus, gpu_type, .. } => kind.gpus == *gpus && kind.gpu_type == *gpu_type,
        }
    };
    let found: Vec<usize> = (0..stays.len()).rev().filter(|node| stays[*node] && is_it(*node)).collect();
    let wanted = match removal {
        Removal::Type(_) => found.len().max(1),
        Removal::Nodes { count, .. } => *count,
    };
    if found.len() < wanted {
        return Err(ArgumentError::Machines(format!(
            "cannot remove {removal}: the cluster has {} such nodes; it is {today}",
            found.len()
        )));
    }
    found[..wanted].iter().for_each(|node| stays[*node] = false);
    Ok(())
}

impl Changed {
    /// Faults of `all` for the nodes that are left.
    pub(crate) fn faults(&self, faults: Vec<Fault>) -> Vec<Fault> {
        let left = |(at, node, state): Fault| Some((at, self.numbers[node.index()]?, state));
        faults.into_iter().filter_map(left).collect()
    }
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::{NodeState, Time};

    use super::*;

    fn change(added: &[&str], removed: &[&str]) -> MachineChange {
        MachineChange {
            known_types: Vec::new(),
            added: added.iter().map(|words| words.parse().unwrap()).collect(),
            removed: removed.iter().map(|words| words.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn nodes_are_added_behind_and_taken_from_the_end() {
        let today = parse_words("2x8:v100,2x4:k80").unwrap();
        let words = |added: &[&str], removed: &[&str]| {
            let changed = change(added, removed).apply(&today).unwrap().cluster;
            changed.validate().unwrap();
            changed.to_string()
        };
        assert_eq!(words(&[], &[]), today.to_string());
        assert_eq!(words(&["1x8:h100", "1x4:k80"], &[]), "6 nodes, 36 GPUs (16 v100, 12 k80, 8 h100)");
        assert_eq!(words(&[], &["k80"]), "2 nodes, 16 GPUs (16 v100, 0 k80)");
        assert_eq!(words(&[], &["1x8:V100"]), "3 nodes, 16 GPUs (8 v100, 8 k80)");
        assert_eq!(words(&["1x8:v100"], &["v100"]), "3 nodes, 16 GPUs (8 v100, 8 k80)");
    }

    #[test]
    fn what_is_not_there_cannot_be_removed() {
        let today = parse_words("2x8:v100").unwrap();
        for removed in ["k80", "3x8:v100", "1x4:v100"] {
            let error = change(&[], &[removed]).apply(&today).err().unwrap().to_string();
            assert!(error.contains(removed) && error.contains("2 nodes, 16 GPUs"), "{error}");
        }
        assert!(change(&[], &["1x8:v100", "2x8:v100"]).apply(&today).is_err(), "three of two");
        assert!("1x8:v100,1x4:k80".parse::<Removal>().is_err() && "".parse::<Removal>().is_err());
    }

    #[test]
    fn a_node_keeps_its_faults_whatever_is_removed() {
        let today = parse_words("2x8:v100,2x4:k80").unwrap();
        let changed = change(&["1x8:h100"], &["1x8:v100"]).apply(&today).unwrap();
        let faults =
            (0..5).map(|node| (Time::from_secs(node), NodeId(node as u32), NodeState::Down)).collect();
        let left: Vec<(u64, u32)> =
            changed.faults(faults).iter().map(|(at, node, _)| (at.0 / 1_000_000, node.0)).collect();
        assert_eq!(left, [(0, 0), (2, 1), (3, 2), (4, 3)]);
        assert_eq!(&*changed.cluster.nodes[1].name, "n2");
    }

    #[test]
    fn a_kind_of_node_is_gpus_and_a_type() {
        let kind: NodeKind = "8:H100".parse().unwrap();
        assert_eq!(kind.to_string(), "8:h100");
        assert_eq!(kind.times(3).to_string(), "3x8:h100");
        for bad in ["", "8", "h100", "2x8:h100", "8:h100,4:k80", "0:h100"] {
            assert!(bad.parse::<NodeKind>().is_err(), "{bad}");
        }
    }
}
