//! What all objectives share: rates as they are believed, equal and isolated parts, and the program of blocks around shares,
//! of jobs alone or also of jobs in pairs.

use std::collections::BTreeMap;

use super::packing::{PackedAllocation, Pairs, Sharing, expand};
use super::pairing::Pairing;
use super::problem::{Allocation, Demand, Problem, Shares, Sight};
use crate::solve::blocks::{self, Answer, BlockProgram, Level, Link};
use crate::solve::{Interior, Solver, Unsolved};

/// Shares of a job below this part of its greatest one are what a method from inside leaves where there is nothing.
pub(super) const NOTHING: f64 = 1e-8;
/// By how much a job may have more time beside its own kind than all others of that kind, relative to its time.
const LOPSIDED: f64 = 1e-7;
/// How often rows or pairs are added to a program.
const MOST_PROGRAMS: u32 = 100;

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
pub(super) struct Frame<'a> {
    problem: &'a Problem,
    space: Space<'a>,
    cells: Vec<Cell>,
    /// The jobs that can run somewhere, in order; numbers of an answer that go by block go by these.
    pub(super) jobs: Vec<usize>,
    /// Jobs that are alike in all that the program knows of them are one of its blocks: that of each of `jobs`.
    blocks: Vec<usize>,
    program: BlockProgram,
}

/// All that a program knows of a job.
fn key(cells: &[Cell], gang: u32, level: Level, gain: &impl Fn(&Cell) -> f64) -> Vec<u64> {
    let (kind, least, by) = match level {
        Level::Free => (0, 0.0, 0.0),
        Level::Floor(least) => (1, least, 0.0),
        Level::Rising { least, by } => (2, least, by),
        Level::Logarithm(weight) => (3, weight, 0.0),
    };
    let of_cell = |cell: &Cell| [cell.column as u64, cell.rate.to_bits(), gain(cell).to_bits()];
    let head = [kind, least.to_bits(), by.to_bits(), u64::from(gang)];
    head.into_iter().chain(cells.iter().flat_map(of_cell)).collect()
}

/// A program with its solution.
pub(super) struct Solved<'a> {
    pub(super) frame: Frame<'a>,
    pub(super) answer: Answer,
}

/// Solves the program that is given by what a share adds to the objective, and by each job's level, which is its rate.
pub(super) fn solve<'a>(
    problem: &'a Problem,
    space: Space<'a>,
    rise_gain: f64,
    gain: impl Fn(&Cell) -> f64,
    level: impl Fn(usize, &Demand) -> Level,
) -> Result<Solved<'a>, Unsolved> {
    let mut pairing = match space {
        Space::Alone(_) => None,
        Space::Packed(sharing) => {
            // Without some pairs rates that must be kept might be out of reach.
            let keeps = |(job, demand): (usize, &Demand)| match level(job, demand) {
                Level::Floor(least) | Level::Rising { least, .. } => least > 0.0,
                Level::Free | Level::Logarithm(_) => false,
            };
            let pairs = if problem.jobs.iter().enumerate().any(keeps) { Pairs::All } else { sharing.pairs };
            Some(Pairing::new(problem, sharing, pairs))
        }
    };
    for _ in 0..MOST_PROGRAMS {
        let solved = Frame::new(problem, space, pairing.as_ref(), rise_gain, &gain, &level).solve()?;
        let Some(pairing) = &mut pairing else { return Ok(solved) };
        let mut of_block = vec![0; problem.jobs.len()];
        solved.frame.jobs.iter().enumerate().for_each(|(block, job)| of_block[*job] = block);
        let profit = |cell: &Cell| {
            let (block, pool) = (of_block[cell.job], problem.columns[cell.column].pool);
            let gpus = cell.part * f64::from(problem.jobs[cell.job].gang);
            let answer = &solved.answer;
            gain(cell) + cell.rate * answer.level_duals[block]
                - answer.time_duals[block]
                - gpus * answer.link_duals[pool]
        };
        if solved.frame.jobs.is_empty() || !pairing.let_in(&solved.answer, profit) {
            return Ok(solved);
        }
    }
    Err(Unsolved::Failed { iterations: MOST_PROGRAMS, gap: f64::INFINITY })
}

