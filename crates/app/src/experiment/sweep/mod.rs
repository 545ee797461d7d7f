//! A sweep: all combinations of the levels of some factors, each with the same seeds, and what they differ by, pair by
//! pair. Runs go on side by side; what is done is kept on disk and not done again.

mod compare;
mod frame;
mod manifest;
#[cfg(feature = "parquet")]
mod parquet_file;
mod store;

use std::collections::BTreeMap;
use std::path::Path;

use trainyard_sim::workload::Done;

use super::measure::measure;
use super::replicates::side_by_side;
use crate::config::{Cell, InputArguments, Inputs, METRICS, Stock, SweepFile, Variation};
use crate::failure::Failure;
pub(crate) use compare::{Compared, Row};
use frame::{Column, Frame};
use store::{Identity, Record, Store, sha256_of_file};

/// One row a run.
const RESULTS: &str = "results.csv";
/// One row a pair of cells and number.
const DIFFERENCES: &str = "differences.csv";
/// What was measured on this machine.
const TIMINGS: &str = "timings.csv";
/// What the results were made from.
const MANIFEST: &str = "manifest.json";

/// A sweep that is ready to go.
pub(crate) struct Sweep {
    file: SweepFile,
    cells: Vec<Cell>,
    /// SHA-256 of the files that settings name.
    files: BTreeMap<String, String>,
}

/// What came of it.
pub(crate) struct Swept {
    /// What was compared with what.
    pub(crate) compared: Compared,
    /// Rows of traces that were left out or repaired, in all runs together.
    pub(crate) blemishes: u64,
    /// Runs that were done before.
    pub(crate) reused: usize,
    /// The inputs of the first run.
    pub(crate) inputs: Inputs,
}

impl Sweep {
    /// Checks all combinations and hashes the files that they name.
    pub(crate) fn new(file: SweepFile) -> Result<Self, Failure> {
        let cells = file.cells()?;
        let mut files = BTreeMap::new();
        for setting in cells.iter().flat_map(|cell| &cell.settings) {
            // What a file does not say may be added behind it: `spot.json?gpus=8`.
            let path = Path::new(setting.value.split('?').next().unwrap_or_default());
            if !files.contains_key(&setting.value) && path.is_file() {
                files.insert(setting.value.clone(), sha256_of_file(path)?);
            }
        }
        Ok(Self { file, cells, files })
    }

    /// How many runs there are.
    pub(crate) fn runs(&self) -> usize {
        self.cells.len() * self.file.seeds.len()
    }

    /// Performs what is not done yet and leaves the folder, but for its page. `tick` is told whenever a run is there.
    pub(crate) fn perform(
        &self,
        out: &Path,
        parquet: bool,
        tick: &(dyn Fn() + Sync),
    ) -> Result<Swept, Failure> {
        let store = Store::open(out)?;
        let stock = Stock::default();
        let seeds = self.file.seeds.len();
        let runs = side_by_side(self.runs(), |i| {
            let run = self.run(&store, &stock, i / seeds, i % seeds);
            tick();
            run
        })?;
        let (records, reused): (Vec<Record>, Vec<bool>) = runs.into_iter().unzip();
        let compared = compare::compare(&self.file, &self.cells, &records);
        let results = self.results(&records);
        let mut written = vec![RESULTS, DIFFERENCES];
        results.write_csv(&out.join(RESULTS))?;
        compare::frame(&self.file, &compared).write_csv(&out.join(DIFFERENCES))?;
        timings(&records).write_csv(&out.join(TIMINGS))?;
        if parquet {
            written.push(write_parquet(&results, out)?);
        }
        manifest::write(self, &records, out, &written)?;
        Ok(Swept {
            compared,
            blemishes: records.iter().map(|record| record.blemishes).sum(),
            reused: reused.into_iter().filter(|reused| *reused).count(),
            inputs: self.inputs(&stock, 0, 0)?,
        })
    }

    /// Adds the hash of the page to the manifest, once it is there.
    pub(crate) fn seal(&self, out: &Path, page: &str) -> Result<(), Failure> {
        manifest::add(out, page)
    }

