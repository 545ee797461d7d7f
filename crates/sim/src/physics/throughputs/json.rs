//! Gavel's form: worker type -> job -> `"null"` for the job alone, or another job for a pair, in iterations a second.
//!
//! A job is written as a tuple of Python, `('ResNet-18 (batch size 16)', 2)`, or as its model alone. The worker types
//! `<type>_unconsolidated` are gangs that are spread over nodes; how pairs of these go is not read.

use serde_json::{Map, Value};

use super::TableError;
use crate::physics::ThroughputTable;

const SPREAD: &str = "_unconsolidated";
const ALONE: &str = "null";

/// Adds what a text says.
pub(super) fn read_into(table: &mut ThroughputTable, file: &str, text: &str) -> Result<(), TableError> {
    let wrong = |place: String, what: String| TableError::Json { file: file.to_owned(), place, what };
    let all: Map<String, Value> = serde_json::from_str(text)
        .map_err(|error| wrong(format!("line {}", error.line()), format!("no JSON object: {error}")))?;
    for (worker_type, jobs) in &all {
        let (gpu_type, spread) =
            worker_type.strip_suffix(SPREAD).map_or((worker_type.as_str(), false), |name| (name, true));
        let jobs = jobs.as_object().ok_or_else(|| {
            wrong(worker_type.clone(), "a GPU type is an object that names jobs".to_owned())
        })?;
        for (job, figures) in jobs {
            let place = |rest: &str| format!("{worker_type} > {job}{rest}");
            let (model, gpus) = kind(job);
            let figures = figures.as_object().ok_or_else(|| {
                wrong(
                    place(""),
                    "a job is an object with its speed under \"null\" and beside others".to_owned(),
                )
            })?;
            let row = table.intern(model);
            for (other, figure) in figures {
                let unsound = || {
                    let what = format!("`{figure}` is no speed from 0 upwards, or for a pair no list of two");
                    wrong(place(&format!(" > {other}")), what)
                };
                if other == ALONE {
                    let per_s = speed(figure).ok_or_else(unsound)?;
                    table.insert(row, gpu_type, gpus, spread, per_s);
                    continue;
                }
                let pair = figure.as_array().filter(|pair| pair.len() == 2).ok_or_else(unsound)?;
                let per_s = speed(&pair[0]).ok_or_else(unsound)?;
                let (other_model, other_gpus) = kind(other);
                if !spread && other_gpus == gpus {
                    let other = table.intern(other_model);
                    table.insert_pair(row, other, gpu_type, gpus, per_s);
                }
            }
        }
    }
    Ok(())
}

/// Model and GPUs of a job's key.
fn kind(key: &str) -> (&str, u32) {
    let tuple = || {
        let (model, gpus) = key.strip_prefix("('")?.strip_suffix(')')?.rsplit_once("',")?;
        Some((model, gpus.trim().parse().ok()?))
    };
    tuple().unwrap_or((key, 1))
}

fn speed(value: &Value) -> Option<f64> {
    value.as_f64().filter(|per_s| *per_s >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::super::parse_throughputs;
    use crate::physics::Locality;

    #[test]
    fn jobs_pairs_and_spread_gangs_are_read() {
        let text = r#"{"a": {"('x (batch size 2)', 2)": {"null": 4.0, "('y', 2)": [3.0, 1.5], "('y', 4)": [9.0, 9.0]},
            "('y', 2)": {"null": 2.0, "('x (batch size 2)', 2)": [1.5, 3.0]}, "z": {"null": 0.0}},
            "a_unconsolidated": {"('y', 2)": {"null": 1.0, "('y', 2)": [0.5, 0.5]}}}"#;
        let table = parse_throughputs("t.json", text).unwrap();
        let [x, y, z] = ["x (batch size 2)", "y", "z"].map(|name| table.row(name).unwrap());
        assert_eq!(table.per_s(x, "a", 2, Locality::Node), Some(4.0));
        assert_eq!(
            [Locality::Node, Locality::Rack].map(|at| table.per_s(y, "a", 2, at)),
            [Some(2.0), Some(1.0)]
        );
        assert_eq!((table.pair_per_s(x, y, "a", 2), table.pair_per_s(y, x, "a", 2)), (Some(3.0), Some(1.5)));
        assert_eq!(table.pair_per_s(y, y, "a", 2), None, "pairs of spread gangs are not read");
        assert_eq!(table.pair_per_s(x, y, "a", 4), None, "nor are gangs of two sizes a pair");
        assert_eq!(table.per_s(z, "a", 1, Locality::Node), None, "it does not fit");
        assert_eq!(table.rates(z, &["a".into()], None, |_| None).alone().len(), 1, "and that is known");
    }

    #[test]
    fn what_is_no_table_is_refused_with_its_place() {
        let told = |text: &str| parse_throughputs("t.json", text).unwrap_err().to_string();
        assert!(told("{").contains("t.json: line 1"));
        assert!(told(r#"{"a": 3}"#).contains("t.json: a:"));
        assert!(told(r#"{"a": {"x": 3}}"#).contains("a > x:"));
        assert!(told(r#"{"a": {"x": {"null": -3}}}"#).contains("a > x > null: `-3`"));
        assert!(told(r#"{"a": {"x": {"y": 3}}}"#).contains("a > x > y: `3`"));
        assert!(told("{}").contains("no figure"));
    }
}
