//! A job as several copies that train at the same time: what they learn is brought together, nothing is counted twice, and what is
//! lost is dropped.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::learn::State;
use common::reckon::{Ran, mean, same, state};
use common::scripted::{decides, want};
use common::{Yard, gang, place};
use trainyard_live::Work;
use trainyard_live::board::{Card, Standing};
use trainyard_sched::control::Outcome;
use trainyard_sched::model::{Cluster, JobId, NodeId, NodeState, Parallelism, Resources};

const JOB: JobId = JobId(0);

/// Three nodes of two cores, and a job that may have three copies.
fn begin(goal: f64, words: &[&str], change: impl Fn(&mut Work)) -> Yard {
    begin_with(goal, words, place::elastic(1, 2), change)
}

fn begin_with(goal: f64, words: &[&str], shape: Parallelism, change: impl Fn(&mut Work)) -> Yard {
    let yard = Yard::begin_with("scripted", "3x2:cpu", decides);
    let exe = env!("CARGO_BIN_EXE_yard");
    let mut work = common::command(&[&[exe, "learn"], words].concat());
    // Longer than a test waits for anything.
    work.grace_s = 60;
    change(&mut work);
    let submission = place::forked(shape, work, goal);
    assert_eq!(yard.handle().submit(submission).expect("it is taken"), (JOB, true));
    yard
}

fn job(yard: &Yard) -> Ran {
    Ran(yard.path().join("jobs/0"))
}

fn reaches(yard: &Yard, iterations: f64) -> Card {
    yard.until(|board| board.jobs[&JOB].iterations >= iterations);
    yard.card(JOB)
}

fn runs(yard: &Yard, attempt: u32) {
    yard.until(|board| board.jobs[&JOB].attempt == attempt && board.jobs[&JOB].state == Standing::Running);
}

fn waits(yard: &Yard) {
    yard.until(|board| board.jobs[&JOB].state == Standing::Waiting);
}

/// The number in a file of the first copy in the first attempt.
fn number(yard: &Yard, file: &str, name: &str) -> u64 {
    let text = fs::read(job(yard).copy(1, 0).join(file)).unwrap_or_default();
    let all: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    all[name].as_u64().unwrap_or(0)
}

#[test]
fn copies_are_merged_and_go_on_and_another_number_of_them_begins_from_there() {
    let yard = begin(1e9, &["step=3"], |_| {});
    want(yard.path(), "0:0:1 1:1:1");
    runs(&yard, 1);
    reaches(&yard, 20.0);
    // Another size at work: they are merged first, and go on without a restart.
    for (words, workers) in [("0:0:2 1:1:2", 4), ("0:0:1 1:1:1", 2), ("0:0:2 1:1:2", 4)] {
        let before = yard.card(JOB).iterations;
        want(yard.path(), words);
        yard.until(|board| board.jobs[&JOB].workers == workers);
        reaches(&yard, before + 20.0);
    }
    assert_eq!(yard.card(JOB).attempt, 1);
    let (_, number) = job(&yard).look_at_merges(1, 2);
    assert!(number >= 3, "merged {number} times");
    // A third copy needs a restart; what the two did meanwhile is merged.
    want(yard.path(), "0:0:1 1:1:1 2:2:1");
    runs(&yard, 2);
    let (base, _) = job(&yard).look_at_merges(1, 2);
    let left: Vec<State> = (0..2).map(|copy| state(&job(&yard).copy(1, copy), "saved-stop")).collect();
    let wanted = mean(&base, &left);
    reaches(&yard, wanted.step as f64 + 30.0);
    (0..3).for_each(|copy| same(&state(&job(&yard).copy(2, copy), "loaded-0"), &wanted));
    // None at all, and then one, which is no copy.
    want(yard.path(), "");
    yard.until(|board| board.jobs[&JOB].state == Standing::Waiting);
    let (base, _) = job(&yard).look_at_merges(2, 3);
    let left: Vec<State> = (0..3).map(|copy| state(&job(&yard).copy(2, copy), "saved-stop")).collect();
    let wanted = mean(&base, &left);
    same(&job(&yard).merged(), &wanted);
    let card = yard.card(JOB);
    assert_eq!((card.saved, job(&yard).ledger(2).1), (wanted.step as f64, wanted.step as f64));
    assert_eq!(job(&yard).steps(), wanted.step as u64, "no step was lost, and none was counted twice");
    want(yard.path(), "0:1:1");
    runs(&yard, 3);
    reaches(&yard, wanted.step as f64 + 5.0);
    same(&state(&job(&yard).attempt(3), "loaded-0"), &wanted);
    assert!(!job(&yard).attempt(3).join("copy-0").exists(), "one copy is none");
}

