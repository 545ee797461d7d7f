//! The fold itself: one row a job, three series, and a summary.

use serde::{Deserialize, Serialize};

use crate::control::{Action, Batch, Event, Log, Outcome, Step};
use crate::decide::Reason;
use crate::model::{Allocation, Cluster, Job, JobId, Parallelism, TenantId, Time};

use super::{Objectives, Quality, Series, Summary, percentile};

/// Everything that is measured of a run, kept up step by step.
#[derive(Clone, Debug)]
pub struct Metrics {
    gpus: f64,
    rows: Vec<Option<JobRow>>,
    jobs: u64,
    first_arrival: Option<Time>,
    last_arrival: Time,
    last_end: Time,
    decisions: u64,
    migrations: u64,
    /// GPUs in use.
    pub used_gpus: Series,
    /// Jobs without devices.
    pub waiting: Series,
    /// Jobs that have arrived and not ended.
    active: Series,
    /// How good jobs became.
    pub quality: Quality,
    /// What they are for, and what they cost others.
    pub objectives: Objectives,
}

/// What happened to one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRow {
    /// Its number.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// Its tenant.
    pub tenant: TenantId,
    /// GPUs that its smallest gang wants.
    pub gpus: f64,
    /// When it was submitted.
    pub submitted: Time,
    /// When it first got devices.
    pub started: Option<Time>,
    /// When it ended.
    pub ended: Option<Time>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Time with devices.
    pub held_s: f64,
    /// Time spent training, loading and saving left out.
    pub trained_s: f64,
    /// GPU time held.
    pub gpu_s: f64,
    /// GPU time without lasting progress.
    pub lost_gpu_s: f64,
    /// How often it was stopped against its will.
    pub preemptions: u32,
    /// How often it went on somewhere else or with another size.
    pub migrations: u32,
    /// How often it failed or lost its node.
    pub failures: u32,
    /// Why it could never run, or why it waits.
    pub waits: Option<Reason>,
    /// Its share of a fair cluster; see [`Summary::avg_ftf`].
    pub ftf: Option<f64>,
    #[serde(skip)]
    state: RowState,
}

/// What the fold has to remember of an open job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowState {
    /// What it holds, in GPUs, and since when.
    held: Option<(f64, Time)>,
    /// Since when it trains, from which iteration, at what speed.
    trains: Option<(Time, f64, f64)>,
    /// The integral of active jobs over time when it arrived.
    active_integral: f64,
    /// What it held last, to tell whether it moved.
    last: Allocation,
}

impl Metrics {
    /// Nothing has happened yet.
    pub fn new(cluster: &Cluster) -> Self {
        Self {
            gpus: cluster.gpu_count() as f64,
            rows: Vec::new(),
            jobs: 0,
            first_arrival: None,
            last_arrival: Time::ZERO,
            last_end: Time::ZERO,
            decisions: 0,
            migrations: 0,
            used_gpus: Series::default(),
            waiting: Series::default(),
            active: Series::default(),
            quality: Quality::default(),
            objectives: Objectives::new(cluster),
        }
    }

    /// The rows by job number.
    pub fn rows(&self) -> impl Iterator<Item = &JobRow> {
        self.rows.iter().flatten()
    }

    fn row(&mut self, id: JobId) -> Option<&mut JobRow> {
        self.rows.get_mut(id.index()).and_then(Option::as_mut)
    }

    /// A row whose job has not ended.
    fn open_row(&mut self, id: JobId) -> Option<&mut JobRow> {
        self.row(id).filter(|row| row.ended.is_none())
    }

    fn arrived(&mut self, at: Time, job: &Job) {
        let i = job.id.index();
        if self.rows.len() <= i {
            self.rows.resize_with(i + 1, || None);
        }
        if self.rows[i].is_some() {
            return;
        }
        self.jobs += 1;
        self.first_arrival.get_or_insert(at);
        self.last_arrival = self.last_arrival.max(at);
        self.active.add(at, 1.0);
        self.waiting.add(at, 1.0);
        let state = RowState { active_integral: self.active.integral(), ..RowState::default() };
        self.rows[i] = Some(JobRow::new(job, state));
    }

