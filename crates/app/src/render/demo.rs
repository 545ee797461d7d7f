//! The demonstration as people read it: a table, and a page with curves.

use maud::html;
use serde::Serialize;

use super::axis::Axis;
use super::report::{Curve, Figure, Page, legend, lines};
use super::table::{Align, plain_table};

/// What the demonstration came to.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DemoAnswer {
    /// The version of this shape.
    pub(crate) schema: &'static str,
    /// The policies that were compared, the one under test first.
    pub(crate) policies: [String; 2],
    /// Jobs of each repeat.
    pub(crate) jobs: u32,
    /// How many repeats there were.
    pub(crate) repeats: u32,
    /// Units of a twentieth of a core that the jobs shared.
    pub(crate) units: u64,
    /// How shares were kept.
    pub(crate) confinement: String,
    /// Jobs that did not end within the time, under each policy.
    pub(crate) cut: [usize; 2],
    /// Seconds until all was done, under each policy, on average.
    pub(crate) seconds: [f64; 2],
    /// The figures.
    pub(crate) rows: Vec<DemoRow>,
    /// Mean loss over time of the first repeat, under each policy.
    pub(crate) losses: [Vec<(f64, f64)>; 2],
    /// Seconds to most of the loss reduction of each job of the first repeat, under each policy, ascending.
    pub(crate) times: [Vec<f64>; 2],
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DemoRow {
    /// What is measured.
    pub(crate) what: &'static str,
    /// Under each policy, on average.
    pub(crate) values: [Option<f64>; 2],
    /// The part by which the first is less.
    pub(crate) less: Option<f64>,
    /// Where that lies with a probability of 95 %, from the repeats; with few of them the interval is too narrow.
    pub(crate) interval: Option<(f64, f64)>,
}

/// The table.
pub(crate) fn demo_text(answer: &DemoAnswer) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    let percent = |value: f64| format!("{:.0} %", value * 100.0);
    let rows = answer.rows.iter().map(|row| {
        vec![
            row.what.to_owned(),
            number(row.values[0]),
            number(row.values[1]),
            row.less.map_or_else(|| "-".to_owned(), percent),
            row.interval.map_or_else(
                || "-".to_owned(),
                |(low, high)| format!("{} to {}", percent(low), percent(high)),
            ),
        ]
    });
    let headers = [
        ("", Align::Left),
        (answer.policies[0].as_str(), Align::Right),
        (answer.policies[1].as_str(), Align::Right),
        ("less by", Align::Right),
        ("95 % interval", Align::Right),
    ];
    let table = plain_table(&headers, rows.collect());
    let cut = answer.cut[0] + answer.cut[1];
    let note = if cut > 0 {
        format!(
            "\n{cut} runs of jobs were cut short ({} and {}); a job that did not come so far is left out of a mean.",
            answer.cut[0], answer.cut[1]
        )
    } else {
        String::new()
    };
    format!(
        "{table}\n{} real training jobs on {} units of 0.05 core, {}; all done after {:.0} s and {:.0} s.{note}",
        answer.jobs,
        answer.units,
        if answer.repeats == 1 { "once".to_owned() } else { format!("{} times", answer.repeats) },
        answer.seconds[0],
        answer.seconds[1],
    )
}

/// The page.
pub(crate) fn demo_page(answer: &DemoAnswer) -> String {
    let in_short = demo_text(answer).lines().last().unwrap_or_default().to_owned();
    let names = &answer.policies;
    let longest =
        |curves: &[Vec<(f64, f64)>; 2]| curves.iter().flatten().map(|point| point.0).fold(1.0, f64::max);
    let times = [0, 1].map(|i| {
        let count = answer.times[i].len() as f64;
        answer.times[i]
            .iter()
            .enumerate()
            .map(|(n, time)| (*time, (n + 1) as f64 / count))
            .collect::<Vec<_>>()
    });
    let draw = |title: &str, reading: &str, x: &str, y: &str, curves: &[Vec<(f64, f64)>; 2], steps: bool| {
        let drawn: Vec<Curve<'_>> =
            (0..2).map(|i| Curve { name: &names[i], series: i, points: &curves[i], steps }).collect();
        let figure = Figure { title, reading, alternative: reading.to_owned() };
        let drawn = lines(&figure, &Axis::time(longest(curves), x), &Axis::parts(1.0, y), &drawn);
        html! { (legend(names)) (drawn) }
    };
    let table = html! { pre { (demo_text(answer)) } };
    let losses = draw(
        "Mean normalised loss of the jobs that are there",
        "Lower is better; 1 is a job's first loss and 0 the lowest that it reached.",
        "time",
        "loss",
        &answer.losses,
        false,
    );
    let distribution = draw(
        "Jobs that are done with 90 % of their loss reduction, by time since they came",
        "Further left is better.",
        "time since arrival",
        "part of the jobs",
        &times,
        true,
    );
    Page::new("real training under two policies", in_short)
        .with("figures", "Figures", table)
        .with("losses", "Loss over time", losses)
        .with("times", "Times to 90 %", distribution)
        .note(format!("{}. Every job is a real program; nothing is simulated.", answer.confinement))
        .into_html()
}
