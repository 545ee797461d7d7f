//! The nodes of a Kubernetes cluster, as `kubectl get nodes -o json` writes them.
//!
//! What a node may give to pods (`status.allocatable`) is what it has. Its labels say the rest: the GPU by
//! `nvidia.com/gpu.product` and the like, the rack by a rack label or else its zone. A node that is cordoned or
//! tainted drains; one that is not ready is down. Taints on GPUs, and those named by `?tolerate=KEY|KEY`, are taken
//! for tolerated. Parts of devices (MIG) are not read: a node has whole devices of one type here.

use std::collections::BTreeMap;

use serde::Deserialize;
use trainyard_sched::model::{GPU, MAX_GPUS_PER_NODE, NodeState, UNLIMITED};

use super::builder::{Builder, Machine, SOME_GPU};
use super::{ClusterFileError, Draft, Format};
use crate::document::{Document, DocumentError, printable};
use crate::quantity::quantity;
use crate::strangers::kinds;
use crate::supplement::Supplement;
use crate::workload::Done;

const MIB: f64 = 1_048_576.0;
/// The most memory of a GPU that is believed, in MiB: a petabyte.
const MOST_MIB: f64 = 1e9;
/// The most CPU cores of a node.
const MOST_CPUS: f64 = 1e9;
/// Resources that count whole devices.
const DEVICES: [&str; 3] = ["nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915"];
/// Labels that name the GPU, the most exact first.
const TYPES: [&str; 5] = [
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "accelerator",
];
/// Labels that name the zone; better than no rack at all.
const ZONES: [&str; 2] = ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"];

/// The entry of the table of formats.
pub(super) const FORMAT: Format = Format {
    name: "kubernetes",
    title: "Kubernetes nodes (kubectl get nodes -o json)",
    detect: |head| kinds(head).next().is_some_and(|kind| kind == "Node" || kind == "NodeList"),
    read,
};

