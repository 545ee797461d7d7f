//! The parts of a simulation's page that look closer: why jobs waited, what was of no use, and one policy at a time.

use maud::{Markup, html};
use trainyard_sched::metrics::SizeClass;

use super::gantt::Gantt;
use super::tenant_colours::TenantColours;
use super::tenants::tenants;
use super::waiters::waiters;
use super::{Figure, Range, RangeRow, Whole, parts, picker, ranges};
use crate::config::Inputs;
use crate::experiment::{Closer, Trial};
use crate::render::axis::Axis;
use crate::render::words::{count, duration, percent, waits_because};

/// Bars of all Gantt charts of a page together, and the fewest of one: about 60 bytes each in the page.
const MOST_BARS: usize = 14_000;
const BARS_OF_ONE: (usize, usize) = (1_200, 5_000);

/// Trials with their closer looks.
fn closer(trials: &[Trial]) -> impl Iterator<Item = (usize, &Trial, &Closer)> {
    trials.iter().enumerate().filter_map(|(i, trial)| Some((i, trial, trial.closer.as_ref()?)))
}

/// How long jobs of each size waited.
pub(crate) fn waits_by_size(trials: &[Trial]) -> Markup {
    let mut sizes: Vec<(u64, u64)> =
        trials.iter().flat_map(|trial| &trial.sizes).map(|class| (class.from_gpus, class.to_gpus)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let class = |trial: &Trial, size: (u64, u64)| -> Option<SizeClass> {
        trial.sizes.iter().find(|class| (class.from_gpus, class.to_gpus) == size).cloned()
    };
    let row = |size: &(u64, u64)| RangeRow {
        name: size_words(*size),
        note: class(&trials[0], *size).map_or_else(String::new, |class| {
            let jobs = class.completed + class.others;
            if jobs == 1 { "1 job".to_owned() } else { format!("{} jobs", count(jobs)) }
        }),
        ranges: trials
            .iter()
            .enumerate()
            .map(|(series, trial)| Range {
                series,
                name: trial.name().to_owned(),
                values: class(trial, *size).and_then(|class| class.wait_s),
            })
            .collect(),
    };
    let rows: Vec<RangeRow> = sizes.iter().map(row).collect();
    let longest = rows.iter().flat_map(|row| &row.ranges).filter_map(|range| range.values).map(|v| v[2]);
    let axis = Axis::lengths(
        1.0,
        longest.fold(0.0, f64::max),
        "time waited, logarithmic; at most 1 s is drawn at 1 s",
    );
    let told = rows.iter().map(|row| {
        let medians: Vec<String> = row
            .ranges
            .iter()
            .filter_map(|range| Some(format!("{} {}", range.name, duration(range.values?[1]))))
            .collect();
        format!("{}: median wait {}", row.name, medians.join(", "))
    });
    let figure = Figure {
        title: "Waits by the size of jobs",
        reading: "From the 10th to the 90th percentile, with a mark at the median, over jobs that came to an end.",
        alternative: format!("Waits by size of jobs. {}.", told.collect::<Vec<_>>().join("; ")),
    };
    ranges(&figure, &axis, &rows, ["p10", "median", "p90"], duration)
}

fn size_words((from, to): (u64, u64)) -> String {
    match (from, to) {
        (_, 0) => "no GPU".to_owned(),
        (_, 1) => "up to 1 GPU".to_owned(),
        _ => format!("{from} to {to} GPUs"),
    }
}

/// Why jobs waited.
pub(crate) fn reasons(trials: &[Trial]) -> Markup {
    const NEVER: &str = "unplaceable";
    let mut sums: std::collections::BTreeMap<&str, f64> = std::collections::BTreeMap::new();
    for (kind, waited) in closer(trials).flat_map(|(_, _, closer)| &closer.waited) {
        if *kind != NEVER {
            *sums.entry(waits_because(kind)).or_default() += waited.job_s;
        }
    }
    let mut names: Vec<&str> = sums.keys().copied().collect();
    names.sort_by(|a, b| sums[b].total_cmp(&sums[a]));
    let whole = |(_, trial, closer): (usize, &Trial, &Closer)| {
        let part = |name: &&str| {
            let of = closer.waited.iter().filter(|(kind, _)| *kind != NEVER && waits_because(kind) == *name);
            of.map(|(_, waited)| waited.job_s).sum::<f64>()
        };
        let parts: Vec<f64> = names.iter().map(part).collect();
        let hours = parts.iter().sum::<f64>() / 3600.0;
        Whole {
            name: trial.name().to_owned(),
            note: format!("{} job-hours", count(hours.round() as u64)),
            parts,
        }
    };
    let wholes: Vec<Whole> = closer(trials).map(whole).collect();
    if names.is_empty() {
        return html! { p.note { "No job that could run was kept waiting." } };
    }
    let told = wholes.iter().map(|whole| {
        let sum = whole.parts.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let parts: Vec<String> = names
            .iter()
            .zip(&whole.parts)
            .map(|(name, part)| format!("{} {name}", percent(part / sum)))
            .collect();
        format!("{}: {}", whole.name, parts.join(", "))
    });
    let figure = Figure {
        title: "Why jobs waited",
        reading: "All time that jobs waited, by the reason that the policy gave. Jobs that could never run are left out.",
        alternative: format!("Time waited by reason. {}.", told.collect::<Vec<_>>().join("; ")),
    };
    parts(&figure, &names, &wholes)
}

/// One policy at a time: what ran where, what tenants got, who waited longest.
pub(crate) fn one_at_a_time(inputs: &Inputs, trials: &[Trial], end_s: f64) -> Markup {
    let axis = Axis::time(end_s, "since the start of the run");
    let shares = closer(trials).next().map(|(_, _, closer)| closer.shares.clone()).unwrap_or_default();
    let colours = TenantColours::new(&shares);
    let most_bars = (MOST_BARS / trials.len().max(1)).clamp(BARS_OF_ONE.0, BARS_OF_ONE.1);
    let panel = |(_, trial, closer): (usize, &Trial, &Closer)| {
        let gantt =
            Gantt { inputs, timeline: &closer.timeline, axis: &axis, end_s, colours: &colours, most_bars };
        let panel = html! {
            (gantt.draw())
            (tenants(&inputs.tenants, &closer.shares))
            (waiters(inputs, &closer.longest))
        };
        (trial.name().to_owned(), panel)
    };
    picker("policy", "Policy", closer(trials).map(panel).collect())
}
