//! What all objectives share: rates as they are believed, equal and isolated parts, and the program of blocks around shares,
//! of jobs alone or also of jobs in pairs.

use std::collections::BTreeMap;

use super::packing::{PackedAllocation, Sharing, expand};
use super::problem::{Allocation, Demand, Problem, Shares, Sight};
use crate::solve::blocks::{self, Answer, BlockProgram, Level, Link};
use crate::solve::{Interior, Solver, Unsolved};

/// Shares of a job below this part of its greatest one are what a method from inside leaves where there is nothing.
pub(super) const NOTHING: f64 = 1e-8;
/// By how much a job may have more time beside its own kind than all others of that kind, relative to its time; and how often rows
/// against that are added.
const LOPSIDED: f64 = 1e-7;
const MOST_CUTS: u32 = 100;

impl Problem {
    /// Whether a job can run on a column.
    pub fn may_run(&self, job: usize, column: usize) -> bool {
        self.jobs[job].rates[column] > 0.0 && self.gpus_of(column) > 0.0
    }

    /// The rate of a job on a column as it is believed; 0 where it cannot run.
    pub fn believed(&self, job: usize, column: usize, sight: Sight) -> f64 {
        let rates = &self.jobs[job].rates;
        match sight {
            _ if !self.may_run(job, column) => 0.0,
            Sight::Aware => rates[column],
            Sight::Blind { reference } if rates[reference] > 0.0 => rates[reference],
            Sight::Blind { .. } => rates.iter().copied().fold(0.0, f64::max),
        }
    }

    /// The first column of each pool: where gangs are not spread, if that is told apart.
    fn own_columns(&self) -> impl Iterator<Item = usize> + '_ {
        let is_first = |column: &usize| {
            self.columns[..*column].iter().all(|other| other.pool != self.columns[*column].pool)
        };
        (0..self.columns.len()).filter(is_first)
    }

    /// The rate of a job that has an equal share of time on each GPU, whatever the number of jobs (Gavel, section 4.1).
    pub fn equal_rate(&self, job: usize, sight: Sight) -> f64 {
        let gpus = self.gpus();
        self.own_columns().map(|column| self.believed(job, column, sight) * self.gpus_of(column) / gpus).sum()
    }

    /// The shares of a job that has an equal part of the cluster to itself.
    pub fn isolated_row(&self, job: usize) -> Vec<f64> {
        let parts = (self.jobs.len() as f64) * f64::from(self.jobs[job].gang);
        let mut row = vec![0.0; self.columns.len()];
        self.own_columns().for_each(|column| row[column] = self.gpus_of(column) / parts);
        let sum: f64 = row.iter().sum();
        row.iter_mut().for_each(|share| *share /= sum.max(1.0));
        row
    }

    /// The rate of a job that has an equal part of the cluster to itself.
    pub fn isolated_rate(&self, job: usize, sight: Sight) -> f64 {
        let row = self.isolated_row(job);
        row.iter().enumerate().map(|(column, share)| share * self.believed(job, column, sight)).sum()
    }

    /// The greatest of a job's rates, as believed.
    pub fn fastest(&self, job: usize, sight: Sight) -> f64 {
        (0..self.columns.len()).map(|column| self.believed(job, column, sight)).fold(0.0, f64::max)
    }

    /// The rate of a job with shares, as believed.
    pub fn believed_rate(&self, shares: &Shares, job: usize, sight: Sight) -> f64 {
        let row = shares.row(job).iter().enumerate();
        row.map(|(column, share)| share * self.believed(job, column, sight)).sum()
    }
}

/// What is shared out.
#[derive(Clone, Copy)]
pub(super) enum Space<'a> {
    /// Time of each job alone.
    Alone(Sight),
    /// That, and time of jobs in pairs. All rates are seen.
    Packed(&'a Sharing),
}

impl Space<'_> {
    pub(super) fn sight(self) -> Sight {
        if let Self::Alone(sight) = self { sight } else { Sight::Aware }
    }
}

/// A variable: time of a job on a column, alone or beside jobs of one kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) job: usize,
    pub(super) column: usize,
    /// The kind of job beside it.
    pub(super) beside: Option<usize>,
    /// Its rate there, as believed.
    pub(super) rate: f64,
    /// The part of the gang's GPUs that is its own: all, or half of them.
    pub(super) part: f64,
}

/// A program over shares: one block for each job that can run somewhere, one link for each pool.
///
/// Pairs are not listed. A job has time beside each *kind* of jobs, and for two kinds these times balance; they can then be
/// divided among pairs of jobs in some way or other. Beside its own kind no job may have more time than all others of it; rows that say
/// so are added where they are broken. So there are as many variables as jobs times kinds, and the optimum is that over all pairs.
pub(super) struct Frame<'a> {
    problem: &'a Problem,
    space: Space<'a>,
    pub(super) cells: Vec<Cell>,
    /// The job of each block.
    pub(super) jobs: Vec<usize>,
    program: BlockProgram,
}

