//! What all objectives share: rates as they are believed, equal and isolated parts, and the program of blocks around shares.

use super::problem::{Allocation, Demand, Problem, Shares, Sight};
use crate::solve::blocks::{self, Answer, BlockProgram, Level, Link};
use crate::solve::{Interior, Solver, Unsolved};

/// Shares of a job below this part of its greatest one are what a method from inside leaves where there is nothing.
const NOTHING: f64 = 1e-8;

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

/// A program over shares: one block for each job that can run somewhere, one link for each pool.
pub(super) struct Frame<'a> {
    problem: &'a Problem,
    /// The job and the column of each variable.
    cells: Vec<(usize, usize)>,
    /// The job of each block.
    pub(super) jobs: Vec<usize>,
    /// The program.
    pub(super) program: BlockProgram,
}

impl<'a> Frame<'a> {
    /// Builds the program from what a job's share on a column adds to the objective and to its level, and from its level.
    pub(super) fn new(
        problem: &'a Problem,
        rise_gain: f64,
        cell: impl Fn(usize, usize) -> (f64, f64),
        level: impl Fn(usize, &Demand) -> Level,
    ) -> Self {
        let links = problem.pools.iter().map(|pool| Link::AtMost(f64::from(pool.gpus))).collect();
        let mut program = BlockProgram::new(links, rise_gain);
        let (mut cells, mut jobs) = (Vec::new(), Vec::new());
        for (job, demand) in problem.jobs.iter().enumerate() {
            let begin = cells.len();
            for (column, kind) in problem.columns.iter().enumerate() {
                if problem.may_run(job, column) {
                    let (gain, slope) = cell(job, column);
                    program.variable(gain, slope, [(kind.pool, f64::from(demand.gang))]);
                    cells.push((job, column));
                }
            }
            if cells.len() > begin {
                program.end_block(1.0, level(job, demand));
                jobs.push(job);
            }
        }
        Self { problem, cells, jobs, program }
    }

    /// Solves it. Where the method for blocks gives up, the general one is asked.
    pub(super) fn solve(&self) -> Result<Answer, Unsolved> {
        if self.jobs.is_empty() {
            return Ok(Answer::default());
        }
        match blocks::solve(&self.program) {
            Err(Unsolved::Failed { iterations, gap }) => match self.program.as_linear() {
                None => Err(Unsolved::Failed { iterations, gap }),
                Some(linear) => Ok(blocks::answer_from(&self.program, &Interior.solve(&linear)?)),
            },
            other => other,
        }
    }

    /// The shares of an answer, which stay within time and GPUs to the last digit but one.
    pub(super) fn shares(&self, answer: &Answer) -> Shares {
        let mut shares = Shares::nothing(self.problem.jobs.len(), self.problem.columns.len());
        for ((job, column), x) in self.cells.iter().zip(&answer.x) {
            shares.row_mut(*job)[*column] = x.max(0.0);
        }
        shares.tidy(self.problem);
        shares
    }

    /// Shares and their value.
    pub(super) fn allocation(&self, answer: &Answer, value: impl Fn(&Shares) -> f64) -> Allocation {
        let shares = self.shares(answer);
        let objective = value(&shares);
        Allocation { shares, objective }
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
