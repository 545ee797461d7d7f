//! Real training as one copy and as three of unequal speed, with as many iterations in all: how good the parameters are in the end
//! (specification of Hadar and Gavel, quality check Q-1).

#![allow(dead_code, reason = "what tests share is not all used here")]

#[path = "../../live/tests/common/place.rs"]
mod place;
#[path = "../../live/tests/common/scripted.rs"]
mod scripted;

use std::path::Path;
use std::time::{Duration, Instant};

use trainyard_live::board::Card;
use trainyard_live::local::{Confinement, LocalExecutor, Options};
use trainyard_live::{Daemon, Work};
use trainyard_sched::control::Outcome;
use trainyard_sched::model::JobId;
use trainyard_train::data::{Table, generator};
use trainyard_train::{Checkpoint, Values};

const JOB: JobId = JobId(0);
/// Iterations in all.
const GOAL: u32 = 60;
const SEED: u64 = 1;
const DATA: [&str; 3] = ["rows=8000", "features=6", "centres=10"];
/// How much worse the loss may be than that of one copy.
const WORSE: f64 = 1.02;
const PATIENCE: Duration = Duration::from_secs(240);

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
    let (goal, data) = (GOAL.to_string(), format!("blobs,{}", DATA.join(",")));
    let learn =
        ["train-job", "mlp", "--set", "step=0.1,hidden=16", "--generate", &data, "--iterations", &goal];
    let command = std::iter::once(exe.display().to_string()).chain(learn.map(str::to_owned));
    let work = Work { grace_s: 60, ..Work::new(command.collect()) };
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
    let blobs = generator("blobs").expect("it is there");
    let values = Values::new(blobs.name, blobs.parameters, &DATA).expect("they are right");
    let data = blobs.make(&values, SEED).expect("it can be made");
    let table = data.table().expect("they are rows");
    let (one, alone, _) = train("one", &["0:0:1"], f64::INFINITY);
    let three = ["0:0:1 1:1:1 2:2:1", "0:0:2 1:1:2 2:2:2"];
    let (several, together, merges) = train("three", &three, 10.0);
    for card in [&one, &several] {
        assert_eq!((card.outcome, card.iterations), (Some(Outcome::Completed), f64::from(GOAL)));
        assert_eq!(card.attempt, 1);
    }
    assert_eq!((alone.iteration(), together.iteration()), (GOAL.into(), GOAL.into()));
    let passes = |state: &Checkpoint| state.state.number("passes").expect("it is there");
    assert_eq!((passes(&alone), passes(&together)), (GOAL.into(), GOAL.into()), "counters add up");
    assert!(merges >= 3, "merged {merges} times");
    let (alone, together) = (loss(table, &alone), loss(table, &together));
    println!(
        "loss of one copy {alone:.4} in {:.1} s, of three {together:.4} in {:.1} s after {merges} merges: {:+.2} %",
        one.executed_s,
        several.executed_s,
        100.0 * (together / alone - 1.0)
    );
    assert!(
        (alone - one.loss.expect("it was reported")).abs() < 1e-9,
        "the loss is reckoned as it was there"
    );
    assert!(together <= WORSE * alone, "{together} is worse than {alone} by more than 2 %");
}
