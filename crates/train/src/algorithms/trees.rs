//! Gradient-boosted regression trees on histograms.
//!
//! Sources: Friedman, "Greedy function approximation: a gradient boosting machine" (Annals of Statistics 29, 2001), algorithm 1;
//! gain and leaf values by second-order terms as in Chen and Guestrin, "XGBoost" (KDD 2016), eq. 5 to 7. Columns are cut into bins at
//! quantiles once, and trees grow level by level. An iteration adds one tree.

use std::ops::Range;

use crate::algorithm::{Algorithm, Entry, Measured};
use crate::data::{Data, Needs, Table, bounded};
use crate::error::TrainError;
use crate::parameters::{Parameter, Values};
use crate::pool::{Pool, Shards};
use crate::tensors::{StateError, Tensors, fault};

/// See the file.
pub(super) static ENTRY: Entry = Entry {
    name: "trees",
    title: "gradient-boosted trees",
    source: "Friedman 2001; Chen and Guestrin 2016",
    needs: Needs::Rows,
    generator: "regression",
    parameters: &[
        Parameter::word("loss", &["squared", "logistic"], "Squared errors, or the log loss of two classes."),
        Parameter::whole("depth", 3, 1, 10, "How often rows are divided in a tree."),
        Parameter::whole("bins", 64, 2, 256, "Into how many parts a column is cut."),
        Parameter::real("rate", 0.1, 1e-6, 1.0, "What is taken of each tree."),
        Parameter::real("l2", 1.0, 0.0, 1e9, "The weight of half the squared leaf values."),
        Parameter::real("least_gain", 0.0, 0.0, 1e12, "What a division must gain."),
    ],
    begin,
};

/// Rows that a chunk of work has, where rows are changed.
const CHUNK: usize = 4096;
/// Nodes that are no division.
const LEAF: u32 = u32::MAX;

/// Columns cut into bins.
struct Binned {
    /// For each column the ends of its bins, ascending, without that of the last.
    cuts: Vec<Vec<f64>>,
    /// The bin of each value, row by row.
    bins: Vec<u8>,
}

/// A tree whose nodes are numbered level by level: those below node `i` are `2i + 1` and `2i + 2`.
#[derive(Clone, Debug, PartialEq)]
struct Tree {
    /// The column that divides, or [`LEAF`].
    columns: Vec<u32>,
    /// Rows up to this bin go left.
    bins: Vec<u8>,
    /// What a leaf adds.
    values: Vec<f64>,
}

struct Trees {
    logistic: bool,
    depth: usize,
    width: usize,
    rate: f64,
    l2: f64,
    least_gain: f64,
    binned: Binned,
    /// The targets; 0 and 1 for the log loss.
    targets: Vec<f64>,
    base: f64,
    trees: Vec<Tree>,
    /// What all trees say of each row. It follows from them.
    told: Vec<f64>,
    /// The node of each row in the tree that grows.
    nodes: Vec<u32>,
}

fn begin(given: &Values, data: &Data, _: u64, _: &Pool) -> Result<Box<dyn Algorithm>, TrainError> {
    let table = data.table().expect("it was checked");
    let logistic = given.word("loss") == "logistic";
    if logistic {
        data.check("trees", Needs::TwoClasses)?;
    }
    let (depth, width) = (given.whole("depth"), given.whole("bins"));
    let histogram = 2 * (1_u64 << (depth - 1)) * table.columns as u64 * width as u64;
    bounded("trees", histogram, "say a smaller `depth` or fewer `bins`")?;
    let most = table.targets.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let target = |target: &f64| if logistic { f64::from(*target == most) } else { *target };
    let targets: Vec<f64> = table.targets.iter().map(target).collect();
    let mean = targets.iter().sum::<f64>() / targets.len() as f64;
    let base = if logistic { (mean / (1.0 - mean)).ln() } else { mean };
    Ok(Box::new(Trees {
        logistic,
        depth,
        width,
        rate: given.real("rate"),
        l2: given.real("l2"),
        least_gain: given.real("least_gain"),
        binned: Binned::new(table, width),
        told: vec![base; targets.len()],
        nodes: vec![0; targets.len()],
        targets,
        base,
        trees: Vec::new(),
    }))
}

