//! Tables for the terminal. They need no colour: the best value of a column has a star.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use trainyard_sched::metrics::{ObjectivesSummary, Summary};

use super::words::{count, duration, duration_or_dash};

/// How a column is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A column of the comparison.
pub(crate) struct Column {
    /// Its header.
    pub(crate) title: &'static str,
    /// What it means.
    pub(crate) meaning: &'static str,
    /// The number that is compared; smaller is better. `None` where there is no better or no number.
    pub(crate) order: fn(&Summary) -> Option<f64>,
    /// The number as it is shown.
    pub(crate) show: fn(&Summary) -> String,
}

/// The columns of the comparison, the policy aside.
const COLUMNS: [Column; 11] = [
    Column {
        title: "JCT mean",
        meaning: "mean time from submission to end",
        order: |s| s.avg_jct_s,
        show: |s| duration_or_dash(s.avg_jct_s),
    },
    Column {
        title: "JCT p50",
        meaning: "half of the jobs took no longer",
        order: |s| s.p50_jct_s,
        show: |s| duration_or_dash(s.p50_jct_s),
    },
    Column {
        title: "JCT p99",
        meaning: "99 % of the jobs took no longer",
        order: |s| s.p99_jct_s,
        show: |s| duration_or_dash(s.p99_jct_s),
    },
    Column {
        title: "wait mean",
        meaning: "mean time without GPUs",
        order: |s| s.avg_wait_s,
        show: |s| duration_or_dash(s.avg_wait_s),
    },
    Column {
        title: "wait p95",
        meaning: "95 % of the jobs waited no longer",
        order: |s| s.p95_wait_s,
        show: |s| duration_or_dash(s.p95_wait_s),
    },
    Column {
        title: "slowdown",
        meaning: "mean of completion time over time spent training",
        order: |s| s.avg_slowdown,
        show: |s| s.avg_slowdown.map_or_else(|| "-".to_owned(), |x| format!("{x:.2}")),
    },
    Column {
        title: "makespan",
        meaning: "from the first arrival to the last end",
        // A run that was cut off has the makespan of its horizon, which is nobody's merit.
        order: |s| (s.censored == 0).then_some(s.makespan_s),
        show: |s| duration(s.makespan_s),
    },
    Column {
        title: "GPU use %",
        meaning: "GPU time held over GPU time there was",
        order: |s| Some(-s.gpu_utilization),
        show: |s| format!("{:.1}", s.gpu_utilization * 100.0),
    },
    Column {
        title: "lost GPU h",
        meaning: "GPU-hours held without lasting progress",
        order: |s| Some(s.gpu_seconds_lost),
        show: |s| format!("{:.1}", s.gpu_seconds_lost / 3600.0),
    },
    Column {
        title: "preempted",
        meaning: "how often a job was stopped against its will",
        order: |s| Some(s.preemptions as f64),
        show: |s| count(s.preemptions),
    },
    Column {
        title: "unfinished",
        meaning: "jobs that had not ended when the run did, or never could",
        order: |s| Some((s.censored + s.impossible) as f64),
        show: |s| count(s.censored + s.impossible),
    },
];

/// What is shown beside them where jobs reported losses.
const QUALITY_COLUMNS: [Column; 2] = [
    Column {
        title: "to 90 %",
        meaning: "mean time from submission until 90 % of the loss reduction was done",
        order: |s| s.quality?.avg_to_90_s,
        show: |s| duration_or_dash(s.quality.and_then(|quality| quality.avg_to_90_s)),
    },
    Column {
        title: "mean loss",
        meaning: "normalised loss of the jobs that were there, over time: 1 is a job's first, 0 its lowest",
        order: |s| s.quality?.avg_loss,
        show: |s| {
            let loss = s.quality.and_then(|quality| quality.avg_loss);
            loss.map_or_else(|| "-".to_owned(), |loss| format!("{loss:.3}"))
        },
    },
];

/// What is shown beside them where jobs have such aims, or are graphs of tasks.
const OBJECTIVE_COLUMNS: [Column; 6] = [
    Column {
        title: "in time %",
        meaning: "jobs that ended by their deadline, of those that have one",
        order: |s| Some(-s.objectives?.deadline_ratio?),
        show: |s| percent_or_dash(s, |o| o.deadline_ratio),
    },
    Column {
        title: "urgent in time %",
        meaning: "the same of jobs whose urgency is above 8",
        order: |s| Some(-s.objectives?.urgent_deadline_ratio?),
        show: |s| percent_or_dash(s, |o| o.urgent_deadline_ratio),
    },
    Column {
        title: "accuracy",
        meaning: "mean of the best accuracy that jobs reported by their deadline",
        order: |s| Some(-s.objectives?.avg_accuracy?),
        show: |s| {
            let accuracy = s.objectives.and_then(|objectives| objectives.avg_accuracy);
            accuracy.map_or_else(|| "-".to_owned(), |accuracy| format!("{accuracy:.3}"))
        },
    },
    Column {
        title: "accurate %",
        meaning: "jobs that reached the accuracy they need by their deadline, of those that need one",
        order: |s| Some(-s.objectives?.accuracy_ratio?),
        show: |s| percent_or_dash(s, |o| o.accuracy_ratio),
    },
    Column {
        title: "traffic GB",
        meaning: "what tasks of one job sent from node to node, and what was carried when they moved",
        order: |s| Some(s.objectives?.traffic_bytes),
        show: |s| s.objectives.map_or_else(|| "-".to_owned(), |o| format!("{:.1}", o.traffic_bytes / 1e9)),
    },
    Column {
        title: "overloads",
        meaning: "how often more than 90 % of a node or device came to be used",
        order: |s| Some(s.objectives?.overloads as f64),
        show: |s| s.objectives.map_or_else(|| "-".to_owned(), |o| count(o.overloads)),
    },
];
/// The last of these say something only where they are not nothing everywhere: jobs with a deadline need not have tasks.
const COUNTED_OBJECTIVES: usize = 4;

