//! What part of the time each job should be on each GPU type, so that all are done as soon as possible.
//!
//! The linear program of Gavel's least makespan (OSDI 2020, section 4.2), with the work that is left now: maximise `y` such that
//! each job does `y` of its work in a second, is on one type at a time, and no type has more on it than there are GPUs. As it
//! is solved anew in each round, nobody has to remember what was done: a job that was on a type needs less of it next time.

use crate::solve::blocks::{BlockProgram, Level, Link, solve};

use super::candidates::Gang;

/// Shares of time by job and type, all nothing for a job that can run nowhere. `None` if the program could not be solved.
pub(super) fn targets(gangs: &[&Gang], gpus: &[u32]) -> Option<Vec<Vec<f64>>> {
    let links = gpus.iter().map(|count| Link::AtMost(f64::from((*count).max(1)))).collect();
    let mut program = BlockProgram::new(links, 1.0);
    let mut cells = Vec::new();
    for (job, gang) in gangs.iter().enumerate() {
        let before = cells.len();
        for (gpu_type, pace) in
            gang.together.iter().enumerate().filter(|(i, pace)| **pace > 0.0 && gpus[*i] > 0)
        {
            // In units of its own work, so that large and small iterations are alike.
            program.variable(0.0, pace / gang.left, [(gpu_type, gang.gpus())]);
            cells.push((job, gpu_type));
        }
        if cells.len() > before {
            program.end_block(1.0, Level::Rising { least: 0.0, by: 1.0 });
        }
    }
    let mut shares = vec![vec![0.0; gpus.len()]; gangs.len()];
    if !cells.is_empty() {
        let answer = solve(&program).ok()?;
        for ((job, gpu_type), share) in cells.into_iter().zip(answer.x) {
            shares[job][gpu_type] = share;
        }
    }
    Some(shares)
}

#[cfg(test)]
mod tests {
    use super::super::checks::gang;
    use super::*;

    #[test]
    fn two_jobs_are_done_together_each_where_it_is_relatively_fast() {
        // On 1 GPU of each type: 2 and 1 a second against 3 and 2 (a golden value of the specification: 200 s).
        let jobs = [gang(1, &[2.0, 1.0, 0.5], 300.0), gang(1, &[3.0, 2.0, 1.0], 500.0)];
        let shares = targets(&[&jobs[0], &jobs[1]], &[1, 1, 1]).expect("it is solved");
        let ends = jobs.iter().zip(&shares).map(|(job, shares)| {
            job.left / job.together.iter().zip(shares).map(|(pace, share)| pace * share).sum::<f64>()
        });
        for end in ends {
            assert!((end / 200.0 - 1.0).abs() < 1e-4, "{end}");
        }
    }

    #[test]
    fn who_can_run_nowhere_has_no_share() {
        let jobs = [gang(1, &[0.0, 1.0], 10.0), gang(2, &[1.0, 0.0], 10.0)];
        let shares = targets(&[&jobs[0], &jobs[1]], &[4, 0]).expect("it is solved");
        assert_eq!(shares[0], [0.0, 0.0]);
        assert!((shares[1][0] - 1.0).abs() < 1e-4, "{shares:?}");
        assert_eq!(targets(&[], &[1]), Some(Vec::new()));
    }
}
