//! The commands: each parses, calls and renders, and nothing more.

mod client;
mod cluster;
mod compare;
mod curve;
mod demo;
mod docs;
mod evaluate;
mod inspection;
mod keep;
mod partition;
mod policies;
mod replay;
mod reproduce;
mod run;
mod serve;
mod shell;
mod sweep;
mod throughput;
mod trace;
mod train;
mod train_job;
mod whatif;
mod why;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use serde::Serialize;

use crate::failure::Failure;
pub(crate) use client::ClientError;
pub(crate) use cluster::{CapacityInspection, ClusterInspection};
pub(crate) use inspection::{Counts, Inspection};
pub(crate) use partition::Partitioned;
pub(crate) use replay::ReplayError;
pub(crate) use throughput::{Estimates, Shown};
pub(crate) use why::WhyError;

const EXIT_CODES: &str = "Exit codes:
  0  done
  1  it failed while running, or a replay differs from what was recorded
  2  wrong usage or bad input
  3  finished, but rows of the trace were left out or repaired (only with --strict)
  4  the backend is not available
  5  finished, but a bound given with --require or --until was missed, or a check of a paper

Data goes to standard output, everything else to standard error.";

/// Simulate and compare schedulers for clusters that train machine-learning models.
///
/// Without a command: compares all policies on a generated busy day and writes trainyard-out/report.html.
#[derive(Parser, Debug)]
#[command(name = "trainyard", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Arguments {
    /// How results are printed.
    #[arg(long, value_enum, default_value_t, global = true)]
    output: Output,
    #[command(subcommand)]
    command: Option<Command>,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Simulate one policy and leave a folder with everything about it.
    #[command(after_help = EXIT_CODES)]
    Run(run::RunArguments),
    /// Simulate several policies on the same input and compare them.
    #[command(after_help = EXIT_CODES)]
    Compare(compare::CompareArguments),
    /// Tell what other machines, another load or another policy would change.
    #[command(name = "whatif", after_help = EXIT_CODES)]
    WhatIf(Box<whatif::WhatIfArguments>),
    /// Run all combinations of the factors of a file, and compare them seed by seed.
    #[command(after_help = EXIT_CODES)]
    Sweep(sweep::SweepArguments),
    /// Look at losses that a program wrote down.
    #[command(subcommand)]
    Curve(curve::CurveCommand),
    /// Run the experiments of a paper again and hold them against what was published.
    #[command(after_help = EXIT_CODES)]
    Reproduce(reproduce::ReproduceArguments),
    /// Train a policy that learns: it imitates another one, and then improves by the progress that its own decisions bring.
    #[command(after_help = EXIT_CODES)]
    Train(Box<train::TrainArguments>),
    /// Hold what was learned against other policies, workload by workload.
    #[command(after_help = EXIT_CODES)]
    Evaluate(Box<evaluate::EvaluateArguments>),
    /// List the policies, or show one with its parameters.
    Policies(policies::PoliciesArguments),
    /// Make traces, bring them into the native format, or look at them.
    #[command(subcommand)]
    Trace(trace::TraceCommand),
    /// Fill in speeds that nobody measured.
    #[command(subcommand)]
    Throughput(throughput::ThroughputCommand),
    /// Look at clusters and at capacity that changes.
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Decide a recorded run anew and tell whether all is as it was.
    Replay(replay::ReplayArguments),
    /// Say why a job of a live cluster or a recorded run waits, who is ahead, and when it will start.
    #[command(after_help = EXIT_CODES)]
    Why(why::WhyArguments),
    /// Schedule a live cluster: take jobs over HTTP, run them, and say why they wait.
    #[command(after_help = EXIT_CODES)]
    Serve(Box<serve::ServeArguments>),
    /// Ask the daemon to run a job.
    #[command(after_help = EXIT_CODES)]
    Submit(Box<client::SubmitArguments>),
    /// List the jobs of the daemon.
    Jobs(client::JobsArguments),
    /// Show one job of the daemon.
    Job(client::JobArguments),
    /// Take jobs back.
    Cancel(client::CancelArguments),
    /// Take jobs up again that their stop rules have cut short; they go on from what they saved, to their own end.
    Resume(client::CancelArguments),
    /// Print what a job's program wrote, and what it writes.
    Logs(client::LogsArguments),
    /// List the nodes of the daemon.
    Nodes(client::NodesArguments),
    /// Let a node keep what runs there and take nothing new; or take no new jobs.
    Drain(client::DrainArguments),
    /// Let a node take work again; or take new jobs again.
    Undrain(client::DrainArguments),
    /// Show or change the policy of the daemon.
    #[command(subcommand)]
    Policy(client::PolicyCommand),
    /// Make, list and take back tokens of the daemon.
    #[command(subcommand)]
    Token(client::TokenCommand),
    /// Nodes and jobs at a glance, renewed every second.
    Top(client::TopArguments),
    /// Look at the settings of `serve` without starting anything.
    #[command(subcommand)]
    Config(serve::ConfigCommand),
    /// Train a model, as the jobs of a live cluster do; or list what can be trained.
    #[command(name = "train-job", after_help = train_job::EXAMPLES)]
    TrainJob(train_job::TrainJobArguments),
    /// Run real training jobs on this machine under SLAQ and under fair shares, and show what differs.
    Demo(demo::DemoArguments),
    /// Keep one attempt of a job; the daemon starts this.
    #[command(hide = true)]
    Keep(keep::KeepArguments),
    /// Print what a shell needs to complete arguments.
    Completions(shell::CompletionsArguments),
    /// Print the manual, or write all its pages into a folder.
    Man(shell::ManArguments),
    /// Write the generated pages of the documentation.
    #[command(hide = true)]
    Docs(docs::DocsArguments),
}

