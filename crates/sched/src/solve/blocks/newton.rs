//! One Newton step towards given products of variables and their duals.
//!
//! The system of all variables, slacks and duals reduces block by block: what is left of a block after its variables is a
//! matrix of two rows (time and level), and what is left after those is a dense matrix with a row for each link. So a step
//! costs one pass over the blocks, and the cube of the number of links. What would cancel in digits is summed up as squares.
//! A block that stands for several counts as many times in the rows that are shared.

use super::point::{Point, Products, Residuals};
use super::scaled::Scaled;
use crate::solve::dense::{Triangle, dot};

/// What is left of a block when its variables are gone: `[[1, 0], [lower, 1]]` times `diag(time, level)` times its
/// transpose.
#[derive(Clone, Copy, Debug, Default)]
struct Pivots {
    lower: f64,
    per_time: f64,
    /// One over the second pivot; 0 where there is no level.
    per_level: f64,
}

/// The size of errors of sums, relative to the sum.
const ROUNDING: f64 = 1e-14;

/// All that is kept of a factored system.
#[derive(Clone, Debug, Default)]
pub(super) struct Newton {
    theta: Vec<f64>,
    /// One over each variable, and over the duals of times and levels.
    over_x: Vec<f64>,
    over_time_dual: Vec<f64>,
    over_level_dual: Vec<f64>,
    pivots: Vec<Pivots>,
    /// How links hang on the two rows of each block, for each link that the block touches.
    on_time: Vec<f64>,
    on_level: Vec<f64>,
    matrix: Triangle,
    floors: Vec<f64>,
    /// The row of the rise: its entries with the links, and with itself.
    rise_row: Vec<f64>,
    rise_pivot: f64,
    /// Kept between the two passes of a solution.
    carried: Vec<(f64, f64)>,
    right: Vec<f64>,
}

impl Newton {
    pub(super) fn sized(p: &Scaled) -> Self {
        let (n, m) = (p.gains.len(), p.blocks());
        Self {
            theta: Vec::with_capacity(n),
            over_x: Vec::with_capacity(n),
            over_time_dual: Vec::with_capacity(m),
            over_level_dual: Vec::with_capacity(m),
            pivots: Vec::with_capacity(m),
            carried: Vec::with_capacity(m),
            ..Self::default()
        }
    }

    /// Prepares all solutions at a point.
    pub(super) fn factor(&mut self, p: &Scaled, at: &Point) {
        let links = p.links();
        self.theta.clear();
        self.theta.extend(at.x.iter().zip(&at.x_dual).map(|(x, dual)| x / dual));
        let invert = |of: &mut Vec<f64>, values: &[f64]| {
            of.clear();
            of.extend(values.iter().map(|value| 1.0 / value));
        };
        invert(&mut self.over_x, &at.x);
        invert(&mut self.over_time_dual, &at.time_dual);
        invert(&mut self.over_level_dual, &at.level_dual);
        self.pivots.clear();
        self.on_time.clear();
        self.on_time.resize(p.touched.len(), 0.0);
        self.on_level.clear();
        self.on_level.resize(p.touched.len(), 0.0);
        self.matrix.reset(links);
        self.rise_row.clear();
        self.rise_row.resize(links, 0.0);
        self.rise_pivot = 0.0;
        self.floors.clear();
        self.floors.resize(links, f64::MIN_POSITIVE);
        for block in 0..p.blocks() {
            let pivots = self.pivots_of(p, at, block);
            self.pivots.push(pivots);
            self.add_block(p, block, pivots);
        }
        for link in 0..links {
            let slack = if p.is_balance[link] { 0.0 } else { at.link[link] / at.link_dual[link] };
            // What rounding may have left of what cancels.
            self.floors[link] *= ROUNDING;
            self.matrix.add(link, link, slack + self.floors[link]);
        }
        if self.rise_pivot > 0.0 {
            self.matrix.add_square(&self.rise_row, 1.0 / self.rise_pivot);
        }
        self.matrix.factor(&self.floors);
    }

    fn pivots_of(&self, p: &Scaled, at: &Point, block: usize) -> Pivots {
        let (range, row) = (p.range(block), p.rows[block]);
        let (theta, slopes) = (&self.theta[range.clone()], &p.slopes[range]);
        let sum: f64 = theta.iter().sum();
        let slack = at.time[block] / at.time_dual[block];
        let per_time = 1.0 / (sum + slack);
        if !row.is_there {
            return Pivots { lower: 0.0, per_time, per_level: 0.0 };
        }
        let mean = theta.iter().zip(slopes).map(|(theta, slope)| theta * slope).sum::<f64>() / sum;
        let spread: f64 =
            theta.iter().zip(slopes).map(|(theta, slope)| theta * (slope - mean) * (slope - mean)).sum();
        let lower = -mean * sum * per_time;
        let own = at.level[block] / at.level_dual[block];
        let pivot = own + spread + mean * mean * sum * slack * per_time;
        Pivots { lower, per_time, per_level: 1.0 / pivot }
    }

