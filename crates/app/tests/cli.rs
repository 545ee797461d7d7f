//! The binary as people and scripts use it: exit codes, shapes of output, reproducible files, replays.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// A workload small enough for every test.
const TINY: &str = "job_id,submit_s,duration_s,gpus,tenant\n\
    a,0,3600,4,x\nb,10,60,4,y\nc,20,600,2,x\nd,30,30,1,y\ne,40,7200,2,x\nf,50,10,64,y\n";

/// All keys of a summary, sorted.
const KEYS: [&str; 26] = [
    "avg_ftf",
    "avg_jct_completed_s",
    "avg_jct_s",
    "avg_slowdown",
    "avg_wait_s",
    "censored",
    "completed",
    "decide_us_p50",
    "decide_us_p99",
    "decisions",
    "failed",
    "gpu_seconds_lost",
    "gpu_utilization",
    "impossible",
    "jobs",
    "killed",
    "makespan_s",
    "migrations",
    "p50_jct_s",
    "p90_jct_s",
    "p95_wait_s",
    "p99_jct_s",
    "policy",
    "preemptions",
    "unstable",
    "wall_s",
];

/// What was measured, and so differs from run to run.
const MEASURED: [&str; 3] = ["decide_us_p50", "decide_us_p99", "wall_s"];

/// A folder with the tiny trace in it.
fn scratch_folder() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("tiny.csv"), TINY).unwrap();
    place
}

fn trainyard(place: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trainyard")).current_dir(place).args(arguments).output().unwrap()
}

#[track_caller]
fn ends_with(place: &Path, code: i32, arguments: &[&str]) -> Output {
    let output = trainyard(place, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
    output
}

/// The arguments of a command on the tiny trace, and more.
fn tiny<'a>(command: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut all = vec![command, "--trace", "tiny.csv", "--cluster", "1x4:v100"];
    all.extend(more);
    all
}

fn text(path: PathBuf) -> String {
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn printed(output: Output) -> Value {
    json(&String::from_utf8(output.stdout).unwrap())
}

fn told(output: Output) -> String {
    String::from_utf8(output.stderr).unwrap()
}

#[track_caller]
fn is_summary(value: &Value) {
    let keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, KEYS);
}

/// A list of summaries without what was measured.
fn reproducible(text: &str) -> Value {
    let mut all = json(text);
    for summary in all.as_array_mut().unwrap() {
        for key in MEASURED {
            summary.as_object_mut().unwrap().remove(key).unwrap();
        }
    }
    all
}

#[test]
fn without_arguments_it_compares_the_policies_on_a_busy_day() {
    let place = scratch_folder();
    let output = ends_with(place.path(), 0, &[]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("fifo") && stdout.contains("srtf") && stdout.contains("JCT mean"), "{stdout}");
    assert!(stdout.contains("sooner than fifo on average"), "{stdout}");
    let out = place.path().join("trainyard-out");
    let report = text(out.join("report.html"));
    assert!(report.starts_with("<!DOCTYPE html>"));
    for shown in
        ["What was read and assumed", "Numbers", "Why jobs waited", "Stranded GPUs", "What ran where"]
    {
        assert!(report.contains(shown), "the report lacks {shown}");
    }
    for outside in ["src=", "href=\"http", "url(", "//fonts", "@import", "<link"] {
        assert!(!report.contains(outside), "the report must not need {outside}");
    }
    json(&text(out.join("compare.json"))).as_array().unwrap().iter().for_each(is_summary);
}

#[test]
fn a_run_leaves_a_folder_with_everything_about_it() {
    let place = scratch_folder();
    let arguments = tiny("run", &["--policy", "srtf", "--out", "r", "--output", "json"]);
    let summary = printed(ends_with(place.path(), 0, &arguments));
    is_summary(&summary);
    let folder = place.path().join("r");
    assert_eq!(summary, json(&text(folder.join("summary.json"))));
    let settings: toml::Table = text(folder.join("run.toml")).parse().unwrap();
    assert_eq!(settings["policy"]["name"].as_str(), Some("srtf"));
    assert_eq!(settings["policy"]["parameters"]["by"].as_str(), Some("time"));
    assert_eq!(settings["jobs"]["sha256_16"].as_str().map(str::len), Some(16));
    assert_eq!(text(folder.join("jobs.csv")).lines().count(), 7);
    let head = text(folder.join("journal.jsonl")).lines().next().map(json).unwrap();
    assert_eq!((head["version"].as_u64(), head["policy"].as_str()), (Some(1), Some("srtf")));
}

