//! A real run as a workload: what its journal shows of jobs, speeds and restarts becomes the truth of simulated jobs. What was
//! decided is not taken over, so any policy can decide anew.
//!
//! Taken are: the jobs as they were declared, when they came and when their owners took them back; how fast each went, by
//! size and place; how much work each turned out to be, how it ended, and its losses; what starts, changes and stops cost;
//! changes of nodes and of the policy. What a journal cannot show is assumed, and every such assumption is counted.

mod attempts;
mod speeds;
mod truth;

use std::collections::BTreeMap;
use std::sync::Arc;

use trainyard_sched::control::{Event, Head, Outcome, Record};
use trainyard_sched::model::{JobId, NodeId, NodeState, Tenants, Time};

use crate::workload::{ImportReport, Workload};

use attempts::{JobSeen, Seen};
use speeds::Speeds;
use truth::Truths;

/// A real run, ready to be simulated.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The jobs with their truths; a job has the number that it had.
    pub workload: Workload,
    /// Changes of nodes.
    pub node_changes: Vec<(Time, NodeId, NodeState)>,
    /// Jobs that their owners took back.
    pub withdrawals: Vec<(Time, Event)>,
    /// Changes of the policy.
    pub policy_changes: Vec<(Time, Event)>,
    /// What became of each job.
    pub ends: Vec<End>,
    /// When the last record was written.
    pub last: Time,
}

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct End {
    /// When and how it ended, if it did.
    pub ended: Option<(Time, Outcome)>,
    /// Whether it ever trained, so that something was measured of it.
    pub trained: bool,
    /// Whether it was ever stopped, so that the cost of that was measured.
    pub stopped: bool,
    /// How often it failed by itself; that is not simulated.
    pub failures: u32,
}

/// Why a journal cannot be made into a workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObservedError {
    /// It has no jobs.
    #[error("no job ever arrived in this run; there is nothing to simulate")]
    NoJobs,
    /// The numbers of jobs have a gap, or are out of order.
    #[error("job {0} is missing in the journal, or came after a later one; the journal was changed")]
    Gap(u32),
}

impl Observed {
    /// Reads the records of a run. `resizes_in_place` says whether the program of a job may be resized while it runs.
    ///
    /// # Errors
    /// If there are no jobs, or their numbers make no sense.
    pub fn new(
        head: &Head,
        records: &[Record],
        resizes_in_place: impl Fn(JobId) -> bool,
    ) -> Result<Self, ObservedError> {
        let mut seen = Seen::read(head, records);
        if seen.jobs.is_empty() {
            return Err(ObservedError::NoJobs);
        }
        let mut report = ImportReport {
            source: "the journal of a real run".to_owned(),
            rows: records.len() as u64,
            kept: seen.jobs.len() as u64,
            ..ImportReport::default()
        };
        let truths = Truths::new(&seen, Speeds::estimate(&seen.jobs), resizes_in_place);
        let mut jobs = Vec::new();
        for (expected, job) in (0_u32..).zip(&seen.jobs) {
            if job.job.id != JobId(expected) {
                return Err(ObservedError::Gap(expected));
            }
            jobs.push((Arc::clone(&job.job), truths.of(job, &mut report)));
        }
        // Who came too late to take a job back might come in time if it took longer.
        let late = |job: &JobSeen| job.ended.is_some_and(|(_, outcome)| outcome != Outcome::Withdrawn);
        let ended: Vec<JobId> = seen.jobs.iter().filter(|job| late(job)).map(|job| job.job.id).collect();
        seen.withdrawals.retain(|(_, event)| event.job().is_some_and(|job| !ended.contains(&job)));
        let ends = seen.jobs.iter().map(|job| End {
            ended: job.ended,
            trained: truths.is_measured(job.job.id),
            stopped: job.was_stopped(),
            failures: job.failures(),
        });
        Ok(Self {
            ends: ends.collect(),
            workload: Workload {
                jobs,
                tenants: head.tenants.clone(),
                models: Vec::new(),
                gpu_types: head.cluster.gpu_types.iter().map(|kind| Arc::clone(&kind.name)).collect(),
                report,
            },
            node_changes: seen.node_changes,
            withdrawals: seen.withdrawals,
            policy_changes: seen.policy_changes,
            last: seen.last,
        })
    }

    /// Who owns the jobs.
    pub const fn tenants(&self) -> &Tenants {
        &self.workload.tenants
    }
}

/// The mean of some numbers; `None` of none.
fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.into_iter().fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// The middle one of some numbers; `None` of none.
fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut all: Vec<f64> = values.into_iter().collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

/// Jobs by number.
type ByJob<T> = BTreeMap<JobId, T>;
