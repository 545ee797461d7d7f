//! The page for people: one file that needs no network, readable light and dark, on a phone and on paper.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use trainyard_sched::metrics::Summary;
use trainyard_sim::physics::Physics;
use trainyard_sim::workload::{Done, Finding};

use super::chart::{Axis, Chart, Curve, SERIES_COLOURS, draw};
use super::words::{count, duration, duration_or_dash};
use super::{COLUMNS, best_rows, sentence};
use crate::config::Inputs;
use crate::experiment::Trial;

const STYLE: &str = include_str!("report.css");

/// The whole page.
pub(crate) fn report_page(inputs: &Inputs, trials: &[Trial]) -> String {
    let summaries: Vec<Summary> = trials.iter().map(|trial| trial.summary.clone()).collect();
    let title = match trials {
        [one] => format!("One run of {}", one.summary.policy),
        many => format!("{} policies, one workload", many.len()),
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Trainyard: " (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    header {
                        p.brand { "Trainyard" }
                        h1 { (title) }
                        p.sentence { (sentence(&summaries)) }
                    }
                    (conditions(inputs))
                    (numbers(&summaries))
                    (charts(inputs, trials))
                    (details(&summaries))
                    footer {
                        p {
                            "JCT is job completion time, from submission to end. Means and percentiles are over jobs \
                             that came to an end. Simulated by trainyard " (env!("CARGO_PKG_VERSION")) "."
                        }
                    }
                }
            }
        }
    };
    page.into_string()
}

/// What was assumed, and what was done to the rows of the trace.
fn conditions(inputs: &Inputs) -> Markup {
    let jobs = &inputs.jobs_part;
    let world = &inputs.world_part;
    let report = inputs.report();
    html! {
        section {
            h2 { "What was simulated" }
            dl.facts {
                div { dt { "Jobs" } dd { (count(jobs.jobs as u64)) " from " (jobs.source) } }
                @if let Some(trace) = &jobs.trace {
                    div { dt { "Trace" } dd { code { (trace) } } }
                }
                @if let Some(hash) = &jobs.sha256_16 {
                    div { dt { "SHA-256" } dd { code { (hash) "…" } } }
                }
                div {
                    dt { "Cluster" }
                    dd { (count(inputs.cluster_part.gpus)) " GPUs on " (count(inputs.cluster_part.nodes as u64))
                        " nodes (" code { (inputs.cluster_part.words) } ")" }
                }
                div { dt { "Jobs declare their length" } dd { (jobs.declared) } }
                @if world.physics != Physics::default() {
                    div { dt { "Speed" } dd { "changed by [physics] of the cluster file" } }
                }
                div {
                    dt { "Moving a job costs" }
                    dd { (duration(world.moving.save_s)) " to stop, " (duration(world.moving.load_s)) " to start again" }
                }
                div { dt { "Node failures" } dd { (world.faults)
                    @if world.failures > 0 { ", " (count(world.failures as u64)) " in all" } } }
                div { dt { "Cut off after" } dd { (duration(world.horizon_s)) } }
                div { dt { "Seed" } dd { (inputs.seed.0) } }
            }
            h3 { "What was read" }
            p { (count(report.rows)) " rows, " (count(report.kept)) " jobs kept." }
            @if !report.findings.is_empty() {
                ul.findings { @for finding in &report.findings { (note(finding)) } }
            }
        }
    }
}

fn note(finding: &Finding) -> Markup {
    let done = match finding.done {
        Done::Dropped => "Left out",
        Done::Repaired => "Repaired",
        Done::Assumed => "Assumed",
        Done::Noted => "Noted",
    };
    html! {
        li {
            span.tag { (done) } " " (finding.what)
            @if finding.count > 1 { " (" (count(finding.count)) " times)" }
            @if let Some(example) = finding.examples.first() { ", such as " code { (example) } }
        }
    }
}

