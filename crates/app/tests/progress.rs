//! Progress that is sent over HTTP: taken with the token of its attempt, over a restart of the daemon too, and refused otherwise.

mod daemon;

use daemon::{Daemon, until};
use serde_json::json;

#[test]
fn a_job_may_send_its_progress_with_a_token_that_is_good_for_nothing_else() {
    let mut daemon = Daemon::begin(&[]);
    let tells = r#"printf '%s' "$TRAINYARD_TOKEN" > .token; mv .token token; exec sleep 1000"#;
    let body = json!({ "command": ["sh", "-c", tells], "tenant": "azure", "name": "sends" });
    let job = daemon.submit(&daemon.admin, &body.to_string());
    let file = daemon.folder().join("jobs/0/work/token");
    let token = until("the token of the job", || std::fs::read_to_string(&file).ok());
    let send = |daemon: &Daemon, token: &str, body: &str| daemon.post(token, "/v1/progress", body);
    let shows = |daemon: &Daemon, iterations: f64, loss: f64| {
        until(&format!("{iterations} iterations"), || {
            let shown = daemon.get(&daemon.admin, "/v1/jobs/sends").ok();
            let is = (shown["iterations"].as_f64(), shown["loss"].as_f64());
            (is == (Some(iterations), Some(loss))).then_some(())
        });
    };
    let sent = send(
        &daemon,
        &token,
        r#"[{"step": 7, "loss": 0.5, "lr": 1}, {"step": 8, "loss": 0.25, "saved": 7}]"#,
    );
    assert_eq!(sent.ok(), json!({ "reports": 2 }));
    shows(&daemon, 8.0, 0.25);
    for (body, status) in [
        ("", 400),
        ("{", 400),
        ("7", 422),
        (r#"[{"step": 9}, {"step": -1}]"#, 422),
        (&" ".repeat(2 << 20), 413),
    ] {
        send(&daemon, &token, body).problem(status);
    }
    for stranger in ["", "nonsense", &daemon.admin, "trainyard-job-0-1-00", &token.replace("-0-1-", "-0-2-")]
    {
        send(&daemon, stranger, "{}").problem(401);
    }
    for (method, path) in
        [("GET", "/v1/jobs"), ("GET", "/v1/jobs/sends"), ("DELETE", "/v1/jobs/sends"), ("GET", "/metrics")]
    {
        daemon.ask(&token, method, path, None, None).problem(401);
    }
    daemon.kill();
    daemon.go_on(&[]);
    shows(&daemon, 8.0, 0.25);
    send(&daemon, &token, r#"{"step": 9, "loss": 0.125}"#).ok();
    shows(&daemon, 9.0, 0.125);
    daemon.ask(&daemon.admin, "DELETE", "/v1/jobs/sends", None, None).ok();
    daemon.wait_for(job, &["ended"]);
    send(&daemon, &token, r#"{"step": 10}"#).problem(410);
}
