//! Real training as one copy and as three of unequal speed, with as many iterations in all: how good the parameters are in the end
//! (specification of Hadar and Gavel, quality check Q-1). How good they are is held where who does how much is fixed; with a daemon
//! it depends on the machine, and there the counts are held. Five copies are tried with several lengths of a slot, and by rows that
//! nobody learned from; `hadare` decides where it is asked to.

#![allow(dead_code, reason = "what tests share is not all used here")]

#[path = "../../live/tests/common/place.rs"]
mod place;
#[path = "../../live/tests/common/scripted.rs"]
mod scripted;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use trainyard_live::board::Card;
use trainyard_live::consolidate::{Part, consolidate};
use trainyard_live::local::{Confinement, LocalExecutor, Options};
use trainyard_live::{Daemon, Work};
use trainyard_sched::control::Outcome;
use trainyard_sched::decide::{Abilities, Cadence, Decision, Policy, Verdict};
use trainyard_sched::model::{Cluster, JobId, NodeId, NodeState, Parallelism, Quotas, Resources};
use trainyard_sched::view::Snapshot;
use trainyard_train::data::{Data, Table, generator};
use trainyard_train::{Checkpoint, Values};

const JOB: JobId = JobId(0);
/// Iterations in all.
const GOAL: u32 = 60;
const SEED: u64 = 1;
const DATA: [&str; 3] = ["rows=8000", "features=6", "centres=10"];
/// What three copies do between two merges; their speeds are as 4 to 2 to 1.
const SHARES: [u32; 3] = [6, 3, 1];
/// How much worse the loss may be than that of one copy.
const WORSE: f64 = 1.02;
/// How far from what it was the loss must come at least if nobody knows when copies are merged. In the worst case that is but once,
/// in the end.
const LEARNED: f64 = 0.5;
const PATIENCE: Duration = Duration::from_secs(240);

/// The words of a training up to so many iterations.
fn learn(iterations: u32) -> Vec<String> {
    let data = format!("blobs,{}", DATA.join(","));
    let iterations = iterations.to_string();
    ["train-job", "mlp", "--set", "step=0.1,hidden=16", "--generate", &data, "--iterations", &iterations]
        .map(str::to_owned)
        .into()
}

/// One of several copies, and the part of the rows that is its own.
#[derive(Clone, Copy)]
struct Own {
    copy: usize,
    part: Option<[f64; 2]>,
}

impl Own {
    const FIRST: Self = Self { copy: 0, part: None };

    /// Copies with parts in proportion to what they do.
    fn all(shares: &[u32]) -> Vec<Self> {
        let all: u32 = shares.iter().sum();
        let before = |copy: usize| f64::from(shares[..copy].iter().sum::<u32>()) / f64::from(all);
        (0..shares.len()).map(|copy| Self { copy, part: Some([before(copy), before(copy + 1)]) }).collect()
    }

    /// Says to a training which one it is.
    fn tell(self, training: &mut Command, folder: &Path) {
        let said = self.part.map_or("{}".to_owned(), |[from, to]| format!("{{\"part\":[{from},{to}]}}"));
        std::fs::write(folder.join("control.json"), said).expect("it can be written");
        training.env("TRAINYARD_COPY", self.copy.to_string());
        training.env("TRAINYARD_CONTROL_FILE", folder.join("control.json"));
        training.env("TRAINYARD_MERGE_FILE", folder.join("merge.json"));
    }
}