/// The table of the comparison.
fn numbers(all: &[Summary]) -> Markup {
    let best: Vec<Vec<bool>> = COLUMNS.iter().map(|column| best_rows(column, all)).collect();
    html! {
        section {
            h2 { "Numbers" }
            div.scroll {
                table {
                    thead { tr {
                        th scope="col" { "policy" }
                        @for column in &COLUMNS { th scope="col" title=(column.meaning) { (column.title) } }
                    } }
                    tbody {
                        @for (i, summary) in all.iter().enumerate() {
                            tr {
                                th scope="row" {
                                    (swatch(i)) (summary.policy)
                                    @if summary.unstable { " " span.tag { "unstable" } }
                                }
                                @for (column, best) in COLUMNS.iter().zip(&best) {
                                    @if best[i] {
                                        td.best { ((column.show)(summary)) span.star title="best" { "★" } }
                                    } @else {
                                        td { ((column.show)(summary)) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            @if all.len() > 1 { p.note { "★ best of the column." } }
            @if all.iter().any(|s| s.unstable) {
                p.note {
                    "Unstable: the queue kept growing until the run was cut off, so means and percentiles of jobs would \
                     depend on when one stops looking."
                }
            }
        }
    }
}

/// The line that stands for a policy, as in the charts.
fn swatch(series: usize) -> Markup {
    let dash = match series / SERIES_COLOURS {
        0 => "none",
        1 => "5 3",
        _ => "2 3",
    };
    let stroke = format!("var(--series-{})", series % SERIES_COLOURS);
    html! {
        svg.swatch viewBox="0 0 18 8" aria-hidden="true" {
            line x1="0" y1="4" x2="18" y2="4" stroke=(stroke) stroke-width="3" stroke-dasharray=(dash) {}
        }
    }
}

/// The points of one of a trial's curves.
type Points = fn(&Trial) -> &[(f64, f64)];

fn charts(inputs: &Inputs, trials: &[Trial]) -> Markup {
    let figure =
        |title: &str, x: Axis, y_label: &'static str, points: Points, words: fn(&Summary) -> String| {
            let told: Vec<String> =
                trials.iter().map(|t| format!("{} {}", t.summary.policy, words(&t.summary))).collect();
            let alternative = format!("{title}. {}.", told.join("; "));
            let curve = |(series, trial)| Curve { points: points(trial), series };
            let chart =
                Chart { alternative, y_label, x, curves: trials.iter().enumerate().map(curve).collect() };
            html! { figure { figcaption { (title) } div.scroll { (PreEscaped(draw(&chart))) } } }
        };
    let gpus = count(inputs.cluster_part.gpus);
    html! {
        section {
            h2 { "Charts" }
            ul.legend aria-label="Policies" {
                @for (i, trial) in trials.iter().enumerate() { li { (swatch(i)) (trial.summary.policy) } }
            }
            div.charts {
                (figure("Jobs done within this time of their submission", Axis::Length, "jobs", |t| &t.jct,
                    |s| format!("mean {}, 99 % within {}", duration_or_dash(s.avg_jct_s), duration_or_dash(s.p99_jct_s))))
                (figure("Jobs that waited no longer than this", Axis::Length, "jobs", |t| &t.wait,
                    |s| format!("mean {}, 95 % within {}", duration_or_dash(s.avg_wait_s), duration_or_dash(s.p95_wait_s))))
                (figure(&format!("GPUs in use, of {gpus}"), Axis::Time, "GPUs", |t| &t.used_gpus,
                    |s| format!("{:.0} % of the GPU time", s.gpu_utilization * 100.0)))
                (figure("Jobs waiting", Axis::Time, "jobs", |t| &t.waiting,
                    |s| format!("{} not ended", count(s.censored + s.impossible))))
            }
        }
    }
}

/// What is seldom asked for.
fn details(all: &[Summary]) -> Markup {
    html! {
        section {
            h2 { "Jobs and decisions" }
            div.scroll {
                table {
                    thead { tr {
                        th scope="col" { "policy" }
                        @for title in ["completed", "of them failed", "of them killed", "impossible", "not ended",
                            "migrations", "fairness", "decisions", "µs p50", "µs p99", "wall s"] {
                            th scope="col" { (title) }
                        }
                    } }
                    tbody { @for (i, s) in all.iter().enumerate() { tr {
                        th scope="row" { (swatch(i)) (s.policy) }
                        @for number in [s.completed, s.failed, s.killed, s.impossible, s.censored, s.migrations] {
                            td { (count(number)) }
                        }
                        td { (decimal(s.avg_ftf, 2)) }
                        td { (count(s.decisions)) }
                        td { (decimal(s.decide_us_p50, 1)) }
                        td { (decimal(s.decide_us_p99, 1)) }
                        td { (decimal(s.wall_s, 2)) }
                    } } }
                }
            }
            p.note {
                "Fairness is the mean of completion time over the time on a fair share; below 1 is better than fair. The \
                 last three columns were measured on the machine that simulated, and differ from run to run."
            }
        }
    }
}

fn decimal(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}
