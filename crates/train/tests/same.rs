//! Losses are the same bits on any number of threads, when that number changes, and after a checkpoint.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use trainyard_train::data::{Data, generator};
use trainyard_train::{
    Checkpoint, Ended, Files, Notice, Report, Stops, TrainError, Training, Values, algorithms, run,
};

/// Each program in each of its ways, with sizes that take more than one shard.
const ALL: [(&str, &str, &str); 12] = [
    ("logistic", "method=gradient", "rows=3000"),
    ("logistic", "method=lbfgs", "rows=3000"),
    ("svm", "method=gradient", "rows=3000"),
    ("svm", "method=lbfgs", "rows=3000"),
    ("svm", "method=pegasos", "rows=3000"),
    ("kmeans", "clusters=7", "rows=3000"),
    ("mlp", "layers=2,hidden=9", "rows=1000"),
    ("mlp", "batch=0,activation=relu,decay=0.1", "rows=1000"),
    ("trees", "depth=4", "rows=3000"),
    ("trees", "depth=2,bins=256,least_gain=1", "rows=3000"),
    ("factorisation", "rank=5", "users=150,items=90"),
    ("logistic", "method=stochastic,batch=500,momentum=0.5", "rows=3000"),
];

const ITERATIONS: u64 = 24;
const STOPS: Stops = Stops { iterations: ITERATIONS, loss: None, change: None };

fn begin(which: (&str, &str, &str), threads: usize) -> Training {
    let (name, set, sizes) = which;
    let entry = algorithms::named(name).unwrap();
    let generator = generator(entry.generator).unwrap();
    let data = generator.make(&Values::new(name, generator.parameters, &[sizes]).unwrap(), 5).unwrap();
    Training::begin(entry, &Values::new(name, entry.parameters, &[set]).unwrap(), data, 9, threads).unwrap()
}

/// The bits of the losses of the iterations that are left.
fn losses(training: &mut Training) -> Vec<u64> {
    (training.iteration()..ITERATIONS).map(|_| training.iterate(&STOPS).unwrap().loss.to_bits()).collect()
}

#[test]
fn losses_and_state_are_the_same_bits_on_any_number_of_threads() {
    for which in ALL {
        let mut one = begin(which, 1);
        let alone = losses(&mut one);
        assert!(alone.iter().any(|loss| *loss != alone[0]), "{which:?}: it learns");
        for threads in [2, 3, 8] {
            let mut many = begin(which, threads);
            assert_eq!(losses(&mut many), alone, "{which:?} on {threads}");
            assert_eq!(many.checkpoint(), one.checkpoint(), "{which:?} on {threads}");
        }
    }
}

#[test]
fn another_number_of_threads_in_the_middle_changes_no_loss() {
    for which in ALL {
        let alone = losses(&mut begin(which, 1));
        let mut training = begin(which, 2);
        for (i, alone) in alone.iter().enumerate() {
            training.resize([2, 1, 5, 3][i % 4]).unwrap();
            let line = training.iterate(&STOPS).unwrap();
            assert_eq!(line.threads, [2, 1, 5, 3][i % 4]);
            assert_eq!(line.loss.to_bits(), *alone, "{which:?}: iteration {}", i + 1);
        }
    }
}

#[test]
fn from_a_checkpoint_all_goes_on_as_if_it_had_never_stopped() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("state");
    for which in ALL {
        let mut whole = begin(which, 1);
        let all = losses(&mut whole);
        for stop in [0, 1, 7, 23] {
            let mut first = begin(which, 1);
            for _ in 0..stop {
                first.iterate(&STOPS).unwrap();
            }
            first.checkpoint().write(&path).unwrap();
            let mut second = begin(which, 2);
            second.resume(&path).unwrap();
            assert_eq!(second.iteration(), stop);
            assert_eq!(losses(&mut second), all[stop as usize..], "{which:?} from {stop}");
            assert_eq!(second.checkpoint(), whole.checkpoint(), "{which:?} from {stop}");
        }
    }
}

#[test]
fn the_file_of_a_state_is_the_same_bytes_each_time() {
    let place = tempfile::tempdir().unwrap();
    let bytes = |name: &str, threads: usize| {
        let mut training = begin(ALL[1], threads);
        losses(&mut training);
        let path = place.path().join(name);
        training.checkpoint().write(&path).unwrap();
        std::fs::read(path).unwrap()
    };
    assert_eq!(bytes("a", 1), bytes("b", 4));
}

