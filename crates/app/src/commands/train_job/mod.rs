//! `train-job`: one training program, as a job of a cluster runs it; or the list of them.

use std::fmt::Write as _;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use trainyard_train::data::{self, Data, Form, Needs};
use trainyard_train::{
    Entry, Files, Notice, OneCopy, Outcome, Report, Stops, TrainError, Training, Values, algorithms,
    coordinate, latest, partition, run, serve, work,
};

use self::together::{Part, TogetherArguments};

use super::{Ending, Output, in_form, print, say};
use crate::config::ArgumentError;
use crate::failure::Failure;

mod list;
mod together;

pub(super) const EXAMPLES: &str = "Examples:
  trainyard train-job list
  trainyard train-job logistic --set method=lbfgs --generate rows=20000,features=50
  trainyard train-job kmeans --data points.csv --set clusters=20 --report losses.jsonl
  trainyard train-job mlp --checkpoint mlp.safetensors --resume --control threads.txt
  trainyard train-job mlp --role coordinator --address job.address --workers 2 --servers 1 --control crew.txt
  trainyard train-job mlp --role worker --join job.address
  trainyard train-job mlp --set layers=2 --partitions 3 --partition 0 --meet parts --checkpoint first.safetensors";

/// What `train-job` is told.
#[derive(Args, Clone, Debug)]
pub(super) struct TrainJobArguments {
    /// The algorithm, or `list`.
    #[arg(default_value = "list")]
    algorithm: String,
    /// Parameters of the algorithm.
    #[arg(long, value_name = "NAME=VALUE,...")]
    set: Vec<String>,
    /// A file to learn from [default: data are generated].
    #[arg(long, value_name = "FILE", conflicts_with = "generate")]
    data: Option<PathBuf>,
    /// How the file is written: `csv` (target last) or `libsvm` [default: by its name; ratings are always CSV].
    #[arg(long, value_name = "FORM", requires = "data")]
    form: Option<TableForm>,
    /// What is generated, and how much of it [default: the algorithm's usual data].
    #[arg(long, value_name = "[GENERATOR,]NAME=VALUE,...")]
    generate: Option<String>,
    /// Bring each column to mean 0 and deviation 1.
    #[arg(long)]
    standardise: bool,
    /// What all draws hang from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// On how many threads to begin.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// A file with the number of threads to use; it is read before each iteration, so writing it resizes the job. For a
    /// coordinator it says `workers=3 servers=2` and is read all the time.
    #[arg(long, value_name = "FILE")]
    control: Option<PathBuf>,
    /// Where each iteration is reported as a line of JSON [default: standard output].
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Where all state is written: every so many iterations, at the end, and at SIGTERM or SIGINT.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// After how many iterations state is written each time.
    #[arg(long, value_name = "ITERATIONS", default_value = "10")]
    every: NonZeroU64,
    /// Go on from the checkpoint if there is one.
    #[arg(long, requires = "checkpoint")]
    resume: bool,
    /// Stop after so many iterations, those before a checkpoint among them.
    #[arg(long, default_value_t = 100)]
    iterations: u64,
    /// Stop when the loss is no more than this.
    #[arg(long, value_name = "LOSS", allow_negative_numbers = true)]
    until_loss: Option<f64>,
    /// Stop when five iterations in succession changed the loss by less than this part of it.
    #[arg(long, value_name = "PART")]
    until_change: Option<f64>,
    #[command(flatten)]
    together: TogetherArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum TableForm {
    Csv,
    Libsvm,
}

/// The summary at the end.
#[derive(Serialize)]
struct Summary {
    schema: &'static str,
    #[serde(flatten)]
    outcome: Outcome,
}

/// Trains, or lists what can be trained.
pub(super) fn perform(given: &TrainJobArguments, output: Output) -> Result<Ending, Failure> {
    if given.algorithm == "list" {
        print(output, &list::list(), list::list_text)?;
        return Ok(Ending::Done);
    }
    let given = &scheduled(given.clone())?;
    let part = Part::of(given)?;
    let entry = algorithms::named(&given.algorithm)?;
    // From here on a signal asks for an end; a second one ends at once.
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        let registered = flag::register_conditional_shutdown(signal, 1, Arc::clone(&asked))
            .and_then(|_| flag::register(signal, Arc::clone(&asked)));
        registered.map_err(Failure::file("listen to signals for", Path::new(entry.name)))?;
    }
    if let Part::Server(joining) = &part {
        serve(joining, &asked)?;
        say("The coordinator let this server go.");
        return Ok(Ending::Done);
    }
    let mut training = begin(given, entry)?;
    if let Part::Worker(joining) = &part {
        work(&mut training, joining, &asked)?;
        say("The coordinator let this worker go.");
        return Ok(Ending::Done);
    }
    let first = part.is_first();
    let mut done = 0;
    match (&part, &given.checkpoint) {
        (Part::Partition(_), _) => done = latest(&training, &files(given, &part), given.resume)?,
        (_, Some(path)) if first && given.resume => done = resume(&mut training, path)?,
        _ => {}
    }
    if let Some(copy) = one_of_copies()? {
        if !matches!(part, Part::Alone) {
            return Err(ArgumentError::CopiesOfSeveral.into());
        }
        training.fork(copy)?;
    }
    if let Part::Peer(meeting) = &part {
        training.join(meeting)?;
    }
    let mut report = report(given, &part, done)?;
    let outcome = train(given, &part, &mut training, &mut report, &asked)?;
    let summary = Summary { schema: "trainyard.train-job/1", outcome };
    if given.report.is_some() && first {
        print(output, &summary, summary_text)?;
    } else {
        // Standard output has the lines of the report and nothing else.
        say(in_form(output, &summary, summary_text)?.trim_end());
    }
    Ok(Ending::Done)
}

