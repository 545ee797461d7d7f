//! A point that satisfies the rows of a program, as the solver of Gavel's public code finds one.
//!
//! That code asks ECOS (Domahidi, Chu and Boyd, ECC 2013) for any point that suffices, with nothing to maximise. Its method, the
//! homogeneous self-dual embedding (Xu, Hung and Ye, Annals of Operations Research 1996) with steps as of Mehrotra, then ends as
//! soon as its residuals vanish, after seven or eight steps. Where that is depends on where it began: not in the middle of all points that
//! suffice, but between that and those that just do. Whoever wants the same shares must take the same steps: rows and columns
//! scaled three times, the start by least squares, and the published rules for how far to go. Shares then are the same to a
//! thousandth.

use crate::solve::Unsolved;
use crate::solve::dense::Triangle;

use super::program::{BlockProgram, Level, Link};

/// How often rows and columns are scaled.
const SCALINGS: u32 = 3;
/// How far steps go: at least and at most, and what part of that is taken.
const STEP: (f64, f64) = (1e-6, 0.999);
const TAKEN: f64 = 0.98;
/// How much steps aim at the middle, at least.
const LEAST_CENTRED: f64 = 1e-4;
/// Residuals below this, relative to what they are made of, are none; and after so many steps it gives up.
const VANISHED: f64 = 1e-8;
const MOST_STEPS: u32 = 100;

/// A row: entries times variables are at most its right side.
struct Line {
    /// The block whose variables it has; none if it goes across blocks.
    block: Option<usize>,
    entries: Vec<(usize, f64)>,
    right: f64,
}

/// All rows, scaled.
struct Lines<'a> {
    program: &'a BlockProgram,
    all: Vec<Line>,
    /// Multiplied by these, scaled variables are what they were.
    scales: Vec<f64>,
}

/// Where the method is, or where it goes.
#[derive(Clone, Default)]
struct Point {
    x: Vec<f64>,
    slack: Vec<f64>,
    dual: Vec<f64>,
    /// What everything is a multiple of, and its counterpart.
    unit: f64,
    gap: f64,
}

/// A point with times, floors and links kept. Nothing is said of what is gained.
///
/// # Panics
///
/// If a block stands for several: the steps depend on how the program is written.
pub fn within(program: &BlockProgram) -> Result<Vec<f64>, Unsolved> {
    assert!(program.counts.iter().all(|count| *count == 1.0), "each block is written by itself");
    let lines = Lines::new(program);
    let mut at = lines.start();
    for step in 0..MOST_STEPS {
        if lines.is_within(&at) {
            return Ok(at.x.iter().zip(&lines.scales).map(|(x, scale)| x * scale / at.unit).collect());
        }
        let go = lines.direction(&at);
        if !go.unit.is_finite() {
            return Err(Unsolved::Failed { iterations: step, gap: f64::INFINITY });
        }
        at.go(&go, TAKEN * at.most(&go));
    }
    Err(Unsolved::Failed { iterations: MOST_STEPS, gap: lines.mean(&at) })
}

impl<'a> Lines<'a> {
    fn new(program: &'a BlockProgram) -> Self {
        let mut all: Vec<Line> = Vec::new();
        for block in 0..program.blocks() {
            let own = |entries: Vec<(usize, f64)>, right| Line { block: Some(block), entries, right };
            let range = program.range(block);
            all.extend(range.clone().map(|i| own(vec![(i, -1.0)], 0.0)));
            all.push(own(range.clone().map(|i| (i, 1.0)).collect(), program.times[block]));
            if let Level::Floor(least) = program.levels[block] {
                all.push(own(range.map(|i| (i, -program.slopes[i])).collect(), -least));
            }
        }
        let across = |link: &Link| match link {
            Link::AtMost(most) => Line { block: None, entries: Vec::new(), right: *most },
            Link::Balance => Line { block: None, entries: Vec::new(), right: 0.0 },
        };
        let first = all.len();
        all.extend(program.links.iter().map(across));
        for i in 0..program.variables() {
            program
                .entries_of(i)
                .iter()
                .for_each(|(link, value)| all[first + link].entries.push((i, *value)));
        }
        let mut lines = Self { program, all, scales: vec![1.0; program.variables()] };
        (0..SCALINGS).for_each(|_| lines.scale());
        lines
    }

