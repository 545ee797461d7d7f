//! `trainyard why`: what it answers about jobs that wait, run, ended and are not there, and the form of its JSON.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;
use trainyard_sched::decide::Reason;

/// On four GPUs: a runs first, b waits for it, c behind b, e comes late, f can never run.
const ROWS: &str = "job_id,submit_s,duration_s,gpus,tenant\n\
    a,0,3600,3,x\nb,10,600,4,y\nc,20,600,2,x\ne,4000,100,1,y\nf,30,10,64,y\n";

fn trainyard(place: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trainyard")).current_dir(place).args(arguments).output().unwrap()
}

fn run_under(policy: &str) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("rows.csv"), ROWS).unwrap();
    let arguments =
        ["run", "--trace", "rows.csv", "--cluster", "1x4:v100", "--policy", policy, "--out", "run"];
    let output = trainyard(place.path(), &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    place
}

#[track_caller]
fn why(place: &Path, code: i32, arguments: &[&str]) -> (String, String) {
    let output = trainyard(place, &[&["why", "run"], arguments].concat());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {out}{err}");
    (out, err)
}

fn json(place: &Path, arguments: &[&str]) -> Value {
    let (out, _) = why(place, 0, &[arguments, &["--output", "json"]].concat());
    serde_json::from_str(&out).unwrap()
}