/// A program with its solution.
pub(super) struct Solved<'a> {
    pub(super) frame: Frame<'a>,
    pub(super) answer: Answer,
}

impl<'a> Frame<'a> {
    /// Builds the program from what a share adds to the objective, and from each job's level, which is its rate.
    pub(super) fn new(
        problem: &'a Problem,
        space: Space<'a>,
        rise_gain: f64,
        gain: impl Fn(&Cell) -> f64,
        level: impl Fn(usize, &Demand) -> Level,
    ) -> Self {
        let mut links: Vec<Link> =
            problem.pools.iter().map(|pool| Link::AtMost(f64::from(pool.gpus))).collect();
        let mut balances = Balances::new(problem, space);
        let mut cells: Vec<Cell> = Vec::new();
        let mut jobs = Vec::new();
        let mut ends = Vec::new();
        for job in 0..problem.jobs.len() {
            let begin = cells.len();
            for column in 0..problem.columns.len() {
                let rate = problem.believed(job, column, space.sight());
                if rate > 0.0 {
                    cells.push(Cell { job, column, beside: None, rate, part: 1.0 });
                    balances.add_cells(problem, job, column, &mut cells);
                }
            }
            if cells.len() > begin {
                jobs.push(job);
                ends.push(cells.len());
            }
        }
        let first_balance = links.len();
        links.extend(std::iter::repeat_n(Link::Balance, balances.count));
        let mut program = BlockProgram::new(links, rise_gain);
        let mut next = 0;
        for (job, end) in jobs.iter().zip(ends) {
            let demand = &problem.jobs[*job];
            for cell in &cells[next..end] {
                let pool = (problem.columns[cell.column].pool, cell.part * f64::from(demand.gang));
                let balance = balances.of(cell).map(|(link, sign)| (first_balance + link, sign));
                program.variable(gain(cell), cell.rate, std::iter::once(pool).chain(balance));
            }
            program.end_block(1.0, level(*job, demand));
            next = end;
        }
        Self { problem, space, cells, jobs, program }
    }

    /// Solves it. Where the method for blocks gives up, the general one is asked.
    pub(super) fn solve(mut self) -> Result<Solved<'a>, Unsolved> {
        if self.jobs.is_empty() {
            return Ok(Solved { frame: self, answer: Answer::default() });
        }
        for _ in 0..MOST_CUTS {
            let answer = match blocks::solve(&self.program) {
                Err(Unsolved::Failed { iterations, gap }) => match self.program.as_linear() {
                    None => return Err(Unsolved::Failed { iterations, gap }),
                    Some(linear) => blocks::answer_from(&self.program, &Interior.solve(&linear)?),
                },
                other => other?,
            };
            if !self.cut(&answer) {
                return Ok(Solved { frame: self, answer });
            }
        }
        Err(Unsolved::Failed { iterations: MOST_CUTS, gap: LOPSIDED })
    }

    /// Adds rows for jobs that have more time beside their own kind than all others of it. Returns whether there were any.
    fn cut(&mut self, answer: &Answer) -> bool {
        let Space::Packed(sharing) = self.space else { return false };
        let mut own: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for (i, cell) in self.cells.iter().enumerate() {
            let kind = sharing.kinds[cell.job];
            if cell.beside == Some(kind) {
                own.entry((kind, cell.column)).or_default().push(i);
            }
        }
        let mut is_cut = false;
        for cells in own.values() {
            let total: f64 = cells.iter().map(|i| answer.x[*i]).sum();
            for i in cells.iter().filter(|i| 2.0 * answer.x[**i] > total + LOPSIDED) {
                let sign = |other: &usize| if other == i { 1.0 } else { -1.0 };
                let row: Vec<(usize, f64)> = cells.iter().map(|other| (*other, sign(other))).collect();
                self.program.cut(Link::AtMost(0.0), &row);
                is_cut = true;
            }
        }
        is_cut
    }
}

/// The rows by which times of two kinds of jobs beside each other are equal, on each column.
struct Balances<'a> {
    sharing: Option<&'a Sharing>,
    /// How many jobs there are of each kind.
    jobs: Vec<usize>,
    /// The first job of each kind.
    first: Vec<usize>,
    /// The row of a kind, another kind after it, and a column.
    rows: BTreeMap<(usize, usize, usize), usize>,
    count: usize,
}