    /// Divides rows and columns by the roots of their greatest entries.
    fn scale(&mut self) {
        let mut of_column = vec![0.0_f64; self.scales.len()];
        for (i, value) in self.all.iter().flat_map(|line| &line.entries) {
            of_column[*i] = of_column[*i].max(value.abs());
        }
        let root = |greatest: f64| if greatest > 0.0 { greatest.sqrt() } else { 1.0 };
        for line in &mut self.all {
            let own = root(line.entries.iter().fold(0.0, |most: f64, (_, value)| most.max(value.abs())));
            line.right /= own;
            line.entries.iter_mut().for_each(|(i, value)| *value /= own * root(of_column[*i]));
        }
        self.scales.iter_mut().zip(of_column).for_each(|(scale, greatest)| *scale /= root(greatest));
    }

    /// What each row adds up to.
    fn sums(&self, x: &[f64]) -> Vec<f64> {
        let sum = |line: &Line| line.entries.iter().map(|(i, value)| value * x[*i]).sum();
        self.all.iter().map(sum).collect()
    }

    /// What rows add up to for each variable.
    fn pulls(&self, of_rows: &[f64]) -> Vec<f64> {
        let mut pulls = vec![0.0; self.scales.len()];
        for (line, of_row) in self.all.iter().zip(of_rows) {
            line.entries.iter().for_each(|(i, value)| pulls[*i] += value * of_row);
        }
        pulls
    }

    /// The point of least squares, moved until all slacks are positive.
    fn start(&self) -> Point {
        let ones = vec![1.0; self.all.len()];
        let rights: Vec<f64> = self.all.iter().map(|line| line.right).collect();
        let x = Normal::new(self, &ones).solve(self, self.pulls(&rights));
        let mut slack: Vec<f64> = rights.iter().zip(self.sums(&x)).map(|(right, sum)| right - sum).collect();
        let short = slack.iter().fold(f64::NEG_INFINITY, |most, slack| most.max(-slack));
        if short >= 0.0 {
            slack.iter_mut().for_each(|slack| *slack += 1.0 + short);
        }
        Point { x, slack, dual: ones, unit: 1.0, gap: 1.0 }
    }

    /// By how much rows and duals are missed, and the gap.
    fn misses(&self, at: &Point) -> (Vec<f64>, Vec<f64>, f64) {
        let sums = self.sums(&at.x);
        let of_row = |(i, line): (usize, &Line)| at.slack[i] + sums[i] - line.right * at.unit;
        let rows = self.all.iter().enumerate().map(of_row).collect();
        let pulls = self.pulls(&at.dual).into_iter().map(|pull| -pull).collect();
        let rights: f64 = self.all.iter().zip(&at.dual).map(|(line, dual)| line.right * dual).sum();
        (rows, pulls, at.gap + rights)
    }

    /// The mean product of slacks and duals.
    fn mean(&self, at: &Point) -> f64 {
        (product(&at.slack, &at.dual) + at.unit * at.gap) / (self.all.len() + 1) as f64
    }

    fn is_within(&self, at: &Point) -> bool {
        let (rows, pulls, _) = self.misses(at);
        let length = |of: &[f64]| product(of, of).sqrt();
        let rights: f64 = self.all.iter().map(|line| line.right * line.right).sum::<f64>().sqrt();
        let of_rows = length(&rows) / (rights.max(1.0) + length(&at.x) + length(&at.slack)) / at.unit;
        let of_pulls = length(&pulls) / (1.0 + length(&at.dual)) / at.unit;
        let gap = product(&at.slack, &at.dual) / at.unit / at.unit;
        of_rows.max(of_pulls).max(gap) < VANISHED
    }