fn resumed(which: (&str, &str, &str), path: &Path) -> Result<(), TrainError> {
    begin(which, 1).resume(path)
}

#[test]
fn what_is_no_checkpoint_of_this_run_is_refused_with_the_reason() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("state");
    let told = |which: (&str, &str, &str)| {
        let error = resumed(which, &path).unwrap_err();
        let cause = std::error::Error::source(&error).map_or(String::new(), ToString::to_string);
        format!("{error}; {cause}")
    };
    let mut training = begin(ALL[0], 1);
    training.iterate(&STOPS).unwrap();
    let whole = training.checkpoint();
    whole.write(&path).unwrap();
    assert!(told(ALL[2]).contains("its algorithm is `logistic`, and that of this run is `svm`"));
    assert!(told(ALL[1]).contains("list of parameters"));
    assert!(told(("logistic", "method=gradient", "rows=2999")).contains("digest of the data"));
    let bytes = std::fs::read(&path).unwrap();
    for cut in [0, 1, 7, 8, 9, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        assert!(told(ALL[0]).contains("no whole safetensors file"), "{cut}");
    }
    let other = safetensors_without_head();
    std::fs::write(&path, other).unwrap();
    assert!(told(ALL[0]).contains("it is no checkpoint of `train-job`"));
    let mut strange = whole.clone();
    strange.state = trainyard_train::Tensors::default();
    strange.write(&path).unwrap();
    assert!(told(ALL[0]).contains("it has no tensor `weights`"));
    strange.state.put("weights", &[2], &[1.0, 2.0]);
    strange.write(&path).unwrap();
    assert!(told(ALL[0]).contains("has the shape [2], and [21] is needed"));
    strange.state = whole.state.clone();
    strange.state.put("weights", &[21], &[f64::NAN; 21]);
    strange.write(&path).unwrap();
    assert!(told(ALL[0]).contains("holds NaN at 0"));
}

