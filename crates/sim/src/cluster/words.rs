//! The short way to write a cluster: `229x8:p100,321x2:p100`, that is nodes x GPUs : type; or `20x32:cpu`, that is nodes x
//! CPU cores without GPUs; or `96x8:v100+8cpu+64gb+10gbit`, where nodes with GPUs have so many CPU cores, so much memory and
//! so fast a network that matter.

use std::collections::BTreeMap;

use trainyard_sched::model::{Cluster, GPU, GpuTypeSet, MAX_GPUS_PER_NODE, RackId, Resources, UNLIMITED};

/// The most nodes that a cluster may have here; a typing error should not fill the memory.
pub(crate) const NODE_LIMIT: u64 = 1_000_000;

/// The type of nodes without GPUs, the most CPU cores of a node, and what they are called.
const CPU: (&str, u64, &str) = ("cpu", 1024, "CPU cores");

/// What nodes with GPUs may have beside them: its unit, what is counted and the most of it.
const BESIDE: [(&str, &str, u64); 3] =
    [("cpu", CPU.2, CPU.1), ("gb", "gigabytes of memory", 1_000_000), ("gbit", "gigabits a second", 100_000)];

/// What of that is given, by its unit.
type Beside = BTreeMap<&'static str, u64>;

/// Why words are no cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordError {
    /// A part that is not nodes, GPUs and a type.
    #[error("cluster `{whole}`: `{part}` is not nodes x GPUs : type; write for example `16x8:v100`")]
    Shape {
        /// All that was given.
        whole: String,
        /// The part.
        part: String,
    },
    /// A number that is not whole or out of range.
    #[error("cluster `{whole}`: `{value}` in `{part}` is no number of {what} from 1 to {limit}")]
    Number {
        /// All that was given.
        whole: String,
        /// The part.
        part: String,
        /// The value.
        value: String,
        /// What is counted.
        what: &'static str,
        /// The largest number.
        limit: u64,
    },
    /// Too many nodes in all.
    #[error("cluster `{whole}`: more than {limit} nodes")]
    TooManyNodes {
        /// All that was given.
        whole: String,
        /// The limit.
        limit: u64,
    },
    /// Too many GPU types.
    #[error("cluster `{whole}`: more than {limit} GPU types")]
    TooManyTypes {
        /// All that was given.
        whole: String,
        /// The limit.
        limit: usize,
    },
}

/// The cluster that `words` describe: groups of equal nodes in one rack, with GPUs only.
pub fn parse_words(words: &str) -> Result<Cluster, WordError> {
    let whole = || words.to_owned();
    let mut cluster = Cluster::default();
    for part in words.split(',').map(str::trim) {
        let shape = || WordError::Shape { whole: whole(), part: part.to_owned() };
        let (sizes, gpu_type) = part.split_once(':').ok_or_else(shape)?;
        let (nodes, gpus) = sizes.split_once(['x', 'X']).ok_or_else(shape)?;
        let mut beside = gpu_type.split('+');
        let gpu_type = beside.next().unwrap_or_default();
        let gpu_type = gpu_type.trim().to_lowercase();
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if gpu_type.is_empty() || !gpu_type.chars().all(is_name) {
            return Err(shape());
        }
        let number = |value: &str, what, limit| {
            let value = value.trim();
            value.parse().ok().filter(|count| (1..=limit).contains(count)).ok_or_else(|| WordError::Number {
                whole: whole(),
                part: part.to_owned(),
                value: value.to_owned(),
                what,
                limit,
            })
        };
        let nodes = number(nodes, "nodes", NODE_LIMIT)?;
        let is_cpu = gpu_type == CPU.0;
        let (what, most) = if is_cpu { (CPU.2, CPU.1) } else { ("GPUs", u64::from(MAX_GPUS_PER_NODE)) };
        let each = number(gpus, what, most)?;
        let mut holds = Beside::default();
        for amount in beside {
            let amount = amount.trim().to_lowercase();
            let (unit, what, most) =
                *BESIDE.iter().find(|(unit, ..)| amount.ends_with(unit)).ok_or_else(shape)?;
            let given = number(&amount[..amount.len() - unit.len()], what, most)?;
            // Nothing is said twice.
            if holds.insert(unit, given).is_some() {
                return Err(shape());
            }
        }
        if cluster.nodes.len() as u64 + nodes > NODE_LIMIT {
            return Err(WordError::TooManyNodes { whole: whole(), limit: NODE_LIMIT });
        }
        if is_cpu && !holds.is_empty() {
            return Err(shape());
        }
        if is_cpu {
            add_cpu_nodes(&mut cluster, nodes, each);
            continue;
        }
        if cluster.gpu_type(&gpu_type).is_none() && cluster.gpu_types.len() == GpuTypeSet::MAX_TYPES {
            return Err(WordError::TooManyTypes { whole: whole(), limit: GpuTypeSet::MAX_TYPES });
        }
        let first = cluster.nodes.len();
        cluster.add(nodes as u32, each, &gpu_type);
        for node in &mut cluster.nodes[first..] {
            for (unit, given) in &holds {
                match *unit {
                    "cpu" => node.holds.cpu_milli = given * GPU,
                    "gb" => node.holds.memory_bytes = given * 1_000_000_000,
                    _ => node.holds.network_bytes_per_s = given * 125_000_000,
                }
            }
        }
    }
    Ok(cluster)
}

