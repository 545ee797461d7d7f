//! What was learned, on the command line: training, evaluating, running, and replaying without the file.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use trainyard_sched::nets::{Dense, Mlp, Weights};
use trainyard_sched::policies::dl2::Schema;

const SCHEMA: Schema = Schema { jobs: 20, kinds: 8 };

fn trainyard(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_trainyard")).args(arguments).current_dir(folder).output();
    let ran = ran.expect("the program can be started");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it is text");
    (ran.status.code().expect("it ended by itself"), text(ran.stdout), text(ran.stderr))
}

/// Weights that see nothing and always prefer the same: the larger the number, the sooner.
fn write(path: &Path, schema: Schema, prefers: impl Fn(usize) -> f32) {
    let bias = (0..schema.actions()).map(prefers).collect();
    let layer = Dense::new(schema.inputs(), vec![0.0; schema.inputs() * schema.actions()], bias);
    let policy = Mlp::new(vec![layer]);
    let weights = Weights { schema: schema.name(), made: BTreeMap::new(), policy, value: None };
    std::fs::write(path, weights.to_bytes()).expect("it can be written");
}

fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a folder");
    // Stopping first: every job has its smallest gang and nothing more.
    write(&place.path().join("stops.safetensors"), SCHEMA, |action| if action == 60 { 1.0 } else { 0.0 });
    // A worker for the first, a server for the first, and so on; stopping last.
    write(&place.path().join("goes_on.safetensors"), SCHEMA, |action| -(action as f32));
    place
}

fn run(place: &Path, policy: &str, out: &str) -> serde_json::Value {
    let arguments = ["run", "--generate", "c12u", "--jobs", "12", "--policy", policy];
    let others = ["--output", "json", "--out", out];
    let (code, told, said) = trainyard(place, &[&arguments[..], &others].concat());
    assert_eq!(code, 0, "{said}");
    serde_json::from_str(&told).expect("it is JSON")
}

#[test]
fn weights_decide_and_a_run_is_told_again_without_their_file() {
    let place = place();
    let jct = |policy: &str, out: &str| run(place.path(), policy, out)["avg_jct_s"].as_f64().unwrap();
    let stops = jct("dl2{weights = 'stops.safetensors'}", "stops");
    let goes_on = jct("dl2{weights = 'goes_on.safetensors'}", "goes_on");
    let nothing = jct("dl2", "nothing");
    assert!(stops != goes_on && stops != nothing, "{stops} {goes_on} {nothing}");
    assert_eq!(nothing, jct("slot-drf", "drf"), "without weights a rule stands in");
    let label = run(place.path(), "dl2{weights = 'stops.safetensors'}", "again")["policy"].to_string();
    assert!(label.len() < 60 && label.contains("dl2{weights="), "{label}");
    std::fs::remove_file(place.path().join("stops.safetensors")).unwrap();
    let (code, told, said) = trainyard(place.path(), &["replay", "stops"]);
    assert_eq!(code, 0, "{told}{said}");
}

#[test]
fn who_has_learned_nothing_is_no_contender_and_said_to_be_none() {
    let place = place();
    let arguments = ["compare", "--generate", "c12u", "--jobs", "4", "--output", "json"];
    let (code, all, said) = trainyard(place.path(), &arguments);
    assert_eq!(code, 0, "{said}");
    assert!(all.contains("slot-drf") && !all.contains("dl2"), "{all}");
    let (code, _, said) =
        trainyard(place.path(), &[&arguments[..], &["--policies", "slot-drf,dl2"]].concat());
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("warning: dl2 has nothing that it learned"), "{said}");
    let with = "dl2{weights = 'stops.safetensors'}";
    let (_, all, said) = trainyard(place.path(), &[&arguments[..], &["--policies", with]].concat());
    assert!(all.contains("dl2") && !said.contains("warning: dl2"), "{said}");
}

