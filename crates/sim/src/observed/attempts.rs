//! What a journal shows of each attempt of each job: when it was ordered, began, was resized, reported, and ended.

use std::sync::Arc;

use trainyard_sched::control::{Action, Event, Head, Outcome, Record};
use trainyard_sched::model::{Attempt, Cluster, Job, JobId, LossPoint, NodeId, NodeState, Span, Time};

use crate::physics::Extent;

/// Everything that matters of a journal.
pub(super) struct Seen {
    pub(super) jobs: Vec<JobSeen>,
    pub(super) node_changes: Vec<(Time, NodeId, NodeState)>,
    pub(super) withdrawals: Vec<(Time, Event)>,
    pub(super) policy_changes: Vec<(Time, Event)>,
    pub(super) last: Time,
}

/// One job.
pub(super) struct JobSeen {
    pub(super) job: Arc<Job>,
    pub(super) attempts: Vec<AttemptSeen>,
    /// Its losses as they were reported, and how many of them were no numbers.
    pub(super) losses: Vec<LossPoint>,
    pub(super) no_numbers: u64,
    pub(super) ended: Option<(Time, Outcome)>,
}

/// One attempt.
pub(super) struct AttemptSeen {
    pub(super) number: Attempt,
    pub(super) ordered: Time,
    pub(super) began: Option<Time>,
    /// Iterations that it began from.
    pub(super) from: f64,
    /// What it held, from when on. The first is what it was started with.
    pub(super) extents: Vec<(Time, Extent)>,
    pub(super) reports: Vec<Told>,
    /// From orders to hold something else until that was reported.
    pub(super) resizes: Vec<Span>,
    /// When it was ordered to hold something else, which is not reported yet.
    moving: Option<Time>,
    /// When it was told to stop.
    pub(super) stop: Option<Time>,
    pub(super) over: Option<(Time, Over)>,
}

/// One report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) at: Time,
    pub(super) iterations: f64,
    pub(super) saved: f64,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Over {
    /// As ordered; the next one goes on from so many iterations.
    Stopped(f64),
    /// With its node.
    NodeLost,
    /// By itself, and not as meant.
    Failed,
    /// With the job.
    Finished,
}

impl JobSeen {
    /// How often it failed by itself and was started again.
    pub(super) fn failures(&self) -> u32 {
        let failed = |attempt: &&AttemptSeen| matches!(attempt.over, Some((_, Over::Failed)));
        self.attempts.iter().filter(failed).count() as u32
    }

    /// Whether it was ever stopped.
    pub(super) fn was_stopped(&self) -> bool {
        self.attempts.iter().any(|attempt| matches!(attempt.over, Some((_, Over::Stopped(_)))))
    }

    /// Iterations at the latest report.
    pub(super) fn iterations(&self) -> Option<f64> {
        self.attempts.iter().rev().find_map(|attempt| Some(attempt.reports.last()?.iterations))
    }

    fn current(&mut self, number: Attempt) -> Option<&mut AttemptSeen> {
        self.attempts.last_mut().filter(|attempt| attempt.number == number && attempt.over.is_none())
    }
}

impl AttemptSeen {
    /// Until when it trained, as far as is known.
    pub(super) fn trained_until(&self, last: Time) -> Time {
        self.stop.or(self.over.map(|(at, _)| at)).unwrap_or(last)
    }

    /// The extents between two moments, with the seconds of each.
    pub(super) fn parts(&self, from: Time, to: Time) -> Vec<(Extent, f64)> {
        let mut parts: Vec<(Extent, f64)> = Vec::new();
        for (i, (since, extent)) in self.extents.iter().enumerate() {
            let until = self.extents.get(i + 1).map_or(Time::NEVER, |(next, _)| *next);
            let seconds = to.min(until).since(from.max(*since)).as_secs_f64();
            if seconds > 0.0 {
                parts.push((extent.clone(), seconds));
            }
        }
        parts
    }

    fn end(&mut self, at: Time, over: Over) {
        if let (Some(ordered), None, Over::Stopped(_)) = (self.moving, self.stop, over) {
            // It could not be resized as it ran, so it was stopped for that.
            self.stop = Some(ordered);
            self.extents.retain(|(since, _)| *since < ordered);
        }
        self.over = Some((at, over));
    }
}

impl Seen {
    pub(super) fn read(head: &Head, records: &[Record]) -> Self {
        let mut seen = Self {
            jobs: Vec::new(),
            node_changes: Vec::new(),
            withdrawals: Vec::new(),
            policy_changes: Vec::new(),
            last: records.last().map_or(Time::ZERO, |record| record.at),
        };
        for record in records {
            for event in &record.events {
                seen.event(record.at, event, record.step.unchanged.is_some());
            }
            for (job, outcome) in &record.step.ended {
                if let Some(job) = seen.job(*job) {
                    job.ended.get_or_insert((record.at, *outcome));
                }
            }
            for action in &record.step.actions {
                seen.action(&head.cluster, record.at, action);
            }
        }
        seen
    }

