//! The cells of a sweep beside those with the levels of the baseline, seed by seed.

use serde::Serialize;
use trainyard_sched::model::Seed;

use super::column_of;
use super::frame::{Column, Frame};
use super::store::Record;
use crate::config::{Cell, Metric, SweepFile};
use crate::statistics::{Estimate, paired};

/// Everything that was compared.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Compared {
    /// What the sweep is called.
    pub(crate) title: String,
    /// The factors in the order of the file.
    pub(crate) factors: Vec<String>,
    /// The levels that others are compared with, by factor.
    pub(crate) baseline: Vec<(String, String)>,
    /// The seeds of each cell.
    pub(crate) seeds: Vec<u64>,
    /// Cells by number, numbers in the order of the file.
    pub(crate) rows: Vec<Row>,
}

/// One number of one cell.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// The level of each factor.
    pub(crate) levels: Vec<String>,
    /// The key of the number.
    pub(crate) metric: &'static str,
    /// The number.
    pub(crate) value: Estimate,
    /// The number of the cell that it is compared with; absent for a cell of the baseline.
    pub(crate) baseline: Option<Estimate>,
    /// The difference from that cell, seed by seed.
    pub(crate) difference: Option<Estimate>,
}

/// Compares all cells.
pub(super) fn compare(file: &SweepFile, cells: &[Cell], records: &[Record]) -> Compared {
    let level = |factor: usize, level: usize| file.factors[factor].levels[level].value.clone();
    let mut rows = Vec::new();
    for (number, cell) in cells.iter().enumerate() {
        let partner = partner(file, cell);
        let levels = cell.levels.iter().enumerate().map(|(factor, at)| level(factor, *at));
        let levels: Vec<String> = levels.collect();
        for metric in &file.metrics {
            let values = values(file, records, number, metric);
            let seed = Seed(file.seeds[0]).branch("sweep").branch(metric.key);
            let partners = (partner != number).then(|| self::values(file, records, partner, metric));
            rows.push(Row {
                levels: levels.clone(),
                metric: metric.key,
                value: Estimate::of(&values, seed),
                difference: partners.as_ref().map(|partners| Estimate::of(&paired(&values, partners), seed)),
                baseline: partners.map(|partners| Estimate::of(&partners, seed)),
            });
        }
    }
    let baseline =
        file.baseline.iter().map(|(factor, at)| (file.factors[*factor].name.clone(), level(*factor, *at)));
    Compared {
        title: file.title.clone(),
        factors: file.factors.iter().map(|factor| factor.name.clone()).collect(),
        baseline: baseline.collect(),
        seeds: file.seeds.clone(),
        rows,
    }
}

/// The cell that differs from this one only in having the levels of the baseline.
fn partner(file: &SweepFile, cell: &Cell) -> usize {
    let levels = cell.levels.iter().enumerate();
    let levels = levels.map(|(factor, level)| *file.baseline.get(&factor).unwrap_or(level));
    levels.zip(&file.factors).fold(0, |number, (level, factor)| number * factor.levels.len() + level)
}

fn values(file: &SweepFile, records: &[Record], cell: usize, metric: &Metric) -> Vec<Option<f64>> {
    let seeds = file.seeds.len();
    records[cell * seeds..][..seeds].iter().map(|record| (metric.of)(&record.summary)).collect()
}

/// The table of the file: cells of the baseline are not in it.
pub(super) fn frame(file: &SweepFile, compared: &Compared) -> Frame {
    let rows: Vec<(&Row, Estimate, Estimate)> =
        compared.rows.iter().filter_map(|row| Some((row, row.baseline?, row.difference?))).collect();
    let mut frame = Frame::default();
    for (i, factor) in file.factors.iter().enumerate() {
        let levels = rows.iter().map(|(row, ..)| row.levels[i].clone());
        frame.push(column_of(&factor.name), Column::Text(levels.collect()));
    }
    frame.push("metric", Column::Text(rows.iter().map(|(row, ..)| row.metric.to_owned()).collect()));
    type Of = fn(&(&Row, Estimate, Estimate)) -> Option<f64>;
    let mut number = |name: &str, of: Of| frame.push(name, Column::Number(rows.iter().map(of).collect()));
    number("mean", |(row, ..)| row.value.mean);
    number("baseline_mean", |(_, baseline, _)| baseline.mean);
    number("difference", |(.., by)| by.mean);
    number("difference_low_80", |(.., by)| Some(by.interval_80?.low));
    number("difference_high_80", |(.., by)| Some(by.interval_80?.high));
    number("difference_low_95", |(.., by)| Some(by.interval_95?.low));
    number("difference_high_95", |(.., by)| Some(by.interval_95?.high));
    let counts = |of: fn(&Estimate) -> usize| rows.iter().map(|(.., by)| of(by) as u64).collect();
    let (pairs, absent) = (counts(|by| by.replicates), counts(|by| by.absent));
    frame.push("pairs", Column::Whole(pairs));
    frame.push("pairs_absent", Column::Whole(absent));
    frame
}
