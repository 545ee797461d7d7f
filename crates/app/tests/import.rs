//! Traces through the binary: imported, inspected, piped, and run with the same numbers whatever form they come in.

mod program;

use program::{ends_with, scratch};
use serde_json::Value;

/// Three jobs as Helios logs them, the last of them still running.
const HELIOS: &str = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n\
    a,u,x,4,8,1,COMPLETED,2020-06-09 18:00:00,2020-06-09 18:00:00,2020-06-09 18:10:00,600,0\n\
    b,u,y,1,2,1,FAILED,2020-06-09 18:01:00,2020-06-09 18:02:00,2020-06-09 18:02:30,30,60\n\
    c,u,x,2,4,1,RUNNING,2020-06-09 18:01:30,2020-06-09 18:01:30,,,0\n";

fn text(path: std::path::PathBuf) -> String {
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn an_imported_trace_runs_like_the_original() {
    let place = scratch(&[("log.csv", HELIOS)]);
    let import = ["trace", "import", "log.csv", "-o", "native.csv", "--output", "json"];
    let (stdout, stderr) = ends_with(place.path(), 0, &import, b"");
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((report["jobs"].as_u64(), report["counts"]["assumed"].as_u64()), (Some(3), Some(1)));
    assert_eq!(report["report"]["zone"].as_str(), Some("Asia/Shanghai"));
    assert!(stderr.contains("3 jobs are in native.csv"), "{stderr}");
    for (trace, out) in [("log.csv", "r1"), ("native.csv", "r2")] {
        let run = ["run", "--trace", trace, "--cluster", "1x4:v100", "--policy", "fifo", "--out", out];
        ends_with(place.path(), 0, &run, b"");
    }
    let jobs = text(place.path().join("r1/jobs.csv"));
    assert_eq!(jobs, text(place.path().join("r2/jobs.csv")));
    assert!(jobs.lines().any(|line| line.contains(",c,") && line.contains(",censored,")), "{jobs}");
    let summary: Value = serde_json::from_str(&text(place.path().join("r1/summary.json"))).unwrap();
    assert_eq!((summary["completed"].as_u64(), summary["censored"].as_u64()), (Some(2), Some(1)));
    assert_eq!(summary["avg_jct_completed_s"].as_f64(), Some(600.0));
}

#[test]
fn traces_go_through_pipes() {
    let place = scratch(&[("log.csv", HELIOS)]);
    ends_with(place.path(), 0, &["trace", "import", "log.csv", "-o", "native.csv"], b"");
    let (piped, report) = ends_with(place.path(), 0, &["trace", "import", "-", "-o", "-"], HELIOS.as_bytes());
    assert_eq!(piped, text(place.path().join("native.csv")));
    assert!(report.contains("standard input (helios)") && report.contains("still running"), "{report}");
    let run = ["run", "--trace", "-", "--cluster", "1x4:v100", "--policy", "fifo", "--output", "json"];
    let (summary, _) = ends_with(place.path(), 0, &run, piped.as_bytes());
    assert_eq!(serde_json::from_str::<Value>(&summary).unwrap()["jobs"].as_u64(), Some(3));
    let (made, _) = ends_with(place.path(), 0, &["trace", "generate", "--jobs", "5", "-o", "-"], b"");
    assert_eq!(made.lines().count(), 6);
    assert!(!place.path().join("-").exists(), "no file has that name");
}

#[test]
fn strict_imports_end_with_3_and_mending_is_an_option() {
    let early =
        HELIOS.replace("2020-06-09 18:02:00,2020-06-09 18:02:30", "2020-06-09 18:00:00,2020-06-09 18:02:30");
    let place = scratch(&[("log.csv", &early)]);
    let (stdout, _) = ends_with(place.path(), 0, &["trace", "inspect", "log.csv"], b"");
    assert!(stdout.contains("left out, 1 times: the start is before the submission"), "{stdout}");
    assert!(stdout.contains("log.csv:3: start_time 2020-06-09 18:00:00"), "{stdout}");
    ends_with(place.path(), 3, &["trace", "inspect", "log.csv", "--strict"], b"");
    let (stdout, _) =
        ends_with(place.path(), 3, &["trace", "import", "log.csv", "--repair", "clamp", "--strict"], b"");
    assert!(stdout.contains("repaired, 1 times"), "{stdout}");
    ends_with(place.path(), 2, &["trace", "inspect", "log.csv", "--repair", "everything"], b"");
}

#[test]
fn what_was_said_about_reading_is_written_down() {
    let twice =
        "job_id,submit_s,duration_s,gpus,gpu_types,status\na,0,9,1,H900,\na,1,9,1,,\nb,2,9,1,,censored\n";
    let place = scratch(&[("jobs.csv", twice)]);
    let mut arguments = vec!["run", "--trace", "jobs.csv", "--cluster", "1x4:h100", "--policy", "fifo"];
    let (_, stderr) = ends_with(place.path(), 2, &arguments, b"");
    assert!(stderr.contains("no --map renames it"), "{stderr}");
    arguments.extend(["--map", "H900=H100"]);
    let (_, stderr) = ends_with(place.path(), 2, &arguments, b"");
    assert!(stderr.contains("--on-duplicate"), "{stderr}");
    arguments.extend(["--on-duplicate", "suffix", "--count-censored", "--tz", "Europe/Berlin"]);
    ends_with(place.path(), 0, &arguments, b"");
    let settings: toml::Table = text(place.path().join("trainyard-out/run.toml")).parse().unwrap();
    let reading = settings["jobs"]["reading"].as_table().unwrap();
    assert_eq!(reading["on_duplicate"].as_str(), Some("suffix"));
    assert_eq!(reading["map"]["h900"].as_str(), Some("h100"));
    assert_eq!(
        (reading["count_censored"].as_bool(), reading["tz"].as_str()),
        (Some(true), Some("Europe/Berlin"))
    );
    let jobs = text(place.path().join("trainyard-out/jobs.csv"));
    assert!(jobs.contains(",a-2,") && !jobs.contains("censored"), "{jobs}");
    ends_with(place.path(), 0, &["replay", "trainyard-out"], b"");
    let plain = ["run", "--generate", "day", "--jobs", "5", "--policy", "fifo", "--tz", "UTC"];
    let (_, stderr) = ends_with(place.path(), 2, &plain, b"");
    assert!(stderr.contains("--trace"), "these arguments need a trace: {stderr}");
}

/// Jobs with measured speeds go the same way from a trace of ours, and their speeds beside others are said to be missing.
#[test]
fn speeds_by_gpu_type_survive_in_a_native_trace() {
    let place = scratch(&[]);
    let made = ["trace", "generate", "--preset", "gavel-a", "--jobs", "12", "--out", "native.csv"];
    let (_, stderr) = ends_with(place.path(), 0, &made, b"");
    assert!(text(place.path().join("native.csv")).contains("v100 x1 "), "{stderr}");
    assert!(stderr.contains("12 jobs go beside others"), "{stderr}");
    let run = |jobs: &[&str], out: &str| {
        let policy = ["--policy", "gavel", "--cluster", "4x1:v100,4x1:p100,4x1:k80", "--out", out];
        ends_with(place.path(), 0, &[&["run"], jobs, &policy[..]].concat(), b"");
        text(place.path().join(out).join("jobs.csv"))
    };
    let native = run(&["--trace", "native.csv"], "r1");
    let generated = run(&["--generate", "gavel-a", "--jobs", "12"], "r2");
    let ends = |jobs: &str| -> Vec<f64> {
        let rows = jobs.lines().skip(1).map(|row| row.split(',').nth(8).unwrap().parse().unwrap());
        rows.collect()
    };
    let (native, generated) = (ends(&native), ends(&generated));
    assert_eq!(native.len(), 12);
    for (one, other) in native.iter().zip(&generated) {
        // Times are written in microseconds.
        assert!((one / other - 1.0).abs() < 1e-6, "{native:?} {generated:?}");
    }
}

/// How the example of jobs of tasks was made; `examples/README.md` says so too.
const TASKS: [&str; 9] =
    ["trace", "generate", "--preset", "mlfs-small", "--jobs", "24", "--days", "0.15", "--seed=7"];

#[test]
fn the_example_of_jobs_of_tasks_is_what_the_generator_makes_and_load_control_ends_some_of_them() {
    let place = scratch(&[]);
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let example = text(examples.join("tasks.csv"));
    let (made, _) = ends_with(place.path(), 0, &[&TASKS[..], &["-o", "-"]].concat(), b"");
    assert!(made == example, "make it anew: trainyard {} -o examples/tasks.csv", TASKS.join(" "));
    let how = format!("trainyard {} -o tasks.csv", TASKS.join(" "));
    assert!(text(examples.join("README.md")).contains(&how), "`{how}` is not in the README of the examples");
    std::fs::write(place.path().join("tasks.csv"), &example).unwrap();
    let run = |policy: &str| -> Value {
        let run = ["run", "--trace", "tasks.csv", "--cluster", "2x4:v100+32cpu+244gb+10gbit", "--strict"];
        let more = ["--report-every", "1m", "--policy", policy, "--output", "json"];
        let (summary, _) = ends_with(place.path(), 0, &[&run[..], &more[..]].concat(), b"");
        serde_json::from_str(&summary).unwrap()
    };
    let (alone, controlled) = (run("mlf-h"), run("mlf-c(mlf-h)"));
    for summary in [&alone, &controlled] {
        assert_eq!((summary["jobs"].as_u64(), summary["completed"].as_u64()), (Some(24), Some(24)));
        assert!(summary["objectives"]["traffic_bytes"].as_f64().unwrap() > 1e9, "edges cost something");
    }
    assert!(alone["early"].is_null());
    let early = &controlled["early"];
    assert!(
        early["jobs"].as_u64().unwrap() > 12 && early["gpu_hours_saved"].as_f64().unwrap() > 5.0,
        "{early}"
    );
    let jct = |summary: &Value| summary["avg_jct_s"].as_f64().unwrap();
    assert!(jct(&controlled) < jct(&alone) / 2.0, "{} {}", jct(&controlled), jct(&alone));
}
