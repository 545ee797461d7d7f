//! `whatif` and `sweep` as people and scripts use them: numbers by hand, agreement with `run`, the search against a scan,
//! files that do not depend on threads or on where a sweep was stopped, and what is refused.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// Two jobs for one GPU: the second waits 90 s.
const PAIR: &str = "job_id,submit_s,duration_s,gpus,gpu_types\na,0,100,1,\nb,10,100,1,\n";

fn scratch() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("pair.csv"), PAIR).unwrap();
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

fn told(output: Output) -> String {
    String::from_utf8(output.stderr).unwrap()
}

fn text(path: PathBuf) -> String {
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The answer of a what-if, as JSON.
#[track_caller]
fn whatif(place: &Path, code: i32, arguments: &[&str]) -> Value {
    let all = [&["whatif", "--output", "json"], arguments].concat();
    serde_json::from_slice(&ends_with(place, code, &all).stdout).unwrap()
}

fn pair<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["--trace", "pair.csv", "--cluster", "1x1:v100"], more].concat()
}

fn scenario<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let all = answer["scenarios"].as_array().unwrap();
    all.iter().find(|scenario| scenario["name"] == name).unwrap_or_else(|| panic!("{name}: {answer}"))
}

fn mean(figure: &Value) -> f64 {
    figure["mean"].as_f64().unwrap_or_else(|| panic!("{figure}"))
}