/// Lets one training, or one copy of it, go on from a file up to so many iterations.
fn go_on(state: &Path, copy: Option<Own>, iterations: u32) {
    let folder = state.parent().expect("it is in a folder");
    let mut training = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    training.args(learn(iterations)).arg("--resume").arg("--checkpoint").arg(state);
    training.arg("--report").arg(folder.join("report.jsonl"));
    if let Some(own) = copy {
        own.tell(&mut training, folder);
    }
    let done = training.output().expect("it can be started");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Trains until all is done. After each so many iterations the job is to hold the next of these, and then again.
fn train(name: &str, shares: &[&str], every: f64) -> (Card, Checkpoint, u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let exe = Path::new(env!("CARGO_BIN_EXE_trainyard"));
    let cluster = place::cluster((3, 2));
    let confinement = Confinement::find(&format!("trainyard-copies-{name}-{}", std::process::id()));
    println!("{}", confinement.describe());
    let usual = place::options(folder.path(), exe.to_owned(), confinement);
    let options = Options { speeds: vec![1.0, 0.5, 0.25], ..usual };
    let mut settings = place::settings(folder.path(), cluster.clone(), "scripted");
    scripted::decides(&mut settings);
    let executor = Box::new(LocalExecutor::new(options, cluster));
    let daemon = Daemon::begin(settings, executor, Box::new(|_| {})).expect("it begins");
    let handle = daemon.handle();
    let command = std::iter::once(exe.display().to_string()).chain(learn(GOAL)).collect();
    // Longer than this test waits: whoever is slow is not lost.
    let work = Work { grace_s: 600, ..Work::new(command) };
    scripted::want(folder.path(), shares[0]);
    let submission = place::forked(place::elastic(1, 2), work, GOAL.into());
    handle.submit(submission).expect("it is taken");
    let (end, mut turns) = (Instant::now() + PATIENCE, 0);
    let card = loop {
        let card = handle.board().jobs[&JOB].clone();
        if card.ended.is_some() {
            break card;
        }
        if card.iterations >= every * (f64::from(turns) + 1.0) {
            turns += 1;
            scripted::want(folder.path(), shares[turns as usize % shares.len()]);
        }
        assert!(Instant::now() < end, "it does not end: {card:#?}");
        std::thread::sleep(Duration::from_millis(5));
    };
    daemon.leave();
    let state = Checkpoint::read(&folder.path().join("jobs/0/checkpoints/state.safetensors"));
    let merges = std::fs::read_to_string(folder.path().join("jobs/0/1/merged.json")).unwrap_or_default();
    let merges: serde_json::Value = serde_json::from_str(&merges).unwrap_or_default();
    (card, state.expect("a whole file"), merges["number"].as_u64().unwrap_or(0))
}

fn read(state: &Path) -> Checkpoint {
    Checkpoint::read(state).expect("a whole file")
}

fn table() -> Data {
    let blobs = generator("blobs").expect("it is there");
    let values = Values::new(blobs.name, blobs.parameters, &DATA).expect("they are right");
    blobs.make(&values, SEED).expect("it can be made")
}

/// The mean cross-entropy of a net with one hidden layer, reckoned from its parameters alone.
fn loss(table: &Table, state: &Checkpoint) -> f64 {
    let of = |name: &str| state.state.get(name).expect("it is there").values.clone();
    let layer = |weights: &[f64], intercepts: &[f64], input: &[f64]| -> Vec<f64> {
        let rows = weights.chunks_exact(input.len()).zip(intercepts);
        rows.map(|(row, intercept)| row.iter().zip(input).map(|(a, b)| a * b).sum::<f64>() + intercept)
            .collect()
    };
    let classes = table.classes(1000).expect("there are classes");
    let (w1, b1) = (of("layer1.weight"), of("layer1.intercept"));
    let (w2, b2) = (of("layer2.weight"), of("layer2.intercept"));
    let each = (0..table.rows()).map(|row| {
        let hidden: Vec<f64> = layer(&w1, &b1, table.row(row)).into_iter().map(f64::tanh).collect();
        let outputs = layer(&w2, &b2, &hidden);
        let class = classes.iter().position(|class| *class == table.targets[row]).expect("a class");
        outputs.iter().map(|output| (output - outputs[class]).exp()).sum::<f64>().ln()
    });
    each.sum::<f64>() / table.rows() as f64
}

#[test]
fn three_unequal_copies_learn_as_much_as_one_in_as_many_iterations() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| {
        std::fs::create_dir_all(folder.path().join(name)).expect("a folder");
        folder.path().join(name).join("state.safetensors")
    };
    let (alone, merged) = (path("alone"), path("merged"));
    go_on(&alone, None, GOAL);
    // All copies begin with the state of the first one.
    go_on(&merged, Some(Own::FIRST), 0);
    let mut done = 0;
    while done < GOAL {
        let copy = |(own, share): (Own, u32)| {
            let state = path(&format!("copy-{}", own.copy));
            std::fs::copy(&merged, &state).expect("it can be copied");
            go_on(&state, Some(own), done + share);
            assert_eq!(read(&state).iteration(), u64::from(done + share));
            Part { path: state, iterations: share.into() }
        };
        let parts: Vec<Part> = Own::all(&SHARES).into_iter().zip(SHARES).map(copy).collect();
        done += SHARES.iter().sum::<u32>();
        let told = BTreeMap::from([("trainyard.iteration".to_owned(), done.to_string())]);
        let next = path("next");
        consolidate(&parts, Some(&merged), &told, &next).expect("they fit together");
        std::fs::rename(next, &merged).expect("it can be renamed");
    }
    let data = table();
    let loss = |state: &Path| loss(data.table().expect("they are rows"), &read(state));
    assert_eq!([read(&alone).iteration(), read(&merged).iteration()], [u64::from(GOAL); 2]);
    let (alone, together) = (loss(&alone), loss(&merged));
    println!(
        "loss of one copy {alone:.4}, of three {together:.4}: {:+.2} %",
        100.0 * (together / alone - 1.0)
    );
    assert!(together <= WORSE * alone, "{together} is worse than {alone} by more than 2 %");
}

