//! Who holds what, followed through the steps of a run. What is measured about devices is folded from the changes that
//! this tells of. It believes an event once and only if it is about the current attempt, as the loop does.
//!
//! Memory: 16 bytes for each job ever, and what a job holds while it is open.

use std::sync::Arc;

use crate::control::{Action, Batch, Event, Outcome, Step};
use crate::model::{Allocation, Attempt, Job, JobId, NodeId, NodeState, Time};

/// How a stretch of holding devices came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It did not: the run was over first.
    StillHeld,
    /// The job ended.
    Ended(Outcome),
    /// The job was told to stop, and waits again.
    Stopped,
    /// The job went on with other devices.
    Moved,
    /// The job failed or lost its node, and waits again.
    Lost,
    /// The job never came to begin there.
    NotStarted,
}

/// Something that changed.
pub(super) enum Change<'a> {
    /// A job is there.
    Arrived(&'a Job),
    /// A job that was cut short is there again.
    TakenUp(&'a Job),
    /// A job has devices from now on.
    Took(&'a Job, &'a Allocation),
    /// A job had devices since some time and has them no longer.
    LetGo(&'a Job, &'a Allocation, Time, Left),
    /// A job is over.
    Gone(&'a Job),
    /// A node came, went, or began to drain.
    Node(NodeId, NodeState),
}

/// Who holds what.
#[derive(Clone, Debug, Default)]
pub(super) struct Holdings {
    jobs: Vec<Slot>,
}

#[derive(Clone, Debug, Default)]
enum Slot {
    /// Never heard of.
    #[default]
    Unknown,
    /// Arrived and not ended.
    Open(Box<Open>),
    /// Was cut short, and may come back.
    Parted(Arc<Job>),
    /// Ended; nothing that comes late is believed.
    Over,
}

#[derive(Clone, Debug)]
struct Open {
    job: Arc<Job>,
    attempt: Attempt,
    held: Option<(Allocation, Time)>,
}

impl Holdings {
    /// A job that is there.
    pub(super) fn job(&self, id: JobId) -> Option<&Job> {
        match self.jobs.get(id.index()) {
            Some(Slot::Open(open)) => Some(&open.job),
            _ => None,
        }
    }

    /// Tells what the events of a step changed, and which jobs are over.
    pub(super) fn events(&mut self, batch: &Batch, step: &Step, tell: &mut impl FnMut(Change<'_>)) {
        let at = batch.at;
        let ended = |id: JobId| step.ended.iter().find(|(job, _)| *job == id).map(|(_, outcome)| *outcome);
        for event in &batch.events {
            match event {
                Event::Arrived { job } => self.arrived(job, tell),
                Event::NodeChanged { node, state } => tell(Change::Node(*node, *state)),
                Event::Resized { job, attempt, allocation, .. } => {
                    if self.let_go(at, *job, *attempt, Left::Moved, tell) {
                        self.took(at, *job, *attempt, allocation, tell);
                    }
                }
                Event::Stopped { job, attempt, .. } => {
                    let left = ended(*job).map_or(Left::Stopped, Left::Ended);
                    self.let_go(at, *job, *attempt, left, tell);
                }
                Event::Lost { job, attempt, .. } => {
                    self.let_go(at, *job, *attempt, Left::Lost, tell);
                }
                Event::StartFailed { job, attempt, .. } => {
                    self.let_go(at, *job, *attempt, Left::NotStarted, tell);
                }
                Event::Finished { job, attempt, outcome } => {
                    let outcome = ended(*job).unwrap_or(*outcome);
                    if self.let_go(at, *job, *attempt, Left::Ended(outcome), tell) {
                        self.over(at, *job, outcome, tell);
                    }
                }
                Event::Resumed { job } => self.taken_up(*job, tell),
                Event::Withdrawn { .. }
                | Event::PolicyChanged { .. }
                | Event::Started { .. }
                | Event::Progress { .. }
                | Event::Used { .. }
                | Event::Merged { .. } => {}
            }
        }
        for (id, outcome) in &step.ended {
            let job = self.open(*id).map(|open| Arc::clone(&open.job));
            self.over(at, *id, *outcome, tell);
            if let Some(job) = job.filter(|job| step.early.iter().any(|(early, _)| *early == job.id)) {
                self.jobs[id.index()] = Slot::Parted(job);
            }
        }
    }

    /// Tells what the actions of a step give away.
    pub(super) fn actions(&mut self, at: Time, step: &Step, tell: &mut impl FnMut(Change<'_>)) {
        for action in &step.actions {
            if let Action::Start { job, attempt, allocation, .. } = action {
                self.took(at, *job, *attempt, allocation, tell);
            }
        }
    }

    /// Lets everything go that is still held.
    pub(super) fn finish(&mut self, tell: &mut impl FnMut(Change<'_>)) {
        for slot in &mut self.jobs {
            if let Slot::Open(open) = slot
                && let Some((allocation, since)) = open.held.take()
            {
                tell(Change::LetGo(&open.job, &allocation, since, Left::StillHeld));
            }
        }
    }

    fn arrived(&mut self, job: &Arc<Job>, tell: &mut impl FnMut(Change<'_>)) {
        let i = job.id.index();
        if self.jobs.len() <= i {
            self.jobs.resize_with(i + 1, Slot::default);
        }
        if matches!(self.jobs[i], Slot::Unknown) {
            let (job, attempt) = (Arc::clone(job), Attempt::default());
            tell(Change::Arrived(&job));
            self.jobs[i] = Slot::Open(Box::new(Open { job, attempt, held: None }));
        }
    }

    fn taken_up(&mut self, id: JobId, tell: &mut impl FnMut(Change<'_>)) {
        if let Some(slot) = self.jobs.get_mut(id.index())
            && let Slot::Parted(job) = slot
        {
            let job = Arc::clone(job);
            tell(Change::TakenUp(&job));
            *slot = Slot::Open(Box::new(Open { job, attempt: Attempt::default(), held: None }));
        }
    }

    fn open(&mut self, id: JobId) -> Option<&mut Open> {
        match self.jobs.get_mut(id.index()) {
            Some(Slot::Open(open)) => Some(open),
            _ => None,
        }
    }

    fn took(
        &mut self,
        at: Time,
        id: JobId,
        attempt: Attempt,
        allocation: &Allocation,
        tell: &mut impl FnMut(Change<'_>),
    ) {
        if let Some(open) = self.open(id).filter(|open| open.held.is_none()) {
            open.attempt = attempt;
            open.held = Some((allocation.clone(), at));
            tell(Change::Took(&open.job, allocation));
        }
    }

    /// Whether there was something to let go.
    fn let_go(
        &mut self,
        at: Time,
        id: JobId,
        attempt: Attempt,
        left: Left,
        tell: &mut impl FnMut(Change<'_>),
    ) -> bool {
        let Some(open) = self.open(id).filter(|open| open.attempt == attempt) else { return false };
        let Some((allocation, since)) = open.held.take() else { return false };
        debug_assert!(since <= at, "time does not fall");
        tell(Change::LetGo(&open.job, &allocation, since, left));
        true
    }

    fn over(&mut self, at: Time, id: JobId, outcome: Outcome, tell: &mut impl FnMut(Change<'_>)) {
        let Some(open) = self.open(id) else { return };
        let attempt = open.attempt;
        self.let_go(at, id, attempt, Left::Ended(outcome), tell);
        if let Some(Slot::Open(open)) = self.jobs.get_mut(id.index()).map(std::mem::take) {
            tell(Change::Gone(&open.job));
        }
        self.jobs[id.index()] = Slot::Over;
    }
}
