//! Cluster files in TOML: nodes in groups, links, tenants. Described in `docs/cluster-format.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use toml::de::{DeTable, DeValue};
use trainyard_sched::model::{
    Cluster, GPU, GpuTypeSet, Link, Links, MAX_GPUS_PER_NODE, Quota, RackId, Resources, Span, Tenant,
    TenantId, UNLIMITED, Weight,
};

use super::words::NODE_LIMIT;
use super::{ClusterFileError, Draft};
use crate::document::printable;
use crate::physics::Physics;
use crate::trace::nearest;
use crate::workload::ImportReport;

const BYTES_PER_GB: f64 = 1e9;
const BYTES_PER_GIGABIT: f64 = 1e9 / 8.0;
const MOST: f64 = 1e9;

#[derive(Deserialize)]
struct Text {
    #[serde(default)]
    nodes: Vec<Group>,
    #[serde(default)]
    links: Distances,
    #[serde(default)]
    tenants: Vec<Member>,
    #[serde(default)]
    physics: Physics,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default = "one")]
    count: u64,
    #[serde(default)]
    gpus: u64,
    gpu_type: Option<String>,
    gpu_memory_gb: Option<f64>,
    cpus: Option<f64>,
    memory_gb: Option<f64>,
    network_gbps: Option<f64>,
    rack: Option<String>,
    name: Option<String>,
}

#[derive(Default, Deserialize)]
struct Distances {
    node: Option<Connection>,
    rack: Option<Connection>,
    cluster: Option<Connection>,
}

#[derive(Deserialize)]
struct Connection {
    gbps: f64,
    #[serde(default)]
    delay_us: u64,
}

#[derive(Deserialize)]
struct Member {
    name: String,
    parent: Option<String>,
    weight: Option<f64>,
    #[serde(default)]
    guaranteed: Amounts,
    #[serde(default)]
    limit: Amounts,
}

#[derive(Default, Deserialize)]
struct Amounts {
    gpus: Option<f64>,
    cpus: Option<f64>,
    memory_gb: Option<f64>,
}

const fn one() -> u64 {
    1
}

/// Which keys a table may have, by its path.
const KEYS: &[(&str, &[&str])] = &[
    ("", &["nodes", "links", "tenants", "physics"]),
    (
        "nodes",
        &["count", "gpus", "gpu_type", "gpu_memory_gb", "cpus", "memory_gb", "network_gbps", "rack", "name"],
    ),
    ("links", &["node", "rack", "cluster"]),
    ("links.node", &["gbps", "delay_us"]),
    ("links.rack", &["gbps", "delay_us"]),
    ("links.cluster", &["gbps", "delay_us"]),
    ("tenants", &["name", "parent", "weight", "guaranteed", "limit"]),
    ("tenants.guaranteed", &["gpus", "cpus", "memory_gb"]),
    ("tenants.limit", &["gpus", "cpus", "memory_gb"]),
    ("physics", &["gpu_speed", "rack_factor", "cluster_factor", "sharing_slowdown", "shared_links"]),
];

/// Parses a cluster file in TOML.
pub(super) fn parse(file: &str, text: &str) -> Result<Draft, ClusterFileError> {
    let wrong = |source| ClusterFileError::Toml { file: file.to_owned(), source: Box::new(source) };
    let table = DeTable::parse(text).map_err(wrong)?;
    check_keys(file, text, table.get_ref(), "")?;
    let parsed: Text = toml::from_str(text).map_err(wrong)?;
    let reader = Reader { file };
    let mut cluster = reader.cluster(&parsed.nodes)?;
    cluster.links = reader.links(&parsed.links)?;
    let tenants = reader.tenants(&parsed.tenants)?;
    reader.physics(&parsed.physics, &cluster)?;
    let nodes = cluster.nodes.len() as u64;
    let report = ImportReport { rows: nodes, kept: nodes, ..ImportReport::default() };
    Ok(Draft { cluster, tenants, physics: parsed.physics, report })
}

