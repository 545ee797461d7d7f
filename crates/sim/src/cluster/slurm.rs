//! The nodes of a Slurm cluster, as `scontrol show node` writes them, with or without `-o`.
//!
//! GPUs are those of `Gres`; a node with several types of them is refused, since nodes have one type here. Switches
//! are not in this text, so all nodes stand in one rack. Nodes that are down or failing are down here; those that
//! drain or are in maintenance drain. Powered down cloud nodes can be had, and so are up.

use trainyard_sched::model::{GPU, NodeState, UNLIMITED};

use super::builder::{Builder, Machine, SOME_GPU};
use super::{ClusterFileError, Draft, Format};
use crate::document::{Document, DocumentError, printable, whole};
use crate::supplement::Supplement;
use crate::workload::Done;

const MIB: u64 = 1 << 20;
const MOST: u64 = 1_000_000_000;
const DOWN: [&str; 8] =
    ["DOWN", "ERROR", "FAIL", "FAILING", "FUTURE", "NOT_RESPONDING", "NO_RESPOND", "UNKNOWN"];
const DRAINING: [&str; 6] = ["DRAIN", "DRAINED", "DRAINING", "MAINT", "MAINTENANCE", "REBOOT"];

/// The entry of the table of formats.
pub(super) const FORMAT: Format = Format {
    name: "slurm",
    title: "Slurm nodes (scontrol show node)",
    detect: |head| head.trim_start().starts_with("NodeName="),
    read,
};

fn read(document: &Document, supplement: &Supplement) -> Result<Draft, ClusterFileError> {
    let gpu_type = supplement.get("type").unwrap_or(SOME_GPU);
    let mut builder = Builder::new(document);
    let mut rows = 0;
    let mut node: Option<(usize, Node<'_>)> = None;
    for (index, text) in document.text.lines().enumerate() {
        for (key, value) in text.split_whitespace().filter_map(|word| word.split_once('=')) {
            if key == "NodeName" {
                if let Some((line, node)) = node.take() {
                    push(&mut builder, document, line, &node, gpu_type)?;
                }
                rows += 1;
                node = Some((index + 1, Node { name: value, ..Node::default() }));
            } else if let Some((_, node)) = &mut node {
                match key {
                    "CPUTot" => node.cpus = value,
                    "RealMemory" => node.memory_mib = value,
                    "Gres" => node.gres = value,
                    "State" => node.state = value,
                    _ => {}
                }
            }
        }
    }
    if let Some((line, node)) = node {
        push(&mut builder, document, line, &node, gpu_type)?;
    }
    builder.assume("the text names no switches: all nodes stand in one rack");
    Ok(Draft::of(builder, rows))
}

#[derive(Default)]
struct Node<'d> {
    name: &'d str,
    cpus: &'d str,
    memory_mib: &'d str,
    gres: &'d str,
    state: &'d str,
}

fn push(
    builder: &mut Builder<'_>,
    document: &Document,
    line: usize,
    node: &Node<'_>,
    some_type: &str,
) -> Result<(), DocumentError> {
    let wrong = |field: &str, value: &str, what: &str| {
        let (name, value) = (printable(node.name), printable(value));
        document.wrong(line, format!("node `{name}`: {field} `{value}`: {what}"))
    };
    let amount = |field, value: &str, unit: u64| match value {
        "" => Ok(UNLIMITED),
        _ => whole(value, MOST).map(|count| count * unit).map_err(|what| wrong(field, value, &what)),
    };
    if node.name.is_empty() {
        return Err(wrong("NodeName", "", "every node needs a name"));
    }
    let (mut gpus, mut gpu_type) = (0, None);
    // Sockets stand in brackets behind: gpu:a100:4(S:0-1).
    let gres = outside_brackets(node.gres);
    for part in gres.split(',').filter(|part| part.starts_with("gpu")) {
        let mut words = part.split(':').skip(1);
        let (first, second) = (words.next(), words.next());
        let (name, count) = match (first, second) {
            (Some(name), Some(count)) => (name, count),
            (Some(word), None) if word.starts_with(|c: char| c.is_ascii_digit()) => (some_type, word),
            (Some(name), None) => (name, "1"),
            (None, _) => (some_type, "1"),
        };
        if gpu_type.is_some_and(|known| known != name) {
            return Err(wrong("Gres", node.gres, "a node has GPUs of one type here; list it as two nodes"));
        }
        gpu_type = Some(name);
        gpus += whole(count, 1000).map_err(|what| wrong("Gres", node.gres, &what))?;
    }
    let machine = Machine {
        name: node.name,
        gpu_type: gpu_type.unwrap_or(some_type),
        gpus,
        cpu_milli: amount("CPUTot", node.cpus, GPU)?,
        memory_bytes: amount("RealMemory", node.memory_mib, MIB)?,
        state: state(builder, line, node),
        ..Machine::default()
    };
    builder.push(line, &machine)
}