    /// One run, from disk or done now, and whether it was there.
    fn run(
        &self,
        store: &Store,
        stock: &Stock,
        cell: usize,
        position: usize,
    ) -> Result<(Record, bool), Failure> {
        let identity = self.identity(cell, position);
        if let Some(record) = store.find(&identity) {
            return Ok((record, true));
        }
        let inputs = self.inputs(stock, cell, position)?;
        let blemished = |done| matches!(done, Done::Dropped | Done::Repaired);
        let findings = inputs.reports().flat_map(|report| &report.findings);
        let blemishes = findings.filter(|finding| blemished(finding.done)).map(|finding| finding.count).sum();
        let run = measure(inputs, &self.cells[cell].policy)?;
        let binary = store.binary().to_owned();
        let record = Record { identity, binary, summary: run.summary, blemishes, measured: run.times };
        store.keep(&record)?;
        Ok((record, false))
    }

    fn identity(&self, cell: usize, position: usize) -> Identity {
        Identity::new(
            &self.cells[cell],
            &self.files,
            self.file.seeds[position],
            self.is_resampled(cell, position),
        )
    }

    /// The first seed belongs to the trace as it is.
    fn is_resampled(&self, cell: usize, position: usize) -> bool {
        self.file.resample && position > 0 && self.cells[cell].inputs.trace.is_some()
    }

    fn inputs(&self, stock: &Stock, cell: usize, position: usize) -> Result<Inputs, Failure> {
        let variation = Variation {
            seed: Some(self.file.seeds[position]),
            resampled: self.is_resampled(cell, position),
            ..Variation::default()
        };
        let given: &InputArguments = &self.cells[cell].inputs;
        Inputs::varied(given, &variation, Some(stock))
    }

    /// One row a run: its name, the level of each factor, its seed, and all its numbers.
    fn results(&self, records: &[Record]) -> Frame {
        let seeds = self.file.seeds.len();
        let mut frame = Frame::default();
        frame.push("run", Column::Text(records.iter().map(|record| record.identity.hash()).collect()));
        for (i, factor) in self.file.factors.iter().enumerate() {
            let level = |run: usize| factor.levels[self.cells[run / seeds].levels[i]].value.clone();
            frame.push(column_of(&factor.name), Column::Text((0..records.len()).map(level).collect()));
        }
        frame.push(
            "seed",
            Column::Whole((0..records.len()).map(|run| self.file.seeds[run % seeds]).collect()),
        );
        let replicate = (0..records.len()).map(|run| (run % seeds) as u64);
        frame.push("replicate", Column::Whole(replicate.collect()));
        for metric in METRICS.iter().filter(|metric| !metric.measured) {
            let values = records.iter().map(|record| (metric.of)(&record.summary));
            frame.push(metric.key, Column::Number(values.collect()));
        }
        frame.push("unstable", Column::Flag(records.iter().map(|record| record.summary.unstable).collect()));
        frame
    }
}

/// The column of a factor; one that has the name of a number is told apart.
fn column_of(factor: &str) -> String {
    let name = factor.replace('-', "_");
    if METRICS.iter().any(|metric| metric.key == name) { format!("{name}_given") } else { name }
}

fn timings(records: &[Record]) -> Frame {
    let mut frame = Frame::default();
    frame.push("run", Column::Text(records.iter().map(|record| record.identity.hash()).collect()));
    let number = |of: fn(&Record) -> Option<f64>| Column::Number(records.iter().map(of).collect());
    frame.push("wall_s", number(|record| Some(record.measured.wall_s)));
    frame.push("decide_us_p50", number(|record| record.measured.decide_us_p50));
    frame.push("decide_us_p99", number(|record| record.measured.decide_us_p99));
    frame
}

#[cfg(feature = "parquet")]
fn write_parquet(results: &Frame, out: &Path) -> Result<&'static str, Failure> {
    const NAME: &str = "results.parquet";
    parquet_file::write_parquet(results, &out.join(NAME))?;
    Ok(NAME)
}

#[cfg(not(feature = "parquet"))]
fn write_parquet(_: &Frame, _: &Path) -> Result<&'static str, Failure> {
    Err(crate::config::ArgumentError::NoParquet.into())
}
