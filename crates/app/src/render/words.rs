//! Numbers as people write them.

use trainyard_sched::model::Span;

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
    fn durations_are_rounded_to_what_is_shown() {
        assert_eq!(duration(7500.4), "2h 05m");
        assert_eq!(duration(0.25), "0.250s");
        assert_eq!(duration_or_dash(None), "-");
    }
}
