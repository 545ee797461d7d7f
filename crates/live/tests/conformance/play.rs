//! Plays a scene on a stage, with the account watching.

use std::collections::VecDeque;

use trainyard_sched::control::{Action, Event, How};
use trainyard_sched::model::{Allocation, CopyId, CopyProgress, JobId, NodeId, Quotas, Span, Time};

use super::account::{Account, Heard, Phase, Record};
use super::script::{Line, Scene, What};
use super::stage::{Setting, Stage};

/// How long anything may take, by the backend's clock.
const PATIENCE: Span = Span::from_secs(60);
/// How long is listened when nothing shall be heard.
const QUIET: Span = Span(300_000);

/// So much of what happened is told when something went wrong.
const LOG_LINES: usize = 80;

/// What became of a scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Played {
    Through,
    /// The backend does not offer what it needs.
    LeftOut,
}

/// Plays a scene. The error says what the backend did that it must not, or did not that it must.
pub(crate) fn play(scene: &Scene, stage: &mut dyn Stage) -> Result<Played, String> {
    if !stage.backend().abilities().has(scene.needs) {
        return Ok(Played::LeftOut);
    }
    let mut play = Play::new(&scene.setting, stage);
    let mut done = play.begin();
    for line in &scene.lines {
        if done.is_err() {
            break;
        }
        done = play.line(line).map_err(|error| format!("at {line:?}: {error}"));
    }
    let done = done.and_then(|()| play.end());
    done.map(|()| Played::Through).map_err(|error| play.told(scene.name, &error))
}

/// A play in progress.
pub(crate) struct Play<'a> {
    stage: &'a mut dyn Stage,
    pub(crate) account: Account,
    pub(crate) now: Time,
    pub(crate) last: Option<Action>,
    /// What has come and was not yet looked at.
    untold: VecDeque<Event>,
    log: Vec<String>,
}

impl<'a> Play<'a> {
    pub(crate) fn new(setting: &Setting, stage: &'a mut dyn Stage) -> Self {
        let (account, untold, log) = (Account::new(setting), VecDeque::new(), Vec::new());
        Self { stage, account, now: Time::ZERO, last: None, untold, log }
    }

    /// What happened, for whoever reads that it went wrong.
    pub(crate) fn told(&mut self, name: &str, error: &str) -> String {
        let words = self.stage.words();
        let latest = &self.log[self.log.len().saturating_sub(LOG_LINES)..];
        format!("{name}: {error}\nlately:\n{}\n{words}", latest.join("\n"))
    }

    /// Waits until all jobs have come.
    pub(crate) fn begin(&mut self) -> Result<(), String> {
        let end = self.now + PATIENCE;
        while self.account.jobs.iter().any(|record| !record.has_arrived) {
            self.hear(end)?;
            self.in_time(end)?;
        }
        Ok(())
    }

    /// Stops whatever still runs, and sees that nothing is left.
    pub(crate) fn end(&mut self) -> Result<(), String> {
        let end = self.now + PATIENCE;
        for number in 0..self.account.jobs.len() as u32 {
            if self.record(number).phase != Phase::Idle {
                self.stop(number, How::Finish);
            }
        }
        while self.account.jobs.iter().any(|record| record.phase != Phase::Idle) {
            self.hear(end)?;
            self.in_time(end)?;
        }
        let there = self.stage.really_there();
        if there.is_empty() { Ok(()) } else { Err(format!("something is left: {there:?}")) }
    }

    pub(crate) fn record(&self, number: u32) -> &Record {
        self.account.job(JobId(number))
    }

    fn in_time(&self, end: Time) -> Result<(), String> {
        if self.now < end { Ok(()) } else { Err("it does not come".to_owned()) }
    }

    /// What the backend tells next, if it does so before `until`. Repetitions are passed over.
    pub(crate) fn hear(&mut self, until: Time) -> Result<Option<Event>, String> {
        if self.untold.is_empty() {
            self.wait(until)?;
        }
        let Some(event) = self.untold.pop_front() else { return Ok(None) };
        let heard = self.account.hear(&event)?;
        // What is really there is as the last of what was told says.
        if self.untold.is_empty() && !is_progress(&event) {
            self.compare()?;
        }
        Ok((heard == Heard::New).then_some(event))
    }

