//! Jobs that share their GPUs in pairs: what they are offered and what they get.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::frame::{Cell, NOTHING};
use super::problem::{Problem, Rates, Shares};

/// Which pairs a program looks at. The best value is the same; where many answers have it, the answer is in the middle of those
/// with these pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pairs {
    /// All that are worth more than one job alone, as in the public code, nearly: that one has all pairs.
    #[default]
    All,
    /// Only those without which the best value is not reached. That is far quicker with many kinds of jobs. Where jobs must keep
    /// rates (deadlines, levels already reached) all are looked at.
    Needed,
}

/// Which jobs may share GPUs, and how fast they are then.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sharing {
    /// The kind of each job of the problem, such as model, batch size and gang. Jobs of one kind have equal rates.
    pub kinds: Vec<usize>,
    /// How many kinds there are.
    pub count: usize,
    /// `beside[a * count + b]`: steps a second of a job of kind `a` beside one of kind `b`, for each column; all 0, or empty,
    /// where they do not fit or have different gangs.
    pub beside: Vec<Rates>,
    /// Which pairs are looked at.
    pub pairs: Pairs,
}

/// One job alone, or two jobs on the same GPUs, by their places in the problem, the lower one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Combination {
    /// A job for itself.
    Alone(usize),
    /// Two jobs side by side.
    Pair(usize, usize),
}

/// Shares of time of combinations. Those that get nothing are not listed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PackedAllocation {
    /// The combinations, in order.
    pub combinations: Vec<Combination>,
    /// A row for each combination.
    pub shares: Shares,
    /// The value of the objective.
    pub objective: f64,
}

impl Sharing {
    /// The rate of a job beside another one on a column; 0 where they cannot share.
    pub fn rate(&self, problem: &Problem, job: usize, other: usize, column: usize) -> f64 {
        if problem.jobs[job].gang != problem.jobs[other].gang {
            return 0.0;
        }
        let rates = &self.beside[self.kinds[job] * self.count + self.kinds[other]];
        rates.get(column).copied().unwrap_or(0.0)
    }

    /// What a pair on a column is worth, relative to one job alone: the sum of both rates, each over that of the job alone. 0
    /// where they do not fit.
    pub fn worth(&self, problem: &Problem, (a, b): (usize, usize), column: usize) -> f64 {
        if !problem.may_run(a, column) || !problem.may_run(b, column) {
            return 0.0;
        }
        let (of_a, of_b) = (self.rate(problem, a, b, column), self.rate(problem, b, a, column));
        if of_a <= 0.0 || of_b <= 0.0 {
            return 0.0;
        }
        of_a / problem.jobs[a].rates[column] + of_b / problem.jobs[b].rates[column]
    }
}

/// Divides times beside kinds of jobs among pairs. For two kinds each pair has the product of its two times, over the sum of
/// all, or, if only pairs that are needed are asked for, as few pairs as there are jobs; within a kind the times are laid end to end, and those at the same place of both halves are pairs, unless all are equal
/// and all pairs are asked for: then so are all pairs.
pub(super) fn expand(
    problem: &Problem,
    sharing: &Sharing,
    cells: &[Cell],
    x: &[f64],
    objective: f64,
) -> PackedAllocation {
    let columns = problem.columns.len();
    let mut greatest = vec![0.0_f64; problem.jobs.len()];
    cells.iter().zip(x).for_each(|(cell, x)| greatest[cell.job] = greatest[cell.job].max(*x));
    let mut rows: BTreeMap<Combination, Vec<f64>> = BTreeMap::new();
    let mut give = |combination: Combination, column: usize, share: f64| {
        let least = match combination {
            Combination::Alone(job) => greatest[job],
            Combination::Pair(a, b) => greatest[a].min(greatest[b]),
        };
        if share > NOTHING * least {
            rows.entry(combination).or_insert_with(|| vec![0.0; columns])[column] += share;
        }
    };
    // Jobs of a kind with their time beside another one, on a column.
    let mut beside: BTreeMap<(usize, usize, usize), Vec<(usize, f64)>> = BTreeMap::new();
    for (cell, x) in cells.iter().zip(x) {
        match cell.beside {
            None => give(Combination::Alone(cell.job), cell.column, x.max(0.0)),
            Some(kind) => {
                let key = (sharing.kinds[cell.job], kind, cell.column);
                beside.entry(key).or_default().push((cell.job, x.max(0.0)));
            }
        }
    }
    let is_few = sharing.pairs == Pairs::Needed;
    for ((own, kind, column), times) in &beside {
        let pairs = match own.cmp(kind) {
            std::cmp::Ordering::Less => {
                let others = beside.get(&(*kind, *own, *column)).map_or(&[][..], Vec::as_slice);
                if is_few { along(times, others) } else { across(times, others) }
            }
            std::cmp::Ordering::Equal => within(times, is_few),
            std::cmp::Ordering::Greater => continue,
        };
        for (a, b, share) in pairs {
            give(Combination::Pair(a.min(b), a.max(b)), *column, share);
        }
    }
    let combinations = rows.keys().copied().collect();
    let shares = Shares::from_rows(columns, rows.into_values().flatten().collect());
    let mut packed = PackedAllocation { combinations, shares, objective };
    packed.tidy(problem);
    packed
}

