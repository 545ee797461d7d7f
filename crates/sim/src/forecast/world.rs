//! The world as it is believed to go on: a backend that is put into the middle of a run. What jobs hold is taken
//! from belief, how much they have left is drawn from belief, and how fast they go is what they went or declared.
//!
//! Deliberately absent: node failures and returns (nodes stay as they are), neighbours that slow each other down,
//! and checks of its own. The truth of `truth` and `physics` is not used here.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use trainyard_sched::control::{Action, Backend, Batch, Event, How, Moment, Outcome};
use trainyard_sched::decide::Abilities;
use trainyard_sched::model::{Allocation, Attempt, Job, JobId, Seed, Span, Time};
use trainyard_sched::view::{JobView, Phase};

use super::arrivals::{Arrivals, Known};
use super::belief::{Belief, claim_at_its_pace_s, iteration_s};

/// The cluster from now on, as one future has it.
pub(super) struct World<'a> {
    now: Time,
    abilities: Abilities,
    belief: Belief,
    known: &'a Known<'a>,
    arrivals: Arrivals<'a>,
    lives: BTreeMap<JobId, Life>,
    coming: BinaryHeap<Reverse<(Time, u64, JobId, u32)>>,
    sequence: u64,
    ready: Vec<Event>,
}

/// A job that has not ended.
struct Life {
    job: Arc<Job>,
    /// Iterations so far, as of the start of the stage.
    done: f64,
    /// Seconds of one iteration on the smallest gang.
    iteration_s: f64,
    /// How long it claims to run at its pace, if it declared iterations alone and was seen to go.
    at_its_pace_s: Option<f64>,
    run: Option<Run>,
    /// Counts the stages, so that what was expected of an earlier one is void.
    serial: u32,
}

/// One attempt.
struct Run {
    attempt: Attempt,
    held: Allocation,
    stage: Stage,
    since: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Loading,
    Training,
    Moving,
    Saving,
}

impl Life {
    fn speed(&self) -> f64 {
        let Some(run) = &self.run else { return 0.0 };
        let least = self.job.shape.data_parallel().map(|shape| f64::from(shape.workers.min.max(1)));
        let part = least.map_or(1.0, |least| f64::from(run.held.workers().max(1)) / least);
        part / self.iteration_s.max(1e-9)
    }

    /// Brings the iterations up to now.
    fn advance(&mut self, now: Time) {
        let speed = self.speed();
        let Some(run) = &mut self.run else { return };
        if run.stage == Stage::Training {
            self.done += speed * now.since(run.since).as_secs_f64();
        }
        run.since = now;
    }

    fn enter(&mut self, stage: Stage) {
        let run = self.run.as_mut().expect("only what holds something has a stage");
        run.stage = stage;
        self.serial += 1;
    }
}

impl<'a> World<'a> {
    pub(super) fn new(moment: &Moment, belief: Belief, known: &'a Known<'a>, seed: Seed) -> Self {
        let mut world = Self {
            now: moment.at,
            abilities: moment.settings.abilities,
            belief,
            known,
            arrivals: Arrivals::new(known, seed),
            lives: BTreeMap::new(),
            coming: BinaryHeap::new(),
            sequence: 0,
            ready: Vec::new(),
        };
        for view in moment.state.jobs() {
            world.adopt(view, moment.state.moves_to(view.id()));
        }
        world
    }

    /// The time.
    pub(super) const fn now(&self) -> Time {
        self.now
    }

    /// Takes over a job as it stands.
    fn adopt(&mut self, view: &JobView, moves_to: Option<&Allocation>) {
        let (now, cost) = (self.now, view.job.move_cost);
        let left = |whole: Span, since: Time| whole.saturating_sub(now.since(since));
        let (stage, takes) = match (view.phase, moves_to) {
            (Phase::Waiting, _) => (None, Span::ZERO),
            (Phase::Starting, _) => (Some(Stage::Loading), left(cost.load, view.served.changed)),
            (Phase::Running, None) => (Some(Stage::Training), Span::ZERO),
            (Phase::Running, Some(_)) => (Some(Stage::Moving), cost.load),
            (Phase::Stopping, _) => (Some(Stage::Saving), left(cost.save, view.done.as_of)),
        };
        let held = moves_to.unwrap_or(&view.held).clone();
        let run = |stage| Run { attempt: view.attempt, held, stage, since: now };
        let life = Life {
            job: Arc::clone(&view.job),
            done: view.iterations(now),
            iteration_s: iteration_s(view, now),
            at_its_pace_s: claim_at_its_pace_s(view, now),
            run: stage.map(run),
            serial: 0,
        };
        self.lives.insert(view.id(), life);
        match stage {
            None => {}
            Some(Stage::Training) => self.expect_end(view.id()),
            Some(_) => self.expect(view.id(), takes),
        }
    }

    /// The present stage of a job ends after so long.
    fn expect(&mut self, id: JobId, after: Span) {
        let serial = self.lives[&id].serial;
        self.coming.push(Reverse((self.now + after, self.sequence, id, serial)));
        self.sequence += 1;
    }