    fn job(&mut self, id: JobId) -> Option<&mut JobSeen> {
        // They are there by number, or the journal is refused later on.
        self.jobs.get_mut(id.index()).filter(|job| job.job.id == id)
    }

    fn attempt(&mut self, id: JobId, number: Attempt) -> Option<&mut AttemptSeen> {
        self.job(id)?.current(number)
    }

    fn event(&mut self, at: Time, event: &Event, unchanged: bool) {
        match event {
            Event::Arrived { job } => {
                if self.jobs.iter().all(|known| known.job.id != job.id) {
                    self.jobs.push(JobSeen {
                        job: Arc::clone(job),
                        attempts: Vec::new(),
                        losses: Vec::new(),
                        no_numbers: 0,
                        ended: None,
                    });
                }
            }
            Event::Withdrawn { .. } => self.withdrawals.push((at, event.clone())),
            Event::NodeChanged { node, state } => self.node_changes.push((at, *node, *state)),
            Event::PolicyChanged { .. } if !unchanged => self.policy_changes.push((at, event.clone())),
            Event::PolicyChanged { .. } | Event::Merged { .. } => {}
            _ => self.of_attempt(at, event),
        }
    }

    fn of_attempt(&mut self, at: Time, event: &Event) {
        match event {
            Event::Started { job, attempt, iterations, .. } => {
                if let Some(attempt) = self.attempt(*job, *attempt).filter(|attempt| attempt.began.is_none())
                {
                    (attempt.began, attempt.from) = (Some(at), *iterations);
                }
            }
            Event::Resized { job, attempt, .. } => {
                if let Some(attempt) = self.attempt(*job, *attempt)
                    && let Some(ordered) = attempt.moving.take()
                {
                    attempt.resizes.push(at.since(ordered));
                }
            }
            Event::Progress { job, attempt, iterations, saved, losses, .. } => {
                self.progress(
                    at,
                    (*job, *attempt),
                    Told { at, iterations: *iterations, saved: *saved },
                    losses,
                );
            }
            Event::Stopped { job, attempt, iterations } => {
                self.end(at, *job, *attempt, Over::Stopped(*iterations));
            }
            Event::StartFailed { job, attempt, .. } => self.end(at, *job, *attempt, Over::Failed),
            Event::Lost { job, attempt, node, .. } => {
                let over = if node.is_some() { Over::NodeLost } else { Over::Failed };
                self.end(at, *job, *attempt, over);
            }
            Event::Finished { job, attempt, .. } => self.end(at, *job, *attempt, Over::Finished),
            _ => {}
        }
    }

    fn progress(&mut self, at: Time, (id, number): (JobId, Attempt), told: Told, losses: &[LossPoint]) {
        let Some(job) = self.job(id) else { return };
        let Some(attempt) = job.current(number) else { return };
        if told.iterations.is_finite() && told.iterations >= 0.0 {
            // It was there before anybody saw it.
            attempt.began.get_or_insert(at);
            attempt.reports.push(told);
        }
        let good = |point: &&LossPoint| point.iteration.is_finite() && point.loss.is_finite();
        let before = job.losses.len();
        job.losses.extend(losses.iter().filter(good));
        job.no_numbers += (losses.len() - (job.losses.len() - before)) as u64;
    }

    fn end(&mut self, at: Time, id: JobId, number: Attempt, over: Over) {
        if let Some(attempt) = self.attempt(id, number) {
            attempt.end(at, over);
        }
    }

    fn action(&mut self, cluster: &Cluster, at: Time, action: &Action) {
        match action {
            Action::Start { job, attempt, allocation, .. } => {
                let extent = Extent::of(cluster, allocation);
                if let Some(job) = self.job(*job) {
                    job.attempts.push(AttemptSeen {
                        number: *attempt,
                        ordered: at,
                        began: None,
                        from: 0.0,
                        extents: vec![(at, extent)],
                        reports: Vec::new(),
                        resizes: Vec::new(),
                        moving: None,
                        stop: None,
                        over: None,
                    });
                }
            }
            Action::Stop { job, attempt, .. } => {
                if let Some(attempt) = self.attempt(*job, *attempt) {
                    attempt.stop.get_or_insert(at);
                }
            }
            Action::Resize { job, attempt, allocation, .. } => {
                let extent = Extent::of(cluster, allocation);
                if let Some(attempt) = self.attempt(*job, *attempt) {
                    attempt.moving = Some(at);
                    attempt.extents.push((at, extent));
                }
            }
            Action::Merge { .. } => {}
        }
    }
}