#[derive(Deserialize)]
struct List {
    items: Option<Vec<Item>>,
    #[serde(flatten)]
    itself: Item,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Item {
    kind: String,
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
    labels: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    unschedulable: bool,
    taints: Vec<Taint>,
}

#[derive(Deserialize)]
struct Taint {
    key: String,
    #[serde(default)]
    effect: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    allocatable: BTreeMap<String, String>,
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    r#type: String,
    status: String,
}

fn read(document: &Document, supplement: &Supplement) -> Result<Draft, ClusterFileError> {
    let tolerated: Vec<&str> = supplement.get("tolerate").unwrap_or("").split('|').collect();
    let list: List = serde_json::from_str(&document.text).map_err(|source| ClusterFileError::Json {
        file: document.file.clone(),
        format: "Kubernetes nodes",
        source,
    })?;
    let is_list = list.items.is_some();
    let items = list.items.unwrap_or_else(|| vec![list.itself]);
    let mut builder = Builder::new(document);
    let mut place = Place { text: &document.text, at: 0, line: 1 };
    let mut rows = 0;
    for item in &items {
        let line = place.of(&item.metadata.name);
        if !matches!(&*item.kind, "Node" | "") || (item.kind.is_empty() && !is_list) {
            builder.note(Done::Noted, line, "an item that is no node is not read", &item.kind);
            continue;
        }
        rows += 1;
        if item.metadata.name.is_empty() {
            return Err(document.wrong(line, "metadata.name ``: every node needs a name").into());
        }
        push(&mut builder, document, line, item, &tolerated)?;
    }
    if rows == 0 {
        return Err(document.wrong(1, "the list has no item of the kind Node").into());
    }
    Ok(Draft::of(builder, rows))
}

fn push(
    builder: &mut Builder<'_>,
    document: &Document,
    line: usize,
    item: &Item,
    tolerated: &[&str],
) -> Result<(), DocumentError> {
    let amount = |key: &str| -> Result<Option<f64>, DocumentError> {
        let Some(value) = item.status.allocatable.get(key) else { return Ok(None) };
        quantity(value).filter(|amount| key != "cpu" || *amount <= MOST_CPUS).map(Some).ok_or_else(|| {
            let what = "is no amount such as 8, 95690m or 16Gi";
            document.wrong(line, format!("status.allocatable {key} `{}`: {what}", printable(value)))
        })
    };
    let label = |key: &str| item.metadata.labels.get(key).map(String::as_str);
    let mut gpus = 0.0;
    for key in DEVICES {
        gpus += amount(key)?.unwrap_or(0.0);
    }
    let replicas = label("nvidia.com/gpu.replicas").and_then(quantity).unwrap_or(1.0);
    let devices = label("nvidia.com/gpu.count").and_then(quantity).filter(|_| replicas > 1.0 && gpus > 0.0);
    if let Some(devices) = devices {
        builder.note(Done::Noted, line, "GPUs are shared in time; devices are counted", &item.metadata.name);
        gpus = devices;
    }
    if gpus.fract() != 0.0 || gpus > f64::from(MAX_GPUS_PER_NODE) {
        let what = format!("give a whole number from 0 to {MAX_GPUS_PER_NODE}");
        return Err(document.wrong(line, format!("status.allocatable nvidia.com/gpu `{gpus}`: {what}")));
    }
    if item.status.allocatable.keys().any(|key| key.starts_with("nvidia.com/mig-")) {
        builder.note(Done::Noted, line, "parts of GPUs (MIG) are not read", &item.metadata.name);
    }
    let gpu_type = TYPES.into_iter().find_map(label);
    if gpus > 0.0 && gpu_type.is_none() {
        let what = "no label names the GPU type; it is called `gpu`";
        builder.note(Done::Assumed, line, what, &item.metadata.name);
    }
    let memory_label = label("nvidia.com/gpu.memory").filter(|_| gpus > 0.0);
    let memory = memory_label.and_then(quantity).filter(|mib| *mib <= MOST_MIB);
    if memory_label.is_some() && memory.is_none() {
        let what = "nvidia.com/gpu.memory is no believable number of MiB; it is not read";
        builder.note(Done::Noted, line, what, &item.metadata.name);
    }
    let machine = Machine {
        name: &item.metadata.name,
        rack: rack(builder, line, item),
        gpu_type: gpu_type.unwrap_or(SOME_GPU),
        gpus: gpus as u64,
        gpu_memory_bytes: memory.map(|mib| (mib * MIB) as u64),
        cpu_milli: amount("cpu")?.map_or(UNLIMITED, |cores| (cores * GPU as f64).round() as u64),
        memory_bytes: amount("memory")?.map_or(UNLIMITED, |bytes| bytes as u64),
        state: state(builder, line, item, tolerated),
    };
    builder.push(line, &machine)
}

/// The rack by its label, or else by the zone.
fn rack<'i>(builder: &mut Builder<'_>, line: usize, item: &'i Item) -> &'i str {
    let name = &item.metadata.name;
    let is_rack = |key: &str| key == "rack" || key.ends_with("/rack") || key.ends_with("-rack");
    if let Some((_, rack)) = item.metadata.labels.iter().find(|(key, _)| is_rack(key)) {
        return rack;
    }
    if let Some(zone) = ZONES.into_iter().find_map(|key| item.metadata.labels.get(key)) {
        builder.note(Done::Assumed, line, "no label names the rack; the zone stands for it", name);
        return zone;
    }
    builder.note(Done::Assumed, line, "no label names the rack or the zone; such nodes share one rack", name);
    ""
}

/// Whether a node takes work.
fn state(builder: &mut Builder<'_>, line: usize, item: &Item, tolerated: &[&str]) -> NodeState {
    let name = &item.metadata.name;
    if item.status.conditions.iter().any(|found| found.r#type == "Ready" && found.status != "True") {
        builder.note(Done::Noted, line, "the node is not ready: it is down", name);
        return NodeState::Down;
    }
    if item.spec.unschedulable {
        builder.note(Done::Noted, line, "the node is cordoned: it drains", name);
        return NodeState::Draining;
    }
    for taint in item.spec.taints.iter().filter(|taint| taint.effect != "PreferNoSchedule") {
        let is_for_gpus = DEVICES.contains(&&*taint.key);
        if is_for_gpus || tolerated.contains(&&*taint.key) {
            let what = format!("jobs are taken to tolerate the taint {}", printable(&taint.key));
            builder.note(Done::Assumed, line, &what, name);
        } else {
            let what = format!(
                "the node has the taint {0}: it drains (`?tolerate={0}` if jobs tolerate it)",
                printable(&taint.key)
            );
            builder.note(Done::Noted, line, &what, name);
            return NodeState::Draining;
        }
    }
    NodeState::Up
}

/// Finds the lines of names that come one after the other.
struct Place<'d> {
    text: &'d str,
    at: usize,
    line: usize,
}