fn across(times: &[(usize, f64)], others: &[(usize, f64)]) -> Vec<(usize, usize, f64)> {
    let total: f64 = times.iter().map(|(_, time)| time).sum();
    if total <= 0.0 {
        return Vec::new();
    }
    let pairs = times.iter().flat_map(|(a, of_a)| others.iter().map(move |(b, of_b)| (*a, *b, of_a * of_b)));
    pairs.map(|(a, b, product)| (a, b, product / total)).collect()
}

/// Both kinds are laid end to end, and those at the same place are pairs: fewer than there are jobs.
fn along(times: &[(usize, f64)], others: &[(usize, f64)]) -> Vec<(usize, usize, f64)> {
    let sum = |of: &[(usize, f64)]| of.iter().map(|(_, time)| time).sum::<f64>();
    let scale = sum(times) / sum(others);
    if !(scale.is_finite() && scale > 0.0) {
        return Vec::new();
    }
    let (mut i, mut j) = (0, 0);
    let (mut of_a, mut of_b) = (times[0].1, others[0].1 * scale);
    let mut pairs = Vec::new();
    while i < times.len() && j < others.len() {
        let share = of_a.min(of_b);
        if share > 0.0 {
            pairs.push((times[i].0, others[j].0, share));
        }
        (of_a, of_b) = (of_a - share, of_b - share);
        if of_a <= of_b {
            i += 1;
            of_a = times.get(i).map_or(0.0, |(_, time)| *time);
        } else {
            j += 1;
            of_b = others.get(j).map_or(0.0, |(_, time)| time * scale);
        }
    }
    pairs
}

/// How much times may differ and still count as equal.
const ALIKE: f64 = 1e-6;

fn within(times: &[(usize, f64)], is_few: bool) -> Vec<(usize, usize, f64)> {
    let greatest = times.iter().fold(0.0, |most: f64, (_, time)| most.max(*time));
    let least = times.iter().fold(f64::INFINITY, |least: f64, (_, time)| least.min(*time));
    let mut pairs = Vec::new();
    if !is_few && greatest - least <= ALIKE * greatest {
        let each = times.iter().map(|(_, time)| time).sum::<f64>() / times.len() as f64;
        let each = each / (times.len() - 1) as f64;
        for (i, (a, _)) in times.iter().enumerate() {
            pairs.extend(times[i + 1..].iter().map(|(b, _)| (*a, *b, each)));
        }
        return pairs;
    }
    let half = 0.5 * times.iter().map(|(_, time)| time).sum::<f64>();
    let (mut upper, mut lower) = (Vec::new(), Vec::new());
    let mut at = 0.0;
    for (job, time) in times {
        let (begin, end) = (at, at + time);
        if begin < half {
            lower.push((*job, begin, end.min(half)));
        }
        if end > half {
            upper.push((*job, begin.max(half) - half, end - half));
        }
        at = end;
    }
    for (a, a_begin, a_end) in &lower {
        for (b, b_begin, b_end) in &upper {
            let share = a_end.min(*b_end) - a_begin.max(*b_begin);
            if share > 0.0 && a != b {
                pairs.push((*a, *b, share));
            }
        }
    }
    pairs
}

impl Combination {
    fn members(self) -> impl Iterator<Item = usize> {
        let (first, second) = match self {
            Self::Alone(job) => (job, None),
            Self::Pair(a, b) => (a, Some(b)),
        };
        std::iter::once(first).chain(second)
    }
}

impl PackedAllocation {
    /// Takes away what is too much by rounding.
    fn tidy(&mut self, problem: &Problem) {
        let mut time = vec![0.0_f64; problem.jobs.len()];
        for (row, combination) in self.combinations.iter().enumerate() {
            let sum: f64 = self.shares.row(row).iter().sum();
            combination.members().for_each(|job| time[job] += sum);
        }
        let mut used = vec![0.0; problem.pools.len()];
        for (row, combination) in self.combinations.iter().enumerate() {
            let over = combination.members().map(|job| time[job]).fold(1.0, f64::max);
            let gang = combination.members().next().map_or(0, |job| problem.jobs[job].gang);
            for (share, column) in self.shares.row_mut(row).iter_mut().zip(&problem.columns) {
                *share /= over;
                used[column.pool] += *share * f64::from(gang);
            }
        }
        let over = |pool: usize| (used[pool] / f64::from(problem.pools[pool].gpus)).max(1.0);
        let by: Vec<f64> = (0..problem.pools.len()).map(over).collect();
        for row in 0..self.combinations.len() {
            let row = self.shares.row_mut(row).iter_mut().zip(&problem.columns);
            row.for_each(|(share, column)| *share /= by[column.pool]);
        }
    }

    /// The rate of each job of a problem.
    pub fn rates(&self, problem: &Problem, sharing: &Sharing) -> Vec<f64> {
        let mut rates = vec![0.0; problem.jobs.len()];
        for (row, combination) in self.combinations.iter().enumerate() {
            for (column, share) in self.shares.row(row).iter().enumerate() {
                match *combination {
                    Combination::Alone(job) => rates[job] += share * problem.jobs[job].rates[column],
                    Combination::Pair(a, b) => {
                        rates[a] += share * sharing.rate(problem, a, b, column);
                        rates[b] += share * sharing.rate(problem, b, a, column);
                    }
                }
            }
        }
        rates
    }
}
