//! `throughput`: what can be said of speeds that nobody measured, from those that somebody did.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;
use trainyard_sched::model::Seed;
use trainyard_sim::physics::{
    Cell, Figure, ThroughputTable, fill_alone, fill_pairs, left_out, load_throughputs,
};

use super::{Ending, Output, print, print_text, say};
use crate::config::{PIPE, seed};
use crate::experiment::write_text;
use crate::failure::Failure;
use crate::render::{throughput_page, throughput_text};

/// What can be done with tables of throughputs.
#[derive(Subcommand, Debug)]
pub(super) enum ThroughputCommand {
    /// Fill a table of jobs and GPU types from partial measurements, and say how far estimates may be off.
    Estimate(EstimateArguments),
}

/// What `throughput estimate` is told.
#[derive(Args, Debug)]
pub(super) struct EstimateArguments {
    /// The table: our CSV, in which an empty field was not measured, Gavel's JSON, or gavel or gavel-physical.
    table: String,
    /// Write the filled table as CSV, for --throughputs; - is standard output.
    #[arg(short = 'o', long = "out", value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write a page with charts.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Settles what is drawn where jobs beside others are likened to references.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = seed)]
    seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Estimates {
    /// All figures of jobs alone.
    pub(crate) alone: Vec<Shown>,
    /// All figures of jobs beside others, where any were measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) beside: Vec<Shown>,
    /// How well such estimates hold, if anything could be tried.
    pub(crate) left_out: Option<LeftOut>,
    /// Models without any figure, of which nothing can be said.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) without: Vec<String>,
}

/// A figure.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Shown {
    /// The model.
    pub(crate) model: String,
    /// GPUs of the gang.
    pub(crate) gpus: u32,
    /// The model beside which it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) beside: Option<String>,
    /// The GPU type.
    pub(crate) gpu_type: String,
    /// Whether the gang is on several nodes.
    pub(crate) spread: bool,
    /// `measured`, `estimated`, `does_not_fit` or `unknown`.
    pub(crate) known: &'static str,
    /// Iterations a second.
    pub(crate) per_s: Option<f64>,
    /// Between this
    pub(crate) low: Option<f64>,
    /// and this it lies in about two of three cases, as far as the sources disagree.
    pub(crate) high: Option<f64>,
    /// How many figures of others an estimate rests on.
    pub(crate) sources: usize,
}

/// Measured figures that were taken away one by one and estimated from the others.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct LeftOut {
    /// How many.
    pub(crate) figures: usize,
    /// Half of the estimates are off by no more than this part.
    pub(crate) median: f64,
    /// Nine of ten.
    pub(crate) p90: f64,
}

/// Estimates what was not measured.
pub(super) fn perform(command: &ThroughputCommand, output: Output) -> Result<Ending, Failure> {
    let ThroughputCommand::Estimate(given) = command;
    let table = load_throughputs(&given.table)?;
    let alone = fill_alone(&table);
    let beside = pairs(&table, Seed(given.seed));
    let estimates = Estimates {
        alone: alone.iter().map(|cell| shown(&table, cell)).collect(),
        beside: beside.iter().map(|cell| shown(&table, cell)).collect(),
        left_out: tried(&table),
        without: without(&table, &alone),
    };
    if let Some(page) = &given.page {
        write_text(page, &throughput_page(&given.table, &estimates))?;
    }
    let filled = given.out.as_deref().map(|out| (out, csv(&table, alone.iter().chain(&beside))));
    match filled {
        Some((out, text)) if out == Path::new(PIPE) => {
            print_text(&text)?;
            return Ok(Ending::Done);
        }
        Some((out, text)) => write_text(out, &text)?,
        None => {}
    }
    print(output, &estimates, throughput_text)?;
    if !estimates.without.is_empty() {
        say(&format!("without any figure, so left as they are: {}", estimates.without.join(", ")));
    }
    Ok(Ending::Done)
}

/// Pairs of all sizes of gangs of which any were measured.
fn pairs(table: &ThroughputTable, seed: Seed) -> Vec<Cell> {
    let mut sizes: Vec<u32> = table.figures().map(|(_, _, gpus, _, _)| gpus).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut types: Vec<String> = table.figures().map(|(_, gpu_type, ..)| gpu_type.to_owned()).collect();
    types.sort_unstable();
    types.dedup();
    sizes.into_iter().flat_map(|gpus| fill_pairs(table, gpus, &types, seed)).collect()
}

fn shown(table: &ThroughputTable, cell: &Cell) -> Shown {
    let (known, between, sources) = match cell.figure {
        Figure::Measured(_) => ("measured", None, 0),
        Figure::DoesNotFit => ("does_not_fit", None, 0),
        Figure::Estimated { between, sources, .. } => ("estimated", between, sources),
        Figure::Unknown => ("unknown", None, 0),
    };
    Shown {
        model: table.name(cell.row).to_owned(),
        gpus: cell.gpus,
        beside: cell.beside.map(|other| table.name(other).to_owned()),
        gpu_type: cell.gpu_type.clone(),
        spread: cell.spread,
        known,
        per_s: cell.figure.per_s(),
        low: between.map(|between| between.0),
        high: between.map(|between| between.1),
        sources,
    }
}

fn tried(table: &ThroughputTable) -> Option<LeftOut> {
    let mut off = left_out(table, None);
    off.sort_by(f64::total_cmp);
    let at =
        |part: f64| off.get(((off.len() as f64 * part) as usize).min(off.len().saturating_sub(1))).copied();
    Some(LeftOut { figures: off.len(), median: at(0.5)?, p90: at(0.9)? })
}

/// Models of which there is no figure at all.
fn without(table: &ThroughputTable, alone: &[Cell]) -> Vec<String> {
    let has = |row: &u32| alone.iter().any(|cell| cell.row == *row);
    (0..table.rows()).filter(|row| !has(row)).map(|row| table.name(row).to_owned()).collect()
}

/// The filled table in our form.
fn csv<'a>(table: &ThroughputTable, cells: impl Iterator<Item = &'a Cell> + Clone) -> String {
    let column = |cell: &Cell| {
        if cell.spread { format!("{}_unconsolidated", cell.gpu_type) } else { cell.gpu_type.clone() }
    };
    let mut columns: Vec<String> = cells.clone().map(column).collect();
    // Types first, then gangs on several nodes.
    columns.sort_by_key(|name| (name.ends_with("_unconsolidated"), name.clone()));
    columns.dedup();
    let mut rows: std::collections::BTreeMap<(u32, u32, Option<u32>), Vec<String>> = Default::default();
    for cell in cells {
        let fields = rows
            .entry((cell.row, cell.gpus, cell.beside))
            .or_insert_with(|| vec![String::new(); columns.len()]);
        let name = column(cell);
        if let Some(at) = columns.iter().position(|column| *column == name) {
            fields[at] = cell.figure.per_s().map_or_else(String::new, |per_s| per_s.to_string());
        }
    }
    let mut text = format!("model,gpus,beside,{}\n", columns.join(","));
    for ((row, gpus, beside), fields) in rows {
        let beside = beside.map_or("", |other| table.name(other));
        let _ = writeln!(text, "{},{gpus},{beside},{}", table.name(row), fields.join(","));
    }
    text
}
