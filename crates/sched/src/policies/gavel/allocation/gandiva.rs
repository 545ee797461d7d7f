//! Gandiva as a baseline: jobs share GPUs in random pairs, and pairs that do not pay are parted (Xiao et al., OSDI 2018;
//! `gandiva` in Gavel's code).
//!
//! As long as all gangs fit there are no pairs. Otherwise jobs without a partner are paired at random, and time is divided
//! equally among pairs and jobs alone.
//!
//! Where we differ: the public code adds up what a pair is worth over all types and compares that with 1, which a pair fails only
//! if it is worth a third; here it is the mean over types. It also pairs jobs that can share no type, which then wait until they are
//! parted; here these are not paired, nor are those that would be parted at once by the mean.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::packing::{Combination, PackedAllocation, Sharing};
use super::problem::{Problem, Shares};
use crate::model::JobId;

/// Who shares with whom; both are named. Kept from one call to the next.
pub type Partners = BTreeMap<JobId, JobId>;

/// Pairs worth less than this, relative to one job alone, are parted.
const WORTHWHILE: f64 = 1.0;

/// A sample of two is drawn from a copy of the list up to this length, and by rejection beyond it, as Python does.
const POOL: usize = 21;

/// How pairs are parted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parting {
    /// By what a pair is worth on average over types.
    #[default]
    Mean,
    /// By the sum over types, as in the public code.
    Sum,
}

/// Equal time for pairs and for jobs alone. `draw(n)` is a number below `n`, each as likely as the others; it is asked as
/// often as the public code asks, and in the same order.
pub fn gandiva(
    problem: &Problem,
    sharing: &Sharing,
    parting: Parting,
    partners: &mut Partners,
    draw: &mut dyn FnMut(usize) -> usize,
) -> PackedAllocation {
    let places: BTreeMap<JobId, usize> =
        problem.jobs.iter().enumerate().map(|(place, job)| (job.id, place)).collect();
    let pays = |a: &JobId, b: &JobId| match (places.get(a), places.get(b)) {
        (Some(a), Some(b)) => worth(problem, sharing, (*a, *b), parting) >= WORTHWHILE,
        _ => false,
    };
    partners.retain(|a, b| pays(a, b));
    let wanted: u64 = problem.jobs.iter().map(|job| u64::from(job.gang)).sum();
    let there: u64 = problem.pools.iter().map(|pool| u64::from(pool.gpus)).sum();
    if wanted <= there {
        return equal(problem, (0..problem.jobs.len()).map(Combination::Alone).collect());
    }
    let fits = |pair: (usize, usize)| {
        let on = |column: usize| sharing.worth(problem, pair, column) > 0.0;
        let somewhere = (0..problem.columns.len()).any(on);
        somewhere && (parting == Parting::Sum || worth(problem, sharing, pair, parting) > 0.0)
    };
    pair_up(problem, partners, draw, &fits);
    let mut combinations = Vec::new();
    for (place, job) in problem.jobs.iter().enumerate() {
        match partners.get(&job.id).map(|partner| places[partner]) {
            None => combinations.push(Combination::Alone(place)),
            Some(partner) if place < partner => combinations.push(Combination::Pair(place, partner)),
            Some(_) => {}
        }
    }
    equal(problem, combinations)
}

/// What a pair is worth; nothing if it does not fit on some type.
fn worth(problem: &Problem, sharing: &Sharing, pair: (usize, usize), parting: Parting) -> f64 {
    let columns = (0..problem.columns.len())
        .filter(|column| problem.may_run(pair.0, *column) && problem.may_run(pair.1, *column));
    let each: Vec<f64> = columns.map(|column| sharing.worth(problem, pair, column)).collect();
    if each.is_empty() || each.contains(&0.0) {
        return 0.0;
    }
    let sum: f64 = each.iter().sum();
    match parting {
        Parting::Mean => sum / each.len() as f64,
        Parting::Sum => sum,
    }
}

fn pair_up(
    problem: &Problem,
    partners: &mut Partners,
    draw: &mut dyn FnMut(usize) -> usize,
    fits: &dyn Fn((usize, usize)) -> bool,
) {
    let mut alone: Vec<usize> =
        (0..problem.jobs.len()).filter(|place| !partners.contains_key(&problem.jobs[*place].id)).collect();
    for _ in 0..alone.len() {
        if alone.len() < 2 {
            break;
        }
        let (i, j) = two_of(alone.len(), draw);
        let (a, b) = (&problem.jobs[alone[i]], &problem.jobs[alone[j]]);
        if a.gang == b.gang && fits((alone[i], alone[j])) {
            partners.insert(a.id, b.id);
            partners.insert(b.id, a.id);
            alone.remove(i.max(j));
            alone.remove(i.min(j));
        }
    }
}

/// Two different numbers below `n`.
fn two_of(n: usize, draw: &mut dyn FnMut(usize) -> usize) -> (usize, usize) {
    let first = draw(n);
    if n <= POOL {
        let second = draw(n - 1);
        return (first, if second == first { n - 1 } else { second });
    }
    loop {
        let second = draw(n);
        if second != first {
            return (first, second);
        }
    }
}

fn equal(problem: &Problem, combinations: Vec<Combination>) -> PackedAllocation {
    let count = combinations.len() as f64;
    let mut rows = Vec::new();
    for combination in &combinations {
        let (Combination::Alone(job) | Combination::Pair(job, _)) = *combination;
        let gang = f64::from(problem.jobs[job].gang);
        let own = |column: usize| {
            let is_used = !problem.columns[column].is_spread;
            if is_used { problem.gpus_of(column) / (count * gang) } else { 0.0 }
        };
        let row: Vec<f64> = (0..problem.columns.len()).map(own).collect();
        let sum = row.iter().sum::<f64>().max(1.0);
        rows.extend(row.into_iter().map(|share| share / sum));
    }
    let shares = Shares::from_rows(problem.columns.len(), rows);
    PackedAllocation { combinations, shares, objective: 0.0 }
}
