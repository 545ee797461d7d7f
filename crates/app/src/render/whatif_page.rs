//! The page of a what-if: what was read and assumed, what changes, how certain that is, and the curve of the search.

use maud::{Markup, html};

use super::axis::{Axis, Measure};
use super::figure::{difference, hours, mean, mean_difference};
use super::report::{
    Cell, Column, Curve, Figure, Numbers, Page, Range, RangeRow, Row, import_report, legend, lines, ranges,
    simulated,
};
use super::whatif::{SHOWN, metric, replicates};
use crate::config::{Inputs, Unit};
use crate::experiment::whatif::{Answer, Kind, Scenario, Search};
use crate::statistics::Estimate;

/// The numbers whose differences are drawn.
const DRAWN: [&str; 3] = ["avg_jct_s", "avg_wait_s", "p95_wait_s"];

/// The whole page.
pub(crate) fn whatif_page(inputs: &Inputs, answer: &Answer) -> String {
    let changes =
        answer.scenarios.iter().filter(|scenario| !matches!(scenario.kind, Kind::Today | Kind::Together));
    let names: Vec<&str> = changes.map(|scenario| scenario.name.as_str()).collect();
    let title = match names.as_slice() {
        [] => "What if: how many nodes are enough".to_owned(),
        names => format!("What if: {}", names.join(", ")),
    };
    let mut page = Page::new(title, in_short(answer))
        .with("read", "What was read and assumed", read(inputs, answer))
        .with(
            "means",
            "What it means",
            html! { ul { @for sentence in &answer.sentences { li { (sentence) } } } },
        )
        .with("numbers", "Numbers", numbers(answer))
        .with("certainty", "How certain that is", certainty(answer));
    if !answer.searches.is_empty() {
        page = page.with("search", "How many nodes are enough", searches(&answer.searches));
    }
    page.with("teams", "Waits by tenant", teams(answer))
        .note("JCT is job completion time, from submission to end. Means and percentiles are over jobs that came to an end.")
        .into_html()
}

/// The sentence for a reader in a hurry: what a search found, or what a policy gives of machines, or the first change.
fn in_short(answer: &Answer) -> String {
    let of = |part: &str| answer.sentences.iter().find(|sentence| sentence.contains(part));
    let searched = answer.sentences.last().filter(|_| !answer.searches.is_empty());
    let found =
        searched.or_else(|| of(" % (")).or_else(|| of("of the gain in mean")).or(answer.sentences.first());
    found.cloned().unwrap_or_default()
}

fn read(inputs: &Inputs, answer: &Answer) -> Markup {
    html! {
        (import_report(inputs.report()))
        h3 { "What was assumed" }
        ul { @for what in &answer.assumptions { li { (what) } } }
        p { "Replicates: " (replicates(answer)) }
        h3 { "What is simulated today" }
        (simulated(inputs))
    }
}

fn cell(unit: Unit, estimate: &Estimate) -> Cell {
    Cell { text: mean(unit, estimate), value: estimate.mean, best: false }
}

fn column(title: impl Into<String>, meaning: impl Into<String>) -> Column {
    Column { title: title.into(), meaning: meaning.into() }
}