#[test]
fn a_waiting_job_is_told_what_binds_who_is_ahead_and_when_it_starts() {
    let place = run_under("fifo");
    let (text, _) = why(place.path(), 0, &["c", "--at", "10m"]);
    for part in [
        "job c of x, 2 GPUs: waits at 10m 00s, 9m 40s so far",
        "fifo      behind: job b is ahead and waits for the same resource",
        "also      no_capacity: needs 2 workers",
        "place     2 of 3 that wait; 1 of those ahead want the same; ahead: b (y, 4 GPUs, 10m 00s left)",
        "held by   1 jobs on 3 GPUs: a (x, 3 GPUs, until 1h 00m)",
        "there is room when job a ends, by declaration at 1h 00m; but then others go first",
    ] {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
    assert!(text.lines().count() <= 14, "{text}");
    let answer = json(place.path(), &["c", "--at", "10m"]);
    assert_eq!(answer["reasons"][0]["reason"]["kind"], "behind");
    assert_eq!(answer["state"]["state"], "waits");
    let latest = answer["forecast"]["latest"].as_u64().unwrap();
    let earliest = answer["forecast"]["earliest"].as_u64().unwrap();
    assert!(
        earliest <= 4_200_000_000 && 4_200_000_000 <= latest,
        "c starts at 4200 s: {earliest} to {latest}"
    );
}

#[test]
fn a_smaller_gang_is_tried() {
    let place = run_under("fifo");
    let (text, _) = why(place.path(), 0, &["b", "--at", "10m"]);
    assert!(text.contains("would start now with 1 workers (1 GPUs)"), "{text}");
    assert!(text.contains("then it would start"), "{text}");
}

#[test]
fn without_a_moment_the_last_wait_is_shown() {
    let place = run_under("fifo");
    let answer = json(place.path(), &["b"]);
    assert_eq!(answer["is_last_wait"], true);
    assert_eq!(answer["state"]["state"], "waits");
    assert!(answer["at"].as_u64().unwrap() < 3_600_000_000);
    let (text, _) = why(place.path(), 0, &["b"]);
    assert!(text.contains("(the last moment at which it waited)"), "{text}");
}

#[test]
fn a_job_that_displaces_another_within_a_moment_never_waited() {
    let place = tempfile::tempdir().unwrap();
    let rows = "job_id,submit_s,duration_s,gpus\na,0,5000,8\nb,1000,100,8\nc,1050,1000,1\n";
    std::fs::write(place.path().join("rows.csv"), rows).unwrap();
    let run = ["run", "--trace", "rows.csv", "--cluster", "1x8:v100", "--policy", "srtf", "--out", "run"];
    assert!(trainyard(place.path(), &run).status.success());
    // It takes the place of a, which gives it back and waits until c has ended; c waits for b.
    let b = json(place.path(), &["b"]);
    assert_eq!((b["at"].as_u64(), &b["is_last_wait"]), (Some(1_000_000_000), &Value::Bool(false)), "{b}");
    for (job, from_s, to_s) in [("a", 1_100, 2_099), ("c", 1_050, 1_099)] {
        let answer = json(place.path(), &[job]);
        let at_s = answer["at"].as_u64().unwrap() / 1_000_000;
        assert!((from_s..=to_s).contains(&at_s) && answer["state"]["state"] == "waits", "{job}: {answer}");
    }
}

#[test]
fn jobs_that_run_have_ended_or_are_not_there_are_answered_too() {
    let place = run_under("fifo");
    let (text, _) = why(place.path(), 0, &["a", "--at", "10m"]);
    assert!(text.contains("runs at 10m 00s on 3 GPUs of n0 since 0s"), "{text}");
    assert!(text.contains("it claims 50m 00s more"), "{text}");
    let (text, _) = why(place.path(), 0, &["a", "--at", "70m"]);
    assert!(text.contains("ended at 1h 00m (completed)"), "{text}");
    let (text, _) = why(place.path(), 0, &["e", "--at", "10m"]);
    assert!(text.contains("not there yet at 10m 00s; it arrives at 1h 06m"), "{text}");
    let (text, _) = why(place.path(), 0, &["f", "--at", "10m"]);
    assert!(text.contains("unplaceable: needs 64 workers; the idle cluster holds at most 4"), "{text}");
}

#[test]
fn what_is_not_there_is_met_with_what_is() {
    let place = run_under("fifo");
    let (_, err) = why(place.path(), 2, &["nobody"]);
    assert!(err.contains("no job of this run is called `nobody`"), "{err}");
    let (_, err) = why(place.path(), 2, &["a", "--at", "99d"]);
    assert!(err.contains("the run goes from 0s to"), "{err}");
    let named = "job_id,submit_s,duration_s,gpus\nresnet-7,0,9,1\nbert-1,0,9,1\n";
    std::fs::write(place.path().join("rows.csv"), named).unwrap();
    let output = trainyard(
        place.path(),
        &["run", "--trace", "rows.csv", "--cluster", "1x4:v100", "--policy", "fifo", "--out", "run"],
    );
    assert!(output.status.success());
    let (_, err) = why(place.path(), 2, &["resnet-8"]);
    assert!(err.contains("similar are `resnet-7`"), "{err}");
    assert_eq!(json(place.path(), &["1"])["name"], "bert-1");
}

#[test]
fn the_form_of_the_answer_is_what_is_documented() {
    let place = run_under("easy");
    let answer = json(place.path(), &["c", "--at", "10m"]);
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(answer["schema"], "trainyard.why/1");
    let expected = [
        "at",
        "cpus",
        "forecast",
        "gpus",
        "is_last_wait",
        "job",
        "losses",
        "name",
        "policy",
        "reasons",
        "run_ends",
        "schema",
        "state",
        "tenant",
        "waits",
    ];
    let mut found = keys(&answer);
    found.sort();
    assert_eq!(found, expected);
    let documented =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/why.md")).unwrap();
    let parts = [&answer["waits"], &answer["forecast"], &answer["reasons"][0]];
    for key in expected.into_iter().map(str::to_owned).chain(parts.into_iter().flat_map(keys)) {
        assert!(documented.contains(&format!("`{key}`")), "docs/why.md does not speak of `{key}`");
    }
    for said in answer["reasons"].as_array().unwrap() {
        let reason: Reason = serde_json::from_value(said["reason"].clone()).unwrap();
        assert_eq!(said["remedy"], reason.remedy());
    }
}

#[test]
fn the_answer_is_the_same_on_any_number_of_threads() {
    let place = run_under("srtf");
    let on = |threads: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
        command.current_dir(place.path()).env("RAYON_NUM_THREADS", threads);
        command.args(["why", "run", "b", "--at", "10m", "--output", "json"]).output().unwrap().stdout
    };
    assert_eq!(on("1"), on("5"));
    assert!(!on("1").is_empty());
}