#[test]
fn a_daemon_lets_three_unequal_copies_do_as_many_iterations_as_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = folder.path().join("state.safetensors");
    go_on(&start, Some(Own::FIRST), 0);
    let (one, alone, _) = train("one", &["0:0:1"], f64::INFINITY);
    let three = ["0:0:1 1:1:1 2:2:1", "0:0:2 1:1:2 2:2:2"];
    let (several, together, merges) = train("three", &three, 10.0);
    for card in [&one, &several] {
        assert_eq!((card.outcome, card.iterations), (Some(Outcome::Completed), f64::from(GOAL)));
        assert_eq!(card.failures, 0);
    }
    assert_eq!((alone.iteration(), together.iteration()), (GOAL.into(), GOAL.into()));
    let passes = |state: &Checkpoint| state.state.number("passes").expect("it is there");
    assert_eq!((passes(&alone), passes(&together)), (GOAL.into(), GOAL.into()), "counters add up");
    // Once before they begin and once in the end; how often between depends on the machine.
    assert!(merges >= 2, "merged {merges} times");
    let data = table();
    let loss = |state: &Checkpoint| loss(data.table().expect("they are rows"), state);
    let (start, alone, together) = (loss(&read(&start)), loss(&alone), loss(&together));
    println!(
        "loss at first {start:.4}, of one copy {alone:.4} in {:.1} s, of three {together:.4} in {:.1} s after {merges} merges",
        one.executed_s, several.executed_s
    );
    assert!(
        (alone - one.loss.expect("it was reported")).abs() < 1e-9,
        "the loss is reckoned as it was there"
    );
    assert!(start - together >= LEARNED * (start - alone), "{together} from {start}, and one copy {alone}");
}

/// What five copies do of ten passes; together they take as long as three by the fastest one alone.
const FIVE: [u32; 5] = [3, 3, 2, 1, 1];
/// Passes of all copies between two merges: in each, the fastest does three tenths.
const SLOTS: [u32; 3] = [10, 20, 30];

/// Rows to learn from, in a file, and others of the same kind.
fn divided(folder: &Path, generated: &str, words: &[&str]) -> (std::path::PathBuf, Table) {
    let generator = generator(generated).expect("it is there");
    let values = Values::new(generator.name, generator.parameters, words).expect("they are right");
    let data = generator.make(&values, SEED).expect("it can be made");
    let all = data.table().expect("they are rows");
    let half = all.rows() / 2;
    let line = |row: usize| {
        let values = all.row(row).iter().chain([&all.targets[row]]);
        values.map(f64::to_string).collect::<Vec<_>>().join(",") + "\n"
    };
    let file = folder.join(format!("{generated}.csv"));
    std::fs::write(&file, (0..half).map(line).collect::<String>()).expect("it can be written");
    let (values, targets) = (all.values[half * all.columns..].to_vec(), all.targets[half..].to_vec());
    (file, Table { columns: all.columns, values, targets })
}