    /// Where to go: first straight ahead, to see how far that leads, and then rather in the middle.
    fn direction(&self, at: &Point) -> Point {
        let weights: Vec<f64> = at.slack.iter().zip(&at.dual).map(|(slack, dual)| slack / dual).collect();
        let normal = Normal::new(self, &weights);
        let rights: Vec<f64> = self.all.iter().map(|line| line.right).collect();
        let toward = normal.step(self, vec![0.0; at.x.len()], &rights, &weights);
        let (rows, pulls, rest) = self.misses(at);
        let aim = |part: f64, products: Vec<f64>, of_unit: f64| {
            let ahead = pulls.iter().map(|pull| part * pull).collect();
            let right: Vec<f64> =
                (0..rows.len()).map(|i| -part * rows[i] - products[i] / at.dual[i]).collect();
            let (x, dual) = normal.step(self, ahead, &right, &weights);
            let wanted = -part * rest - of_unit / at.unit - product(&rights, &dual);
            let unit = wanted / (product(&rights, &toward.1) - at.gap / at.unit);
            let plus = |own: Vec<f64>, more: &[f64]| -> Vec<f64> {
                own.iter().zip(more).map(|(own, more)| own + unit * more).collect()
            };
            let (x, dual) = (plus(x, &toward.0), plus(dual, &toward.1));
            let slack = |i: usize| (products[i] - at.slack[i] * dual[i]) / at.dual[i];
            let slack = (0..rows.len()).map(slack).collect();
            Point { x, slack, dual, unit, gap: (of_unit - at.gap * unit) / at.unit }
        };
        let products = |i: usize| -at.slack[i] * at.dual[i];
        let ahead = aim(1.0, (0..rows.len()).map(products).collect(), -at.gap * at.unit);
        let centred = (1.0 - at.most(&ahead)).powi(3).clamp(LEAST_CENTRED, 1.0);
        let mean = centred * self.mean(at);
        let corrected = |i: usize| products(i) - ahead.slack[i] * ahead.dual[i] + mean;
        let of_unit = -at.gap * at.unit - ahead.gap * ahead.unit + mean;
        aim(1.0 - centred, (0..rows.len()).map(corrected).collect(), of_unit)
    }
}

impl Point {
    /// How far it can go until something would be negative.
    fn most(&self, go: &Self) -> f64 {
        let bound = |at: f64, by: f64| if by < 0.0 { -at / by } else { f64::INFINITY };
        let pairs = self.slack.iter().zip(&go.slack).chain(self.dual.iter().zip(&go.dual));
        let most = pairs.map(|(at, by)| bound(*at, *by)).fold(f64::INFINITY, f64::min);
        most.min(bound(self.unit, go.unit)).min(bound(self.gap, go.gap)).clamp(STEP.0, STEP.1)
    }

