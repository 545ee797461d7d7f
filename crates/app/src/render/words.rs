//! Numbers as people write them.

use trainyard_sched::control::Outcome;
use trainyard_sched::metrics::Left;
use trainyard_sched::model::{Job, Node, Span, TenantId, Tenants};

/// A length of time, such as `2h 05m`.
pub(crate) fn duration(seconds: f64) -> String {
    // Below a second, three digits tell more than none; above, whole seconds do.
    let rounded = if seconds < 1.0 { seconds } else { seconds.round() };
    Span::from_secs_f64(rounded).to_string()
}

/// A length of time that may be absent.
pub(crate) fn duration_or_dash(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), duration)
}

/// A round length of time as short as can be, for an axis: `30 s`, `10 min`, `6 h`, `2 d`.
pub(crate) fn short_length(seconds: f64) -> String {
    let units = [(86_400.0, "d"), (3600.0, "h"), (60.0, "min")];
    let whole = |unit: f64| seconds >= unit && (seconds / unit).fract().abs() < 1e-9;
    match units.into_iter().find(|(unit, _)| whole(*unit)) {
        _ if seconds == 0.0 => "0".to_owned(),
        Some((unit, name)) => format!("{} {name}", seconds / unit),
        None => format!("{seconds} s"),
    }
}

/// A part of a whole in per cent, with one digit more where it is small: `62 %`, `4.1 %`, `under 0.1 %`.
pub(crate) fn percent(part: f64) -> String {
    let percent = part * 100.0;
    match percent {
        0.0 => "0 %".to_owned(),
        ..0.1 => "under 0.1 %".to_owned(),
        ..9.95 => format!("{percent:.1} %"),
        _ => format!("{percent:.0} %"),
    }
}

/// Names in a sentence: `a`, `a and b`, `a, b and c`.
pub(crate) fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// A whole number in groups: 12,345.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What people call a node; one without a name is called by its number.
pub(crate) fn node_name(node: &Node) -> String {
    if node.name.is_empty() { format!("node-{}", node.id.0) } else { node.name.to_string() }
}

/// What a tenant is called.
pub(crate) fn tenant_name(tenants: &Tenants, id: TenantId) -> String {
    tenants.get(id).map_or_else(|| id.to_string(), |tenant| tenant.name.to_string())
}

/// GPUs that the smallest gang of a job wants, such as `8` or `0.5`.
pub(crate) fn job_gpus(job: &Job) -> String {
    (job.shape.minimum().gpu_milli as f64 / 1000.0).to_string()
}

/// How a stretch of holding devices ended, in words.
pub(crate) const fn left_words(left: Left) -> &'static str {
    match left {
        Left::StillHeld => "still ran at the end",
        Left::Stopped => "was stopped",
        Left::Moved => "went on elsewhere",
        Left::Lost => "lost its node or failed",
        Left::NotStarted => "did not start",
        Left::Ended(outcome) => outcome_words(outcome),
    }
}

/// How a job ended, in words.
const fn outcome_words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "completed",
        Outcome::Failed => "ended in an error",
        Outcome::Killed => "killed by its owner",
        Outcome::StopRuleMet => "met its stop rule",
        Outcome::Withdrawn => "was withdrawn",
        Outcome::Rejected => "was rejected",
        Outcome::Censored => "still ran when its trace ended",
    }
}

/// Why jobs wait, in a few words for each kind of reason.
pub(crate) fn waits_because(kind: &str) -> &str {
    match kind {
        "not_yet_evaluated" => "not looked at yet",
        "chosen" | "kept" | "backfilled" => "chosen, devices not free yet",
        "no_capacity" => "no room",
        "behind" => "behind an earlier job",
        "would_delay" => "would delay a reservation",
        "outranked" => "a job ranks higher",
        "too_dear" => "worth less than its GPUs cost",
        "reserved" => "GPUs are reserved for later",
        "share_used" => "its tenant had its share",
        "only_idle" | "owed_nothing" => "only on idle GPUs",
        "quota_full" => "quota is full",
        "reclaimed" => "quota was taken back",
        "demoted" => "had much service already",
        "backoff" => "failed lately",
        "no_host" => "no node for one of its tasks",
        "relieved" => "left an overloaded node",
        other => other,
    }
}

/// A parameter's value; of a long list only both ends and its length.
pub(crate) fn short_value(value: &toml::Value) -> String {
    match value {
        toml::Value::Array(items) if items.len() > 8 => {
            let last = &items[items.len() - 1];
            format!("[{}, {}, ..., {last}] ({} values)", items[0], items[1], items.len())
        }
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped() {
        assert_eq!(count(7), "7");
        assert_eq!(count(1234), "1,234");
        assert_eq!(count(1_234_567), "1,234,567");
    }

    #[test]
    fn lengths_of_an_axis_are_short() {
        let cases = [(0.0, "0"), (30.0, "30 s"), (90.0, "90 s"), (60.0, "1 min"), (5400.0, "90 min")];
        for (seconds, text) in
            cases.into_iter().chain([(21_600.0, "6 h"), (129_600.0, "36 h"), (172_800.0, "2 d")])
        {
            assert_eq!(short_length(seconds), text);
        }
    }

    #[test]
    fn small_parts_keep_a_digit() {
        let cases = [(0.0, "0 %"), (0.0004, "under 0.1 %"), (0.041, "4.1 %"), (0.62, "62 %"), (1.0, "100 %")];
        for (part, text) in cases {
            assert_eq!(percent(part), text);
        }
    }

    #[test]
    fn durations_are_rounded_to_what_is_shown() {
        assert_eq!(duration(7500.4), "2h 05m");
        assert_eq!(duration(0.25), "0.250s");
        assert_eq!(duration_or_dash(None), "-");
    }
}
