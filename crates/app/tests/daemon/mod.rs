//! A real `trainyard serve` for tests, and a plain way to ask it.

#![allow(dead_code, reason = "what tests share is not all used by each")]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Two nodes of two cores, and two tenants.
pub(crate) const CLUSTER: &str =
    "[[nodes]]\ncount = 2\ncpus = 2\n\n[[tenants]]\nname = \"crimson\"\n\n[[tenants]]\nname = \"azure\"\n";
/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A daemon at work in a folder of its own.
pub(crate) struct Daemon {
    pub(crate) place: TempDir,
    child: Option<Child>,
    pub(crate) url: String,
    pub(crate) admin: String,
}

/// What was answered.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) kind: String,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The detail of a problem of this status; every problem has all its parts.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16) -> String {
        assert_eq!((self.status, self.kind.as_str()), (status, "application/problem+json"), "{}", self.text);
        let problem = self.json();
        for key in ["type", "title", "detail", "try"] {
            assert!(problem[key].as_str().is_some_and(|text| !text.is_empty()), "no `{key}`: {}", self.text);
        }
        assert_eq!(problem["status"], status);
        problem["detail"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        assert!((200..300).contains(&self.status), "{}: {}", self.status, self.text);
        self.json()
    }
}

/// The binary, in a folder, without settings from outside.
pub(crate) fn trainyard(place: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TRAINYARD_")) {
        command.env_remove(name);
    }
    command.current_dir(place);
    command
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not happen within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Daemon {
    /// Begins in a new folder.
    pub(crate) fn begin(arguments: &[&str]) -> Self {
        Self::begin_on(CLUSTER, arguments)
    }

    /// Begins in a new folder, on other machines than usual.
    pub(crate) fn begin_on(cluster: &str, arguments: &[&str]) -> Self {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("cluster.toml"), cluster).unwrap();
        Self::begin_in(place, arguments)
    }

    /// Begins in a folder that has a `cluster.toml`.
    pub(crate) fn begin_in(place: TempDir, arguments: &[&str]) -> Self {
        let mut daemon = Self { place, child: None, url: String::new(), admin: String::new() };
        daemon.go_on(arguments);
        daemon
    }

    /// Begins again in the same folder.
    pub(crate) fn go_on(&mut self, arguments: &[&str]) {
        let mut usual = vec!["serve", "--cluster", "cluster.toml", "--folder", "live"];
        if !arguments.contains(&"--listen") {
            usual.extend(["--listen", "127.0.0.1:0"]);
        }
        let _ = std::fs::remove_file(self.folder().join("address"));
        let mut child =
            trainyard(self.place.path()).args(usual).args(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let address = self.folder().join("address");
        self.url = until("the start of the daemon", || {
            if let Some(status) = child.try_wait().unwrap() {
                let mut text = String::new();
                child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
                panic!("it ended with {status}: {text}");
            }
            std::fs::read_to_string(&address).ok().filter(|text| text.ends_with('\n'))
        });
        self.url = self.url.trim().to_owned();
        self.admin = std::fs::read_to_string(self.folder().join("admin-token")).unwrap().trim().to_owned();
        self.child = Some(child);
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.place.path().join("live")
    }

    /// Ends it as the system does, by a signal; it must leave well.
    pub(crate) fn leave(&mut self) {
        let mut child = self.child.take().unwrap();
        Command::new("kill").arg(child.id().to_string()).status().unwrap();
        let status = until("the end of the daemon", || child.try_wait().unwrap());
        assert!(status.success(), "{status}");
    }

    /// Ends it without a word.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Asks with a token.
    pub(crate) fn ask(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<&str>,
        key: Option<&str>,
    ) -> Answer {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.url));
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let mut response = match body {
            Some(body) => agent.run(request.body(body.to_owned()).unwrap()).unwrap(),
            None => agent.run(request.body(()).unwrap()).unwrap(),
        };
        let kind =
            response.headers().get("content-type").map_or("", |kind| kind.to_str().unwrap()).to_owned();
        let text = response.body_mut().read_to_string().unwrap();
        Answer { status: response.status().as_u16(), kind, text }
    }

    pub(crate) fn get(&self, token: &str, path: &str) -> Answer {
        self.ask(token, "GET", path, None, None)
    }

    pub(crate) fn post(&self, token: &str, path: &str, body: &str) -> Answer {
        self.ask(token, "POST", path, Some(body), None)
    }

    /// Submits a job and gives its number.
    #[track_caller]
    pub(crate) fn submit(&self, token: &str, body: &str) -> u64 {
        let answer = self.post(token, "/v1/jobs", body);
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer.json()["job"]["id"].as_u64().unwrap()
    }

    /// Makes a token.
    #[track_caller]
    pub(crate) fn token(&self, role: &str, tenant: Option<&str>) -> String {
        let body = serde_json::json!({ "role": role, "tenant": tenant }).to_string();
        let made = self.post(&self.admin, "/v1/tokens", &body);
        assert_eq!(made.status, 201, "{}", made.text);
        made.json()["token"].as_str().unwrap().to_owned()
    }

    /// Waits until a job is in one of these states.
    #[track_caller]
    pub(crate) fn wait_for(&self, job: u64, states: &[&str]) -> Value {
        until(&format!("job {job} in {states:?}"), || {
            let job = self.get(&self.admin, &format!("/v1/jobs/{job}")).ok();
            states.contains(&job["state"].as_str().unwrap()).then_some(job)
        })
    }

    /// The numbers and names of all jobs, in the order of the list.
    pub(crate) fn all_jobs(&self) -> Vec<(u64, String)> {
        let page = self.get(&self.admin, "/v1/jobs?limit=1000").ok();
        let jobs = page["jobs"].as_array().unwrap().iter();
        jobs.map(|job| (job["id"].as_u64().unwrap(), job["name"].as_str().unwrap().to_owned())).collect()
    }

    /// The first `count` steps of the stream of events.
    pub(crate) fn events(
        &self,
        token: &str,
        query: &str,
        last: Option<u64>,
        count: usize,
    ) -> Vec<(u64, Value)> {
        let agent: ureq::Agent = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build().into();
        let mut request = agent.get(format!("{}/v1/events{query}", self.url));
        request = request.header("authorization", format!("Bearer {token}"));
        if let Some(last) = last {
            request = request.header("last-event-id", last.to_string());
        }
        let response = request.call().unwrap();
        let (mut steps, mut id) = (Vec::new(), None);
        for line in BufReader::new(response.into_body().into_reader()).lines() {
            let line = line.unwrap();
            if let Some(number) = line.strip_prefix("id: ") {
                id = Some(number.parse().unwrap());
            } else if let Some(data) = line.strip_prefix("data: ") {
                steps.push((id.take().unwrap(), serde_json::from_str(data).unwrap()));
                if steps.len() == count {
                    break;
                }
            }
        }
        steps
    }

    /// Ends what still runs, so that no test leaves programs behind.
    pub(crate) fn end_jobs(&self) {
        let end = Instant::now() + Duration::from_secs(20);
        while Instant::now() < end {
            let output = self.client(&["jobs", "--state", "active", "--output", "json"]);
            let Ok(Value::Array(jobs)) = serde_json::from_slice(&output.stdout) else { return };
            let ids: Vec<String> = jobs.iter().map(|job| job["id"].to_string()).collect();
            if ids.is_empty() {
                return;
            }
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            self.client(&[&["cancel"], ids.as_slice()].concat());
        }
    }

    /// A client command against this daemon.
    pub(crate) fn client(&self, arguments: &[&str]) -> Output {
        trainyard(self.place.path()).env("TRAINYARD_FOLDER", "live").args(arguments).output().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            self.end_jobs();
            // One that leaves by itself takes its control groups along.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let end = Instant::now() + Duration::from_secs(10);
            while Instant::now() < end && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
