//! From a series to changes of nodes. Which nodes leave is drawn; which come back is not: those that left first.

use std::collections::{BTreeMap, VecDeque};

use rand::RngExt as _;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;
use trainyard_sched::model::{Cluster, Node, NodeId, NodeState, Seed, Time};

use super::{Capacity, CapacityError, Leaving, Unit};
use crate::faults::Fault;

impl Capacity {
    /// The nodes that the series applies to: those with GPUs that are up; of one type or with names that begin in
    /// one way, where the user says so.
    ///
    /// # Errors
    /// If there are none, or too few for the most that the series has.
    pub fn nodes<'c>(&self, cluster: &'c Cluster) -> Result<Vec<&'c Node>, CapacityError> {
        let file = || self.file.clone();
        let wanted_type = self.gpu_type.as_deref().map(|name| cluster.gpu_type(name));
        let is_meant = |node: &&Node| {
            let of_type = wanted_type.is_none_or(|wanted| wanted.is_some() && node.gpu_type == wanted);
            let named = self.nodes.as_deref().is_none_or(|start| node.name.starts_with(start));
            of_type && named && node.gpu_count() > 0 && node.state == NodeState::Up
        };
        let nodes: Vec<&Node> = cluster.nodes.iter().filter(is_meant).collect();
        if nodes.is_empty() {
            let which = match (&self.gpu_type, &self.nodes) {
                (Some(gpu_type), None) => format!("has GPUs of type {gpu_type}"),
                (None, Some(start)) => format!("with GPUs has a name that begins with {start}"),
                (Some(gpu_type), Some(start)) => {
                    format!("has {gpu_type} and a name that begins with {start}")
                }
                (None, None) => "has GPUs and is up".to_owned(),
            };
            return Err(CapacityError::NoSuchNodes { file: file(), which });
        }
        let have: u64 = nodes.iter().map(|node| self.size(node)).sum();
        // The last node of a cluster that was made for the series may be only partly filled by it.
        if have < self.most() {
            let unit = match self.unit {
                Unit::Nodes => "nodes",
                Unit::Gpus => "GPUs",
            };
            return Err(CapacityError::TooSmall { file: file(), most: self.most(), unit, have });
        }
        Ok(nodes)
    }

    /// Changes of the nodes of a cluster, sorted by time; from the start on never more is there than the series
    /// says. Other nodes are not touched.
    ///
    /// # Errors
    /// If the cluster has no nodes that the series applies to, or too few.
    pub fn changes(&self, cluster: &Cluster, seed: Seed) -> Result<Vec<Fault>, CapacityError> {
        let mut here = self.nodes(cluster)?;
        let mut away: VecDeque<&Node> = VecDeque::new();
        let mut held: u64 = here.iter().map(|node| self.size(node)).sum();
        let mut random = Pcg64::seed_from_u64(seed.branch("capacity").0);
        let mut changes: Vec<Fault> = Vec::new();
        let gone = match self.leaving {
            Leaving::Down => NodeState::Down,
            Leaving::Drain => NodeState::Draining,
        };
        for (at, target) in &self.points {
            let before = away.len();
            while held > *target {
                let node = here.swap_remove(random.random_range(0..here.len()));
                held -= self.size(node);
                away.push_back(node);
                changes.push((*at, node.id, gone));
            }
            // Those that left just now stay away, or they would leave and return in one moment.
            let mut index = 0;
            let mut candidates = before;
            while index < candidates && held < *target {
                let node = away[index];
                if held + self.size(node) > *target {
                    index += 1;
                    continue;
                }
                away.remove(index);
                candidates -= 1;
                held += self.size(node);
                here.push(node);
                changes.push((*at, node.id, NodeState::Up));
            }
        }
        Ok(changes)
    }

    /// The part of the GPUs of a cluster that is there on average until the series ends.
    ///
    /// # Errors
    /// If the cluster has no nodes that the series applies to, or too few.
    pub fn mean_share(&self, cluster: &Cluster) -> Result<f64, CapacityError> {
        let nodes = self.nodes(cluster)?;
        let have: u64 = nodes.iter().map(|node| self.size(node)).sum();
        let touched: u64 = nodes.iter().map(|node| u64::from(node.gpu_count())).sum();
        let missing = touched as f64 * (1.0 - self.mean() / have as f64);
        Ok(1.0 - missing / cluster.gpu_count() as f64)
    }

    /// How much a node counts.
    fn size(&self, node: &Node) -> u64 {
        match self.unit {
            Unit::Nodes => 1,
            Unit::Gpus => u64::from(node.gpu_count()),
        }
    }
}

/// Two lists of changes together, each sorted by time: a node is as bad as the worse of the two says.
pub fn overlaid(first: &[Fault], second: &[Fault]) -> Vec<Fault> {
    let mut all: Vec<(Time, usize, NodeId, NodeState)> = Vec::with_capacity(first.len() + second.len());
    for (list, changes) in [first, second].into_iter().enumerate() {
        all.extend(changes.iter().map(|(at, node, state)| (*at, list, *node, *state)));
    }
    all.sort_by_key(|(at, ..)| *at);
    let mut known: BTreeMap<NodeId, ([NodeState; 2], Option<NodeState>)> = BTreeMap::new();
    let mut changes = Vec::with_capacity(all.len());
    for (at, list, node, state) in all {
        let (states, last) = known.entry(node).or_insert(([NodeState::Up; 2], None));
        states[list] = state;
        let worse = worse(states[0], states[1]);
        if last.replace(worse) != Some(worse) {
            changes.push((at, node, worse));
        }
    }
    changes
}

