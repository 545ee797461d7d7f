//! A fuzzer for every reader: jobs, clusters and capacity. It changes small valid files in ways that real files and
//! hostile ones differ from valid ones, and holds the readers to what they promise:
//!
//! - no panic, and an answer in bounded time and memory;
//! - an error names the file and, where it knows one, the line;
//! - what is accepted adds up in its report, and can be simulated.
//!
//! Every change is drawn from a seed and a number, so that a failure is repeated by the command that it prints. By
//! default as many inputs are tried as take about a minute; `TRAINYARD_FUZZ_SECONDS` and `TRAINYARD_FUZZ_SEED` ask
//! for more. Inputs that once failed are in `kept` and are tried each time.

mod graphs;
mod judge;
mod mutate;
mod pack;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use judge::{Input, Kind, judge};
use mutate::Dice;
use peak_alloc::PeakAlloc;
use trainyard_sched::model::Seed;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Inputs that are tried when nobody asks for more; about a minute on one core in the development profile.
const INPUTS: u64 = 80_000;
/// Traces with graphs of tasks that are tried beside them; each is simulated twice.
const GRAPHS: u64 = 3_000;
/// An input that takes longer is taken to hang; the slowest of them take less than a tenth of it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes that a reader may hold for each byte of text it is given: rows become jobs.
const BYTES_PER_BYTE: usize = 400;
/// Bytes that any reader may hold: buffers, and lines of up to a megabyte.
const BYTES_ANY: usize = 48 << 20;
/// A few bytes can describe a cluster of a million nodes, which is the limit.
const BYTES_CLUSTER: usize = 768 << 20;

/// What is being tried: its name and its bytes.
type Current = Arc<Mutex<Option<(String, Vec<u8>)>>>;

/// A valid file.
struct Sample {
    kind: Kind,
    format: String,
    text: Vec<u8>,
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz")
}

/// The files of a folder, by name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "txt")).collect();
    paths.sort();
    paths
}

fn samples() -> Vec<Sample> {
    let mut found = Vec::new();
    for kind in Kind::ALL {
        for path in files(&here().join("seeds").join(kind.name())) {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let format = name.split("--").next().unwrap().to_owned();
            found.push(Sample { kind, format, text: std::fs::read(&path).unwrap() });
        }
    }
    found
}

/// The input of one number.
fn input(samples: &[Sample], seed: Seed, number: u64) -> Input {
    let mut dice = Dice::new(seed.numbered(number));
    let sample = &samples[dice.below(samples.len())];
    let other = &samples[dice.below(samples.len())];
    let mut text = sample.text.clone();
    // Some inputs are valid files in an odd package.
    let changes = if dice.chance(5) { 0 } else { 1 + dice.below(6) };
    for _ in 0..changes {
        mutate::change(&mut text, &other.text, &mut dice);
    }
    let plain_bytes = text.len();
    let bytes = if dice.chance(15) { pack::pack(text, &mut dice) } else { text };
    Input { kind: sample.kind, format: sample.format.clone(), bytes, plain_bytes, choice: dice.next() }
}

/// Why an input is a failure, if it is one.
fn failure(input: &Input, judge: &dyn Fn(&Input) -> Result<(), String>) -> Option<String> {
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let answer = catch_unwind(AssertUnwindSafe(|| judge(input)));
    let held = MEMORY.peak_usage().saturating_sub(before);
    let extra = if input.kind == Kind::Cluster { BYTES_CLUSTER } else { 0 };
    let bound = BYTES_PER_BYTE * input.plain_bytes.max(input.bytes.len()) + BYTES_ANY + extra;
    match answer {
        Err(panic) => {
            let told = panic.downcast_ref::<String>().map(String::as_str);
            let told = told.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Some(format!("it panics: {told}"))
        }
        Ok(Err(told)) => Some(told),
        Ok(Ok(())) if held > bound => Some(format!("it holds {held} bytes, more than {bound}")),
        Ok(Ok(())) => None,
    }
}

/// Tries inputs until there are no more, and tells of the first that fails.
fn hunt(
    inputs: impl Iterator<Item = (String, Input)> + Send + 'static,
    patience: Duration,
    judge: impl Fn(&Input) -> Result<(), String> + Send + 'static,
) -> Result<u64, String> {
    // Memory is counted for the whole process, so that hunts take turns.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let current: Current = Arc::default();
    let (tell, hear) = channel();
    let shared = Arc::clone(&current);
    #[expect(clippy::disallowed_methods, reason = "a second thread sees whether the first one hangs")]
    std::thread::spawn(move || {
        for (name, input) in inputs {
            *shared.lock().unwrap() = Some((name, input.bytes.clone()));
            let told = failure(&input, &judge);
            let is_over = told.is_some();
            // The first failure ends the hunt, so that the current input stays the one that failed.
            if tell.send(told).is_err() || is_over {
                return;
            }
        }
    });
    let mut tried = 0;
    loop {
        let told = match hear.recv_timeout(patience) {
            Ok(None) => {
                tried += 1;
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(tried),
            Ok(Some(told)) => told,
            Err(RecvTimeoutError::Timeout) => format!("there is no answer after {patience:?}"),
        };
        let (name, bytes) = current.lock().unwrap().clone().expect("an input was tried");
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz-failure.txt");
        std::fs::write(&path, &bytes).unwrap();
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]).into_owned();
        return Err(format!("{name}: {told}\nthe input is in {} and begins:\n{shown}", path.display()));
    }
}

