//! Events in, actions out: the state machine around a policy.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::decide::{Abilities, Cadence, Change, Decision, EarlyEnd, Policy, Verdict};
use crate::model::{Cluster, JobId, Seed, Span, Tenants, Time};
use crate::view::{Causes, Snapshot};

use super::check::check_against;
use super::{Action, Batch, Event, Fault, Moment, Outcome, State, due};

/// When a policy that panicked is asked again, if nothing else gives cause to.
const ASK_AGAIN: Span = Span::from_secs(5);

/// The decision loop's state: what is believed, what is wanted, and who decides.
pub struct Core {
    state: State,
    policy: Box<dyn Policy>,
    cadence: Cadence,
    settings: Settings,
    /// Decisions made so far.
    decisions: u64,
    /// Why a decision is asked for, gathered until one is made.
    cause: Causes,
    alarm: Option<Time>,
    /// When the next round begins, while there are jobs.
    next_round: Option<Time>,
    maker: Option<Maker>,
}

/// Makes a policy of this name with these parameters, or says why not.
pub type Maker = Box<dyn Fn(&str, &toml::Table) -> Result<Box<dyn Policy>, String> + Send>;

/// How the loop runs.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// The seed of the run.
    pub seed: Seed,
    /// What the backend can do.
    pub abilities: Abilities,
    /// Whether a faulty decision ends the run (tests, simulations) or loses only its faulty parts (live).
    pub strict: bool,
}

/// What one step decided and ordered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The decision, if one was asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub decision: Option<Decision>,
    /// What was wrong with it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub faults: Vec<Fault>,
    /// What the policy said when it panicked; the previous targets stand.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub panic: Option<String>,
    /// Why a change of the policy was not made; the old one stands.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unchanged: Option<String>,
    /// Jobs that ended by what was decided, not by an event.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub ended: Vec<(JobId, Outcome)>,
    /// Why those of them that were cut short were, and what that spared.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub early: Vec<(JobId, EarlyEnd)>,
    /// What to do now.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub actions: Vec<Action>,
    /// When to wake up at the latest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wake: Option<Time>,
}

impl Core {
    /// A loop at the beginning of a run.
    pub fn new(cluster: Cluster, tenants: Tenants, policy: Box<dyn Policy>, settings: Settings) -> Self {
        let cadence = policy.cadence();
        let mut state = State::new(Arc::new(cluster), Arc::new(tenants));
        state.set_fitting(policy.fitting());
        Self {
            state,
            policy,
            cadence,
            settings,
            decisions: 0,
            cause: Causes::NONE,
            alarm: None,
            next_round: None,
            maker: None,
        }
    }

    /// The same with a way to make policies, so that one can be replaced by an event.
    #[must_use]
    pub fn with_maker(mut self, maker: Maker) -> Self {
        self.maker = Some(maker);
        self
    }

    /// The run as it stands, to be gone on with from here more than once.
    pub fn moment(&self, at: Time) -> Moment {
        Moment {
            at,
            state: self.state.clone(),
            settings: self.settings,
            decisions: self.decisions,
            cause: self.cause,
            alarm: self.alarm,
            next_round: self.next_round,
        }
    }

    pub(super) fn resumed(moment: &Moment, policy: Box<dyn Policy>) -> Self {
        let mut state = moment.state.clone();
        state.set_fitting(policy.fitting());
        Self {
            state,
            cadence: policy.cadence(),
            policy,
            settings: moment.settings,
            decisions: moment.decisions,
            cause: moment.cause,
            alarm: moment.alarm,
            next_round: moment.next_round,
            maker: None,
        }
    }

    /// What is believed.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// What the policy needs and the backend lacks.
    pub fn lacks(&self) -> Abilities {
        self.settings.abilities.lacks(self.policy.needs())
    }

    /// Replaces the policy; the next step asks it. Notes of the old one are forgotten, and how far it let copies go.
    pub fn set_policy(&mut self, policy: Box<dyn Policy>) {
        self.cadence = policy.cadence();
        self.policy = policy;
        self.state.forget_notes();
        self.state.lift_quotas();
        self.state.set_fitting(self.policy.fitting());
        self.cause.add(Causes::POLICY);
        self.next_round = None;
        self.alarm = None;
    }

    /// The picture that the policy would be shown now.
    pub fn snapshot(&self, at: Time) -> Snapshot {
        let number = self.decisions;
        self.state.snapshot(at, self.cause, self.settings.seed.numbered(number), number)
    }

    /// Why a job runs or waits: the policy is asked anew, with a picture taken now.
    pub fn explain(&mut self, at: Time, job: JobId) -> Option<Verdict> {
        let seen = self.snapshot(at);
        seen.job(job)?;
        Some(self.policy.explain(&seen, job))
    }

    /// Applies what happened, decides if it is time to, and says what is due.
    pub fn step(&mut self, batch: &Batch) -> Step {
        let mut step = self.apply(batch, true);
        if self.is_time_to_decide(batch.at) {
            self.decide(batch.at, &mut step);
        }
        step.actions = due(&mut self.state, self.settings.abilities);
        for action in &step.actions {
            self.state.order(batch.at, action);
        }
        step.wake = self.next_wake(batch.at);
        step
    }