const fn worse(a: NodeState, b: NodeState) -> NodeState {
    match (a, b) {
        (NodeState::Down, _) | (_, NodeState::Down) => NodeState::Down,
        (NodeState::Draining, _) | (_, NodeState::Draining) => NodeState::Draining,
        (NodeState::Up, NodeState::Up) => NodeState::Up,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::read_from;

    fn series(text: &str, words: &str) -> Capacity {
        read_from("c.csv", text.as_bytes().to_vec(), words).unwrap()
    }

    /// What is up after each moment.
    fn up(cluster: &Cluster, changes: &[Fault]) -> Vec<(Time, u64)> {
        let mut states: Vec<NodeState> = cluster.nodes.iter().map(|node| node.state).collect();
        let mut found: Vec<(Time, u64)> = Vec::new();
        for (at, node, state) in changes {
            assert_ne!(states[node.index()], *state, "a change changes something");
            states[node.index()] = *state;
            let count = states.iter().filter(|state| **state == NodeState::Up).count() as u64;
            match found.last_mut() {
                Some((known, last)) if known == at => *last = count,
                _ => found.push((*at, count)),
            }
        }
        found
    }

    const TEXT: &str = "time_s,nodes\n0,5\n10,2\n20,8\n30,0\n40,3\n";

    #[test]
    fn as_many_nodes_are_up_as_the_series_says() {
        let cluster = Cluster::uniform(8, 4, "v100");
        let found = series(TEXT, "");
        let changes = found.changes(&cluster, Seed(1)).unwrap();
        assert_eq!(up(&cluster, &changes), found.points);
        assert_eq!(changes, found.changes(&cluster, Seed(1)).unwrap());
        let others: Vec<_> = (2..9).map(|seed| found.changes(&cluster, Seed(seed)).unwrap()).collect();
        assert!(others.iter().any(|other| *other != changes), "which nodes leave is drawn");
        assert!(changes.iter().all(|(_, _, state)| *state != NodeState::Draining));
        let drained = series(TEXT, "leave=drain").changes(&cluster, Seed(1)).unwrap();
        assert!(drained.iter().all(|(_, _, state)| *state != NodeState::Down));
    }

    #[test]
    fn gpus_are_counted_by_whole_nodes() {
        let mut cluster = Cluster::uniform(2, 8, "v100");
        cluster.add(3, 2, "k80");
        let found = series("time_s,gpus\n0,22\n10,9\n20,1\n30,22\n", "");
        for seed in 0..20 {
            let changes = found.changes(&cluster, Seed(seed)).unwrap();
            let mut states = [NodeState::Up; 5];
            for (at, target) in &found.points {
                for (_, node, state) in changes.iter().filter(|(when, ..)| when == at) {
                    states[node.index()] = *state;
                }
                let is_up = |node: &&Node| states[node.id.index()] == NodeState::Up;
                let held: u64 = cluster.nodes.iter().filter(is_up).map(|n| u64::from(n.gpu_count())).sum();
                assert!(held <= *target && (*target != 22 || held == 22), "{held} of {target} at {at}");
            }
        }
    }

    #[test]
    fn a_series_may_apply_to_a_part_of_the_cluster() {
        let mut cluster = Cluster::uniform(4, 8, "v100");
        cluster.add(8, 4, "k80");
        let changes = series(TEXT, "type=K80").changes(&cluster, Seed(1)).unwrap();
        assert!(changes.iter().all(|(_, node, _)| node.0 >= 4));
        let told = |words: &str| series(TEXT, words).changes(&cluster, Seed(1)).unwrap_err().to_string();
        assert!(told("type=v100").contains("up to 8 nodes, but it applies to 4 of the cluster"));
        assert!(told("type=h100").contains("has GPUs of type h100"));
        assert!(told("nodes=spot").contains("a name that begins with spot"));
    }

    #[test]
    fn the_mean_share_counts_the_whole_cluster() {
        let mut cluster = Cluster::uniform(4, 8, "v100");
        cluster.add(8, 4, "k80");
        // 5, 2, 8 and 0 nodes for 10 s each: half of the 32 K80s, and all 32 V100s.
        let share = series(TEXT, "type=k80").mean_share(&cluster).unwrap();
        let expected = (32.0 + 32.0 * (5.0 + 2.0 + 8.0) / 4.0 / 8.0) / 64.0;
        assert!((share - expected).abs() < 1e-9, "{share}");
    }

    #[test]
    fn failures_and_capacity_do_not_undo_each_other() {
        let (n, at) = (NodeId(0), Time::from_secs);
        let faults = [(at(10), n, NodeState::Down), (at(30), n, NodeState::Up)];
        let capacity = [(at(20), n, NodeState::Draining), (at(40), n, NodeState::Up)];
        let together = overlaid(&faults, &capacity);
        let expected =
            [(at(10), n, NodeState::Down), (at(30), n, NodeState::Draining), (at(40), n, NodeState::Up)];
        assert_eq!(together, expected);
        assert_eq!(overlaid(&faults, &[]), faults);
    }
}