/// Shares of jobs alone with levels and GPUs kept and nothing to maximise, where the solver of the public code finds them.
pub(super) fn within<'a>(
    problem: &'a Problem,
    sight: Sight,
    level: impl Fn(usize, &Demand) -> Level,
) -> Result<Solved<'a>, Unsolved> {
    let frame = Frame::new(problem, Space::Alone(sight), None, 0.0, &|_| 0.0, &level);
    let x = blocks::within(&frame.program.apart(&frame.blocks))?;
    Ok(Solved { frame, answer: Answer { x, ..Answer::default() } })
}

impl<'a> Frame<'a> {
    fn new(
        problem: &'a Problem,
        space: Space<'a>,
        pairing: Option<&Pairing<'a>>,
        rise_gain: f64,
        gain: &impl Fn(&Cell) -> f64,
        level: &impl Fn(usize, &Demand) -> Level,
    ) -> Self {
        let mut links: Vec<Link> =
            problem.pools.iter().map(|pool| Link::AtMost(f64::from(pool.gpus))).collect();
        let first_balance = links.len();
        links.extend(std::iter::repeat_n(Link::Balance, pairing.map_or(0, Pairing::balances)));
        let mut program = BlockProgram::new(links, rise_gain);
        let (most_jobs, most_cells) = (problem.jobs.len(), problem.jobs.len() * problem.columns.len());
        program.reserve(most_jobs, most_cells);
        let mut cells = Vec::with_capacity(most_cells);
        let (mut jobs, mut blocks) = (Vec::with_capacity(most_jobs), Vec::with_capacity(most_jobs));
        let mut known: BTreeMap<Vec<u64>, usize> = BTreeMap::new();
        for (job, demand) in problem.jobs.iter().enumerate() {
            let begin = cells.len();
            for column in 0..problem.columns.len() {
                let rate = problem.believed(job, column, space.sight());
                if rate > 0.0 {
                    cells.push(Cell { job, column, beside: None, rate, part: 1.0 });
                    pairing.iter().for_each(|pairing| pairing.add_cells(job, column, &mut cells));
                }
            }
            if cells.len() == begin {
                continue;
            }
            jobs.push(job);
            let level = level(job, demand);
            if pairing.is_none() {
                let next = program.blocks();
                let block = *known.entry(key(&cells[begin..], demand.gang, level, gain)).or_insert(next);
                blocks.push(block);
                if block < next {
                    program.repeat(block);
                    continue;
                }
            } else {
                // Rows of pairs hold for each job by itself.
                blocks.push(program.blocks());
            }
            for cell in &cells[begin..] {
                let pool = (problem.columns[cell.column].pool, cell.part * f64::from(demand.gang));
                let balance = pairing.and_then(|pairing| pairing.balance_of(cell));
                let balance = balance.map(|(row, sign)| (first_balance + row, sign));
                program.variable(gain(cell), cell.rate, std::iter::once(pool).chain(balance));
            }
            program.end_block(1.0, level);
        }
        Self { problem, space, cells, jobs, blocks, program }
    }

    /// Solves it. Where the method for blocks gives up, the general one is asked.
    fn solve(mut self) -> Result<Solved<'a>, Unsolved> {
        if self.jobs.is_empty() {
            return Ok(Solved { frame: self, answer: Answer::default() });
        }
        for _ in 0..MOST_PROGRAMS {
            let answer = match blocks::solve(&self.program) {
                Err(Unsolved::Failed { iterations, gap }) => match self.program.as_linear() {
                    None => return Err(Unsolved::Failed { iterations, gap }),
                    Some(linear) => blocks::answer_from(&self.program, &Interior.solve(&linear)?),
                },
                other => other?,
            };
            if !self.cut(&answer) {
                let answer = answer.spread(&self.program, &self.blocks);
                return Ok(Solved { frame: self, answer });
            }
        }
        Err(Unsolved::Failed { iterations: MOST_PROGRAMS, gap: LOPSIDED })
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