fn numbers(answer: &Answer) -> Markup {
    let mut columns = vec![column("GPUs", "GPUs of the cluster")];
    columns.extend(SHOWN.into_iter().map(|key| column(metric(key).title, key)));
    columns.push(column("GPU h waited", "GPU-hours that jobs waited for, together"));
    columns.push(column("gained", "how many GPU-hours less than today"));
    let priced = answer.scenarios.iter().any(|scenario| scenario.cost.is_some());
    if priced {
        columns.push(column("cost", "for the time in which jobs arrive"));
        columns.push(column("cost of an hour", "for each hour of waiting that is removed"));
    }
    let row = |(i, scenario): (usize, &Scenario)| {
        let mut cells =
            vec![Cell { text: scenario.gpus.to_string(), value: Some(scenario.gpus as f64), best: false }];
        cells.extend(SHOWN.into_iter().map(|key| cell(metric(key).unit, &scenario.figure(key).value)));
        let waited = scenario.waited_gpu_hours;
        let number = |value: Option<f64>, text: fn(f64) -> String| Cell {
            text: value.map_or_else(|| "-".to_owned(), text),
            value,
            best: false,
        };
        cells.push(number(waited.value.mean, hours));
        cells.push(number(waited.difference.and_then(|by| by.mean).map(|by| -by), hours));
        if priced {
            let cost = scenario.cost;
            let amount: fn(f64) -> String = |amount| format!("{amount:.2}");
            cells.push(number(cost.map(|cost| cost.in_all), amount));
            cells.push(number(cost.and_then(|cost| cost.per_hour_of_waiting?.mean), amount));
        }
        let unstable = scenario.figure("avg_jct_s").value.absent > 0;
        Row { name: scenario.name.clone(), series: Some(i), tag: unstable.then_some("unstable"), cells }
    };
    let rows = answer.scenarios.iter().enumerate().map(row).collect();
    Numbers {
        caption: "Today and each change, means over the replicates".to_owned(),
        of: "what",
        columns,
        rows,
    }
    .draw()
}

/// Differences from today as ranges.
fn certainty(answer: &Answer) -> Markup {
    let changed: Vec<&Scenario> =
        answer.scenarios.iter().filter(|scenario| scenario.kind != Kind::Today).collect();
    let range = |(series, key): (usize, &str), scenario: &Scenario| {
        let by = scenario.figure(key).difference.unwrap_or_default();
        let values = by.mean.map(|mean| match by.interval_95 {
            Some(interval) => [interval.low, mean, interval.high],
            None => [mean; 3],
        });
        Range { series, name: metric(key).title.to_owned(), values }
    };
    let row = |scenario: &&Scenario| RangeRow {
        name: scenario.name.clone(),
        note: String::new(),
        ranges: DRAWN.into_iter().enumerate().map(|drawn| range(drawn, scenario)).collect(),
    };
    let rows: Vec<RangeRow> = changed.iter().map(row).collect();
    let told = |scenario: &&Scenario| {
        let by = scenario.figure("avg_jct_s").difference.unwrap_or_default();
        format!("{} {}", scenario.name, mean_difference(Unit::Seconds, &by))
    };
    let told: Vec<String> = changed.iter().map(told).collect();
    let figure = Figure {
        title: "Differences from today",
        reading: "The mark is the mean over the replicates; it lies on the line with a certainty of 95 %. Left of zero is sooner.",
        alternative: format!("Differences of the mean completion time from today. {}.", told.join("; ")),
    };
    if rows.is_empty() {
        return html! { p.note { "Only today was simulated, and the search." } };
    }
    difference_ranges(&figure, Unit::Seconds, &rows)
}

/// A chart of differences of one unit.
pub(super) fn difference_ranges(figure: &Figure<'_>, unit: Unit, rows: &[RangeRow]) -> Markup {
    let values = || rows.iter().flat_map(|row| &row.ranges).filter_map(|range| range.values).flatten();
    let (lowest, highest) = (values().fold(0.0, f64::min), values().fold(0.0, f64::max));
    let measure = match unit {
        Unit::Seconds => Measure::Length,
        Unit::Part => Measure::Part,
        _ => Measure::Count,
    };
    let axis = Axis::differences(measure, lowest, highest, "difference");
    ranges(figure, &axis, rows, ["95 % from", "mean", "95 % to"], |value| difference(unit, value))
}

/// The curves that were tried, one chart for each bounded number.
fn searches(all: &[Search]) -> Markup {
    let names: Vec<String> = all.iter().map(|search| search.policy.clone()).collect();
    let keys: Vec<&'static str> = all
        .first()
        .and_then(|s| s.tried.first())
        .map_or_else(Vec::new, |tried| tried.metrics.keys().copied().collect());
    html! {
        @if all.len() > 1 { (legend(&names)) }
        div.charts { @for key in keys { (curve(all, key)) } }
        @for search in all { (tried(search)) }
    }
}

