//! Our own series: a CSV file with `time_s` and either `nodes` or `gpus`.

use trainyard_sched::model::Span;

use super::{CapacityError, Draft, Format, Leaving, MOST, Unit};
use crate::document::{Document, DocumentError};
use crate::strangers::header_is;
use crate::supplement::Supplement;
use crate::trace::time_s;
use crate::workload::{Done, ImportReport};

/// The entry of the table of formats.
pub(super) const FORMAT: Format = Format {
    name: "capacity",
    title: "our own series: time_s and nodes or gpus",
    detect: |head| header_is(head, &["time_s", "nodes"]) || header_is(head, &["time_s", "gpus"]),
    read,
};

fn read(document: &Document, _: &Supplement) -> Result<Draft, CapacityError> {
    let table = document.table()?;
    let unit = if table.column("nodes").is_ok() { Unit::Nodes } else { Unit::Gpus };
    let time = table.column("time_s")?;
    let count = table.column(if unit == Unit::Nodes { "nodes" } else { "gpus" })?;
    let mut report = ImportReport::default();
    let mut points = Vec::new();
    let rows = table.each(|row| -> Result<(), DocumentError> {
        let at = time_s("time_s", row.get(time)).map_err(|problem| row.wrong(time, &problem.what))?;
        points.push((at, row.line, row.whole(count, MOST)?));
        Ok(())
    })?;
    if !points.is_sorted_by_key(|(at, ..)| *at) {
        points.sort_by_key(|(at, ..)| *at);
        report.find(Done::Noted, "the rows are not in the order of time; they were sorted", None);
    }
    if let Some(pair) = points.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let what =
            format!("time_s `{}`: this moment is already at line {}", pair[1].0.as_secs_f64(), pair[0].1);
        return Err(document.wrong(pair[1].1, what).into());
    }
    (report.rows, report.kept) = (rows, rows);
    let points = points.into_iter().map(|(at, _, count)| (at, count)).collect();
    Ok(Draft { unit, leaving: Leaving::Down, gpus_per_node: None, points, step: Span::ZERO, report })
}

#[cfg(test)]
mod tests {
    use crate::capacity::{Unit, read_from};

    #[test]
    fn rows_may_come_in_any_order_but_not_twice() {
        let read = |text: &str| read_from("c.csv", text.as_bytes().to_vec(), "");
        let sorted = read("time_s,gpus\n0,8\n60,16\n").unwrap();
        assert_eq!((sorted.unit, sorted.report.rows), (Unit::Gpus, 2));
        assert_eq!(read("gpus,time_s\n16,60\n8,0\n").unwrap().points, sorted.points);
        let told = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(told("time_s,gpus\n5,8\n5,9\n"), "c.csv:3: time_s `5`: this moment is already at line 2");
        assert!(told("time_s,gpus\n5,-8\n").starts_with("c.csv:2: gpus `-8`"));
        assert!(told("time_s,nodes\nsoon,8\n").starts_with("c.csv:2: time_s `soon`"));
    }
}
