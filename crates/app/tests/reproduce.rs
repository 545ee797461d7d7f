//! Papers through the binary: what `reproduce` prints, leaves and returns.

mod program;

use program::{ends_with, scratch, trainyard};
use serde_json::Value;

/// The keys of a row, in their order.
const KEYS: [&str; 9] = ["check", "what", "published", "reference", "ours", "low", "high", "pass", "verdict"];

#[test]
fn papers_are_listed() {
    let place = scratch(&[]);
    let (text, _) = ends_with(place.path(), 0, &["reproduce"], b"");
    assert!(text.contains("slaq") && text.contains("SoCC 2017"), "{text}");
    assert!(std::fs::read_dir(place.path()).unwrap().next().is_none(), "a list leaves nothing");
}

/// The rows of a quick run, as printed.
fn quick(paper: &str, threads: &str) -> (String, Vec<Value>) {
    let place = scratch(&[]);
    let arguments = ["reproduce", paper, "--quick", "--seeds", "2", "-j", threads, "--output", "json"];
    let output = trainyard(place.path(), &arguments, b"");
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Value> = serde_json::from_str(&text).unwrap();
    let missed = rows.iter().any(|row| row["pass"] == false);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(if missed { 5 } else { 0 }), "{told}");
    for name in ["rows.json", "readings.json", "report.html"] {
        assert!(place.path().join("trainyard-reproduce").join(name).is_file(), "{name}");
    }
    (text, rows)
}

fn checks(rows: &[Value]) -> Vec<&str> {
    rows.iter().filter_map(|row| row["check"].as_str()).collect()
}

#[test]
fn optimus_has_a_row_for_each_check() {
    let (_, rows) = quick("optimus", "2");
    assert_eq!(checks(&rows), ["B-1", "B-2", "B-3", "B-4", "B-5", "B-6"]);
}

#[test]
fn slaq_has_a_row_for_each_check_the_same_on_any_number_of_threads() {
    let (_, rows) = quick("slaq", "1");
    let (_, again) = quick("slaq", "4");
    let names: Vec<String> = (1..=12).map(|i| format!("S-{i}")).collect();
    assert_eq!(checks(&rows), names);
    for (row, same) in rows.iter().zip(&again) {
        let keys: Vec<&String> = row.as_object().unwrap().keys().collect();
        assert!(
            KEYS.iter().all(|key| keys.iter().any(|found| found == key)) && keys.len() == KEYS.len(),
            "{row}"
        );
        // S-7 is a measured time.
        if row["check"] != "S-7" {
            assert_eq!(row, same);
        }
        let (low, ours, high) = (row["low"].as_f64(), row["ours"].as_f64(), row["high"].as_f64());
        if let (Some(low), Some(ours), Some(high)) = (low, ours, high) {
            assert!(low <= ours && ours <= high, "{row}");
        }
    }
    // Exact properties hold in any case.
    for check in ["S-6", "S-8", "S-10"] {
        let row = rows.iter().find(|row| row["check"] == check).unwrap();
        assert_eq!(row["pass"], true, "{row}");
    }
}

#[test]
fn hadare_has_rows_for_each_check_and_all_are_reached() {
    let (_, rows) = quick("hadare", "2");
    let names: std::collections::BTreeSet<&str> = checks(&rows).into_iter().collect();
    let expected = ["E-1", "E-2", "E-3", "E-4", "E-5", "E-6", "E-7", "E-8"];
    assert_eq!(names.into_iter().collect::<Vec<_>>(), expected);
    assert!(rows.iter().all(|row| row["pass"] == true), "{rows:#?}");
}

#[test]
fn a_run_with_copies_shows_how_much_nodes_train() {
    let place = scratch(&[]);
    for (policy, shows) in [("hadare", true), ("hadar", false)] {
        let run = ["run", "--generate", "m-5", "--policy", policy, "--out", policy];
        ends_with(place.path(), 0, &run, b"");
        let page = std::fs::read_to_string(place.path().join(policy).join("report.html")).unwrap();
        assert_eq!(page.contains("Cluster resource utilisation (CRU)"), shows, "{policy}");
        assert_eq!(page.contains("with pauses"), shows, "{policy}");
    }
}
