//! The live page in a real browser, before a real daemon with real jobs: it signs in, shows what comes, runs and ends without
//! being loaded again, keeps tenants apart, outlives a restart, and takes nothing for markup. Pictures are left in the target
//! folder, to be looked at.
//!
//! The stories are in `browser/live.mjs`; this file has the daemon, and does what a browser cannot: it ends it and begins it
//! again.

mod chromium;
mod daemon;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use chromium::{Browser, browser, script};
use daemon::Daemon;
use serde_json::{Value, json};

/// How long a story waits for what must come, in seconds; and for what a planted fault keeps from coming.
const PATIENCE_S: u64 = 60;
const PLANTED_PATIENCE_S: u64 = 5;

/// Two nodes with GPUs, one without; each GPU is a core of this machine, and jobs ask for little.
const CLUSTER: &str = "[[nodes]]\ncount = 2\ngpus = 4\ngpu_type = \"v100\"\ncpus = 16\n\n\
                       [[nodes]]\nname = \"cores\"\ncpus = 4\n\n\
                       [[tenants]]\nname = \"crimson\"\n\n[[tenants]]\nname = \"azure\"\n";

/// Tells stories to a browser and gives what was wrong: which check, and what.
fn tell(
    browser: &Browser,
    daemon: &mut Daemon,
    stories: &[&str],
    plant: Option<[&str; 3]>,
) -> Vec<(String, String)> {
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    std::fs::create_dir_all(&pictures).unwrap();
    let told = json!({
        "chromium": browser.chromium, "pictures": pictures, "url": daemon.url, "admin": daemon.admin,
        "place": daemon.place.path(), "stories": stories, "plant": plant,
        "patience_ms": 1000 * if plant.is_some() { PLANTED_PATIENCE_S } else { PATIENCE_S },
    });
    let mut child = Command::new(&browser.node)
        .args([script("live.mjs").as_os_str(), told.to_string().as_ref()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut answer = None;
    for line in BufReader::new(stdout).lines() {
        match line.unwrap().as_str() {
            "end the daemon" => daemon.leave(),
            "begin the daemon" => {
                let address = daemon.url.rsplit('/').next().unwrap().to_owned();
                daemon.go_on(&["--listen", &address]);
            }
            text => {
                answer = Some(serde_json::from_str::<Value>(text).unwrap_or_else(|e| panic!("{e}: {text}")));
                continue;
            }
        }
        writeln!(stdin, "done").unwrap();
    }
    assert!(child.wait().unwrap().success());
    let answer = answer.expect("the script says what it found");
    assert_eq!(answer["told"], json!(stories), "every story was told");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    answer["found"].as_array().unwrap().iter().map(|one| (text(&one[0]), text(&one[1]))).collect()
}

fn begin(cluster: &str, arguments: &[&str]) -> Daemon {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("cluster.toml"), cluster).unwrap();
    Daemon::begin_in(place, arguments)
}

#[test]
fn the_live_page_shows_what_happens_and_to_each_its_own() {
    let Some(browser) = browser() else { return };
    let mut daemon = begin(CLUSTER, &[]);
    let stories = [
        "signs_in",
        "fragment",
        "wrong_token",
        "follows",
        "tenants",
        "withdrawn",
        "early",
        "tasks",
        "hostile",
        "keyboard",
        "looks",
        "many",
        "restart",
    ];
    let found = tell(&browser, &mut daemon, &stories, None);
    assert!(found.is_empty(), "{found:#?}");
    // A browser that listens does not hold the daemon up; here one has just been told to go.
    daemon.end_jobs();
    daemon.leave();
}

#[test]
fn the_live_page_speaks_tls() {
    let Some(browser) = browser() else { return };
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/daemon/tls");
    let (cert, key) = (files.join("cert.pem"), files.join("key.pem"));
    let tls = ["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let mut daemon = begin(CLUSTER, &tls);
    let found = tell(&browser, &mut daemon, &["signs_in"], None);
    assert!(found.is_empty(), "{found:#?}");
}

/// What is changed in a file of the page, the story that must notice, and the check by which; any where it is empty.
const PLANTED: [([&str; 3], &str, &str); 12] = [
    (
        ["make.js", "setText(node, name.length > most", "node.innerHTML = (name.length > most"],
        "hostile",
        "console",
    ),
    (["job.js", "${this.id}/resume`", "${this.id}`"], "early", "early"),
    (["job.js", "this.button.hidden = !client.mayWrite;", ""], "early", "early"),
    (["job.js", "setText(this.refusal, words);", "this.refusal.innerHTML = words;"], "early", "console"),
    (["job.js", "setText(row.cells[2], taskWords(task));", ""], "tasks", "tasks"),
    (["client.js", "take(JSON.parse(data));", ""], "follows", ""),
    (["client.js", "history.replaceState(", "void ("], "fragment", "token"),
    (["client.js", "return sessionStorage;", "return localStorage;"], "signs_in", "token"),
    (["page.js", "if (this.isBusy || this.timer || document.hidden) return;", ""], "many", "pace"),
    (
        ["client.js", "while (!this.ended) {\n      try", "if (!this.ended) {\n      try"],
        "restart",
        "restart",
    ),
    (
        ["page.js", "selected = jobOfAddress();\nconst", "fetch(\"//127.0.0.2:9/\");\nconst"],
        "signs_in",
        "network",
    ),
    (
        [
            "page.css",
            "text-overflow: ellipsis; white-space: nowrap; }\ntbody th {",
            "white-space: nowrap; }\n#queue { width: 90rem; }\ntbody th {",
        ],
        "hostile",
        "overflow",
    ),
];

#[test]
fn faults_planted_in_the_live_page_are_found() {
    let Some(browser) = browser() else { return };
    let mut daemon = begin(CLUSTER, &[]);
    for (plant, story, check) in PLANTED {
        let found = tell(&browser, &mut daemon, &[story], Some(plant));
        assert!(
            found.iter().any(|(by, _)| check.is_empty() || by == check),
            "{check} does not notice {plant:?}: {found:#?}"
        );
    }
}

#[test]
fn axes_have_few_marks_whatever_their_ends_are() {
    let Some(browser) = browser() else { return };
    let module = concat!(env!("CARGO_MANIFEST_DIR"), "/src/web/page/ticks.js");
    let done = Command::new("timeout")
        .arg("60")
        .arg(&browser.node)
        .arg(script("ticks.mjs"))
        .arg(module)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
