//! The method itself: where it begins, how far it goes, when it has arrived.

use super::newton::Newton;
use super::point::{Point, Products, Residuals};
use super::program::{BlockProgram, Level, Link};
use super::scaled::Scaled;
use crate::solve::{Optimum, Unsolved};

/// A solution of a program of blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The variables.
    pub x: Vec<f64>,
    /// The rise.
    pub rise: f64,
    /// The objective without logarithms.
    pub objective: f64,
    /// What the objective cannot exceed, by the duals; only where there are no logarithms.
    pub bound: f64,
    /// The dual of each block's level: what the objective loses when the level's bound rises by one.
    pub level_duals: Vec<f64>,
    /// How far each level is above its bound.
    pub level_slacks: Vec<f64>,
    /// The dual of each block's time.
    pub time_duals: Vec<f64>,
    /// The dual of each link.
    pub link_duals: Vec<f64>,
    /// Iterations.
    pub iterations: u32,
}

/// The gap of an answer, relative to the objective.
const GAP: f64 = 1e-9;
/// What rows may lack, relative to their size: on the way, where rounding is felt because all is in motion, and at the end.
const ROWS_ON_THE_WAY: f64 = 1e-7;
const ROWS: f64 = 1e-10;
/// From this gap on, relative to the objective, rounding is watched.
const NEAR: f64 = 1e-4;
/// Tens are usual.
const MOST_ITERATIONS: u32 = 100;
/// How much of the way to the nearest bound is gone.
const SHY: f64 = 0.995;
/// Where there are logarithms, their products stay within this share of what they shall be; where that allows only so short
/// a step, the gap is made smaller by only so much.
const FAR: f64 = 0.8;
const TIMID: f64 = 0.2;
const CAREFUL: f64 = 0.5;
/// A gap that has not become smaller by so much is a sign of that, too.
const STALLED: f64 = 0.9;
/// At the end products differ by no more than this share, or so many more steps have been tried.
const CENTRED: f64 = 0.01;
const CENTRINGS: u32 = 5;

/// Solves a program.
pub fn solve(program: &BlockProgram) -> Result<Answer, Unsolved> {
    let rises = program.levels.iter().any(|level| matches!(level, Level::Rising { .. }));
    if program.rise_gain > 0.0 && !rises {
        return Err(Unsolved::Unbounded);
    }
    let start = even_start(program);
    let scaled = Scaled::new(program, &start);
    let mut run = Run::new(&scaled, start);
    run.go()?;
    Ok(run.answer(program))
}

/// Half of what each variable could have if all variables had equal parts of the rows they are in.
fn even_start(program: &BlockProgram) -> Vec<f64> {
    let mut users = vec![0.0; program.links.len()];
    for block in 0..program.blocks() {
        let entries = program.range(block).flat_map(|i| program.entries_of(i));
        entries.filter(|(_, value)| *value > 0.0).for_each(|(link, _)| users[*link] += program.counts[block]);
    }
    let mut x = Vec::with_capacity(program.variables());
    for block in 0..program.blocks() {
        let range = program.range(block);
        let own = program.times[block] / range.len() as f64;
        for i in range {
            let part = |(link, value): &(usize, f64)| match program.links[*link] {
                Link::AtMost(most) if *value > 0.0 && most > 0.0 => most / (users[*link] * value),
                _ => f64::INFINITY,
            };
            x.push(0.5 * program.entries_of(i).iter().map(part).fold(own, f64::min));
        }
    }
    x
}

/// A run of the method.
struct Run<'a> {
    p: &'a Scaled,
    at: Point,
    newton: Newton,
    first: Point,
    second: Point,
    wrong: Residuals,
    /// Where a whole step leads, and what is wrong there.
    there: Point,
    left: Residuals,
    to: Products,
    /// Products that shall vanish.
    products: f64,
    is_curved: bool,
    last_gap: f64,
    iterations: u32,
}

