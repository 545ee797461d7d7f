//! The contract with jobs (`docs/job-contract.md`) is true: its examples are understood as it says, its names are those that are
//! read, and the example jobs are followed by it.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use trainyard_live::report::{Follower, Form, Report, Sent, Tail};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn contract() -> String {
    std::fs::read_to_string(root().join("docs/job-contract.md")).expect("the contract is in docs")
}

fn follow(spec: &str, text: &str) -> (Vec<Report>, Follower) {
    let form: Form = spec.parse().unwrap_or_else(|error| panic!("{spec}: {error}"));
    let mut follower = Follower::new(form, 0.0);
    let mut reports = follower.feed(text.as_bytes());
    reports.extend(follower.finish());
    (reports, follower)
}

/// The only indented line that begins so.
fn example<'a>(contract: &'a str, begin: &str) -> &'a str {
    let found: Vec<&str> = contract
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.starts_with(begin))
        .collect();
    assert_eq!(found.len(), 1, "{begin}: {found:?}");
    found[0]
}

#[test]
fn each_name_of_the_table_is_read_and_an_earlier_one_goes_first() {
    let contract = contract();
    let mut names = 0;
    for field in ["iteration", "loss", "accuracy", "saved", "epoch"] {
        let row = contract.lines().find(|line| line.starts_with(&format!("| `{field}` | "))).expect(field);
        let cells = row.split('|').take(3).flat_map(|cell| cell.split('`').skip(1).step_by(2));
        let called: Vec<&str> = cells.collect();
        let of = |report: &Report| match field {
            "iteration" | "epoch" => report.iteration,
            "loss" => report.loss,
            "accuracy" => report.accuracy,
            _ => report.saved,
        };
        for (rank, name) in called.iter().enumerate() {
            names += 1;
            // The surer one stands last in the line, and counts all the same.
            let surer = called[..rank].iter().rev().map(|surer| format!(",\"{surer}\":0.25"));
            let line = format!("{{\"{}\":0.5{}}}\n", name.to_uppercase(), surer.collect::<String>());
            let (reports, _) = follow("jsonl", &line);
            let expected = if rank == 0 { 0.5 } else { 0.25 };
            assert_eq!(reports.iter().map(of).collect::<Vec<_>>(), [Some(expected)], "{line}");
        }
    }
    assert!(names > 10, "the table is where this test looks: {names}");
}

#[test]
fn examples_are_understood_as_the_contract_says() {
    let contract = contract();
    let (reports, _) =
        follow("jsonl", example(&contract, "{\"iteration\": 120, \"loss\": 0.3921, \"accuracy\""));
    let whole =
        Report { iteration: Some(120.0), loss: Some(0.3921), accuracy: Some(0.91), saved: Some(100.0) };
    assert_eq!(reports, [whole]);

    let table: Vec<&str> =
        ["step,loss,val_acc", "10,2.3026,", "20,1.9143,0.31"].map(|row| example(&contract, row)).into();
    let (reports, follower) = follow("csv", &table.join("\n"));
    assert_eq!(reports.len(), 2);
    assert_eq!((reports[0].accuracy, reports[1].accuracy, follower.counts().unclear), (None, Some(0.31), 0));

    let printed = contract.split('`').find(|part| part.starts_with("step 120 of")).expect("a printed line");
    let (reports, _) = follow(example(&contract, "pattern:"), printed);
    assert_eq!(reports.len(), 1);
    assert_eq!((reports[0].iteration, reports[0].loss), (Some(120.0), Some(0.3921)));

    let sent = contract.split('\'').find(|part| part.starts_with("{\"iteration\": 120")).expect("a body");
    assert_eq!(Sent::read(sent.as_bytes()).expect("it is taken").reports, 1);
}

/// Starts an example in a folder of its own, if there is a Python to do so.
fn job(script: &str, folder: &Path) -> Option<Command> {
    if Command::new("python3").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("skipped: {script} needs python3, which is not installed");
        return None;
    }
    let mut command = Command::new("python3");
    command.arg(root().join("examples/jobs").join(script)).args(["--steps=40", "--seconds-a-step=0.001"]);
    command.env("TRAINYARD_JOB", "1").env("TRAINYARD_CHECKPOINT_DIR", folder.join("checkpoints"));
    command.env("TRAINYARD_PROGRESS_FILE", folder.join("progress")).env("PYTHONDONTWRITEBYTECODE", "1");
    command.current_dir(folder).stdout(Stdio::piped());
    Some(command)
}

fn has_all_steps(reports: &[Report]) {
    let losses: Vec<(Option<f64>, f64)> =
        reports.iter().filter_map(|report| Some((report.iteration, report.loss?))).collect();
    let iterations: Vec<Option<f64>> = losses.iter().map(|(iteration, _)| *iteration).collect();
    assert_eq!(iterations, (1..=40).map(|step| Some(f64::from(step))).collect::<Vec<_>>());
    assert!(losses.iter().all(|(_, loss)| loss.is_finite()) && losses[39].1 < losses[0].1);
}

#[test]
fn the_job_with_the_hook_is_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut command) = job("hooked.py", folder.path()) else { return };
    let mut tail = Tail::new(folder.path().join("progress"), Form::JsonLines, 0.0);
    let mut child = command.spawn().expect("it starts");
    let mut reports = Vec::new();
    while child.try_wait().expect("it can be waited for").is_none() {
        reports.extend(tail.poll().expect("it can be read"));
        std::thread::yield_now();
    }
    assert!(child.wait().expect("it ended").success());
    reports.extend(tail.finish().expect("it can be read"));
    has_all_steps(&reports);
    assert_eq!(reports.last().and_then(|report| report.saved), Some(40.0));
    assert_eq!((tail.counts().unclear, tail.counts().restarts, tail.counts().resets), (0, 0, 0));
}

#[test]
fn the_plain_job_is_followed_by_the_pattern_that_it_names() {
    let script = std::fs::read_to_string(root().join("examples/jobs/plain.py")).expect("the script");
    let quoted = script.split('\'').find(|part| part.starts_with("pattern:")).expect("it names a pattern");
    // As the text stands in a string of Python.
    let spec = quoted.replace("\\\\", "\\");
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut command) = job("plain.py", folder.path()) else { return };
    let mut child = command.spawn().expect("it starts");
    let mut printed = String::new();
    child.stdout.take().expect("it is piped").read_to_string(&mut printed).expect("text");
    assert!(child.wait().expect("it ended").success());
    let (reports, _) = follow(&spec, &printed);
    has_all_steps(&reports);
}
