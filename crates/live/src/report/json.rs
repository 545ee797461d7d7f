//! Reports as JSON, with the words that programs write for numbers that JSON does not have.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::names::{Field, Reading, number};

/// Why a line of JSON is no report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// It is not JSON at all.
    NotJson,
    /// It is JSON, and neither an object nor, where that may be, a list of them.
    NotAnObject,
    /// A name that we know has a value that it cannot have.
    Value { name: String },
}

/// Reads any JSON, `NaN` and `Infinity` included.
pub(super) fn value(text: &str) -> Result<Value, Problem> {
    let plain = serde_json::from_str(text);
    plain.or_else(|_| serde_json::from_str(&with_words_quoted(text))).map_err(|_| Problem::NotJson)
}

/// Reads what an object says; other names are passed over. Of several names for one thing the surest counts.
pub(super) fn reading(value: &Value) -> Result<Reading, Problem> {
    let object = value.as_object().ok_or(Problem::NotAnObject)?;
    let mut reading = Reading::default();
    for field in Field::ALL {
        let Some((name, value)) = surest(object, field) else { continue };
        let wrong = || Problem::Value { name: name.to_owned() };
        let value = match value {
            Value::Null => None,
            Value::Number(value) => Some(value.as_f64().ok_or_else(wrong)?),
            Value::String(text) => Some(number(text).ok_or_else(wrong)?),
            Value::Bool(_) | Value::Array(_) | Value::Object(_) => return Err(wrong()),
        };
        reading.take(field, value).map_err(|_| wrong())?;
    }
    Ok(reading)
}

fn surest(object: &Map<String, Value>, field: Field) -> Option<(&str, &Value)> {
    let named = object.iter().filter_map(|(name, value)| Some((field.rank(name)?, (name.as_str(), value))));
    named.min_by_key(|(rank, _)| *rank).map(|(_, found)| found)
}

/// Puts words outside strings between quotation marks if they are numbers: `NaN`, `Infinity`, `-Infinity`, `inf`.
fn with_words_quoted(text: &str) -> Cow<'_, str> {
    let mut quoted = String::new();
    let mut kept = 0;
    let mut at = 0;
    let bytes = text.as_bytes();
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = end_of_string(bytes, at),
            byte if is_word(byte) => {
                let end = at + bytes[at..].iter().take_while(|byte| is_word(**byte)).count();
                let word = &text[at..end];
                if word.parse::<f64>().is_ok_and(|number| !number.is_finite()) {
                    quoted.push_str(&text[kept..at]);
                    quoted.extend(["\"", word, "\""]);
                    kept = end;
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    quoted.push_str(&text[kept..]);
    Cow::Owned(quoted)
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

/// The place after the string that begins here.
fn end_of_string(bytes: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Reading, Problem> {
        reading(&value(text)?)
    }

    #[test]
    fn names_have_an_order_and_strangers_are_passed_over() {
        let all = r#"{"epoch":1,"global_step":70,"step":7,"train_loss":9,"Loss":"0.5","acc":0.25,"saved":6,"lr":[1]}"#;
        let reading = read(all).expect("it is understood");
        assert_eq!((reading.iteration, reading.epoch, reading.loss), (Some(7.0), Some(1.0), Some(0.5)));
        assert_eq!((reading.accuracy, reading.saved), (Some(0.25), Some(6.0)));
        assert_eq!(read(r#"{"lr":0.1}"#), Ok(Reading::default()));
    }

    #[test]
    fn numbers_that_json_lacks_are_understood_in_every_usual_spelling() {
        let spellings =
            ["NaN", "nan", "-Infinity", "Infinity", "inf", "-inf", "null", "\"NaN\"", "\"-inf\"", "1e999"];
        for loss in spellings {
            let text = format!(r#"{{"note":"a NaN, \" and Infinity","step":3,"loss":{loss},"x":[NaN]}}"#);
            let reading = read(&text).unwrap_or_else(|problem| panic!("{text}: {problem:?}"));
            assert!(reading.loss.is_some_and(f64::is_nan), "{text}");
            assert_eq!(reading.iteration, Some(3.0), "{text}");
        }
        assert_eq!(read(r#"{"step":null,"accuracy":NaN,"saved":null}"#), Ok(Reading::default()));
    }

    #[test]
    fn what_is_no_report_is_told_apart() {
        assert_eq!(read("step 3"), Err(Problem::NotJson));
        assert_eq!(read("{\"loss\":"), Err(Problem::NotJson));
        assert_eq!(read("{\"loss\":\"\\"), Err(Problem::NotJson));
        assert_eq!(read("[1]"), Err(Problem::NotAnObject));
        assert_eq!(read("NaN"), Err(Problem::NotAnObject));
        for (text, name) in [
            (r#"{"loss":"low"}"#, "loss"),
            (r#"{"loss":[1]}"#, "loss"),
            (r#"{"step":-1}"#, "step"),
            (r#"{"step":NaN}"#, "step"),
            (r#"{"saved":true}"#, "saved"),
        ] {
            assert_eq!(read(text), Err(Problem::Value { name: name.to_owned() }), "{text}");
        }
        let deep = format!("{{\"loss\":1,\"x\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
        assert_eq!(read(&deep), Err(Problem::NotJson));
    }
}
