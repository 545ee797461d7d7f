//! Jobs of tasks from end to end: an MLP in three partitions, one of which is moved by the scheduler while the processes of the others
//! stay; and jobs that are described by their tasks, over HTTP and by a file.

#![allow(dead_code, reason = "what tests share is not all used here")]

mod daemon;
#[path = "../../live/tests/common/place.rs"]
mod place;
#[path = "../../live/tests/common/scripted.rs"]
mod scripted;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use daemon::{Daemon, trainyard};
use serde_json::{Value, json};
use trainyard_live::local::{Confinement, LocalExecutor};
use trainyard_live::store::Store;
use trainyard_live::{Daemon as Inner, Handle, Work};
use trainyard_sched::control::Outcome;
use trainyard_sched::model::{AllReduce, Along, JobId, Parallelism, TaskId};

const JOB: JobId = JobId(0);
/// Three layers of weights.
const LEARN: [&str; 5] = ["train-job", "mlp", "--generate", "rows=400", "--set=layers=2,hidden=16,batch=64"];
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until something is so.
#[track_caller]
fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < end, "it does not come to be that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Iterations and losses in lines that were reported.
fn losses(text: &str) -> Vec<(u64, f64)> {
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        Some((line["iteration"].as_u64()?, line["loss"].as_f64()?))
    };
    text.lines().filter_map(line).collect()
}