impl<'a> Run<'a> {
    fn new(p: &'a Scaled, start: Vec<f64>) -> Self {
        let mut at = Point::sized(p);
        at.x = start;
        let of_block = |block: usize| {
            let has_bound = p.rows[block].is_there && p.rows[block].logarithm == 0.0;
            p.counts[block] * (p.range(block).len() + 1 + usize::from(has_bound)) as f64
        };
        let limits = p.is_balance.iter().filter(|is_balance| !**is_balance).count();
        let products = (0..p.blocks()).map(of_block).sum::<f64>() + limits as f64;
        let (first, second) = (Point::sized(p), Point::sized(p));
        let mut run = Self {
            p,
            at,
            newton: Newton::sized(p),
            first,
            second,
            wrong: Residuals::sized(p),
            there: Point::default(),
            left: Residuals::sized(p),
            to: Products::sized(p),
            products,
            is_curved: p.rows.iter().any(|row| row.logarithm > 0.0),
            last_gap: f64::INFINITY,
            iterations: 0,
        };
        run.fill_start();
        run
    }

    /// Slacks and duals for the variables of a start, so that all products are equal.
    fn fill_start(&mut self) {
        let (p, at) = (self.p, &mut self.at);
        at.link.copy_from_slice(&p.most);
        let levels: Vec<f64> =
            (0..p.blocks()).map(|block| p.range(block).map(|i| p.slopes[i] * at.x[i]).sum()).collect();
        let rises = (0..p.blocks()).filter(|block| p.rows[*block].by > 0.0);
        let rise = rises.map(|block| (levels[block] - p.rows[block].least) / p.rows[block].by);
        at.rise = 0.5 * rise.fold(f64::INFINITY, f64::min).clamp(0.0, 2.0);
        let (mut pull, mut gain, mut logarithms) = (0.0, 0.0, 0.0);
        for (block, level) in levels.into_iter().enumerate() {
            let row = p.rows[block];
            let range = p.range(block);
            at.time[block] = p.times[block] - at.x[range.clone()].iter().sum::<f64>();
            let slack = level - row.least - row.by * at.rise;
            at.level[block] = match row {
                _ if !row.is_there => 1.0,
                _ if row.logarithm > 0.0 => level,
                _ => slack.max(0.1 * level).max(1e-3),
            };
            let count = p.counts[block];
            pull += count * row.by / at.level[block];
            gain += count * range.clone().map(|i| p.gains[i].abs() * at.x[i]).sum::<f64>();
            logarithms += count * row.logarithm;
            let own = &p.touched[p.touched_of(block)];
            for i in range {
                let amount = count * at.x[i];
                p.entries_of(i).iter().for_each(|(place, value)| at.link[own[*place]] -= value * amount);
            }
        }
        for link in 0..p.links() {
            at.link[link] = if p.is_balance[link] { 1.0 } else { at.link[link].max(0.01) };
        }
        let rising = if pull > 0.0 { p.rise_gain / pull } else { 0.0 };
        let size = ((gain + logarithms) / self.products).max(rising).max(1e-6);
        let duals = |values: &[f64]| values.iter().map(|value| size / value).collect::<Vec<f64>>();
        at.x_dual = duals(&at.x);
        at.time_dual = duals(&at.time);
        at.level_dual = duals(&at.level);
        at.link_dual = duals(&at.link);
        for (block, row) in p.rows.iter().enumerate() {
            match row {
                row if !row.is_there => at.level_dual[block] = 0.0,
                row if row.logarithm > 0.0 => at.level_dual[block] = row.logarithm / at.level[block],
                _ => {}
            }
        }
        p.is_balance.iter().zip(&mut at.link_dual).filter(|(is, _)| **is).for_each(|(_, dual)| *dual = 0.0);
    }

    fn objective(&self) -> f64 {
        let (p, x) = (self.p, &self.at.x);
        let gain = |block: usize| p.range(block).map(|i| p.gains[i] * x[i]).sum::<f64>();
        let gains: f64 = (0..p.blocks()).map(|block| p.counts[block] * gain(block)).sum();
        gains + p.rise_gain * self.at.rise
    }

