//! The page of a run or of a comparison: which blocks it has, and what each of them shows.

use maud::{Markup, html};
use trainyard_sched::metrics::Summary;

use super::{
    Cell, Column, Curve, Figure, Numbers, Page, Row, import_report, legend, lines, one_at_a_time, reasons,
    simulated, waits_by_size,
};
use crate::config::Inputs;
use crate::experiment::Trial;
use crate::render::axis::Axis;
use crate::render::words::{count, duration_or_dash, percent};
use crate::render::{best_rows, columns, in_short};

/// The whole page.
pub(crate) fn report_page(inputs: &Inputs, trials: &[Trial]) -> String {
    let summaries: Vec<Summary> = trials.iter().map(|trial| trial.summary.clone()).collect();
    let title = match trials {
        [one] => format!("One run of {}", one.summary.policy),
        many => format!("{} policies, one workload", many.len()),
    };
    Page::new(title, in_short(&summaries, &inputs.workload))
        .with("read", "What was read and assumed", read(inputs))
        .with("numbers", "Numbers", numbers(&summaries))
        .with("waiting", "Completion and waiting", waiting(trials))
        .with("cluster", "The cluster over time", over_time(inputs, trials))
        .with("closer", if trials.len() > 1 { "One policy at a time" } else { "A closer look" }, one(inputs, trials))
        .note(
            "JCT is job completion time, from submission to end. Means and percentiles are over jobs that came to an end.",
        )
        .into_html()
}

/// What was read, and what was assumed.
fn read(inputs: &Inputs) -> Markup {
    html! {
        @for report in inputs.reports().filter(|report| report.rows > 0) { (import_report(report)) }
        h3 { "What was simulated" }
        (simulated(inputs))
    }
}

/// The numbers: side by side, or one below the other for a single run.
fn numbers(all: &[Summary]) -> Markup {
    let table = Numbers {
        caption: "What each policy amounts to".to_owned(),
        of: "policy",
        columns: columns(all)
            .map(|column| Column { title: column.title.to_owned(), meaning: column.meaning.to_owned() })
            .collect(),
        rows: rows(all),
    };
    html! {
        @if let [one] = all { (tiles(one)) } @else { (table.draw()) }
        @if all.iter().any(|s| s.unstable) {
            p.note {
                "Unstable: the queue kept growing until the run was cut off, so means and percentiles of jobs would \
                 depend on when one stops looking."
            }
        }
        details.data {
            summary { "Jobs and decisions" }
            (details(all).draw())
            p.note {
                "Fairness is the mean of completion time over the time on a fair share; below 1 is better than fair. The \
                 last three columns were measured on the machine that simulated, and differ from run to run."
            }
        }
    }
}

/// The numbers of a single run, each with what it means.
fn tiles(one: &Summary) -> Markup {
    html! {
        dl.tiles {
            @for column in columns(std::slice::from_ref(one)) {
                div { dt { (column.title) } dd { ((column.show)(one)) span.meaning { (column.meaning) } } }
            }
        }
    }
}

fn rows(all: &[Summary]) -> Vec<Row> {
    let best: Vec<Vec<bool>> = columns(all).map(|column| best_rows(column, all)).collect();
    let row = |(i, summary): (usize, &Summary)| Row {
        name: summary.policy.clone(),
        series: Some(i),
        tag: summary.unstable.then_some("unstable"),
        cells: columns(all)
            .zip(&best)
            .map(|(column, best)| Cell {
                text: (column.show)(summary),
                value: (column.order)(summary),
                best: best[i],
            })
            .collect(),
    };
    all.iter().enumerate().map(row).collect()
}

/// What is seldom asked for.
fn details(all: &[Summary]) -> Numbers {
    type Seldom = (&'static str, &'static str, fn(&Summary) -> (String, Option<f64>));
    fn whole(number: u64) -> (String, Option<f64>) {
        (count(number), Some(number as f64))
    }
    fn decimal(value: Option<f64>, digits: usize) -> (String, Option<f64>) {
        (value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}")), value)
    }
    let seldom: [Seldom; 11] = [
        ("completed", "jobs that began and came to an end", |s| whole(s.completed)),
        ("of them failed", "ended in an error", |s| whole(s.failed)),
        ("of them killed", "killed by their owners", |s| whole(s.killed)),
        ("impossible", "could not run even on the idle cluster", |s| whole(s.impossible)),
        ("not ended", "had not ended when the run did", |s| whole(s.censored)),
        ("migrations", "went on somewhere else or with another size", |s| whole(s.migrations)),
        ("fairness", "completion time over that on a fair share", |s| decimal(s.avg_ftf, 2)),
        ("decisions", "decisions made", |s| whole(s.decisions)),
        ("µs p50", "median time of a decision", |s| decimal(s.decide_us_p50, 1)),
        ("µs p99", "99th percentile of the same", |s| decimal(s.decide_us_p99, 1)),
        ("wall s", "wall time of the run", |s| decimal(s.wall_s, 2)),
    ];
    let cells = |summary: &Summary| {
        let cell = |(_, _, of): &Seldom| {
            let (text, value) = of(summary);
            Cell { text, value, best: false }
        };
        seldom.iter().map(cell).collect()
    };
    Numbers {
        caption: "Jobs and decisions".to_owned(),
        of: "policy",
        columns: seldom
            .iter()
            .map(|(title, meaning, _)| Column { title: (*title).to_owned(), meaning: (*meaning).to_owned() })
            .collect(),
        rows: all
            .iter()
            .enumerate()
            .map(|(i, s)| Row { name: s.policy.clone(), series: Some(i), tag: None, cells: cells(s) })
            .collect(),
    }
}