    /// Goes through a step that was made before, without asking the policy: what was decided then is taken over. A
    /// program that comes back to life goes on from there, even if its policy would decide otherwise today. It fails if a
    /// policy that was chosen then cannot be made any more.
    pub fn retell(&mut self, batch: &Batch, step: &Step) -> Result<(), String> {
        if let Some(why) = self.apply(batch, step.unchanged.is_none()).unchanged {
            return Err(why);
        }
        let _ = self.is_time_to_decide(batch.at);
        if step.panic.is_some() {
            self.skip_numbers(batch.at);
        } else if let Some(decision) = &step.decision {
            self.take_over(batch.at, decision);
            for fault in &step.faults {
                self.state.touch(fault.job());
            }
        }
        let _ = (self.state.take_ended(), self.state.take_early());
        for action in &step.actions {
            self.state.order(batch.at, action);
        }
        Ok(())
    }

    fn apply(&mut self, batch: &Batch, may_change_policy: bool) -> Step {
        let mut step = Step::default();
        for event in &batch.events {
            if let Event::PolicyChanged { policy, parameters } = event
                && may_change_policy
            {
                step.unchanged = self.change_policy(policy, parameters).err();
            }
            self.cause.add(self.state.apply(batch.at, event));
        }
        (step.ended, step.early) = (self.state.take_ended(), self.state.take_early());
        step
    }

    fn change_policy(&mut self, name: &str, parameters: &toml::Table) -> Result<(), String> {
        let maker = self.maker.as_ref().ok_or("this loop cannot make policies")?;
        let policy = maker(name, parameters)?;
        let lacks = self.settings.abilities.lacks(policy.needs());
        if !lacks.is_none() {
            return Err(format!("policy {name} needs {lacks}, which this cluster cannot do"));
        }
        self.set_policy(policy);
        Ok(())
    }

    fn is_time_to_decide(&mut self, at: Time) -> bool {
        let alarm = self.alarm.is_some_and(|alarm| alarm <= at);
        let starts_round = self.starts_round(at);
        if alarm || starts_round {
            self.cause.add(Causes::ALARM);
        }
        self.cause.any_of(self.cadence.causes()) || alarm || starts_round
    }

    /// Rounds follow each other without a gap while there are jobs; after an idle time the first
    /// arrival begins one.
    fn starts_round(&mut self, at: Time) -> bool {
        let Some(span) = self.cadence.round() else { return false };
        if !self.state.has_jobs() {
            self.next_round = None;
            return false;
        }
        let edge = self.next_round.unwrap_or(at);
        if at < edge {
            return false;
        }
        let late = at.since(edge).0 / span.0.max(1);
        self.next_round = Some(edge + Span(span.0.max(1) * (late + 1)));
        true
    }

    /// When the loop wants to be woken at the latest, as of `at`.
    pub fn next_wake(&self, at: Time) -> Option<Time> {
        let wake = [self.alarm, self.next_round].into_iter().flatten().min();
        wake.map(|wake| Time(wake.0.max(at.0.saturating_add(1))))
    }

    fn decide(&mut self, at: Time, step: &mut Step) {
        let seen = self.snapshot(at);
        let mut decision = match self.ask(&seen) {
            Ok(decision) => decision,
            Err(message) => {
                step.panic = Some(message);
                self.skip_numbers(at);
                return;
            }
        };
        let abilities = self.settings.abilities;
        // Dropping one job's part may make another's wrong (it counted on the room), so look again.
        loop {
            let faults = check_against(&seen, &decision, abilities, self.state.planned());
            if faults.is_empty() {
                break;
            }
            assert!(!self.settings.strict, "decision {} at {at} is faulty: {faults:?}", seen.number);
            drop_faulty(&mut decision, &faults);
            step.faults.extend(faults);
        }
        drop(seen);
        self.take_over(at, &decision);
        // The policy is shown next time that such a job did not get what it decided.
        for fault in &step.faults {
            self.state.touch(fault.job());
        }
        step.ended.extend(self.state.take_ended());
        step.early.extend(self.state.take_early());
        step.decision = Some(decision);
    }

    /// A gap in the numbers makes the policy rebuild its caches, whatever state they are in after a panic. The question
    /// stays open, so it is asked again by and by even if nothing happens.
    fn skip_numbers(&mut self, at: Time) {
        self.decisions += 2;
        self.alarm = Some(at + ASK_AGAIN);
    }

    /// Makes a checked decision what is wanted from now on.
    fn take_over(&mut self, at: Time, decision: &Decision) {
        self.decisions += 1;
        self.cause = Causes::NONE;
        self.alarm = decision.wake.filter(|wake| *wake != Time::NEVER);
        self.state.begin_changes();
        self.state.adopt(decision);
        for change in &decision.changes {
            match *change {
                Change::Relax { job, to } => self.state.relax(job, to),
                Change::Restore { job } => self.state.restore(job),
                Change::Stop { job, why, saved_gpu_s } => {
                    self.state.cut_short(at, job, EarlyEnd { why, saved_gpu_s });
                }
                Change::Reject { job } => self.state.end(at, job, Outcome::Rejected),
            }
        }
    }

    /// Asks the policy. In a live run it may panic, the loop may not.
    fn ask(&mut self, seen: &Snapshot) -> Result<Decision, String> {
        if self.settings.strict {
            return Ok(self.policy.decide(seen));
        }
        catch_unwind(AssertUnwindSafe(|| self.policy.decide(seen))).map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            text.unwrap_or("the policy panicked without a message").to_owned()
        })
    }
}

/// Keeps the sound parts. A job at fault keeps nothing new.
fn drop_faulty(decision: &mut Decision, faults: &[Fault]) {
    let faulty = |job: JobId| faults.iter().any(|fault| fault.job() == job);
    decision.targets.retain(|(job, _)| !faulty(*job));
    decision.merges.retain(|(job, _)| !faulty(*job));
    decision.notes.retain(|(job, _)| !faulty(*job));
    decision.verdicts.retain(|(job, _)| !faulty(*job));
    decision.changes.retain(|change| !faulty(change.job()));
}
