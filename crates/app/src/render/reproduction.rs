//! What came of a paper's experiments, as text and as a page.

use maud::{Markup, html};

use super::axis::Axis;
use super::report::{
    Cell, Column, Curve, Figure, Numbers, Page, Row as TableRow, Stretch, bands, bars, legend, lines,
};
use super::table::{Align, plain_table};
use crate::reproduce::{Bands, Bars, Findings, Paper, Plot, Row, Scale};

const HEADERS: [(&str, Align); 8] = [
    ("check", Align::Left),
    ("what", Align::Left),
    ("published", Align::Right),
    ("reference", Align::Right),
    ("ours", Align::Right),
    ("low", Align::Right),
    ("high", Align::Right),
    ("verdict", Align::Left),
];

/// A figure in as many digits as say something, or a dash.
fn figure(value: Option<f64>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    match value.abs() {
        0.0 => "0".to_owned(),
        ..0.001 => format!("{value:.1e}"),
        ..1.0 => format!("{value:.3}"),
        ..100.0 => format!("{value:.2}"),
        ..10_000.0 => format!("{value:.0}"),
        _ => format!("{value:.3e}"),
    }
}

/// The rows as a table, and the other readings below.
pub(crate) fn reproduction_text(rows: &[Row], readings: &[Row]) -> String {
    let table = |rows: &[Row]| {
        let cells = |row: &Row| {
            let numbers = [row.published, row.reference, row.ours, row.low, row.high].map(figure);
            let mut cells = vec![row.check.to_owned(), row.what.clone()];
            cells.extend(numbers);
            cells.push(row.verdict.clone());
            cells
        };
        plain_table(&HEADERS, rows.iter().map(cells).collect())
    };
    if readings.is_empty() {
        return table(rows);
    }
    format!("{}\n\nOther readings\n{}", table(rows), table(readings))
}

/// The whole page.
pub(crate) fn reproduction_page(paper: &Paper, found: &Findings) -> String {
    let passed = found.rows.iter().filter(|row| row.pass).count();
    let in_short = format!("{passed} of {} checks are reached. {}", found.rows.len(), found.setting);
    let mut page = Page::new(format!("{}: the experiments run again", paper.title), in_short).with(
        "checks",
        "Checks",
        numbers("What was published, and what we see", &found.rows),
    );
    if !found.readings.is_empty() {
        page = page.with(
            "readings",
            "Other readings",
            numbers("The same with other readings of the paper", &found.readings),
        );
    }
    if !found.plots.is_empty() {
        let drawn = html! {
            @for plot in &found.plots { (draw(plot)) }
            @for bars in &found.bars { (draw_bars(bars)) }
            @for bands in &found.bands { (draw_bands(bands)) }
        };
        page = page.with("plots", "Plots", drawn);
    }
    page.note(format!(
        "Paper: {}. Low and high are the 95 % interval of the mean over workloads.",
        paper.source
    ))
    .into_html()
}

fn numbers(caption: &str, rows: &[Row]) -> Markup {
    let titles = ["published", "reference", "ours", "low", "high", "verdict"];
    let columns = titles.map(|title| Column { title: title.to_owned(), meaning: String::new() });
    let row = |row: &Row| {
        let values = [row.published, row.reference, row.ours, row.low, row.high];
        // The figures of a column have different units, so nothing is sorted or drawn by them.
        let cell = |value| Cell { text: figure(value), value: None, best: false };
        let mut cells: Vec<Cell> = values.into_iter().map(cell).collect();
        cells.push(Cell { text: row.verdict.clone(), value: None, best: false });
        let tag = (!row.pass).then_some("missed");
        TableRow { name: format!("{} {}", row.check, row.what), series: None, tag, cells }
    };
    let rows = rows.iter().map(row).collect();
    Numbers { caption: caption.to_owned(), of: "check", columns: columns.into(), rows }.draw()
}

fn draw(plot: &Plot) -> Markup {
    let (most_x, most_y) = plot.ends();
    let least_x = plot.curves.iter().flat_map(|curve| &curve.points).map(|p| p.0).fold(most_x, f64::min);
    let axis = |(scale, title): (Scale, &str), most: f64| match scale {
        Scale::Seconds => Axis::time(most, title),
        Scale::Factors => Axis::lengths(least_x, most, title),
        Scale::Part => Axis::parts(most.clamp(0.0, 1.0), title),
        Scale::Count => Axis::counts(most, title),
        Scale::Number => Axis::numbers(0.0, most, title),
    };
    let (x, y) = (axis(plot.x, most_x), axis(plot.y, most_y));
    let curves: Vec<Curve<'_>> = plot
        .curves
        .iter()
        .enumerate()
        .map(|(series, curve)| Curve { name: &curve.name, series, points: &curve.points, steps: plot.steps })
        .collect();
    let names: Vec<String> = plot.curves.iter().map(|curve| curve.name.clone()).collect();
    let figure = Figure { title: &plot.title, reading: &plot.reading, alternative: plot.alternative.clone() };
    html! { (legend(&names)) (lines(&figure, &x, &y, &curves)) }
}

fn draw_bars(of: &Bars) -> Markup {
    let most = of.groups.iter().flat_map(|(_, bars)| bars.iter().flatten()).copied().fold(0.0, f64::max);
    let (scale, title) = of.y;
    let y = match scale {
        Scale::Seconds | Scale::Factors => Axis::time(most, title),
        Scale::Part => Axis::parts(most.clamp(0.0, 1.0), title),
        Scale::Count => Axis::counts(most, title),
        Scale::Number => Axis::numbers(0.0, most, title),
    };
    let figure = Figure { title: &of.title, reading: &of.reading, alternative: of.alternative.clone() };
    bars(&figure, &y, &of.series, &of.groups)
}

fn draw_bands(of: &Bands) -> Markup {
    let figure = Figure { title: &of.title, reading: &of.reading, alternative: of.alternative.clone() };
    let stretch = |band: &crate::reproduce::Band| Stretch {
        from: band.from_s,
        to: band.to_s,
        series: band.series,
        strength: band.strength,
    };
    let rows: Vec<(&str, Vec<Stretch>)> =
        of.rows.iter().map(|(name, bands)| (name.as_str(), bands.iter().map(stretch).collect())).collect();
    bands(&figure, &Axis::time(of.to_s, "time"), &of.series, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_as_many_digits_as_say_something() {
        let shown = [0.0, 0.000_123, 0.0456, 45.123, 378.4, 123_456.0].map(|value| figure(Some(value)));
        assert_eq!(shown, ["0", "1.2e-4", "0.046", "45.12", "378", "1.235e5"]);
        assert_eq!(figure(None), "-");
    }
}