    fn wait(&mut self, until: Time) -> Result<(), String> {
        let Some(batch) = self.stage.backend().wait(Some(until)) else {
            return Err("the backend says that nothing will ever happen again".to_owned());
        };
        if batch.at < self.now || batch.at > until + PATIENCE {
            return Err(format!("it is {}, after {} and until {}", batch.at.0, self.now.0, until.0));
        }
        self.now = batch.at;
        for event in &batch.events {
            let word = match event {
                Event::Arrived { job } => format!("{} arrived", job.id),
                event => format!("{event:?}"),
            };
            self.log.push(format!("{:>9} {word}", batch.at.0));
        }
        self.untold.extend(batch.events);
        Ok(())
    }

    fn compare(&mut self) -> Result<(), String> {
        self.account.compare(&self.stage.really_there())
    }

    /// Gives an order.
    pub(crate) fn order(&mut self, action: Action) {
        self.log.push(format!("{:>9} -> {action:?}", self.now.0));
        self.account.ordered(&action);
        self.stage.backend().perform(&action);
        self.last = Some(action);
    }

    pub(crate) fn start(&mut self, number: u32, allocation: &Allocation) {
        self.start_with(number, allocation, Quotas::NONE);
    }

    /// Starts copies, each of which may go so far.
    pub(crate) fn start_with(&mut self, number: u32, allocation: &Allocation, quotas: Quotas) {
        let attempt = self.record(number).attempt.next();
        self.order(Action::Start { job: JobId(number), attempt, allocation: allocation.clone(), quotas });
    }

    pub(crate) fn stop(&mut self, number: u32, how: How) {
        let attempt = self.record(number).attempt;
        self.order(Action::Stop { job: JobId(number), attempt, how });
    }

    pub(crate) fn resize(&mut self, number: u32, allocation: &Allocation) {
        let (attempt, quotas) = (self.record(number).attempt, Quotas::NONE);
        self.order(Action::Resize { job: JobId(number), attempt, allocation: allocation.clone(), quotas });
    }

    pub(crate) fn merge(&mut self, number: u32, quotas: Quotas) {
        let (job, record) = (JobId(number), self.record(number));
        let (attempt, number) = (record.attempt, record.merges_ordered + 1);
        self.order(Action::Merge { job, attempt, number, quotas });
    }

    pub(crate) fn node(&mut self, node: u32, state: trainyard_sched::model::NodeState) {
        self.log.push(format!("{:>9} -> n{node} {state:?}", self.now.0));
        self.account.asked_node(NodeId(node), state);
        self.stage.set_node(NodeId(node), state);
    }

    fn line(&mut self, line: &Line) -> Result<(), String> {
        match line {
            Line::Start(number, allocation) => self.start(*number, allocation),
            Line::Stop(number, how) => self.stop(*number, *how),
            Line::Resize(number, allocation) => self.resize(*number, allocation),
            Line::Merge(number) => self.merge(*number, Quotas::NONE),
            Line::StartWith(number, allocation, quotas) => {
                self.start_with(*number, allocation, by_copy(quotas));
            }
            Line::MergeWith(number, quotas) => self.merge(*number, by_copy(quotas)),
            Line::Rest(number) => return self.rest(*number),
            Line::Again => self.order(self.last.clone().expect("something was ordered before")),
            Line::Order(action) => self.order(action.clone()),
            Line::Node(node, state) => self.node(*node, *state),
            Line::Withdraw(number) => {
                self.account.asked_withdraw(JobId(*number));
                self.stage.withdraw(JobId(*number));
            }
            Line::Expect(slots) => return self.expect(slots),
            Line::Restart(number, allocation) => return self.restart(*number, allocation),
            Line::Over(number) => {
                if !self.record(*number).is_over {
                    let outcome = self.record(*number).training.outcome();
                    return self.expect(&[vec![What::Finished(*number, outcome)]]);
                }
            }
            Line::Idle(number) => {
                let end = self.now + PATIENCE;
                while self.record(*number).phase != Phase::Idle {
                    self.in_time(end)?;
                    self.hear(end)?;
                }
            }
            Line::Reach(number, iterations) => return self.reach(*number, *iterations),
            Line::Quiet(number) => return self.quiet(*number),
            Line::Whole(number) => {
                let parts = self.record(*number).held.placements().len();
                return self.there(*number, &[parts]);
            }
            Line::Left(number, iterations) => {
                let from = self.record(*number).from;
                if (from - f64::from(*iterations)).abs() > 1e-3 {
                    return Err(format!("{from} iterations are left"));
                }
            }
            Line::Gone(number) => return self.there(*number, &[]),
        }
        Ok(())
    }

    fn restart(&mut self, number: u32, allocation: &Allocation) -> Result<(), String> {
        if self.record(number).is_over || self.record(number).phase != Phase::Idle {
            return Ok(());
        }
        self.start(number, allocation);
        self.expect(&[vec![What::Started(number)]])
    }