/// How a command ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Well.
    Done,
    /// Rows were left out or repaired, and that was not to be.
    Blemished,
    /// A stated bound was missed.
    Missed,
    /// It ran, and what ran failed.
    Failed,
    /// A program of an attempt could not be started; what a shell would say.
    NotStarted,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        Self::from(match ending {
            Ending::Done => 0,
            Ending::Blemished => 3,
            Ending::Failed => 1,
            Ending::Missed => 5,
            Ending::NotStarted => 127,
        })
    }
}

/// Performs the command.
pub(crate) fn perform(arguments: Arguments) -> Result<Ending, Failure> {
    let output = arguments.output;
    match arguments.command {
        None => compare::busy_day(output),
        Some(Command::Run(given)) => run::perform(&given, output),
        Some(Command::Compare(given)) => compare::perform(&given, output),
        Some(Command::WhatIf(given)) => whatif::perform(&given, output),
        Some(Command::Sweep(given)) => sweep::perform(&given, output),
        Some(Command::Curve(command)) => curve::perform(&command, output),
        Some(Command::Reproduce(given)) => reproduce::perform(&given, output),
        Some(Command::Train(given)) => train::perform(&given, output),
        Some(Command::Evaluate(given)) => evaluate::perform(&given, output),
        Some(Command::Policies(given)) => policies::perform(&given, output),
        Some(Command::Trace(command)) => trace::perform(&command, output),
        Some(Command::Throughput(command)) => throughput::perform(&command, output),
        Some(Command::Cluster(command)) => cluster::perform(&command, output),
        Some(Command::Replay(given)) => replay::perform(&given, output),
        Some(Command::Why(given)) => why::perform(&given, output),
        Some(Command::Serve(given)) => serve::perform(&given),
        Some(Command::Submit(given)) => client::submit(&given, output),
        Some(Command::Jobs(given)) => client::jobs(&given, output),
        Some(Command::Job(given)) => client::job(&given, output),
        Some(Command::Cancel(given)) => client::cancel(&given, output),
        Some(Command::Resume(given)) => client::resume(&given, output),
        Some(Command::Logs(given)) => client::logs(&given),
        Some(Command::Nodes(given)) => client::nodes(&given, output),
        Some(Command::Drain(given)) => client::drain(&given, output),
        Some(Command::Undrain(given)) => client::undrain(&given, output),
        Some(Command::Policy(command)) => client::policy(&command, output),
        Some(Command::Token(command)) => client::token(&command, output),
        Some(Command::Top(given)) => client::top(&given, output),
        Some(Command::Config(command)) => serve::config(&command, output),
        Some(Command::TrainJob(given)) => train_job::perform(&given, output),
        Some(Command::Demo(given)) => demo::perform(&given, output),
        Some(Command::Keep(given)) => keep::perform(&given),
        Some(Command::Completions(given)) => shell::completions(&given),
        Some(Command::Man(given)) => shell::man(&given),
        Some(Command::Docs(given)) => docs::perform(&given),
    }
}

/// Prints a result in the form that was asked for.
fn print<T: Serialize>(output: Output, result: &T, table: impl FnOnce(&T) -> String) -> Result<(), Failure> {
    print_text(&in_form(output, result, table)?)
}

/// Prints a text as a command's data.
fn print_text(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let written = writeln!(stdout, "{}", text.trim_end()).and_then(|()| stdout.flush());
    written.map_err(Failure::Output)
}

/// A result in the form that was asked for.
fn in_form<T: Serialize>(
    output: Output,
    result: &T,
    table: impl FnOnce(&T) -> String,
) -> Result<String, Failure> {
    match output {
        Output::Table => Ok(table(result)),
        Output::Json => {
            serde_json::to_string_pretty(result).map_err(|error| Failure::Output(std::io::Error::from(error)))
        }
    }
}

/// Says something to a person; that nobody listens is no failure.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
