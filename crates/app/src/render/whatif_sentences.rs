//! What a what-if means, in sentences that a manager can read. A difference is called certain only where an interval
//! of 95 % says so.

use super::figure::{difference, hours, number};
use super::whatif::metric;
use crate::config::{Requirement, Unit};
use crate::experiment::whatif::{Answer, Figure, Kind, Scenario, Search, Share};
use crate::statistics::{Estimate, Interval};

/// All sentences, in the order of the table.
pub(crate) fn whatif_sentences(answer: &Answer) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(today) = answer.scenarios.first() {
        all.extend(unstable(today));
    }
    for scenario in answer.scenarios.iter().filter(|scenario| scenario.kind != Kind::Today) {
        all.push(change(scenario));
        all.extend(unstable(scenario));
        all.extend(waiting(scenario));
        all.extend(lost_jobs(scenario));
        all.extend(cost(scenario));
    }
    all.extend(answer.shares.iter().filter_map(share));
    all.extend(answer.searches.iter().map(search));
    all
}

/// What the change is called at the beginning of a sentence.
fn subject(scenario: &Scenario) -> String {
    match scenario.kind {
        Kind::Today => "What there is today".to_owned(),
        Kind::Add => scenario.name.replacen("add", "Adding", 1),
        Kind::Remove => scenario.name.replacen("remove", "Removing", 1),
        Kind::Load => scenario.name.replacen("load", "A load of", 1),
        Kind::Policy => format!("Switching to {}", scenario.name),
        Kind::Together => scenario.name.replacen("all", "All", 1),
    }
}

/// What happens to the two numbers that people ask for first.
fn change(scenario: &Scenario) -> String {
    let parts = ["avg_jct_s", "p95_wait_s"].map(|key| {
        let name = match key {
            "avg_jct_s" => "the mean completion time",
            _ => "the wait that 95 % of the jobs keep below",
        };
        moved(name, scenario.figure(key))
    });
    format!("{}: {}.", subject(scenario), parts.join("; "))
}

fn moved(name: &str, figure: Figure) -> String {
    let unit = Unit::Seconds;
    let Some((then, by)) = figure.value.mean.zip(figure.difference) else {
        return format!("there is no {}", name.trim_start_matches("the "));
    };
    let Some(mean) = by.mean else {
        return format!("{name} is {} and cannot be compared", number(unit, then));
    };
    let before = number(unit, then - mean);
    let then = number(unit, then);
    if by.is_certain() {
        let way = if mean < 0.0 { "falls" } else { "rises" };
        return format!("{name} {way} from {before} to {then}{}", within(unit, by.interval_95));
    }
    match by.interval_95 {
        Some(interval) if before != then => {
            // Few replicates make nothing certain, but where all agree it is not for the spread that it is not.
            let agree = interval.low > 0.0 || interval.high < 0.0;
            let doubt = if agree {
                format!("of which {} replicates are too few to be certain", by.replicates)
            } else {
                "which may be chance".to_owned()
            };
            format!("{name} goes from {before} to {then}, {doubt}{}", within(unit, Some(interval)))
        }
        None if before != then => format!("{name} goes from {before} to {then} in the one replicate"),
        _ => format!("{name} stays at {then}"),
    }
}

fn within(unit: Unit, interval: Option<Interval>) -> String {
    interval.map_or_else(String::new, |Interval { low, high }| {
        format!(" (by {} to {})", difference(unit, low), difference(unit, high))
    })
}

fn unstable(scenario: &Scenario) -> Option<String> {
    let absent = scenario.figure("avg_jct_s").value;
    (absent.absent > 0).then(|| {
        format!(
            "{}: in {} of {} replicates the queue kept growing or nothing was completed, so there are no means.",
            subject(scenario),
            absent.absent,
            absent.replicates
        )
    })
}

/// GPU-hours of waiting that are gained or lost.
fn waiting(scenario: &Scenario) -> Option<String> {
    let by = scenario.waited_gpu_hours.difference?;
    let (mean, jobs) = (by.mean?, scenario.waited_hours.difference?.mean?);
    if !by.is_certain() && by.interval_95.is_some() || mean == 0.0 {
        return None;
    }
    let (verb, more) = if mean < 0.0 { ("gains", "less") } else { ("loses", "more") };
    let around = by.interval_95.map_or_else(String::new, |interval| {
        let mut ends = [interval.low.abs(), interval.high.abs()];
        ends.sort_by(f64::total_cmp);
        format!(" ({} to {})", hours(ends[0]), hours(ends[1]))
    });
    Some(format!(
        "That {verb} {} GPU-hours{around}: jobs wait {} hours {more} in all, and each hour counts once for each GPU \
         that the job waits for.",
        hours(mean.abs()),
        hours(jobs.abs())
    ))
}

fn lost_jobs(scenario: &Scenario) -> Option<String> {
    let lost = &scenario.cannot_run;
    let rest = lost.count.saturating_sub(lost.examples.len());
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    let jobs = if lost.count == 1 { "1 job" } else { &format!("{} jobs", lost.count) };
    (lost.count > 0).then(|| format!("Then {jobs} can no longer run: {}{more}.", lost.examples.join(", ")))
}

