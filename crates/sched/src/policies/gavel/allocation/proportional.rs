//! Proportional fairness: the product of what jobs have shall be as great as possible (Nash 1950; Eisenberg and Gale 1959),
//! and a variant in which no job gains by lying about its rates (Cole, Gkatzelis and Goel, EC 2013). Both are in the public code of
//! Gavel (`max_min_fairness_strategy_proof`), which does not evaluate them.
//!
//! Where we differ: weights divide what jobs have in the public code, which moves no optimum of a product; there they have no
//! effect, and here neither.

use std::collections::BTreeMap;

use super::frame::{self, Space};
use super::max_min::unit;
use super::problem::{Allocation, Demand, Problem, Sight};
use crate::solve::Unsolved;
use crate::solve::blocks::Level;

/// Shares with the greatest product. The objective is the geometric mean of how jobs fare, as max-min fairness measures it.
pub fn proportional(problem: &Problem, sight: Sight) -> Result<Allocation, Unsolved> {
    let level = |_: usize, _: &Demand| Level::Logarithm(1.0);
    let solved = frame::solve(problem, Space::Alone(sight), 0.0, |_| 0.0, level)?;
    let rates = solved.rates();
    let fares = solved.frame.jobs.iter().map(|job| rates[*job] / unit(problem, *job, sight));
    Ok(solved.allocation(geometric_mean(fares)))
}

fn geometric_mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    if count > 0.0 { (values.map(f64::ln).sum::<f64>() / count).exp() } else { 0.0 }
}

/// The same with each job's shares made smaller by what it takes from others: by the product, over the others, of their
/// rates beside it and without it. That is one more program for each kind of job: with 26 kinds in four sizes and 2,048 jobs, some
/// seconds in all.
pub fn strategy_proof(problem: &Problem, sight: Sight) -> Result<Allocation, Unsolved> {
    let mut allocation = proportional(problem, sight)?;
    let with = allocation.shares.clone();
    // Jobs that are alike take as much from the others.
    let mut known: BTreeMap<(u32, Vec<u64>), f64> = BTreeMap::new();
    for job in 0..problem.jobs.len() {
        let kind =
            (problem.jobs[job].gang, problem.jobs[job].rates.iter().map(|rate| rate.to_bits()).collect());
        if let Some(kept) = known.get(&kind) {
            allocation.shares.row_mut(job).iter_mut().for_each(|share| *share *= kept);
            continue;
        }
        let mut others = problem.clone();
        others.jobs.remove(job);
        let without = proportional(&others, sight)?.shares;
        let mut kept = 1.0;
        for other in (0..problem.jobs.len()).filter(|other| *other != job) {
            let alone = others.believed_rate(&without, if other > job { other - 1 } else { other }, sight);
            if alone > 0.0 {
                kept *= problem.believed_rate(&with, other, sight) / alone;
            }
        }
        let kept = kept.min(1.0);
        allocation.shares.row_mut(job).iter_mut().for_each(|share| *share *= kept);
        known.insert(kind, kept);
    }
    let runs = (0..problem.jobs.len()).filter(|job| problem.fastest(*job, sight) > 0.0);
    let fares =
        |job: usize| problem.believed_rate(&allocation.shares, job, sight) / unit(problem, job, sight);
    let fares: Vec<f64> = runs.map(fares).collect();
    allocation.objective = geometric_mean(fares.into_iter());
    Ok(allocation)
}
