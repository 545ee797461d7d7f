//! The demonstration in small: real jobs, under both policies, with figures for each.

mod program;

use program::{ends_with, scratch};

#[test]
fn real_jobs_run_under_both_policies_and_leave_figures() {
    let place = scratch(&[]);
    let arguments =
        ["demo", "--jobs", "6", "--within", "1", "--work", "0.3", "--out", "demo", "--output", "json"];
    let (printed, _) = ends_with(place.path(), 0, &arguments, b"");
    let answer: serde_json::Value = serde_json::from_str(&printed).expect("it is JSON");
    assert_eq!(answer["policies"], serde_json::json!(["slaq", "fair"]));
    assert_eq!(answer["cut"], serde_json::json!([0, 0]));
    for row in answer["rows"].as_array().expect("rows") {
        assert!(
            row["values"].as_array().expect("two").iter().all(|value| value.as_f64() > Some(0.0)),
            "{row}"
        );
    }
    // Every job lowered its loss, and said so.
    for times in answer["times"].as_array().expect("two") {
        assert_eq!(times.as_array().expect("times").len(), 6);
    }
    for name in ["report.html", "demo.json", "slaq-0/journal.sqlite", "fair-0/jobs/5/1/progress.jsonl"] {
        assert!(place.path().join("demo").join(name).exists(), "{name}");
    }
}
