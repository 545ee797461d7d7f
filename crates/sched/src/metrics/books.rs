//! What the copies of jobs did, as they report it: a second account of all steps, for whoever checks that none is done twice and
//! that copies end together.

use std::collections::{BTreeMap, BTreeSet};

use crate::control::{Action, Batch, Event, Log, Step};
use crate::model::{Allocation, Attempt, CopyId, CopyProgress, JobId, NodeId, Quotas, Time};

/// Steps that may differ because numbers are rounded.
const ROUNDING: f64 = 1e-6;

/// The account.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CopyBooks {
    /// Steps of all copies of each job as they were told last, by attempt.
    pub steps: BTreeMap<JobId, BTreeMap<(Attempt, CopyId), f64>>,
    /// Steps of each job in all, added up from what its copies did between two reports.
    pub sums: BTreeMap<JobId, f64>,
    /// When each job ended, and when each of its copies had done its last step.
    pub ends: BTreeMap<JobId, (Time, BTreeMap<CopyId, Time>)>,
    /// Where the copies of each job were to be at last, and how far each might go then.
    pub last: BTreeMap<JobId, (Allocation, Quotas)>,
    /// Times that copies were brought together.
    pub merges: u32,
    /// Reports in which all steps were not those that there were before and those of the copies.
    pub mismatches: u32,
    /// For each loss, how far the job was and what is kept.
    pub lost: Vec<(f64, f64)>,
    /// How far each job was, and when its attempt began or its copies changed.
    far: BTreeMap<JobId, f64>,
    base: BTreeMap<JobId, f64>,
    /// What each copy was last told to have done since its number was given.
    told: BTreeMap<(JobId, CopyId), f64>,
    /// Merges that were told.
    merged: BTreeSet<(JobId, Attempt, u32)>,
}

impl Log for CopyBooks {
    fn step(&mut self, batch: &Batch, step: &Step) {
        step.actions.iter().for_each(|action| self.ordered(action));
        for event in &batch.events {
            match event {
                Event::Started { job, .. } => {
                    self.base.remove(job);
                    self.told.retain(|(other, _), _| other != job);
                }
                Event::Resized { job, allocation, .. } => {
                    self.base.remove(job);
                    let is_there = |copy| allocation.placements().iter().any(|p| p.copy == copy);
                    self.told.retain(|(other, copy), _| other != job || is_there(*copy));
                }
                Event::Lost { job, iterations, .. } => {
                    let far = self.far.get(job).copied().unwrap_or(0.0);
                    self.lost.push((far, *iterations));
                }
                Event::Progress { job, attempt, iterations, copies, .. } => {
                    self.reported(batch.at, (*job, *attempt), *iterations, copies);
                }
                Event::Merged { job, attempt, number } => {
                    self.merges += u32::from(self.merged.insert((*job, *attempt, *number)));
                }
                Event::Finished { job, .. } => self.ends.entry(*job).or_default().0 = batch.at,
                _ => {}
            }
        }
    }
}

impl CopyBooks {
    fn ordered(&mut self, action: &Action) {
        match action {
            Action::Start { job, allocation, quotas, .. }
            | Action::Resize { job, allocation, quotas, .. } => {
                self.last.insert(*job, (allocation.clone(), quotas.clone()));
            }
            Action::Merge { job, quotas, .. } => {
                self.last.entry(*job).or_default().1 = quotas.clone();
            }
            Action::Stop { .. } => {}
        }
    }

    fn reported(
        &mut self,
        at: Time,
        (job, attempt): (JobId, Attempt),
        iterations: f64,
        copies: &[CopyProgress],
    ) {
        let before = self.far.insert(job, iterations).unwrap_or(0.0);
        let mut done = if copies.is_empty() { iterations - before } else { 0.0 };
        for told in copies {
            let before = self.told.insert((job, told.copy), told.iterations);
            // A number that was given again counts from nothing.
            done += told.iterations - before.filter(|before| *before <= told.iterations).unwrap_or(0.0);
        }
        *self.sums.entry(job).or_default() += done;
        if !copies.is_empty() {
            let rest = iterations - copies.iter().map(|told| told.iterations).sum::<f64>();
            let base = *self.base.entry(job).or_insert(rest);
            self.mismatches += u32::from((base - rest).abs() > ROUNDING);
        }
        for told in copies {
            let before = self.steps.entry(job).or_default().insert((attempt, told.copy), told.iterations);
            if before != Some(told.iterations) {
                self.ends.entry(job).or_default().1.insert(told.copy, at);
            }
        }
    }

    /// Of a job that ended with several copies, the node of each, and how much sooner than the job it did its last step, in
    /// seconds. Those that were given nothing for what was left, since others were done before they could begin, do not count.
    pub fn sooner_s(&self, job: JobId) -> Vec<(NodeId, f64)> {
        let Some(((held, quotas), (end, last))) = self.last.get(&job).zip(self.ends.get(&job)) else {
            return Vec::new();
        };
        if held.copies() < 2 {
            return Vec::new();
        }
        let places = held.placements().iter().filter(|p| quotas.of(p.copy).is_none_or(|quota| quota > 0));
        // Whoever never said anything has done nothing since the beginning.
        let sooner_s = |copy| end.since(last.get(&copy).copied().unwrap_or(Time::ZERO)).as_secs_f64();
        places.map(|place| (place.node, sooner_s(place.copy))).collect()
    }
}