/// What one process alone reports.
fn alone(iterations: usize) -> Vec<(u64, f64)> {
    let place = tempfile::tempdir().expect("a folder");
    let count = iterations.to_string();
    let done = trainyard(place.path()).args(LEARN).args(["--iterations", &count]).output().expect("it runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    losses(&String::from_utf8(done.stdout).expect("it is text"))
}

/// What the last of three tasks reported in the first attempt of a job, over all its starts.
fn told(job: &Path) -> Vec<(u64, f64)> {
    let starts = (1..20).map(|start| job.join(format!("1/task-2-{start}/progress.jsonl")));
    starts.flat_map(|path| losses(&std::fs::read_to_string(path).unwrap_or_default())).collect()
}

fn json_in(path: &Path) -> Value {
    std::fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

/// How often each task was started, and the process that it is.
fn programs(job: &Path) -> BTreeMap<u64, (u64, i64)> {
    let ledger = json_in(&job.join("1/tasks.json"));
    let tasks = ledger["tasks"].as_object().cloned().unwrap_or_default();
    let program = |(task, entry): (&String, &Value)| {
        let start = entry["starts"].as_u64()?;
        let running = json_in(&job.join(format!("1/task-{task}-{start}/running.json")));
        Some((task.parse().ok()?, (start, running["programs"][0]["pid"].as_i64()?)))
    };
    tasks.iter().filter_map(program).collect()
}

fn iterations(handle: &Handle) -> f64 {
    handle.board().jobs.get(&JOB).map_or(0.0, |card| card.iterations)
}

#[track_caller]
fn trains_on(handle: &Handle) {
    let before = iterations(handle);
    until("it trains on", || iterations(handle) >= before + 5.0);
}

#[test]
fn a_partition_is_moved_by_the_scheduler_and_the_losses_are_those_of_one_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let exe = PathBuf::from(env!("CARGO_BIN_EXE_trainyard"));
    let cluster = place::cluster((3, 2));
    let confinement = Confinement::find(&format!("trainyard-tasks-{}", std::process::id()));
    let mut settings = place::settings(folder.path(), cluster.clone(), "scripted");
    scripted::decides(&mut settings);
    let options = place::options(folder.path(), exe.clone(), confinement.clone());
    let executor = Box::new(LocalExecutor::new(options, cluster));
    let daemon = Inner::begin(settings, executor, Box::new(|_| {})).expect("it begins");
    let handle = daemon.handle();
    let mut command = vec![exe.display().to_string()];
    command.extend(LEARN.map(str::to_owned));
    command.extend(["--iterations", "100000000", "--every", "20"].map(str::to_owned));
    scripted::want(folder.path(), "t0:0 t1:0 t2:1");
    let work = Work { grace_s: 600, ..Work::new(command) };
    handle.submit(place::submission(place::chain(3), work, None)).expect("it is taken");
    let job = folder.path().join("jobs/0");
    trains_on(&handle);
    let mut before = programs(&job);
    for (task, wanted) in [(1, "t0:0 t1:2 t2:1"), (2, "t0:0 t1:2 t2:0"), (0, "t0:1 t1:2 t2:0")] {
        scripted::want(folder.path(), wanted);
        until("it is moved", || programs(&job).get(&task).is_some_and(|(starts, _)| *starts == 2));
        trains_on(&handle);
        let after = programs(&job);
        for other in (0..3).filter(|other| *other != task) {
            assert_eq!(before[&other], after[&other], "task {other} stays while task {task} moves");
        }
        assert_ne!(before[&task].1, after[&task].1);
        before = after;
    }
    until("it is told what its tasks use", || {
        let used = |task: u32| {
            let look =
                handle.look(move |core, _| core.state().job(JOB).and_then(|job| job.used.of(TaskId(task))));
            look.expect("it answers").is_some_and(|used| used.memory_bytes > 1 << 20 && used.cpu_milli > 0)
        };
        (0..3).all(used)
    });
    handle.withdraw(JOB).expect("it is taken back");
    until("it ends", || handle.board().jobs[&JOB].ended.is_some());
    let card = handle.board().jobs[&JOB].clone();
    assert_eq!((card.outcome, card.attempt), (Some(Outcome::Withdrawn), 1), "{card:#?}");
    daemon.leave();
    confinement.leave();
    // The loop knows the loss of the latest iteration that all have done.
    let told = told(&job);
    assert!(told.len() > 20, "{told:?}");
    assert!(told.iter().any(|(_, loss)| card.loss == Some(*loss)), "{:?}", card.loss);
    assert_eq!(told, alone(told.len()), "no break, and the same bits");
}

#[test]
fn it_is_told_where_each_task_is_and_what_the_others_wait_for() {
    let daemon = Daemon::begin(&["--policy", "mlf-h"]);
    let says = |arguments: &[&str]| {
        let done = daemon.client(arguments);
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).expect("it is text")
    };
    let submit = |body: Value| daemon.submit(&daemon.admin, &body.to_string());
    let filler = json!({ "command": ["sleep", "1000"], "tenant": "crimson", "cpus": 1.5 });
    let filler = submit(filler);
    daemon.wait_for(filler, &["running"]);
    let halves = json!({
        "command": ["sleep", "1000"],
        "tenant": "crimson",
        "name": "halves",
        "tasks": [{ "cpus": 1.5 }, { "cpus": 1.5, "replica": 1 }],
        "partial": true,
    });
    let job = submit(halves);
    daemon.wait_for(job, &["running"]);
    let look = || daemon.get(&daemon.admin, "/v1/jobs/halves").ok();
    let told = look();
    assert_eq!((told["tasks"].as_u64(), told["tasks_placed"].as_u64()), (Some(2), Some(1)), "{told}");
    let (first, second) = (&told["each_task"][0], &told["each_task"][1]);
    let (here, there) = if first["state"] == "running" { (first, second) } else { (second, first) };
    assert_eq!((here["state"].as_str(), &here["node"]), (Some("running"), &told["nodes"][0]), "{told}");
    assert_eq!((there["state"].as_str(), there["node"].as_str()), (Some("waiting"), None), "{told}");
    assert_eq!((there["cpus"].as_f64(), there["to"].as_str()), (Some(1.5), None), "{told}");
    let (text, node) = (says(&["job", "halves"]), here["node"].as_str().expect("a name"));
    for words in [
        "2 tasks, together 3 CPUs".to_owned(),
        format!("a place for 1 of 2 tasks, on {node}"),
        format!("running on {node}\n"),
        "waiting for 1.5 CPUs\n".to_owned(),
        "because    1 of its 2 tasks have a place".to_owned(),
    ] {
        assert!(text.contains(&words), "`{words}` is not in: {text}");
    }
    assert!(says(&["jobs", "--state", "running"]).contains("1 of 2"));
    // Lists are short, whatever jobs are made of.
    let listed = daemon.get(&daemon.admin, "/v1/jobs?name=halves").ok();
    assert_eq!(
        (&listed["jobs"][0]["tasks_placed"], &listed["jobs"][0]["each_task"]),
        (&json!(1), &Value::Null)
    );
    daemon.ask(&daemon.admin, "DELETE", &format!("/v1/jobs/{filler}"), None, None).ok();
    let both = daemon::until("both have a place", || Some(look()).filter(|told| told["tasks_placed"] == 2));
    let nodes: Vec<_> =
        both["each_task"].as_array().expect("a list").iter().map(|task| &task["node"]).collect();
    assert!(nodes.iter().all(|node| node.is_string()) && nodes[0] != nodes[1], "{both}");
    daemon.ask(&daemon.admin, "DELETE", "/v1/jobs/halves", None, None).ok();
    let over = daemon.wait_for(job, &["ended"]);
    assert_eq!((&over["tasks_placed"], &over["each_task"]), (&json!(0), &Value::Null), "{over}");
}

/// The job as it is asked for over HTTP.
fn request(iterations: u32) -> Value {
    let mut command = vec![env!("CARGO_BIN_EXE_trainyard")];
    let iterations = iterations.to_string();
    command.extend(LEARN);
    command.extend(["--iterations", &iterations]);
    json!({
        "command": command,
        "tenant": "crimson",
        "tasks": [{ "cpus": 0.5, "parameters": 1000, "compute_s": 0.001 }, { "cpus": 0.5 }, { "cpus": 0.5 }],
        "edges": [{ "from": 0, "to": 1, "bytes": 8192 }, { "from": 1, "to": 2, "bytes": "8kB" }],
    })
}