impl Binned {
    fn new(table: &Table, width: usize) -> Self {
        let cuts: Vec<Vec<f64>> = (0..table.columns).map(|column| cuts(table, column, width)).collect();
        let rows = (0..table.rows()).map(|row| table.row(row));
        let bin = |(value, cuts): (&f64, &Vec<f64>)| cuts.partition_point(|cut| cut < value) as u8;
        let bins = rows.flat_map(|row| row.iter().zip(&cuts).map(bin)).collect();
        Self { cuts, bins }
    }

    fn row(&self, row: usize) -> &[u8] {
        &self.bins[row * self.cuts.len()..][..self.cuts.len()]
    }
}

/// Where a column is cut: between all values if there are few, else at quantiles.
fn cuts(table: &Table, column: usize, width: usize) -> Vec<f64> {
    let mut sorted: Vec<f64> = table.values.iter().skip(column).step_by(table.columns).copied().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let mut distinct = sorted.clone();
    distinct.dedup();
    let mut cuts: Vec<f64> = if distinct.len() <= width {
        distinct.windows(2).map(|pair| pair[0] + 0.5 * (pair[1] - pair[0])).collect()
    } else {
        (1..width).map(|i| sorted[i * sorted.len() / width]).collect()
    };
    cuts.dedup();
    cuts
}

impl Tree {
    /// The leaf of a row.
    fn leaf(&self, bins: &[u8]) -> usize {
        let mut node = 0;
        while self.columns[node] != LEAF {
            node = self.below(node, bins);
        }
        node
    }

    fn below(&self, node: usize, bins: &[u8]) -> usize {
        2 * node + 1 + usize::from(bins[self.columns[node] as usize] > self.bins[node])
    }
}

/// A sum of slopes and one of curvatures.
#[derive(Clone, Copy, Debug, Default)]
struct Slopes {
    first: f64,
    second: f64,
}

impl Slopes {
    /// Half of what a leaf of these rows would take off the loss.
    fn score(self, l2: f64) -> f64 {
        if self.second + l2 > 0.0 { self.first * self.first / (self.second + l2) } else { 0.0 }
    }

    fn plus(self, first: f64, second: f64) -> Self {
        Self { first: self.first + first, second: self.second + second }
    }
}

/// A division that was found.
struct Division {
    column: usize,
    bin: usize,
    gain: f64,
}

impl Trees {
    /// The slope and the curvature of half the squared error, or of the log loss.
    fn slopes(&self, row: usize) -> (f64, f64) {
        if self.logistic {
            let chance = 1.0 / (1.0 + (-self.told[row]).exp());
            (chance - self.targets[row], chance * (1.0 - chance))
        } else {
            (self.told[row] - self.targets[row], 1.0)
        }
    }

    /// What some rows contribute to the histograms of a level whose first node is `first`: for each node, column and bin the sums of
    /// slopes and curvatures.
    fn histograms(&self, first: usize, slopes: &[(f64, f64)], rows: Range<usize>, sums: &mut [f64]) {
        let stride = 2 * self.width;
        for row in rows {
            // Rows in a leaf of an upper level have their place.
            let Some(node) = (self.nodes[row] as usize).checked_sub(first) else { continue };
            let (slope, curvature) = slopes[row];
            let bins = self.binned.row(row);
            let node = &mut sums[node * bins.len() * stride..][..bins.len() * stride];
            for (cells, bin) in node.chunks_exact_mut(stride).zip(bins) {
                let cell = 2 * usize::from(*bin);
                cells[cell] += slope;
                cells[cell + 1] += curvature;
            }
        }
    }

