//! Helios's daily numbers of GPUs: `date`, a column for each virtual cluster, and `total`.
//!
//! The total counts. Quotas of tenants do not change over time here, so the columns are only checked against it;
//! `?vc=NAME` reads one of them instead. Nodes have 8 GPUs unless `?gpus=` says otherwise: all numbers are multiples.

use jiff::civil::Date;
use trainyard_sched::model::{Span, Time};

use super::{CapacityError, Draft, Format, Leaving, MOST, Unit};
use crate::document::{Document, DocumentError};
use crate::strangers::first_line;
use crate::supplement::Supplement;
use crate::trace::nearest;
use crate::workload::{Done, ImportReport};

const DAY: Span = Span::from_secs(86_400);
const HELIOS_GPUS: u64 = 8;

/// The entry of the table of formats.
pub(super) const FORMAT: Format = Format {
    name: "helios-gpus",
    title: "Helios's daily numbers of GPUs",
    detect: |head| {
        let names: Vec<&str> = first_line(head).split(',').map(str::trim).collect();
        names.len() > 2 && names[0] == "date" && names[names.len() - 1] == "total"
    },
    read,
};

fn read(document: &Document, supplement: &Supplement) -> Result<Draft, CapacityError> {
    let table = document.table()?;
    let (date, total) = (table.column("date")?, table.column("total")?);
    let parts: Vec<usize> =
        (0..table.names().len()).filter(|column| ![date, total].contains(column)).collect();
    let chosen = match supplement.get("vc") {
        None => total,
        Some(name) => table.column(name).map_err(|_| {
            let hint = nearest(name, parts.iter().map(|column| table.names()[*column].as_str()));
            supplement.value_error("vc", name, format!("there is no such virtual cluster; {hint}"))
        })?,
    };
    let mut report = ImportReport::default();
    let mut days: Vec<(Date, usize, u64)> = Vec::new();
    let rows = table.each(|row| -> Result<(), DocumentError> {
        let day = row.text(date)?.parse::<Date>();
        let day = day.map_err(|_| row.wrong(date, "give a date such as 2020-04-01"))?;
        let mut sum = 0;
        for column in &parts {
            sum += row.whole(*column, MOST)?;
        }
        let all = row.whole(total, MOST)?;
        if sum != all {
            let place = format!("{}:{}: total {all}", document.file, row.line);
            report.find(Done::Noted, "the virtual clusters do not add up to the total", Some(place));
        }
        days.push((day, row.line, row.whole(chosen, MOST)?));
        Ok(())
    })?;
    if !days.is_sorted_by_key(|(day, ..)| *day) {
        days.sort_by_key(|(day, ..)| *day);
        report.find(Done::Noted, "the rows are not in the order of time; they were sorted", None);
    }
    let mut points = Vec::with_capacity(days.len());
    let first = days[0].0;
    for (index, (day, line, count)) in days.iter().enumerate() {
        let since_last =
            index.checked_sub(1).map_or(1, |before| i64::from(days_between(days[before].0, *day)));
        if since_last == 0 {
            let what = format!("date `{day}`: this day is already at line {}", days[index - 1].1);
            return Err(document.wrong(*line, what).into());
        }
        if since_last > 1 {
            let place = format!("{}:{line}: date {day}", document.file);
            report.find(Done::Repaired, "days are missing; the value before them stays", Some(place));
        }
        let elapsed = u64::from(days_between(first, *day).unsigned_abs());
        points.push((Time::from_secs(elapsed * 86_400), *count));
    }
    (report.rows, report.kept) = (rows, rows);
    let what = if chosen == total {
        "the total counts; quotas of virtual clusters do not change over time and are not set"
    } else {
        "one virtual cluster is the whole cluster"
    };
    report.find(Done::Assumed, what, None);
    report.find(Done::Assumed, "a node has 8 GPUs, unless gpus= says otherwise", None);
    Ok(Draft {
        unit: Unit::Gpus,
        leaving: Leaving::Drain,
        gpus_per_node: Some(HELIOS_GPUS),
        points,
        step: DAY,
        report,
    })
}

/// Days from one date to another.
fn days_between(from: Date, to: Date) -> i32 {
    (to - from).get_days()
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::Time;

    use crate::capacity::{Capacity, CapacityError, Leaving, Unit, read_from};

    fn read(rows: &str, words: &str) -> Result<Capacity, CapacityError> {
        read_from("d.csv", format!("date,vcA,vcB,total\n{rows}").into_bytes(), words)
    }

    #[test]
    fn the_total_or_one_virtual_cluster_counts() {
        let rows = "2020-04-30,8,8,16\n2020-05-01,16,8,24\n2020-05-04,0,8,8\n";
        let found = read(rows, "").unwrap();
        assert_eq!((found.unit, found.leaving), (Unit::Gpus, Leaving::Drain));
        let days = |count: u64| Time::from_secs(86_400 * count);
        assert_eq!(found.points, [(days(0), 16), (days(1), 24), (days(4), 8)]);
        assert_eq!(found.ends, days(5));
        assert!(found.report.findings.iter().any(|finding| finding.what.contains("days are missing")));
        assert_eq!(found.cluster().unwrap().to_string(), "3 nodes, 24 GPUs (24 gpu)");
        assert_eq!(read(rows, "vc=vcA").unwrap().most(), 16);
        assert!(read(rows, "vc=vcC").unwrap_err().to_string().contains("did you mean `vcA`?"));
    }

    #[test]
    fn odd_days_are_named() {
        let told = |rows: &str| read(rows, "").unwrap_err().to_string();
        assert!(told("2020-04-31,8,8,16\n").starts_with("d.csv:2: date `2020-04-31`"));
        assert!(told("2020-04-30,8,x,16\n").starts_with("d.csv:2: vcB `x`"));
        assert!(
            told("2020-04-30,8,8,16\n2020-04-30,8,8,16\n").contains("d.csv:3: date `2020-04-30`: this day")
        );
        let odd = read("2020-04-30,8,8,17\n", "").unwrap();
        assert!(odd.report.findings.iter().any(|finding| finding.what.contains("do not add up")));
    }
}
