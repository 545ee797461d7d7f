//! What comes of the programs: shares, and who is owed which.

use crate::model::JobId;

use super::allocation::{Allocation, Combination, PackedAllocation, Problem, Shares, Sight};
use super::notes::Row;

/// What was worked out.
pub(super) enum Answer {
    Alone(Shares),
    Packed(PackedAllocation),
}

impl Answer {
    /// What each job is owed, alone and beside those that come after it.
    pub(super) fn rows(&self, problem: &Problem) -> Vec<Vec<(Option<JobId>, Row)>> {
        let jobs = 0..problem.jobs.len();
        let packed = match self {
            Self::Alone(shares) => {
                return jobs.map(|m| vec![(None, Row::from_slice(shares.row(m)))]).collect();
            }
            Self::Packed(packed) => packed,
        };
        let mut rows: Vec<Vec<(Option<JobId>, Row)>> =
            jobs.map(|_| vec![(None, Row::from_elem(0.0, problem.columns.len()))]).collect();
        for (k, combination) in packed.combinations.iter().enumerate() {
            let row = Row::from_slice(packed.shares.row(k));
            match *combination {
                Combination::Alone(job) => rows[job][0].1 = row,
                Combination::Pair(job, other) => rows[job].push((Some(problem.jobs[other].id), row)),
            }
        }
        rows
    }
}

/// Shares with which jobs are done when the last one must be. Otherwise jobs that have time would now and
/// then go before those that have none; GPUs that are left over are given to them in any case.
pub(super) fn trimmed(problem: &Problem, mut allocation: Allocation, sight: Sight) -> Allocation {
    for (m, job) in problem.jobs.iter().enumerate() {
        let needed = job.steps_left / allocation.objective;
        let rate = problem.believed_rate(&allocation.shares, m, sight);
        if rate > needed && needed.is_finite() {
            allocation.shares.row_mut(m).iter_mut().for_each(|share| *share *= needed / rate);
        }
    }
    allocation
}
