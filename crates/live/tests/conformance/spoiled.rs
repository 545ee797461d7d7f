//! Stages with a fault on purpose: the script must notice each of them.

use std::collections::{BTreeMap, BTreeSet};

use trainyard_sched::control::{Action, Backend, Batch, Event, Outcome};
use trainyard_sched::decide::Abilities;
use trainyard_sched::model::{Allocation, Attempt, JobId, NodeId, NodeState, Quotas, Span, Time};

use super::stage::{Presence, Stage};

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Nothing,
    StartIgnored,
    StopIgnored,
    ResizeIgnored,
    MergeIgnored,
    OldStopObeyed,
    OldStartObeyed,
    WrongAttempt,
    StartsFromNought,
    StartedTwice,
    LostSwallowed,
    StoppedSwallowed,
    FinishedSwallowed,
    EndsTwice,
    OtherEnd,
    SavedGone,
    SavedBeyond,
    GoesBack,
    NoNumber,
    NoSpeed,
    NoLosses,
    LossesReversed,
    OtherSize,
    ClockBack,
    Overslept,
    NodeUnchanged,
    MovesOntoDown,
    TwoAtOnce,
    StaysThere,
    OtherDevices,
    HalfAGang,
    QuotasIgnored,
    CopiesUntold,
    MergeAgain,
    CopyKept,
}

/// All of them.
pub(crate) const FAULTS: [Fault; 34] = [
    Fault::QuotasIgnored,
    Fault::CopiesUntold,
    Fault::MergeAgain,
    Fault::CopyKept,
    Fault::StartIgnored,
    Fault::StopIgnored,
    Fault::ResizeIgnored,
    Fault::MergeIgnored,
    Fault::OldStopObeyed,
    Fault::OldStartObeyed,
    Fault::WrongAttempt,
    Fault::StartsFromNought,
    Fault::StartedTwice,
    Fault::LostSwallowed,
    Fault::StoppedSwallowed,
    Fault::FinishedSwallowed,
    Fault::EndsTwice,
    Fault::OtherEnd,
    Fault::SavedGone,
    Fault::SavedBeyond,
    Fault::GoesBack,
    Fault::NoNumber,
    Fault::NoSpeed,
    Fault::NoLosses,
    Fault::LossesReversed,
    Fault::OtherSize,
    Fault::ClockBack,
    Fault::Overslept,
    Fault::NodeUnchanged,
    Fault::MovesOntoDown,
    Fault::TwoAtOnce,
    Fault::StaysThere,
    Fault::OtherDevices,
    Fault::HalfAGang,
];

/// A stage that is broken.
pub(crate) struct Spoiled {
    inner: Box<dyn Stage>,
    fault: Fault,
    latest: BTreeMap<JobId, Attempt>,
    batches: u64,
    /// What only seems to happen.
    pretended: Vec<Event>,
    ghosts: BTreeSet<(JobId, Attempt)>,
    down: BTreeSet<NodeId>,
    /// How far jobs are.
    iterations: BTreeMap<JobId, f64>,
    now: Time,
}

impl Spoiled {
    pub(crate) fn new(inner: Box<dyn Stage>, fault: Fault) -> Self {
        let (latest, ghosts, down) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let (iterations, now) = (BTreeMap::new(), Time::ZERO);
        Self { inner, fault, latest, batches: 0, pretended: Vec::new(), ghosts, down, iterations, now }
    }

    fn spoil(&self, event: Event) -> Vec<Event> {
        match (self.fault, event) {
            (Fault::LostSwallowed, Event::Lost { .. })
            | (Fault::StoppedSwallowed, Event::Stopped { .. })
            | (Fault::FinishedSwallowed, Event::Finished { .. }) => Vec::new(),
            (Fault::WrongAttempt, Event::Stopped { job, attempt, iterations }) => {
                vec![Event::Stopped { job, attempt: attempt.next(), iterations }]
            }
            (Fault::StartsFromNought, Event::Started { job, attempt, speed, .. }) => {
                vec![Event::Started { job, attempt, iterations: 0.0, speed }]
            }
            (Fault::StartedTwice, event @ Event::Started { .. }) => vec![event.clone(), event],
            (Fault::EndsTwice, event @ Event::Stopped { job, attempt, .. }) => {
                vec![event, Event::Finished { job, attempt, outcome: Outcome::Completed }]
            }
            (Fault::OtherEnd, Event::Finished { job, attempt, .. }) => {
                vec![Event::Finished { job, attempt, outcome: Outcome::Killed }]
            }
            (Fault::SavedGone, Event::Stopped { job, attempt, .. }) => {
                vec![Event::Stopped { job, attempt, iterations: 0.0 }]
            }
            (Fault::OtherSize, Event::Resized { job, attempt, iterations, speed, .. }) => {
                vec![Event::Resized { job, attempt, allocation: Allocation::NONE, iterations, speed }]
            }
            (Fault::CopyKept, Event::Lost { job, attempt, node, .. }) => {
                let iterations = self.iterations.get(&job).copied().unwrap_or(0.0);
                vec![Event::Lost { job, attempt, node, iterations }]
            }
            (Fault::MergeAgain, Event::Merged { job, attempt, number }) => {
                vec![Event::Merged { job, attempt, number }; 2]
            }
            (_, Event::Progress { job, attempt, iterations, speed, saved, losses, mut copies }) => {
                if self.fault == Fault::CopiesUntold {
                    copies.clear();
                }
                let mut told = (iterations, speed, saved, losses);
                self.spoil_progress(&mut told);
                let (iterations, speed, saved, losses) = told;
                vec![Event::Progress { job, attempt, iterations, speed, saved, losses, copies }]
            }
            (_, event) => vec![event],
        }
    }