/// Refuses keys that do not exist. A value of the wrong kind is left for the typed reader to refuse.
fn check_keys(file: &str, text: &str, table: &DeTable<'_>, path: &str) -> Result<(), ClusterFileError> {
    let Some((_, known)) = KEYS.iter().find(|(of, _)| *of == path) else { return Ok(()) };
    for (key, value) in table {
        let name: &str = key.get_ref();
        if !known.contains(&name) {
            return Err(ClusterFileError::UnknownKey {
                file: file.to_owned(),
                line: text[..key.span().start.min(text.len())].matches('\n').count() + 1,
                key: printable(name),
                place: if path.is_empty() { "the file".to_owned() } else { format!("[{path}]") },
                hint: nearest(name, known.iter().copied()),
            });
        }
        let below = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        match value.get_ref() {
            DeValue::Table(table) => check_keys(file, text, table, &below)?,
            DeValue::Array(values) => {
                for value in values.iter() {
                    if let DeValue::Table(table) = value.get_ref() {
                        check_keys(file, text, table, &below)?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

struct Reader<'a> {
    file: &'a str,
}

impl Reader<'_> {
    fn error<T>(
        &self,
        place: &str,
        key: &'static str,
        value: impl ToString,
        what: &'static str,
    ) -> Result<T, ClusterFileError> {
        let (file, place, value) = (self.file.to_owned(), place.to_owned(), value.to_string());
        Err(ClusterFileError::Value { file, place, key, value, what })
    }

    /// An amount in small units; what is not said is `default`.
    fn amount(
        &self,
        place: &str,
        key: &'static str,
        value: Option<f64>,
        unit: f64,
        default: u64,
    ) -> Result<u64, ClusterFileError> {
        match value {
            None => Ok(default),
            Some(value) if (0.0..=MOST).contains(&value) => Ok((value * unit).round() as u64),
            Some(value) => self.error(place, key, value, "give a number from 0 to 1e9"),
        }
    }

    fn cluster(&self, groups: &[Group]) -> Result<Cluster, ClusterFileError> {
        let mut cluster = Cluster::default();
        let mut racks = BTreeMap::new();
        let mut names = BTreeSet::new();
        for (i, group) in groups.iter().enumerate() {
            let place = format!("nodes[{i}]");
            if !(1..=NODE_LIMIT).contains(&group.count)
                || cluster.nodes.len() as u64 + group.count > NODE_LIMIT
            {
                return self.error(&place, "count", group.count, "give 1 to a million nodes in all");
            }
            if group.gpus > u64::from(MAX_GPUS_PER_NODE) {
                return self.error(
                    &place,
                    "gpus",
                    group.gpus,
                    "a node may have at most 64; describe several nodes",
                );
            }
            let next_rack = racks.len();
            let rack = *racks.entry(group.rack.clone().unwrap_or_default()).or_insert(next_rack);
            let Ok(rack) = u16::try_from(rack) else {
                return self.error(
                    &place,
                    "rack",
                    group.rack.as_deref().unwrap_or(""),
                    "at most 65536 racks",
                );
            };
            let gpu_type = self.gpu_type(&place, group, &mut cluster)?;
            let amount = |key, value, unit| self.amount(&place, key, value, unit, UNLIMITED);
            let holds = Resources {
                gpu_milli: group.gpus * GPU,
                cpu_milli: amount("cpus", group.cpus, GPU as f64)?,
                memory_bytes: amount("memory_gb", group.memory_gb, BYTES_PER_GB)?,
                network_bytes_per_s: amount("network_gbps", group.network_gbps, BYTES_PER_GIGABIT)?,
            };
            for index in 0..group.count {
                let name = match &group.name {
                    Some(prefix) => format!("{prefix}{index}"),
                    None => format!("n{}", cluster.nodes.len()),
                };
                let name: Arc<str> = name.into();
                if !names.insert(name.clone()) {
                    return self.error(&place, "name", name, "two nodes have this name; give another prefix");
                }
                cluster.push(RackId(rack), gpu_type, holds, Some(name));
            }
        }
        Ok(cluster)
    }

    fn gpu_type(
        &self,
        place: &str,
        group: &Group,
        cluster: &mut Cluster,
    ) -> Result<Option<trainyard_sched::model::GpuTypeId>, ClusterFileError> {
        let Some(name) = group.gpu_type.as_deref().map(|name| name.trim().to_lowercase()) else {
            return if group.gpus == 0 {
                Ok(None)
            } else {
                self.error(place, "gpus", group.gpus, "name their gpu_type as well")
            };
        };
        if name.is_empty() || name.contains(['|', ',']) {
            return self.error(place, "gpu_type", &name, "give a name without commas and bars");
        }
        if cluster.gpu_type(&name).is_none() && cluster.gpu_types.len() == GpuTypeSet::MAX_TYPES {
            return self.error(place, "gpu_type", &name, "at most 64 types are possible");
        }
        let id = cluster.intern_gpu_type(&name);
        if let Some(memory_gb) = group.gpu_memory_gb {
            let bytes = self.amount(place, "gpu_memory_gb", Some(memory_gb), BYTES_PER_GB, 0)?;
            let known = &mut cluster.gpu_types[id.index()].memory_bytes;
            if known.is_some_and(|known| known != bytes) {
                return self.error(
                    place,
                    "gpu_memory_gb",
                    memory_gb,
                    "another group of this type has another value",
                );
            }
            *known = Some(bytes);
        }
        Ok(Some(id))
    }

    fn links(&self, distances: &Distances) -> Result<Links, ClusterFileError> {
        let link = |place: &str, connection: &Option<Connection>| match connection {
            None => Ok(Link::FREE),
            Some(Connection { gbps, .. }) if !(*gbps > 0.0 && *gbps <= MOST) => {
                self.error(place, "gbps", gbps, "give a number above 0 and up to 1e9")
            }
            Some(Connection { gbps, delay_us }) => {
                let bytes_per_s = ((gbps * BYTES_PER_GIGABIT).round() as u64).max(1);
                Ok(Link { bytes_per_s, delay: Span(*delay_us) })
            }
        };
        Ok(Links {
            node: link("links.node", &distances.node)?,
            rack: link("links.rack", &distances.rack)?,
            cluster: link("links.cluster", &distances.cluster)?,
        })
    }

    fn physics(&self, physics: &Physics, cluster: &Cluster) -> Result<(), ClusterFileError> {
        let factors = [("rack_factor", physics.rack_factor), ("cluster_factor", physics.cluster_factor)];
        for (key, factor) in factors {
            if !(factor > 0.0 && factor <= MOST) {
                return self.error("physics", key, factor, "give a number above 0 and up to 1e9");
            }
        }
        if !(physics.sharing_slowdown >= 0.0 && physics.sharing_slowdown <= MOST) {
            let what = "give a number from 0 to 1e9";
            return self.error("physics", "sharing_slowdown", physics.sharing_slowdown, what);
        }
        for (name, speed) in &physics.gpu_speed {
            if cluster.gpu_type(name).is_none() {
                return self.error("physics", "gpu_speed", name, "no node has GPUs of this type");
            }
            if !(*speed > 0.0 && *speed <= MOST) {
                return self.error("physics", "gpu_speed", speed, "give a number above 0 and up to 1e9");
            }
        }
        Ok(())
    }

    fn tenants(&self, members: &[Member]) -> Result<Vec<Tenant>, ClusterFileError> {
        let mut tenants: Vec<Tenant> = Vec::with_capacity(members.len());
        let mut ids: BTreeMap<&str, TenantId> = BTreeMap::new();
        for (i, member) in members.iter().enumerate() {
            let place = format!("tenants[{i}]");
            let parent = match &member.parent {
                None => None,
                Some(parent) => match ids.get(parent.as_str()) {
                    Some(id) => Some(*id),
                    None => {
                        return self.error(&place, "parent", parent, "no tenant of this name stands before");
                    }
                },
            };
            if member.name.is_empty() || ids.insert(&member.name, TenantId(i as u32)).is_some() {
                return self.error(&place, "name", &member.name, "give each tenant a name of its own");
            }
            let quota = Quota {
                guaranteed: self.amounts(&format!("{place}.guaranteed"), &member.guaranteed, 0)?,
                limit: self.amounts(&format!("{place}.limit"), &member.limit, UNLIMITED)?,
            };
            let weight = Weight(member.weight.unwrap_or(1.0));
            tenants.push(Tenant { name: member.name.as_str().into(), parent, weight, quota });
        }
        Ok(tenants)
    }

    fn amounts(&self, place: &str, amounts: &Amounts, default: u64) -> Result<Resources, ClusterFileError> {
        Ok(Resources {
            gpu_milli: self.amount(place, "gpus", amounts.gpus, GPU as f64, default)?,
            cpu_milli: self.amount(place, "cpus", amounts.cpus, GPU as f64, default)?,
            memory_bytes: self.amount(place, "memory_gb", amounts.memory_gb, BYTES_PER_GB, default)?,
            network_bytes_per_s: default,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ClusterFile, ClusterFileError, parse};
    use super::*;

    const FULL: &str = r#"
[[nodes]]
count = 2
gpus = 8
gpu_type = "V100"
gpu_memory_gb = 32
cpus = 96
memory_gb = 512.5
network_gbps = 100
rack = "left"
name = "big"

[[nodes]]
gpus = 2
gpu_type = "k80"
rack = "right"

[[nodes]]
cpus = 32

[links]
node = { gbps = 300 }
rack = { gbps = 100, delay_us = 5 }

[[tenants]]
name = "org"
weight = 2

[[tenants]]
name = "team"
parent = "org"
guaranteed = { gpus = 4 }
limit = { gpus = 8, cpus = 64 }
"#;

    fn error(text: &str) -> ClusterFileError {
        parse("c.toml", text).unwrap_err()
    }

    #[test]
    fn physics_are_read_and_checked() {
        let nodes = "nodes = [{ gpus = 8, gpu_type = 'k80' }]\n[physics]\n";
        let text = format!("{nodes}gpu_speed = {{ k80 = 0.25 }}\nrack_factor = 0.9\nshared_links = true");
        let physics = parse("c.toml", &text).unwrap().physics;
        assert_eq!((physics.gpu_speed["k80"], physics.rack_factor), (0.25, 0.9));
        assert!(physics.shared_links);
        for (bad, part) in [
            ("rack_factor = 0.0", "rack_factor"),
            ("cluster_factor = nan", "cluster_factor"),
            ("sharing_slowdown = -1.0", "sharing_slowdown"),
            ("gpu_speed = { h100 = 2.0 }", "h100"),
            ("gpu_speed = { k80 = -2.0 }", "-2"),
            ("rack_facto = 0.5", "did you mean `rack_factor`?"),
        ] {
            let text = error(&format!("{nodes}{bad}")).to_string();
            assert!(text.contains(part), "{bad}: {text}");
        }
    }

    #[test]
    fn every_key_finds_its_place() {
        let ClusterFile { cluster, tenants, .. } = parse("c.toml", FULL).unwrap();
        assert_eq!(cluster.to_string(), "4 nodes, 18 GPUs (16 v100, 2 k80)");
        let names: Vec<&str> = cluster.nodes.iter().map(|node| &*node.name).collect();
        assert_eq!(names, ["big0", "big1", "n2", "n3"]);
        let racks: Vec<u16> = cluster.nodes.iter().map(|node| node.rack.0).collect();
        assert_eq!(racks, [0, 0, 1, 2]);
        assert_eq!(cluster.nodes[0].holds.memory_bytes, 512_500_000_000);
        assert_eq!(cluster.nodes[0].holds.network_bytes_per_s, 12_500_000_000);
        assert_eq!(cluster.nodes[2].holds.cpu_milli, UNLIMITED);
        assert_eq!(cluster.nodes[3].gpu_type, None);
        assert_eq!(cluster.gpu_types[0].memory_bytes, Some(32_000_000_000));
        assert_eq!(cluster.links.rack, Link { bytes_per_s: 12_500_000_000, delay: Span(5) });
        assert_eq!(cluster.links.cluster, Link::FREE);
        let team = tenants.get(TenantId(1)).unwrap();
        assert_eq!((team.parent, team.weight), (Some(TenantId(0)), Weight(1.0)));
        assert_eq!(team.quota.guaranteed, Resources::gpus(4));
        assert_eq!((team.quota.limit.gpu_milli, team.quota.limit.memory_bytes), (8000, UNLIMITED));
    }

    #[test]
    fn the_example_of_the_documentation_is_understood() {
        let text = include_str!("../../../../docs/cluster-format.md");
        let example = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        assert!(parse("example.toml", example).unwrap().cluster.nodes.len() > 1);
        for key in KEYS.iter().flat_map(|(_, keys)| *keys) {
            assert!(text.contains(&format!("`{key}`")), "docs/cluster-format.md lacks `{key}`");
        }
    }

    #[test]
    fn unknown_keys_are_errors_with_line_and_suggestion() {
        let told = error(&FULL.replace("gpu_type = \"k80\"", "gputype = \"k80\"")).to_string();
        assert_eq!(told, "c.toml:15: unknown key `gputype` in [nodes]; did you mean `gpu_type`?");
        let nested = error(&FULL.replace("limit = { gpus", "limit = { gpuz"));
        assert!(matches!(&nested, ClusterFileError::UnknownKey { place, .. } if place == "[tenants.limit]"));
        assert!(matches!(error("node = 3"), ClusterFileError::UnknownKey { line: 1, .. }));
    }

    #[test]
    fn contradictions_and_bad_values_are_refused() {
        let with = |from: &str, to: &str| error(&FULL.replacen(from, to, 1)).to_string();
        assert!(with("count = 2", "count = 0").contains("nodes[0]: count = 0"));
        assert!(with("count = 2", "count = -2").contains("not understood"));
        assert!(with("gpus = 8", "gpus = 65").contains("gpus = 65"));
        assert!(with("cpus = 96", "cpus = nan").contains("cpus = NaN"));
        assert!(with("gpu_type = \"k80\"", "").contains("gpu_type as well"));
        assert!(with("parent = \"org\"", "parent = \"gro\"").contains("parent = gro"));
        assert!(with("gpus = 4", "gpus = 40").contains("guaranteed"));
        assert!(with("weight = 2", "weight = -2").contains("weight"));
        assert!(with("gbps = 300", "gbps = 0").contains("links.node: gbps = 0"));
        let twice = "[[nodes]]\nname = \"a\"\ncount = 2\n[[nodes]]\nname = \"a\"\n";
        assert!(error(twice).to_string().contains("nodes[1]: name = a0"));
        assert!(error("").to_string().contains("no nodes"));
        assert!(error("[[nodes").to_string().contains("c.toml"));
    }
}