fn curve(all: &[Search], key: &'static str) -> Markup {
    let points: Vec<Vec<(f64, f64)>> = all
        .iter()
        .map(|s| s.tried.iter().filter_map(|t| Some((f64::from(t.nodes), t.metrics[key].mean?))).collect())
        .collect();
    let most = |of: fn(&(f64, f64)) -> f64| points.iter().flatten().map(of).fold(0.0, f64::max);
    let nodes = Axis::counts(most(|point| point.0), "nodes more");
    let metric = metric(key);
    let value = match metric.unit {
        Unit::Seconds => Axis::time(most(|point| point.1), metric.title),
        Unit::Part => Axis::parts(most(|point| point.1), metric.title),
        _ => Axis::counts(most(|point| point.1), metric.title),
    };
    let found = |search: &Search| match search.nodes {
        Some(nodes) => format!("{}: {nodes} nodes", search.policy),
        None => format!("{}: not up to {} nodes", search.policy, search.looked_up_to),
    };
    let title = format!("{} by number of added nodes", metric.title);
    let figure = Figure {
        title: &title,
        reading: "What was tried; between the numbers nothing was simulated.",
        alternative: format!("{title}. {}.", all.iter().map(found).collect::<Vec<_>>().join("; ")),
    };
    let curves: Vec<Curve<'_>> = all
        .iter()
        .zip(&points)
        .enumerate()
        .map(|(series, (search, points))| Curve { name: &search.policy, series, points, steps: false })
        .collect();
    lines(&figure, &nodes, &value, &curves)
}

/// The numbers of a search.
fn tried(search: &Search) -> Markup {
    let keys: Vec<&'static str> =
        search.tried.first().map_or_else(Vec::new, |tried| tried.metrics.keys().copied().collect());
    let mut columns = vec![column("GPUs more", "GPUs that were added")];
    columns.extend(keys.iter().map(|key| column(metric(key).title, *key)));
    columns.push(column("enough", "whether all bounds are kept"));
    let row = |tried: &crate::experiment::whatif::Attempt| {
        let mut cells =
            vec![Cell { text: tried.gpus.to_string(), value: Some(f64::from(tried.gpus)), best: false }];
        cells.extend(keys.iter().map(|key| cell(metric(key).unit, &tried.metrics[key])));
        let text = if tried.is_enough { "yes" } else { "no" }.to_owned();
        cells.push(Cell { text, value: None, best: Some(tried.nodes) == search.nodes });
        Row { name: tried.nodes.to_string(), series: None, tag: None, cells }
    };
    let caption = format!("{} under {}, nodes of {}", search.all_bounds(), search.policy, search.node);
    let rows = search.tried.iter().map(row).collect();
    html! { details.data { summary { (caption.clone()) } (Numbers { caption, of: "nodes more", columns, rows }.draw()) } }
}

/// The waits of each tenant, today and then.
fn teams(answer: &Answer) -> Markup {
    let Some(today) = answer.scenarios.first().filter(|today| !today.teams.is_empty()) else {
        return html! { p.note { "No job was completed." } };
    };
    let mut columns = Vec::new();
    for scenario in &answer.scenarios {
        columns.push(column(format!("p50, {}", scenario.name), "half of the tenant's jobs waited no longer"));
        columns.push(column(format!("p95, {}", scenario.name), "95 % of the tenant's jobs waited no longer"));
    }
    let row = |name: &String| {
        let of = |scenario: &Scenario| {
            let team = scenario.teams.iter().find(|team| team.name == *name);
            let figures = team.map(|team| (team.p50_wait_s.value, team.p95_wait_s.value)).unwrap_or_default();
            [cell(Unit::Seconds, &figures.0), cell(Unit::Seconds, &figures.1)]
        };
        Row {
            name: name.clone(),
            series: None,
            tag: None,
            cells: answer.scenarios.iter().flat_map(of).collect(),
        }
    };
    let rows = today.teams.iter().map(|team| row(&team.name)).collect();
    Numbers {
        caption: "How long jobs waited, means over the replicates".to_owned(),
        of: "tenant",
        columns,
        rows,
    }
    .draw()
}