/// Nodes with so many cores and no GPU; memory and network are not tracked.
fn add_cpu_nodes(cluster: &mut Cluster, nodes: u64, cores: u64) {
    let holds = Resources {
        gpu_milli: 0,
        cpu_milli: cores * GPU,
        memory_bytes: UNLIMITED,
        network_bytes_per_s: UNLIMITED,
    };
    for _ in 0..nodes {
        cluster.push(RackId(0), None, holds, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_without_gpus_have_cores() {
        let cluster = parse_words("20x32:cpu,1x4:v100").unwrap();
        assert_eq!((cluster.nodes.len(), cluster.gpu_count()), (21, 4));
        assert_eq!((cluster.nodes[0].holds.cpu_milli, cluster.nodes[0].gpu_type), (32_000, None));
        assert_eq!(cluster.validate(), Ok(()));
        let both = parse_words("2x8:slot+8cpu,1x4:v100").unwrap();
        assert_eq!(both.nodes[1].holds, Resources { cpu_milli: 8000, ..both.nodes[1].holds });
        assert_eq!((both.nodes[1].holds.gpu_milli, both.nodes[2].holds.cpu_milli), (8000, UNLIMITED));
        let all = parse_words("2x4:v100+32cpu+244gb+10gbit").unwrap().nodes[1].holds;
        let amounts = [4000, 32_000, 244_000_000_000, 1_250_000_000];
        assert_eq!(all.amounts(), amounts);
        assert_eq!(parse_words("2x4:v100+10gbit + 244GB+32cpu").unwrap().nodes[1].holds, all);
        for words in [
            "1x8:a+8",
            "1x8:a+cpu",
            "1x8:a+1gb+2gb",
            "1x8:a+gbit",
            "1x8:cpu+1gb",
            "1x8:a+0gb",
            "1x8:cpu+8cpu",
            "1x8:a+xcpu",
        ] {
            assert!(parse_words(words).is_err(), "{words}");
        }
        assert!(matches!(parse_words("1x2000:cpu"), Err(WordError::Number { what: "CPU cores", .. })));
    }

    #[test]
    fn groups_of_nodes_are_added_in_order() {
        let cluster = parse_words("229x8:p100, 321x2:P100,1x4:v100").unwrap();
        assert_eq!(cluster.to_string(), "551 nodes, 2478 GPUs (2474 p100, 4 v100)");
        assert_eq!(cluster.nodes[229].gpu_count(), 2);
        assert_eq!(cluster.validate(), Ok(()));
    }

    #[test]
    fn words_that_are_no_cluster_are_named() {
        for words in ["", "8", "4x8", "4:v100", "4x8:", "4x8:v100,", "4x8:v 100", "x:v100x"] {
            assert!(
                matches!(parse_words(words), Err(WordError::Shape { .. } | WordError::Number { .. })),
                "{words}"
            );
        }
        for (words, bad) in
            [("0x8:a", "0"), ("4x65:a", "65"), ("4x0:a", "0"), ("-1x8:a", "-1"), ("1e3x8:a", "1e3")]
        {
            let error = parse_words(words).unwrap_err();
            assert!(matches!(&error, WordError::Number { value, .. } if value == bad), "{words}: {error}");
        }
        assert!(matches!(parse_words("1000000x1:a,1x1:a"), Err(WordError::TooManyNodes { .. })));
        let many: Vec<String> = (0..65).map(|i| format!("1x1:t{i}")).collect();
        assert!(matches!(parse_words(&many.join(",")), Err(WordError::TooManyTypes { .. })));
    }
}