fn sentences(answer: &Value) -> String {
    answer["sentences"].as_array().unwrap().iter().map(|s| s.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

#[test]
fn one_more_gpu_removes_exactly_the_wait_of_the_second_job() {
    let place = scratch();
    // At 3600 in an hour, 10 s of one GPU more cost 10. The wait of 90 s is a fortieth of an hour: 400 an hour.
    let answer = whatif(place.path(), 0, &pair(&["--add", "1x1:v100", "--price", "3600"]));
    let (today, added) = (scenario(&answer, "today"), scenario(&answer, "add 1x1:v100"));
    assert_eq!(mean(&today["metrics"]["avg_wait_s"]["value"]), 45.0);
    assert_eq!(mean(&today["metrics"]["avg_jct_s"]["value"]), 145.0);
    assert_eq!(mean(&added["metrics"]["avg_wait_s"]["value"]), 0.0);
    assert_eq!(mean(&added["metrics"]["avg_wait_s"]["difference"]), -45.0);
    assert_eq!(mean(&added["metrics"]["p95_wait_s"]["difference"]), -90.0);
    assert_eq!(mean(&added["waited_hours"]["difference"]), -0.025);
    assert_eq!(mean(&added["waited_gpu_hours"]["difference"]), -0.025);
    assert_eq!(added["cost"]["in_all"], 10.0);
    assert!((mean(&added["cost"]["per_hour_of_waiting"]) - 400.0).abs() < 1e-9);
    // A trace of ten seconds gives no second replicate, and so no interval.
    assert_eq!(answer["replicates"], 1);
    assert!(added["metrics"]["avg_wait_s"]["difference"]["interval_95"].is_null());
    let output = ends_with(place.path(), 0, &[&["whatif"], &pair(&["--add", "1x1:v100"])[..]].concat());
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("there are no intervals") && table.contains("-1m 30s"), "{table}");
}

#[test]
fn a_faster_type_shortens_the_jobs_by_its_factor_and_no_more() {
    let place = scratch();
    let added = |more: &[&str]| {
        let answer =
            whatif(place.path(), 0, &pair(&[&["--add", "2x1:h100", "--remove", "v100"], more].concat()));
        let jct = mean(&scenario(&answer, "all together")["metrics"]["avg_jct_s"]["value"]);
        (jct, answer["assumptions"].to_string())
    };
    let nothing_left = pair(&["--remove", "v100"]);
    assert!(
        told(ends_with(place.path(), 2, &[&["whatif"], &nothing_left[..]].concat()))
            .contains("leaves no machines")
    );
    let (jct, assumed) = added(&[]);
    assert_eq!(jct, 100.0);
    assert!(assumed.contains("Nothing says how fast jobs go on h100"), "{assumed}");
    let (jct, assumed) = added(&["--gpu-speed", "h100=4"]);
    assert_eq!(jct, 25.0);
    assert!(assumed.contains("at 4 times the speed"), "{assumed}");
}

#[test]
fn jobs_that_can_no_longer_run_are_named() {
    let place = scratch();
    let rows = "old,20,50,1,k80\nwide,30,50,2,v100\nnever,30,50,9,\n";
    std::fs::write(place.path().join("pair.csv"), format!("{PAIR}{rows}")).unwrap();
    let inputs = ["--trace", "pair.csv", "--cluster", "2x1:v100,1x1:k80"];
    let answer =
        whatif(place.path(), 0, &[&inputs[..], &["--remove", "k80", "--remove", "1x1:v100"]].concat());
    let lost = |name: &str| scenario(&answer, name)["cannot_run"]["examples"].to_string();
    assert_eq!(lost("remove k80"), r#"["old"]"#);
    assert_eq!(lost("remove 1x1:v100"), r#"["wide"]"#);
    assert_eq!(lost("all together"), r#"["old","wide"]"#);
    assert!(sentences(&answer).contains("Then 1 job can no longer run: old."));
    let error = told(ends_with(place.path(), 2, &[&["whatif"], &inputs[..], &["--remove", "p100"]].concat()));
    assert!(error.contains("cannot remove p100") && error.contains("3 nodes"), "{error}");
}

/// The numbers of `trainyard run` must be those of the first replicate of today, whatever else is asked.
#[test]
fn today_is_what_run_says() {
    let place = scratch();
    let make = ["trace", "generate", "--preset", "philly", "--jobs", "300", "--seed", "3", "-o", "p.csv"];
    ends_with(place.path(), 0, &make);
    let generated = ["--generate", "day", "--jobs", "120", "--cluster", "8x8:v100", "--faults", "mtbf:5d"];
    let trace = ["--trace", "p.csv", "--cluster", "4x8:p100", "--declared", "noisy:0.4", "--seed", "5"];
    for inputs in [&generated[..], &trace[..]] {
        for policy in ["fifo", "drf", "srtf"] {
            let run = [&["run", "--journal", "none", "--policy", policy, "--out", "r"], inputs].concat();
            ends_with(place.path(), 0, &run);
            let summary: Value = serde_json::from_str(&text(place.path().join("r/summary.json"))).unwrap();
            let asked = ["--baseline", policy, "--add", "1x4:h100", "--policy", "sjf", "--seeds", "1"];
            let answer = whatif(place.path(), 0, &[inputs, &asked].concat());
            let metrics = scenario(&answer, "today")["metrics"].as_object().unwrap();
            assert_eq!(metrics.len(), 32);
            for (key, figure) in metrics {
                assert_eq!(figure["value"]["mean"].as_f64(), summary[key].as_f64(), "{policy}: {key}");
            }
        }
    }
}

#[test]
fn replicates_of_a_long_trace_give_intervals_and_a_load_gives_jobs() {
    let place = scratch();
    let make = ["trace", "generate", "--preset", "philly", "--jobs", "9000", "--seed", "3", "-o", "p.csv"];
    ends_with(place.path(), 0, &make);
    let inputs = ["--trace", "p.csv", "--cluster", "16x8:p100"];
    let asked = ["--load", "1.5x", "--policy", "srtf", "--seeds", "6"];
    let answer = whatif(place.path(), 0, &[&inputs[..], &asked].concat());
    assert!(answer["varies"].to_string().contains("5 days, drawn among all days"), "{}", answer["varies"]);
    let today = &scenario(&answer, "today")["metrics"];
    let loaded = &scenario(&answer, "load 1.5x")["metrics"];
    let ratio = mean(&loaded["jobs"]["value"]) / mean(&today["jobs"]["value"]);
    assert!((ratio - 1.5).abs() < 0.03, "{ratio}");
    assert!(today["jobs"]["value"]["interval_80"].is_object());
    let by = &scenario(&answer, "srtf")["metrics"]["avg_jct_s"]["difference"];
    let end = |interval: &str, end: &str| by[interval][end].as_f64().unwrap();
    let inside = [end("interval_95", "low"), end("interval_80", "low"), mean(by), end("interval_80", "high")];
    assert!(inside.is_sorted() && end("interval_80", "high") <= end("interval_95", "high"), "{by}");
}

#[test]
fn a_policy_is_told_as_a_part_of_the_gain_of_machines() {
    let place = scratch();
    let asked = ["--add", "16x8:h100", "--policy", "tiresias", "--seeds", "6"];
    let answer = whatif(place.path(), 0, &asked);
    let share = &answer["shares"][0];
    assert_eq!((share["metric"].as_str(), share["policy"].as_str()), (Some("avg_jct_s"), Some("tiresias")));
    let gain = |name: &str| -mean(&scenario(&answer, name)["metrics"]["avg_jct_s"]["difference"]);
    let expected = gain("tiresias") / gain("add 16x8:h100");
    assert!((mean(&share["share"]) - expected).abs() < 1e-9, "{share}");
    let text = sentences(&answer);
    assert!(text.contains("of the gain in mean completion time of adding 16x8:h100."), "{text}");
}

#[test]
fn the_search_finds_what_a_scan_finds() {
    let place = scratch();
    let inputs = ["--generate", "day", "--jobs", "60", "--cluster", "2x8:v100", "--seeds", "3"];
    let search = ["--until", "p95_wait<8h; mean_wait<=2h", "--until", "gpu_use<0.9", "--grow", "4:v100"];
    let answer = whatif(place.path(), 0, &[&inputs[..], &search].concat());
    let found = &answer["searches"][0];
    assert_eq!(found["bounds"].as_array().unwrap().len(), 3);
    let is_enough = |nodes: u64| {
        let words = format!("{nodes}x4:v100");
        let answer = match nodes {
            0 => whatif(place.path(), 0, &[&inputs[..], &["--policy", "srtf"]].concat()),
            _ => whatif(place.path(), 0, &[&inputs[..], &["--add", &words]].concat()),
        };
        let name = if nodes == 0 { "today".to_owned() } else { format!("add {words}") };
        let metrics = &scenario(&answer, &name)["metrics"];
        let value = |key: &str| mean(&metrics[key]["value"]);
        value("p95_wait_s") < 8.0 * 3600.0 && value("avg_wait_s") <= 7200.0 && value("gpu_utilization") < 0.9
    };
    let scan = (0..40).find(|nodes| is_enough(*nodes)).expect("some number is enough");
    assert!(scan > 1, "the case must not be trivial");
    assert_eq!(found["nodes"].as_u64(), Some(scan));
    for tried in found["tried"].as_array().unwrap() {
        let nodes = tried["nodes"].as_u64().unwrap();
        assert_eq!(tried["is_enough"].as_bool(), Some(is_enough(nodes)), "{nodes}");
    }
}

#[test]
fn a_bound_that_no_number_of_nodes_keeps_ends_with_five_and_says_why() {
    let place = scratch();
    let grow = ["--grow", "1:v100", "--until"];
    let answer = whatif(place.path(), 5, &pair(&[&grow[..], &["mean_jct<90s"]].concat()));
    let found = &answer["searches"][0];
    assert!(found["nodes"].is_null());
    assert_eq!(found["looked_up_to"], 1, "with two GPUs nobody waits");
    let text = sentences(&answer);
    assert!(
        text.contains("is not reached with up to 1 nodes of 1:v100") && text.contains("own run time"),
        "{text}"
    );
    // A limit that is too low is told, too.
    let low =
        ["--generate", "day", "--grow", "1:v100", "--until", "p95_wait<1m", "--most", "3", "--seeds", "2"];
    let answer = whatif(place.path(), 5, &low);
    assert_eq!(answer["searches"][0]["looked_up_to"], 3);
    assert_eq!(
        whatif(place.path(), 0, &pair(&[&grow[..], &["mean_jct<1h"]].concat()))["searches"][0]["nodes"],
        0
    );
}

#[test]
fn a_job_that_is_impossible_today_is_no_reason_to_stop_the_search() {
    let place = scratch();
    std::fs::write(place.path().join("wide.csv"), "job_id,submit_s,duration_s,gpus\nwide,0,100,16\n")
        .unwrap();
    let asked = ["--trace", "wide.csv", "--cluster", "1x8:v100", "--grow"];
    let until = ["--until", "impossible<=0; lost<3600"];
    let answer = whatif(place.path(), 0, &[&asked[..], &["8:v100"], &until].concat());
    assert_eq!(answer["searches"][0]["nodes"], 1);
    let text = sentences(&answer);
    assert!(text.contains("impossible <= 0 and lost GPU h < 1 takes 1 more nodes"), "{text}");
    // Where no number helps, it is the job that is told, and not that nobody waits.
    std::fs::write(
        place.path().join("wide.csv"),
        "job_id,submit_s,duration_s,gpus,gpu_types\na,0,9,8,v100\nwide,0,100,16,v100\n",
    )
    .unwrap();
    let answer = whatif(place.path(), 5, &[&asked[..], &["8:k80"], &until].concat());
    let text = sentences(&answer);
    assert!(text.contains("1 jobs cannot run on such nodes"), "{text}");
}

#[test]
fn an_unstable_run_has_no_mean_and_is_told() {
    let place = scratch();
    let inputs = ["--generate", "day", "--cluster", "2x8:v100", "--horizon", "1d", "--seeds", "3"];
    let answer = whatif(place.path(), 0, &[&inputs[..], &["--add", "1x8:v100"]].concat());
    let figure = &scenario(&answer, "add 1x8:v100")["metrics"]["avg_jct_s"];
    assert!(figure["value"]["mean"].is_null() && figure["difference"]["mean"].is_null(), "{figure}");
    assert_eq!(figure["value"]["absent"], 3);
    assert!(sentences(&answer).contains("in 3 of 3 replicates the queue kept growing"));
}

#[test]
fn an_answer_does_not_depend_on_threads() {
    let place = scratch();
    let ask = |threads: &str, out: &str| {
        let asked = [
            "--generate",
            "day",
            "--jobs",
            "80",
            "--cluster",
            "6x8:v100",
            "--faults",
            "mtbf:6d",
            "--seeds",
            "4",
        ];
        let more = [
            "--declared",
            "noisy:0.5",
            "--add",
            "1x8:h100",
            "--load",
            "1.3x",
            "--policy",
            "srtf",
            "--price",
            "2",
        ];
        let search = ["--until", "p95_wait<1h", "--grow", "8:h100", "--threads", threads, "--out", out];
        ends_with(place.path(), 0, &[&["whatif"], &asked[..], &more, &search].concat());
    };
    ask("1", "one");
    ask("8", "eight");
    for file in ["whatif.json", "report.html"] {
        let at = |out: &str| text(place.path().join(out).join(file));
        assert!(at("one") == at("eight"), "{file} differs");
        assert!(at("one").len() > 1000);
    }
}

#[test]
fn questions_that_make_no_sense_end_with_two_and_say_what_to_try() {
    let place = scratch();
    let cases: [(&[&str], &str); 14] = [
        (&[], "nothing is changed"),
        (&["--add", "4by8"], "16x8:v100"),
        (&["--remove", "k80"], "cannot remove k80"),
        (&["--load", "1.5"], "1.5x"),
        (&["--load", "0x"], "above 0"),
        (&["--policy", "srft"], "did you mean `srtf`"),
        (&["--until", "p95_wait<1h"], "--grow"),
        (&["--grow", "8:h100"], "--until"),
        (&["--until", "p95_wiat<1h", "--grow", "8:h100"], "did you mean `p95_wait`"),
        (&["--until", "p95_wait=1h", "--grow", "8:h100"], "p95_wait<1h"),
        (&["--until", "wall_s<1", "--grow", "8:h100"], "differs from run to run"),
        (&["--until", "p95_wait<1h", "--grow", "4x8:h100"], "8:h100"),
        (&["--add", "1x8:v100", "--price=-1"], "--price"),
        (&["--add", "1x8:v100", "--gpu-speed", "h200=2"], "no such GPUs"),
    ];
    for (arguments, hint) in cases {
        let output = ends_with(place.path(), 2, &[&["whatif", "--seeds", "1"], arguments].concat());
        assert!(output.stdout.is_empty(), "{arguments:?} must print no data");
        let message = told(output);
        assert!(message.contains(hint), "{arguments:?} should say {hint}: {message}");
    }
    assert!(
        told(ends_with(
            place.path(),
            2,
            &["run", "--policy", "fifo", "--trace", "pair.csv", "--cluster", "1x1:v100", "--load", "0.5"]
        ))
        .contains("--load 0.5x")
    );
}

/// A sweep of four cells and three seeds over a trace that can be drawn again, with a file among its inputs.
const SWEEP: &str = r#"seeds = 3
metrics = ["mean_jct", "p95_wait"]
baseline = { policy = "fifo" }
[fixed]
trace = "p.csv"
cluster = "c.toml"
declared = "noisy:0.3"
[factors]
policy = ["fifo", "srtf"]
jobs = [150, 300]
"#;

fn sweep_place() -> TempDir {
    let place = scratch();
    let make = ["trace", "generate", "--preset", "philly", "--jobs", "400", "--seed", "3", "-o", "p.csv"];
    ends_with(place.path(), 0, &make);
    std::fs::write(place.path().join("c.toml"), "nodes = [{ count = 3, gpus = 8, gpu_type = \"p100\" }]\n")
        .unwrap();
    std::fs::write(place.path().join("e.toml"), SWEEP).unwrap();
    place
}

/// The files of a sweep that hold nothing that was measured.
const SWEPT: [&str; 4] = ["results.csv", "differences.csv", "manifest.json", "report.html"];

#[test]
fn a_sweep_leaves_a_tidy_table_whose_numbers_are_those_of_run() {
    let place = sweep_place();
    let output = ends_with(place.path(), 0, &["sweep", "e.toml", "--out", "s", "--output", "json"]);
    let compared: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(compared["rows"].as_array().unwrap().len(), 8);
    let results = text(place.path().join("s/results.csv"));
    let rows: Vec<Vec<&str>> = results.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 1 + 12);
    assert_eq!(rows[0][..5], ["run", "policy", "jobs_given", "seed", "replicate"]);
    let column = |name: &str| rows[0].iter().position(|column| *column == name).unwrap();
    let cell = |row: &[&str]| row[1..4].join(" ");
    let cells: Vec<String> = rows[1..].iter().map(|row| cell(row)).collect();
    assert_eq!(cells[..4], ["fifo 150 0", "fifo 150 1", "fifo 150 2", "fifo 300 0"]);
    // The first seed is the trace as it is.
    let fixed =
        ["run", "--trace", "p.csv", "--cluster", "c.toml", "--declared", "noisy:0.3", "--journal", "none"];
    ends_with(place.path(), 0, &[&fixed[..], &["--policy", "srtf", "--jobs", "300"]].concat());
    let summary: Value =
        serde_json::from_str(&text(place.path().join("trainyard-out/summary.json"))).unwrap();
    let row = rows.iter().find(|row| cell(row) == "srtf 300 0").unwrap();
    for key in ["avg_jct_s", "p95_wait_s", "decisions", "gpu_utilization", "jobs"] {
        assert_eq!(row[column(key)].parse::<f64>().ok(), summary[key].as_f64(), "{key}");
    }
    // Differences are the means of differences of rows with the same seed.
    let jct = |policy: &str, seed: usize| -> f64 {
        let is_it = |row: &&Vec<&str>| cell(row) == format!("{policy} 150 {seed}");
        rows.iter().find(is_it).unwrap()[column("avg_jct_s")].parse().unwrap()
    };
    let expected = (0..3).map(|seed| jct("srtf", seed) - jct("fifo", seed)).sum::<f64>() / 3.0;
    let differences = text(place.path().join("s/differences.csv"));
    let line = differences.lines().find(|line| line.starts_with("srtf,150,avg_jct_s,")).unwrap();
    let found: f64 = line.split(',').nth(5).unwrap().parse().unwrap();
    assert!((found - expected).abs() < 1e-6 && found != 0.0, "{line}");
    assert_eq!(differences.lines().count(), 1 + 4, "cells of the baseline are compared with nothing");
}

#[test]
fn a_sweep_does_not_depend_on_threads_or_on_where_it_was_stopped() {
    let place = sweep_place();
    let sweep = |threads: &str, out: &str| {
        told(ends_with(place.path(), 0, &["sweep", "e.toml", "-j", threads, "--out", out]))
    };
    sweep("1", "one");
    sweep("8", "eight");
    let at = |out: &str, file: &str| text(place.path().join(out).join(file));
    let same = |out: &str| {
        for file in SWEPT {
            assert!(at("one", file) == at(out, file), "{file} of {out} differs");
        }
    };
    same("eight");
    // As if it had been stopped: some runs are missing, one is cut in half, one is of something else.
    let mut runs: Vec<PathBuf> = std::fs::read_dir(place.path().join("eight/runs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    runs.sort();
    assert_eq!(runs.len(), 12);
    let whole = text(runs[0].clone());
    std::fs::write(&runs[0], &whole[..whole.len() / 2]).unwrap();
    std::fs::write(&runs[1], whole.replace("avg_jct_s\": ", "avg_jct_s\": 1")).unwrap();
    runs[2..6].iter().for_each(|path| std::fs::remove_file(path).unwrap());
    for file in SWEPT {
        std::fs::remove_file(place.path().join("eight").join(file)).unwrap();
    }
    let message = sweep("3", "eight");
    assert!(message.contains("12 runs, 6 of them done before"), "{message}");
    same("eight");
    assert!(sweep("2", "eight").contains("12 of them done before"));
    same("eight");
    // Another trace under the same name is another run.
    let changed = text(place.path().join("p.csv")).replacen(",1,", ",2,", 1);
    std::fs::write(place.path().join("p.csv"), changed).unwrap();
    assert!(!sweep("2", "eight").contains("done before"));
}

#[test]
fn a_run_that_another_build_did_is_done_again() {
    let place = sweep_place();
    let sweep = || told(ends_with(place.path(), 0, &["sweep", "e.toml", "--out", "s"]));
    sweep();
    let first = std::fs::read_dir(place.path().join("s/runs")).unwrap().next().unwrap().unwrap().path();
    let mut record: Value = serde_json::from_str(&text(first.clone())).unwrap();
    let program = Sha256::digest(std::fs::read(env!("CARGO_BIN_EXE_trainyard")).unwrap());
    let program = program.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(record["binary"], program.as_str());
    record["binary"] = "0".repeat(64).into();
    std::fs::write(&first, record.to_string()).unwrap();
    let message = sweep();
    assert!(message.contains("12 runs, 11 of them done before"), "{message}");
    assert!(text(first).contains(&program), "it is kept in place of the old one");
}

#[test]
fn the_manifest_has_the_hash_of_every_file() {
    let place = sweep_place();
    ends_with(place.path(), 0, &["sweep", "e.toml", "--out", "s"]);
    let manifest: Value = serde_json::from_str(&text(place.path().join("s/manifest.json"))).unwrap();
    let hash = |path: PathBuf| {
        let digest = Sha256::digest(std::fs::read(path).unwrap());
        digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    assert_eq!(manifest["sweep_sha256"], hash(place.path().join("e.toml")));
    let names = |key: &str| -> Vec<String> { manifest[key].as_object().unwrap().keys().cloned().collect() };
    assert_eq!(names("inputs"), ["c.toml", "p.csv"]);
    assert_eq!(names("results"), ["differences.csv", "report.html", "results.csv"]);
    for name in names("inputs") {
        assert_eq!(manifest["inputs"][&name], hash(place.path().join(&name)), "{name}");
    }
    for name in names("results") {
        assert_eq!(manifest["results"][&name], hash(place.path().join("s").join(&name)), "{name}");
    }
    assert_eq!(manifest["runs"].as_array().unwrap().len(), 12);
    assert_eq!(manifest["seeds"].to_string(), "[0,1,2]");
}

#[test]
fn sweeps_that_make_no_sense_end_with_two_and_say_where() {
    let place = sweep_place();
    let cases = [
        (SWEEP.replace("baseline", "basline"), "e.toml:3: unknown key `basline`; did you mean `baseline`?"),
        (
            SWEEP.replace("cluster =", "clutser ="),
            "e.toml:6: unknown setting `clutser`; did you mean `cluster`?",
        ),
        (SWEEP.replace("\"srtf\"", "\"srft\""), "e.toml:9: there is no policy `srft`, did you mean `srtf`?"),
        (SWEEP.replace("150,", "\"many\","), "e.toml:10: invalid value 'many' for '--jobs <N>'"),
        (SWEEP.replace("p.csv", "none.csv"), "none.csv"),
        (SWEEP.replace("mean_jct", "mean_jtc"), "did you mean `mean_jct`?"),
    ];
    for (sweep, hint) in cases {
        std::fs::write(place.path().join("e.toml"), sweep).unwrap();
        let output = ends_with(place.path(), 2, &["sweep", "e.toml"]);
        assert!(output.stdout.is_empty());
        let message = told(output);
        assert!(message.contains(hint), "should say {hint}: {message}");
    }
    assert!(
        told(ends_with(place.path(), 2, &["sweep", "nowhere.toml"]))
            .contains("cannot read the sweep nowhere.toml")
    );
}

#[test]
fn unstable_runs_of_a_sweep_have_no_mean_and_are_counted() {
    let place = scratch();
    let sweep = "seeds = 2\n[fixed]\ngenerate = 'day'\ncluster = '2x8:v100'\nhorizon = '1d'\n[factors]\npolicy = ['fifo', 'sjf']\n";
    std::fs::write(place.path().join("e.toml"), sweep).unwrap();
    ends_with(place.path(), 0, &["sweep", "e.toml", "--out", "s"]);
    let differences = text(place.path().join("s/differences.csv"));
    let line = differences.lines().find(|line| line.starts_with("sjf,avg_jct_s")).unwrap();
    assert!(line.starts_with("sjf,avg_jct_s,,,,") && line.ends_with(",2,2"), "{line}");
    let results = text(place.path().join("s/results.csv"));
    assert!(results.lines().skip(1).all(|line| line.ends_with(",true")), "{results}");
}

#[test]
fn rows_left_out_count_only_when_strict() {
    let place = sweep_place();
    let trace = text(place.path().join("p.csv"));
    std::fs::write(place.path().join("p.csv"), format!("{trace}g,60,never\n")).unwrap();
    let message = told(ends_with(place.path(), 0, &["sweep", "e.toml"]));
    assert!(message.contains("12 rows of traces were left out"), "{message}");
    ends_with(place.path(), 3, &["sweep", "e.toml", "--strict"]);
    let whatif = ["whatif", "--trace", "p.csv", "--cluster", "3x8:p100", "--policy", "srtf", "--seeds", "1"];
    assert!(told(ends_with(place.path(), 0, &whatif)).contains("1 row left out"));
    ends_with(place.path(), 3, &[&whatif[..], &["--strict"]].concat());
}

#[test]
fn the_example_runs() {
    let place = scratch();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/policies-by-load.toml");
    let output = ends_with(place.path(), 0, &["sweep", example.to_str().unwrap(), "--out", "s"]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("tiresias") && table.contains("Differences are from policy = fifo"), "{table}");
}

#[cfg(not(feature = "parquet"))]
#[test]
fn parquet_is_refused_before_anything_runs_where_it_was_not_built_in() {
    let place = sweep_place();
    let message = told(ends_with(place.path(), 2, &["sweep", "e.toml", "--parquet", "--out", "s"]));
    assert!(message.contains("--features parquet"), "{message}");
    assert!(!place.path().join("s").exists());
}

#[cfg(feature = "parquet")]
#[test]
fn a_parquet_file_has_the_rows_of_the_csv() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let place = sweep_place();
    ends_with(place.path(), 0, &["sweep", "e.toml", "--parquet", "--out", "s"]);
    let file = std::fs::File::open(place.path().join("s/results.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let csv = text(place.path().join("s/results.csv"));
    let header: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    for (row, line) in reader.get_row_iter(None).unwrap().zip(csv.lines().skip(1)) {
        let row = row.unwrap();
        for (((name, field), header), value) in row.get_column_iter().zip(&header).zip(line.split(',')) {
            assert_eq!(name, header);
            let found = field.to_string().trim_matches('"').to_owned();
            let same = found == value
                || found.parse::<f64>().ok().zip(value.parse().ok()).is_some_and(|(a, b)| a == b);
            assert!(same, "{name}: {found} and {value}");
        }
    }
    assert_eq!(reader.metadata().file_metadata().num_rows(), 12);
}
