//! Programs over jobs in pairs that need not list them.
//!
//! A job has time beside each *kind* of jobs, and for two kinds these times balance; they can then be divided among pairs of jobs
//! in some way or other. Beside its own kind no job may have more time than all others of it; rows that say so are added where
//! they are broken. So there are as many variables as jobs times kinds, and the optimum is that over all pairs. If only pairs that
//! are needed are asked for, kinds are let in beside each other a few at a time, as long as the duals say that this would pay.

use std::collections::{BTreeMap, BTreeSet};

use super::frame::Cell;
use super::packing::{Pairs, Sharing};
use super::problem::Problem;
use crate::solve::blocks::Answer;

/// Two kinds of jobs, the lower one first, beside each other on a column.
pub(super) type Neighbours = (usize, usize, usize);

/// For each kind and column this many others are let in at once.
const AT_ONCE: usize = 2;
/// What is gained by less than this, relative to the objective, is not worth another program.
const PAYS: f64 = 1e-8;

/// Which kinds of jobs may be beside each other so far.
pub(super) struct Pairing<'a> {
    problem: &'a Problem,
    sharing: &'a Sharing,
    /// The jobs of each kind.
    jobs: Vec<Vec<usize>>,
    /// Those that may be, with the row by which their times balance; none within a kind, unless it has just two jobs.
    rows: BTreeMap<Neighbours, Option<usize>>,
    balances: usize,
}

impl<'a> Pairing<'a> {
    pub(super) fn new(problem: &'a Problem, sharing: &'a Sharing, pairs: Pairs) -> Self {
        let mut jobs = vec![Vec::new(); sharing.count];
        (0..problem.jobs.len()).for_each(|job| jobs[sharing.kinds[job]].push(job));
        let mut pairing = Self { problem, sharing, jobs, rows: BTreeMap::new(), balances: 0 };
        if pairs == Pairs::All {
            let all: Vec<Neighbours> =
                pairing.all().filter(|neighbours| pairing.may_pay(*neighbours)).collect();
            all.into_iter().for_each(|neighbours| pairing.admit(neighbours));
        }
        pairing
    }

    fn all(&self) -> impl Iterator<Item = Neighbours> + use<> {
        let (columns, kinds) = (self.problem.columns.len(), self.sharing.count);
        let of = move |column: usize| (0..kinds).flat_map(move |a| (a..kinds).map(move |b| (a, b, column)));
        (0..columns).flat_map(of)
    }

    fn admit(&mut self, neighbours: Neighbours) {
        let (a, b, _) = neighbours;
        let row = (a != b || self.jobs[a].len() == 2).then_some(self.balances);
        self.balances += usize::from(row.is_some());
        self.rows.insert(neighbours, row);
    }

    pub(super) fn balances(&self) -> usize {
        self.balances
    }

    /// Time of a job on a column beside each kind that may be there.
    pub(super) fn add_cells(&self, job: usize, column: usize, cells: &mut Vec<Cell>) {
        let own = self.sharing.kinds[job];
        for kind in 0..self.sharing.count {
            if self.rows.contains_key(&(own.min(kind), own.max(kind), column)) {
                cells.push(self.cell(job, kind, column));
            }
        }
    }

    fn cell(&self, job: usize, kind: usize, column: usize) -> Cell {
        let rate = self.sharing.beside[self.sharing.kinds[job] * self.sharing.count + kind][column];
        Cell { job, column, beside: Some(kind), rate, part: 0.5 }
    }

    /// The row of a cell, if it has one, and its sign there.
    pub(super) fn balance_of(&self, cell: &Cell) -> Option<(usize, f64)> {
        let (kind, own) = (cell.beside?, self.sharing.kinds[cell.job]);
        let row = self.rows[&(own.min(kind), own.max(kind), cell.column)]?;
        let is_first = own < kind || (own == kind && self.jobs[own].first() == Some(&cell.job));
        Some((row, if is_first { 1.0 } else { -1.0 }))
    }

    /// Whether a pair of two kinds on a column is worth more than one job alone. If not it is never needed: the two might
    /// as well take turns.
    fn may_pay(&self, (a, b, column): Neighbours) -> bool {
        let (first, second) = (self.jobs[a].first(), self.jobs[b].last());
        let (Some(first), Some(second)) = (first, second) else { return false };
        first != second && self.sharing.worth(self.problem, (*first, *second), column) > 1.0
    }

    /// Lets in the neighbours that would gain most by an answer's duals. `profit` is what a cell gains, without its balance.
    /// Returns whether there were any.
    pub(super) fn let_in(&mut self, answer: &Answer, profit: impl Fn(&Cell) -> f64) -> bool {
        let least = PAYS * answer.objective.abs();
        // By kind and column, what it would gain beside each other.
        let mut found: BTreeMap<(usize, usize), Vec<(f64, Neighbours)>> = BTreeMap::new();
        for neighbours in self.all() {
            if self.rows.contains_key(&neighbours) || !self.may_pay(neighbours) {
                continue;
            }
            let gain = self.best(neighbours, &profit);
            if gain > least {
                let (a, b, column) = neighbours;
                found.entry((a, column)).or_default().push((gain, neighbours));
                found.entry((b, column)).or_default().push((gain, neighbours));
            }
        }
        let mut chosen: BTreeSet<Neighbours> = BTreeSet::new();
        for mut of_kind in found.into_values() {
            of_kind.sort_by(|(a, _), (b, _)| b.total_cmp(a));
            chosen.extend(of_kind.iter().take(AT_ONCE).map(|(_, neighbours)| *neighbours));
        }
        chosen.iter().for_each(|neighbours| self.admit(*neighbours));
        !chosen.is_empty()
    }

    /// The most that one pair of jobs of two kinds gains.
    fn best(&self, (a, b, column): Neighbours, profit: &impl Fn(&Cell) -> f64) -> f64 {
        let of = |own: usize, kind: usize| {
            let each = self.jobs[own].iter().map(move |job| profit(&self.cell(*job, kind, column)));
            each.fold((f64::NEG_INFINITY, f64::NEG_INFINITY), |(most, next), gain| {
                if gain > most { (gain, most) } else { (most, next.max(gain)) }
            })
        };
        if a == b {
            let (most, next) = of(a, a);
            return most + next;
        }
        of(a, b).0 + of(b, a).0
    }
}
