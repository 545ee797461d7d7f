//! Policies without a program: each job in turn takes a type of GPU for itself.
//!
//! As coded, the first job for which no GPUs are left ends the walk: whoever comes after it waits as well.

use crate::model::Seed;

use super::allocation::{Problem, Shares};

/// The jobs by the time that they have left where they are fastest, the shortest first.
pub(super) fn by_length(problem: &Problem) -> Vec<usize> {
    let length = |m: &usize| {
        let job = &problem.jobs[*m];
        job.steps_left / job.rates.iter().copied().fold(f64::MIN_POSITIVE, f64::max)
    };
    let mut order: Vec<usize> = (0..problem.jobs.len()).collect();
    order.sort_by(|a, b| length(a).total_cmp(&length(b)));
    order
}

/// What is left of the GPUs of each type.
fn all_gpus(problem: &Problem) -> Vec<u32> {
    problem.pools.iter().map(|pool| pool.gpus).collect()
}

/// Each job takes the free type on which it is fastest.
pub(super) fn in_order(problem: &Problem, order: impl IntoIterator<Item = usize>) -> Shares {
    let mut free = all_gpus(problem);
    let mut shares = Shares::nothing(problem.jobs.len(), problem.columns.len());
    for m in order {
        let job = &problem.jobs[m];
        let fits = |c: &usize| job.rates[*c] > 0.0 && free[problem.columns[*c].pool] >= job.gang;
        let columns = (0..problem.columns.len()).filter(fits);
        // Of equal ones the first.
        let Some(best) = columns.rev().max_by(|a, b| job.rates[*a].total_cmp(&job.rates[*b])) else { break };
        free[problem.columns[best].pool] -= job.gang;
        shares.row_mut(m)[best] = 1.0;
    }
    shares
}

/// Jobs stay where they are, and the others take any free type, each as likely as the next. The public code means this, and
/// does something else (it draws one type and takes another).
pub(super) fn anywhere(problem: &Problem, on: &[Option<usize>], seed: Seed) -> Shares {
    let mut free = all_gpus(problem);
    let mut shares = Shares::nothing(problem.jobs.len(), problem.columns.len());
    for (m, column) in on.iter().enumerate().filter_map(|(m, on)| Some((m, (*on)?))) {
        let pool = problem.columns[column].pool;
        if free[pool] >= problem.jobs[m].gang {
            free[pool] -= problem.jobs[m].gang;
            shares.row_mut(m)[column] = 1.0;
        }
    }
    for (m, job) in problem.jobs.iter().enumerate() {
        if shares.row(m).contains(&1.0) {
            continue;
        }
        let fits = |c: &usize| job.rates[*c] > 0.0 && free[problem.columns[*c].pool] >= job.gang;
        let columns: Vec<usize> = (0..problem.columns.len()).filter(fits).collect();
        if columns.is_empty() {
            break;
        }
        let drawn = columns[(seed.numbered(m as u64).0 % columns.len() as u64) as usize];
        free[problem.columns[drawn].pool] -= job.gang;
        shares.row_mut(m)[drawn] = 1.0;
    }
    shares
}
