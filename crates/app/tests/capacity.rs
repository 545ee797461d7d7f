//! Public lists of nodes and series of capacity through the binary.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const JOBS: &str = "job_id,submit_s,duration_s,gpus\na,0,600,8\nb,0,600,8\nc,20,600,8\n";
const SPOT: &str = "{\"metadata\": {\"gap_seconds\": 310}, \"data\": [2, 2, 0, 0, 0, 2, 2]}";
const TOPOLOGY: &str = "ip,DSW,PSW,ASW\nhost-a,G6,P1,S1\nhost-b,G6,P1,S2\n";

fn scratch_folder() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    for (name, text) in [("jobs.csv", JOBS), ("spot.json", SPOT), ("topo.csv", TOPOLOGY)] {
        std::fs::write(place.path().join(name), text).unwrap();
    }
    place
}

#[track_caller]
fn ends_with(place: &Path, code: i32, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    let output = command.current_dir(place).args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
    output
}

fn printed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn run<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut all =
        vec!["run", "--trace", "jobs.csv", "--policy", "fifo", "--journal", "none", "--output", "json"];
    all.extend(more);
    all
}

#[test]
fn jobs_wait_and_fall_while_nodes_are_away() {
    let place = scratch_folder();
    let steady = printed(&ends_with(place.path(), 0, &run(&["--cluster", "2x8:v100"])));
    let spot = run(&["--capacity", "spot.json?gpus=8,type=v100", "--out", "spot"]);
    let changing = printed(&ends_with(place.path(), 0, &spot));
    assert_eq!((steady["makespan_s"].as_f64(), steady["completed"].as_f64()), (Some(1200.0), Some(3.0)));
    // The third job begins at 600 s and falls at 620 s, when all nodes leave; it begins anew at 1550 s.
    assert_eq!((changing["makespan_s"].as_f64(), changing["completed"].as_f64()), (Some(2150.0), Some(3.0)));
    assert_eq!(changing["gpu_seconds_lost"].as_f64(), Some(20.0 * 8.0));
    let kept = std::fs::read_to_string(place.path().join("spot/run.toml")).unwrap();
    let kept: toml::Table = kept.parse().unwrap();
    let capacity = &kept["world"]["capacity"];
    assert_eq!(capacity["file"].as_str(), Some("spot.json?gpus=8,type=v100"));
    assert_eq!(capacity["sha256_16"].as_str().map(str::len), Some(16));
    assert_eq!(
        (capacity["changes"].as_integer(), kept["world"]["failures"].as_integer()),
        (Some(4), Some(0))
    );
    assert_eq!(kept["cluster"]["words"].as_str(), Some("2x8:v100"));
}

#[test]
fn a_drain_loses_nothing() {
    let place = scratch_folder();
    let drained = run(&["--capacity", "spot.json?leave=drain", "--cluster", "2x8:v100"]);
    let drained = printed(&ends_with(place.path(), 0, &drained));
    assert_eq!(
        (drained["makespan_s"].as_f64(), drained["gpu_seconds_lost"].as_f64()),
        (Some(1200.0), Some(0.0))
    );
}

#[test]
fn what_is_missing_is_asked_for() {
    let place = scratch_folder();
    let asked = told(&ends_with(place.path(), 2, &run(&["--capacity", "spot.json"])));
    assert!(asked.contains("spot.json?gpus=8,type=v100"), "{asked}");
    let asked = told(&ends_with(place.path(), 2, &run(&["--cluster", "topo.csv"])));
    assert!(asked.contains("topo.csv?gpus=8,type=h800"), "{asked}");
    let small =
        told(&ends_with(place.path(), 2, &run(&["--capacity", "spot.json", "--cluster", "1x8:v100"])));
    assert!(small.contains("up to 2 nodes, but it applies to 1 of the cluster"), "{small}");
    let wrong = told(&ends_with(place.path(), 2, &run(&["--capacity", "jobs.csv", "--cluster", "2x8:v100"])));
    assert!(wrong.contains("give it as --trace"), "{wrong}");
    let wrong = told(&ends_with(place.path(), 2, &run(&["--cluster", "spot.json"])));
    assert!(wrong.contains("give it as --capacity"), "{wrong}");
}

#[test]
fn clusters_and_series_can_be_looked_at() {
    let place = scratch_folder();
    let look = |arguments: &[&str]| {
        let mut all = vec!["cluster", "inspect"];
        all.extend(arguments);
        String::from_utf8(ends_with(place.path(), 0, &all).stdout).unwrap()
    };
    let topology = look(&["topo.csv?gpus=8,type=h800"]);
    assert!(topology.contains("2 nodes (host-a, host-b), 16 GPUs, 2 racks of 1 to 1 nodes"), "{topology}");
    assert!(topology.contains("each ASW is a rack"), "{topology}");
    let series = look(&["spot.json"]);
    assert!(series.contains("capacity over 36m 10s: 0 to 2 nodes, 1.1 on average, 2 changes"), "{series}");
    let both = look(&["4x8:v100", "--capacity", "spot.json", "--output", "json"]);
    let both: Value = serde_json::from_str(&both).unwrap();
    assert_eq!((both["nodes"].as_f64(), both["capacity"]["node_changes"].as_f64()), (Some(4.0), Some(6.0)));
}

#[test]
fn a_node_that_drains_from_the_start_takes_no_job() {
    let place = scratch_folder();
    let nodes = "NodeName=a Gres=gpu:v100:8 State=IDLE\nNodeName=b Gres=gpu:v100:8 State=IDLE+DRAIN\n";
    std::fs::write(place.path().join("nodes.txt"), nodes).unwrap();
    let run = printed(&ends_with(place.path(), 0, &run(&["--cluster", "nodes.txt"])));
    assert_eq!((run["makespan_s"].as_f64(), run["completed"].as_f64()), (Some(1800.0), Some(3.0)));
}