#[test]
fn weights_that_do_not_fit_are_refused_with_a_reason() {
    let place = place();
    write(&place.path().join("other.safetensors"), Schema { jobs: 10, kinds: 8 }, |_| 0.0);
    std::fs::write(place.path().join("broken.safetensors"), b"no weights at all").unwrap();
    for (file, expected) in [
        ("missing.safetensors", "missing.safetensors"),
        ("broken.safetensors", "trainyard train"),
        ("other.safetensors", "dl2 1, 10 jobs, 8 kinds"),
        ("neither a file nor weights", "weights"),
    ] {
        let policy = format!("dl2{{weights = '{file}'}}");
        let (code, _, said) = trainyard(place.path(), &["run", "--generate", "c12u", "--policy", &policy]);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(expected) && said.len() < 600, "{file}: {said}");
    }
    let fits = "dl2{weights = 'other.safetensors', jobs = 10}";
    let (code, _, said) =
        trainyard(place.path(), &["run", "--generate", "c12u", "--jobs", "4", "--policy", fits]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn evaluating_says_whom_it_beats_and_whom_not() {
    let place = place();
    let evaluate = |weights: &str, more: &[&str]| {
        let arguments = ["evaluate", weights, "--generate", "c12u", "--jobs", "12", "--workloads", "6"];
        trainyard(place.path(), &[&arguments[..], &["--against", "slot-drf,slot-fifo"], more].concat())
    };
    let (code, table, said) = evaluate("stops.safetensors", &[]);
    assert_eq!(code, 0, "{said}");
    assert!(table.contains("learned takes longer by") && table.contains("slot-fifo"), "{table}");
    assert!(said.contains("On 6 workloads") && said.contains("is the best"), "{said}");
    let (_, json, _) = evaluate("stops.safetensors", &["--output", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(json[0]["longer"]["mean"], 0.0, "it takes as long as itself");
    assert_eq!(json[1]["avg_jct_s"]["replicates"], 6);
    let (code, _, said) = evaluate("none.safetensors", &[]);
    assert_eq!(code, 2, "{said}");
}

const TRAIN: [&str; 13] = [
    "train",
    "dl2",
    "--generate",
    "c12u",
    "--jobs",
    "8",
    "--workloads",
    "2",
    "--school",
    "3",
    "--updates",
    "3",
    "--settings",
];

#[test]
fn training_writes_weights_or_says_what_is_missing() {
    let place = place();
    std::fs::write(
        place.path().join("settings.toml"),
        "[school]\ntraces = 1\nbatch = 16\n[practice]\nbatch = 16\nbegin_at = 16\n",
    )
    .unwrap();
    let train = |out: &str| {
        let others = ["settings.toml", "--log", "log.jsonl", "--out", out];
        trainyard(place.path(), &[&TRAIN[..], &others].concat())
    };
    let (code, told, said) = train("first.safetensors");
    if !cfg!(feature = "learn") {
        assert_eq!(code, 2);
        assert!(said.contains("--features learn"), "{said}");
        return;
    }
    assert_eq!(code, 0, "{said}");
    assert!(told.contains("after 3 steps of practice"), "{told}");
    let log = std::fs::read_to_string(place.path().join("log.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 6, "{log}");
    let read = |file: &str| std::fs::read(place.path().join(file)).unwrap();
    let weights = Weights::from_bytes(&read("first.safetensors")).unwrap();
    assert!(weights.made["command"].contains("train dl2") && weights.value.is_some());
    assert_eq!(train("second.safetensors").0, 0);
    let policy = |file: &str| Weights::from_bytes(&read(file)).unwrap().policy;
    assert_eq!(policy("first.safetensors"), policy("second.safetensors"));
    let nothing = ["--school", "0", "--updates", "0", "--generate", "c12u"];
    let (code, _, said) = trainyard(place.path(), &[&["train", "dl2"], &nothing[..]].concat());
    assert_eq!(code, 2);
    assert!(said.contains("nothing to learn"), "{said}");
    let (code, _, said) = train("wrong.name");
    assert_eq!(code, 2);
    assert!(said.contains(".safetensors"), "{said}");
    std::fs::write(place.path().join("settings.toml"), "[practice]\ngama = 0.5\n").unwrap();
    let (code, _, said) = train("third.safetensors");
    assert_eq!(code, 2);
    assert!(said.contains("settings.toml") && said.contains("gama") && said.contains("gamma"), "{said}");
    let (code, _, said) = trainyard(
        place.path(),
        &["run", "--generate", "c12u", "--jobs", "4", "--policy", "dl2{weights = 'first.safetensors'}"],
    );
    assert_eq!(code, 0, "{said}");
}