/// Where each iteration is reported, after so many that were saved. Partitions that are not the last report only where they are told to.
fn report(given: &TrainJobArguments, part: &Part, done: u64) -> Result<Report, TrainError> {
    let speaks = part.is_first() || matches!(part, Part::Partition(_)) && given.report.is_some();
    Ok(match &given.report {
        _ if !speaks => Report::to("nowhere", Box::new(std::io::sink())),
        Some(path) if is_scheduled() => Report::file(path, done)?.telling_saved(),
        Some(path) => Report::file(path, done)?,
        None => Report::to("standard output", Box::new(std::io::stdout())),
    })
}

/// Whether a scheduler started this program.
fn is_scheduled() -> bool {
    std::env::var_os("TRAINYARD_JOB").is_some()
}

/// Under a scheduler, what nobody said is as the contract with jobs has it: reports go to its file, and state is kept in its
/// folder and gone on from.
fn scheduled(mut given: TrainJobArguments) -> Result<TrainJobArguments, TrainError> {
    let path = |name| std::env::var_os(name).map(PathBuf::from);
    if !is_scheduled() || !given.together.may_report() {
        return Ok(given);
    }
    given.together.as_task()?;
    given.report = given.report.or_else(|| path("TRAINYARD_PROGRESS_FILE"));
    if given.checkpoint.is_none() {
        given.checkpoint = path("TRAINYARD_CHECKPOINT_DIR").map(|folder| folder.join("state.safetensors"));
        given.resume = given.checkpoint.is_some();
    }
    Ok(given)
}

/// Which of several copies this process is, if the scheduler started it as one.
fn one_of_copies() -> Result<Option<OneCopy>, TrainError> {
    let path = |name| std::env::var_os(name).map(PathBuf::from);
    let Ok(number) = std::env::var("TRAINYARD_COPY") else { return Ok(None) };
    let odd = |name, value: &str, wanted| TrainError::Environment { name, value: value.to_owned(), wanted };
    let number = number
        .parse()
        .map_err(|_| odd("TRAINYARD_COPY", &number, "the number of a copy is needed, from 0"))?;
    let control = path("TRAINYARD_CONTROL_FILE").ok_or_else(|| {
        odd("TRAINYARD_CONTROL_FILE", "", "a copy needs to know where it is told what to do")
    })?;
    let answer = path("TRAINYARD_MERGE_FILE")
        .ok_or_else(|| odd("TRAINYARD_MERGE_FILE", "", "a copy needs to know where to answer"))?;
    Ok(Some(OneCopy { number, control, answer }))
}

/// Begins a training; nothing is iterated yet.
fn begin(given: &TrainJobArguments, entry: &'static Entry) -> Result<Training, TrainError> {
    let values = Values::new(entry.name, entry.parameters, &given.set)?;
    let mut data = read_or_generate(given, entry)?;
    if let (true, Data::Table(table)) = (given.standardise, &mut data) {
        table.standardise();
    }
    say(&format!("{} learns from {}.", entry.name, data.words()));
    Training::begin(entry, &values, data, given.seed, given.threads.into())
}

/// Iterates, alone or with others.
fn train(
    given: &TrainJobArguments,
    part: &Part,
    training: &mut Training,
    report: &mut Report,
    asked: &AtomicBool,
) -> Result<Outcome, TrainError> {
    let stops = Stops { iterations: given.iterations, loss: given.until_loss, change: given.until_change };
    let files = files(given, part);
    let mut told = None;
    let mut notice = |notice: Notice| {
        let text = words(&notice);
        // A control file that stays wrong is spoken of once.
        if told.as_ref() != Some(&text) {
            say(&text);
        }
        told = Some(text);
    };
    match part {
        Part::Coordinator(settings) => {
            coordinate(training, &stops, &files, report, asked, &mut notice, settings)
        }
        Part::Partition(settings) => {
            partition(training, &stops, &files, report, asked, &mut notice, settings)
        }
        _ => run(training, &stops, &files, report, asked, &mut notice),
    }
}