impl Place<'_> {
    /// The line of the next place where this name stands; the line before, if it stands nowhere.
    fn of(&mut self, name: &str) -> usize {
        let quoted = format!("\"{name}\"");
        if let Some(found) = self.text[self.at..].find(&quoted) {
            let end = self.at + found;
            self.line += self.text[self.at..end].matches('\n').count();
            self.at = end;
        }
        self.line
    }
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::NodeState;

    use crate::cluster::{ClusterFile, ClusterFileError, parse_with};

    fn node(name: &str, rest: &str) -> String {
        format!(
            "{{\"kind\": \"Node\",\n \"metadata\": {{\"name\": \"{name}\", \"labels\": {{\
             \"nvidia.com/gpu.product\": \"NVIDIA-A100\", \"nvidia.com/gpu.memory\": \"81920\",\n\
             \"topology.kubernetes.io/rack\": \"r1\"}}}}{rest}}}"
        )
    }

    fn read(items: &[String], words: &str) -> Result<ClusterFile, ClusterFileError> {
        let text =
            format!("{{\"apiVersion\": \"v1\", \"items\": [\n{}\n], \"kind\": \"List\"}}", items.join(",\n"));
        parse_with("nodes.json", &text, words)
    }

    const EIGHT: &str = ", \"status\": {\"allocatable\": {\"cpu\": \"95690m\", \"memory\": \"16Gi\", \
        \"nvidia.com/gpu\": \"8\"}}";

    #[test]
    fn a_node_is_what_its_labels_and_amounts_say() {
        let found = read(&[node("a", EIGHT), node("b", "")], "").unwrap();
        assert_eq!(found.cluster.to_string(), "2 nodes, 8 GPUs (8 nvidia-a100)");
        let a = &found.cluster.nodes[0];
        assert_eq!((&*a.name, a.holds.cpu_milli, a.holds.memory_bytes), ("a", 95_690, 16 << 30));
        assert_eq!(found.cluster.gpu_types[0].memory_bytes, Some(81_920 << 20));
        assert_eq!(found.report.rows, 2);
        let single = parse_with("node.json", &node("a", EIGHT), "").unwrap();
        assert_eq!(single.cluster.nodes[0], *a);
    }

    #[test]
    fn cordons_taints_and_trouble_keep_work_away() {
        let spec = |text: &str| format!("{EIGHT}, \"spec\": {text}");
        let taint = |key: &str| {
            spec(&format!("{{\"taints\": [{{\"key\": \"{key}\", \"effect\": \"NoSchedule\"}}]}}"))
        };
        let items = [
            node("cordoned", &spec("{\"unschedulable\": true}")),
            node("gpu-taint", &taint("nvidia.com/gpu")),
            node("own-taint", &taint("team")),
            node(
                "broken",
                ", \"status\": {\"conditions\": [{\"type\": \"Ready\", \"status\": \"Unknown\"}]}",
            ),
        ];
        let states = |words| -> Vec<NodeState> {
            read(&items, words).unwrap().cluster.nodes.iter().map(|node| node.state).collect()
        };
        let (up, draining, down) = (NodeState::Up, NodeState::Draining, NodeState::Down);
        assert_eq!(states(""), [draining, up, draining, down]);
        assert_eq!(states("tolerate=x|team"), [draining, up, up, down]);
    }

    #[test]
    fn what_is_odd_is_named_with_its_line() {
        let wrong = EIGHT.replace("95690m", "many");
        let told = read(&[node("a", EIGHT), node("b", &wrong)], "").unwrap_err().to_string();
        assert!(told.starts_with("nodes.json:6: status.allocatable cpu `many`"), "{told}");
        let told = read(&[node("a", EIGHT), node("a", EIGHT)], "").unwrap_err().to_string();
        assert!(told.contains("node `a` is already at line 3"), "{told}");
        let endless = EIGHT.replace("95690m", "1E");
        let told = read(&[node("a", &endless)], "").unwrap_err().to_string();
        assert!(told.contains("status.allocatable cpu `1E`"), "{told}");
        let large = read(&[node("a", &EIGHT.replace("16Gi", "1Pi"))], "").unwrap();
        assert_eq!(large.cluster.nodes[0].holds.memory_bytes, 1 << 50);
        let shares = EIGHT.replace("\"8\"", "\"8500m\"");
        assert!(read(&[node("a", &shares)], "").unwrap_err().to_string().contains("nvidia.com/gpu `8.5`"));
        let odd = node("a", EIGHT).replace("81920", "99999999999");
        let odd = read(&[odd], "").unwrap();
        assert_eq!(odd.cluster.gpu_types[0].memory_bytes, None);
        assert!(odd.report.findings.iter().any(|finding| finding.what.contains("no believable number")));
        let pod = "{\"kind\": \"Pod\", \"metadata\": {\"name\": \"p\"}}".to_owned();
        let found = read(&[node("a", EIGHT), pod], "").unwrap();
        assert!(found.report.findings.iter().any(|finding| finding.what.contains("no node")));
        let broken = parse_with("nodes.json", &node("a", EIGHT)[..80], "").unwrap_err();
        assert!(matches!(broken, ClusterFileError::Json { .. }), "{broken}");
    }
}