#[test]
fn fifo_on_the_tiny_trace_is_as_computed_by_hand() {
    // One node of 4 GPUs. `a` takes all until 3600 and `b` all until 3660. Then `c` takes 2 and `d` takes 1, and
    // `e`, which wants 2, starts when `d` has ended at 3690. `f` wants more than there is.
    let place = scratch_folder();
    ends_with(place.path(), 0, &tiny("run", &["--policy", "fifo", "--out", "r"]));
    let rows = text(place.path().join("r/jobs.csv"));
    let fields = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let started: Vec<(String, String)> =
        rows.lines().skip(1).map(fields).map(|fields| (fields[1].clone(), fields[5].clone())).collect();
    let expected = [("a", "0"), ("b", "3600"), ("c", "3660"), ("d", "3660"), ("e", "3690"), ("f", "")];
    assert_eq!(started, expected.map(|(name, at)| (name.to_owned(), at.to_owned())));
    assert!(rows.lines().last().unwrap().contains("impossible"));
}

#[test]
fn every_job_is_completed_impossible_or_censored() {
    let place = scratch_folder();
    let arguments =
        ["compare", "--generate", "day", "--jobs", "150", "--cluster", "4x8:v100", "--horizon", "1d"];
    ends_with(place.path(), 0, &arguments);
    let all = json(&text(place.path().join("trainyard-out/compare.json")));
    assert!(all.as_array().unwrap().len() > 3);
    let mut censored = 0;
    for summary in all.as_array().unwrap() {
        let number = |key: &str| summary[key].as_u64().unwrap();
        assert_eq!(number("completed") + number("impossible") + number("censored"), 150, "{summary}");
        censored += number("censored");
    }
    assert!(censored > 0, "the horizon must cut something off");
}

#[test]
fn results_do_not_depend_on_threads_or_on_the_run() {
    let place = scratch_folder();
    let compare = |out: &str, threads: &str| {
        let input = ["compare", "--generate", "day", "--jobs", "120", "--cluster", "8x8:v100", "--seed", "7"];
        let more =
            ["--faults", "mtbf:5d", "--declared", "noisy:0.5", "--threads", threads, "--journal", "jsonl"];
        ends_with(place.path(), 0, &[&input[..], &more[..], &["--out", out]].concat());
    };
    compare("one", "1");
    compare("eight", "8");
    compare("again", "8");
    let at = |out: &str, file: &str| text(place.path().join(out).join(file));
    for other in ["eight", "again"] {
        assert_eq!(reproducible(&at("one", "compare.json")), reproducible(&at(other, "compare.json")));
        for policy in std::fs::read_dir(place.path().join("one/runs")).unwrap() {
            let name = policy.unwrap().file_name().into_string().unwrap();
            for file in ["jobs.csv", "journal.jsonl", "run.toml"] {
                let path = format!("runs/{name}/{file}");
                assert!(at("one", &path) == at(other, &path), "{path} differs in {other}");
            }
        }
    }
}

#[test]
fn another_seed_gives_another_run() {
    let place = scratch_folder();
    for seed in ["1", "2"] {
        let input = ["run", "--generate", "day", "--jobs", "50", "--policy", "fifo"];
        ends_with(place.path(), 0, &[&input[..], &["--seed", seed, "--out", seed]].concat());
    }
    assert_ne!(text(place.path().join("1/jobs.csv")), text(place.path().join("2/jobs.csv")));
}

#[test]
fn a_run_replays_under_every_policy() {
    let place = scratch_folder();
    let table = printed(ends_with(place.path(), 0, &["policies", "--output", "json"]));
    for policy in table.as_array().unwrap() {
        let name = policy["name"].as_str().unwrap();
        let input =
            ["run", "--generate", "day", "--jobs", "80", "--cluster", "4x8:v100", "--faults", "mtbf:4d"];
        ends_with(
            place.path(),
            0,
            &[&input[..], &["--policy", name, "--save-s", "5", "--out", name]].concat(),
        );
        ends_with(place.path(), 0, &["replay", name]);
    }
}