    fn go(&mut self) -> Result<(), Unsolved> {
        loop {
            let (primal, dual) = self.wrong.look(self.p, &self.at);
            let gap = self.at.gap_after(&self.first, self.p, (0.0, 0.0));
            let relative = gap / (1.0 + self.objective().abs());
            let curved = self.at.logarithms_miss_after(&self.first, self.p, 0.0);
            if primal.max(dual).max(curved) <= ROWS_ON_THE_WAY && relative <= GAP {
                self.centre(gap / self.products, primal.max(dual));
                return Ok(());
            }
            if self.iterations >= MOST_ITERATIONS || !gap.is_finite() {
                let gap = relative.max(primal).max(dual).max(curved);
                return Err(Unsolved::Failed { iterations: self.iterations, gap });
            }
            self.iterate(gap, gap / relative);
            self.iterations += 1;
        }
    }

    /// A step by prediction and correction.
    fn iterate(&mut self, gap: f64, objective: f64) {
        let p = self.p;
        self.newton.factor(p, &self.at);
        self.to.aim(p, &self.at, 0.0, None);
        self.newton.solve(p, &self.at, &self.wrong, &self.to, &mut self.first);
        let reach = self.reach(&self.first);
        let left = self.at.gap_after(&self.first, p, reach) / gap;
        let least = 0.1 * GAP * objective;
        let size = (left * left * left * gap).max(least) / self.products;
        self.to.aim(p, &self.at, size, Some(&self.first));
        self.newton.solve(p, &self.at, &self.wrong, &self.to, &mut self.second);
        let mut reach = self.reach(&self.second);
        let is_stalled = gap > STALLED * self.last_gap;
        self.last_gap = gap;
        if self.is_curved && (reach.0 < TIMID || is_stalled) {
            // The correction was too bold.
            self.to.aim(p, &self.at, CAREFUL * gap / self.products, None);
            self.newton.solve(p, &self.at, &self.wrong, &self.to, &mut self.second);
            reach = self.reach(&self.second);
        }
        if gap < NEAR * objective && self.refine() {
            reach = self.reach(&self.second);
        }
        self.at.go(&self.second, (SHY * reach.0, SHY * reach.1));
    }

    /// Takes away what rounding has left in a step: after a whole one all rows should hold. Returns whether there was
    /// anything.
    fn refine(&mut self) -> bool {
        let p = self.p;
        self.there.clone_from(&self.at);
        self.there.go(&self.second, (1.0, 1.0));
        let (primal, dual) = self.left.look(p, &self.there);
        if primal.max(dual) <= 0.1 * ROWS {
            return false;
        }
        self.to.clear();
        self.newton.solve(p, &self.at, &self.left, &self.to, &mut self.first);
        self.second.go(&self.first, (1.0, 1.0));
        true
    }

    /// How far primal and dual numbers may go; together where logarithms bind them to each other.
    fn reach(&self, step: &Point) -> (f64, f64) {
        let (primal, dual) = self.at.reach(step, self.p);
        if !self.is_curved {
            return (primal, dual);
        }
        let mut both = primal.min(dual);
        while self.at.logarithms_miss_after(step, self.p, both) > FAR && both > f64::EPSILON {
            both *= 0.75;
        }
        (both, both)
    }

    /// Goes to the point of the central path with products of this size.
    fn centre(&mut self, size: f64, mut lack: f64) {
        let p = self.p;
        for _ in 0..CENTRINGS {
            self.to.aim(p, &self.at, size, None);
            if self.to.greatest() <= CENTRED * size && lack <= ROWS {
                return;
            }
            self.newton.factor(p, &self.at);
            self.newton.solve(p, &self.at, &self.wrong, &self.to, &mut self.second);
            self.refine();
            let reach = self.reach(&self.second);
            let by = |reach: f64| if reach < 1.0 { SHY * reach } else { 1.0 };
            self.there.clone_from(&self.at);
            self.at.go(&self.second, (by(reach.0), by(reach.1)));
            let (primal, dual) = self.wrong.look(p, &self.at);
            if primal.max(dual) > lack.max(ROWS) {
                // Rounding is greater than what is left to gain.
                self.at.clone_from(&self.there);
                return;
            }
            lack = primal.max(dual);
            self.iterations += 1;
        }
    }

