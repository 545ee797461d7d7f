//! AlloX: the least average completion time of jobs on one GPU each, by an assignment (Le et al., EuroSys 2020; `allox` in
//! Gavel's code).
//!
//! A job that is the k-th from the end on its GPU delays k jobs, itself among them, so it costs k times its own time
//! there. The assignment of jobs to places costs least; only jobs that come first on their GPUs are placed, the others are
//! asked again the next time, and running jobs stay.
//!
//! Where we differ: the public code has a column for each place of each GPU; here GPUs of one type share their columns,
//! which have as many places as there are of them, and no more columns than can be used at best. The least cost is the same.
//! The age of a job costs the same in all places, so it is left out. Which of several equal GPUs a job gets does not matter;
//! of the jobs with as many after them, older ones go first.

use super::problem::{Problem, Shares};
use crate::solve::assign;

/// Jobs of more GPUs are left out: the assignment is of jobs to single GPUs.
pub const ALLOX_GPUS: u32 = 1;

/// Whole shares for jobs that are to run now: those that run already on the columns given, and those that come first.
/// `alpha` is the share of waiting jobs that are looked at, oldest first, but at least as many as there are free GPUs. Jobs
/// of several GPUs are not placed.
pub fn allox(problem: &Problem, running: &[Option<usize>], alpha: f64) -> Shares {
    let mut shares = Shares::nothing(problem.jobs.len(), problem.columns.len());
    let mut free: Vec<u32> = problem.pools.iter().map(|pool| pool.gpus).collect();
    let mut stays = vec![false; problem.jobs.len()];
    for (job, column) in running.iter().enumerate() {
        let Some(column) = *column else { continue };
        let (pool, gang) = (&mut free[problem.columns[column].pool], problem.jobs[job].gang);
        // Where its GPUs are gone it waits like all others.
        if problem.may_run(job, column) && *pool >= gang {
            *pool -= gang;
            shares.row_mut(job)[column] = 1.0;
            stays[job] = true;
        }
    }
    let mut waiting: Vec<usize> = (0..problem.jobs.len())
        .filter(|job| !stays[*job] && problem.jobs[*job].gang == ALLOX_GPUS)
        .filter(|job| (0..problem.columns.len()).any(|column| can_use(problem, &free, *job, column)))
        .collect();
    waiting.sort_by(|a, b| problem.jobs[*b].since_arrival_s.total_cmp(&problem.jobs[*a].since_arrival_s));
    let gpus = free.iter().sum::<u32>() as usize;
    waiting.truncate(gpus.max((alpha * waiting.len() as f64) as usize));
    if gpus > 0 {
        for (job, column) in first_on_their_gpus(problem, &free, &waiting) {
            shares.row_mut(job)[column] = 1.0;
        }
    }
    shares
}

fn can_use(problem: &Problem, free: &[u32], job: usize, column: usize) -> bool {
    problem.may_run(job, column) && free[problem.columns[column].pool] > 0
}

/// A place on each GPU of a column's type: how many jobs it delays, itself among them.
struct Place {
    column: usize,
    from_end: usize,
}

fn first_on_their_gpus(problem: &Problem, free: &[u32], waiting: &[usize]) -> Vec<(usize, usize)> {
    let columns: Vec<usize> = (0..problem.columns.len())
        .filter(|column| free[problem.columns[*column].pool] > 0 && !problem.columns[*column].is_spread)
        .collect();
    let (mut places, mut gpus_of) = (Vec::new(), Vec::new());
    for column in &columns {
        let gpus = free[problem.columns[*column].pool] as usize;
        for from_end in 1..=waiting.len().div_ceil(gpus) {
            places.push(Place { column: *column, from_end });
            gpus_of.push(gpus);
        }
    }
    let time_s = |job: usize, column: usize| problem.jobs[job].steps_left / problem.jobs[job].rates[column];
    let able = |job: usize| columns.iter().copied().filter(move |column| problem.may_run(job, *column));
    let longest =
        waiting.iter().flat_map(|job| able(*job).map(|column| time_s(*job, column))).fold(0.0, f64::max);
    // More than all jobs together can cost anywhere.
    let never = (1.0 + longest) * ((waiting.len() + 1) * (waiting.len() + 1)) as f64;
    let chosen = assign(waiting.len(), &gpus_of, |row, place| {
        let Place { column, from_end } = places[place];
        if problem.may_run(waiting[row], column) {
            from_end as f64 * time_s(waiting[row], column)
        } else {
            never
        }
    });
    let mut first = Vec::new();
    for column in columns {
        let most = waiting.len();
        let mut at: Vec<Vec<usize>> = vec![Vec::new(); most + 2];
        for (job, place) in waiting.iter().zip(&chosen) {
            if places[*place].column == column && problem.may_run(*job, column) {
                at[places[*place].from_end].push(*job);
            }
        }
        // As many GPUs begin with jobs of a place as have no jobs before it.
        for from_end in 1..=most {
            let begins = at[from_end].len().saturating_sub(at[from_end + 1].len());
            first.extend(at[from_end].iter().take(begins).map(|job| (*job, column)));
        }
    }
    first
}