/// Lets one training, or one copy, go on up to so many passes over the rows of a file.
fn pass(words: &[&str], file: &Path, state: &Path, copy: Option<Own>, iterations: u32) {
    let folder = state.parent().expect("it is in a folder");
    let mut training = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    training
        .arg("train-job")
        .args(words)
        .arg("--data")
        .arg(file)
        .args(["--iterations", &iterations.to_string()]);
    training.arg("--resume").arg("--checkpoint").arg(state).arg("--report").arg(folder.join("report.jsonl"));
    if let Some(own) = copy {
        own.tell(&mut training, folder);
    }
    let done = training.output().expect("it can be started");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// The mean logistic loss of a table, and the part that is classified rightly.
fn logistic(table: &Table, state: &Checkpoint) -> (f64, f64) {
    let weights = &state.state.get("weights").expect("it is there").values;
    let positive = table.targets.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let margins: Vec<f64> = (0..table.rows())
        .map(|row| {
            let sum: f64 = table.row(row).iter().zip(weights).map(|(a, b)| a * b).sum();
            let sign = if table.targets[row] == positive { 1.0 } else { -1.0 };
            sign * (sum + weights[table.columns])
        })
        .collect();
    let count = margins.len() as f64;
    let loss: f64 = margins.iter().map(|margin| (-margin).exp().ln_1p()).sum();
    (loss / count, margins.iter().filter(|margin| **margin > 0.0).count() as f64 / count)
}

/// The mean cross-entropy of a table, and the part of the rows that is classified rightly.
fn net(table: &Table, state: &Checkpoint) -> (f64, f64) {
    let classes = table.classes(1000).expect("there are classes");
    let most = |values: &[f64]| (0..values.len()).max_by(|a, b| values[*a].total_cmp(&values[*b]));
    let is_right = |row: &usize| {
        let found = most(&outputs(state, table.row(*row))).expect("there are classes");
        classes[found] == table.targets[*row]
    };
    let right = (0..table.rows()).filter(is_right).count();
    (loss(table, state), right as f64 / table.rows() as f64)
}

/// What a net with one hidden layer makes of a row.
fn outputs(state: &Checkpoint, row: &[f64]) -> Vec<f64> {
    let of = |name: String| state.state.get(&name).expect("it is there").values.clone();
    let layer = |number: u32, input: &[f64]| -> Vec<f64> {
        let (weights, intercepts) =
            (of(format!("layer{number}.weight")), of(format!("layer{number}.intercept")));
        let rows = weights.chunks_exact(input.len()).zip(&intercepts);
        rows.map(|(row, intercept)| row.iter().zip(input).map(|(a, b)| a * b).sum::<f64>() + intercept)
            .collect()
    };
    let hidden: Vec<f64> = layer(1, row).into_iter().map(f64::tanh).collect();
    layer(2, &hidden)
}

/// How good the parameters are by rows that nobody learned from.
type Judge = fn(&Table, &Checkpoint) -> (f64, f64);

/// five unequal copies against one, with as many passes in all.
#[track_caller]
fn five_copies_learn_as_much_as_one(words: &[&str], generated: (&str, &[&str]), judge: Judge) {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, unseen) = divided(folder.path(), generated.0, generated.1);
    let path = |name: &str| {
        std::fs::create_dir_all(folder.path().join(name)).expect("a folder");
        folder.path().join(name).join("state.safetensors")
    };
    let alone = path("alone");
    pass(words, &file, &alone, None, GOAL);
    let (alone, accuracy) = judge(&unseen, &read(&alone));
    println!("{}: one copy, {GOAL} passes: loss {alone:.4}, accuracy {accuracy:.4}", words[0]);
    for (slot, has_parts) in SLOTS.into_iter().flat_map(|slot| [(slot, true), (slot, false)]) {
        let merged = path(&format!("merged-{slot}-{has_parts}"));
        pass(words, &file, &merged, Some(Own::FIRST), 0);
        let (mut done, mut fastest) = (0, 0);
        while done < GOAL {
            let copy = |own: Own| {
                let (state, share) = (path(&format!("copy-{}", own.copy)), FIVE[own.copy] * slot / 10);
                std::fs::copy(&merged, &state).expect("it can be copied");
                let own = Own { part: own.part.filter(|_| has_parts), ..own };
                pass(words, &file, &state, Some(own), done + share);
                Part { path: state, iterations: share.into() }
            };
            let parts: Vec<Part> = Own::all(&FIVE).into_iter().map(copy).collect();
            done += slot;
            fastest += FIVE[0] * slot / 10;
            let told = BTreeMap::from([("trainyard.iteration".to_owned(), done.to_string())]);
            let next = path("next");
            consolidate(&parts, Some(&merged), &told, &next).expect("they fit together");
            std::fs::rename(next, &merged).expect("it can be renamed");
        }
        assert_eq!(read(&merged).iteration(), u64::from(GOAL));
        let (together, accuracy) = judge(&unseen, &read(&merged));
        println!(
            "{}: five copies, {} rows, slots of {slot} passes, {fastest} by the fastest: loss {together:.4} ({:+.2} %), accuracy {accuracy:.4}",
            words[0],
            if has_parts { "each its own" } else { "all" },
            100.0 * (together / alone - 1.0)
        );
        assert!(
            !has_parts || together <= WORSE * alone,
            "slots of {slot}: {together} is worse than {alone} by more than 2 %"
        );
    }
}