#[test]
fn a_run_that_was_cut_off_replays() {
    let place = scratch_folder();
    for horizon in ["1", "1h"] {
        ends_with(place.path(), 0, &tiny("run", &["--policy", "fifo", "--horizon", horizon, "--out", "r"]));
        ends_with(place.path(), 0, &["replay", "r"]);
    }
}

#[test]
fn a_run_that_is_cut_off_before_anything_happens_is_refused() {
    let place = scratch_folder();
    let message = told(ends_with(place.path(), 2, &tiny("run", &["--policy", "fifo", "--horizon", "0"])));
    assert!(message.contains("--horizon") && message.contains("the first job arrives"), "{message}");
}

#[test]
fn a_changed_journal_does_not_replay() {
    let place = scratch_folder();
    ends_with(place.path(), 0, &tiny("run", &["--policy", "srtf", "--out", "r"]));
    let path = place.path().join("r/journal.jsonl");
    let whole = text(path.clone());
    let replay = |changed: String, code: i32| {
        assert_ne!(changed, whole, "the test must change something");
        std::fs::write(&path, changed).unwrap();
        told(ends_with(place.path(), code, &["replay", "r"]))
    };
    let once = |from: &str, to: &str| whole.replacen(from, to, 1);
    let message = replay(once("\"action\":\"start\"", "\"action\":\"nothing\""), 2);
    assert!(message.contains("journal.jsonl:2"), "{message}");
    let message = replay(once("\"job\":0,\"attempt\":1", "\"job\":0,\"attempt\":2"), 1);
    assert!(message.contains("recorded:") && message.contains("replayed:"), "{message}");
    replay(once("\"verdict\":\"run\"", "\"verdict\":\"wait\""), 1);
    let message = replay(once("\"version\":1", "\"version\":99"), 2);
    assert!(message.contains("version 99"), "{message}");
    let lines: Vec<&str> = whole.lines().collect();
    replay(lines[..lines.len() - 1].join("\n"), 1);
    let message = replay(whole[..whole.len() - 20].to_owned(), 2);
    assert!(message.contains("cut off"), "{message}");
    replay(String::new(), 2);
}

#[test]
fn no_changed_digit_of_a_journal_makes_a_replay_panic() {
    let place = scratch_folder();
    let more = ["--faults", "mtbf:2h,mttr:10m", "--out", "r"];
    ends_with(place.path(), 0, &tiny("run", &[&["--policy", "srtf"], &more[..]].concat()));
    let path = place.path().join("r/journal.jsonl");
    let whole = text(path.clone());
    let digits: Vec<usize> = whole.match_indices(|c: char| c.is_ascii_digit()).map(|(at, _)| at).collect();
    for at in digits.iter().step_by(digits.len() / 150 + 1) {
        let mut changed = whole.clone();
        changed.replace_range(*at..at + 1, "9");
        std::fs::write(&path, changed).unwrap();
        let output = trainyard(place.path(), &["replay", "r"]);
        let code = output.status.code();
        assert!(matches!(code, Some(0..=2)), "changed at {at}: {code:?} {}", told(output));
    }
}

#[test]
fn a_changed_summary_does_not_replay() {
    let place = scratch_folder();
    ends_with(place.path(), 0, &tiny("run", &["--policy", "fifo", "--out", "r"]));
    let path = place.path().join("r/summary.json");
    std::fs::write(&path, text(path.clone()).replace("\"completed\": 5", "\"completed\": 6")).unwrap();
    let message = told(ends_with(place.path(), 1, &["replay", "r"]));
    assert!(message.contains("completed is 6"), "{message}");
}

