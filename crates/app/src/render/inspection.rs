//! What a trace holds, in words and small tables.

use std::fmt::Write as _;

use trainyard_sim::truth::Ending;
use trainyard_sim::workload::Done;

use super::words::{count, duration};
use super::{Align, plain_table};
use crate::commands::{Counts, Inspection};

/// Tenants beyond these are only counted.
const MOST_TENANTS: usize = 12;

/// The text of an inspection.
pub(crate) fn inspection_text(seen: &Inspection) -> String {
    let report = &seen.report;
    let mut text = format!(
        "{}\nsha256 {}...: {} rows, {} jobs over {}\n",
        report.source,
        report.sha256_16,
        count(report.rows),
        count(report.kept),
        duration(seen.span_s)
    );
    if let (Some(zone), Some(first)) = (&report.zone, &report.first_arrival) {
        let _ = writeln!(text, "times are of {zone}; the first arrival is at {first}");
    }
    let Counts { dropped, repaired, assumed, noted } = seen.counts;
    let _ = writeln!(
        text,
        "{} left out, {} repaired, {} assumed, {} noted",
        count(dropped),
        count(repaired),
        count(assumed),
        count(noted)
    );
    for finding in &report.findings {
        let done = match finding.done {
            Done::Dropped => "left out",
            Done::Repaired => "repaired",
            Done::Assumed => "assumed",
            Done::Noted => "noted",
        };
        let _ = writeln!(text, "  {done}, {} times: {}", count(finding.count), finding.what);
        for example in &finding.examples {
            let _ = writeln!(text, "    {example}");
        }
    }
    if let Some(graphs) = &seen.graphs {
        let span =
            |(least, mean, most): (usize, f64, usize)| format!("{least} to {most}, {mean:.1} on average");
        let _ = writeln!(
            text,
            "{} jobs are graphs of tasks: tasks {}; edges {}; {} have several replicas, {} parameter servers",
            count(graphs.jobs as u64),
            span(graphs.tasks),
            span(graphs.edges),
            count(graphs.with_replicas as u64),
            count(graphs.with_servers as u64)
        );
    }
    let part = |jobs: usize| format!("{:.1}", jobs as f64 * 100.0 / seen.jobs.max(1) as f64);
    let jobs_columns = |first| [(first, Align::Right), ("jobs", Align::Right), ("%", Align::Right)];
    let sizes =
        seen.gpus.iter().map(|size| vec![size.gpus.to_string(), count(size.jobs as u64), part(size.jobs)]);
    let _ = write!(text, "\n{}\n", plain_table(&jobs_columns("GPUs"), sizes.collect()));
    let endings = seen.endings.iter().filter(|(_, jobs)| *jobs > 0).map(|(ending, jobs)| {
        let word = match ending {
            Ending::Completed => "completed",
            Ending::Failed => "failed",
            Ending::Killed => "killed",
            Ending::Censored => "still running",
        };
        vec![word.to_owned(), count(*jobs as u64), part(*jobs)]
    });
    let columns = [("ended", Align::Left), ("jobs", Align::Right), ("%", Align::Right)];
    let _ = write!(text, "\n{}\n", plain_table(&columns, endings.collect()));
    let quantiles = seen.duration_s.iter().map(|(percent, s)| vec![format!("{percent}"), duration(*s)]);
    let columns = [("% of jobs", Align::Right), ("run no longer than", Align::Right)];
    let _ = write!(text, "\n{}\n", plain_table(&columns, quantiles.collect()));
    let mut tenants: Vec<_> = seen.tenants.iter().filter(|(_, jobs)| *jobs > 0).collect();
    tenants.sort_by_key(|(_, jobs)| std::cmp::Reverse(*jobs));
    let rows = tenants
        .iter()
        .take(MOST_TENANTS)
        .map(|(name, jobs)| vec![name.to_string(), count(*jobs as u64), part(*jobs)]);
    let columns = [("tenant", Align::Left), ("jobs", Align::Right), ("%", Align::Right)];
    let _ = write!(text, "\n{}\n", plain_table(&columns, rows.collect()));
    if tenants.len() > MOST_TENANTS {
        let _ = writeln!(text, "and {} more tenants", count((tenants.len() - MOST_TENANTS) as u64));
    }
    text
}