fn cost(scenario: &Scenario) -> Option<String> {
    let cost = scenario.cost?;
    let amount = |value: f64| format!("{value:.2}");
    if cost.in_all < 0.0 {
        return Some(format!("That saves {} over the time in which jobs arrive.", amount(-cost.in_all)));
    }
    let Some(each) = cost.per_hour_of_waiting else {
        return Some(format!(
            "That costs {} over the time in which jobs arrive, and it is not certain that it removes any waiting.",
            amount(cost.in_all)
        ));
    };
    let around = each
        .interval_95
        .map_or_else(String::new, |Interval { low, high }| format!(" ({} to {})", amount(low), amount(high)));
    Some(format!(
        "That costs {} over the time in which jobs arrive, or {}{around} for each hour of waiting removed.",
        amount(cost.in_all),
        amount(each.mean?)
    ))
}

/// What a policy gives of the gain of machines.
fn share(share: &Share) -> Option<String> {
    let Estimate { mean, interval_95, .. } = share.share;
    let percent = |part: f64| format!("{:.0}", part * 100.0);
    let around = interval_95.map_or_else(String::new, |Interval { low, high }| {
        format!(" ({}-{} %)", percent(low).replace('-', "−"), percent(high))
    });
    let machines = share.machines.trim_start_matches("add ");
    let of = match share.metric {
        "avg_jct_s" => "the gain in mean completion time",
        _ => metric_gain(share.metric),
    };
    let mean = mean?;
    if mean <= 0.0 {
        return Some(format!("Switching to {} gives none of {of} of adding {machines}.", share.policy));
    }
    Some(format!(
        "Switching to {} gives {} %{around} of {of} of adding {machines}.",
        share.policy,
        percent(mean)
    ))
}

fn metric_gain(key: &str) -> &'static str {
    match metric(key).key {
        "p95_wait_s" => "the gain in the wait that 95 % of the jobs keep below",
        other => other,
    }
}

/// What a search found.
fn search(search: &Search) -> String {
    let bounds = search.bounds.iter().map(Requirement::titled).collect::<Vec<_>>().join(" and ");
    let on_top = if search.on_top_of.is_empty() {
        String::new()
    } else {
        format!(", on top of \"{}\",", search.on_top_of.join("\" and \""))
    };
    let under = format!("Under {}{on_top}", search.policy);
    let uneven = if search.is_uneven {
        " A larger number was seen that does not keep it: more is not always better here."
    } else {
        ""
    };
    match search.nodes {
        Some(0) => format!("{under} {bounds} holds without a single node more.{uneven}"),
        Some(nodes) => format!("{under} {bounds} takes {nodes} more nodes of {}.{uneven}", search.node),
        None => {
            let why = search.hindered_by.as_ref().map_or_else(String::new, |why| format!(": {why}"));
            format!(
                "{under} {bounds} is not reached with up to {} nodes of {}{why}.",
                search.looked_up_to, search.node
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(mean: f64, low: f64, high: f64) -> Estimate {
        let interval = Some(Interval { low, high });
        Estimate { mean: Some(mean), interval_80: interval, interval_95: interval, replicates: 9, absent: 0 }
    }

    #[test]
    fn a_share_is_told_with_its_interval() {
        let told = |estimate| {
            let (policy, machines) = ("tiresias".to_owned(), "add 2x8:h100".to_owned());
            share(&Share { metric: "avg_jct_s", policy, machines, share: estimate }).unwrap()
        };
        let expected = "Switching to tiresias gives 60 % (45-71 %) of the gain in mean completion time of adding 2x8:h100.";
        assert_eq!(told(estimate(0.6, 0.45, 0.71)), expected);
        assert!(told(estimate(-0.1, -0.2, 0.1)).contains("gives none of the gain"));
    }

    #[test]
    fn few_replicates_make_nothing_certain() {
        let by = Estimate { replicates: 5, ..estimate(-3600.0, -4000.0, -3000.0) };
        let figure = Figure { value: estimate(3600.0, 3000.0, 4000.0), difference: Some(by) };
        let text = moved("the wait", figure);
        assert!(
            text.contains("goes from") && text.contains("of which 5 replicates are too few to be certain"),
            "{text}"
        );
    }

    #[test]
    fn a_difference_is_called_certain_only_where_it_is() {
        let figure = |by| Figure { value: estimate(3600.0, 3000.0, 4000.0), difference: Some(by) };
        let text = moved("the wait", figure(estimate(-3600.0, -4000.0, -3000.0)));
        assert_eq!(text, "the wait falls from 2h 00m to 1h 00m (by -1h 06m to -50m 00s)");
        let text = moved("the wait", figure(estimate(-600.0, -4000.0, 3000.0)));
        assert!(text.contains("which may be chance"), "{text}");
        assert!(moved("the wait", figure(estimate(0.0, 0.0, 0.0))).contains("stays at"));
        assert!(moved("the wait", Figure::default()).contains("there is no wait"));
    }
}
