//! `sweep`: a file of factors times seeds, side by side, into one tidy table and paired differences.

use std::path::PathBuf;

use clap::Args;

use super::whatif::progress_bar;
use super::{Ending, Output, print, say};
use crate::config::{ArgumentError, SweepFile, Threads};
use crate::experiment::sweep::Sweep;
use crate::experiment::{pool, write_text};
use crate::failure::Failure;
use crate::render::{sweep_page, sweep_text};

/// The page for people.
const REPORT: &str = "report.html";

/// What `sweep` is told.
#[derive(Args, Debug)]
pub(super) struct SweepArguments {
    /// The file of the sweep, in TOML; docs/sweep.md describes it.
    file: PathBuf,
    /// How many runs go on at one time [default: as many as there are cores].
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<Threads>,
    /// The folder that is left. Runs that are there already are not done again.
    #[arg(long, value_name = "DIR", default_value = "trainyard-sweep")]
    out: PathBuf,
    /// Write results.parquet as well; needs a program that was built with the feature `parquet`.
    #[arg(long)]
    parquet: bool,
    /// End with exit code 3 if rows of a trace were left out or repaired.
    #[arg(long)]
    strict: bool,
}

/// Performs a sweep.
pub(super) fn perform(given: &SweepArguments, output: Output) -> Result<Ending, Failure> {
    if given.parquet && !cfg!(feature = "parquet") {
        return Err(ArgumentError::NoParquet.into());
    }
    let sweep = Sweep::new(SweepFile::read(&given.file)?)?;
    let bar = progress_bar();
    bar.set_length(sweep.runs() as u64);
    let swept = pool(given.threads)?.install(|| sweep.perform(&given.out, given.parquet, &|| bar.inc(1)));
    bar.finish_and_clear();
    let swept = swept?;
    write_text(&given.out.join(REPORT), &sweep_page(&swept))?;
    sweep.seal(&given.out, REPORT)?;
    print(output, &swept.compared, sweep_text)?;
    let reused =
        if swept.reused > 0 { format!(", {} of them done before", swept.reused) } else { String::new() };
    say(&format!("{} runs{reused}; they are in {}.", sweep.runs(), given.out.display()));
    if swept.blemishes > 0 {
        say(&format!(
            "warning: {} rows of traces were left out or repaired, all runs together; `trainyard trace inspect` tells which",
            swept.blemishes
        ));
    }
    Ok(if given.strict && swept.blemishes > 0 { Ending::Blemished } else { Ending::Done })
}
