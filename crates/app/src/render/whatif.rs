//! A what-if as people read it on a terminal: one table, the searches, what was assumed.

use super::figure::{interval, mean, mean_difference};
use super::table::{Align, plain_table};
use crate::config::{METRICS, Metric};
use crate::experiment::whatif::{Answer, Search};
use crate::statistics::ENOUGH_REPLICATES;

/// The numbers that are shown of each scenario; the others are in the file.
pub(super) const SHOWN: [&str; 4] = ["avg_jct_s", "avg_wait_s", "p95_wait_s", "gpu_utilization"];

/// The whole text.
pub(crate) fn whatif_text(answer: &Answer) -> String {
    let mut parts = vec![scenarios(answer)];
    parts.extend(answer.searches.iter().map(search));
    parts.push(answer.sentences.join("\n"));
    parts.push(format!("Replicates: {}", replicates(answer)));
    let assumed = answer.assumptions.iter().map(|what| format!("  {what}")).collect::<Vec<_>>();
    parts.push(format!("Assumed:\n{}", assumed.join("\n")));
    parts.join("\n\n")
}

/// How many replicates there are, and what differs between them.
pub(super) fn replicates(answer: &Answer) -> String {
    let count = answer.replicates;
    if answer.varies.is_empty() {
        return "1. The trace is too short to draw others from it, and neither noise nor failures are drawn, so all \
                replicates would be equal; there are no intervals."
            .to_owned();
    }
    let few = match count {
        1 => " From one there is no interval.".to_owned(),
        _ if count < ENOUGH_REPLICATES => {
            format!(
                " From fewer than {ENOUGH_REPLICATES}, intervals are narrower than they should be and no difference is \
                 called certain (--seeds {ENOUGH_REPLICATES})."
            )
        }
        _ => String::new(),
    };
    format!("{count}. What differs: {}.{few}", answer.varies.join("; "))
}

/// The number of this key.
pub(super) fn metric(key: &str) -> &'static Metric {
    METRICS.iter().find(|metric| metric.key == key).expect("the table of metrics has every key that is shown")
}

fn scenarios(answer: &Answer) -> String {
    let headers = [
        ("what", Align::Left),
        ("GPUs", Align::Right),
        ("number", Align::Left),
        ("value", Align::Right),
        ("difference", Align::Right),
        ("80 %", Align::Right),
        ("95 %", Align::Right),
    ];
    let mut rows = Vec::new();
    for scenario in &answer.scenarios {
        for (i, metric) in SHOWN.into_iter().map(metric).enumerate() {
            let first = |text: String| if i == 0 { text } else { String::new() };
            let figure = scenario.figure(metric.key);
            let difference = figure.difference.unwrap_or_default();
            let or_blank = |text: String| if figure.difference.is_some() { text } else { String::new() };
            rows.push(vec![
                first(scenario.name.clone()),
                first(scenario.gpus.to_string()),
                metric.title.to_owned(),
                mean(metric.unit, &figure.value),
                or_blank(mean_difference(metric.unit, &difference)),
                or_blank(interval(metric.unit, difference.interval_80)),
                or_blank(interval(metric.unit, difference.interval_95)),
            ]);
        }
    }
    plain_table(&headers, rows)
}

/// The curve that a search tried.
fn search(search: &Search) -> String {
    let mut headers = vec![("nodes more", Align::Right), ("GPUs more", Align::Right)];
    let keys: Vec<&'static str> =
        search.tried.first().map_or_else(Vec::new, |t| t.metrics.keys().copied().collect());
    headers.extend(keys.iter().map(|key| (metric(key).title, Align::Right)));
    headers.push(("enough", Align::Left));
    let row = |tried: &crate::experiment::whatif::Attempt| {
        let mut row = vec![tried.nodes.to_string(), tried.gpus.to_string()];
        row.extend(keys.iter().map(|key| mean(metric(key).unit, &tried.metrics[key])));
        row.push(if tried.is_enough { "yes" } else { "no" }.to_owned());
        row
    };
    let table = plain_table(&headers, search.tried.iter().map(row).collect());
    format!("{} under {}, by nodes of {}:\n{table}", search.all_bounds(), search.policy, search.node)
}