/// A list without what stands in brackets.
fn outside_brackets(text: &str) -> String {
    let mut depth = 0_u32;
    text.chars()
        .filter(|c| {
            let was = depth;
            depth = match c {
                '(' => depth + 1,
                ')' => depth.saturating_sub(1),
                _ => depth,
            };
            was == 0 && depth == 0
        })
        .collect()
}

/// Words such as `IDLE+DRAIN` or `DOWN*`.
fn state(builder: &mut Builder<'_>, line: usize, node: &Node<'_>) -> NodeState {
    let words = node.state.split('+').map(|word| word.trim_end_matches(|c: char| !c.is_ascii_alphabetic()));
    let words: Vec<&str> = words.collect();
    if node.state.contains('*') || words.iter().any(|word| DOWN.contains(word)) {
        builder.note(Done::Noted, line, "the node is down or does not answer: it is down", node.name);
        NodeState::Down
    } else if words.iter().any(|word| DRAINING.contains(word)) {
        builder.note(Done::Noted, line, "the node drains or is in maintenance: it drains", node.name);
        NodeState::Draining
    } else {
        NodeState::Up
    }
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::NodeState;

    use crate::cluster::parse_with;

    const TEXT: &str = "NodeName=gpu01 Arch=x86_64 CPUAlloc=0 CPUTot=96 Gres=gpu:a100:4(S:0-1),gpu:a100:4(S:2,3) \
        OS=Linux 5.4 RealMemory=1024 State=MIXED Reason=Not a problem\n\
        NodeName=gpu02 CPUTot=64 Gres=gpu:2 RealMemory=1024 State=IDLE+DRAIN \n\
        NodeName=cpu01 CPUTot=64 Gres=(null) RealMemory=1024 State=DOWN*\n";

    #[test]
    fn nodes_are_read_from_either_layout() {
        let found = parse_with("nodes.txt", TEXT, "type=t4").unwrap();
        assert_eq!(found.cluster.to_string(), "3 nodes, 10 GPUs (8 a100, 2 t4)");
        let states: Vec<NodeState> = found.cluster.nodes.iter().map(|node| node.state).collect();
        assert_eq!(states, [NodeState::Up, NodeState::Draining, NodeState::Down]);
        let first = &found.cluster.nodes[0];
        assert_eq!((first.holds.cpu_milli, first.holds.memory_bytes), (96_000, 1 << 30));
        let long = TEXT.replace(" CPUTot", "\n   CPUTot").replace("\nNodeName", "\n\nNodeName");
        assert_eq!(parse_with("nodes.txt", &long, "type=t4").unwrap().cluster, found.cluster);
    }

    #[test]
    fn odd_fields_are_named() {
        for (from, to, part) in [
            ("gpu:2", "gpu:two:many", "nodes.txt:2: node `gpu02`: Gres `gpu:two:many`"),
            ("gpu:a100:4(S:2,3)", "gpu:v100:4", "GPUs of one type"),
            ("CPUTot=96", "CPUTot=-1", "node `gpu01`: CPUTot `-1`"),
            ("gpu:a100:4(S:0-1)", "gpu:a100:65", "has 69 GPUs"),
            ("gpu02", "gpu01", "nodes.txt:2: node `gpu01` is already at line 1"),
        ] {
            let told = parse_with("nodes.txt", &TEXT.replace(from, to), "").unwrap_err().to_string();
            assert!(told.contains(part), "{to}: {told}");
        }
    }
}
