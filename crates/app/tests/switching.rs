//! Policies that are switched while a daemon is at work: each decides from then on, a bad one changes nothing, and the log
//! of steps says what was switched and what was refused. And what an owner says a job is for reaches the policies.

mod daemon;

use daemon::{Daemon, until};
use serde_json::{Value, json};

/// It reports a loss that falls, for as long as it is let.
const REPORTS: &str = r#"i=0; while true; do i=$((i+1)); echo "{\"iteration\":$i,\"loss\":$((1000/i)).5}" >> "$TRAINYARD_PROGRESS_FILE"; sleep 0.05; done"#;

fn put(daemon: &Daemon, body: &Value) -> daemon::Answer {
    daemon.ask(&daemon.admin, "PUT", "/v1/policy", Some(&body.to_string()), None)
}

/// A job on the whole cluster that claims to take so long.
fn whole(daemon: &Daemon, name: &str, duration: &str) -> u64 {
    let job = json!({ "name": name, "tenant": "crimson", "command": ["sleep", "1000"], "workers": 4,
        "duration": duration });
    daemon.submit(&daemon.admin, &job.to_string())
}

fn job(daemon: &Daemon, number: u64) -> Value {
    daemon.get(&daemon.admin, &format!("/v1/jobs/{number}")).ok()
}

fn cancel(daemon: &Daemon, number: u64) {
    assert!(daemon.client(&["cancel", &number.to_string()]).status.success());
    daemon.wait_for(number, &["ended"]);
}

/// The changes of the policy that the log of steps tells, refused ones with a mark, once there are so many.
fn switches(daemon: &Daemon, many: usize) -> Vec<String> {
    let mut steps = 8;
    until("the log of all switches", || {
        steps *= 2;
        let told = daemon.events(&daemon.admin, "?after=0", None, steps);
        let happened = told.iter().flat_map(|(_, step)| step["happened"].as_array().unwrap().clone());
        let switch = |one: Value| {
            let detail = one["detail"].as_str().unwrap_or_default().to_owned();
            match one["what"].as_str().unwrap() {
                "policy_changed" => Some(detail),
                "policy_refused" => Some(format!("not {}", detail.split(':').next().unwrap())),
                _ => None,
            }
        };
        let all: Vec<String> = happened.filter_map(switch).collect();
        (all.len() >= many).then_some(all)
    })
}

#[test]
fn each_policy_decides_from_its_switch_on_and_a_bad_one_changes_nothing() {
    let mut daemon = Daemon::begin(&["--policy", "fifo"]);
    // Under FIFO whoever came first goes first, however long it takes.
    let first = whole(&daemon, "first", "10m");
    daemon.wait_for(first, &["running"]);
    let (long, short) = (whole(&daemon, "long", "5h"), whole(&daemon, "short", "1h"));
    cancel(&daemon, first);
    daemon.wait_for(long, &["running"]);
    assert_eq!(job(&daemon, short)["state"], "waiting");

    // Under SRTF the shorter one does, at once.
    put(&daemon, &json!({ "name": "srtf" })).ok();
    daemon.wait_for(short, &["running"]);
    daemon.wait_for(long, &["waiting"]);

    // What cannot be had leaves everything as it is.
    let before = daemon.get(&daemon.admin, "/v1/policy").ok();
    let bad = put(&daemon, &json!({ "name": "slaq", "parameters": { "epoch_s": -3 } })).problem(422);
    assert!(bad.contains("epoch_s"), "{bad}");
    put(&daemon, &json!({ "name": "slack" })).problem(422);
    assert_eq!(daemon.get(&daemon.admin, "/v1/policy").ok(), before);
    assert_eq!(
        (&job(&daemon, short)["state"], &job(&daemon, short)["attempt"]),
        (&json!("running"), &json!(1))
    );

    // Under SRTF an elastic job stays at its least; under SLAQ it gets what its loss is worth.
    cancel(&daemon, long);
    cancel(&daemon, short);
    let elastic = json!({ "tenant": "azure", "command": ["sh", "-c", REPORTS], "workers": { "min": 1, "max": 4 },
        "duration": "1h" });
    let elastic = daemon.submit(&daemon.admin, &elastic.to_string());
    daemon.wait_for(elastic, &["running"]);
    assert_eq!(job(&daemon, elastic)["workers"], 1);
    put(&daemon, &json!({ "name": "slaq", "parameters": { "epoch_s": 0.2 } })).ok();
    let grown = until("the growth of the job", || {
        let job = job(&daemon, elastic);
        (job["workers"].as_u64() > Some(1) && job["state"] == "running").then_some(job)
    });
    assert_eq!(grown["preemptions"], 0, "{grown}");

    assert_eq!(switches(&daemon, 4), ["srtf", "not slaq", "not slack", "slaq"]);
    daemon.kill();
    daemon.go_on(&["--policy", "fifo"]);
    assert_eq!(
        daemon.get(&daemon.admin, "/v1/policy").ok()["parameters"]["epoch_s"],
        0.2,
        "a run keeps its policy"
    );
}

#[test]
fn what_a_job_is_for_is_said_by_flags_as_by_the_api() {
    let daemon = Daemon::begin(&["--policy", "fifo"]);
    let says = |arguments: &[&str]| {
        let output = daemon.client(arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    // It reports three iterations and has had enough then, though its program would go on for ever.
    let (code, out, err) = says(&[
        "submit",
        "--tenant",
        "azure",
        "--name",
        "enough",
        "--stop",
        "iterations=3",
        "--better",
        "lower",
        "--convergence",
        "sublinear",
        "--target-loss",
        "-0.5",
        "--topology",
        "same_node",
        "--movable",
        "false",
        "--workers",
        "2",
        "--",
        "sh",
        "-c",
        REPORTS,
    ]);
    assert_eq!(code, Some(0), "{out}{err}");
    let ended = daemon.wait_for(0, &["ended"]);
    assert_eq!(ended["outcome"], "stop_rule_met", "{ended}");
    // Three workers do not fit on one node of two cores, wherever they are.
    let (code, out, err) = says(&[
        "submit",
        "--tenant",
        "azure",
        "--topology",
        "same_node",
        "--workers",
        "3",
        "--",
        "sleep",
        "1000",
    ]);
    assert_eq!(code, Some(2), "{out}{err}");
    assert!(err.contains("at most 2 fit"), "{err}");
    for (flag, value, word) in [
        ("--topology", "same_room", "same_rack"),
        ("--better", "faster", "lower"),
        ("--convergence", "slow", "sublinear"),
        ("--stop", "accuracy=2", "fraction"),
        ("--stop", "iterations=0", "at least 1"),
        ("--stop", "peak=1", "accuracy=0.9"),
        ("--movable", "maybe", "true"),
    ] {
        let (code, out, err) = says(&["submit", "--tenant", "azure", flag, value, "--", "true"]);
        assert!(code == Some(2) && err.contains(word), "{flag} {value}: {code:?} {out}{err}");
    }
}
