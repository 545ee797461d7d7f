//! A sweep as people read it on a terminal: paired differences from the baseline, one number a row.

use super::figure::{interval, mean, mean_difference};
use super::table::{Align, plain_table};
use super::whatif::metric;
use crate::experiment::sweep::{Compared, Row};
use crate::statistics::ENOUGH_REPLICATES;

/// The whole text.
pub(crate) fn sweep_text(compared: &Compared) -> String {
    let mut headers: Vec<(&str, Align)> =
        compared.factors.iter().map(|factor| (factor.as_str(), Align::Left)).collect();
    headers.push(("number", Align::Left));
    headers.extend(["value", "difference", "80 %", "95 %"].map(|title| (title, Align::Right)));
    let mut rows = Vec::new();
    let mut last: Option<&Row> = None;
    for row in &compared.rows {
        let again = last.is_some_and(|last| last.levels == row.levels);
        rows.push(cells(row, again));
        last = Some(row);
    }
    format!("{}\n\n{}", plain_table(&headers, rows), sweep_note(compared))
}

fn cells(row: &Row, again: bool) -> Vec<String> {
    let metric = metric(row.metric);
    let level = |level: &String| if again { String::new() } else { level.clone() };
    let mut cells: Vec<String> = row.levels.iter().map(level).collect();
    cells.extend([metric.title.to_owned(), mean(metric.unit, &row.value)]);
    match &row.difference {
        None => cells.extend(["baseline".to_owned(), String::new(), String::new()]),
        Some(by) => cells.extend([
            mean_difference(metric.unit, by),
            interval(metric.unit, by.interval_80),
            interval(metric.unit, by.interval_95),
        ]),
    }
    cells
}

/// What the differences are from, and how far they can be trusted.
pub(super) fn sweep_note(compared: &Compared) -> String {
    let baseline = compared.baseline.iter().map(|(factor, level)| format!("{factor} = {level}"));
    let baseline = baseline.collect::<Vec<_>>().join(", ");
    let seeds = compared.seeds.len();
    let trust = match seeds {
        1 => "From one seed there are no intervals.".to_owned(),
        _ if seeds < ENOUGH_REPLICATES => {
            format!(
                "From fewer than {ENOUGH_REPLICATES} seeds, intervals are narrower than they should be and no difference \
                 is called certain."
            )
        }
        _ => "Intervals are of the bootstrap over seeds.".to_owned(),
    };
    let absent = compared.rows.iter().filter(|row| row.value.absent > 0).count();
    let dash = match absent {
        0 => String::new(),
        _ => " A dash stands where some run has no number, because it was unstable or completed nothing."
            .to_owned(),
    };
    format!("Differences are from {baseline}, the other factors alike, seed by seed ({seeds}). {trust}{dash}")
}