#[test]
fn all_copies_together_do_what_is_to_be_done_and_no_more() {
    for copies in ["0:0:1 1:1:1", "0:0:1 1:1:1 2:2:1"] {
        let yard = begin(150.0, &["step=4"], |_| {});
        want(yard.path(), copies);
        let card = yard.ends(JOB);
        assert_eq!((card.outcome, card.said.as_deref()), (Some(Outcome::Completed), Some("finished")));
        assert_eq!((card.iterations, card.attempt), (150.0, 1));
        assert_eq!((job(&yard).merged().step, job(&yard).steps()), (150, 150));
        let each = (0..3).filter_map(|copy| fs::metadata(job(&yard).copy(1, copy).join("steps")).ok());
        let each: Vec<u64> = each.map(|file| file.len()).collect();
        assert!(
            each.len() == copies.split(' ').count() && !each.contains(&0),
            "each does its part: {each:?}"
        );
        let losses: Vec<f64> = card.curve.points.iter().map(|(iteration, _)| *iteration).collect();
        assert!(losses.windows(2).all(|pair| pair[0] < pair[1]), "{losses:?}");
        assert!(!job(&yard).copy(1, 0).join("checkpoints").exists(), "what is merged is not kept twice");
    }
}

#[test]
fn copies_that_have_done_their_quotas_go_on_whoever_decides_next() {
    let yard = begin(150.0, &["step=4"], |_| {});
    want(yard.path(), "0:0:1 1:1:1 /1:20:10");
    let card = reaches(&yard, 30.0);
    assert_eq!(card.iterations, 30.0, "nobody does more than it may");
    yard.handle().choose("fifo", &toml::Table::new()).expect("it exists");
    let card = yard.ends(JOB);
    assert_eq!((card.outcome, card.iterations, card.failures), (Some(Outcome::Completed), 150.0, 0));
    assert_eq!((job(&yard).merged().step, job(&yard).steps()), (150, 150));
}

#[test]
fn each_copy_has_a_rendezvous_files_and_a_number_of_its_own() {
    let yard = Yard::begin_with("scripted", "3x2:cpu", decides);
    let script = "env | grep -E '^(TRAINYARD_(COPY|COPIES|DIR|CHECKPOINT_DIR|MERGE_FILE)|MASTER_PORT|RANK|WORLD_SIZE)=' | sort | tr '\\n' ' '; sleep 60";
    let mut work = common::shell(script);
    (work.launch, work.grace_s) = (trainyard_live::Launch::PerWorker, 1);
    yard.handle().submit(place::forked(gang(2), work, 10.0)).expect("it is taken");
    want(yard.path(), "0:0:2 1:1:2");
    runs(&yard, 1);
    let mut seen: Vec<BTreeMap<String, String>> = Vec::new();
    for program in 0..4 {
        let end = Instant::now() + Duration::from_secs(20);
        let mut text = String::new();
        while !text.contains("WORLD_SIZE=") {
            assert!(Instant::now() < end, "{text}");
            std::thread::sleep(Duration::from_millis(5));
            text = yard.output_of(JOB, 1, program);
        }
        let pairs = text.split_whitespace().filter_map(|pair| pair.split_once('='));
        seen.push(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect());
    }
    let of = |name: &str| seen.iter().map(|all| all[name].as_str()).collect::<Vec<_>>();
    assert_eq!(of("TRAINYARD_COPY"), ["0", "0", "1", "1"]);
    assert_eq!(of("TRAINYARD_COPIES"), ["2"; 4]);
    assert_eq!(of("RANK"), ["0", "1", "0", "1"]);
    assert_eq!(of("WORLD_SIZE"), ["2"; 4]);
    for name in ["TRAINYARD_DIR", "TRAINYARD_CHECKPOINT_DIR", "TRAINYARD_MERGE_FILE", "MASTER_PORT"] {
        let values = of(name);
        assert!(
            values[0] == values[1] && values[2] == values[3] && values[0] != values[2],
            "{name}: {values:?}"
        );
    }
}

/// A copy is lost; what the others did counts, and what it did is dropped.
#[track_caller]
fn the_others_count(yard: &Yard, lost: u32) {
    let all: Vec<State> = (0..3)
        .filter(|copy| *copy != lost)
        .map(|copy| state(&job(yard).copy(1, copy), "saved-stop"))
        .collect();
    let (base, _) = job(yard).look_at_merges(1, 3);
    let wanted = mean(&base, &all);
    same(&state(&job(yard).copy(2, 0), "loaded-0"), &wanted);
    assert_eq!(job(yard).ledger(1).1, wanted.step as f64);
    assert_eq!(yard.card(JOB).failures, 1);
    assert!(!job(yard).copy(1, lost).join("saved-stop.safetensors").exists());
}