    fn answer(self, program: &BlockProgram) -> Answer {
        let (p, at) = (self.p, self.at);
        let rise = at.rise * p.rise_scale;
        let levels = p.rows.iter().zip(&p.level_scales).zip(at.level.iter().zip(&at.level_dual));
        let (level_slacks, level_duals) = levels
            .map(|((row, scale), (slack, dual))| match row.is_there {
                true => (slack * scale, dual * p.objective_scale / scale),
                false => (0.0, 0.0),
            })
            .unzip();
        let objective = program.linear_objective(&at.x, rise);
        let bound = bound(p, &at) * p.objective_scale;
        let links = at.link_dual.iter().zip(&p.link_scales);
        Answer {
            rise,
            objective,
            bound,
            level_duals,
            level_slacks,
            time_duals: at.time_dual.iter().map(|dual| dual * p.objective_scale).collect(),
            link_duals: links.map(|(dual, scale)| dual * p.objective_scale / scale).collect(),
            iterations: self.iterations,
            x: at.x,
        }
    }
}

impl Answer {
    /// The answer with a block for each of those that stand here, where some are one in the program.
    #[must_use]
    pub fn spread(self, program: &BlockProgram, blocks: &[usize]) -> Self {
        if blocks.len() == program.blocks() {
            return self;
        }
        let of = |values: &[f64]| blocks.iter().map(|block| values[*block]).collect();
        Self {
            x: blocks.iter().flat_map(|block| &self.x[program.range(*block)]).copied().collect(),
            level_duals: of(&self.level_duals),
            level_slacks: of(&self.level_slacks),
            time_duals: of(&self.time_duals),
            ..self
        }
    }
}

/// The answer of a general solver to the same program.
pub fn answer_from(program: &BlockProgram, optimum: &Optimum) -> Answer {
    let (x, rise) = optimum.x.split_at(program.variables());
    let rise = rise[0];
    // Rows stand as they were written: time, level if there is one, and links last.
    let mut row = 0;
    let mut level_duals = Vec::with_capacity(program.blocks());
    let mut level_slacks = Vec::with_capacity(program.blocks());
    let mut time_duals = Vec::with_capacity(program.blocks());
    for (block, level) in program.levels.iter().enumerate() {
        let count = program.counts[block];
        time_duals.push(optimum.duals[row] / count);
        row += 1;
        let least = match level {
            Level::Floor(least) => *least,
            Level::Rising { least, by } => least + by * rise,
            Level::Free | Level::Logarithm(_) => {
                level_duals.push(0.0);
                level_slacks.push(0.0);
                continue;
            }
        };
        level_duals.push(-optimum.duals[row] / count);
        level_slacks.push(program.level(x, block) - least);
        row += 1;
    }
    let objective = optimum.objective;
    Answer {
        x: x.to_vec(),
        rise,
        objective,
        bound: objective,
        level_duals,
        level_slacks,
        time_duals,
        link_duals: optimum.duals[row..].to_vec(),
        iterations: 0,
    }
}

/// A bound on the objective of all points, from duals that are repaired so as to satisfy their rows exactly.
fn bound(p: &Scaled, at: &Point) -> f64 {
    let lifts = (0..p.blocks()).map(|block| p.counts[block] * p.rows[block].by * at.level_dual[block]);
    let lifted: f64 = lifts.sum();
    let repair = if lifted > 0.0 { p.rise_gain / lifted } else { 1.0 };
    let mut bound: f64 = p.most.iter().zip(&at.link_dual).map(|(most, dual)| most * dual).sum();
    for block in 0..p.blocks() {
        let own = &p.touched[p.touched_of(block)];
        let row = p.rows[block];
        let level_dual = if row.by > 0.0 { repair * at.level_dual[block] } else { at.level_dual[block] };
        let worth = |i: usize| {
            let entries = p.entries_of(i).iter();
            let priced: f64 = entries.map(|(place, value)| value * at.link_dual[own[*place]]).sum();
            p.gains[i] + p.slopes[i] * level_dual - priced
        };
        let time_dual = p.range(block).map(worth).fold(0.0, f64::max);
        bound += p.counts[block] * (p.times[block] * time_dual - row.least * level_dual);
    }
    bound
}