    /// The best division of a node, from its histograms, and what its rows sum to.
    fn divide(&self, histograms: &[f64]) -> (Slopes, Option<Division>) {
        let stride = 2 * self.width;
        let sum = |cells: &[f64]| {
            cells.chunks_exact(2).fold(Slopes::default(), |sum, cell| sum.plus(cell[0], cell[1]))
        };
        let all = sum(&histograms[..stride]);
        let mut best: Option<Division> = None;
        for (column, cells) in histograms.chunks_exact(stride).enumerate() {
            let mut left = Slopes::default();
            for bin in 0..self.binned.cuts[column].len() {
                left = left.plus(cells[2 * bin], cells[2 * bin + 1]);
                let right = all.plus(-left.first, -left.second);
                // A side without curvature has no rows, or none that could be moved.
                if left.second < 1e-9 || right.second < 1e-9 {
                    continue;
                }
                let gain = 0.5 * (left.score(self.l2) + right.score(self.l2) - all.score(self.l2));
                if gain > self.least_gain.max(1e-12) && best.as_ref().is_none_or(|best| gain > best.gain) {
                    best = Some(Division { column, bin, gain });
                }
            }
        }
        (all, best)
    }

    /// Grows a tree; leaves the leaf of each row in `nodes`.
    fn grow(&mut self, pool: &Pool) -> Result<Tree, TrainError> {
        let rows = self.targets.len();
        let size = (2 << self.depth) - 1;
        let mut tree = Tree { columns: vec![LEAF; size], bins: vec![0; size], values: vec![0.0; size] };
        let slopes: Vec<(f64, f64)> = (0..rows).map(|row| self.slopes(row)).collect();
        self.nodes.fill(0);
        for level in 0..=self.depth {
            let first = (1 << level) - 1;
            let count = 1 << level;
            if level == self.depth {
                // The lowest level needs no histograms, only sums.
                let part = |rows: Range<usize>, sums: &mut [f64]| {
                    for row in rows {
                        let Some(node) = (self.nodes[row] as usize).checked_sub(first) else { continue };
                        sums[2 * node] += slopes[row].0;
                        sums[2 * node + 1] += slopes[row].1;
                    }
                };
                let sums = pool.sum(Shards::of(rows), 2 * count, part)?;
                for (node, sums) in sums.chunks_exact(2).enumerate() {
                    tree.values[first + node] = self.value(Slopes { first: sums[0], second: sums[1] });
                }
                break;
            }
            let stride = 2 * self.width * self.binned.cuts.len();
            let part = |rows: Range<usize>, sums: &mut [f64]| self.histograms(first, &slopes, rows, sums);
            let sums = pool.sum(Shards::of(rows), count * stride, part)?;
            for (node, histograms) in sums.chunks_exact(stride).enumerate() {
                let (all, division) = self.divide(histograms);
                tree.values[first + node] = self.value(all);
                if let Some(division) = division {
                    tree.columns[first + node] = division.column as u32;
                    tree.bins[first + node] = division.bin as u8;
                }
            }
            self.descend(&tree, first, pool);
        }
        Ok(tree)
    }

    /// Moves the rows of a level to the next one.
    fn descend(&mut self, tree: &Tree, first: usize, pool: &Pool) {
        let mut nodes = std::mem::take(&mut self.nodes);
        pool.chunks(&mut nodes, CHUNK, |chunk, nodes| {
            for (i, node) in nodes.iter_mut().enumerate() {
                let here = *node as usize;
                if here >= first && tree.columns[here] != LEAF {
                    *node = tree.below(here, self.binned.row(chunk * CHUNK + i)) as u32;
                }
            }
        });
        self.nodes = nodes;
    }

    fn value(&self, slopes: Slopes) -> f64 {
        let weight = slopes.second + self.l2;
        if weight > 0.0 { -self.rate * slopes.first / weight } else { 0.0 }
    }

