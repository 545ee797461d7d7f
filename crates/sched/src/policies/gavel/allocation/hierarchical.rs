//! Fairness among entities and within them, by filling water (Gavel, section 4.3; `max_min_fairness_water_filling` in its code).
//!
//! Entities share by their weights, and within an entity either all of its jobs by theirs, or one after the other as they
//! came. All levels (a job's rate over that of an equal share) rise together in these proportions until some job's cannot
//! rise any more; that one stays where it is, its entity's weight goes to its others, and the rest rise on.
//!
//! Where we differ: the public code finds the jobs that are stuck by a program in whole numbers, which counts those that can
//! still rise by a ten-thousandth. We need none: the answer lies in the middle of all best ones, and there the levels of
//! exactly those jobs are above their bounds that can be at all. Where that is too close to call, the job alone is tried.

use super::frame::Frame;
use super::problem::{Allocation, Problem, Shares, Sight};
use crate::solve::Unsolved;
use crate::solve::blocks::{Answer, Level};

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
    let equal: Vec<f64> = (0..problem.jobs.len()).map(|job| problem.equal_rate(job, sight)).collect();
    let mut water = Water {
        problem,
        sight,
        entities,
        levels: vec![0.0; problem.jobs.len()],
        is_stuck: equal.iter().map(|rate| *rate <= 0.0).collect(),
        equal,
    };
    let mut first = None;
    let mut shares = Shares::nothing(problem.jobs.len(), problem.columns.len());
    // Each pass leaves at least one more job stuck.
    for _ in 0..problem.jobs.len() {
        let weights = water.weights();
        if weights.iter().all(|weight| *weight <= 0.0) {
            break;
        }
        let frame = water.frame(&weights);
        let answer = match (frame.solve(), first) {
            (Ok(answer), _) => answer,
            (Err(error), None) => return Err(error),
            // What is reached already stays.
            (Err(_), Some(_)) => break,
        };
        shares = frame.shares(&answer);
        first.get_or_insert(answer.rise);
        let risen = answer.rise.max(0.0);
        for (job, weight) in weights.iter().enumerate() {
            water.levels[job] += risen * weight / f64::from(problem.jobs[job].gang);
        }
        if !water.stop(&frame, &answer, &weights)? {
            break;
        }
    }
    Ok(Allocation { shares, objective: first.unwrap_or(0.0) })
}

struct Water<'a> {
    problem: &'a Problem,
    sight: Sight,
    entities: &'a [Entity],
    equal: Vec<f64>,
    levels: Vec<f64>,
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

    fn floor(&self, job: usize) -> f64 {
        self.levels[job] * (1.0 - ROOM)
    }

    fn slope(&self, job: usize, column: usize) -> f64 {
        self.problem.believed(job, column, self.sight) / self.equal[job]
    }

    fn frame(&self, weights: &[f64]) -> Frame<'a> {
        Frame::new(
            self.problem,
            1.0,
            |job, column| (0.0, self.slope(job, column)),
            |job, demand| match weights[job] {
                weight if weight > 0.0 => {
                    Level::Rising { least: self.floor(job), by: weight / f64::from(demand.gang) }
                }
                _ if self.levels[job] > 0.0 => Level::Floor(self.floor(job)),
                _ => Level::Free,
            },
        )
    }

    /// Notes which jobs cannot rise any more. Returns whether there are any.
    fn stop(&mut self, frame: &Frame<'_>, answer: &Answer, weights: &[f64]) -> Result<bool, Unsolved> {
        let mut stuck = Vec::new();
        for (block, job) in frame.jobs.iter().enumerate().filter(|(_, job)| weights[**job] > 0.0) {
            let by = weights[*job] / f64::from(self.problem.jobs[*job].gang);
            // Of the pull on the rise, this job's part; and its room, relative to its level.
            let pull = answer.level_duals[block] * by;
            let room = answer.level_slacks[block] / self.levels[*job].max(f64::MIN_POSITIVE);
            let is_stuck = if pull > PLAIN * room {
                true
            } else if room > PLAIN * pull {
                room < ROOM && !self.can_rise(*job)?
            } else {
                !self.can_rise(*job)?
            };
            if is_stuck {
                stuck.push(*job);
            }
        }
        stuck.iter().for_each(|job| self.is_stuck[*job] = true);
        Ok(!stuck.is_empty())
    }

    /// Whether a job's level alone could be higher while all others keep theirs.
    fn can_rise(&self, job: usize) -> Result<bool, Unsolved> {
        let frame = Frame::new(
            self.problem,
            0.0,
            |other, column| {
                let slope = self.slope(other, column);
                (if other == job { slope } else { 0.0 }, slope)
            },
            |other, _| match self.floor(other) {
                floor if floor > 0.0 => Level::Floor(floor),
                _ => Level::Free,
            },
        );
        Ok(frame.solve()?.objective > (1.0 + RISES) * self.levels[job])
    }
}