/// A file of one tensor without metadata, made by hand: the length of the head, the head, the values.
fn safetensors_without_head() -> Vec<u8> {
    let head = br#"{"weights":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}"#;
    let mut bytes = (head.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(head);
    bytes.extend_from_slice(&1.0_f64.to_le_bytes());
    bytes
}

#[test]
fn no_flipped_byte_of_a_checkpoint_is_a_panic() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("state");
    for which in [ALL[0], ALL[8], ALL[10]] {
        let mut training = begin(which, 1);
        training.iterate(&STOPS).unwrap();
        training.checkpoint().write(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let mut second = begin(which, 1);
        let step = (bytes.len() / 100).max(1);
        let mut refused = 0;
        // The head, where most can go wrong, byte by byte.
        for at in (0..500).chain((500..bytes.len()).step_by(step)).filter(|at| *at < bytes.len()) {
            let mut broken = bytes.clone();
            broken[at] ^= [0x01, 0x80, 0x10][at % 3];
            std::fs::write(&path, broken).unwrap();
            refused += usize::from(second.resume(&path).is_err());
        }
        assert!(refused > 250, "{which:?}: {refused}");
    }
}

/// What a run of this ended with, and how many iterations it did.
fn ended(stops: Stops, asked: bool) -> (Ended, u64) {
    let mut training = begin(ALL[10], 1);
    let mut report = Report::to("nowhere", Box::new(std::io::sink()));
    let asked = AtomicBool::new(asked);
    let outcome = run(&mut training, &stops, &Files::default(), &mut report, &asked, &mut |_| ()).unwrap();
    (outcome.ended, outcome.iterations)
}

#[test]
fn it_stops_when_it_was_told_to() {
    let all = losses(&mut begin(ALL[10], 1));
    let loss = |i: usize| f64::from_bits(all[i]);
    assert_eq!(ended(STOPS, false), (Ended::Iterations, ITERATIONS));
    assert_eq!(ended(STOPS, true), (Ended::Asked, 0));
    assert_eq!(ended(Stops { loss: Some(loss(9)), ..STOPS }, false), (Ended::Loss, 10));
    let change = 0.02;
    let calm = |i: &usize| (i - 4..=*i).all(|i| (loss(i - 1) - loss(i)).abs() < change * loss(i - 1));
    let first = (5..all.len()).find(calm).expect("it comes to rest");
    assert_eq!(ended(Stops { change: Some(change), ..STOPS }, false), (Ended::Change, first as u64 + 1));
    assert!(first > 5, "it does not rest from the beginning");
}

#[test]
fn five_iterations_that_change_little_must_follow_each_other() {
    // Pegasos goes up and down, so that its rests are broken.
    let all: Vec<f64> = losses(&mut begin(ALL[4], 1)).into_iter().map(f64::from_bits).collect();
    let small = |change: f64| -> Vec<bool> {
        all.windows(2).map(|pair| (pair[0] - pair[1]).abs() < change * pair[0]).collect()
    };
    let in_succession = |small: &[bool]| small.windows(5).position(|five| five.iter().all(|small| *small));
    let broken = |change: &f64| {
        let small = small(*change);
        let together = in_succession(&small)?;
        let fifth = small.iter().enumerate().filter(|(_, small)| **small).nth(4)?.0;
        (fifth < together + 4).then_some((*change, together as u64 + 6))
    };
    let changes: Vec<f64> = (1..400).map(|i| f64::from(i) / 400.0).collect();
    let (change, wanted) = changes.iter().find_map(broken).expect("some rest is broken");
    let mut training = begin(ALL[4], 1);
    let mut report = Report::to("nowhere", Box::new(std::io::sink()));
    let stops = Stops { change: Some(change), ..STOPS };
    let asked = AtomicBool::new(false);
    let outcome = run(&mut training, &stops, &Files::default(), &mut report, &asked, &mut |_| ()).unwrap();
    assert_eq!((outcome.ended, outcome.iterations), (Ended::Change, wanted));
}

#[test]
fn the_control_file_is_obeyed_between_iterations_and_nonsense_in_it_is_told() {
    let place = tempfile::tempdir().unwrap();
    let control = place.path().join("threads");
    let mut told = Vec::new();
    let mut training = begin(ALL[5], 1);
    let mut report = Report::to("nowhere", Box::new(std::io::sink()));
    let files = Files { control: Some(control.clone()), ..Files::default() };
    for (said, iterations) in [(None, 1), (Some("4\n"), 2), (Some("0"), 3), (Some("2"), 4)] {
        if let Some(said) = said {
            std::fs::write(&control, said).unwrap();
        }
        let stops = Stops { iterations, ..STOPS };
        let asked = AtomicBool::new(false);
        run(&mut training, &stops, &files, &mut report, &asked, &mut |notice| told.push(notice)).unwrap();
    }
    let resized = |iteration, from, to| Notice::Resized { iteration, from, to };
    assert!(matches!(&told[0], Notice::NoNumber { text, .. } if text.contains("No such file")), "{told:?}");
    assert_eq!(told[1], resized(2, 1, 4));
    assert!(matches!(&told[2], Notice::NoNumber { text, .. } if text == "0"), "{told:?}");
    assert_eq!(told[3..], [resized(4, 4, 2)]);
}

#[test]
fn a_loss_that_is_no_number_ends_the_run_and_leaves_the_state_before() {
    let entry = algorithms::named("mlp").unwrap();
    let set = ["step=900", "task=regression", "activation=relu"];
    let generator = generator("regression").unwrap();
    let data: Data =
        generator.make(&Values::new("r", generator.parameters, &["rows=500"]).unwrap(), 1).unwrap();
    let values = Values::new("mlp", entry.parameters, &set).unwrap();
    let mut training = Training::begin(entry, &values, data, 1, 1).unwrap();
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("state");
    let files = Files { checkpoint: Some((path.clone(), 1)), control: None };
    let mut report = Report::to("nowhere", Box::new(std::io::sink()));
    let ended = run(&mut training, &STOPS, &files, &mut report, &AtomicBool::new(false), &mut |_| ());
    let Err(TrainError::Diverged { iteration, .. }) = ended else { panic!("{ended:?}") };
    if iteration > 1 {
        assert_eq!(Checkpoint::read(&path).unwrap().iteration(), iteration - 1);
    } else {
        assert!(!path.exists());
    }
}