#[test]
fn what_a_copy_did_whose_node_goes_down_is_dropped_and_the_rest_is_kept() {
    let yard = begin(1e9, &["step=3"], |_| {});
    want(yard.path(), "0:0:1 1:1:1 2:2:1");
    reaches(&yard, 60.0);
    yard.handle().set_node(NodeId(2), NodeState::Down).expect("it is there");
    yard.until(|board| board.jobs[&JOB].state == Standing::Waiting);
    want(yard.path(), "0:0:1 1:1:1");
    runs(&yard, 2);
    the_others_count(&yard, 2);
}

#[test]
fn what_a_copy_did_that_is_killed_is_dropped_and_the_rest_is_kept() {
    let yard = begin(1e9, &["step=3"], |_| {});
    want(yard.path(), "0:0:1 1:1:1 2:2:1");
    reaches(&yard, 60.0);
    let running = fs::read(job(&yard).copy(1, 1).join("running.json")).expect("it runs");
    let running: serde_json::Value = serde_json::from_slice(&running).expect("it is whole");
    let pid = running["programs"][0]["pid"].as_i64().expect("a number") as i32;
    let pid = rustix::process::Pid::from_raw(pid).expect("a number");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is there");
    runs(&yard, 2);
    the_others_count(&yard, 1);
}

#[test]
fn a_copy_that_does_not_answer_is_stopped_like_any_job_and_what_it_saves_then_counts() {
    let yard = begin(1e9, &["step=3", "silent=1"], |work| work.grace_s = 4);
    want(yard.path(), "0:0:1 1:1:1");
    reaches(&yard, 40.0);
    want(yard.path(), "0:0:2 1:1:2");
    runs(&yard, 2);
    let all: Vec<State> = (0..2).map(|copy| state(&job(&yard).copy(1, copy), "saved-stop")).collect();
    let (base, number) = job(&yard).look_at_merges(1, 2);
    assert_eq!(number, 1, "the first merge is but the state that all begin from");
    let wanted = mean(&base, &all);
    assert!(all[1].step > base.step, "what the silent one did counts");
    same(&state(&job(&yard).copy(2, 0), "loaded-0"), &wanted);
    assert_eq!(job(&yard).ledger(1).1, wanted.step as f64);
}

#[test]
fn a_copy_that_heeds_nothing_is_killed_and_what_it_did_is_dropped() {
    let yard = begin(1e9, &["step=3", "deaf=1"], |work| work.grace_s = 4);
    want(yard.path(), "0:0:1 1:1:1 2:2:1");
    reaches(&yard, 60.0);
    want(yard.path(), "0:0:2 1:1:2 2:2:2");
    runs(&yard, 2);
    the_others_count(&yard, 1);
}

#[test]
fn copies_that_do_not_fit_together_are_a_failure_that_names_the_tensor() {
    let yard = begin(1e9, &["step=3", "form=1"], |_| {});
    want(yard.path(), "0:0:1 1:1:1");
    reaches(&yard, 40.0);
    want(yard.path(), "0:0:2 1:1:2");
    let card = yard.ends(JOB);
    assert_eq!(card.outcome, Some(Outcome::Failed));
    let said = card.said.expect("something is said");
    assert!(said.contains("tensor `weights` is F64 of shape"), "{said}");
    assert!(job(&yard).copy(1, 0).join("checkpoints/state.safetensors").exists(), "nothing is thrown away");
}

#[test]
fn a_daemon_that_comes_back_goes_on_with_copies() {
    let mut yard = begin(1500.0, &["step=4"], |_| {});
    want(yard.path(), "0:0:1 1:1:1 2:2:1");
    reaches(&yard, 30.0);
    for (words, workers) in [("0:0:2 1:1:2 2:2:2", 6), ("0:0:1 1:1:1 2:2:1", 3)] {
        let merge = number(&yard, "control.json", "merge");
        want(yard.path(), words);
        // It leaves in the middle of a merge, unless it is faster than this test.
        yard.until(|board| {
            let card = &board.jobs[&JOB];
            card.ended.is_some() || card.workers == workers || number(&yard, "control.json", "merge") > merge
        });
        yard.restart(Duration::ZERO);
    }
    let card = yard.ends(JOB);
    assert_eq!((card.outcome, card.iterations, card.attempt), (Some(Outcome::Completed), 1500.0, 1));
    assert_eq!((job(&yard).merged().step, job(&yard).steps()), (1500, 1500));
    job(&yard).look_at_merges(1, 3);
}

