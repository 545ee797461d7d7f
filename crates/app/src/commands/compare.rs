//! `compare`: several policies on one input, side by side; and the busy day that is compared by default.

use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use rayon::prelude::*;
use trainyard_sched::decide::{Entry, Suits};
use trainyard_sched::metrics::Summary;
use trainyard_sched::model::{GPU, StopRule};
use trainyard_sched::policies::ALL;
use trainyard_sim::workload::{Done, ImportReport, Workload};

use super::run::Journal;
use super::{Ending, Output, print, say};
use crate::config::{InputArguments, Inputs, PolicyChoice, Requirement, Threads, parse_policies};
use crate::experiment::{self, Leave, Trial, write_json, write_text};
use crate::failure::Failure;
use crate::render::{comparison_table, in_short, report_page};

/// The file with all summaries.
const COMPARISON: &str = "compare.json";
/// The page for people.
const REPORT: &str = "report.html";
/// The folder with one folder for each policy.
const RUNS: &str = "runs";

/// What `compare` is told.
#[derive(Args, Debug)]
pub(super) struct CompareArguments {
    #[command(flatten)]
    inputs: InputArguments,
    /// The policies, such as fifo,srtf{by = "gpu_time"},mlf-c(fifo), which is load control around fifo [default: all that suit
    /// the jobs].
    #[arg(long, value_name = "LIST", help_heading = "Run")]
    policies: Option<String>,
    /// How many policies run at one time [default: as many as there are cores].
    #[arg(long, value_name = "N", help_heading = "Run")]
    threads: Option<Threads>,
    /// The folder that is left; files of the same names are replaced.
    #[arg(long, value_name = "DIR", default_value = "trainyard-out", help_heading = "Run")]
    out: PathBuf,
    /// Whether every step of every policy is written down.
    #[arg(long, value_enum, default_value_t = Journal::None, help_heading = "Run")]
    journal: Journal,
    /// A bound that must hold for every policy, such as avg_jct_s<=3600; may be repeated.
    #[arg(long, value_name = "BOUND", help_heading = "Run")]
    require: Vec<Requirement>,
}

/// Compares all policies on the busy day.
pub(super) fn busy_day(output: Output) -> Result<Ending, Failure> {
    let given = CompareArguments {
        inputs: InputArguments::busy_day(),
        policies: None,
        threads: None,
        out: "trainyard-out".into(),
        journal: Journal::None,
        require: Vec::new(),
    };
    say("A generated busy day on 64 nodes of 8 GPUs; stopping a job takes 10 s, starting it again 30 s.");
    perform(&given, output)
}

/// The policies that have something to look at in these jobs.
fn suited_to(workload: &Workload) -> Vec<PolicyChoice> {
    let has_losses = workload.jobs.iter().any(|(_, truth)| truth.loss.is_some());
    let has_servers = workload
        .jobs
        .iter()
        .any(|(job, _)| job.shape.data_parallel().is_some_and(|shape| shape.server.is_some()));
    let has_copies = workload.jobs.iter().any(|(job, _)| job.goals.copies > 1);
    let may_end_early = workload.jobs.iter().any(|(job, _)| {
        let goals = &job.goals;
        goals.may_relax.any() || matches!(goals.stop, StopRule::AtPeak | StopRule::AtAccuracy(_))
    });
    let all_small = workload.jobs.iter().all(|(job, _)| job.shape.minimum().gpu_milli <= GPU);
    let suits = |entry: &&&Entry| match entry.suits {
        Suits::AnyJobs => true,
        Suits::Losses => has_losses,
        Suits::Servers => has_servers,
        Suits::Copies => has_copies,
        Suits::OneGpu => all_small,
        Suits::StopRules => may_end_early,
    };
    ALL.iter().filter(suits).copied().map(PolicyChoice::plain).filter(PolicyChoice::is_whole).collect()
}

/// Compares policies.
pub(super) fn perform(given: &CompareArguments, output: Output) -> Result<Ending, Failure> {
    let named = given.policies.as_deref().map(parse_policies).transpose()?;
    let inputs = Inputs::new(&given.inputs)?;
    let choices = named.unwrap_or_else(|| suited_to(&inputs.workload));
    inputs.reports().for_each(say_findings);
    say_unreported(&inputs);
    say_cautions(&choices);
    let trials = try_all(given, &inputs, &choices)?;
    let summaries: Vec<Summary> = trials.iter().map(|trial| trial.summary.clone()).collect();
    write_json(&given.out.join(COMPARISON), &summaries)?;
    write_report(&given.out, &inputs, &trials)?;
    print(output, &summaries, |all: &Vec<Summary>| {
        format!("{}\n\n{}", comparison_table(all), in_short(all, &inputs.workload))
    })?;
    say(&format!("The comparison is in {}; open {REPORT} there to see it.", given.out.display()));
    Ok(judge(&given.inputs, &inputs, &given.require, &summaries))
}