    fn spoil_progress(&self, told: &mut (f64, f64, f64, Vec<trainyard_sched::model::LossPoint>)) {
        match self.fault {
            Fault::SavedBeyond => told.2 = told.0 + 1.0,
            Fault::GoesBack if self.batches.is_multiple_of(2) => (told.0, told.2) = (0.0, 0.0),
            Fault::NoNumber => told.1 = f64::NAN,
            Fault::NoSpeed => told.1 = 0.0,
            Fault::NoLosses => told.3.clear(),
            Fault::LossesReversed => told.3.reverse(),
            _ => {}
        }
    }
}

impl Backend for Spoiled {
    fn abilities(&self) -> Abilities {
        Abilities::ALL
    }

    fn wait(&mut self, until: Option<Time>) -> Option<Batch> {
        if !self.pretended.is_empty() {
            return Some(Batch { at: self.now, events: std::mem::take(&mut self.pretended) });
        }
        let mut batch = self.inner.backend().wait(until)?;
        self.batches += 1;
        self.now = batch.at;
        match self.fault {
            Fault::ClockBack if self.batches.is_multiple_of(2) => {
                batch.at = Time(batch.at.0.saturating_sub(500_000));
            }
            Fault::Overslept if batch.events.is_empty() => batch.at = batch.at + Span::from_secs(100),
            _ => {}
        }
        for event in &batch.events {
            if let Event::Progress { job, iterations, .. } = event {
                self.iterations.insert(*job, *iterations);
            }
        }
        let events = std::mem::take(&mut batch.events);
        batch.events = events.into_iter().flat_map(|event| self.spoil(event)).collect();
        Some(batch)
    }

    fn perform(&mut self, action: &Action) {
        let latest = self.latest.get(&action.job()).copied().unwrap_or(Attempt(0));
        let mut action = action.clone();
        match (self.fault, &mut action) {
            (Fault::StartIgnored, Action::Start { .. })
            | (Fault::StopIgnored, Action::Stop { .. })
            | (Fault::ResizeIgnored, Action::Resize { .. })
            | (Fault::MergeIgnored, Action::Merge { .. }) => return,
            (Fault::QuotasIgnored, Action::Start { quotas, .. } | Action::Merge { quotas, .. }) => {
                *quotas = Quotas::NONE;
            }
            (Fault::OldStopObeyed, Action::Stop { attempt, .. }) => *attempt = latest,
            (Fault::OldStartObeyed, Action::Start { attempt, .. }) if *attempt <= latest => {
                *attempt = latest.next();
            }
            _ => {}
        }
        if let (Fault::MovesOntoDown, Action::Resize { job, attempt, allocation, .. }) = (self.fault, &action)
            && allocation.nodes().iter().any(|node| self.down.contains(node))
        {
            let (job, attempt, allocation) = (*job, *attempt, allocation.clone());
            let iterations = self.iterations.get(&job).copied().unwrap_or(0.0);
            self.pretended.push(Event::Resized { job, attempt, allocation, iterations, speed: 1.0 });
        }
        if let Action::Start { job, attempt, .. } = &action {
            self.latest.insert(*job, latest.max(*attempt));
        }
        self.inner.backend().perform(&action);
    }
}

impl Stage for Spoiled {
    fn backend(&mut self) -> &mut dyn Backend {
        self
    }

    fn set_node(&mut self, node: NodeId, state: NodeState) {
        if state == NodeState::Down {
            self.down.insert(node);
        }
        if self.fault == Fault::NodeUnchanged {
            self.pretended.push(Event::NodeChanged { node, state });
        } else {
            self.inner.set_node(node, state);
        }
    }

    fn withdraw(&mut self, job: JobId) {
        self.inner.withdraw(job);
    }

    fn really_there(&mut self) -> Vec<Presence> {
        let mut there = self.inner.really_there();
        match self.fault {
            Fault::TwoAtOnce => there.extend(there.clone()),
            Fault::StaysThere => {
                self.ghosts.extend(there.iter().map(|presence| (presence.job, presence.attempt)));
                let ghosts = self.ghosts.iter();
                there = ghosts
                    .map(|(job, attempt)| Presence { job: *job, attempt: *attempt, parts: 1, devices: None })
                    .collect();
            }
            Fault::OtherDevices => {
                let devices = there.iter_mut().filter_map(|presence| presence.devices.as_mut());
                devices.flatten().for_each(|bits| *bits <<= 1);
            }
            Fault::HalfAGang => there.iter_mut().for_each(|presence| presence.parts = presence.parts.min(1)),
            _ => {}
        }
        there
    }

    fn words(&mut self) -> String {
        self.inner.words()
    }
}
