//! Journals: a run that is told again decides the same, an old journal stays readable, and the numbers
//! of small runs are those that were reviewed.
//!
//! `UPDATE_GOLDEN=1` writes the expected texts anew; the change is then read as a diff. The journal of
//! version 1 is never written anew: it stands for those that users have.

#[path = "../../sched/tests/common/mod.rs"]
mod common;
mod world;

use std::path::{Path, PathBuf};

use common::Trying;
use trainyard_sched::control::{Batch, Core, Head, JOURNAL_VERSION, Log, Moment, Record, Settings};
use trainyard_sched::metrics::{Metrics, Summary};
use trainyard_sched::place::Rule;
use trainyard_sched::policies;
use world::World;

/// Tells a journal to a fresh loop: the first record that it answers otherwise, and the numbers.
fn replay(text: &str) -> Result<Summary, String> {
    let mut lines = text.lines();
    let head: Head =
        serde_json::from_str(lines.next().ok_or("no head")?).map_err(|error| error.to_string())?;
    if head.version > JOURNAL_VERSION {
        return Err(format!("version {} is newer than this reader", head.version));
    }
    let policy = policies::build(&head.policy, &head.parameters).map_err(|error| error.to_string())?;
    let settings = Settings { seed: head.seed, abilities: head.abilities, strict: true };
    let mut metrics = Metrics::new(&head.cluster);
    let mut core = Core::new(head.cluster, head.tenants, policy, settings);
    let mut now = trainyard_sched::model::Time::ZERO;
    for (number, line) in lines.enumerate() {
        let record: Record = serde_json::from_str(line).map_err(|error| format!("line {number}: {error}"))?;
        let batch = Batch { at: record.at, events: record.events };
        let step = core.step(&batch);
        if step != record.step {
            return Err(format!("record {number} at {}: {step:?} instead of {:?}", batch.at, record.step));
        }
        metrics.step(&batch, &step);
        now = batch.at;
    }
    core.state().assert_consistent();
    Ok(metrics.summary(now))
}

#[test]
fn a_journal_told_to_a_fresh_loop_gives_the_same_steps_and_numbers() {
    for entry in policies::ALL {
        let rule = common::rule_of(&(entry.defaults)());
        for seed in 0..25 {
            let _trying = Trying(format!("{} with seed {seed}", entry.name));
            let journal = World::random(seed, rule, true).journal(entry.name);
            assert_eq!(replay(&journal.lines()), Ok(journal.summary));
        }
    }
}

/// A loop at the beginning of a journal.
fn core_of(head: &Head) -> Core {
    let policy = policies::build(&head.policy, &head.parameters).expect("a policy");
    let settings = Settings { seed: head.seed, abilities: head.abilities, strict: true };
    Core::new(head.cluster.clone(), head.tenants.clone(), policy, settings)
}

#[test]
fn a_journal_that_is_told_again_leaves_the_same_state_as_the_run() {
    let bytes = |core: &Core, at| serde_json::to_string(&core.moment(at)).expect("it can be written");
    for entry in policies::ALL {
        let rule = common::rule_of(&(entry.defaults)());
        for seed in 0..8 {
            let _trying = Trying(format!("{} with seed {seed}", entry.name));
            let text = World::random(seed, rule, true).journal(entry.name).lines();
            let mut lines = text.lines();
            let head: Head = serde_json::from_str(lines.next().expect("a head")).expect("it is one");
            let (mut lived, mut told) = (core_of(&head), core_of(&head));
            for (number, line) in lines.enumerate() {
                let record: Record = serde_json::from_str(line).expect("it is a record");
                let batch = Batch { at: record.at, events: record.events };
                let step = lived.step(&batch);
                // A daemon may come back from a state that was kept at any record.
                if number % 7 == 3 {
                    let kept = serde_json::to_string(&told.moment(batch.at)).expect("it can be written");
                    let kept: Moment = serde_json::from_str(&kept).expect("it can be read");
                    told = kept.resume(policies::build(&head.policy, &head.parameters).expect("a policy"));
                }
                told.retell(&batch, &step).expect("it can be told again");
                assert_eq!(bytes(&told, batch.at), bytes(&lived, batch.at), "after record {number}");
                assert_eq!(told.next_wake(batch.at), step.wake, "after record {number}");
            }
        }
    }
}

#[test]
fn a_journal_that_was_tampered_with_is_noticed() {
    let text = World::random(7, Rule::Pack, true).journal("srtf").lines();
    assert!(replay(&text).is_ok());
    let lines: Vec<&str> = text.lines().collect();
    let begins = lines.iter().position(|line| line.contains("\"action\":\"start\"")).expect("a start");
    let later = lines.iter().rposition(|line| line.contains("\"action\":\"start\"")).expect("a start");
    assert!(begins < later, "there are several starts");
    let without: Vec<&str> =
        lines.iter().enumerate().filter(|(i, _)| *i != begins).map(|(_, l)| *l).collect();
    assert!(replay(&without.join("\n")).is_err(), "a record is missing");
    let other = text.replacen("\"policy\":\"srtf\"", "\"policy\":\"fifo\"", 1);
    assert!(replay(&other).is_err(), "another policy decides otherwise");
    let newer = text.replacen("\"version\":1", "\"version\":99", 1);
    assert!(replay(&newer).is_err_and(|error| error.contains("newer")));
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

#[test]
fn a_journal_of_version_1_stays_readable() {
    let path = golden("journal-v1.jsonl");
    let text = std::fs::read_to_string(&path).expect("the old journal is kept");
    let summary = replay(&text).expect("an old journal is told as it was");
    assert!(text.starts_with("{\"version\":1,"), "it is of version 1");
    assert!(text.lines().count() > 10 && summary.completed == summary.jobs && summary.jobs > 4);
}

/// The numbers of a few generated workloads, as they are reviewed.
fn numbers(policy: &'static trainyard_sched::decide::Entry) -> String {
    let rule = common::rule_of(&(policy.defaults)());
    let of = |seed| {
        let mut summary = World::random(seed, rule, true).journal(policy.name).summary;
        policy.name.clone_into(&mut summary.policy);
        serde_json::to_string_pretty(&summary).expect("numbers can be written") + "\n"
    };
    (1..=2).map(of).collect()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "whoever runs the test asks for an update by the environment")]
fn the_numbers_of_small_runs_are_those_that_were_reviewed() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = Vec::new();
    for entry in policies::ALL {
        let (path, got) = (golden(&format!("{}.txt", entry.name)), numbers(entry));
        if update {
            std::fs::write(&path, got).expect("the golden folder can be written");
        } else if std::fs::read_to_string(&path).unwrap_or_default() != got {
            wrong.push(format!("{}\ngot:\n{got}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "if meant, run with UPDATE_GOLDEN=1 and review:\n{}", wrong.join("\n"));
}
