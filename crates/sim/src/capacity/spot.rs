//! Spot availability and preemption series (NSDI 2024): `{"metadata": {"gap_seconds": G}, "data": [...]}`, the number
//! of instances at every tick. Prices and other keys are not read.

use serde::Deserialize;
use trainyard_sched::model::{Span, Time};

use super::{CapacityError, Draft, Format, Leaving, MOST, MOST_POINTS, Unit};
use crate::document::{Document, printable};
use crate::strangers::squeezed;
use crate::supplement::Supplement;
use crate::workload::{Done, ImportReport};

/// The longest tick that is read: a year.
const MOST_GAP_S: f64 = 31_536_000.0;

/// The entry of the table of formats.
pub(super) const FORMAT: Format = Format {
    name: "spot",
    title: "spot availability or preemption",
    detect: |head| {
        let head = squeezed(head);
        head.starts_with('{') && head.contains("\"gap_seconds\":") || head.starts_with("{\"data\":[")
    },
    read,
};

#[derive(Deserialize)]
struct Series {
    metadata: Metadata,
    data: Vec<Option<f64>>,
}

#[derive(Deserialize)]
struct Metadata {
    gap_seconds: f64,
}

fn read(document: &Document, _: &Supplement) -> Result<Draft, CapacityError> {
    let json = |source| CapacityError::Json { file: document.file.clone(), source };
    let series: Series = serde_json::from_str(&document.text).map_err(json)?;
    let gap_s = series.metadata.gap_seconds;
    if !(1e-6..=MOST_GAP_S).contains(&gap_s) {
        let what = format!("metadata.gap_seconds `{gap_s}`: give seconds above 0 and up to a year");
        return Err(document.wrong(1, what).into());
    }
    if series.data.is_empty() || series.data.len() > MOST_POINTS {
        let what = format!("data has {} points; give 1 to {MOST_POINTS}", series.data.len());
        return Err(document.wrong(1, what).into());
    }
    let mut report = ImportReport::default();
    let mut points = Vec::with_capacity(series.data.len());
    // What was there before the first known value is not known; that value is the nearest there is.
    let Some(first) = series.data.iter().flatten().next() else {
        return Err(document.wrong(1, "data has no value but null; give numbers of instances").into());
    };
    let mut known = None;
    for (index, value) in series.data.iter().enumerate() {
        match value {
            Some(value) if value.fract() == 0.0 && (0.0..=MOST as f64).contains(value) => {
                known = Some(*value);
            }
            Some(value) => {
                let value = printable(&value.to_string());
                let what = format!("data[{index}] `{value}`: give a whole number from 0 to {MOST}");
                return Err(document.wrong(1, what).into());
            }
            None => {
                let place = format!("{}:1: data[{index}] null", document.file);
                let what = match known {
                    Some(_) => "a point is missing; the value before it stays",
                    None => "the first points are missing; the first known value is taken for them",
                };
                report.find(Done::Repaired, what, Some(place));
            }
        }
        let at = Time::ZERO + Span::from_secs_f64(gap_s * index as f64);
        points.push((at, known.unwrap_or(*first) as u64));
    }
    (report.rows, report.kept) = (points.len() as u64, points.len() as u64);
    report.find(Done::Assumed, "an instance is a node", None);
    let step = Span::from_secs_f64(gap_s);
    Ok(Draft { unit: Unit::Nodes, leaving: Leaving::Down, gpus_per_node: None, points, step, report })
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::Time;

    use crate::capacity::{Leaving, Unit, read_from};

    #[test]
    fn a_tick_lasts_as_long_as_the_file_says() {
        let text = "{\"metadata\": {\"gap_seconds\": 300, \"zone\": \"x\"}, \"data\": [3, 3, null, 0.0, 16],\n\"prices\": [1]}";
        let found = read_from("s.json", text.as_bytes().to_vec(), "gpus=1,type=V100").unwrap();
        assert_eq!((found.unit, found.leaving), (Unit::Nodes, Leaving::Down));
        assert_eq!(found.points, [(Time::ZERO, 3), (Time::from_secs(900), 0), (Time::from_secs(1200), 16)]);
        assert_eq!((found.ends, found.report.rows), (Time::from_secs(1500), 5));
        assert_eq!(found.report.findings[0].examples, ["s.json:1: data[2] null"]);
        assert_eq!(found.cluster().unwrap().to_string(), "16 nodes, 16 GPUs (16 v100)");
    }

    #[test]
    fn before_the_first_known_value_there_is_that_value() {
        let text = "{\"metadata\": {\"gap_seconds\": 60}, \"data\": [null, null, 4, 5]}";
        let found = read_from("s.json", text.as_bytes().to_vec(), "gpus=1,type=V100").unwrap();
        assert_eq!(found.points, [(Time::ZERO, 4), (Time::from_secs(180), 5)]);
        let told = &found.report.findings[0];
        assert_eq!(
            (told.count, &*told.what),
            (2, "the first points are missing; the first known value is taken for them")
        );
    }

    #[test]
    fn odd_points_are_named() {
        let told = |gap: &str, data: &str| {
            let text = format!("{{\"metadata\": {{\"gap_seconds\": {gap}}}, \"data\": [{data}]}}");
            read_from("s.json", text.into_bytes(), "").unwrap_err().to_string()
        };
        assert!(told("60", "1, -1").starts_with("s.json:1: data[1] `-1`"));
        assert!(told("60", "0.5").contains("data[0] `0.5`"));
        assert!(told("60", "").contains("data has 0 points"));
        assert!(told("60", "null, null").contains("no value but null"));
        assert!(told("0", "1").contains("gap_seconds `0`"));
        assert!(told("60", "\"a\"").contains("not the JSON"));
    }
}
