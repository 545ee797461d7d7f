//! Reports in a real browser: nothing is loaded, nothing runs over, all can be read, heard, reached and printed.
//!
//! Pictures are left in the target folder, to be looked at.

mod chromium;

use std::path::{Path, PathBuf};
use std::process::Command;

use chromium::{Browser, browser, script};
use serde_json::Value;

/// A page of a comparison of ten policies stays below this.
const MOST_BYTES: u64 = 2_000_000;

/// What the script found in reports, and what it saw.
fn look(browser: &Browser, reports: &[PathBuf]) -> (Vec<(String, String, String)>, Value) {
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reports");
    std::fs::create_dir_all(&pictures).unwrap();
    let output = Command::new(&browser.node)
        .arg(script("check.mjs"))
        .arg(&browser.chromium)
        .arg(pictures)
        .args(reports)
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let answer: Value =
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}{stderr}"));
    let text = |value: &Value, key: &str| value[key].as_str().unwrap().to_owned();
    let found = answer["found"].as_array().unwrap().iter();
    let found = found.map(|one| (text(one, "file"), text(one, "check"), text(one, "what"))).collect();
    (found, answer["seen"].clone())
}

fn trainyard(place: &Path, arguments: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    let output = command.current_dir(place).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn reports_are_sound_in_a_browser() {
    let Some(browser) = browser() else { return };
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    // Names that a page must not take for markup, and a row that cannot be read.
    let odd = "job_id,submit_s,duration_s,gpus,tenant\n</script><b>,0,3600,4,<i>x</i>\nb,10,60,4,\"a & b\"\n\
               c,20,600,2,<i>x</i>\nd,30,never,1,y\ne,40,7200,2,<i>x</i>\nf,50,10,64,y\n";
    std::fs::write(place.join("odd.csv"), odd).unwrap();
    let day = ["--generate", "day", "--faults", "mtbf:8d", "--save-s", "10", "--load-s", "30"];
    trainyard(place, &[&["run", "--policy", "srtf", "--out", "run"], &day[..]].concat());
    trainyard(place, &[&["compare", "--out", "compare"], &day[..]].concat());
    trainyard(place, &["compare", "--trace", "odd.csv", "--cluster", "1x4:v100", "--out", "odd"]);
    let many =
        ["--generate", "philly", "--jobs", "100000", "--load", "0.95", "--cluster", "60x8:p100,80x2:p100"];
    let policies = ["compare", "--policies", "fifo-skip,sjf", "--out", "many"];
    trainyard(place, &[&policies[..], &many[..]].concat());
    let asked = [
        "--add",
        "4x8:h100",
        "--policy",
        "srtf",
        "--price",
        "2",
        "--until",
        "p95_wait<2h",
        "--grow",
        "8:h100",
    ];
    trainyard(place, &[&["whatif", "--seeds", "3", "--out", "whatif"], &asked[..]].concat());
    let asked = ["--policy", "sjf", "--add", "1x4:v100", "--out", "odd-whatif"];
    trainyard(place, &[&["whatif", "--trace", "odd.csv", "--cluster", "1x4:v100"], &asked[..]].concat());
    let sweep = "seeds = 3\n[factors]\npolicy = ['fifo', 'srtf', 'tiresias']\nload = ['0.8x', '1x']\n";
    std::fs::write(place.join("e.toml"), format!("title = '<b>a & b</b>'\n{sweep}")).unwrap();
    trainyard(place, &["sweep", "e.toml", "--out", "sweep"]);
    trainyard(place, &["run", "--policy", "hadare", "--generate", "m-5", "--out", "copies"]);
    trainyard(place, &["reproduce", "hadare", "--quick", "--out", "hadare"]);
    const PAGES: [&str; 9] =
        ["run", "compare", "odd", "many", "whatif", "odd-whatif", "sweep", "copies", "hadare"];
    let reports = PAGES.map(|name| place.join(name).join("report.html"));
    let (found, seen) = look(&browser, &reports);
    assert!(found.is_empty(), "{found:#?}");
    assert!(seen["bars"].as_u64().unwrap() > 1_000, "bars were read: {seen}");
    for name in PAGES {
        let bytes = seen[name]["bytes"].as_u64().unwrap();
        assert!(bytes < MOST_BYTES, "{name} has {bytes} bytes");
    }
}

/// What is put into a sound report, and the check that must notice.
const PLANTED: [(&str, &str); 9] = [
    ("network", "<img src='file:///nowhere.png' alt='x'>"),
    ("console", "<script>console.error('x')</script>"),
    ("overflow", "<div style='width:1500px;height:3px'></div>"),
    ("headings", "<h5>x</h5>"),
    ("alternatives", "<svg viewBox='0 0 1 1'></svg>"),
    ("structure", "<table><tr><td>1</td></tr></table>"),
    ("contrast", "<p style='color:#888;background:#777'>pale</p>"),
    ("motion", "<p style='transition:color 1s!important'>x</p>"),
    ("focus", "<button style='outline:none!important'>x</button>"),
];

#[test]
fn planted_faults_are_found_by_the_browser() {
    let Some(browser) = browser() else { return };
    let place = tempfile::tempdir().unwrap();
    trainyard(
        place.path(),
        &["run", "--policy", "fifo", "--generate", "day", "--jobs", "40", "--out", "sound"],
    );
    let sound = std::fs::read_to_string(place.path().join("sound/report.html")).unwrap();
    // Nothing is loaded even then, unless the page allows it.
    let open = sound.replace("default-src 'none';", "img-src *;");
    let planted: String = PLANTED.iter().map(|(_, markup)| *markup).collect();
    let faulty = open.replace("</main>", &format!("{planted}</main>"));
    assert!(faulty.len() > sound.len() + 100, "the test must change something");
    let folder = place.path().join("faulty");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("report.html"), faulty).unwrap();
    let (found, _) = look(&browser, &[folder.join("report.html")]);
    for (check, markup) in PLANTED {
        assert!(found.iter().any(|(_, by, _)| by == check), "{check} does not notice {markup}: {found:#?}");
    }
}
