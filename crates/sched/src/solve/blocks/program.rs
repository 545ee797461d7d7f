//! Programs made of blocks, as data.
//!
//! A block is a job: a few variables that are not negative, and up to two rows of its own. Its time is bounded, and it may
//! have a level, `level . x`, that must not be less than something. Links are rows across blocks, such as the GPUs there
//! are. One more variable, the rise, lifts the levels of many blocks at once. The program is
//!
//! ```text
//! maximise   gain . x + sum of weights * log(level . x) over blocks with a logarithm + rise_gain * rise
//! such that  x >= 0, sum of a block's x <= its time, links . x <= most (or = most),
//!            level . x >= least + by * rise    for blocks that rise, and level . x >= least for those with a floor
//! ```
//!
//! Blocks that are alike in everything can be written as one with a count: the method then does what it would do with all of
//! them, since it keeps alike what begins alike.

use crate::solve::linear::{LinearProgram, Sense};

/// What a block's level must do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Level {
    /// Nothing.
    Free,
    /// Be at least this.
    Floor(f64),
    /// Be at least `least + by * rise`.
    Rising {
        /// Where it begins.
        least: f64,
        /// How much it gains when the rise grows by one; positive.
        by: f64,
    },
    /// Be as great as possible: the objective has this multiple of its logarithm.
    Logarithm(f64),
}

/// A row across blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Link {
    /// What it adds up to is at most this, which is positive unless some entries are negative.
    AtMost(f64),
    /// It adds up to nought.
    Balance,
}

/// A program of blocks, built up block by block.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockProgram {
    /// Where the variables of each block begin, and where those of the last one end.
    pub(super) starts: Vec<usize>,
    /// How many blocks each one stands for.
    pub(super) counts: Vec<f64>,
    /// The time of each block.
    pub(super) times: Vec<f64>,
    pub(super) levels: Vec<Level>,
    /// Of each variable, what it adds to the objective and to its block's level.
    pub(super) gains: Vec<f64>,
    pub(super) slopes: Vec<f64>,
    /// Where the entries of each variable begin, and where those of the last one end.
    pub(super) entry_starts: Vec<usize>,
    pub(super) entries: Vec<(usize, f64)>,
    pub(super) links: Vec<Link>,
    pub(super) rise_gain: f64,
}

impl BlockProgram {
    /// A program without blocks.
    pub fn new(links: Vec<Link>, rise_gain: f64) -> Self {
        Self {
            starts: vec![0],
            counts: Vec::new(),
            times: Vec::new(),
            levels: Vec::new(),
            gains: Vec::new(),
            slopes: Vec::new(),
            entry_starts: vec![0],
            entries: Vec::new(),
            links,
            rise_gain,
        }
    }

    /// Makes room for so many more blocks with so many variables, each with one entry.
    pub fn reserve(&mut self, blocks: usize, variables: usize) {
        self.starts.reserve(blocks);
        self.counts.reserve(blocks);
        self.times.reserve(blocks);
        self.levels.reserve(blocks);
        self.gains.reserve(variables);
        self.slopes.reserve(variables);
        self.entry_starts.reserve(variables);
        self.entries.reserve(variables);
    }

    /// Adds a variable to the block that is being built: what it adds to the objective, to the level, and to links.
    pub fn variable(&mut self, gain: f64, slope: f64, entries: impl IntoIterator<Item = (usize, f64)>) {
        self.gains.push(gain);
        self.slopes.push(slope);
        self.entries.extend(entries);
        self.entry_starts.push(self.entries.len());
    }

    /// Ends the block that is being built. A block has variables.
    pub fn end_block(&mut self, time: f64, level: Level) {
        assert!(self.gains.len() > *self.starts.last().expect("it begins with one"), "a block has variables");
        self.starts.push(self.gains.len());
        self.counts.push(1.0);
        self.times.push(time);
        self.levels.push(level);
    }

    /// Adds a block that is like another in everything.
    pub fn repeat(&mut self, block: usize) {
        self.counts[block] += 1.0;
    }

    /// The same program with each of these blocks by itself.
    #[must_use]
    pub fn apart(&self, blocks: &[usize]) -> Self {
        let mut apart = Self::new(self.links.clone(), self.rise_gain);
        for block in blocks {
            for i in self.range(*block) {
                apart.variable(self.gains[i], self.slopes[i], self.entries_of(i).iter().copied());
            }
            apart.end_block(self.times[*block], self.levels[*block]);
        }
        apart
    }