    fn go(&mut self, go: &Self, far: f64) {
        let add = |at: &mut [f64], by: &[f64]| at.iter_mut().zip(by).for_each(|(at, by)| *at += far * by);
        add(&mut self.x, &go.x);
        add(&mut self.slack, &go.slack);
        add(&mut self.dual, &go.dual);
        self.unit += far * go.unit;
        self.gap += far * go.gap;
    }
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The normal equations, factored: a small system for each block, and one across.
struct Normal {
    blocks: Vec<Triangle>,
    across: Triangle,
    /// For each row across: its entries, solved by the blocks.
    solved: Vec<Vec<f64>>,
}

impl Normal {
    fn new(lines: &Lines<'_>, weights: &[f64]) -> Self {
        let program = lines.program;
        let mut blocks = vec![Triangle::default(); program.blocks()];
        blocks.iter_mut().enumerate().for_each(|(block, own)| own.reset(program.range(block).len()));
        for (line, weight) in lines.all.iter().zip(weights) {
            let Some(block) = line.block else { continue };
            let range = program.range(block);
            let mut dense = vec![0.0; range.len()];
            line.entries.iter().for_each(|(i, value)| dense[i - range.start] = *value);
            blocks[block].add_square(&dense, 1.0 / weight);
        }
        for (block, own) in blocks.iter_mut().enumerate() {
            own.factor(&vec![f64::MIN_POSITIVE; program.range(block).len()]);
        }
        let mut normal = Self { blocks, across: Triangle::default(), solved: Vec::new() };
        let across: Vec<(usize, &Line)> =
            lines.all.iter().enumerate().filter(|(_, line)| line.block.is_none()).collect();
        for (_, line) in &across {
            let mut dense = vec![0.0; lines.scales.len()];
            line.entries.iter().for_each(|(i, value)| dense[*i] += value);
            normal.by_blocks(lines, &mut dense);
            normal.solved.push(dense);
        }
        normal.across.reset(across.len());
        for (a, (row, line)) in across.iter().enumerate() {
            normal.across.add(a, a, weights[*row]);
            for b in 0..=a {
                let sum = line.entries.iter().map(|(i, value)| value * normal.solved[b][*i]).sum();
                normal.across.add(a, b, sum);
            }
        }
        normal.across.factor(&vec![f64::MIN_POSITIVE; across.len()]);
        normal
    }

    fn by_blocks(&self, lines: &Lines<'_>, right: &mut [f64]) {
        for (block, own) in self.blocks.iter().enumerate() {
            own.solve(&mut right[lines.program.range(block)]);
        }
    }

    fn solve(&self, lines: &Lines<'_>, mut right: Vec<f64>) -> Vec<f64> {
        self.by_blocks(lines, &mut right);
        let across = lines.all.iter().filter(|line| line.block.is_none());
        let sum = |line: &Line| line.entries.iter().map(|(i, value)| value * right[*i]).sum();
        let mut sums: Vec<f64> = across.map(sum).collect();
        self.across.solve(&mut sums);
        for (solved, sum) in self.solved.iter().zip(&sums) {
            right.iter_mut().zip(solved).for_each(|(right, solved)| *right -= sum * solved);
        }
        right
    }

    /// Variables and duals for which rows and pulls add up to these.
    fn step(
        &self,
        lines: &Lines<'_>,
        pulls: Vec<f64>,
        rows: &[f64],
        weights: &[f64],
    ) -> (Vec<f64>, Vec<f64>) {
        let weighed: Vec<f64> = rows.iter().zip(weights).map(|(row, weight)| row / weight).collect();
        let mut right = lines.pulls(&weighed);
        right.iter_mut().zip(&pulls).for_each(|(right, pull)| *right += pull);
        let x = self.solve(lines, right);
        let sums = lines.sums(&x);
        let dual = (0..rows.len()).map(|i| (sums[i] - rows[i]) / weights[i]).collect();
        (x, dual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_finds_suffices_and_what_cannot_be_is_not_found() {
        // Two jobs on two GPUs of one each; the first is three times as fast on the first one.
        let program = |least: f64| {
            let mut program = BlockProgram::new(vec![Link::AtMost(1.0), Link::AtMost(1.0)], 0.0);
            for slopes in [[3.0, 1.0], [1.0, 1.0]] {
                (0..2).for_each(|link| program.variable(0.0, slopes[link], [(link, 1.0)]));
                program.end_block(1.0, Level::Floor(least));
            }
            program
        };
        let found = within(&program(0.9)).expect("there is much room");
        assert!(program(0.9).violation(&found, 0.0) < 1e-7, "{found:?}");
        assert!(found.iter().all(|share| *share > 0.0), "{found:?}");
        assert!(within(&program(1.2)).is_err(), "one of them does at most one");
    }
}
