//! Fairness among entities and within them, by filling water (Gavel, section 4.3; `max_min_fairness_water_filling` in its
//! code).
//!
//! Entities share by their weights, and within an entity either all of its jobs by theirs, or one after the other as they
//! came. All levels (a job's rate over that of an equal share) rise together in these proportions until some job's cannot
//! rise any more; that one stays where it is, its entity's weight goes to its others, and the rest rise on.
//!
//! Where we differ: the public code finds the jobs that are stuck by a program in whole numbers, which counts those that can
//! still rise by a ten-thousandth. We need none: the answer lies in the middle of all best ones, and there the levels of
//! exactly those jobs are above their bounds that can be at all. Where that is too close to call, the job alone is tried.
//!
//! Each pass leaves at least one job stuck, and where an entity takes its jobs in turn often just one: then there are as
//! many programs as jobs, which takes seconds for some hundred of them. With fairness everywhere 2,048 jobs take about two
//! seconds.

use super::frame::{self, Cell, Solved, Space};
use super::packing::{PackedAllocation, Sharing};
use super::problem::{Allocation, Demand, Problem, Shares, Sight};
use super::sums::greatest;
use crate::solve::Unsolved;
use crate::solve::blocks::Level;

/// Whose jobs there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entity {
    /// Its weight among entities.
    pub weight: f64,
    /// How it shares what it has.
    pub inside: Inside,
}

/// How an entity shares what it has among its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// By their weights.
    Fairness,
    /// All to the first job that can still use it.
    Fifo,
}

/// Levels once reached may be missed by this share afterwards, so that there is room to search in.
const ROOM: f64 = 1e-7;
/// A job can rise if its level could be higher by this share; as in the public code.
const RISES: f64 = 1e-4;
/// How many times greater a level's room is than its dual, or the other way round, where it is plain which one vanishes.
const PLAIN: f64 = 1e4;

/// Shares by filling water. The objective is how far the levels rise together at first.
pub fn hierarchical(problem: &Problem, entities: &[Entity], sight: Sight) -> Result<Allocation, Unsolved> {
    Ok(match fill(problem, entities, Space::Alone(sight))? {
        Some((solved, first)) => solved.allocation(first),
        None => {
            Allocation { shares: Shares::nothing(problem.jobs.len(), problem.columns.len()), objective: 0.0 }
        }
    })
}

/// The same where jobs may share GPUs in pairs.
pub fn hierarchical_packed(
    problem: &Problem,
    entities: &[Entity],
    sharing: &Sharing,
) -> Result<PackedAllocation, Unsolved> {
    let filled = fill(problem, entities, Space::Packed(sharing))?;
    Ok(filled.map_or_else(PackedAllocation::default, |(solved, first)| solved.packed(first)))
}

/// The last program with its solution, and the first rise. Nothing if no job can have anything.
fn fill<'a>(
    problem: &'a Problem,
    entities: &'a [Entity],
    space: Space<'a>,
) -> Result<Option<(Solved<'a>, f64)>, Unsolved> {
    let equal: Vec<f64> = (0..problem.jobs.len()).map(|job| problem.equal_rate(job, space.sight())).collect();
    let mut water = Water {
        problem,
        space,
        entities,
        levels: vec![0.0; problem.jobs.len()],
        rates: vec![f64::INFINITY; problem.jobs.len()],
        is_stuck: equal.iter().map(|rate| *rate <= 0.0).collect(),
        equal,
    };
    let mut filled: Option<(Solved<'a>, f64)> = None;
    // Each pass leaves at least one more job stuck.
    for _ in 0..problem.jobs.len() {
        let weights = water.weights();
        if weights.iter().all(|weight| *weight <= 0.0) {
            break;
        }
        let solved = match water.solve(&weights) {
            Ok(solved) => solved,
            Err(error) if filled.is_none() => return Err(error),
            // What is reached already stays, as in the public code.
            Err(_) => break,
        };
        let risen = solved.answer.rise.max(0.0);
        for (job, weight) in weights.iter().enumerate() {
            water.levels[job] += risen * weight / f64::from(problem.jobs[job].gang);
        }
        water.rates = solved.rates();
        // Where a job cannot be tried, what is reached stays, too.
        let is_over = !water.stop(&solved, &weights).unwrap_or(false);
        filled = Some((solved, filled.map_or(risen, |(_, first)| first)));
        if is_over {
            break;
        }
    }
    Ok(filled)
}

struct Water<'a> {
    problem: &'a Problem,
    space: Space<'a>,
    entities: &'a [Entity],
    equal: Vec<f64>,
    levels: Vec<f64>,
    /// What jobs have by the last answer.
    rates: Vec<f64>,
    is_stuck: Vec<bool>,
}