/// Something lies where the first attempt writes down that a merge is done, as if there were no room for it.
fn no_room(yard: &Yard) -> PathBuf {
    want(yard.path(), "0:0:1 1:1:1");
    reaches(yard, 20.0);
    let in_the_way = job(yard).attempt(1).join("merged.json.new");
    fs::create_dir(&in_the_way).expect("it can be made");
    in_the_way
}

#[test]
fn a_merge_for_which_there_is_no_room_is_tried_until_there_is() {
    let yard = begin(1e9, &["step=3"], |_| {});
    let in_the_way = no_room(&yard);
    want(yard.path(), "0:0:2 1:1:2");
    // Each try makes the file anew.
    let file = job(&yard).attempt(1).join("merge-2/state.safetensors");
    let mut tries = BTreeSet::new();
    let end = Instant::now() + Duration::from_secs(60);
    while tries.len() < 7 {
        let card = yard.card(JOB);
        assert!(card.ended.is_none() && Instant::now() < end, "{} tries: {card:#?}", tries.len());
        tries.extend(fs::metadata(&file).and_then(|file| file.modified()));
        std::thread::sleep(Duration::from_millis(5));
    }
    let said = yard.card(JOB).said.expect("something is said");
    assert!(said.contains("the copies cannot be merged"), "{said}");
    fs::remove_dir(in_the_way).expect("it is there");
    yard.until(|board| board.jobs[&JOB].workers == 4);
    reaches(&yard, yard.card(JOB).iterations + 20.0);
    let card = yard.card(JOB);
    assert_eq!((card.attempt, card.failures, card.outcome), (1, 0, None));
    assert!(job(&yard).look_at_merges(1, 2).1 >= 2);
}

#[test]
fn a_job_can_be_withdrawn_that_has_no_room_for_a_merge() {
    let yard = begin(1e9, &["step=3"], |_| {});
    no_room(&yard);
    yard.handle().withdraw(JOB).expect("it is there");
    assert_eq!(yard.ends(JOB).outcome, Some(Outcome::Withdrawn));
    for copy in 0..2 {
        let kept = job(&yard).copy(1, copy).join("checkpoints/state.safetensors");
        assert!(kept.exists(), "nothing is thrown away");
    }
}

#[test]
fn copies_whose_programs_load_have_nothing_to_merge() {
    let yard = Yard::begin_with("scripted", "3x2:cpu", decides);
    let mut work = common::shell("sleep 600");
    work.grace_s = 1;
    yard.handle().submit(place::forked(place::elastic(1, 2), work, 10.0)).expect("it is taken");
    for attempt in 1..=5 {
        want(yard.path(), "0:0:1 1:1:1");
        runs(&yard, attempt);
        want(yard.path(), "0:0:2 1:1:2");
        yard.until(|board| board.jobs[&JOB].workers == 4);
        want(yard.path(), "");
        waits(&yard);
    }
    let card = yard.card(JOB);
    assert_eq!((card.attempt, card.failures, card.outcome), (5, 0, None));
}

#[test]
fn a_job_has_not_begun_as_long_as_one_of_its_copies_cannot_be_launched() {
    let yard = begin(1e9, &["step=3"], |_| {});
    for attempt in 1..=3 {
        // Where the second copy is to be told what to do.
        let in_the_way = job(&yard).copy(attempt, 1).join("control.json.new");
        fs::create_dir_all(in_the_way).expect("it can be made");
    }
    want(yard.path(), "0:0:1 1:1:1");
    runs(&yard, 4);
    for attempt in 1..=3 {
        assert!(job(&yard).copy(attempt, 0).join("running.json").exists(), "the first one was launched");
        let running = job(&yard).attempt(attempt).join("running.json");
        assert!(!running.exists(), "by this the next start waits longer");
    }
    reaches(&yard, 20.0);
    assert_eq!(yard.card(JOB).failures, 3);
}