    fn start_training(&mut self, at: Time, id: JobId, iterations: f64, speed: f64) {
        let Some(row) = self.open_row(id) else { return };
        let Some((gpus, since)) = row.state.held else { return };
        if row.state.trains.is_none() {
            // Everything since it took its devices was loading.
            row.lost_gpu_s += gpus * at.since(since).as_secs_f64();
            row.state.trains = Some((at, iterations, speed));
            row.state.held = Some((gpus, at));
            let held = at.since(since).as_secs_f64();
            row.held_s += held;
            row.gpu_s += gpus * held;
        }
    }

    /// Closes the span of training up to `at`; `kept` tells the iterations that last, if some may not.
    fn stop_training(row: &mut JobRow, at: Time, kept: Option<f64>) {
        let Some((since, from, speed)) = row.state.trains.take() else { return };
        let trained = at.since(since).as_secs_f64();
        row.trained_s += trained;
        let gpus = row.state.held.map_or(0.0, |(gpus, _)| gpus);
        if let Some(kept) = kept.filter(|_| speed > 0.0) {
            let undone = ((from + speed * trained - kept) / speed).max(0.0);
            row.lost_gpu_s += gpus * undone;
            row.trained_s -= undone;
        }
    }

    fn released(&mut self, at: Time, id: JobId, kept: Option<f64>) {
        let Some(row) = self.open_row(id) else { return };
        let Some((gpus, since)) = row.state.held else { return };
        let was_training = row.state.trains.is_some();
        Self::stop_training(row, at, kept);
        let held = at.since(since).as_secs_f64();
        row.held_s += held;
        row.gpu_s += gpus * held;
        if !was_training {
            // Saving, or a start that never came to training.
            row.lost_gpu_s += gpus * held;
        }
        row.state.held = None;
        self.used_gpus.add(at, -gpus);
        self.waiting.add(at, 1.0);
    }

    fn ended(&mut self, at: Time, id: JobId, outcome: Outcome) {
        self.released(at, id, None);
        let gpus = self.gpus;
        self.active.advance(at);
        let active_now = self.active.integral();
        let Some(row) = self.open_row(id) else { return };
        row.ended = Some(at);
        row.outcome = Some(outcome);
        row.ftf = row.finish_time_fairness(at, active_now, gpus);
        self.last_end = self.last_end.max(at);
        self.waiting.add(at, -1.0);
        self.active.add(at, -1.0);
    }

    fn event(&mut self, at: Time, event: &Event) {
        match event {
            Event::Arrived { job } => self.arrived(at, job),
            Event::Started { job, iterations, speed, .. } => {
                self.start_training(at, *job, *iterations, *speed);
            }
            Event::Resized { job, allocation, iterations, speed, .. } => {
                self.resized(at, *job, allocation, *iterations, *speed);
            }
            Event::Progress { job, iterations, speed, .. } => {
                let Some(row) = self.open_row(*job) else { return };
                match row.state.trains {
                    Some((since, _, _)) => {
                        row.trained_s += at.since(since).as_secs_f64();
                        row.state.trains = Some((at, *iterations, *speed));
                    }
                    // It never moved over.
                    None if *speed > 0.0 => self.start_training(at, *job, *iterations, *speed),
                    None => {}
                }
            }
            Event::Stopped { job, iterations, .. } => self.released(at, *job, Some(*iterations)),
            Event::Lost { job, iterations, .. } => {
                self.released(at, *job, Some(*iterations));
                if let Some(row) = self.open_row(*job) {
                    row.failures += 1;
                }
            }
            Event::StartFailed { job, .. } => {
                self.released(at, *job, None);
                if let Some(row) = self.open_row(*job) {
                    row.failures += 1;
                }
            }
            Event::Finished { job, outcome, .. } => self.ended(at, *job, *outcome),
            Event::Withdrawn { .. }
            | Event::NodeChanged { .. }
            | Event::PolicyChanged { .. }
            | Event::Used { .. }
            | Event::Merged { .. } => {}
        }
    }

    fn resized(&mut self, at: Time, id: JobId, allocation: &Allocation, iterations: f64, speed: f64) {
        let gpus = allocation.gpu_milli() as f64 / 1000.0;
        let Some(row) = self.open_row(id) else { return };
        let Some((before, since)) = row.state.held else { return };
        let held = at.since(since).as_secs_f64();
        if row.state.trains.is_none() {
            row.lost_gpu_s += before * held;
        }
        Self::stop_training(row, at, Some(iterations));
        row.held_s += held;
        row.gpu_s += before * held;
        row.state.held = Some((gpus, at));
        row.state.trains = Some((at, iterations, speed));
        row.migrations += 1;
        row.state.last = allocation.clone();
        self.migrations += 1;
        self.used_gpus.add(at, gpus - before);
    }

