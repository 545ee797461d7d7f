//! Jobs that share their GPUs in pairs: what they are offered and what they get.

use super::problem::{Problem, Rates, Shares};

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
