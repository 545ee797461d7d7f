//! An equal part of the cluster for each job, whatever the others do (`isolated` in Gavel's code).

use super::problem::{Problem, Shares};

/// For each job the same number of GPUs of each type, in turns that its gang allows; no more than all of its time.
pub fn isolated(problem: &Problem) -> Shares {
    let rows = (0..problem.jobs.len()).flat_map(|job| problem.isolated_row(job)).collect();
    Shares::from_rows(problem.columns.len(), rows)
}