    fn action(&mut self, at: Time, action: &Action) {
        match action {
            Action::Start { job, allocation, .. } => {
                let gpus = allocation.gpu_milli() as f64 / 1000.0;
                let Some(row) = self.open_row(*job) else { return };
                row.started.get_or_insert(at);
                row.waits = None;
                row.state.held = Some((gpus, at));
                let moved = row.state.last.is_some() && row.state.last != *allocation;
                row.migrations += u32::from(moved);
                row.state.last = allocation.clone();
                self.migrations += u64::from(moved);
                self.used_gpus.add(at, gpus);
                self.waiting.add(at, -1.0);
            }
            // From here on it saves, or moves over.
            Action::Stop { job, .. } | Action::Resize { job, .. } => self.paused(at, *job),
            Action::Merge { .. } => {}
        }
    }

    /// Closes the span of training; that of holding goes on.
    fn paused(&mut self, at: Time, id: JobId) {
        let Some(row) = self.open_row(id) else { return };
        let Some((gpus, since)) = row.state.held else { return };
        let held = at.since(since).as_secs_f64();
        let training = row.state.trains.is_some();
        Self::stop_training(row, at, None);
        row.held_s += held;
        row.gpu_s += gpus * held;
        if !training {
            row.lost_gpu_s += gpus * held;
        }
        row.state.held = Some((gpus, at));
    }

