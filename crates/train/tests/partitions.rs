//! A model that is cut into partitions: losses and states are the bits of one process for any number of them, whoever leaves and comes
//! back, and whoever is lost with all that it had in memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use trainyard_train::data::generator;
use trainyard_train::{
    Checkpoint, Ended, Files, Notice, Outcome, Partitioning, Report, Stops, Tensor, Token, TrainError,
    Training, Values, algorithms, latest, partition, run,
};

/// Nobody waits longer for anything.
const LONG: Duration = Duration::from_secs(60);
const STOPS: Stops = Stops { iterations: 12, loss: None, change: None };
/// It has four layers, so it can be cut into up to four partitions.
const DEEP: (&str, &str) = ("layers=3,hidden=12,batch=100,decay=0.1", "rows=700");
const NUMBERS: (&str, &str) = ("layers=3,hidden=9,task=regression,activation=relu,step=0.001", "rows=300");
/// Pieces of several frames, and a batch of all rows.
const WIDE: (&str, &str) = ("layers=1,hidden=400,batch=0", "rows=1500");

fn begin((set, sizes): (&str, &str), seed: u64) -> Training {
    let entry = algorithms::named("mlp").unwrap();
    let made = generator(if set.contains("regression") { "regression" } else { "blobs" }).unwrap();
    let data = made.make(&Values::new("data", made.parameters, &[sizes]).unwrap(), 5).unwrap();
    Training::begin(entry, &Values::new("mlp", entry.parameters, &[set]).unwrap(), data, seed, 1).unwrap()
}

/// Iterations and the bits of their losses.
fn losses(path: &Path) -> Vec<(u64, u64)> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        Some((line["iteration"].as_u64()?, line["loss"].as_f64()?.to_bits()))
    };
    text.lines().filter_map(line).collect()
}

/// Losses and the state of a job that one process does alone.
fn alone(which: (&str, &str), stops: &Stops) -> (Vec<(u64, u64)>, BTreeMap<String, Tensor>) {
    let place = tempfile::tempdir().unwrap();
    let mut training = begin(which, 9);
    let mut report = Report::file(&place.path().join("r"), 0).unwrap();
    run(&mut training, stops, &Files::default(), &mut report, &AtomicBool::new(false), &mut |_| ()).unwrap();
    (losses(&place.path().join("r")), named(&training.checkpoint()))
}

/// What has the same value in every partition, and all else.
fn named(checkpoint: &Checkpoint) -> BTreeMap<String, Tensor> {
    checkpoint.state.iter().map(|(name, tensor)| (name.to_owned(), tensor.clone())).collect()
}

/// A job in partitions, each a thread.
struct Job {
    place: TempDir,
    which: (&'static str, &'static str),
    stops: Stops,
    members: Vec<Member>,
}

struct Member {
    thread: Option<JoinHandle<Result<Outcome, TrainError>>>,
    asked: Arc<AtomicBool>,
    /// The iteration from which it went on last, and how often all agreed.
    together: Arc<AtomicU64>,
    agreed: Arc<AtomicU64>,
}

impl Job {
    fn new(which: (&'static str, &'static str), count: usize, stops: Stops) -> Self {
        let place = tempfile::tempdir().unwrap();
        let mut job = Self { place, which, stops, members: Vec::new() };
        // The last one first: who comes before is waited for.
        job.members = (0..count).map(|_| Member::none()).collect();
        (0..count).rev().for_each(|number| job.start(number, 0));
        job
    }

    fn folder(&self, number: usize) -> PathBuf {
        self.place.path().join(format!("partition{number}"))
    }

    /// Starts one. It is on `threads` more threads than one.
    fn start(&mut self, number: usize, threads: usize) {
        let folder = self.folder(number);
        std::fs::create_dir_all(&folder).unwrap();
        let meet = self.place.path().join("meet");
        let (which, stops, count) = (self.which, self.stops, self.members.len());
        let mut member = Member::none();
        let (asked, together, agreed) =
            (Arc::clone(&member.asked), Arc::clone(&member.together), Arc::clone(&member.agreed));
        member.thread = Some(spawn(move || {
            let mut training = begin(which, 9);
            training.resize(1 + threads)?;
            let token = Token::new("the secret of this test").unwrap();
            let (listen, patience) = ("127.0.0.1:0".to_owned(), Duration::from_secs(10));
            let settings = Partitioning { number, count, meet, listen, token, patience, resume: true };
            let files = Files { checkpoint: Some((folder.join("state.safetensors"), 5)), control: None };
            let mut report = Report::file(&folder.join("report"), latest(&training, &files, true)?)?;
            let mut notice = |notice| {
                if let Notice::Together { iteration, .. } = notice {
                    together.store(iteration, Ordering::SeqCst);
                    agreed.fetch_add(1, Ordering::SeqCst);
                }
            };
            partition(&mut training, &stops, &files, &mut report, &asked, &mut notice, &settings)
        }));
        self.members[number] = member;
    }

