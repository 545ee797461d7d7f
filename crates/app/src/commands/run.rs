//! `run`: one policy.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use trainyard_sched::metrics::Summary;

use super::compare::{judge, progress_bars, say_cautions, say_findings, say_unreported, write_report};
use super::{Ending, Output, print, say};
use crate::config::{InputArguments, Inputs, Requirement, parse_policy};
use crate::experiment::{self, Leave, Trial};
use crate::failure::Failure;
use crate::render::{in_short, summary_table};

/// What `run` is told.
#[derive(Args, Debug)]
pub(super) struct RunArguments {
    #[command(flatten)]
    inputs: InputArguments,
    /// The policy: name, or name{key = value, ...}; mlf-c(NAME) puts load control around any, as in mlf-c(tiresias).
    #[arg(long, value_name = "POLICY", help_heading = "Run")]
    policy: String,
    /// The folder that is left; files of the same names are replaced.
    #[arg(long, value_name = "DIR", default_value = "trainyard-out", help_heading = "Run")]
    out: PathBuf,
    /// Whether every step is written down, so that the run can be replayed.
    #[arg(long, value_enum, default_value_t, help_heading = "Run")]
    journal: Journal,
    /// A bound that must hold, such as avg_jct_s<=3600; may be repeated.
    #[arg(long, value_name = "BOUND", help_heading = "Run")]
    require: Vec<Requirement>,
}

/// Whether every step is written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Journal {
    /// No.
    None,
    /// As JSON lines.
    #[default]
    Jsonl,
}

/// Runs one policy.
pub(super) fn perform(given: &RunArguments, output: Output) -> Result<Ending, Failure> {
    let policy = parse_policy(&given.policy)?;
    let inputs = Inputs::new(&given.inputs)?;
    inputs.reports().for_each(say_findings);
    say_unreported(&inputs);
    say_cautions(std::slice::from_ref(&policy));
    let bars = progress_bars(std::slice::from_ref(&policy));
    let leave = Leave { folder: &given.out, journal: given.journal == Journal::Jsonl, details: true };
    let outcome = experiment::perform(&inputs, &policy, leave, |done, all| bars[0].show(done, all))?;
    bars[0].finish();
    let trial = Trial::new(outcome);
    write_report(&given.out, &inputs, std::slice::from_ref(&trial))?;
    print(output, &trial.summary, |summary: &Summary| {
        let all = std::slice::from_ref(summary);
        format!("{}\n\n{}", summary_table(summary), in_short(all, &inputs.workload))
    })?;
    say(&format!("The run is in {}; open report.html there to see it.", given.out.display()));
    Ok(judge(&given.inputs, &inputs, &given.require, std::slice::from_ref(&trial.summary)))
}