    fn expect(&mut self, slots: &[Vec<What>]) -> Result<(), String> {
        let end = self.now + PATIENCE;
        let before = self.account.clone();
        let mut open: Vec<&Vec<What>> = slots.iter().collect();
        while !open.is_empty() {
            self.in_time(end)?;
            let Some(event) = self.hear(end)? else { continue };
            let fits = |slot: &&Vec<What>| slot.iter().any(|what| matches(*what, &event, &before));
            match open.iter().position(fits) {
                Some(slot) => drop(open.remove(slot)),
                None if is_progress(&event) => {}
                None => return Err(format!("that was not expected: {event:?}")),
            }
        }
        Ok(())
    }

    fn reach(&mut self, number: u32, iterations: u32) -> Result<(), String> {
        let end = self.now + PATIENCE;
        // That it ended on the way is for the next line to know.
        while self.record(number).iterations < f64::from(iterations) && !self.record(number).is_over {
            self.in_time(end)?;
            if let Some(event) = self.hear(end)?
                && event.job() == Some(JobId(number))
                && !is_progress(&event)
                && !self.record(number).is_over
            {
                return Err(format!("that was not expected: {event:?}"));
            }
        }
        Ok(())
    }

    fn rest(&mut self, number: u32) -> Result<(), String> {
        let end = self.now + PATIENCE;
        while !self.record(number).is_spent() {
            self.in_time(end)?;
            self.hear(end)?;
        }
        let before = self.record(number).copies.clone();
        let until = self.now + QUIET;
        while self.now < until {
            self.hear(until)?;
        }
        let after = &self.record(number).copies;
        if before == *after { Ok(()) } else { Err(format!("they do not rest: {before:?}, then {after:?}")) }
    }

    fn quiet(&mut self, number: u32) -> Result<(), String> {
        let until = self.now + QUIET;
        while self.now < until || !self.untold.is_empty() {
            let heard = self.hear(until)?;
            if let Some(event) = heard.filter(|event| event.job() == Some(JobId(number))) {
                return Err(format!("that was not expected: {event:?}"));
            }
        }
        Ok(())
    }

    fn there(&mut self, number: u32, parts: &[usize]) -> Result<(), String> {
        let there = self.stage.really_there();
        let own = there.iter().filter(|presence| presence.job == JobId(number));
        let found: Vec<usize> = own.map(|presence| presence.parts).collect();
        if found == parts { Ok(()) } else { Err(format!("parts {found:?} are there, not {parts:?}")) }
    }
}

/// What each copy may do, from the first on.
fn by_copy(quotas: &[u64]) -> Quotas {
    Quotas::new((0..).map(CopyId).zip(quotas.iter().copied()).collect())
}

const fn is_progress(event: &Event) -> bool {
    matches!(event, Event::Progress { .. } | Event::Used { .. })
}

/// Whether an event is what is expected, given how things stood when it began to be. That it is about the right attempt was
/// judged before.
fn matches(what: What, event: &Event, before: &Account) -> bool {
    let is = |number: u32| event.job() == Some(JobId(number));
    match (what, event) {
        (What::Started(number), Event::Started { .. })
        | (What::StartFailed(number), Event::StartFailed { .. })
        | (What::Stopped(number), Event::Stopped { .. })
        | (What::Resized(number), Event::Resized { .. })
        | (What::Merged(number), Event::Merged { .. })
        | (What::Withdrawn(number), Event::Withdrawn { .. }) => is(number),
        (What::Finished(number, how), Event::Finished { outcome, .. }) => is(number) && how == *outcome,
        (What::Lost(number, at), Event::Lost { node, .. }) => is(number) && *node == Some(NodeId(at)),
        (What::Progress(number), Event::Progress { iterations, speed, .. }) => {
            is(number) && *iterations > before.job(JobId(number)).iterations && *speed > 0.0
        }
        (What::Saved(number), Event::Progress { saved, .. }) => {
            is(number) && *saved > before.job(JobId(number)).saved
        }
        (What::Losses(number), Event::Progress { losses, .. }) => is(number) && !losses.is_empty(),
        (What::Copies(number), Event::Progress { copies, .. }) => {
            let held = &before.job(JobId(number)).held;
            let grows = |told: &CopyProgress| !told.waits && told.speed > 0.0 && told.iterations > 0.0;
            is(number) && copies.len() == held.copies() && copies.iter().all(grows)
        }
        (What::NodeChanged(number, to), Event::NodeChanged { node, state }) => {
            *node == NodeId(number) && *state == to
        }
        _ => false,
    }
}