    fn losses(&self, number: usize) -> Vec<(u64, u64)> {
        losses(&self.folder(number).join("report"))
    }

    /// The iteration that was told last.
    fn iteration(&self) -> u64 {
        self.losses(self.members.len() - 1).last().map_or(0, |(iteration, _)| *iteration)
    }

    #[track_caller]
    fn until_it_is_beyond(&self, iteration: u64) {
        let end = Instant::now() + LONG;
        while self.iteration() <= iteration {
            assert!(Instant::now() < end, "it stays at {}", self.iteration());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// One saves what it has, and leaves.
    fn leave(&mut self, number: usize) -> Outcome {
        self.members[number].asked.store(true, Ordering::SeqCst);
        self.end(number)
    }

    #[track_caller]
    fn end(&mut self, number: usize) -> Outcome {
        self.members[number].thread.take().unwrap().join().unwrap().unwrap()
    }

    /// The state that all partitions have saved after this iteration, put together.
    fn state(&self, iteration: u64) -> BTreeMap<String, Tensor> {
        let name = format!("state-{iteration}.safetensors");
        let read = |number| named(&Checkpoint::read(&self.folder(number).join(&name)).unwrap());
        (0..self.members.len()).flat_map(read).collect()
    }
}

impl Member {
    fn none() -> Self {
        let zero = || Arc::new(AtomicU64::new(0));
        Self { thread: None, asked: Arc::default(), together: zero(), agreed: zero() }
    }
}

#[test]
fn any_number_of_partitions_has_the_losses_and_the_state_of_one_process() {
    for (which, most, iterations) in [(DEEP, 4, 12), (NUMBERS, 3, 12), (WIDE, 2, 3)] {
        let stops = Stops { iterations, ..STOPS };
        let (wanted, state) = alone(which, &stops);
        for count in 1..=most {
            let mut job = Job::new(which, count, stops);
            for number in 0..count {
                let outcome = job.end(number);
                assert_eq!((outcome.ended, outcome.iterations), (Ended::Iterations, iterations));
                assert_eq!(job.losses(number), wanted, "{which:?} in {count}, partition {number}");
                assert_eq!(outcome.loss.map(f64::to_bits), wanted.last().map(|(_, loss)| *loss));
            }
            assert!(job.state(iterations) == state, "{which:?} in {count}");
        }
    }
}

#[test]
fn all_partitions_end_when_the_loss_is_low_enough_or_hardly_changes() {
    for stops in [
        Stops { iterations: 100_000, loss: Some(1.5), ..STOPS },
        Stops { iterations: 100_000, change: Some(0.01), ..STOPS },
    ] {
        let (wanted, _) = alone(DEEP, &stops);
        let mut job = Job::new(DEEP, 2, stops);
        let ends: Vec<Ended> = (0..2).map(|number| job.end(number).ended).collect();
        assert!(ends[0] == ends[1] && ends[0] != Ended::Iterations, "{ends:?}");
        assert_eq!(job.losses(0), wanted);
    }
}

#[test]
fn each_partition_can_leave_and_come_back_and_no_iteration_is_lost_or_made_twice() {
    let stops = Stops { iterations: 1_000_000, ..STOPS };
    let mut job = Job::new(DEEP, 3, stops);
    for (turn, number) in [0, 1, 2, 1, 0, 2].into_iter().enumerate() {
        job.until_it_is_beyond(job.iteration() + 2);
        let agreed = job.members[(number + 1) % 3].agreed.load(Ordering::SeqCst);
        let left = job.leave(number);
        assert_eq!(left.ended, Ended::Asked);
        let reached = job.iteration();
        job.start(number, turn % 3);
        job.until_it_is_beyond(reached + 1);
        let others = &job.members[(number + 1) % 3];
        assert!(others.agreed.load(Ordering::SeqCst) > agreed, "they agreed anew");
        // An iteration that one had left unfinished is made again, and none that was done.
        let from = others.together.load(Ordering::SeqCst);
        assert!(
            from + 1 >= left.iterations && from <= reached + 1,
            "{from} of {}, {reached}",
            left.iterations
        );
        assert!(from + 1 >= reached, "from {from}, after {reached} were told");
    }
    // All leave at once, and come back.
    job.members.iter().for_each(|member| member.asked.store(true, Ordering::SeqCst));
    let least = (0..3).map(|number| job.end(number).iterations).min().unwrap();
    let reached = job.iteration();
    (0..3).for_each(|number| job.start(number, 0));
    job.until_it_is_beyond(reached + 2);
    assert!(job.members[1].together.load(Ordering::SeqCst) >= least, "nothing was lost");
    (0..3).for_each(|number| drop(job.leave(number)));
    let together = job.losses(2);
    let (wanted, _) = alone(DEEP, &Stops { iterations: together.len() as u64, ..STOPS });
    assert_eq!(together, wanted, "each iteration is told once, with its loss");
}

#[test]
fn those_that_have_ended_wait_for_one_that_has_not_and_all_end() {
    let (wanted, state) = alone(DEEP, &STOPS);
    // One of them lost its files, or what it saved last.
    for lost in [12, 10, 5] {
        let mut job = Job::new(DEEP, 3, STOPS);
        (0..3).for_each(|number| drop(job.end(number)));
        let saved = |job: &Job, number: usize| -> Vec<u64> {
            let file = |iteration: &u64| job.folder(number).join(format!("state-{iteration}.safetensors"));
            (0..=12).filter(|iteration| file(iteration).exists()).collect()
        };
        assert_eq!(saved(&job, 0), [5, 10, 12], "old ones are removed");
        for iteration in (lost..=12).filter(|iteration| saved(&job, 1).contains(iteration)) {
            std::fs::remove_file(job.folder(1).join(format!("state-{iteration}.safetensors"))).unwrap();
        }
        (0..3).for_each(|number| job.start(number, 0));
        (0..3).for_each(|number| drop(job.end(number)));
        let from = job.members[2].together.load(Ordering::SeqCst);
        assert_eq!(from, [0, 5, 10][usize::from(lost > 5) + usize::from(lost > 10)], "without {lost}");
        assert_eq!(job.losses(2), wanted);
        assert!(job.state(12) == state);
    }
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let mut job = Job::new(DEEP, 2, Stops { iterations: 1_000_000, ..STOPS });
    job.until_it_is_beyond(2);
    let meeting = job.place.path().join("meet");
    let try_one = |number: usize, count: usize, which: (&str, &str), stops: Stops| {
        let meet = meeting.clone();
        let token = Token::new("the secret of this test").unwrap();
        let (listen, patience) = ("127.0.0.1:0".to_owned(), Duration::from_secs(10));
        let settings = Partitioning { number, count, meet, listen, token, patience, resume: false };
        let mut report = Report::to("nowhere", Box::new(std::io::sink()));
        let (files, asked) = (Files::default(), AtomicBool::new(false));
        let mut training = begin(which, 9);
        partition(&mut training, &stops, &files, &mut report, &asked, &mut |_| (), &settings)
            .unwrap_err()
            .to_string()
    };
    assert!(try_one(0, 5, DEEP, STOPS).contains("mlp has 4 layers to be cut"));
    job.leave(1);
    let told = try_one(1, 2, NUMBERS, job.stops);
    assert!(told.contains("without partition 0: it refuses: its list of parameters is"), "{told}");
    let told = try_one(1, 2, DEEP, STOPS);
    assert!(told.contains("it is to end otherwise"), "{told}");
    let told = try_one(1, 3, DEEP, job.stops);
    assert!(told.contains("one of 3 partitions"), "{told}");
    let reached = job.iteration();
    job.start(1, 0);
    job.until_it_is_beyond(reached);
    let svm = algorithms::named("svm").unwrap();
    let data = generator(svm.generator).unwrap();
    let data = data.make(&Values::new("data", data.parameters, &["rows=100"]).unwrap(), 5).unwrap();
    let values = Values::new("svm", svm.parameters, &[] as &[&str]).unwrap();
    let mut training = Training::begin(svm, &values, data, 1, 1).unwrap();
    let token = Token::new("the secret of this test").unwrap();
    let (listen, patience) = ("127.0.0.1:0".to_owned(), Duration::from_secs(10));
    let meet = job.place.path().join("meet");
    let settings = Partitioning { number: 0, count: 2, meet, listen, token, patience, resume: false };
    let mut report = Report::to("nowhere", Box::new(std::io::sink()));
    let asked = AtomicBool::new(false);
    let told =
        partition(&mut training, &STOPS, &Files::default(), &mut report, &asked, &mut |_| (), &settings);
    assert!(told.unwrap_err().to_string().contains("take `mlp`"));
    (0..2).for_each(|number| drop(job.leave(number)));
}
