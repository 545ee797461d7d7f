//! The native format as one JSON object a line, with the columns as keys.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::Format;
use super::super::error::{TraceError, nearest, shortened};
use super::super::fields::Problem;
use super::super::import::Import;
use super::super::lines::Lines;
use super::{COLUMNS, Key, Texts, take};

/// The entry of the table of formats.
pub(crate) const FORMAT: Format = Format {
    name: "native-json",
    title: "Trainyard's own format, one JSON object a line",
    columns: COLUMNS,
    // An object that goes on in the next line is part of a document and not a row.
    detect: |head| head.line.trim_start().starts_with('{') && !matches!(head.line.trim_end(), "{" | "{}"),
    read,
};

fn read(lines: &mut Lines<'_>, import: &mut Import<'_>) -> Result<(), TraceError> {
    let file = lines.file().to_owned();
    while let Some(line) = lines.next()? {
        let object = line.text().and_then(|text| {
            serde_json::from_str::<BTreeMap<String, Value>>(text)
                .map_err(|error| Problem::new("the row is no JSON object", "", &error.to_string()))
        });
        let mut texts: [String; COLUMNS.len()] = std::array::from_fn(|_| String::new());
        let mut problem = None;
        for (key, value) in object.as_ref().into_iter().flatten() {
            let Some(place) = COLUMNS.iter().position(|column| column.name == key) else {
                return Err(TraceError::UnknownColumn {
                    file,
                    line: line.number,
                    column: shortened(key, 60),
                    hint: nearest(key, COLUMNS.iter().map(|column| column.name)),
                });
            };
            let is_graph = place == Key::Graph as usize && value.is_object();
            match if is_graph { Some(value.to_string()) } else { text_of(value) } {
                Some(text) => texts[place] = text,
                None => {
                    problem = Some(Problem::new(format!("{key} is no single value"), key, &value.to_string()))
                }
            }
        }
        let row = match (object, problem) {
            (Err(problem), _) | (Ok(_), Some(problem)) => Err(problem),
            (Ok(_), None) => {
                let mut borrowed = [""; COLUMNS.len()];
                for (to, from) in borrowed.iter_mut().zip(&texts) {
                    *to = from.trim();
                }
                Ok(Texts(borrowed))
            }
        };
        take(import, line.number, line.bytes, row)?;
    }
    Ok(())
}

/// A value as the CSV form writes it; lists of words become a set.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            words.map(|words| words.join("|"))
        }
        Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::{Options, read_from};

    #[test]
    fn both_forms_give_the_same_jobs() {
        let json = r#"{"job_id": "a", "submit_s": 1.5, "duration_s": 60, "gpus": 4, "same_node": true, "gpu_types": ["v100", "p100"]}
{"gpus": 1, "duration_s": 9, "submit_s": 2, "job_id": 7, "tenant": null}"#;
        let csv =
            "job_id,submit_s,duration_s,gpus,same_node,gpu_types\na,1.5,60,4,true,v100|p100\n7,2,9,1,,\n";
        let read = |text: &str| read_from("own", text.as_bytes(), &Options::default()).unwrap();
        assert_eq!(read(json).jobs, read(csv).jobs);
    }

    #[test]
    fn an_unknown_key_is_an_error_and_a_broken_row_is_dropped() {
        let good = r#"{"job_id": "a", "submit_s": 0, "duration_s": 60, "gpus": 4}"#;
        let read = |text: &str| read_from("own.jsonl", text.as_bytes(), &Options::default());
        let error = read(&format!("{good}\n{}", good.replace("gpus", "gpuz"))).unwrap_err();
        assert_eq!(error.to_string(), "own.jsonl:2: unknown column `gpuz`; did you mean `gpus`?");
        let rows = [good, "{\"job_id\": ", "[1]", &good.replace("60", "{}"), &good.replace("60", "1e999")];
        let kept = read(&rows.join("\n")).unwrap();
        assert_eq!((kept.report.rows, kept.report.kept), (5, 1));
    }
}