#[test]
fn a_job_is_asked_for_by_its_tasks_and_ends_as_a_whole() {
    let daemon = Daemon::begin(&[]);
    let number = daemon.submit(&daemon.admin, &request(30).to_string());
    let ended = daemon.wait_for(number, &["ended"]);
    assert_eq!((ended["outcome"].as_str(), ended["tasks"].as_u64()), (Some("completed"), Some(3)), "{ended}");
    assert_eq!((ended["iterations"].as_f64(), ended["attempt"].as_u64()), (Some(30.0), Some(1)));
    assert_eq!(ended["cpus"].as_f64(), Some(1.5), "of all tasks together");
    assert_eq!(told(&daemon.folder().join(format!("jobs/{number}"))), alone(30));
    // The same from a file.
    let file = toml::to_string(&request(20)).expect("it can be said in TOML");
    std::fs::write(daemon.place.path().join("job.toml"), file).expect("it can be written");
    let mut submit: Command = trainyard(daemon.place.path());
    submit.args(["submit", "job.toml", "--name", "three", "--url", &daemon.url, "--token", &daemon.admin]);
    let done = submit.output().expect("it runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let ended = daemon.wait_for(number + 1, &["ended"]);
    assert_eq!((ended["outcome"].as_str(), ended["name"].as_str()), (Some("completed"), Some("three")));
}

#[test]
fn how_replicas_agree_is_asked_for_over_http_and_by_a_file_and_is_kept() {
    let mut daemon = Daemon::begin(&[]);
    let both = json!({
        "command": ["sleep", "1000"],
        "tenant": "crimson",
        "tasks": [{ "cpus": 0.5 }, { "cpus": 0.5, "replica": 1 }],
        "reduce": { "along": "torus", "bytes": "4MB" },
    });
    daemon.submit(&daemon.admin, &both.to_string());
    let file = toml::to_string(&both).expect("it can be said in TOML");
    std::fs::write(daemon.place.path().join("job.toml"), file).expect("it can be written");
    let done = daemon.client(&["submit", "job.toml"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let lines = std::fs::read(daemon.place.path().join("job.toml")).expect("it is there");
    let wrong = String::from_utf8(lines).expect("it is text").replace("torus", "tours");
    std::fs::write(daemon.place.path().join("wrong.toml"), wrong).expect("it can be written");
    let refused = daemon.client(&["submit", "wrong.toml"]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("`reduce.along`: unknown variant `tours`"), "{told}");
    daemon.end_jobs();
    daemon.leave();
    // What the daemon wrote down is what was asked for.
    let contents = Store::read(&daemon.folder().join("journal.sqlite")).expect("it can be read");
    let reduces = contents.ended.iter().map(|card| match &card.asked.shape {
        Parallelism::TaskGraph(graph) => graph.reduce(),
        Parallelism::DataParallel(_) => None,
    });
    let wanted = AllReduce { along: Along::Torus, bytes: 4_000_000 };
    assert_eq!(reduces.collect::<Vec<_>>(), [Some(wanted); 2]);
}

#[test]
fn tasks_that_cannot_be_are_refused_by_name() {
    let daemon = Daemon::begin(&[]);
    let with = |key: &str, value: Value| {
        let mut request = request(1);
        request[key] = value;
        daemon.post(&daemon.admin, "/v1/jobs", &request.to_string())
    };
    let edge = |from: i64, to: i64| json!([{ "from": from, "to": to, "bytes": 1 }]);
    for (key, value, wanted) in [
        ("tasks", json!([]), "0 tasks"),
        ("tasks", json!(vec![json!({}); 10_000]), "10000 tasks"),
        ("tasks", json!([{ "cpus": 1e300 }]), "tasks[0].cpus"),
        ("tasks", json!([{ "compute_s": -1 }]), "tasks[0].compute_s"),
        ("edges", edge(1, 0), "leads back"),
        ("edges", edge(0, 7), "task 7, which is not there"),
        ("edges", edge(0, -1), "edges[0].to"),
        ("workers", json!(2), "`workers`: a job with `tasks` has no workers"),
        ("reduce", json!({ "bytes": 1 }), "all tasks are of one"),
        ("reduce", json!({ "along": "tree", "bytes": 1 }), "expected `ring` or `torus`"),
        ("tasks", Value::Null, "`edges`: it is of use to a job with `tasks` only"),
    ] {
        let told = with(key, value).problem(422);
        assert!(told.contains(wanted), "`{wanted}` is not in: {told}");
    }
    let told = with("tasks", json!([{ "cpus": 2 }, { "cpus": 2 }, { "cpus": 2 }])).problem(422);
    assert!(told.contains("its 3 tasks do not fit side by side"), "{told}");
    assert_eq!(daemon.all_jobs().len(), 0);
}
