//! What a cluster holds, and how much of it there is over time, in words and small tables.

use std::fmt::Write as _;

use trainyard_sim::capacity::{Leaving, Unit};
use trainyard_sim::workload::{Done, ImportReport};

use super::words::{count, duration};
use super::{Align, plain_table};
use crate::commands::{CapacityInspection, ClusterInspection};

/// Rows of a table beyond these are only counted.
const MOST_ROWS: usize = 24;
const BYTES_PER_GB: f64 = 1e9;

/// The text of an inspection.
pub(crate) fn cluster_text(seen: &ClusterInspection) -> String {
    let mut text = report_text(&seen.report);
    if seen.nodes > 0 {
        text.push('\n');
        text.push_str(&machines_text(seen));
    }
    if !seen.tenants.is_empty() {
        let rows = seen.tenants.iter().take(MOST_ROWS);
        let rows = rows.map(|(name, gpus)| vec![name.clone(), gpus.to_string()]);
        let columns = [("tenant", Align::Left), ("promised GPUs", Align::Right)];
        let _ = write!(text, "\n{}\n", plain_table(&columns, rows.collect()));
        and_more(&mut text, seen.tenants.len(), "tenants");
    }
    if let Some(capacity) = &seen.capacity {
        text.push_str(&capacity_text(capacity, capacity.report == seen.report));
    }
    text
}

fn report_text(report: &ImportReport) -> String {
    let mut text = report.source.clone();
    if !report.sha256_16.is_empty() {
        let _ = write!(text, "\nsha256 {}...: {} rows", report.sha256_16, count(report.rows));
    }
    text.push('\n');
    for finding in &report.findings {
        let done = match finding.done {
            Done::Dropped => "left out",
            Done::Repaired => "repaired",
            Done::Assumed => "assumed",
            Done::Noted => "noted",
        };
        let times =
            if finding.count == 1 { String::new() } else { format!(", {} times", count(finding.count)) };
        let _ = writeln!(text, "  {done}{times}: {}", finding.what);
        for example in &finding.examples {
            let _ = writeln!(text, "    {example}");
        }
    }
    text
}

fn machines_text(seen: &ClusterInspection) -> String {
    let names = seen.names.join(", ");
    let more = if seen.nodes > seen.names.len() { ", ..." } else { "" };
    let mut text = format!("{} nodes ({names}{more}), {} GPUs", count(seen.nodes as u64), count(seen.gpus));
    let (least, most) = seen.rack_nodes;
    let _ = match seen.racks {
        1 => write!(text, ", one rack"),
        racks => write!(text, ", {} racks of {least} to {most} nodes", count(racks as u64)),
    };
    for (nodes, what) in [(seen.draining, "draining"), (seen.down, "down")] {
        if nodes > 0 {
            let _ = write!(text, ", {} {what}", count(nodes as u64));
        }
    }
    let rows = seen.kinds.iter().take(MOST_ROWS).map(|kind| {
        let gb = |bytes: u64| format!("{:.0}", bytes as f64 / BYTES_PER_GB);
        vec![
            kind.gpu_type.clone().unwrap_or_else(|| "-".to_owned()),
            kind.gpus.to_string(),
            kind.cpus.map_or_else(|| "-".to_owned(), count),
            kind.memory_bytes.map_or_else(|| "-".to_owned(), gb),
            count(kind.nodes as u64),
            count(kind.nodes as u64 * u64::from(kind.gpus)),
        ]
    });
    let columns = [
        ("GPU type", Align::Left),
        ("GPUs", Align::Right),
        ("CPUs", Align::Right),
        ("memory GB", Align::Right),
        ("nodes", Align::Right),
        ("GPUs in all", Align::Right),
    ];
    let _ = write!(text, "\n\n{}\n", plain_table(&columns, rows.collect()));
    and_more(&mut text, seen.kinds.len(), "kinds of nodes");
    text
}

fn capacity_text(seen: &CapacityInspection, is_told: bool) -> String {
    let mut text = if is_told { String::new() } else { format!("\n{}", report_text(&seen.report)) };
    let unit = match seen.unit {
        Unit::Nodes => "nodes",
        Unit::Gpus => "GPUs",
    };
    let leaving = match seen.leaving {
        Leaving::Down => "go down",
        Leaving::Drain => "drain",
    };
    let (least, mean, most) = seen.range;
    let _ = writeln!(
        text,
        "\ncapacity over {}: {} to {} {unit}, {mean:.1} on average, {} changes; nodes that leave {leaving}",
        duration(seen.length_s),
        count(least),
        count(most),
        count(seen.changes as u64)
    );
    if let Some(changes) = seen.node_changes {
        let _ = writeln!(text, "{} times a node leaves or comes back", count(changes as u64));
    }
    let rows = seen.points.iter().take(MOST_ROWS).map(|(at_s, n)| vec![duration(*at_s), count(*n)]);
    let columns = [("from", Align::Right), (unit, Align::Right)];
    let _ = write!(text, "\n{}\n", plain_table(&columns, rows.collect()));
    and_more(&mut text, seen.points.len(), "changes");
    text
}

fn and_more(text: &mut String, all: usize, what: &str) {
    if all > MOST_ROWS {
        let _ = writeln!(text, "and {} more {what}", count((all - MOST_ROWS) as u64));
    }
}