impl<'a> Water<'a> {
    /// In which proportions levels rise now.
    fn weights(&self) -> Vec<f64> {
        let jobs = &self.problem.jobs;
        let open = |entity: usize| {
            (0..jobs.len()).filter(move |job| jobs[*job].entity == entity && !self.is_stuck[*job])
        };
        let mut weights = vec![0.0; jobs.len()];
        for (index, entity) in self.entities.iter().enumerate() {
            match entity.inside {
                Inside::Fairness => {
                    let total: f64 = open(index).map(|job| jobs[job].weight).sum();
                    open(index).for_each(|job| weights[job] = entity.weight * jobs[job].weight / total);
                }
                Inside::Fifo => open(index).take(1).for_each(|job| weights[job] = entity.weight),
            }
        }
        weights
    }

    /// The rate that a job has reached, and must keep. No more than it has by the last answer, so that all can keep theirs.
    fn floor(&self, job: usize) -> f64 {
        (self.levels[job] * self.equal[job]).min(self.rates[job]) * (1.0 - ROOM)
    }

    fn solve(&self, weights: &[f64]) -> Result<Solved<'a>, Unsolved> {
        let level = |job: usize, demand: &Demand| match (weights[job], self.floor(job)) {
            (weight, least) if weight > 0.0 => {
                Level::Rising { least, by: weight * self.equal[job] / f64::from(demand.gang) }
            }
            (_, least) if least > 0.0 => Level::Floor(least),
            _ => Level::Free,
        };
        frame::solve(self.problem, self.space, 1.0, |_| 0.0, level)
    }

    /// Notes which jobs cannot rise any more. Returns whether there are any.
    fn stop(&mut self, solved: &Solved<'_>, weights: &[f64]) -> Result<bool, Unsolved> {
        let mut stuck = Vec::new();
        let jobs = solved.frame.jobs.iter().enumerate();
        for (block, job) in jobs.filter(|(_, job)| weights[**job] > 0.0) {
            let by = weights[*job] * self.equal[*job] / f64::from(self.problem.jobs[*job].gang);
            // Of the pull on the rise, this job's part; and its room, relative to its level.
            let pull = solved.answer.level_duals[block] * by;
            let reached = self.levels[*job] * self.equal[*job];
            let room = solved.answer.level_slacks[block] / reached.max(f64::MIN_POSITIVE);
            let is_plain = pull > PLAIN * room || (room > PLAIN * pull && room > ROOM);
            let is_stuck = if is_plain { pull > room } else { !self.can_rise(*job)? };
            if is_stuck {
                stuck.push(*job);
            }
        }
        stuck.iter().for_each(|job| self.is_stuck[*job] = true);
        Ok(!stuck.is_empty())
    }

    /// Whether a job's level alone could be higher while all others keep theirs.
    fn can_rise(&self, job: usize) -> Result<bool, Unsolved> {
        let gain = |cell: &Cell| if cell.job == job { cell.rate } else { 0.0 };
        let floors: Vec<f64> = (0..self.problem.jobs.len()).map(|other| self.floor(other)).collect();
        let solved = greatest(self.problem, self.space, gain, &floors)?;
        Ok(solved.sum(gain) > (1.0 + RISES) * self.levels[job] * self.equal[job])
    }
}