    /// Takes a block's variables and rows out of the system of the links and the rise.
    fn add_block(&mut self, p: &Scaled, block: usize, pivots: Pivots) {
        let touched = p.touched_of(block);
        let on_time = &mut self.on_time[touched.clone()];
        let on_level = &mut self.on_level[touched.clone()];
        let links = &p.touched[touched];
        let count = p.counts[block];
        for i in p.range(block) {
            let (theta, slope) = (self.theta[i], p.slopes[i]);
            let entries = p.entries_of(i);
            for (a, (place, value)) in entries.iter().enumerate() {
                on_time[*place] += theta * value;
                // Together with `lower` times the above this is what the level has beyond the time.
                on_level[*place] -= theta * value * slope;
                self.floors[links[*place]] += count * theta * value * value;
                for (other, second) in &entries[..=a] {
                    let (row, column) = (links[*place].max(links[*other]), links[*place].min(links[*other]));
                    self.matrix.add(row, column, count * theta * value * second);
                }
            }
        }
        on_level.iter_mut().zip(&*on_time).for_each(|(level, time)| *level -= pivots.lower * time);
        for (i, link) in links.iter().enumerate() {
            let (by_time, by_level) = (on_time[i] * pivots.per_time, on_level[i] * pivots.per_level);
            let (by_time, by_level) = (count * by_time, count * by_level);
            for (j, other) in links[..=i].iter().enumerate() {
                self.matrix.add(*link, *other, -by_time * on_time[j] - by_level * on_level[j]);
            }
        }
        let by = p.rows[block].by;
        if by > 0.0 {
            let factor = -count * by * pivots.per_level;
            self.rise_pivot += count * by * by * pivots.per_level;
            links.iter().zip(on_level).for_each(|(link, level)| self.rise_row[*link] += factor * *level);
        }
    }

    /// The step from a point towards products, given what is still wrong with its rows.
    pub(super) fn solve(
        &mut self,
        p: &Scaled,
        at: &Point,
        wrong: &Residuals,
        to: &Products,
        step: &mut Point,
    ) {
        self.forward(p, at, wrong, to);
        if self.rise_pivot > 0.0 {
            let factor = self.right[p.links()] / self.rise_pivot;
            (0..p.links()).for_each(|link| self.right[link] += factor * self.rise_row[link]);
        }
        let rise = self.right.pop().expect("the rise stands last");
        self.matrix.solve(&mut self.right);
        step.rise = if self.rise_pivot > 0.0 {
            (rise - dot(&self.rise_row, &self.right)) / self.rise_pivot
        } else {
            0.0
        };
        step.link_dual.copy_from_slice(&self.right);
        self.backward(p, at, wrong, to, step);
    }

    /// Right sides of the links, and of the rise behind them.
    fn forward(&mut self, p: &Scaled, at: &Point, wrong: &Residuals, to: &Products) {
        let links = p.links();
        self.right.clear();
        self.right.extend((0..links).map(|link| {
            let slack = if p.is_balance[link] { 0.0 } else { to.link[link] / at.link_dual[link] };
            slack - wrong.link[link]
        }));
        self.right.push(wrong.rise);
        self.carried.clear();
        for block in 0..p.blocks() {
            let touched = p.touched_of(block);
            let own = &p.touched[touched.clone()];
            let (mut time, mut level, count) = (0.0, 0.0, p.counts[block]);
            for i in p.range(block) {
                let push = self.theta[i] * (wrong.x[i] + to.x[i] * self.over_x[i]);
                time += push;
                level -= push * p.slopes[i];
                for (place, value) in p.entries_of(i) {
                    self.right[own[*place]] += count * value * push;
                }
            }
            let (pivots, row) = (self.pivots[block], p.rows[block]);
            time += to.time[block] * self.over_time_dual[block] - wrong.time[block];
            if row.is_there {
                level += to.level[block] * self.over_level_dual[block];
                level += wrong.level[block] - pivots.lower * time;
            } else {
                level = 0.0;
            }
            self.carried.push((time, level));
            let (by_time, by_level) = (time * pivots.per_time, level * pivots.per_level);
            let (by_time, by_level) = (count * by_time, count * by_level);
            let hangs = self.on_time[touched.clone()].iter().zip(&self.on_level[touched]);
            for (link, (on_time, on_level)) in own.iter().zip(hangs) {
                self.right[*link] -= on_time * by_time + on_level * by_level;
            }
            self.right[links] -= row.by * by_level;
        }
    }

    fn backward(&self, p: &Scaled, at: &Point, wrong: &Residuals, to: &Products, step: &mut Point) {
        for block in 0..p.blocks() {
            let touched = p.touched_of(block);
            let own = &p.touched[touched.clone()];
            let (mut time, mut level) = self.carried[block];
            let hangs = self.on_time[touched.clone()].iter().zip(&self.on_level[touched]);
            for (link, (on_time, on_level)) in own.iter().zip(hangs) {
                time -= on_time * step.link_dual[*link];
                level -= on_level * step.link_dual[*link];
            }
            let (pivots, row) = (self.pivots[block], p.rows[block]);
            let level_dual = (level + row.by * step.rise) * pivots.per_level;
            let time_dual = time * pivots.per_time - pivots.lower * level_dual;
            step.level_dual[block] = level_dual;
            step.time_dual[block] = time_dual;
            step.time[block] = (to.time[block] - at.time[block] * time_dual) * self.over_time_dual[block];
            if row.is_there {
                let push = to.level[block] - at.level[block] * level_dual;
                step.level[block] = push * self.over_level_dual[block];
            }
            for i in p.range(block) {
                let entries = p.entries_of(i).iter();
                let priced: f64 = entries.map(|(place, value)| value * step.link_dual[own[*place]]).sum();
                let wanted = to.x[i] * self.over_x[i];
                let push = wrong.x[i] + wanted - time_dual + p.slopes[i] * level_dual - priced;
                let moved = self.theta[i] * push;
                step.x[i] = moved;
                step.x_dual[i] = (to.x[i] - at.x_dual[i] * moved) * self.over_x[i];
            }
        }
        for link in 0..p.links() {
            if !p.is_balance[link] {
                step.link[link] = (to.link[link] - at.link[link] * step.link_dual[link]) / at.link_dual[link];
            }
        }
    }
}