#[test]
fn five_copies_of_a_logistic_regression_learn_as_much_as_one() {
    let words = ["logistic", "--set", "method=stochastic,step=0.5,batch=32,l2=0.02"];
    five_copies_learn_as_much_as_one(&words, ("classification", &["rows=4000"]), logistic);
}

#[test]
fn five_copies_of_a_perceptron_learn_as_much_as_one() {
    let words = ["mlp", "--set", "step=0.1,hidden=16"];
    five_copies_learn_as_much_as_one(&words, ("blobs", &["rows=8000", "features=6", "centres=10"]), net);
}

/// `hadare`, and all quotas that it gave.
struct Spied(Box<dyn Policy>, Arc<Mutex<Vec<Quotas>>>);

impl Policy for Spied {
    fn cadence(&self) -> Cadence {
        self.0.cadence()
    }
    fn needs(&self) -> Abilities {
        self.0.needs()
    }
    fn decide(&mut self, seen: &Snapshot) -> Decision {
        let decision = self.0.decide(seen);
        let given =
            decision.merges.iter().map(|(_, quotas)| quotas.clone()).filter(|quotas| !quotas.is_none());
        self.1.lock().expect("nobody panics with it").extend(given);
        decision
    }
    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.0.explain(seen, job)
    }
}

#[test]
fn hadare_forks_a_real_training_onto_unequal_nodes_and_goes_on_when_one_is_lost() {
    const ALL: u32 = 2500;
    let folder = tempfile::tempdir().expect("a folder");
    let exe = Path::new(env!("CARGO_BIN_EXE_trainyard"));
    let mut cluster = Cluster::uniform(1, 1, "whole");
    cluster.add(1, 1, "half");
    cluster.add(1, 1, "quarter");
    let confinement = Confinement::find(&format!("trainyard-hadare-{}", std::process::id()));
    println!("{}", confinement.describe());
    let usual = place::options(folder.path(), exe.to_owned(), confinement);
    let options = Options { speeds: vec![1.0, 0.5, 0.25], cpus_per_gpu: Some(1.0), ..usual };
    let mut settings = place::settings(folder.path(), cluster.clone(), "hadare");
    let quotas: Arc<Mutex<Vec<Quotas>>> = Arc::default();
    let spied = Arc::clone(&quotas);
    settings.policies = Arc::new(move |name, _| {
        let (name, spied) = (name.to_owned(), Arc::clone(&spied));
        Ok(Arc::new(move || {
            let slots: toml::Table = "round_s = 1".parse().expect("TOML");
            let policy = trainyard_sched::policies::build(&name, &slots).expect("it is there");
            Box::new(Spied(policy, Arc::clone(&spied)))
        }))
    });
    let executor = Box::new(LocalExecutor::new(options, cluster));
    let daemon = Daemon::begin(settings, executor, Box::new(|_| {})).expect("it begins");
    let handle = daemon.handle();
    let command = std::iter::once(exe.display().to_string()).chain(learn(ALL)).collect();
    let work = Work { grace_s: 600, ..Work::new(command) };
    let shape = Parallelism::rigid(1, Resources::gpus(1));
    handle.submit(place::forked(shape, work, ALL.into())).expect("it is taken");
    let card = || handle.board().jobs[&JOB].clone();
    let end = Instant::now() + PATIENCE;
    let until = |what: &str, is_so: &dyn Fn(&Card) -> bool| {
        while !is_so(&card()) {
            assert!(Instant::now() < end, "{what} does not come: {:#?}", card());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let ledger = |attempt: u32| -> serde_json::Value {
        let file = folder.path().join(format!("jobs/0/{attempt}/merged.json"));
        std::fs::read_to_string(file)
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default()
    };
    let given = || quotas.lock().expect("nobody panics with it").clone();
    // Nothing is known of its speed at first, so it begins as one; then it is forked, which is another start.
    let merges = |attempt| ledger(attempt)["number"].as_u64().unwrap_or(0);
    until("a quota and a merge", &|card| {
        card.ended.is_some() || (given().len() >= 2 && merges(card.attempt) >= 3)
    });
    // Each copy is told a part of the rows, and all of them together all rows.
    let part = |attempt: u32, copy: u32| -> Option<[f64; 2]> {
        let file = folder.path().join(format!("jobs/0/{attempt}/copy-{copy}/control.json"));
        let said: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()?;
        serde_json::from_value(said["part"].clone()).ok()
    };
    until("a part of the rows for each copy", &|card| {
        let mut ends: Vec<[f64; 2]> = (0..16).filter_map(|copy| part(card.attempt, copy)).collect();
        ends.sort_by(|a, b| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])));
        let meet = ends.windows(2).all(|pair| pair[0][1] == pair[1][0]);
        card.ended.is_some() || (ends.len() == 3 && meet && ends[0][0] == 0.0 && ends[2][1] == 1.0)
    });
    let forked = card();
    assert!(forked.ended.is_none(), "it is over before anything was seen; make it longer");
    handle.set_node(NodeId(2), NodeState::Down).expect("it is there");
    until("another start", &|card| card.attempt > forked.attempt);
    handle.set_node(NodeId(2), NodeState::Up).expect("it is there");
    until("the end", &|card| card.ended.is_some());
    let card = card();
    daemon.leave();
    assert_eq!((card.outcome, card.iterations), (Some(Outcome::Completed), f64::from(ALL)));
    assert_eq!(card.failures, 1, "one node was lost, and nothing else");
    let state = Checkpoint::read(&folder.path().join("jobs/0/checkpoints/state.safetensors"));
    assert_eq!(state.expect("a whole file").iteration(), u64::from(ALL));
    // What each copy did is written down, and all of them did something.
    let told = ledger(forked.attempt);
    let copies: Vec<f64> =
        told["copies"].as_array().expect("a list").iter().filter_map(serde_json::Value::as_f64).collect();
    println!("until a node was lost the copies did {copies:?}; {} quotas were given", given().len());
    assert!(copies.len() == 3 && copies.iter().all(|done| *done > 0.0), "{copies:?}");
    assert!(copies.iter().sum::<f64>() <= told["iterations"].as_f64().expect("a number"));
    assert!(given().iter().all(|quotas| quotas.sum() <= u64::from(ALL)), "{:?}", given());
}
