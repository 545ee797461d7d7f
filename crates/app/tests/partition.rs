//! Models that are cut on the command line, and the jobs that come of it.

use std::path::Path;
use std::process::Command;

const MODEL: &str = "name = \"small\"\ncompute_s = 2.0\nmini_batch = 10\n\
    [[layers]]\nname = \"a\"\nparameters = 100\nactivation_bytes = 5\n\
    [[layers]]\nname = \"b\"\nparameters = 300\nactivation_bytes = 7\n\
    [[layers]]\nname = \"c\"\nparameters = 400\n";

fn trainyard(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_trainyard")).args(arguments).current_dir(folder).output();
    let ran = ran.expect("the program can be started");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it is text");
    (ran.status.code().expect("it ended by itself"), text(ran.stdout), text(ran.stderr))
}

fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a folder");
    std::fs::write(place.path().join("model.toml"), MODEL).expect("it can be written");
    place
}

#[test]
fn a_chain_is_cut_shown_and_written() {
    let place = place();
    let cut = ["trace", "partition", "model.toml", "--parts", "2", "-o", "job.csv"];
    let (code, told, _) = trainyard(place.path(), &cut);
    assert_eq!(code, 0);
    assert!(told.contains("small: 2 parts, 2 tasks; an iteration takes 2.0000 s"), "{told}");
    assert!(told.contains("a to b") && told.contains("1.000 times the mean"), "{told}");
    let (_, json, _) =
        trainyard(place.path(), &["trace", "partition", "model.toml", "--parts", "2", "--output", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    // 7 bytes of each of 10 samples go there and their gradients back.
    assert_eq!(json["cuts"], serde_json::json!([{"from": 0, "to": 1, "bytes": 140}]));
    assert_eq!(json["parts"][1]["compute_s"], 1.0);
    let (code, seen, _) = trainyard(place.path(), &["trace", "inspect", "job.csv", "--strict"]);
    assert_eq!(code, 0, "{seen}");
    assert!(
        seen.contains("1 jobs are graphs of tasks: tasks 2 to 2, 2.0 on average; edges 1 to 1"),
        "{seen}"
    );
    let run = ["run", "--trace", "job.csv", "--cluster", "1x4:v100", "--policy", "fifo", "--output", "json"];
    let (code, ran, told) = trainyard(place.path(), &run);
    assert_eq!(code, 0, "{told}");
    let ran: serde_json::Value = serde_json::from_str(&ran).expect("it is JSON");
    assert_eq!(ran["makespan_s"], 200.0, "100 iterations of 2 s");
}

#[test]
fn layers_are_cut_into_pieces_for_replicas_around_a_server() {
    let place = place();
    let cut = [
        "trace",
        "partition",
        "model.toml",
        "--parts",
        "6",
        "--cut",
        "layers",
        "--replicas",
        "2",
        "--together",
        "server",
        "--gpus",
        "0.25",
        "--partial",
        "--output",
        "json",
    ];
    let (code, json, told) = trainyard(place.path(), &cut);
    assert_eq!(code, 0, "{told}");
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    let pieces: Vec<_> =
        json["parts"].as_array().expect("parts").iter().map(|part| part["piece"][1].clone()).collect();
    assert_eq!(pieces, [1, 2, 2, 3, 3, 3]);
    assert_eq!((&json["tasks"], &json["graph"]["partial"]), (&13.into(), &true.into()));
    // 800 parameters of 4 bytes go to the server from the three pieces of the last layer, and come back.
    let to_server: u64 = json["cuts"]
        .as_array()
        .expect("cuts")
        .iter()
        .filter(|cut| cut["to"].is_null())
        .map(|cut| cut["bytes"].as_u64().expect("bytes"))
        .sum();
    assert_eq!(to_server, 2 * 3200);
    let (code, csv, _) = trainyard(place.path(), &[&cut[..14], &["-o", "-"]].concat());
    assert_eq!(code, 0);
    assert!(
        csv.starts_with("job_id,") && csv.contains(" replica=1 ") && csv.contains("replica=none"),
        "{csv}"
    );
}

#[test]
fn what_cannot_be_cut_is_an_error_with_what_to_try() {
    let place = place();
    for (arguments, what) in [
        (&["model.toml", "--parts", "9"][..], "a chain of 3 layers cannot be cut into 9 parts"),
        (&["model.toml", "--parts", "0"], "ask for at least one"),
        (&["none.toml", "--parts", "1"], "cannot read the model none.toml"),
        (&["model.toml", "--parts", "2", "--compute-s=-1"], "seconds above 0"),
    ] {
        let (code, _, told) = trainyard(place.path(), &[&["trace", "partition"], arguments].concat());
        assert_eq!(code, 2, "{told}");
        assert!(told.contains(what), "{told}");
    }
}