#[test]
fn mistakes_end_with_two_and_say_what_to_try() {
    let place = scratch_folder();
    let cases: [(&[&str], &str); 20] = [
        (&["run", "--policy", "fifoo"], "did you mean `fifo`"),
        (&["run", "--policy", "srtf{bye='time'}"], "did you mean `by`"),
        (&["run", "--policy", "fifo", "--cluster", "8by8"], "8by8"),
        (&["run", "--policy", "fifo", "--trace", "tiny.csv"], "--cluster"),
        (&["run", "--policy", "fifo", "--trace", "none.csv", "--cluster", "1x4:v100"], "none.csv"),
        (&["run", "--policy", "fifo", "--generate", "dya"], "day"),
        (&["run", "--policy", "fifo", "--generate", "day", "--from", "2h"], "--from"),
        (&["run", "--policy", "fifo", "--declared", "maybe"], "noisy:0.3"),
        (&["run", "--policy", "fifo", "--save-s=-1"], "--save-s"),
        (&["run", "--policy", "fifo", "--faults", "mttr:1h"], "mtbf:30d,mttr:1h"),
        (&["run", "--policy", "fifo", "--faults", "none.csv"], "cannot open none.csv"),
        (&["run", "--policy", "fifo", "--jobs", "5000000"], "would arrive over"),
        (&["run", "--policy", "fifo", "--require", "jct<=3"], "avg_jct_s"),
        (&["compare", "--policies", ""], "--policies"),
        (&["compare", "--threads", "0"], "from 1 to 1024"),
        (&["replay", "nowhere"], "nowhere"),
        (&["trace", "inspect", "none.csv"], "none.csv"),
        (&["reproduce", "slack"], "did you mean `slaq`"),
        (&["curve", "fit", "none.csv"], "none.csv"),
        (&["curve", "fit", "tiny.csv"], "names no loss"),
    ];
    for (arguments, hint) in cases {
        let output = ends_with(place.path(), 2, arguments);
        assert!(output.stdout.is_empty(), "{arguments:?} must print no data");
        let message = told(output);
        assert!(message.contains(hint), "{arguments:?} should say {hint}: {message}");
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_a_failure_of_the_run() {
    let place = scratch_folder();
    let arguments = tiny("run", &["--policy", "fifo", "--out", "tiny.csv/inside"]);
    let message = told(ends_with(place.path(), 1, &arguments));
    assert!(message.contains("tiny.csv/inside"), "{message}");
}

#[test]
fn rows_left_out_count_only_when_strict() {
    let place = scratch_folder();
    std::fs::write(place.path().join("tiny.csv"), format!("{TINY}g,60,never,1,x\n")).unwrap();
    let output = ends_with(place.path(), 0, &tiny("run", &["--policy", "fifo"]));
    assert!(told(output).contains("1 row left out"));
    ends_with(place.path(), 3, &tiny("run", &["--policy", "fifo", "--strict"]));
    ends_with(place.path(), 3, &tiny("compare", &["--strict"]));
    ends_with(place.path(), 3, &["trace", "inspect", "tiny.csv", "--strict"]);
}

#[test]
fn a_missed_bound_ends_with_five() {
    let place = scratch_folder();
    ends_with(place.path(), 0, &tiny("run", &["--policy", "fifo", "--require", "avg_jct_s<=1e9"]));
    ends_with(place.path(), 5, &tiny("run", &["--policy", "fifo", "--require", "gpu_utilization>=1.5"]));
    ends_with(place.path(), 5, &tiny("compare", &["--policies", "fifo,srtf", "--require", "avg_jct_s<=1"]));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = scratch_folder();
    let mut child = Command::new(env!("CARGO_BIN_EXE_trainyard"))
        .current_dir(place.path())
        .args(["policies", "--output", "json"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_generated_trace_can_be_inspected_and_run() {
    let place = scratch_folder();
    let make = ["trace", "generate", "--preset", "philly", "--jobs", "200", "--seed", "3", "-o", "p.csv"];
    ends_with(place.path(), 0, &make);
    let made = [&make[..], &["--output", "json"]].concat();
    assert_eq!(printed(ends_with(place.path(), 0, &made))["jobs"].as_u64(), Some(200));
    let seen = printed(ends_with(place.path(), 0, &["trace", "inspect", "p.csv", "--output", "json"]));
    assert_eq!((seen["jobs"].as_u64(), seen["report"]["rows"].as_u64()), (Some(200), Some(200)));
    let arguments =
        ["run", "--trace", "p.csv", "--cluster", "8x8:p100", "--policy", "sjf", "--journal", "none"];
    ends_with(place.path(), 0, &arguments);
    assert!(!place.path().join("trainyard-out/journal.jsonl").exists());
}

#[test]
fn the_examples_run_and_everything_in_them_is_used() {
    let place = scratch_folder();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let file = |name: &str| examples.join(name).to_str().unwrap().to_owned();
    let (jobs, cluster, faults) = (file("team.csv"), file("team-cluster.toml"), file("team-faults.csv"));
    let inputs = ["--trace", &jobs, "--cluster", &cluster, "--faults", &faults, "--strict"];
    let with = |more: &[&str]| {
        let arguments: Vec<&str> = more.iter().chain(&inputs).copied().collect();
        ends_with(place.path(), 0, &arguments)
    };
    let all = printed(with(&["compare", "--save-s", "10", "--load-s", "30", "--output", "json"]));
    for summary in all.as_array().unwrap() {
        assert_eq!((&summary["completed"], &summary["jobs"]), (&14.into(), &14.into()), "{summary}");
    }
    with(&["run", "--policy", "drf{placement = 'consolidate'}", "--out", "team-drf"]);
    ends_with(place.path(), 0, &["replay", "team-drf"]);
}

#[test]
fn output_has_no_colour() {
    let place = scratch_folder();
    let output = ends_with(place.path(), 0, &tiny("compare", &["--policies", "fifo,srtf"]));
    assert!(!output.stdout.contains(&0x1b) && !output.stderr.contains(&0x1b));
}

#[test]
fn generated_pages_of_the_documentation_are_fresh() {
    let place = scratch_folder();
    ends_with(place.path(), 0, &["docs", "."]);
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for page in ["policies.md", "reasons.md", "traces.md", "presets.md", "api.md", "commands.md"] {
        let (fresh, kept) = (text(place.path().join(page)), text(docs.join(page)));
        assert!(fresh == kept, "docs/{page} is stale; run `cargo run -- docs`");
    }
}

#[test]
fn documented_keys_columns_and_codes_are_complete() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let metrics = text(docs.join("metrics.md"));
    for key in KEYS {
        assert!(metrics.contains(&format!("| `{key}` |")), "docs/metrics.md lacks {key}");
    }
    let place = scratch_folder();
    ends_with(place.path(), 0, &tiny("run", &["--policy", "fifo", "--out", "r"]));
    let folder = text(docs.join("run-folder.md"));
    for column in text(place.path().join("r/jobs.csv")).lines().next().unwrap().split(',') {
        assert!(folder.contains(&format!("| `{column}` |")), "docs/run-folder.md lacks {column}");
    }
    let help = String::from_utf8(ends_with(place.path(), 0, &["--help"]).stdout).unwrap();
    for code in 0..=5 {
        assert!(
            text(docs.join("cli.md")).contains(&format!("| {code} |")),
            "docs/cli.md lacks exit code {code}"
        );
        assert!(help.contains(&format!("\n  {code}  ")), "--help lacks exit code {code}");
    }
}

#[test]
fn documented_arguments_are_those_of_the_program() {
    let place = scratch_folder();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = |name: &str| text(docs.join(name));
    let cli = page("cli.md");
    let with = |name: &str| format!("{cli}{}", page(name));
    for (command, page) in [
        ("train-job", page("training-jobs.md") + &cli),
        ("run", cli.clone()),
        ("compare", cli.clone()),
        ("whatif", with("whatif.md")),
        ("sweep", with("sweep.md")),
        ("reproduce", with("reproduce.md")),
        ("curve fit", with("curves.md")),
    ] {
        let arguments: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = String::from_utf8(ends_with(place.path(), 0, &arguments).stdout).unwrap();
        let words =
            help.split(|c: char| !(c.is_ascii_lowercase() || c == '-')).filter(|word| word.starts_with("--"));
        for argument in words.filter(|word| word.len() > 2 && *word != "--help") {
            assert!(page.contains(argument), "docs/cli.md lacks {argument} of {command}");
        }
    }
}