    fn expect_end(&mut self, id: JobId) {
        let life = &self.lives[&id];
        let worked_s = life.done * life.iteration_s;
        let burst = self.known.burst_of(id);
        let length_s = self.belief.length_s(&life.job, burst, worked_s, life.at_its_pace_s);
        let left = (length_s / life.iteration_s.max(1e-9) - life.done).max(0.0);
        self.expect(id, Span::from_secs_f64(left / life.speed()));
    }

    fn next_coming(&mut self) -> Option<Time> {
        while let Some(Reverse((at, _, id, serial))) = self.coming.peek() {
            if self.lives.get(id).is_some_and(|life| life.run.is_some() && life.serial == *serial) {
                return Some(*at);
            }
            self.coming.pop();
        }
        None
    }

    /// A stage of a job is over.
    fn happen(&mut self, job: JobId) {
        let life = self.lives.get_mut(&job).expect("only what lives is expected");
        life.advance(self.now);
        let run = life.run.as_ref().expect("only what runs is expected");
        let (attempt, stage) = (run.attempt, run.stage);
        match stage {
            Stage::Training => {
                self.lives.remove(&job);
                self.ready.push(Event::Finished { job, attempt, outcome: Outcome::Completed });
            }
            Stage::Saving => {
                life.run = None;
                self.ready.push(Event::Stopped { job, attempt, iterations: life.done });
            }
            Stage::Loading => {
                life.enter(Stage::Training);
                let (iterations, speed) = (life.done, life.speed());
                self.ready.push(Event::Started { job, attempt, iterations, speed });
                self.expect_end(job);
            }
            Stage::Moving => {
                life.enter(Stage::Training);
                let (iterations, speed) = (life.done, life.speed());
                let allocation = life.run.as_ref().map(|run| run.held.clone()).unwrap_or_default();
                self.ready.push(Event::Resized { job, attempt, allocation, iterations, speed });
                self.expect_end(job);
            }
        }
    }

    /// Lets a stage begin that takes so long; what takes no time happens at once.
    fn begin(&mut self, job: JobId, takes: Span) {
        if takes == Span::ZERO { self.happen(job) } else { self.expect(job, takes) }
    }

    fn start(&mut self, id: JobId, attempt: Attempt, allocation: &Allocation) {
        let life = self.lives.get_mut(&id).expect("only what lives is started");
        let load = if attempt > Attempt(1) { life.job.move_cost.load } else { Span::ZERO };
        let (held, stage, since) = (allocation.clone(), Stage::Loading, self.now);
        life.run = Some(Run { attempt, held, stage, since });
        life.serial += 1;
        self.begin(id, load);
    }

    fn stop(&mut self, id: JobId, attempt: Attempt, how: How) {
        let Some(life) = self.lives.get_mut(&id) else { return };
        let current =
            life.run.as_ref().is_some_and(|run| run.attempt == attempt && run.stage != Stage::Saving);
        if !current {
            return;
        }
        life.advance(self.now);
        life.enter(Stage::Saving);
        let save = if how == How::Save { life.job.move_cost.save } else { Span::ZERO };
        self.begin(id, save);
    }

    fn resize(&mut self, id: JobId, attempt: Attempt, allocation: &Allocation) {
        let Some(life) = self.lives.get_mut(&id) else { return };
        let trains =
            life.run.as_ref().is_some_and(|run| run.attempt == attempt && run.stage == Stage::Training);
        if !trains {
            return;
        }
        life.advance(self.now);
        life.enter(Stage::Moving);
        let load = life.job.move_cost.load;
        life.run.as_mut().expect("it trains").held = allocation.clone();
        self.begin(id, load);
    }
}

impl Backend for World<'_> {
    fn abilities(&self) -> Abilities {
        self.abilities
    }

    fn wait(&mut self, until: Option<Time>) -> Option<Batch> {
        if self.ready.is_empty() {
            let next = [self.arrivals.next_at(), self.next_coming(), until].into_iter().flatten().min()?;
            self.now = self.now.max(next);
            while self.arrivals.next_at().is_some_and(|at| at <= self.now) {
                let Some(job) = self.arrivals.next() else { break };
                let iteration_s = job.declared.iteration.map_or(1.0, Span::as_secs_f64);
                let life = Life {
                    job: Arc::clone(&job),
                    done: 0.0,
                    iteration_s,
                    at_its_pace_s: None,
                    run: None,
                    serial: 0,
                };
                self.lives.insert(job.id, life);
                self.ready.push(Event::Arrived { job });
            }
            while self.next_coming().is_some_and(|at| at <= self.now) {
                let Reverse((_, _, id, _)) = self.coming.pop().expect("it was just looked at");
                self.happen(id);
            }
        }
        Some(Batch { at: self.now, events: std::mem::take(&mut self.ready) })
    }

    fn perform(&mut self, action: &Action) {
        match action {
            Action::Start { job, attempt, allocation, .. } => self.start(*job, *attempt, allocation),
            Action::Stop { job, attempt, how } => self.stop(*job, *attempt, *how),
            Action::Resize { job, attempt, allocation, .. } => self.resize(*job, *attempt, allocation),
            Action::Merge { job, attempt, number, .. } => {
                self.ready.push(Event::Merged { job: *job, attempt: *attempt, number: *number });
            }
        }
    }
}
