//! Tiresias's cluster file: `num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node` and one row.
//!
//! Each switch is a rack. The file does not name a GPU type; it is called `gpu` here. Memory is in GB.

use trainyard_sched::model::{Cluster, GPU, MAX_GPUS_PER_NODE, RackId, Resources, UNLIMITED};

use super::words::NODE_LIMIT;
use super::{ClusterFile, ClusterFileError, checked};

const COLUMNS: [&str; 5] =
    ["num_switch", "num_node_p_switch", "num_gpu_p_node", "num_cpu_p_node", "mem_p_node"];
const GPU_TYPE: &str = "gpu";
const BYTES_PER_GB: u64 = 1_000_000_000;

/// Whether a text begins with the header of such a file.
pub(crate) fn is_header(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
    first.split(',').any(|name| name.trim() == COLUMNS[0])
}

/// Parses such a file; columns may be in any order and the last line end may be missing.
pub(crate) fn parse(file: &str, text: &str) -> Result<ClusterFile, ClusterFileError> {
    let row_error = |line: usize, what: String| ClusterFileError::Row { file: file.to_owned(), line, what };
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (header_index, header) = lines.next().unwrap_or((0, ""));
    let header: Vec<&str> = header.split(',').map(str::trim).collect();
    let mut places = [0; COLUMNS.len()];
    for (place, column) in places.iter_mut().zip(COLUMNS) {
        *place = header.iter().position(|name| *name == column).ok_or_else(|| {
            row_error(
                header_index + 1,
                format!("the column `{column}` is missing; the header has {}", header.join(", ")),
            )
        })?;
    }
    let Some((index, row)) = lines.next() else {
        return Err(row_error(header_index + 1, "no row follows the header".to_owned()));
    };
    if let Some((index, _)) = lines.next() {
        return Err(row_error(
            index + 1,
            "a second row; the file describes one cluster in one row".to_owned(),
        ));
    }
    let fields: Vec<&str> = row.split(',').map(str::trim).collect();
    let limits = [u64::from(u16::MAX), NODE_LIMIT, u64::from(MAX_GPUS_PER_NODE), 1_000_000, 1_000_000_000];
    let mut numbers = [0_u64; COLUMNS.len()];
    for (i, number) in numbers.iter_mut().enumerate() {
        let value = fields.get(places[i]).copied().unwrap_or("");
        *number = value.parse().ok().filter(|number| (1..=limits[i]).contains(number)).ok_or_else(|| {
            row_error(
                index + 1,
                format!("{} `{value}` is no whole number from 1 to {}", COLUMNS[i], limits[i]),
            )
        })?;
    }
    let [switches, nodes_per_switch, gpus, cpus, memory_gb] = numbers;
    if switches * nodes_per_switch > NODE_LIMIT {
        return Err(row_error(index + 1, format!("more than {NODE_LIMIT} nodes")));
    }
    let holds = Resources {
        gpu_milli: gpus * GPU,
        cpu_milli: cpus * GPU,
        memory_bytes: memory_gb * BYTES_PER_GB,
        network_bytes_per_s: UNLIMITED,
    };
    let mut cluster = Cluster::default();
    let gpu_type = cluster.intern_gpu_type(GPU_TYPE);
    for rack in 0..switches as u16 {
        for _ in 0..nodes_per_switch {
            cluster.push(RackId(rack), Some(gpu_type), holds, None);
        }
    }
    checked(file, cluster, Vec::new(), crate::physics::Physics::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node";

    #[test]
    fn switches_become_racks_with_or_without_a_last_line_end() {
        let plain = parse("n.csv", &format!("{HEADER}\n5,32,8,128,256\n")).unwrap();
        assert_eq!(plain.cluster.to_string(), "160 nodes, 1280 GPUs (1280 gpu)");
        assert_eq!((plain.cluster.nodes[31].rack, plain.cluster.nodes[32].rack), (RackId(0), RackId(1)));
        assert_eq!(parse("n.csv", &format!("{HEADER}\r\n5,32,8,128,256")).unwrap(), plain);
        assert_eq!(
            super::super::parse("n.csv", &format!("\u{feff}{HEADER}\n5,32,8,128,256")).unwrap(),
            plain
        );
    }

    #[test]
    fn broken_rows_are_refused_with_line_and_value() {
        let error = |text: &str| parse("n.csv", text).unwrap_err().to_string();
        assert!(error(HEADER).contains("n.csv:1"));
        assert!(error(&format!("{HEADER}\n5,32,8,many,256")).contains("n.csv:2: num_cpu_p_node `many`"));
        assert!(error(&format!("{HEADER}\n5,32,8")).contains("num_cpu_p_node ``"));
        assert!(error(&format!("{HEADER}\n60000,1000,8,1,1")).contains("nodes"));
        assert!(error(&format!("{HEADER}\n1,1,8,1,1\n1,1,8,1,1")).contains("n.csv:3"));
        assert!(error("num_switch\n1").contains("num_node_p_switch"));
    }
}
