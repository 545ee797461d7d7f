//! Tables of throughputs and presets through the binary: what is estimated, written and shown, and what is refused.

mod program;

use program::{ends_with, scratch};

/// Five kinds of jobs on three types. Of `rnn (batch size 8)` two figures are missing, of `new` all, and `cnn (batch size 64)`
/// does not fit on `small`.
const PARTIAL: &str = "model,gpus,beside,large,middle,small\n\
    cnn (batch size 16),1,,40,20,10\ncnn (batch size 32),1,,24,12,6\ncnn (batch size 64),1,,12,6,0\n\
    rnn (batch size 4),1,,30,18,9\nrnn (batch size 8),1,,20,,\nnew,1,,,,\n";

fn place() -> tempfile::TempDir {
    scratch(&[("partial.csv", PARTIAL)])
}

#[test]
fn what_was_not_measured_is_estimated_and_can_be_used() {
    let place = place();
    let arguments = ["throughput", "estimate", "partial.csv", "-o", "filled.csv", "--page", "page.html"];
    let (text, told) = ends_with(place.path(), 0, &arguments, b"");
    // The other batch of the same model: 20 * 18 / 30 and 20 * 9 / 30.
    for expected in ["~12.00", "~6.000", "does not fit", "half are found again within"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(told.contains("without any figure, so left as they are: new"), "{told}");
    let filled = std::fs::read_to_string(place.path().join("filled.csv")).unwrap();
    assert!(filled.starts_with("model,gpus,beside,large,middle,small\n"), "{filled}");
    let row = filled.lines().find(|line| line.starts_with("rnn (batch size 8)")).expect("it is filled");
    let figures: Vec<f64> = row.split(',').skip(3).map(|field| field.parse().unwrap()).collect();
    assert!((figures[0] - 20.0).abs() < 1e-12 && (figures[1] - 12.0).abs() < 1e-9, "{figures:?}");
    assert!((figures[2] - 6.0).abs() < 1e-9, "{figures:?}");
    let page = std::fs::read_to_string(place.path().join("page.html")).unwrap();
    assert!(page.contains("rnn (batch size 8)") && page.contains("small ~"), "the page shows it");
    // The filled table says nothing new of itself, and is one that is read.
    let (json, _) =
        ends_with(place.path(), 0, &["throughput", "estimate", "filled.csv", "--output", "json"], b"");
    let all: serde_json::Value = serde_json::from_str(&json).unwrap();
    let kinds: Vec<&str> =
        all["alone"].as_array().unwrap().iter().map(|cell| cell["known"].as_str().unwrap()).collect();
    assert!(kinds.iter().all(|kind| matches!(*kind, "measured" | "does_not_fit")), "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| **kind == "does_not_fit").count(), 1);
}

#[test]
fn a_table_of_throughputs_decides_how_fast_a_trace_goes() {
    let place = place();
    let trace = "cnn (batch size 16)\tpython3\t--steps\t1\t7200\t0\t1\n";
    std::fs::write(place.path().join("jobs.trace"), trace).unwrap();
    let makespan_s = |cluster: &str| {
        let arguments = [
            "run",
            "--trace",
            "jobs.trace",
            "--cluster",
            cluster,
            "--throughputs",
            "partial.csv",
            "--policy",
            "fifo",
            "--output",
            "json",
        ];
        let (json, _) = ends_with(place.path(), 0, &arguments, b"");
        let summary: serde_json::Value = serde_json::from_str(&json).unwrap();
        summary["makespan_s"].as_f64().unwrap()
    };
    assert_eq!([makespan_s("1x1:large"), makespan_s("1x1:small")], [180.0, 720.0]);
    let of = |arguments: &[&str]| ends_with(place.path(), 2, arguments, b"").1;
    let run = ["run", "--trace", "jobs.trace", "--cluster", "1x1:large", "--policy", "fifo", "--throughputs"];
    assert!(of(&[&run[..], &["nowhere.csv"]].concat()).contains("nowhere.csv"));
    assert!(of(&[&run[..], &["jobs.trace"]].concat()).contains("model,gpus"));
}

#[test]
fn presets_have_options() {
    let place = place();
    let run = |preset: &str, code| {
        ends_with(
            place.path(),
            code,
            &["run", "--generate", preset, "--policy", "gavel", "--output", "json"],
            b"",
        )
    };
    let summary = |preset: &str| -> serde_json::Value { serde_json::from_str(&run(preset, 0).0).unwrap() };
    let plain = summary("gavel-a");
    assert_eq!((plain["jobs"].as_u64(), plain["completed"].as_u64()), (Some(30), Some(30)));
    let weighted = summary("gavel-a{priorities = true}");
    assert_ne!(plain["avg_jct_s"], weighted["avg_jct_s"]);
    let told = std::fs::read_to_string(place.path().join("trainyard-out/run.toml")).unwrap();
    assert!(told.contains("priorities = true"), "{told}");
    assert!(run("gavel-a{priority = true}", 2).1.contains("did you mean `priorities`"));
    assert!(run("gavel-a{priorities}", 2).1.contains("gavel-a{priorities}"));
    assert!(run("gavel-d", 2).1.contains("gavel-"));
    let (_, told) =
        ends_with(place.path(), 0, &["trace", "generate", "--preset", "gavel-a", "-o", "jobs.csv"], b"");
    assert!(told.contains("How fast 30 jobs go beside others"), "{told}");
    let written = std::fs::read_to_string(place.path().join("jobs.csv")).unwrap();
    assert!(written.lines().nth(1).unwrap().contains("v100 x1 "), "speeds alone are in the trace: {written}");
}
