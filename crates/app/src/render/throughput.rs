//! Speeds that were measured and speeds that follow from them, as text and as a page.

use maud::html;

use super::axis::Axis;
use super::report::{Figure, Page, Range, RangeRow, ranges};
use super::table::{Align, plain_table};
use crate::commands::{Estimates, Shown};

/// Most rows of pairs that a terminal is given; all are in the JSON and in the CSV.
const MOST_PAIRS: usize = 40;

/// A figure in four digits.
fn digits(value: f64) -> String {
    let decimals = (3 - value.abs().max(1e-9).log10().floor() as i32).clamp(0, 9) as usize;
    format!("{value:.decimals$}")
}

fn known(shown: &Shown) -> String {
    match (shown.known, shown.per_s) {
        ("measured", Some(per_s)) => digits(per_s),
        ("estimated", Some(per_s)) => format!("~{}", digits(per_s)),
        ("does_not_fit", _) => "does not fit".to_owned(),
        _ => "unknown".to_owned(),
    }
}

fn between(shown: &Shown) -> String {
    match (shown.low, shown.high) {
        (Some(low), Some(high)) => format!("{} to {}", digits(low), digits(high)),
        _ => String::new(),
    }
}

/// The estimates as a table; of jobs alone those that were measured stand among them.
pub(crate) fn throughput_text(estimates: &Estimates) -> String {
    let headers = [
        ("model", Align::Left),
        ("GPUs", Align::Right),
        ("type", Align::Left),
        ("iterations/s", Align::Right),
        ("between", Align::Right),
        ("sources", Align::Right),
    ];
    let place = |shown: &Shown| format!("{}{}", shown.gpu_type, if shown.spread { ", spread" } else { "" });
    let cells = |shown: &Shown| {
        let sources = if shown.sources > 0 { shown.sources.to_string() } else { String::new() };
        vec![shown.model.clone(), shown.gpus.to_string(), place(shown), known(shown), between(shown), sources]
    };
    let mut text = plain_table(&headers, estimates.alone.iter().map(cells).collect());
    let estimated: Vec<&Shown> = estimates.beside.iter().filter(|shown| shown.known == "estimated").collect();
    if !estimated.is_empty() {
        let headers = [
            ("model", Align::Left),
            ("beside", Align::Left),
            ("GPUs", Align::Right),
            ("type", Align::Left),
            ("iterations/s", Align::Right),
        ];
        let cells = |shown: &&Shown| {
            let beside = shown.beside.clone().unwrap_or_default();
            vec![shown.model.clone(), beside, shown.gpus.to_string(), place(shown), known(shown)]
        };
        text += "\n\nPairs that were not measured\n";
        text += &plain_table(&headers, estimated.iter().take(MOST_PAIRS).map(cells).collect());
        if let Some(more) = estimated.len().checked_sub(MOST_PAIRS).filter(|more| *more > 0) {
            text += &format!("\nand {more} more, which --output json and --out show");
        }
    }
    if let Some(tried) = estimates.left_out {
        text += &format!(
            "\n\n~ is an estimate. Of {} measured figures, taken away one by one, half are found again within {:.0} %, nine of ten \
             within {:.0} %.",
            tried.figures,
            tried.median * 100.0,
            tried.p90 * 100.0
        );
    }
    text
}

/// The page.
pub(crate) fn throughput_page(table: &str, estimates: &Estimates) -> String {
    let estimated = estimates.alone.iter().filter(|shown| shown.known == "estimated").count();
    let in_short = format!("{} figures of jobs alone, {estimated} of them estimated.", estimates.alone.len());
    let mut types: Vec<&str> = estimates.alone.iter().map(|shown| shown.gpu_type.as_str()).collect();
    types.sort_unstable();
    types.dedup();
    let mut rows: Vec<RangeRow> = Vec::new();
    for shown in &estimates.alone {
        let name = shown.model.clone();
        let note = format!("{} GPUs{}", shown.gpus, if shown.spread { ", spread" } else { "" });
        if rows.last().is_none_or(|row| (&row.name, &row.note) != (&name, &note)) {
            rows.push(RangeRow { name, note, ranges: Vec::new() });
        }
        let per_s = shown.per_s.filter(|per_s| *per_s > 0.0);
        let series = types.iter().position(|gpu_type| *gpu_type == shown.gpu_type).unwrap_or(0);
        let word = if shown.known == "measured" { "" } else { " ~" };
        let values = per_s.map(|per_s| [shown.low.unwrap_or(per_s), per_s, shown.high.unwrap_or(per_s)]);
        let range = Range { series, name: format!("{}{word}", shown.gpu_type), values };
        rows.last_mut().expect("one was just pushed").ranges.push(range);
    }
    let most = rows
        .iter()
        .flat_map(|row| &row.ranges)
        .filter_map(|range| range.values)
        .map(|values| values[2])
        .fold(0.0, f64::max);
    let figure = Figure {
        title: "Iterations a second by GPU type",
        reading: "A dot is a figure; the line around an estimate (~) is where it lies in about two of three cases.",
        alternative: "The numbers are in the table below the chart.".to_owned(),
    };
    let axis = Axis::numbers(0.0, most, "iterations a second");
    let body = html! { (ranges(&figure, &axis, &rows, ["low", "figure", "high"], digits)) };
    let mut page = Page::new(format!("Throughputs of {table}"), in_short).with("figures", "Figures", body);
    if let Some(tried) = estimates.left_out {
        page = page.note(format!(
            "Of {} measured figures, taken away one by one and estimated from the others, half are found again within {:.0} %, \
             nine of ten within {:.0} %.",
            tried.figures,
            tried.median * 100.0,
            tried.p90 * 100.0
        ));
    }
    page.into_html()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_four_digits() {
        let shown = [0.0123456, 1.0, 24.0912, 698.83, 12_345.6].map(digits);
        assert_eq!(shown, ["0.01235", "1.000", "24.09", "698.8", "12346"]);
    }
}
