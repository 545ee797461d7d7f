//! Jobs that are cut short by their stop rules, over HTTP and on the command line: what is said of them, and how their owners take
//! them up again.

mod daemon;

use daemon::Daemon;
use serde_json::json;

/// Says from where it goes on, gets better with each iteration, and has twenty of them.
const LEARNS: &str = "I=$TRAINYARD_RESUME_ITERATION; echo from $I; while [ $I -lt 20 ]; do I=$((I+1)); \
    A=$(printf '0.%02d' $((I*4))); \
    echo \"{\\\"iteration\\\":$I,\\\"saved\\\":$I,\\\"accuracy\\\":$A}\" >> $TRAINYARD_PROGRESS_FILE; sleep 0.1; done";

fn learner(more: &serde_json::Value) -> String {
    let mut job = json!({
        "command": ["sh", "-c", LEARNS], "tenant": "crimson", "name": "learner", "iterations": 20, "cpus": 0.5,
    });
    for (key, value) in more.as_object().expect("an object") {
        job[key] = value.clone();
    }
    job.to_string()
}

#[test]
fn what_cut_a_job_short_is_said_and_its_owner_takes_it_up_again() {
    let mut daemon = Daemon::begin(&["--policy", "mlf-c(fifo)"]);
    let (owner, other) = (daemon.token("user", Some("crimson")), daemon.token("user", Some("azure")));
    let viewer = daemon.token("viewer", Some("crimson"));
    let job = daemon.submit(&daemon.admin, &learner(&json!({ "stop": { "accuracy": 0.2 } })));
    let cut = daemon.wait_for(job, &["ended"]);
    assert_eq!(
        (cut["outcome"].as_str(), cut["cut_short"].as_str()),
        (Some("stop_rule_met"), Some("reached"))
    );
    let because = cut["because"].as_str().expect("why is said");
    assert!(because.starts_with("stopped at 0.2") && because.contains("of 0.200 needed"), "{because}");
    let why = daemon.ask(&owner, "GET", "/v1/jobs/learner/why", None, None).ok();
    assert!(why.to_string().contains("of 0.200 needed"), "{why}");
    let numbers = daemon.ask(&daemon.admin, "GET", "/metrics", None, None).text;
    assert!(numbers.contains("trainyard_cut_short_total{rule=\"reached\"} 1"), "{numbers}");
    assert!(numbers.contains("trainyard_saved_gpu_seconds_total 0"), "{numbers}");
    let says = |daemon: &Daemon, arguments: &[&str]| {
        let done = daemon.client(arguments);
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    assert!(says(&daemon, &["job", "learner"]).contains("of 0.200 needed"));
    assert!(says(&daemon, &["jobs"]).contains("had_enough"));
    let path = format!("/v1/jobs/{job}/resume");
    let ask = |daemon: &Daemon, token: &str| daemon.ask(token, "POST", &path, None, None);
    for stranger in [&other, &viewer] {
        ask(&daemon, stranger).problem(403);
    }
    assert_eq!(daemon.ask(&owner, "GET", "/v1/jobs/learner", None, None).ok()["state"], "ended");
    let resumed = ask(&daemon, &owner).ok();
    assert!(resumed["because"].as_str().is_none_or(|because| !because.contains("stopped at")), "{resumed}");
    assert_ne!(resumed["state"], "ended");
    daemon.kill();
    daemon.go_on(&["--policy", "mlf-c(fifo)"]);
    let done = daemon.wait_for(job, &["ended"]);
    assert_eq!((done["outcome"].as_str(), done["iterations"].as_f64()), (Some("completed"), Some(20.0)));
    assert_eq!(done["attempt"], 2);
    let refused = ask(&daemon, &owner).problem(409);
    assert!(refused.contains("has come to its own end"), "{refused}");
}

#[test]
fn jobs_are_taken_up_on_the_command_line() {
    let daemon = Daemon::begin(&[]);
    let job = daemon.submit(&daemon.admin, &learner(&json!({ "stop": { "accuracy": 0.2 } })));
    daemon.wait_for(job, &["ended"]);
    let resume = |what: &str| daemon.client(&["resume", what]);
    assert!(resume("learner").status.success());
    let done = daemon.wait_for(job, &["ended"]);
    assert_eq!(done["outcome"], "completed");
    let again = resume("learner");
    assert!(!again.status.success());
    assert!(
        String::from_utf8_lossy(&again.stderr).contains("only a job that its stop rule has cut short"),
        "{again:?}"
    );
}

#[test]
fn what_an_owner_allows_must_make_sense() {
    let daemon = Daemon::begin(&[]);
    let wrong = |more: serde_json::Value| {
        daemon.ask(&daemon.admin, "POST", "/v1/jobs", Some(&learner(&more)), None).problem(422)
    };
    assert!(wrong(json!({ "accuracy": 93 })).contains("`accuracy`: 93 is no accuracy"));
    let needs = wrong(json!({ "may_relax": { "own_to_accuracy": true } }));
    assert!(needs.contains("say which `accuracy` is needed"), "{needs}");
    let allowed = json!({ "accuracy": 0.9, "may_relax": { "own_to_accuracy": true, "own_to_peak": true } });
    daemon.submit(&daemon.admin, &learner(&allowed));
}