/// Runs the policies side by side. Results are in the order of the policies, whichever ends first.
fn try_all(
    given: &CompareArguments,
    inputs: &Inputs,
    choices: &[PolicyChoice],
) -> Result<Vec<Trial>, Failure> {
    let threads = given.threads.map_or(0, |Threads(count)| count);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|source| Failure::Threads { threads, source })?;
    let bars = progress_bars(choices);
    let folders = folders(&given.out.join(RUNS), choices);
    let trials: Vec<Result<Trial, Failure>> = pool.install(|| {
        (0..choices.len())
            .into_par_iter()
            .map(|i| {
                let leave =
                    Leave { folder: &folders[i], journal: given.journal == Journal::Jsonl, details: true };
                let outcome =
                    experiment::perform(inputs, &choices[i], leave, |done, all| bars[i].show(done, all));
                bars[i].finish();
                outcome.map(Trial::new)
            })
            .collect()
    });
    trials.into_iter().collect()
}

/// One folder for each policy: its name, with a number where a name comes again.
fn folders(parent: &Path, choices: &[PolicyChoice]) -> Vec<PathBuf> {
    let before = |i: usize| choices[..i].iter().filter(|other| other.folder() == choices[i].folder()).count();
    let folder = |i: usize| match before(i) {
        0 => parent.join(choices[i].folder()),
        again => parent.join(format!("{}-{}", choices[i].folder(), again + 1)),
    };
    (0..choices.len()).map(folder).collect()
}

/// Writes the page for people.
pub(super) fn write_report(out: &Path, inputs: &Inputs, trials: &[Trial]) -> Result<(), Failure> {
    write_text(&out.join(REPORT), &report_page(inputs, trials))
}

/// Tells what had to be done to the rows of the trace.
pub(super) fn say_findings(report: &ImportReport) {
    for finding in &report.findings {
        let done = match finding.done {
            Done::Dropped => "left out",
            Done::Repaired => "repaired",
            Done::Assumed | Done::Noted => continue,
        };
        let example = finding.examples.first().map_or_else(String::new, |place| format!(" ({place})"));
        let rows = if finding.count == 1 { "row" } else { "rows" };
        say(&format!("warning: {} {rows} {done}: {}{example}", finding.count, finding.what));
    }
}

/// Says what whoever chose these policies should know.
pub(super) fn say_cautions(choices: &[PolicyChoice]) {
    for caution in choices.iter().filter_map(PolicyChoice::caution) {
        say(&format!("warning: {caution}"));
    }
}

/// Warns where jobs have losses of which nobody is told.
pub(super) fn say_unreported(inputs: &Inputs) {
    if inputs.has_unreported_losses() {
        say(
            "warning: jobs have losses, but without --report-every they report none: policies that look at losses see \
             none, and it is not measured how losses fall. Say, for example, --report-every 10s",
        );
    }
}

/// Says which bounds were missed, and how the command ends.
pub(super) fn judge(
    given: &InputArguments,
    inputs: &Inputs,
    requirements: &[Requirement],
    summaries: &[Summary],
) -> Ending {
    let of = |summary| requirements.iter().filter_map(move |bound| bound.missed_by(summary));
    let missed: Vec<String> = summaries.iter().flat_map(of).collect();
    for line in &missed {
        say(&format!("missed: {line}"));
    }
    if given.reading.strict && inputs.has_blemishes() {
        say("rows of the trace were left out or repaired, and --strict was given");
        return Ending::Blemished;
    }
    if missed.is_empty() { Ending::Done } else { Ending::Missed }
}

/// How far one policy has come. Drawn on standard error, and only if that is a terminal.
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// So many jobs have arrived.
    pub(super) fn show(&self, arrived: usize, all: usize) {
        self.0.set_length(all as u64);
        self.0.set_position(arrived as u64);
    }

    /// It is over.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// One bar for each policy.
pub(super) fn progress_bars(choices: &[PolicyChoice]) -> Vec<Bar> {
    let all = MultiProgress::new();
    let style = ProgressStyle::with_template("{prefix:>20} {wide_bar} {pos}/{len} jobs");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = |choice: &PolicyChoice| {
        let bar = all.add(ProgressBar::new(1).with_style(style.clone()));
        Bar(bar.with_prefix(choice.label()))
    };
    choices.iter().map(bar).collect()
}