    /// Adds a row across the variables that there are.
    pub fn cut(&mut self, link: Link, added: &[(usize, f64)]) {
        let index = self.links.len();
        self.links.push(link);
        let mut of: Vec<(usize, f64)> = added.to_vec();
        of.sort_by_key(|(variable, _)| *variable);
        let mut of = of.into_iter().peekable();
        let old = std::mem::take(&mut self.entries);
        let ends = std::mem::replace(&mut self.entry_starts, vec![0]);
        for i in 0..self.gains.len() {
            self.entries.extend_from_slice(&old[ends[i]..ends[i + 1]]);
            while let Some((_, value)) = of.next_if(|(variable, _)| *variable == i) {
                self.entries.push((index, value));
            }
            self.entry_starts.push(self.entries.len());
        }
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> usize {
        self.times.len()
    }

    /// How many variables there are.
    pub fn variables(&self) -> usize {
        self.gains.len()
    }

    pub(super) fn range(&self, block: usize) -> std::ops::Range<usize> {
        self.starts[block]..self.starts[block + 1]
    }

    pub(super) fn entries_of(&self, variable: usize) -> &[(usize, f64)] {
        &self.entries[self.entry_starts[variable]..self.entry_starts[variable + 1]]
    }

    /// The level of a block.
    pub fn level(&self, x: &[f64], block: usize) -> f64 {
        self.range(block).map(|i| self.slopes[i] * x[i]).sum()
    }

    /// What the links add up to.
    pub fn links_of(&self, x: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.links.len()];
        for block in 0..self.blocks() {
            for i in self.range(block) {
                let amount = self.counts[block] * x[i];
                self.entries_of(i).iter().for_each(|(link, entry)| sums[*link] += entry * amount);
            }
        }
        sums
    }

    /// The objective without logarithms.
    pub fn linear_objective(&self, x: &[f64], rise: f64) -> f64 {
        let gain = |block: usize| self.range(block).map(|i| self.gains[i] * x[i]).sum::<f64>();
        let gains: f64 = (0..self.blocks()).map(|block| self.counts[block] * gain(block)).sum();
        gains + self.rise_gain * rise
    }

    /// The same program row by row, for solvers of linear programs in general; the rise is the last variable. Nothing if it
    /// has logarithms.
    pub fn as_linear(&self) -> Option<LinearProgram> {
        let mut linear = LinearProgram::default();
        for block in 0..self.blocks() {
            self.range(block).for_each(|i| _ = linear.variable(self.counts[block] * self.gains[i]));
        }
        let rise = linear.free_variable(self.rise_gain);
        for block in 0..self.blocks() {
            let time = self.range(block).map(|i| (i, 1.0)).collect();
            linear.row(time, Sense::AtMost, self.times[block]);
            let mut level: Vec<(usize, f64)> = self.range(block).map(|i| (i, self.slopes[i])).collect();
            match self.levels[block] {
                Level::Free => {}
                Level::Floor(least) => linear.row(level, Sense::AtLeast, least),
                Level::Rising { least, by } => {
                    level.push((rise, -by));
                    linear.row(level, Sense::AtLeast, least);
                }
                Level::Logarithm(_) => return None,
            }
        }
        let mut rows = vec![Vec::new(); self.links.len()];
        for block in 0..self.blocks() {
            for i in self.range(block) {
                let entries = self.entries_of(i).iter();
                entries.for_each(|(link, value)| rows[*link].push((i, self.counts[block] * value)));
            }
        }
        for (link, row) in self.links.iter().zip(rows) {
            match link {
                Link::AtMost(most) => linear.row(row, Sense::AtMost, *most),
                Link::Balance => linear.row(row, Sense::Equal, 0.0),
            }
        }
        Some(linear)
    }

    /// By how much a point breaks the rows it breaks most, each row taken relative to its size.
    pub fn violation(&self, x: &[f64], rise: f64) -> f64 {
        let mut worst = x.iter().fold(0.0, |worst: f64, x| worst.max(-x));
        for block in 0..self.blocks() {
            let range = self.range(block);
            worst = worst.max((x[range.clone()].iter().sum::<f64>() - self.times[block]) / self.times[block]);
            let slope = self.slopes[range].iter().fold(0.0, |most: f64, slope| most.max(*slope));
            let short = match self.levels[block] {
                Level::Floor(least) => least - self.level(x, block),
                Level::Rising { least, by } => least + by * rise - self.level(x, block),
                Level::Free | Level::Logarithm(_) => 0.0,
            };
            if short > 0.0 {
                worst = worst.max(short / (slope * self.times[block]));
            }
        }
        for (link, sum) in self.links.iter().zip(self.links_of(x)) {
            worst = worst.max(match link {
                Link::AtMost(most) => (sum - most) / most.max(1.0),
                Link::Balance => sum.abs(),
            });
        }
        worst
    }
}
