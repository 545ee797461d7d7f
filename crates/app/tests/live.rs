//! `trainyard serve` and its clients: who may see what, requests that come twice or make no sense, pages, events, restarts.

mod daemon;

use daemon::{Daemon, trainyard, until};
use serde_json::{Value, json};

/// Runs for longer than any test.
const LONG: &str = r#"{"command": ["sleep", "1000"], "workers": 4, "tenant": "crimson", "name": "long"}"#;

/// A small job of a tenant that runs for long.
fn small(tenant: &str, name: &str) -> String {
    json!({ "command": ["sleep", "1000"], "tenant": tenant, "name": name }).to_string()
}

#[test]
fn a_job_goes_from_its_submission_to_its_end() {
    let daemon = Daemon::begin(&[]);
    let job = daemon.submit(&daemon.admin, r#"{"command": ["true"], "tenant": "crimson", "cpus": 0.05}"#);
    let ended = daemon.wait_for(job, &["ended"]);
    assert_eq!((ended["outcome"].as_str(), ended["cpus"].as_f64()), (Some("completed"), Some(0.05)));
    assert_eq!((ended["name"].as_str(), ended["attempt"].as_u64()), (Some("job-0"), Some(1)));
    assert!(ended["started"].as_str().unwrap() >= ended["submitted"].as_str().unwrap());
    let long = daemon.submit(&daemon.admin, LONG);
    daemon.wait_for(long, &["running"]);
    let stopped = daemon.ask(&daemon.admin, "DELETE", "/v1/jobs/long", None, None).ok();
    assert!(["stopping", "ended"].contains(&stopped["state"].as_str().unwrap()), "{stopped}");
    assert_eq!(daemon.wait_for(long, &["ended"])["outcome"], "withdrawn");
}

#[test]
fn a_request_that_comes_twice_is_one_job() {
    let mut daemon = Daemon::begin(&[]);
    let send = |daemon: &Daemon, tenant: &str, key: &str| {
        let body = small(tenant, "twice");
        let answer = daemon.ask(&daemon.admin, "POST", "/v1/jobs", Some(&body), Some(key));
        (answer.status, answer.ok()["job"]["id"].as_u64().unwrap())
    };
    assert_eq!(send(&daemon, "crimson", "k"), (201, 0));
    assert_eq!(send(&daemon, "crimson", "k"), (200, 0));
    assert_eq!(send(&daemon, "crimson", "l"), (201, 1));
    assert_eq!(send(&daemon, "azure", "k"), (201, 2), "a key is the tenant's own");
    daemon.kill();
    daemon.go_on(&[]);
    assert_eq!(send(&daemon, "crimson", "k"), (200, 0), "a key outlives the daemon");
    assert_eq!(daemon.all_jobs().len(), 3);
}

#[test]
fn a_tenant_sees_its_own_jobs_and_learns_nothing_of_others() {
    let daemon = Daemon::begin(&[]);
    let (red, blue) = (daemon.token("user", Some("crimson")), daemon.token("user", Some("azure")));
    let secret = daemon.submit(&red, r#"{"command": ["sleep", "1000"], "workers": 4, "name": "secret"}"#);
    let own = daemon.submit(&blue, r#"{"command": ["sleep", "1000"], "name": "own"}"#);
    daemon.wait_for(secret, &["running"]);
    // Whether a job is there or not, by number or by name: one and the same answer.
    for (method, end) in [("GET", ""), ("GET", "/why"), ("GET", "/logs"), ("GET", "/losses"), ("DELETE", "")]
    {
        let ask = |job: &str| daemon.ask(&blue, method, &format!("/v1/jobs/{job}{end}"), None, None);
        let there = ask(&secret.to_string());
        there.problem(403);
        for other in ["secret", "999", "no-such-name"] {
            let other = ask(other);
            assert_eq!((other.status, &other.text), (there.status, &there.text), "{method} {end}");
        }
    }
    let listed = daemon.get(&blue, "/v1/jobs").ok();
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(daemon.get(&blue, "/v1/jobs?tenant=crimson").ok()["jobs"], json!([]));
    let why = daemon.get(&blue, &format!("/v1/jobs/{own}/why"));
    assert_eq!(why.ok()["state"]["state"], "waits");
    let holders = why.json()["waits"]["holders"].clone();
    assert_eq!(
        (holders[0]["name"].as_str(), holders[0]["tenant"].as_str()),
        (Some("a job"), Some("another tenant"))
    );
    let nodes = daemon.get(&blue, "/v1/nodes");
    assert_eq!(nodes.ok()["nodes"][0]["jobs"], json!([]));
    assert_eq!(
        (nodes.json()["nodes"][0]["holds"].clone(), &nodes.json()["nodes"][0]["cpus_used"]),
        (json!([]), &json!(2.0))
    );
    let summary = daemon.get(&blue, "/v1/summary");
    assert_eq!(
        (&summary.ok()["jobs"]["running"], &summary.json()["jobs"]["waiting"]),
        (&json!(0), &json!(1))
    );
    assert_eq!((&summary.json()["cpus_used"], &summary.json()["tenant"]), (&json!(4.0), &json!("azure")));
    let steps = daemon.get(&blue, "/v1/steps");
    assert_eq!(steps.ok()["steps"].as_array().unwrap().len(), 1, "its own submission");
    let events = daemon.events(&blue, "?after=0", None, 1);
    for text in
        [&listed.to_string(), &why.text, &nodes.text, &summary.text, &steps.text, &format!("{events:?}")]
    {
        assert!(!text.contains("secret") && !text.contains("crimson"), "{text}");
    }
    assert!(
        daemon.get(&daemon.admin, &format!("/v1/jobs/{own}/why")).text.contains("secret"),
        "who may see it does"
    );
}

#[test]
fn a_token_may_do_what_its_role_says() {
    let daemon = Daemon::begin(&[]);
    let (red, viewer) = (daemon.token("user", Some("crimson")), daemon.token("viewer", None));
    daemon.post(&red, "/v1/jobs", &small("azure", "b")).problem(403);
    daemon.post(&viewer, "/v1/jobs", &small("crimson", "r")).problem(403);
    let job = daemon.submit(&red, r#"{"command": ["sleep", "1000"], "name": "r"}"#);
    daemon.ask(&viewer, "DELETE", &format!("/v1/jobs/{job}"), None, None).problem(403);
    assert_eq!(daemon.get(&viewer, "/v1/jobs").ok()["jobs"][0]["tenant"], "crimson");
    assert_eq!(daemon.get(&viewer, "/metrics").status, 200);
    for token in [&red, &viewer] {
        daemon.get(token, "/v1/tokens").problem(403);
        daemon.post(token, "/v1/tokens", r#"{"role": "admin"}"#).problem(403);
        daemon.post(token, "/v1/nodes/n0", r#"{"state": "down"}"#).problem(403);
        daemon.post(token, "/v1/drain", "").problem(403);
        daemon.ask(token, "PUT", "/v1/policy", Some(r#"{"name": "sjf"}"#), None).problem(403);
    }
    daemon.get(&red, "/metrics").problem(403);
    for path in
        ["/v1/jobs", "/v1/nodes", "/v1/policy", "/v1/events", "/v1/tokens", "/metrics", "/v1/jobs/0/logs"]
    {
        daemon.get("", path).problem(401);
        daemon.get("trainyard_00", path).problem(401);
    }
    for path in ["/healthz", "/readyz", "/openapi.json", "/docs"] {
        assert_eq!(daemon.get("", path).status, 200, "{path}");
    }
    let all = daemon.get(&daemon.admin, "/v1/tokens");
    assert!(!all.text.contains(&red) && !all.text.contains("sha256"), "{}", all.text);
    let id = all.json()["tokens"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(daemon.ask(&daemon.admin, "DELETE", &format!("/v1/tokens/{id}"), None, None).status, 204);
    daemon.get(&red, "/v1/jobs").problem(401);
}

#[test]
fn tokens_are_kept_as_hashes_in_files_of_the_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut daemon = Daemon::begin(&[]);
    let red = daemon.token("user", Some("crimson"));
    for file in ["admin-token", "tokens.json"] {
        let mode = std::fs::metadata(daemon.folder().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    assert!(!std::fs::read_to_string(daemon.folder().join("tokens.json")).unwrap().contains(&red));
    let admin = daemon.admin.clone();
    daemon.leave();
    daemon.go_on(&[]);
    assert_eq!((daemon.admin.as_str(), daemon.get(&red, "/v1/jobs").status), (admin.as_str(), 200));
}

#[test]
fn a_request_that_makes_no_sense_is_told_what_and_what_instead() {
    let daemon = Daemon::begin(&[]);
    let cases = [
        (400, "{", "EOF"),
        (422, "[]", "expected"),
        (422, r#"{"tenant": "crimson"}"#, "`command`: name the program"),
        (422, r#"{"comand": ["x"]}"#, "unknown key `comand`; did you mean `command`?"),
        (
            422,
            r#"{"command": ["x"], "tenant": "crimso"}"#,
            "there is no tenant `crimso`; did you mean `crimson`?",
        ),
        (422, r#"{"command": ["x"]}"#, "`tenant`: say whose job it is; there are crimson, azure"),
        (422, r#"{"command": ["x"], "tenant": "crimson", "cpus": "two"}"#, "`cpus`: invalid type"),
        (422, r#"{"command": ["x"], "tenant": "crimson", "cpus": 0.0005}"#, "`cpus`"),
        (422, r#"{"command": ["x"], "tenant": "crimson", "cpus": -1}"#, "`cpus`"),
        (422, r#"{"command": ["x"], "tenant": "crimson", "gpus": 1.5}"#, "`gpus`"),
        (422, r#"{"command": ["x"], "tenant": "crimson", "gpus": 1}"#, "at most 0 fit"),
        (422, r#"{"command": ["x"], "tenant": "crimson", "workers": {"min": 3, "max": 2}}"#, "`workers`"),
        (
            422,
            r#"{"command": ["x"], "tenant": "crimson", "workers": 5}"#,
            "at least 5 workers, and at most 4 fit",
        ),
        (422, r#"{"command": ["x"], "tenant": "crimson", "memory": "2 apples"}"#, "`memory`"),
        (
            422,
            r#"{"command": ["x"], "tenant": "crimson", "duration": "soon"}"#,
            "`duration`: `soon` is no length of time",
        ),
        (422, r#"{"command": ["x"], "tenant": "crimson", "stop": {"accuracy": 2}}"#, "`stop`"),
        (
            422,
            r#"{"command": ["x"], "tenant": "crimson", "gpu_types": ["h100"]}"#,
            "`gpu_types`: this cluster has no `h100`",
        ),
        (422, r#"{"command": ["x"], "tenant": "crimson", "name": "7"}"#, "`name`"),
    ];
    for (status, body, expected) in cases {
        let detail = daemon.post(&daemon.admin, "/v1/jobs", body).problem(status);
        assert!(detail.contains(expected), "{body}: {detail}");
    }
    let queries = [
        ("limt=1", "unknown key `limt`; did you mean `limit`?"),
        ("limit=0", "`limit`"),
        ("limit=1001", "`limit`"),
        ("limit=x", "`limit`"),
        ("state=runing", "`state`: unknown variant `runing`"),
    ];
    for (query, expected) in queries {
        let detail = daemon.get(&daemon.admin, &format!("/v1/jobs?{query}")).problem(422);
        assert!(detail.contains(expected), "{query}: {detail}");
    }
    daemon.get(&daemon.admin, "/v1/jobs/nobody").problem(404);
    daemon.get(&daemon.admin, "/v1/job").problem(404);
    daemon.ask(&daemon.admin, "PUT", "/v1/jobs", Some("{}"), None).problem(405);
    let large = format!(r#"{{"command": ["{}"]}}"#, "x".repeat(1 << 20));
    daemon.post(&daemon.admin, "/v1/jobs", &large).problem(413);
    assert_eq!(daemon.all_jobs(), [], "nothing of all that became a job");
}

#[test]
fn pages_have_every_job_once_and_in_order() {
    let daemon = Daemon::begin(&[]);
    for i in 0..23 {
        daemon.submit(&daemon.admin, &small(if i % 2 == 0 { "crimson" } else { "azure" }, &format!("j{i}")));
    }
    let walk = |filter: &str, limit: usize| {
        let (mut ids, mut after) = (Vec::new(), String::new());
        loop {
            let page = daemon.get(&daemon.admin, &format!("/v1/jobs?limit={limit}{filter}{after}")).ok();
            let jobs = page["jobs"].as_array().unwrap();
            assert!(jobs.len() <= limit);
            ids.extend(jobs.iter().map(|job| job["id"].as_u64().unwrap()));
            match page["next"].as_u64() {
                Some(next) => after = format!("&after={next}"),
                None => break ids,
            }
        }
    };
    let all: Vec<u64> = (0..23).collect();
    assert_eq!((walk("", 5), walk("", 23), walk("", 1000)), (all.clone(), all.clone(), all));
    let red: Vec<u64> = (0..23).step_by(2).collect();
    assert_eq!(walk("&tenant=crimson", 4), red);
    assert_eq!((walk("&name=j7", 4), walk("&tenant=nobody", 4)), (vec![7], vec![]));
    let (waiting, active) = (walk("&state=waiting", 6), walk("&state=active", 6));
    assert_eq!((waiting.len(), active.len()), (19, 23), "four of them have a core each");
}

#[test]
fn losses_lists_and_steps_are_asked_for_in_part() {
    let mut daemon = Daemon::begin(&[]);
    let report =
        r#"for i in 1 2 3 4 5 6 7 8 9; do echo "{\"iteration\": $i, \"loss\": 0.$((10 - i))}"; done"#;
    let script = format!("({report}) >> \"$TRAINYARD_PROGRESS_FILE\"; sleep 1000");
    let body = json!({ "command": ["sh", "-c", script], "tenant": "crimson", "name": "learns" });
    let job = daemon.submit(&daemon.admin, &body.to_string());
    let losses = |daemon: &Daemon, query: &str| {
        daemon.get(&daemon.admin, &format!("/v1/jobs/{job}/losses{query}")).ok()["points"].clone()
    };
    let all: Vec<[f64; 2]> = (1..10).map(|i| [f64::from(i), f64::from(10 - i) / 10.0]).collect();
    let last = until("all losses", || {
        let points = losses(&daemon, "");
        (points.as_array()?.last()?[0] == 9.0).then_some(points)
    });
    assert!(
        last.as_array().unwrap().iter().all(|point| json!(all).as_array().unwrap().contains(point)),
        "{last}"
    );
    let health = daemon.get(&daemon.admin, "/v1/jobs/learns").ok()["loss_health"].clone();
    assert_eq!(health, "it gets better", "nine losses fall");
    let told = daemon.client(&["job", "learns"]);
    assert!(String::from_utf8_lossy(&told.stdout).contains("its loss   it gets better"));
    assert_eq!(losses(&daemon, "?points=2"), json!([last[0], [9.0, 0.1]]), "the first and the latest");
    for query in
        ["/v1/jobs?points=241", "/v1/jobs/learns/losses?points=0", "/v1/nodes?limit=0", "/v1/steps?limit=257"]
    {
        daemon.get(&daemon.admin, query).problem(422);
    }
    for i in 1..7 {
        daemon.submit(&daemon.admin, &small("azure", &format!("j{i}")));
    }
    let ids = |query: &str| -> (Vec<u64>, Value) {
        let page = daemon.get(&daemon.admin, &format!("/v1/jobs?{query}")).ok();
        let jobs = page["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap());
        (jobs.collect(), page["next"].clone())
    };
    assert_eq!(ids("order=newest&limit=4"), (vec![6, 5, 4, 3], json!(3)));
    assert_eq!(ids("order=newest&limit=4&after=3"), (vec![2, 1, 0], Value::Null));
    until("four that hold a core", || (ids("state=holding").0.len() == 4).then_some(()));
    let page = daemon.get(&daemon.admin, "/v1/jobs?state=holding&points=3").ok();
    assert_eq!(page["jobs"][0]["losses"].as_array().unwrap().last(), Some(&json!([9.0, 0.1])));
    let first = daemon.get(&daemon.admin, "/v1/nodes?limit=1").ok();
    assert_eq!((&first["nodes"][0]["id"], &first["next"]), (&json!(0), &json!(0)));
    let second = daemon.get(&daemon.admin, "/v1/nodes?limit=1&after=0").ok();
    assert_eq!((&second["nodes"][0]["id"], &second["next"]), (&json!(1), &Value::Null));
    let steps = |daemon: &Daemon| daemon.get(&daemon.admin, "/v1/steps").ok();
    // What was just submitted stands there a moment later.
    let before = until("seven submissions", || {
        let told = steps(&daemon);
        let all = told["steps"].as_array()?.iter().flat_map(|step| step["happened"].as_array().unwrap());
        (all.filter(|one| one["what"] == "submitted").count() == 7).then_some(told)
    });
    daemon.kill();
    daemon.go_on(&[]);
    let after = steps(&daemon);
    let known = before["steps"].as_array().unwrap().len();
    assert_eq!(after["steps"].as_array().unwrap()[..known], before["steps"].as_array().unwrap()[..]);
}

#[test]
fn a_stream_ends_when_its_token_is_taken_back() {
    let daemon = Daemon::begin(&[]);
    let made = daemon.post(&daemon.admin, "/v1/tokens", r#"{"role": "viewer"}"#).ok();
    let token = made["token"].as_str().unwrap().to_owned();
    let agent: ureq::Agent =
        ureq::Agent::config_builder().timeout_global(Some(std::time::Duration::from_secs(60))).build().into();
    let request =
        agent.get(format!("{}/v1/events", daemon.url)).header("authorization", format!("Bearer {token}"));
    let mut stream = request.call().unwrap().into_body();
    let gone = format!("/v1/tokens/{}", made["id"].as_str().unwrap());
    assert_eq!(daemon.ask(&daemon.admin, "DELETE", &gone, None, None).status, 204);
    // Nothing has happened that it could tell.
    assert_eq!(stream.read_to_string().unwrap(), "");
}

#[test]
fn events_go_on_where_they_were_cut_off() {
    let mut daemon = Daemon::begin(&[]);
    let blue = daemon.token("user", Some("azure"));
    let job = daemon.submit(&daemon.admin, LONG);
    daemon.wait_for(job, &["running"]);
    daemon.submit(&daemon.admin, &small("azure", "b"));
    let submitted = |steps: &[(u64, Value)]| -> Vec<u64> {
        let happened = steps.iter().flat_map(|(_, step)| step["happened"].as_array().unwrap());
        happened.filter(|one| one["what"] == "submitted").map(|one| one["job"].as_u64().unwrap()).collect()
    };
    let all = daemon.events(&daemon.admin, "?after=0", None, 3);
    let ids: Vec<u64> = all.iter().map(|(id, _)| *id).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    assert_eq!(submitted(&all), [0, 1]);
    assert_eq!(all[0].1["ordered"][0]["what"], "start");
    for i in 0..2 {
        assert_eq!(daemon.events(&daemon.admin, "", Some(ids[i]), 2 - i), all[i + 1..], "after {}", ids[i]);
    }
    assert_eq!(
        submitted(&daemon.events(&blue, "?after=0", None, 1)),
        [1],
        "others' events are not for azure"
    );
    daemon.leave();
    daemon.go_on(&[]);
    assert_eq!(
        daemon.events(&daemon.admin, "", Some(ids[0]), 2),
        all[1..],
        "from the journal, after a restart"
    );
    daemon.ask(&daemon.admin, "GET", "/v1/events?after=x", None, None).problem(422);
    let fresh = std::thread::scope(|scope| {
        let listens = scope.spawn(|| daemon.events(&daemon.admin, "", None, 1));
        until("a step that is heard", || {
            daemon.submit(&daemon.admin, &small("azure", "new"));
            listens.is_finished().then_some(())
        });
        listens.join().unwrap()
    });
    assert!(fresh[0].0 > ids[2], "without a number nothing old is told: {fresh:?}");
}

#[test]
fn a_restart_finds_all_jobs_in_the_same_order() {
    let mut daemon = Daemon::begin(&["--policy", "fifo"]);
    for i in 0..12 {
        daemon.submit(&daemon.admin, &small("crimson", &format!("j{i}")));
    }
    let jobs = daemon.all_jobs();
    let waiting = |daemon: &Daemon| {
        daemon.get(&daemon.admin, "/v1/jobs?state=waiting").ok()["jobs"].as_array().unwrap().len()
    };
    until("four starts", || (waiting(&daemon) == 8).then_some(()));
    for kill in [true, false] {
        if kill {
            daemon.kill()
        } else {
            daemon.leave()
        }
        daemon.go_on(&[]);
        assert_eq!((daemon.all_jobs(), waiting(&daemon)), (jobs.clone(), 8));
        let why = daemon.get(&daemon.admin, "/v1/jobs/j11/why").ok();
        assert_eq!(why["waits"]["place"]["waiting"], 8);
    }
    let refused = |daemon: &Daemon, code: i32| {
        let second = trainyard(daemon.place.path())
            .args(["serve", "--listen", "127.0.0.1:0", "--cluster", "cluster.toml", "--folder", "live"])
            .output()
            .unwrap();
        let err = String::from_utf8_lossy(&second.stderr).into_owned();
        assert_eq!(second.status.code(), Some(code), "{err}");
        err
    };
    assert!(refused(&daemon, 1).contains("another daemon uses this folder"));
    daemon.leave();
    let cluster = daemon.place.path().join("cluster.toml");
    // The other way round each tenant would get the other's jobs.
    let turned =
        daemon::CLUSTER.replace("crimson", "x").replace("azure", "crimson").replace("\"x\"", "\"azure\"");
    std::fs::write(&cluster, turned).unwrap();
    assert!(refused(&daemon, 2).contains("tenants crimson, azure, and these are azure, crimson"));
    std::fs::write(&cluster, daemon::CLUSTER).unwrap();
    daemon.go_on(&[]);
}

#[test]
fn reasons_of_those_who_wait_add_up() {
    let daemon = Daemon::begin(&[]);
    for i in 0..7 {
        daemon.submit(&daemon.admin, &small("crimson", &format!("j{i}")));
    }
    daemon.post(&daemon.admin, "/v1/nodes/n1", r#"{"state": "draining"}"#).ok();
    let text = daemon.get(&daemon.admin, "/metrics").text;
    let sum = |name: &str| -> f64 {
        let lines = text.lines().filter(|line| line.starts_with(name));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    };
    assert_eq!(sum("trainyard_pending{"), sum("trainyard_jobs{state=\"waiting\"}"));
    assert_eq!((sum("trainyard_jobs{"), sum("trainyard_pending{")), (7.0, 3.0));
    assert_eq!((sum("trainyard_starts_total"), sum("trainyard_lost_cycles_total")), (4.0, 0.0));
    assert!(sum("trainyard_decisions_total") >= 1.0 && sum("trainyard_cycle_seconds_count") >= 1.0);
    assert_eq!((sum("trainyard_journal_stalled"), sum("trainyard_cpus ")), (0.0, 4.0));
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn operators_change_nodes_and_the_policy_and_stop_new_work() {
    let daemon = Daemon::begin(&["--policy", "fifo"]);
    let admin = daemon.admin.clone();
    assert_eq!(daemon.get(&admin, "/v1/policy").ok(), json!({ "name": "fifo", "parameters": {} }));
    let put = |body: &str| daemon.ask(&admin, "PUT", "/v1/policy", Some(body), None);
    assert!(put(r#"{"name": "fifoo"}"#).problem(422).contains("did you mean `fifo`"));
    assert!(put(r#"{"name": "srtf", "parameters": {"bye": 1}}"#).problem(422).contains("did you mean `by`"));
    assert_eq!(
        put(r#"{"name": "srtf", "parameters": {"by": "gpu_time"}}"#).ok()["parameters"]["by"],
        "gpu_time"
    );
    assert_eq!(daemon.post(&admin, "/v1/nodes/n0", r#"{"state": "down"}"#).ok()["state"], "down");
    assert!(
        daemon
            .post(&admin, "/v1/nodes/n00", r#"{"state": "down"}"#)
            .problem(404)
            .contains("did you mean `n0`")
    );
    daemon.post(&admin, "/v1/nodes/n0", r#"{"state": "broken"}"#).problem(422);
    let two = daemon.submit(&admin, r#"{"command": ["sleep", "1000"], "workers": 4, "tenant": "crimson"}"#);
    assert_eq!(
        daemon.get(&admin, &format!("/v1/jobs/{two}")).ok()["state"],
        "waiting",
        "half of the machines are down"
    );
    daemon.post(&admin, "/v1/nodes/n0", r#"{"state": "up"}"#).ok();
    daemon.wait_for(two, &["running"]);
    assert_eq!(daemon.post(&admin, "/v1/drain", "").ok(), json!({ "draining": true }));
    daemon.post(&admin, "/v1/jobs", &small("crimson", "late")).problem(503);
    daemon.ask(&admin, "DELETE", "/v1/drain", None, None).ok();
    daemon.submit(&admin, &small("crimson", "late"));
}

#[test]
fn the_document_names_every_path_and_its_page_needs_nothing_from_elsewhere() {
    let daemon = Daemon::begin(&[]);
    let document = daemon.get("", "/openapi.json").ok();
    for path in [
        "/v1/jobs",
        "/v1/jobs/{job}/why",
        "/v1/jobs/{job}/logs",
        "/v1/jobs/{job}/losses",
        "/v1/summary",
        "/v1/steps",
        "/v1/events",
        "/v1/nodes/{name}",
        "/metrics",
    ] {
        assert!(document["paths"][path].is_object(), "{path}");
    }
    let request = &document["components"]["schemas"]["JobRequest"]["properties"];
    assert!(request["command"].is_object() && request["cpus"].is_object());
    let page = daemon.get("", "/docs");
    assert!(page.kind.starts_with("text/html") && page.text.contains("/v1/jobs/{job}/why"));
    let live = daemon.get("", "/");
    assert!(live.kind.starts_with("text/html") && live.text.contains("page/page.js"));
    for far in ["http://", "https://", "//", "<script", "<link"] {
        assert!(!page.text.contains(far), "the page has {far}");
    }
}

#[test]
fn clients_submit_ask_and_take_back() {
    let daemon = Daemon::begin(&[]);
    let says = |code: i32, arguments: &[&str]| {
        let output = daemon.client(arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {out}{err}");
        if code == 0 { out } else { err }
    };
    let place = daemon.place.path();
    std::fs::write(
        place.join("job.toml"),
        "name = 'long'\ncommand = ['sleep', '1000']\nworkers = {min = 2, max = 4}\n",
    )
    .unwrap();
    std::fs::write(
        place.join("job.yaml"),
        "command: [sleep, '1000']\ntenant: azure\nduration: 1h\nworkers: 3\n",
    )
    .unwrap();
    std::fs::write(place.join("odd.yaml"), "comand: [sleep, '1000']\n").unwrap();
    let long = says(0, &["submit", "job.toml", "--tenant", "crimson", "--workers", "4"]);
    assert!(long.starts_with("0\njob 0 (long) of crimson: "), "{long}");
    daemon.wait_for(0, &["running"]);
    let waits = says(0, &["submit", "job.yaml", "--name", "w", "--priority", "-2", "--env", "A=b=c"]);
    assert!(waits.starts_with("1\n") && waits.contains("; starts in "), "{waits}");
    assert!(says(2, &["submit", "odd.yaml"]).contains("did you mean `command`?"));
    let never = daemon.client(&["submit", "job.yaml", "--workers", "9", "--name", "never"]);
    assert!(String::from_utf8_lossy(&never.stderr).contains("at most 4 fit when everything is idle"));
    assert!(says(2, &["submit", "job.yaml", "--workers", "two"]).contains("1..8"));
    assert!(says(2, &["submit", "job.yaml", "--stop", "peek"]).contains("accuracy=0.9"));
    let jobs = says(0, &["jobs"]);
    assert!(jobs.contains("long") && jobs.contains("no_capacity"), "{jobs}");
    assert_eq!(says(0, &["jobs", "--name", "nobody"]).trim(), "no jobs");
    let why = says(0, &["why", "w"]);
    assert!(why.contains("no_capacity") && why.contains("held by") && why.contains("futures"), "{why}");
    let answer: Value = serde_json::from_str(&says(0, &["why", "w", "--output", "json"])).unwrap();
    assert_eq!((answer["schema"].as_str(), answer["job"].as_u64()), (Some("trainyard.why/1"), Some(1)));
    assert!(says(2, &["why", "w", "--at", "2h"]).contains("recorded run"));
    let listed: Value = serde_json::from_str(&says(0, &["jobs", "--output", "json"])).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    assert!(says(0, &["job", "w"]).contains("asks for   3 workers"));
    says(0, &["cancel", "long", "1"]);
    daemon.wait_for(0, &["ended"]);
    assert_eq!(daemon.wait_for(1, &["ended"])["outcome"], "withdrawn");
    assert!(says(2, &["cancel", "nobody"]).contains("no job has the number or name `nobody`"));
}

#[test]
fn a_client_without_a_daemon_says_what_to_try() {
    let place = tempfile::tempdir().unwrap();
    let fails = |arguments: &[&str]| {
        let output = trainyard(place.path()).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, err) = fails(&["jobs"]);
    assert!(code == Some(4) && err.contains("trainyard serve"), "{code:?} {err}");
    let (code, err) = fails(&["jobs", "--url", "http://127.0.0.1:9", "--token", "t"]);
    assert!(code == Some(4) && err.contains("no daemon answers at http://127.0.0.1:9"), "{code:?} {err}");
    let (code, err) = fails(&["jobs", "--url", "http://127.0.0.1:9"]);
    assert!(code == Some(2) && err.contains("--token"), "{code:?} {err}");
}

#[test]
fn settings_are_checked_and_explained() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("s.toml"), "policy = 'srtf'\nsettle-ms = 7\ncluster = '1x4:cpu'\n")
        .unwrap();
    std::fs::write(place.path().join("odd.toml"), "folder = 'x'\nlisten-on = '127.0.0.1:0'\n").unwrap();
    let says = |arguments: &[&str]| {
        let output = trainyard(place.path()).env("TRAINYARD_SEED", "9").args(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    };
    assert_eq!(says(&["config", "check", "s.toml"]).0, 0);
    let (code, text) = says(&["config", "explain", "s.toml", "--policy", "sjf", "--output", "json"]);
    assert_eq!(code, 0, "{text}");
    let all: Value = serde_json::from_str(&text).unwrap();
    let one = |key: &str| {
        let one = all.as_array().unwrap().iter().find(|one| one["key"] == key).unwrap();
        (one["value"].as_str().unwrap().to_owned(), one["from"].as_str().unwrap().to_owned())
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!([one("policy"), one("settle-ms")], [pair("sjf", "flag"), pair("7", "file")]);
    assert_eq!([one("seed"), one("folder")], [pair("9", "environment"), pair("trainyard-live", "default")]);
    let (code, text) = says(&["config", "check", "odd.toml"]);
    assert!(
        code == 2 && text.contains("odd.toml:2: unknown key `listen-on`; did you mean `listen`?"),
        "{text}"
    );
    for (arguments, expected) in [
        (&["--listen", "0.0.0.0:0"][..], "--insecure"),
        (&["--policy", "fifoo"], "did you mean `fifo`"),
        (&["--cluster", "many"], "many"),
        (&["--tls-cert", "c.pem"], "tls-key"),
    ] {
        for command in [&["serve"][..], &["config", "check"]] {
            let (code, text) = says(&[command, arguments].concat());
            assert!(code == 2 && text.contains(expected), "{command:?} {arguments:?}: {code} {text}");
        }
    }
    assert!(!place.path().join("trainyard-live").exists(), "nothing was begun");
}

#[test]
fn tls_is_spoken_where_there_is_a_certificate() {
    let files = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/daemon/tls");
    let (cert, key) = (files.join("cert.pem"), files.join("key.pem"));
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let daemon = Daemon::begin(&["--tls-cert", cert, "--tls-key", key]);
    assert!(daemon.url.starts_with("https://127.0.0.1:"));
    let says = |arguments: &[&str]| {
        let output = daemon.client(arguments);
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    };
    assert_eq!(says(&["jobs", "--ca-cert", cert]), (0, "no jobs\n".to_owned()));
    let (code, text) = says(&["jobs"]);
    assert!(code == 4 && text.contains("no daemon answers"), "nobody is trusted by accident: {code} {text}");
    let plain = daemon.url.replace("https", "http");
    assert_eq!(says(&["jobs", "--url", &plain]).0, 4, "and nobody is answered in the open");
    let (code, text) = says(&["jobs", "--ca-cert", key]);
    assert!(code == 2 && text.contains("there is no certificate in it"), "{code} {text}");
}

#[test]
fn what_a_job_writes_is_shown_and_followed() {
    let daemon = Daemon::begin(&[]);
    let body = json!({ "command": ["sh", "-c", "for i in 1 2 3 4 5; do echo line $i; done; sleep 1; echo last"],
        "tenant": "azure", "name": "talks", "cpus": 0.5 });
    let job = daemon.submit(&daemon.admin, &body.to_string());
    daemon.wait_for(job, &["starting", "running", "ended"]);
    let followed = daemon.client(&["logs", "-f", "talks"]);
    assert_eq!(String::from_utf8_lossy(&followed.stdout), "line 1\nline 2\nline 3\nline 4\nline 5\nlast\n");
    assert_eq!(daemon.wait_for(job, &["ended"])["outcome"], "completed");
    let tail = |query: &str| daemon.get(&daemon.admin, &format!("/v1/jobs/talks/logs?{query}"));
    assert_eq!((tail("tail=2").text.as_str(), tail("tail=0").text.as_str()), ("line 5\nlast\n", ""));
    assert_eq!(tail("tail=2&attempt=1").text, "line 5\nlast\n");
    tail("attempt=2").problem(404);
    tail("attempt=../1").problem(422);
}

#[test]
fn operators_have_commands() {
    let daemon = Daemon::begin(&[]);
    let says = |arguments: &[&str]| {
        let output = daemon.client(arguments);
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    };
    let good = |arguments: &[&str]| {
        let (code, text) = says(arguments);
        assert_eq!(code, 0, "{arguments:?}: {text}");
        text
    };
    assert!(good(&["nodes"]).contains("n0") && good(&["drain", "n1"]).contains("draining"));
    assert!(good(&["undrain", "n1"]).contains("up"));
    assert!(says(&["drain", "n7"]).1.contains("there is no node `n7`") && says(&["drain"]).0 == 2);
    assert!(good(&["drain", "--new-jobs"]).contains("no new jobs are taken"));
    let (code, text) = says(&["submit", "--tenant", "azure", "--", "true"]);
    assert!(code == 4 && text.contains("taking of new jobs"), "{code} {text}");
    assert_eq!(good(&["undrain", "--new-jobs"]).trim(), "new jobs are taken");
    assert_eq!(good(&["policy", "show"]).trim(), "fifo");
    assert!(good(&["policy", "set", "srtf{by = 'gpu_time'}"]).contains("by = \"gpu_time\""));
    assert!(says(&["policy", "set", "fifoo"]).1.contains("did you mean `fifo`"));
    let token = good(&["token", "make", "--for-tenant", "azure"]);
    assert_eq!(daemon.get(token.trim(), "/v1/jobs").status, 200);
    let list: Value = serde_json::from_str(&good(&["token", "list", "--output", "json"])).unwrap();
    assert_eq!((list[0]["role"].as_str(), list[0]["tenant"].as_str()), (Some("user"), Some("azure")));
    good(&["token", "revoke", list[0]["id"].as_str().unwrap()]);
    daemon.get(token.trim(), "/v1/jobs").problem(401);
    daemon.submit(&daemon.admin, LONG);
    let top = good(&["top", "--once"]);
    assert!(top.contains("policy srtf") && top.contains("CPUs [") && top.contains("long"), "{top}");
}

#[test]
fn shells_and_people_have_the_command_line_to_read() {
    let place = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| trainyard(place.path()).args(arguments).output().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        assert!(
            output.status.success() && String::from_utf8_lossy(&output.stdout).contains("undrain"),
            "{shell}"
        );
    }
    assert!(String::from_utf8_lossy(&run(&["man"]).stdout).starts_with(".ie"));
    assert!(run(&["man", "pages"]).status.success());
    let page = std::fs::read_to_string(place.path().join("pages/trainyard-submit.1")).unwrap();
    assert!(page.contains("retries"));
}