impl<'a> Balances<'a> {
    fn new(problem: &Problem, space: Space<'a>) -> Self {
        let Space::Packed(sharing) = space else {
            let (jobs, first) = (Vec::new(), Vec::new());
            return Self { sharing: None, jobs, first, rows: BTreeMap::new(), count: 0 };
        };
        let (mut jobs, mut first) = (vec![0; sharing.count], vec![0; sharing.count]);
        for job in (0..problem.jobs.len()).rev() {
            jobs[sharing.kinds[job]] += 1;
            first[sharing.kinds[job]] = job;
        }
        Self { sharing: Some(sharing), jobs, first, rows: BTreeMap::new(), count: 0 }
    }

    /// Time of a job on a column beside each kind with which that pays. A pair that is worth no more than one job alone is
    /// never needed: the two might as well take turns.
    fn add_cells(&mut self, problem: &Problem, job: usize, column: usize, cells: &mut Vec<Cell>) {
        let Some(sharing) = self.sharing else { return };
        let own = sharing.kinds[job];
        for kind in 0..sharing.count {
            if self.jobs[kind] < 1 + usize::from(kind == own) {
                continue;
            }
            if sharing.worth(problem, (job, self.first[kind]), column) > 1.0 {
                let rate = sharing.beside[own * sharing.count + kind][column];
                cells.push(Cell { job, column, beside: Some(kind), rate, part: 0.5 });
                if kind != own {
                    let row = (own.min(kind), own.max(kind), column);
                    let next = self.rows.len();
                    self.rows.entry(row).or_insert(next);
                    self.count = self.rows.len();
                }
            }
        }
    }

    fn of(&self, cell: &Cell) -> Option<(usize, f64)> {
        let (kind, own) = (cell.beside?, self.sharing?.kinds[cell.job]);
        if kind == own {
            return None;
        }
        let row = self.rows[&(own.min(kind), own.max(kind), cell.column)];
        Some((row, if own < kind { 1.0 } else { -1.0 }))
    }
}

impl<'a> Solved<'a> {
    /// The rate of each job, by its place in the problem.
    pub(super) fn rates(&self) -> Vec<f64> {
        let mut rates = vec![0.0; self.frame.problem.jobs.len()];
        let cells = self.frame.cells.iter().zip(&self.answer.x);
        cells.for_each(|(cell, x)| rates[cell.job] += cell.rate * x.max(0.0));
        rates
    }

    /// The sum of shares times something.
    pub(super) fn sum(&self, gain: impl Fn(&Cell) -> f64) -> f64 {
        self.frame.cells.iter().zip(&self.answer.x).map(|(cell, x)| gain(cell) * x).sum()
    }

    /// The shares of jobs alone, which stay within time and GPUs to the last digit but one.
    pub(super) fn shares(&self) -> Shares {
        let problem = self.frame.problem;
        let mut shares = Shares::nothing(problem.jobs.len(), problem.columns.len());
        for (cell, x) in self.frame.cells.iter().zip(&self.answer.x) {
            shares.row_mut(cell.job)[cell.column] = x.max(0.0);
        }
        shares.tidy(problem);
        shares
    }

    /// Shares and their value.
    pub(super) fn allocation(&self, objective: f64) -> Allocation {
        Allocation { shares: self.shares(), objective }
    }

    /// Shares of pairs and of jobs alone, and their value.
    pub(super) fn packed(&self, objective: f64) -> PackedAllocation {
        let Space::Packed(sharing) = self.frame.space else { unreachable!("pairs were asked for") };
        expand(self.frame.problem, sharing, &self.frame.cells, &self.answer.x, objective)
    }
}

impl Shares {
    /// Takes away what is next to nothing, and what is too much by rounding.
    fn tidy(&mut self, problem: &Problem) {
        let mut used = vec![0.0; problem.pools.len()];
        for (job, demand) in problem.jobs.iter().enumerate() {
            let row = self.row_mut(job);
            let greatest = row.iter().copied().fold(0.0, f64::max);
            row.iter_mut().filter(|share| **share < NOTHING * greatest).for_each(|share| *share = 0.0);
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|share| *share /= sum.max(1.0));
            for (share, column) in row.iter().zip(&problem.columns) {
                used[column.pool] += share * f64::from(demand.gang);
            }
        }
        let over = |pool: usize| (used[pool] / f64::from(problem.pools[pool].gpus)).max(1.0);
        let by: Vec<f64> = (0..problem.pools.len()).map(over).collect();
        for job in 0..problem.jobs.len() {
            let row = self.row_mut(job).iter_mut().zip(&problem.columns);
            row.for_each(|(share, column)| *share /= by[column.pool]);
        }
    }
}