fn percent_or_dash(summary: &Summary, of: fn(&ObjectivesSummary) -> Option<f64>) -> String {
    let part = summary.objectives.as_ref().and_then(of);
    part.map_or_else(|| "-".to_owned(), |part| format!("{:.1}", part * 100.0))
}

/// What is shown beside them where jobs were cut short by their stop rules.
const EARLY_COLUMNS: [Column; 2] = [
    Column {
        title: "cut short",
        meaning: "jobs that ended before their own end because they had had enough",
        order: |_| None,
        show: |s| count(s.early.map_or(0, |early| early.jobs)),
    },
    Column {
        title: "saved GPU h",
        meaning: "GPU-hours that these would still have taken, as far as could be foretold",
        order: |_| None,
        show: |s| format!("{:.1}", s.early.map_or(0.0, |early| early.gpu_hours_saved)),
    },
];

/// The columns that have something to say of these runs.
pub(crate) fn columns(all: &[Summary]) -> impl Iterator<Item = &'static Column> + Clone {
    let learnt = if all.iter().any(|s| s.quality.is_some()) { &QUALITY_COLUMNS[..] } else { &[] };
    let early = if all.iter().any(|s| s.early.is_some()) { &EARLY_COLUMNS[..] } else { &[] };
    let says = |(i, column): (usize, &'static Column)| {
        let mut values = all.iter().filter_map(column.order);
        let says = if i < COUNTED_OBJECTIVES { values.next().is_some() } else { values.any(|x| x > 0.0) };
        says.then_some(column)
    };
    let aims: Vec<&'static Column> = OBJECTIVE_COLUMNS.iter().enumerate().filter_map(says).collect();
    COLUMNS.iter().chain(learnt).chain(early).chain(aims)
}

/// The rows with the best value of a column, unless all are equal to what is shown.
pub(crate) fn best_rows(column: &Column, all: &[Summary]) -> Vec<bool> {
    let best = all.iter().filter_map(column.order).min_by(f64::total_cmp);
    // Equal to the eye is equal: a star on one of two like numbers would puzzle.
    let shown = all.iter().find(|s| (column.order)(s) == best).map(|s| (column.show)(s));
    let is_best: Vec<bool> = all.iter().map(|s| best.is_some() && Some((column.show)(s)) == shown).collect();
    if is_best.iter().all(|best| *best) { vec![false; all.len()] } else { is_best }
}

/// One row for each policy.
pub(crate) fn comparison_table(all: &[Summary]) -> String {
    let mut headers = vec![("policy", Align::Left)];
    headers.extend(columns(all).map(|column| (column.title, Align::Right)));
    let best: Vec<Vec<bool>> = columns(all).map(|column| best_rows(column, all)).collect();
    let row = |(i, summary): (usize, &Summary)| {
        let cell = |(c, column): (usize, &Column)| {
            // The space keeps the digits of a column in line.
            format!("{}{}", (column.show)(summary), if best[c][i] { "*" } else { " " })
        };
        let unstable = if summary.unstable { " (unstable)" } else { "" };
        let mut cells = vec![format!("{}{unstable}", summary.policy)];
        cells.extend(columns(all).enumerate().map(cell));
        cells
    };
    let table = plain_table(&headers, all.iter().enumerate().map(row).collect());
    let any = best.iter().flatten().any(|best| *best);
    if any { format!("{table}\n* best of the column") } else { table }
}

/// The numbers of one run, one a line.
pub(crate) fn summary_table(summary: &Summary) -> String {
    let mut rows = vec![
        vec!["policy".to_owned(), summary.policy.clone()],
        vec!["jobs".to_owned(), count(summary.jobs)],
        vec!["completed".to_owned(), count(summary.completed)],
        vec!["  of them failed".to_owned(), count(summary.failed)],
        vec!["  of them killed".to_owned(), count(summary.killed)],
        vec!["impossible".to_owned(), count(summary.impossible)],
        vec!["not ended".to_owned(), count(summary.censored)],
    ];
    let shown = columns(std::slice::from_ref(summary)).filter(|column| column.title != "unfinished");
    rows.extend(shown.map(|column| vec![column.title.to_owned(), (column.show)(summary)]));
    rows.push(vec!["migrations".to_owned(), count(summary.migrations)]);
    rows.push(vec!["decisions".to_owned(), count(summary.decisions)]);
    let micros = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |x| format!("{x:.1}"));
    rows.push(vec!["decision us p50".to_owned(), micros(summary.decide_us_p50)]);
    rows.push(vec!["decision us p99".to_owned(), micros(summary.decide_us_p99)]);
    let table = plain_table(&[("metric", Align::Left), ("value", Align::Right)], rows);
    let note = "The queue kept growing, so means and percentiles of jobs would mean nothing.";
    if summary.unstable { format!("{table}\n{note}") } else { table }
}

/// A table without lines between rows.
pub(crate) fn plain_table(headers: &[(&str, Align)], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('-').junction('-')));
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headers.iter().map(|(title, _)| *title));
    table.add_rows(rows);
    for (column, (_, align)) in table.column_iter_mut().zip(headers) {
        column.set_cell_alignment(match align {
            Align::Left => CellAlignment::Left,
            Align::Right => CellAlignment::Right,
        });
    }
    let lines = table.to_string();
    lines.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}
