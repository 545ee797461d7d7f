//! Numbers of summaries with their units, differences with their signs, and intervals.

use super::words::{count, duration};
use crate::config::Unit;
use crate::statistics::{Estimate, Interval};

/// A number as people write it.
pub(crate) fn number(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Seconds => duration(value),
        Unit::GpuSeconds => hours(value / 3600.0),
        Unit::Bytes => hours(value / 1e9),
        Unit::Part => format!("{:.1} %", value * 100.0),
        Unit::Ratio => format!("{value:.2}"),
        Unit::Count if value.fract() == 0.0 => count(value as u64),
        Unit::Count => format!("{value:.1}"),
    }
}

/// A difference as people write it, with its sign.
pub(crate) fn difference(unit: Unit, value: f64) -> String {
    let text = match unit {
        // Points of per cent, not per cent of what it was.
        Unit::Part => format!("{:.1} points", value.abs() * 100.0),
        _ => number(unit, value.abs()),
    };
    // What is shown as nothing has no sign.
    let is_nothing = !text.contains(|c: char| ('1'..='9').contains(&c));
    match value {
        _ if is_nothing => text,
        ..0.0 => format!("-{text}"),
        _ => format!("+{text}"),
    }
}

/// Hours, or GB, in as many digits as say something.
pub(crate) fn hours(value: f64) -> String {
    if value.abs() < 100.0 { format!("{value:.1}") } else { count(value.round() as u64) }
}

/// A mean or a dash.
pub(crate) fn mean(unit: Unit, estimate: &Estimate) -> String {
    estimate.mean.map_or_else(|| "-".to_owned(), |value| number(unit, value))
}

/// The mean of a difference, or a dash.
pub(crate) fn mean_difference(unit: Unit, estimate: &Estimate) -> String {
    estimate.mean.map_or_else(|| "-".to_owned(), |value| difference(unit, value))
}

/// An interval of differences, or a dash.
pub(crate) fn interval(unit: Unit, interval: Option<Interval>) -> String {
    interval.map_or_else(
        || "-".to_owned(),
        |Interval { low, high }| format!("{} to {}", difference(unit, low), difference(unit, high)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units_and_differences_signs() {
        assert_eq!(number(Unit::Seconds, 7500.0), "2h 05m");
        assert_eq!(number(Unit::GpuSeconds, 3600.0 * 1234.4), "1,234");
        assert_eq!(number(Unit::Part, 0.488), "48.8 %");
        assert_eq!((number(Unit::Count, 600.0), number(Unit::Count, 599.5)), ("600".into(), "599.5".into()));
        assert_eq!(difference(Unit::Seconds, -7500.0), "-2h 05m");
        assert_eq!(difference(Unit::Part, 0.021), "+2.1 points");
        assert_eq!(difference(Unit::Ratio, -0.001), "0.00");
        assert_eq!(interval(Unit::Count, None), "-");
    }
}