#[test]
fn a_job_whose_state_is_gone_counts_from_the_state_that_its_copies_begin_with() {
    let yard = begin(1e9, &["step=3"], |_| {});
    want(yard.path(), "0:1:1");
    reaches(&yard, 20.0);
    want(yard.path(), "");
    waits(&yard);
    assert!(yard.card(JOB).saved >= 20.0);
    fs::remove_file(job(&yard).0.join("checkpoints/state.safetensors")).expect("it is there");
    want(yard.path(), "0:0:1 1:1:1");
    runs(&yard, 2);
    assert_eq!(state(&job(&yard).copy(2, 0), "loaded-1").step, 0);
    assert_eq!(job(&yard).ledger(2), (1, 0.0));
    for copy in 0..2 {
        let order = fs::read(job(&yard).copy(2, copy).join("order.json")).expect("it is there");
        let order: serde_json::Value = serde_json::from_slice(&order).expect("it is whole");
        assert_eq!(order["begun_from"], 0.0, "what is counted of it counts from there");
    }
    let trained = |copy| job(&yard).copy(2, copy).join("steps");
    while !(0..2).all(|copy| trained(copy).exists()) {
        std::thread::sleep(Duration::from_millis(5));
    }
    want(yard.path(), "");
    waits(&yard);
    let steps: u64 = (0..2).map(|copy| fs::metadata(trained(copy)).expect("it is there").len()).sum();
    let found = (job(&yard).merged().step as u64, job(&yard).ledger(2).1, yard.card(JOB).saved);
    assert_eq!(found, (steps, steps as f64, steps as f64));
}

#[test]
fn copies_with_other_devices_begin_anew() {
    let yard = Yard::begin_with("scripted", "2x2:cpu", |settings| {
        decides(settings);
        settings.cluster = Cluster::uniform(2, 2, "gpu");
    });
    let work = common::command(&[env!("CARGO_BIN_EXE_yard"), "learn", "step=3"]);
    let shape = Parallelism::rigid(1, Resources::gpus(1));
    yard.handle().submit(place::forked(shape, work, 1e9)).expect("it is taken");
    for (attempt, words, gpu) in [(1, "0:0:1:0 1:1:1:0", "0"), (2, "0:0:1:1 1:1:1:1", "1")] {
        want(yard.path(), words);
        runs(&yard, attempt);
        for copy in 0..2 {
            let order = fs::read(job(&yard).copy(attempt, copy).join("order.json")).expect("it is there");
            let order: serde_json::Value = serde_json::from_slice(&order).expect("it is whole");
            assert_eq!(order["programs"][0]["environment"]["CUDA_VISIBLE_DEVICES"], gpu);
        }
        reaches(&yard, yard.card(JOB).iterations + 20.0);
    }
    assert_eq!(yard.card(JOB).failures, 0);
}

#[test]
fn copies_that_begin_with_nothing_begin_with_the_same() {
    let yard = begin(1e9, &["step=3", "odd=1"], |_| {});
    want(yard.path(), "0:0:1 1:1:1");
    reaches(&yard, 20.0);
    let (first, second) = (job(&yard).copy(1, 0), job(&yard).copy(1, 1));
    let begun = [&first, &second].map(|folder| state(folder, "loaded-0"));
    assert_ne!(begun[0].weights, begun[1].weights, "they draw different states");
    [&first, &second].into_iter().for_each(|folder| same(&state(folder, "loaded-1"), &begun[0]));
    same(&job(&yard).merged(), &begun[0]);
}

#[test]
fn a_script_with_the_hook_for_python_may_be_forked() {
    let python = std::process::Command::new("python3").arg("--version").output();
    if !python.is_ok_and(|output| output.status.success()) {
        println!("skipped: the example needs python3, which is not installed");
        return;
    }
    let yard = Yard::begin_with("scripted", "3x2:cpu", decides);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/jobs/copies.py");
    let mut work = common::command(&["python3", "-B", script, "--steps=1000", "--seconds-a-step=0.01"]);
    work.grace_s = 60;
    yard.handle().submit(place::forked(place::elastic(1, 2), work, 600.0)).expect("it is taken");
    want(yard.path(), "0:0:1 1:1:1");
    reaches(&yard, 60.0);
    want(yard.path(), "0:0:2 1:1:2");
    // It may be done before that is seen.
    yard.until(|board| board.jobs[&JOB].workers == 4 || board.jobs[&JOB].ended.is_some());
    let was_resized = yard.card(JOB).ended.is_none();
    let card = yard.ends(JOB);
    assert_eq!((card.outcome, card.iterations, card.attempt), (Some(Outcome::Completed), 600.0, 1));
    for copy in 0..2 {
        let output = yard.output_of(JOB, 1, copy);
        assert!(output.contains("merged: goes on after step "), "{output}");
        assert!(output.contains("stops after step ") && !output.contains("Traceback"), "{output}");
    }
    let (ledger, iterations) = job(&yard).ledger(1);
    // One before they begin and one in the end.
    assert!(ledger >= if was_resized { 3 } else { 2 }, "{ledger} merges");
    assert_eq!(iterations, 600.0);
}
