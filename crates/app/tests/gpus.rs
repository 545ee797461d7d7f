//! GPUs of this machine, told by a driver that is made up for the purpose.

mod daemon;

use std::path::{Path, PathBuf};
use std::process::Command;

use daemon::{Daemon, trainyard, until};
use serde_json::json;

/// Two GPUs that can be given; see `driver/nvml.c`.
fn driver(place: &Path) -> PathBuf {
    let (source, library) =
        (concat!(env!("CARGO_MANIFEST_DIR"), "/tests/driver/nvml.c"), place.join("libnvidia-ml.so.1"));
    let status = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    assert!(status.expect("a C compiler, which every Rust toolchain links with").success());
    library
}

#[test]
fn what_the_driver_tells_is_the_cluster_if_nobody_describes_another() {
    let place = tempfile::tempdir().unwrap();
    let library = driver(place.path());
    let check = |arguments: &[&str]| {
        let mut command = trainyard(place.path());
        let done =
            command.args(["config", "check", "--nvml"]).arg(&library).args(arguments).output().unwrap();
        (done.status.code(), String::from_utf8(done.stderr).unwrap())
    };
    let (code, text) = check(&[]);
    assert!(code == Some(0) && text.contains("1 nodes, 2 GPUs (2 h200)"), "{code:?} {text}");
    let (code, text) = check(&["--gpus", "virtual"]);
    assert!(code == Some(0) && !text.contains("GPU"), "{code:?} {text}");
    assert_eq!(check(&["--cluster", "1x2:h200", "--gpus", "real"]).0, Some(0));
    let (code, text) = check(&["--cluster", "1x4:h200", "--gpus", "real"]);
    assert!(code == Some(2) && text.contains("this machine has 2 GPUs in one node"), "{code:?} {text}");
    let mut command = trainyard(place.path());
    let none =
        command.args(["config", "check", "--gpus", "real", "--nvml", "/nowhere/nvml.so"]).output().unwrap();
    let text = String::from_utf8(none.stderr).unwrap();
    assert!(none.status.code() == Some(2) && text.contains("/nowhere/nvml.so"), "{text}");
}

#[test]
fn jobs_are_given_the_gpus_that_are_theirs_by_the_numbers_of_the_driver() {
    let place = tempfile::tempdir().unwrap();
    let library = driver(place.path());
    let cluster = "[[nodes]]\ncpus = 1\n\n[[nodes]]\ngpus = 2\ngpu_type = \"h200\"\ncpus = 4\n";
    let mut daemon = Daemon::begin_on(cluster, &["--nvml", library.to_str().unwrap()]);
    let tells = "printf '%s %s' \"$CUDA_DEVICE_ORDER\" \"$CUDA_VISIBLE_DEVICES\" > .told; mv .told told; exec sleep 1000";
    let told = |gpus: f64| {
        let body = json!({ "command": ["sh", "-c", tells], "gpus": gpus, "cpus": 0.1 });
        let job = daemon.submit(&daemon.admin, &body.to_string());
        let file = daemon.folder().join(format!("jobs/{job}/work/told"));
        until("what the job was told", || std::fs::read_to_string(&file).ok())
    };
    let both = [told(1.0), told(1.0)];
    assert_eq!(both, ["PCI_BUS_ID 0", "PCI_BUS_ID 1"]);
    assert_eq!(told(0.0), "PCI_BUS_ID ");
    let third = daemon.submit(&daemon.admin, &json!({ "command": ["true"], "gpus": 1 }).to_string());
    let why = daemon.get(&daemon.admin, &format!("/v1/jobs/{third}")).ok();
    assert_eq!(why["state"], "waiting", "{why}");
    // What runs has real GPUs, so nothing else is given cores for such because the driver happens not to answer.
    daemon.leave();
    let mut command = trainyard(daemon.place.path());
    let serve = ["serve", "--cluster", "cluster.toml", "--folder", "live", "--listen", "127.0.0.1:0"];
    let refused = command.args(serve).args(["--nvml", "/nowhere/nvml.so"]).output().unwrap();
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(
        refused.status.code() == Some(2) && text.contains("were real, and now they would be virtual"),
        "{text}"
    );
    daemon.go_on(&["--nvml", library.to_str().unwrap()]);
}
