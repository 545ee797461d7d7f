//! Tiresias's cluster file: `num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node` and one row.
//!
//! Each switch is a rack. The file does not name a GPU type; it is called `gpu` here unless `?type=` says better. Memory is in GB.

use trainyard_sched::model::{GPU, MAX_GPUS_PER_NODE};

use super::builder::{Builder, Machine};
use super::words::NODE_LIMIT;
use super::{ClusterFileError, Draft, Format};
use crate::document::{Document, DocumentError};
use crate::supplement::Supplement;
use crate::trace::header_has;

const COLUMNS: [&str; 5] =
    ["num_switch", "num_node_p_switch", "num_gpu_p_node", "num_cpu_p_node", "mem_p_node"];
const BYTES_PER_GB: u64 = 1_000_000_000;

/// The entry of the table of formats.
pub(super) const FORMAT: Format = Format {
    name: "tiresias",
    title: "Tiresias's cluster file",
    detect: |head| header_has(first_line(head), &COLUMNS[..1]),
    read,
};

/// The first line with text.
fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or("")
}

/// Reads such a file; columns may be in any order and the last line end may be missing.
fn read(document: &Document, supplement: &Supplement) -> Result<Draft, ClusterFileError> {
    let gpu_type = supplement.get("type");
    let limits = [u64::from(u16::MAX), NODE_LIMIT, u64::from(MAX_GPUS_PER_NODE), 1_000_000, 1_000_000_000];
    let table = document.table()?;
    let mut places = [0; COLUMNS.len()];
    for (place, column) in places.iter_mut().zip(COLUMNS) {
        *place = table.column(column)?;
    }
    let mut found: Option<(usize, [u64; COLUMNS.len()])> = None;
    table.each(|row| -> Result<(), DocumentError> {
        if found.is_some() {
            return Err(document.wrong(row.line, "a second row; the file describes one cluster in one row"));
        }
        let mut numbers = [0_u64; COLUMNS.len()];
        for ((number, place), limit) in numbers.iter_mut().zip(places).zip(limits) {
            *number = row.whole(place, limit)?;
            if *number == 0 {
                return Err(row.wrong(place, "give at least 1"));
            }
        }
        found = Some((row.line, numbers));
        Ok(())
    })?;
    let (line, [switches, nodes_per_switch, gpus, cpus, memory_gb]) = found.expect("a table has a row");
    if switches * nodes_per_switch > NODE_LIMIT {
        return Err(document.wrong(line, format!("more than {NODE_LIMIT} nodes")).into());
    }
    let mut builder = Builder::new(document);
    for rack in 0..switches {
        let rack = rack.to_string();
        let machine = Machine {
            rack: &rack,
            gpus,
            cpu_milli: cpus * GPU,
            memory_bytes: memory_gb * BYTES_PER_GB,
            ..Machine::default()
        };
        let machine = Machine { gpu_type: gpu_type.unwrap_or(machine.gpu_type), ..machine };
        for _ in 0..nodes_per_switch {
            builder.push(line, &machine)?;
        }
    }
    builder.assume("each switch is a rack");
    if gpu_type.is_none() {
        builder.assume("the file names no GPU type; it is called `gpu`");
    }
    Ok(Draft::of(builder, 1))
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::RackId;

    use super::super::parse;

    const HEADER: &str = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node";

    #[test]
    fn switches_become_racks_with_or_without_a_last_line_end() {
        let plain = parse("n.csv", &format!("{HEADER}\n5,32,8,128,256\n")).unwrap();
        assert_eq!(plain.cluster.to_string(), "160 nodes, 1280 GPUs (1280 gpu)");
        assert_eq!((plain.cluster.nodes[31].rack, plain.cluster.nodes[32].rack), (RackId(0), RackId(1)));
        for text in [format!("{HEADER}\r\n5,32,8,128,256"), format!("\u{feff}{HEADER}\n5,32,8,128,256")] {
            assert_eq!(parse("n.csv", &text).unwrap().cluster, plain.cluster);
        }
    }

    #[test]
    fn broken_rows_are_refused_with_line_and_value() {
        let error = |text: &str| parse("n.csv", text).unwrap_err().to_string();
        assert!(error(HEADER).contains("n.csv:1"));
        assert!(error(&format!("{HEADER}\n5,32,8,many,256")).contains("n.csv:2: num_cpu_p_node `many`"));
        assert!(error(&format!("{HEADER}\n5,32,8")).contains("n.csv:2: expected 5 fields, found 3"));
        assert!(error(&format!("{HEADER}\n60000,1000,8,1,1")).contains("nodes"));
        assert!(error(&format!("{HEADER}\n1,1,8,1,1\n1,1,8,1,1")).contains("n.csv:3"));
        assert!(error("num_switch\n1").contains("num_node_p_switch"));
    }
}