/// The files of this process. Only who speaks for all has a checkpoint, and each partition one of its own.
fn files(given: &TrainJobArguments, part: &Part) -> Files {
    let saves = part.is_first() || matches!(part, Part::Partition(_));
    let checkpoint = given.checkpoint.clone().map(|path| (path, given.every.get()));
    Files { checkpoint: checkpoint.filter(|_| saves), control: given.control.clone() }
}

/// Goes on from a checkpoint if there is one, and tells after how many iterations.
fn resume(training: &mut Training, path: &Path) -> Result<u64, Failure> {
    if path.try_exists().map_err(Failure::file("read", path))? {
        training.resume(path)?;
        say(&format!("Going on after iteration {} of {}.", training.iteration(), path.display()));
    } else {
        say(&format!("There is no {} yet, so this begins anew.", path.display()));
    }
    Ok(training.iteration())
}

fn read_or_generate(given: &TrainJobArguments, entry: &Entry) -> Result<Data, TrainError> {
    if let Some(path) = &given.data {
        let csv = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
        let form = match (entry.needs, given.form) {
            (Needs::Ratings, _) => Form::Ratings,
            (_, Some(TableForm::Csv)) => Form::Csv,
            (_, Some(TableForm::Libsvm)) => Form::Libsvm,
            (_, None) => {
                if csv {
                    Form::Csv
                } else {
                    Form::Libsvm
                }
            }
        };
        return data::read(path, form);
    }
    let said = given.generate.as_deref().unwrap_or_default();
    let (first, rest) = said.split_once(',').unwrap_or((said, ""));
    let (name, sizes) = match first {
        "" => (entry.generator, rest),
        pair if pair.contains('=') => (entry.generator, said),
        name => (name, rest),
    };
    let generator = data::generator(name)?;
    let sizes: Vec<&str> = sizes.split(',').filter(|pair| !pair.is_empty()).collect();
    generator.make(&Values::new(generator.name, generator.parameters, &sizes)?, given.seed)
}

fn words(notice: &Notice) -> String {
    match notice {
        Notice::Resized { iteration, from, to } => {
            format!("From iteration {iteration} on there are {to} threads instead of {from}.")
        }
        Notice::NoNumber { path, text } => format!(
            "{}: `{text}` is no number of threads from 1 to 1024, so the number stays; write one number into it",
            path.display()
        ),
        Notice::Merged { iteration } => {
            format!("The copies are merged; this one goes on after their {iteration} iterations.")
        }
        Notice::Saved { iteration } => format!("State is saved after iteration {iteration}."),
        Notice::Listening { address } => format!("Workers and servers may join at {address}."),
        Notice::Joined { who } => format!("{who} has joined."),
        Notice::NoOrder { path, reason } => format!(
            "{}: {reason}; the numbers stay. Write `workers=3 servers=2`, or the same as JSON",
            path.display()
        ),
        Notice::Missing { workers, servers } => format!(
            "What is ordered waits until {workers} more workers and {servers} more servers have joined."
        ),
        Notice::Scaled(scaled) => together::words(scaled),
        Notice::Linked { partition } => format!("Partition {partition} is there."),
        Notice::Waiting { partition, reason } => format!("This waits for partition {partition}: {reason}."),
        Notice::Together { iteration, from } if iteration == from => {
            format!("All partitions go on after iteration {iteration}.")
        }
        Notice::Together { iteration, from } => {
            format!("All partitions go on after iteration {iteration}; this one had come to {from}.")
        }
        Notice::Refused { process, reason } => format!("Process {process} may not join: {reason}."),
    }
}

fn summary_text(summary: &Summary) -> String {
    let outcome = &summary.outcome;
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.6}"));
    let ended = match outcome.ended {
        trainyard_train::Ended::Iterations => "all iterations are done",
        trainyard_train::Ended::Loss => "the loss is low enough",
        trainyard_train::Ended::Change => "the loss hardly changes",
        trainyard_train::Ended::Asked => "it was told to stop",
    };
    let on = match (outcome.workers, outcome.servers) {
        (Some(workers), Some(servers)) => format!("by {workers} workers with {servers} servers"),
        (Some(ranks), None) => format!("by {ranks} processes"),
        _ => format!("on {} threads", outcome.threads),
    };
    let mut text = format!(
        "{}: {} iterations, {} of them here in {:.2} s {on}; the loss went from {} to {}",
        outcome.identity.algorithm,
        outcome.iterations,
        outcome.iterations_here,
        outcome.seconds,
        number(outcome.first_loss),
        number(outcome.loss),
    );
    if let Some(accuracy) = outcome.accuracy {
        let _ = write!(text, ", accuracy {:.1} %", 100.0 * accuracy);
    }
    text + "; " + ended + "."
}