#[expect(clippy::disallowed_methods, reason = "a longer hunt is asked for by the environment")]
fn asked(key: &str) -> Option<u64> {
    let value = std::env::var(key).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{key}={value} is no whole number")))
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a longer hunt lasts as long as it was asked to")]
#[expect(clippy::disallowed_types, reason = "a longer hunt lasts as long as it was asked to")]
fn no_reader_breaks_its_promises() {
    let seed = asked("TRAINYARD_FUZZ_SEED").unwrap_or(1);
    let first = asked("TRAINYARD_FUZZ_FIRST").unwrap_or(0);
    let seconds = asked("TRAINYARD_FUZZ_SECONDS");
    let inputs = asked("TRAINYARD_FUZZ_INPUTS").unwrap_or(INPUTS);
    let samples = samples();
    let begin = std::time::Instant::now();
    let goes_on = move |number: &u64| match seconds {
        Some(seconds) => begin.elapsed().as_secs() < seconds,
        None => *number < first + inputs,
    };
    let all = (first..).take_while(goes_on).map(move |number| {
        let name = format!(
            "TRAINYARD_FUZZ_SEED={seed} TRAINYARD_FUZZ_FIRST={number} TRAINYARD_FUZZ_INPUTS=1 \
             cargo test -p trainyard-sim --test fuzz no_reader"
        );
        (name, input(&samples, Seed(seed), number))
    });
    match hunt(all, PATIENCE, judge) {
        Ok(tried) => println!("{tried} inputs, in {:.1} s", begin.elapsed().as_secs_f64()),
        Err(told) => panic!("{told}"),
    }
}

#[test]
fn jobs_of_tasks_are_refused_with_a_reason_or_run() {
    let seed = asked("TRAINYARD_FUZZ_SEED").unwrap_or(1);
    let first = asked("TRAINYARD_FUZZ_FIRST").unwrap_or(0);
    let inputs = asked("TRAINYARD_FUZZ_INPUTS").unwrap_or(GRAPHS);
    let all = (first..first + inputs).map(move |number| {
        let name = format!(
            "TRAINYARD_FUZZ_SEED={seed} TRAINYARD_FUZZ_FIRST={number} TRAINYARD_FUZZ_INPUTS=1 \
             cargo test -p trainyard-sim --test fuzz jobs_of_tasks"
        );
        (name, graphs::input(Dice::new(Seed(seed).branch("graphs").numbered(number))))
    });
    assert_eq!(hunt(all, PATIENCE, judge), Ok(inputs));
}

#[test]
fn inputs_that_once_failed_do_not_fail_again() {
    let kept: Vec<(String, Input)> = files(&here().join("kept"))
        .into_iter()
        .flat_map(|path| {
            let bytes = std::fs::read(&path).unwrap();
            let name = path.display().to_string();
            Kind::ALL.map(|kind| {
                let input = Input {
                    kind,
                    format: String::new(),
                    plain_bytes: bytes.len(),
                    bytes: bytes.clone(),
                    choice: 0,
                };
                (name.clone(), input)
            })
        })
        .collect();
    let count = kept.len() as u64;
    assert_eq!(hunt(kept.into_iter(), PATIENCE, judge), Ok(count));
}

#[test]
fn every_reader_has_a_sample_that_it_recognises() {
    let samples = samples();
    for (kind, format) in judge::formats() {
        let own: Vec<&Sample> = samples.iter().filter(|s| s.kind == kind && s.format == format).collect();
        assert!(!own.is_empty(), "put a valid file at tests/fuzz/seeds/{}/{format}--1.txt", kind.name());
        for sample in own {
            let read = judge::recognised(kind, &sample.text);
            assert_eq!(read.as_deref(), Ok(format.as_str()), "{}", String::from_utf8_lossy(&sample.text));
        }
    }
}

#[test]
fn the_same_number_gives_the_same_input() {
    let samples = samples();
    let bytes = |seed, number| input(&samples, Seed(seed), number).bytes;
    assert!((0..50).all(|number| bytes(1, number) == bytes(1, number)));
    assert!((0..50).any(|number| bytes(1, number) != bytes(2, number)));
}

#[test]
fn planted_faults_are_caught() {
    let found = |fault: fn(&Input) -> Result<(), String>, patience| {
        let samples = samples();
        let inputs = (0..3000).map(move |number| (number.to_string(), input(&samples, Seed(7), number)));
        hunt(inputs, patience, fault).unwrap_err()
    };
    let panics = found(
        |input| {
            assert!(!input.bytes.windows(3).any(|part| part == b"NaN"), "no number");
            Ok(())
        },
        PATIENCE,
    );
    assert!(panics.contains("it panics: no number") && panics.contains("the input is in"), "{panics}");
    let hoards = found(
        |input| {
            let is_odd = input.bytes.windows(5).any(|part| part == b"1e309");
            let hoard = vec![1_u8; if is_odd && input.kind == Kind::Jobs { 1 << 30 } else { 1 }];
            if hoard.iter().step_by(1 << 20).all(|byte| *byte == 1) { Ok(()) } else { Err("odd".to_owned()) }
        },
        PATIENCE,
    );
    assert!(hoards.contains("it holds 10"), "{hoards}");
    let hangs = found(
        |input| {
            #[expect(clippy::disallowed_methods, reason = "a fault that is planted")]
            if input.bytes.contains(&0) {
                std::thread::sleep(Duration::from_secs(5));
            }
            Ok(())
        },
        Duration::from_millis(500),
    );
    assert!(hangs.contains("there is no answer"), "{hangs}");
    let told = found(|input| judge::names_its_file(input, "line 3 is bad", "Row { line: 3 }"), PATIENCE);
    assert!(told.contains("does not name the file"), "{told}");
    let line = found(|input| judge::names_its_file(input, "fuzzed.dat: bad", "Row { line: 3 }"), PATIENCE);
    assert!(line.contains("does not name line 3"), "{line}");
}
