//! The page of a sweep: what was read, the numbers of each combination, and their differences from the baseline.

use maud::{Markup, html};

use super::figure::mean;
use super::report::{
    Cell, Column, Figure, Numbers, Page, Range, RangeRow, Row as TableRow, facts, import_report, simulated,
};
use super::sweep::sweep_note;
use super::whatif::metric;
use super::whatif_page::difference_ranges;
use crate::config::{Better, Unit};
use crate::experiment::sweep::{Compared, Row, Swept};

/// The whole page.
pub(crate) fn sweep_page(swept: &Swept) -> String {
    let compared = &swept.compared;
    Page::new(compared.title.clone(), in_short(compared))
        .with("read", "What was read and assumed", read(swept))
        .with("numbers", "Numbers", numbers(compared))
        .with("differences", "Differences from the baseline", differences(compared))
        .note("JCT is job completion time, from submission to end. Means and percentiles are over jobs that came to an end.")
        .into_html()
}

/// The keys that are compared, in their order.
fn keys(compared: &Compared) -> Vec<&'static str> {
    let mut keys = Vec::new();
    for row in &compared.rows {
        if !keys.contains(&row.metric) {
            keys.push(row.metric);
        }
    }
    keys
}

fn name(row: &Row) -> String {
    row.levels.join(", ")
}

/// How many of the differences in the first number are certain.
fn in_short(compared: &Compared) -> String {
    let Some(key) = keys(compared).first().copied() else { return String::new() };
    let differences = compared.rows.iter().filter(|row| row.metric == key).filter_map(|row| row.difference);
    let all: Vec<_> = differences.collect();
    let better = |mean: f64| match metric(key).better {
        Better::Less => mean < 0.0,
        Better::More => mean > 0.0,
        Better::Neither => false,
    };
    let certain = all.iter().filter(|by| by.is_certain()).count();
    let good = all.iter().filter(|by| by.is_certain() && by.mean.is_some_and(better)).count();
    format!(
        "{} combinations against the baseline in {}: {} are certainly better, {} certainly worse (at 95 %), {} may be chance.",
        all.len(),
        metric(key).title,
        good,
        certain - good,
        all.len() - certain
    )
}

fn read(swept: &Swept) -> Markup {
    let compared = &swept.compared;
    let seeds = compared.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let baseline = compared.baseline.iter().map(|(factor, level)| format!("{factor} = {level}"));
    html! {
        (facts(&[
            ("Factors", html! { (compared.factors.join(", ")) }),
            ("Baseline", html! { code { (baseline.collect::<Vec<_>>().join(", ")) } }),
            ("Seeds", html! { (seeds) }),
        ]))
        p { (sweep_note(compared)) }
        h3 { "What was read for the first run" }
        (import_report(swept.inputs.report()))
        h3 { "What the first run simulates" }
        (simulated(&swept.inputs))
    }
}

fn numbers(compared: &Compared) -> Markup {
    let keys = keys(compared);
    let columns =
        keys.iter().map(|key| Column { title: metric(key).title.to_owned(), meaning: (*key).to_owned() });
    let cells = |rows: &[Row]| {
        let cell = |row: &Row| Cell {
            text: mean(metric(row.metric).unit, &row.value),
            value: row.value.mean,
            best: false,
        };
        rows.iter().map(cell).collect()
    };
    let rows = compared.rows.chunks(keys.len().max(1)).map(|rows| TableRow {
        name: name(&rows[0]),
        series: None,
        tag: rows.iter().any(|row| row.value.absent > 0).then_some("unstable or empty"),
        cells: cells(rows),
    });
    let caption = "Each combination, means over the seeds".to_owned();
    Numbers { caption, of: "combination", columns: columns.collect(), rows: rows.collect() }.draw()
}

fn differences(compared: &Compared) -> Markup {
    let drawn = keys(compared).into_iter().filter(|key| metric(key).unit != Unit::Ratio);
    html! {
        div.charts { @for key in drawn { (chart(compared, key)) } }
        p.note { "The mark is the mean over the seeds; it lies on the line with a certainty of 95 %. All numbers are in differences.csv." }
    }
}

fn chart(compared: &Compared, key: &'static str) -> Markup {
    let metric = metric(key);
    // An axis counts GPU-hours and GB, not GPU-seconds and bytes.
    let (unit, scale) = match metric.unit {
        Unit::GpuSeconds => (Unit::Count, 1.0 / 3600.0),
        Unit::Bytes => (Unit::Count, 1e-9),
        unit => (unit, 1.0),
    };
    let rows = compared.rows.iter().filter(|row| row.metric == key);
    let range = |row: &Row| {
        let by = row.difference?;
        let values = by.mean.map(|mean| by.interval_95.map_or([mean; 3], |i| [i.low, mean, i.high]));
        let values = values.map(|values| values.map(|value| value * scale));
        let ranges = vec![Range { series: 0, name: String::new(), values }];
        Some(RangeRow { name: name(row), note: String::new(), ranges })
    };
    let rows: Vec<RangeRow> = rows.filter_map(range).collect();
    let alternative =
        format!("Differences in {} from the baseline, {} combinations.", metric.title, rows.len());
    difference_ranges(&Figure { title: metric.title, reading: "", alternative }, unit, &rows)
}
