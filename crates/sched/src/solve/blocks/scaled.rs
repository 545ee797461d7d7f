//! A program in numbers of about one: rows are divided by their greatest entries, the rise and the objective by their
//! sizes. None of that moves the central path; it only keeps digits.

use super::program::{BlockProgram, Level, Link};

/// A level as the method sees it: `slopes . x - by * rise - slack = least`, or a logarithm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub is_there: bool,
    pub least: f64,
    pub by: f64,
    /// The multiple of its logarithm in the objective; 0 for rows that are bounds.
    pub logarithm: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Scaled {
    pub starts: Vec<usize>,
    /// How many blocks each one stands for. Numbers are those of one of them.
    pub counts: Vec<f64>,
    pub times: Vec<f64>,
    pub rows: Vec<Row>,
    pub gains: Vec<f64>,
    pub slopes: Vec<f64>,
    pub entry_starts: Vec<usize>,
    /// Of each entry: its place in its block's list of links, and its value.
    pub entries: Vec<(usize, f64)>,
    /// The links that a block has entries in, in order.
    pub touched: Vec<usize>,
    pub touched_starts: Vec<usize>,
    /// What links add up to at most; 0 for balances.
    pub most: Vec<f64>,
    pub is_balance: Vec<bool>,
    pub rise_gain: f64,
    /// Multiplied by these, scaled numbers are what they were: objective, rise, duals of levels, duals of links.
    pub objective_scale: f64,
    pub rise_scale: f64,
    pub level_scales: Vec<f64>,
    pub link_scales: Vec<f64>,
}

impl Scaled {
    pub(super) fn new(program: &BlockProgram, start: &[f64]) -> Self {
        let level_scales: Vec<f64> = (0..program.blocks()).map(|block| steepest(program, block)).collect();
        let link_scales: Vec<f64> = program.links.iter().map(link_scale).collect();
        let rise_scale = rise_scale(program, start);
        let weight = |level: &Level| if let Level::Logarithm(weight) = level { *weight } else { 0.0 };
        let gain = program.gains.iter().fold(0.0, |most: f64, gain| most.max(gain.abs()));
        let logarithm = program.levels.iter().map(weight).fold(0.0, f64::max);
        let objective_scale = match gain.max(logarithm).max(program.rise_gain * rise_scale) {
            size if size > 0.0 => size,
            _ => 1.0,
        };
        let row = |block: usize| {
            let (level, scale) = (program.levels[block], level_scales[block]);
            let (least, by) = match level {
                Level::Free | Level::Logarithm(_) => (0.0, 0.0),
                Level::Floor(least) => (least, 0.0),
                Level::Rising { least, by } => (least, by * rise_scale),
            };
            Row {
                is_there: level != Level::Free,
                least: least / scale,
                by: by / scale,
                logarithm: weight(&level) / objective_scale,
            }
        };
        let is_there = |block: usize| program.levels[block] != Level::Free;
        let slopes = (0..program.blocks()).flat_map(|block| {
            let scale = if is_there(block) { 1.0 / level_scales[block] } else { 0.0 };
            program.slopes[program.range(block)].iter().map(move |slope| slope * scale)
        });
        let mut scaled = Self {
            starts: program.starts.clone(),
            counts: program.counts.clone(),
            times: program.times.clone(),
            rows: (0..program.blocks()).map(row).collect(),
            gains: program.gains.iter().map(|gain| gain / objective_scale).collect(),
            slopes: slopes.collect(),
            entry_starts: program.entry_starts.clone(),
            entries: Vec::with_capacity(program.entries.len()),
            touched: Vec::new(),
            touched_starts: vec![0],
            most: program.links.iter().zip(&link_scales).map(|(link, scale)| most(link) / scale).collect(),
            is_balance: program.links.iter().map(|link| *link == Link::Balance).collect(),
            rise_gain: program.rise_gain * rise_scale / objective_scale,
            objective_scale,
            rise_scale,
            level_scales,
            link_scales,
        };
        scaled.index_links(program);
        scaled
    }

    /// Gives the links of each block places from nought.
    fn index_links(&mut self, program: &BlockProgram) {
        let mut place = vec![usize::MAX; program.links.len()];
        for block in 0..program.blocks() {
            let begin = self.touched.len();
            let range = program.range(block);
            let entries =
                &program.entries[program.entry_starts[range.start]..program.entry_starts[range.end]];
            for (link, _) in entries {
                if place[*link] == usize::MAX {
                    place[*link] = 0;
                    self.touched.push(*link);
                }
            }
            self.touched[begin..].sort_unstable();
            self.touched[begin..].iter().enumerate().for_each(|(i, link)| place[*link] = i);
            let scaled = entries.iter().map(|(link, value)| (place[*link], value / self.link_scales[*link]));
            self.entries.extend(scaled);
            self.touched[begin..].iter().for_each(|link| place[*link] = usize::MAX);
            self.touched_starts.push(self.touched.len());
        }
    }

    pub(super) fn blocks(&self) -> usize {
        self.times.len()
    }

    pub(super) fn links(&self) -> usize {
        self.most.len()
    }

    pub(super) fn range(&self, block: usize) -> std::ops::Range<usize> {
        self.starts[block]..self.starts[block + 1]
    }

    pub(super) fn touched_of(&self, block: usize) -> std::ops::Range<usize> {
        self.touched_starts[block]..self.touched_starts[block + 1]
    }

    pub(super) fn entries_of(&self, variable: usize) -> &[(usize, f64)] {
        &self.entries[self.entry_starts[variable]..self.entry_starts[variable + 1]]
    }
}

fn steepest(program: &BlockProgram, block: usize) -> f64 {
    let slopes = &program.slopes[program.range(block)];
    match slopes.iter().fold(0.0, |most: f64, slope| most.max(slope.abs())) {
        most if most > 0.0 => most,
        _ => 1.0,
    }
}

fn most(link: &Link) -> f64 {
    match link {
        Link::AtMost(most) => *most,
        Link::Balance => 0.0,
    }
}

fn link_scale(link: &Link) -> f64 {
    match link {
        Link::AtMost(most) if *most > 0.0 => *most,
        _ => 1.0,
    }
}

/// How far the levels can rise at the start if they begin at nought.
fn rise_scale(program: &BlockProgram, start: &[f64]) -> f64 {
    let rise = |block: usize| match program.levels[block] {
        Level::Rising { by, .. } => Some(program.level(start, block) / by),
        _ => None,
    };
    let least = (0..program.blocks()).filter_map(rise).fold(f64::INFINITY, f64::min);
    if least.is_finite() && least > 0.0 { least } else { 1.0 }
}
