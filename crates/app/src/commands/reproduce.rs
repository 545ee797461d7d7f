//! `reproduce`: the experiments of a paper, run again and held against what was published.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use trainyard_sched::model::Seed;

use super::whatif::progress_bar;
use super::{Ending, Output, print, say};
use crate::config::{ArgumentError, Threads};
use crate::experiment::{make_folder, pool, write_json, write_text};
use crate::failure::Failure;
use crate::render::{reproduction_page, reproduction_text};
use crate::reproduce::{Effort, PAPERS, Paper, Progress, Row};

/// What `reproduce` is told.
#[derive(Args, Debug)]
pub(super) struct ReproduceArguments {
    /// The paper; without one they are listed.
    paper: Option<String>,
    /// Fewer and smaller workloads, so that a minute is enough; intervals are wider.
    #[arg(long)]
    quick: bool,
    /// Experiments of hours as well.
    #[arg(long, conflicts_with = "quick")]
    nightly: bool,
    /// How many workloads are drawn [default: as many as the checks ask for].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: Option<u32>,
    /// The first seed.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,
    /// How many workloads are run at one time [default: as many as there are cores].
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<Threads>,
    /// The folder that is left; files of the same names are replaced.
    #[arg(long, value_name = "DIR", default_value = "trainyard-reproduce")]
    out: PathBuf,
}

/// A paper in the list of papers.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    title: &'static str,
    source: &'static str,
}

/// Runs the experiments of a paper again.
pub(super) fn perform(given: &ReproduceArguments, output: Output) -> Result<Ending, Failure> {
    let Some(name) = &given.paper else {
        return list(output);
    };
    let paper = find(name)?;
    let seeds = given.seeds.map(|seeds| seeds as usize);
    let effort = Effort { seed: Seed(given.seed), seeds, quick: given.quick, nightly: given.nightly };
    make_folder(&given.out)?;
    let bar = progress_bar();
    bar.set_length(0);
    let (expect, done) = (|more| bar.inc_length(more), || bar.inc(1));
    let progress = Progress { expect: &expect, done: &done };
    let found = pool(given.threads)?.install(|| (paper.run)(&effort, &progress));
    bar.finish_and_clear();
    let found = found?;
    write_json(&given.out.join("rows.json"), &found.rows)?;
    write_json(&given.out.join("readings.json"), &found.readings)?;
    write_text(&given.out.join("report.html"), &reproduction_page(paper, &found))?;
    print(output, &found.rows, |rows: &Vec<Row>| reproduction_text(rows, &found.readings))?;
    say(&format!("{} The page is {}.", found.setting, given.out.join("report.html").display()));
    let missed: Vec<&str> = found.rows.iter().filter(|row| !row.pass).map(|row| row.check).collect();
    if missed.is_empty() {
        return Ok(Ending::Done);
    }
    say(&format!("missed: {}", missed.join(", ")));
    Ok(Ending::Missed)
}

fn find(name: &str) -> Result<&'static Paper, Failure> {
    PAPERS.iter().copied().find(|paper| paper.name == name).ok_or_else(|| {
        ArgumentError::NoSuchPaper {
            name: name.to_owned(),
            hint: trainyard_sim::trace::nearest(name, PAPERS.iter().map(|paper| paper.name)),
        }
        .into()
    })
}

fn list(output: Output) -> Result<Ending, Failure> {
    let of = |paper: &&Paper| Listed { name: paper.name, title: paper.title, source: paper.source };
    let listed: Vec<Listed> = PAPERS.iter().map(of).collect();
    print(output, &listed, |listed: &Vec<Listed>| {
        let line = |paper: &Listed| format!("{:<10} {} ({})", paper.name, paper.title, paper.source);
        listed.iter().map(line).collect::<Vec<_>>().join("\n")
    })?;
    Ok(Ending::Done)
}
