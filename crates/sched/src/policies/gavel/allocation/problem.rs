//! What is to be shared out and among whom, as plain data; and the answer. No policy is named here.

use smallvec::SmallVec;

use crate::model::JobId;

/// Steps a second of a whole gang, one for each column of the problem; 0 where the job cannot run.
pub type Rates = SmallVec<[f64; 4]>;

/// The GPUs of one type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pool {
    /// How many there are.
    pub gpus: u32,
    /// What one costs in an hour.
    pub price_per_h: f64,
}

/// A way in which a job may run, one for each column of a table of shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The type whose GPUs are used; an index into [`Problem::pools`].
    pub pool: usize,
    /// Whether gangs may be spread over nodes here. A type whose jobs depend on placement has two columns (Gavel, section 4.3), one with
    /// rates of gangs on few nodes and one with rates of gangs on any; both draw on one pool.
    pub is_spread: bool,
}

/// What is known of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Which one it is; answers are in the order of the problem, and what is kept from one problem to the next is kept by this.
    pub id: JobId,
    /// GPUs of its gang, all of one type.
    pub gang: u32,
    /// Its weight among jobs.
    pub weight: f64,
    /// Its rates.
    pub rates: Rates,
    /// Steps that are left.
    pub steps_left: f64,
    /// Seconds since it arrived.
    pub since_arrival_s: f64,
    /// Seconds that what it has done so far would have taken with an equal part of the cluster to itself.
    pub isolated_s: f64,
    /// Whom it belongs to; an index into the entities of hierarchical fairness, 0 elsewhere.
    pub entity: usize,
    /// Seconds that are left until it should be done, if that was promised.
    pub deadline_s: Option<f64>,
}

/// Jobs and GPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Problem {
    /// The GPUs, by type.
    pub pools: Vec<Pool>,
    /// The ways in which jobs may run.
    pub columns: Vec<Column>,
    /// The jobs, in the order of their arrival.
    pub jobs: Vec<Demand>,
}

/// Whether a policy sees how fast jobs are on each type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// It sees all rates.
    Aware,
    /// It takes every type for as fast as the one of this column, and only sees where a job cannot run at all.
    Blind {
        /// The column whose rates are believed of all.
        reference: usize,
    },
}

/// A share of time for each job and column, row by row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares {
    columns: usize,
    fractions: Vec<f64>,
}

/// Shares and how good they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// Time of each job on each column.
    pub shares: Shares,
    /// The value of the objective, in the unit that the objective says.
    pub objective: f64,
}

impl Problem {
    /// One column a type: placement does not matter.
    pub fn new(pools: Vec<Pool>, jobs: Vec<Demand>) -> Self {
        let columns = (0..pools.len()).map(|pool| Column { pool, is_spread: false }).collect();
        Self { pools, columns, jobs }
    }

    /// GPUs of all types.
    pub fn gpus(&self) -> f64 {
        self.pools.iter().map(|pool| f64::from(pool.gpus)).sum()
    }

    /// GPUs that a column may use.
    pub fn gpus_of(&self, column: usize) -> f64 {
        f64::from(self.pools[self.columns[column].pool].gpus)
    }
}

impl Shares {
    /// Nothing for anybody.
    pub fn nothing(jobs: usize, columns: usize) -> Self {
        Self { columns, fractions: vec![0.0; jobs * columns] }
    }

    /// From a table, row by row.
    pub fn from_rows(columns: usize, fractions: Vec<f64>) -> Self {
        assert!(columns > 0 && fractions.len().is_multiple_of(columns), "all rows are complete");
        Self { columns, fractions }
    }

    /// How many rows there are.
    pub fn jobs(&self) -> usize {
        self.fractions.len().checked_div(self.columns).unwrap_or(0)
    }

    /// How many columns there are.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The shares of a job.
    pub fn row(&self, job: usize) -> &[f64] {
        &self.fractions[job * self.columns..][..self.columns]
    }

    /// The shares of a job, to be changed.
    pub fn row_mut(&mut self, job: usize) -> &mut [f64] {
        &mut self.fractions[job * self.columns..][..self.columns]
    }

    /// The share of a job on a column.
    pub fn of(&self, job: usize, column: usize) -> f64 {
        self.row(job)[column]
    }

    /// Steps a second of a job with its shares.
    pub fn rate(&self, job: usize, rates: &[f64]) -> f64 {
        self.row(job).iter().zip(rates).map(|(share, rate)| share * rate).sum()
    }
}