    /// The numbers so far. Names of policies and measured times are the caller's to add.
    pub fn summary(&self, now: Time) -> Summary {
        let begin = self.first_arrival.unwrap_or_default();
        let finished: Vec<&JobRow> = self.rows().filter(|row| row.is_completed()).collect();
        let impossible = self.rows().filter(|row| row.is_impossible()).count() as u64;
        let completed = finished.len() as u64;
        let any_end = self.rows().any(|row| row.ended.is_some() && row.started.is_some());
        let end = if any_end { self.last_end } else { now };
        let mut used = self.used_gpus.clone();
        used.advance(end);
        let makespan_s = end.since(begin).as_secs_f64();
        let there_was = self.gpus * makespan_s;
        let unstable = self.is_unstable();
        let mean = |of: &dyn Fn(&JobRow) -> Option<f64>| {
            let values: Vec<f64> = finished.iter().filter_map(|row| of(row)).collect();
            let some = !values.is_empty() && !unstable;
            some.then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let sorted = |of: &dyn Fn(&JobRow) -> f64| {
            let mut values: Vec<f64> = finished.iter().map(|row| of(row)).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let (jcts, waits) = (sorted(&JobRow::jct_s), sorted(&JobRow::wait_s));
        let at = |values: &[f64], percent| percentile(values, percent).filter(|_| !unstable);
        let with = |outcome| finished.iter().filter(|row| row.outcome == Some(outcome)).count() as u64;
        Summary {
            avg_ftf: mean(&|row| row.ftf),
            avg_jct_completed_s: mean(&|row| row.went_well().then(|| row.jct_s())),
            avg_jct_s: mean(&|row| Some(row.jct_s())),
            avg_slowdown: mean(&|row| (row.trained_s > 0.0).then(|| row.jct_s() / row.trained_s)),
            avg_wait_s: mean(&|row| Some(row.wait_s())),
            censored: self.jobs - completed - impossible,
            completed,
            decisions: self.decisions,
            failed: with(Outcome::Failed),
            gpu_seconds_lost: self.rows().map(|row| row.lost_gpu_s).sum(),
            gpu_utilization: if there_was > 0.0 { used.integral() / there_was } else { 0.0 },
            impossible,
            jobs: self.jobs,
            killed: with(Outcome::Killed),
            makespan_s,
            migrations: self.migrations,
            p50_jct_s: at(&jcts, 50.0),
            p90_jct_s: at(&jcts, 90.0),
            p95_wait_s: at(&waits, 95.0),
            p99_jct_s: at(&jcts, 99.0),
            preemptions: self.rows().map(|row| u64::from(row.preemptions)).sum(),
            objectives: self.objectives.summary(),
            quality: self.quality.summary(),
            unstable,
            ..Summary::default()
        }
    }

    /// Whether jobs were left over *and* the queue was still growing while jobs arrived: its mean in the
    /// last quarter of the arrivals is more than half above that in the second quarter.
    fn is_unstable(&self) -> bool {
        let open = self.rows().filter(|row| row.ended.is_none() && !row.is_impossible()).count();
        let begin = self.first_arrival.unwrap_or_default();
        let quarter = crate::model::Span(self.last_arrival.since(begin).0 / 4);
        if open == 0 || quarter.0 == 0 {
            return false;
        }
        let second = self.waiting.mean_between(begin + quarter, begin + quarter + quarter);
        let last = self.waiting.mean_between(self.last_arrival - quarter, self.last_arrival);
        last > 1.5 * second.max(1.0)
    }
}

impl JobRow {
    fn new(job: &Job, state: RowState) -> Self {
        let gpus = match &job.shape {
            Parallelism::DataParallel(_) | Parallelism::TaskGraph(_) => job.shape.minimum().gpu_milli,
        };
        Self {
            id: job.id,
            name: job.name.to_string(),
            tenant: job.tenant,
            gpus: gpus as f64 / 1000.0,
            submitted: job.submitted,
            started: None,
            ended: None,
            outcome: None,
            held_s: 0.0,
            trained_s: 0.0,
            gpu_s: 0.0,
            lost_gpu_s: 0.0,
            preemptions: 0,
            migrations: 0,
            failures: 0,
            waits: Some(Reason::NotYetEvaluated),
            ftf: None,
            state,
        }
    }

    /// From submission to end.
    pub fn jct_s(&self) -> f64 {
        self.ended.map_or(0.0, |ended| ended.since(self.submitted).as_secs_f64())
    }

    /// Time without devices, from submission to end.
    pub fn wait_s(&self) -> f64 {
        (self.jct_s() - self.held_s).max(0.0)
    }

    /// Whether it ended as it was meant to.
    pub const fn went_well(&self) -> bool {
        matches!(self.outcome, Some(Outcome::Completed | Outcome::StopRuleMet))
    }

    /// Whether it began and was seen to come to an end, however it ended.
    pub fn is_completed(&self) -> bool {
        self.ended.is_some() && self.started.is_some() && self.outcome != Some(Outcome::Censored)
    }

    /// Whether it could not run even on the idle cluster.
    pub const fn is_impossible(&self) -> bool {
        let never_began = self.started.is_none();
        let rejected = matches!(self.outcome, Some(Outcome::Rejected));
        never_began && (rejected || matches!(self.waits, Some(Reason::Unplaceable { .. })))
    }

    /// Finish-time fairness (after Themis, NSDI 2020): completion time over the time that the job would
    /// have taken alone on its share of the cluster, the share being 1/n of the GPUs with n the mean
    /// number of jobs there were during its life. A rigid job on a smaller share runs slower in proportion.
    fn finish_time_fairness(&self, at: Time, active_integral: f64, gpus: f64) -> Option<f64> {
        let life = at.since(self.submitted).as_secs_f64();
        if life <= 0.0 || self.trained_s <= 0.0 || self.gpus <= 0.0 || gpus <= 0.0 {
            return None;
        }
        let mean_active = ((active_integral - self.state.active_integral) / life).max(1.0);
        let slowed = (self.gpus * mean_active / gpus).max(1.0);
        Some(life / (self.trained_s * slowed))
    }
}

impl Log for Metrics {
    fn step(&mut self, batch: &Batch, step: &Step) {
        self.quality.step(batch, step);
        self.objectives.step(batch, step);
        for event in &batch.events {
            self.event(batch.at, event);
        }
        for (id, outcome) in &step.ended {
            self.ended(batch.at, *id, *outcome);
        }
        self.decisions += u64::from(step.decision.is_some());
        for (id, verdict) in step.decision.iter().flat_map(|decision| &decision.verdicts) {
            if let Some(row) = self.open_row(*id) {
                row.waits = (!verdict.runs()).then(|| *verdict.reason());
            }
        }
        for action in &step.actions {
            self.action(batch.at, action);
            let stopped = step.decision.as_ref().is_some_and(|decision| {
                let found = decision.targets.binary_search_by_key(&action.job(), |(id, _)| *id);
                found.is_ok_and(|i| decision.targets[i].1.is_none())
            });
            if let Action::Stop { job, how: crate::control::How::Save, .. } = action
                && stopped
                && let Some(row) = self.open_row(*job)
            {
                row.preemptions += 1;
            }
        }
    }
}