/// The points of one of a trial's curves.
type Points = fn(&Trial) -> &[(f64, f64)];

/// A line chart of all trials.
fn figure(
    trials: &[Trial],
    (title, reading): (&str, &str),
    (x, y): (&Axis, &Axis),
    points: Points,
    words: fn(&Trial) -> String,
) -> Markup {
    let steps = x.is_logarithmic();
    let told: Vec<String> = trials.iter().map(|t| format!("{} {}", t.summary.policy, words(t))).collect();
    let alternative = format!("{title}. {}.", told.join("; "));
    let curve = |(series, trial)| Curve { name: Trial::name(trial), series, points: points(trial), steps };
    let curves: Vec<Curve<'_>> = trials.iter().enumerate().map(curve).collect();
    lines(&Figure { title, reading, alternative }, x, y, &curves)
}

/// The largest of something over the points of all trials.
fn most(trials: &[Trial], points: Points, of: fn(&(f64, f64)) -> f64) -> f64 {
    trials.iter().flat_map(points).map(of).fold(0.0, f64::max)
}

fn names(trials: &[Trial]) -> Markup {
    let names: Vec<String> = trials.iter().map(|trial| trial.summary.policy.clone()).collect();
    html! { @if trials.len() > 1 { (legend(&names)) } }
}

fn waiting(trials: &[Trial]) -> Markup {
    let part = Axis::parts(1.0, "of the jobs");
    let lengths = |points: Points| {
        let shortest = trials.iter().flat_map(points).map(|point| point.0).fold(f64::INFINITY, f64::min);
        Axis::lengths(shortest, most(trials, points, |point| point.0), "length of time, logarithmic")
    };
    html! {
        (names(trials))
        div.charts {
            (figure(trials, ("Time to completion", "The part of the jobs that were done within this time of their \
                submission; further left is better."), (&lengths(|t| &t.jct), &part), |t| &t.jct,
                |t| format!("mean {}, 99 % within {}", duration_or_dash(t.summary.avg_jct_s), duration_or_dash(t.summary.p99_jct_s))))
            (figure(trials, ("Waiting", "The part of the jobs that waited no longer than this; higher is better."),
                (&lengths(|t| &t.wait), &part), |t| &t.wait,
                |t| format!("mean {}, 95 % within {}", duration_or_dash(t.summary.avg_wait_s), duration_or_dash(t.summary.p95_wait_s))))
        }
        (waits_by_size(trials))
        @if trials.iter().any(|trial| trial.closer.is_some()) { (reasons(trials)) }
    }
}

/// When the last curve ends.
fn end_s(trials: &[Trial]) -> f64 {
    most(trials, |t| &t.used_gpus, |point| point.0).max(most(trials, |t| &t.waiting, |point| point.0))
}

fn over_time(inputs: &Inputs, trials: &[Trial]) -> Markup {
    let time = Axis::time(end_s(trials), "since the start of the run");
    let gpus = Axis::counts(inputs.cluster_part.gpus as f64, "GPUs");
    let queue = Axis::counts(most(trials, |t| &t.waiting, |point| point.1), "jobs");
    let stranded: Points = |t| t.closer.as_ref().map_or(&[], |closer| &closer.stranded);
    let trained: Points = |t| t.closer.as_ref().map_or(&[], |closer| &closer.trained);
    let stranded_axis = Axis::counts(most(trials, stranded, |point| point.1), "GPUs");
    html! {
        (names(trials))
        div.charts {
            (figure(trials, ("GPUs in use", "How many GPUs were held by jobs."), (&time, &gpus), |t| &t.used_gpus,
                |t| format!("{:.0} % of the GPU time", t.summary.gpu_utilization * 100.0)))
            (figure(trials, ("Queue", "How many jobs had no GPUs and wanted some."), (&time, &queue), |t| &t.waiting,
                |t| format!("{} not ended", count(t.summary.censored + t.summary.impossible))))
            @if trials.iter().any(|trial| trial.closer.is_some()) {
                (figure(trials, ("Stranded GPUs", "GPUs that were free and of no use to a job that wants a whole node, or eight \
                    GPUs of a larger one, because others on that node were taken."), (&time, &stranded_axis), stranded,
                    |t| t.closer.as_ref().and_then(|closer| closer.stranded_part)
                        .map_or_else(|| "none free".to_owned(), |part| format!("{} of the free GPU time", percent(part)))))
            }
            @if trials.iter().any(|trial| !trained(trial).is_empty()) {
                (figure(trials, ("Cluster resource utilisation (CRU)", "The part of the nodes that train. Loading, saving, bringing \
                    copies together and resting are no training; shown because jobs had copies."),
                    (&time, &Axis::parts(1.0, "of the nodes")), trained, cru))
            }
        }
    }
}

/// The same of a whole run in words.
fn cru(trial: &Trial) -> String {
    let part = trial.closer.as_ref().and_then(|closer| closer.trained_part);
    part.map_or_else(
        || "no job had copies".to_owned(),
        |(trained, with_pauses)| format!("CRU {}, {} with pauses", percent(trained), percent(with_pauses)),
    )
}

fn one(inputs: &Inputs, trials: &[Trial]) -> Markup {
    if trials.iter().all(|trial| trial.closer.is_none()) {
        return html! { p.note { "Nothing more was recorded." } };
    }
    one_at_a_time(inputs, trials, end_s(trials))
}