    fn measure(&self, pool: &Pool) -> Result<Measured, TrainError> {
        let part = |rows: Range<usize>, sums: &mut [f64]| {
            for row in rows {
                let (told, target) = (self.told[row], self.targets[row]);
                if self.logistic {
                    let margin = (2.0 * target - 1.0) * told;
                    sums[0] += (-margin.abs()).exp().ln_1p() + (-margin).max(0.0);
                    sums[1] += f64::from(margin > 0.0);
                } else {
                    sums[0] += (told - target) * (told - target);
                }
            }
        };
        let rows = self.targets.len();
        let sums = pool.sum(Shards::of(rows), 2, part)?;
        let accuracy = self.logistic.then(|| sums[1] / rows as f64);
        Ok(Measured { loss: sums[0] / rows as f64, accuracy })
    }

    /// Takes trees from their tensors.
    fn trees(&self, state: &Tensors) -> Result<Vec<Tree>, StateError> {
        let size = (2 << self.depth) - 1;
        let count = state.get("trees.column")?.shape.first().copied().unwrap_or_default();
        let columns = state.values("trees.column", &[count, size])?;
        let cuts = state.values("trees.cut", &[count, size])?;
        let values = state.values("trees.value", &[count, size])?;
        let mut trees =
            vec![Tree { columns: vec![LEAF; size], bins: vec![0; size], values: vec![0.0; size] }; count];
        for (i, ((column, cut), value)) in columns.iter().zip(cuts).zip(values).enumerate() {
            let (tree, node) = (&mut trees[i / size], i % size);
            tree.values[node] = *value;
            if *column == -1.0 {
                continue;
            }
            let known =
                self.binned.cuts.get(*column as usize).filter(|_| *column >= 0.0 && column.fract() == 0.0);
            let wrong = || fault("trees.column", i, *column, "it is the number of a column, or -1 in a leaf");
            let known = known.filter(|_| 2 * node + 2 < size).ok_or_else(wrong)?;
            let bin = known.iter().position(|known| known == cut);
            let wrong = || fault("trees.cut", i, *cut, "the column is not cut there");
            (tree.columns[node], tree.bins[node]) = (*column as u32, bin.ok_or_else(wrong)? as u8);
        }
        Ok(trees)
    }
}

impl Algorithm for Trees {
    fn iterate(&mut self, _: &Data, pool: &Pool) -> Result<Measured, TrainError> {
        let tree = self.grow(pool)?;
        let nodes = &self.nodes;
        pool.chunks(&mut self.told, CHUNK, |chunk, told| {
            let leaves = &nodes[chunk * CHUNK..];
            told.iter_mut().zip(leaves).for_each(|(told, leaf)| *told += tree.values[*leaf as usize]);
        });
        self.trees.push(tree);
        self.measure(pool)
    }

    fn tensors(&self) -> Tensors {
        let mut tensors = Tensors::default();
        let shape = [self.trees.len(), (2 << self.depth) - 1];
        let (mut columns, mut cuts, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for tree in &self.trees {
            for (column, bin) in tree.columns.iter().zip(&tree.bins) {
                let leaf = *column == LEAF;
                columns.push(if leaf { -1.0 } else { f64::from(*column) });
                cuts.push(if leaf { 0.0 } else { self.binned.cuts[*column as usize][usize::from(*bin)] });
            }
            values.extend_from_slice(&tree.values);
        }
        tensors.put("base", &[], &[self.base]);
        tensors.put("trees.column", &shape, &columns);
        tensors.put("trees.cut", &shape, &cuts);
        tensors.put("trees.value", &shape, &values);
        tensors
    }

    fn restore(&mut self, state: &Tensors, _: &Data, pool: &Pool) -> Result<(), StateError> {
        self.trees = self.trees(state)?;
        let (base, binned, trees) = (self.base, &self.binned, &self.trees);
        pool.chunks(&mut self.told, CHUNK, |chunk, told| {
            for (i, told) in told.iter_mut().enumerate() {
                let bins = binned.row(chunk * CHUNK + i);
                // In the order in which they were added, so that rounding is the same.
                *told = trees.iter().fold(base, |told, tree| told + tree.values[tree.leaf(bins)]);
            }
        });
        Ok(())
    }
}
