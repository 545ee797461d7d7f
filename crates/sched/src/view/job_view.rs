//! One job as a policy sees it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::estimate::{LossHistory, MeasuredRates, SpeedHistory};
use crate::model::{
    Allocation, Attempt, CopyId, GPU, GpuTypeId, Job, JobId, NodeId, Resources, Span, StopRule, TaskId, Time,
    Usage,
};

/// What the job is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Holds nothing.
    #[default]
    Waiting,
    /// Holds its devices and is loading.
    Starting,
    /// Makes progress.
    Running,
    /// Has been told to stop and still holds its devices.
    Stopping,
}

/// A job that has arrived and not ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobView {
    /// What its owner described.
    pub job: Arc<Job>,
    /// What it is doing.
    pub phase: Phase,
    /// The number of its latest start; 0 before the first.
    pub attempt: Attempt,
    /// What it holds.
    pub held: Allocation,
    /// What the latest decision gave it.
    pub target: Allocation,
    /// How far it has come.
    pub done: Done,
    /// What it was given so far.
    pub served: Served,
    /// What it reported of its loss, with the curve that was fitted.
    pub losses: Arc<LossHistory>,
    /// The speeds that were measured of it, by size.
    #[serde(default)]
    pub speeds: SpeedHistory,
    /// The speeds that were measured of it, by GPU type and workers.
    #[serde(default, skip_serializing_if = "MeasuredRates::is_empty")]
    pub measured: MeasuredRates,
    /// What its tasks used lately, as far as anybody said.
    #[serde(default, skip_serializing_if = "Usage::is_none")]
    pub used: Usage,
    /// The rule by which its own stop rule is replaced while the cluster is overloaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relaxed: Option<StopRule>,
    /// Whether it was cut short once and taken up again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resumed: bool,
    /// What the policy asked to remember about it.
    pub note: Note,
    /// A node on which it failed, and until when it should not go back there.
    pub shuns: Option<(NodeId, Time)>,
}

impl JobView {
    /// A job that has just arrived.
    pub fn new(job: Arc<Job>, at: Time) -> Self {
        Self {
            job,
            phase: Phase::Waiting,
            attempt: Attempt(0),
            held: Allocation::NONE,
            target: Allocation::NONE,
            done: Done::default(),
            served: Served { changed: at, arrived: at, ..Served::default() },
            losses: Arc::default(),
            speeds: SpeedHistory::default(),
            measured: MeasuredRates::default(),
            used: Usage::NONE,
            relaxed: None,
            resumed: false,
            note: Note::default(),
            shuns: None,
        }
    }

    /// Its number.
    pub fn id(&self) -> JobId {
        self.job.id
    }

    /// When it has had enough: by its owner's rule, or by a cheaper one in its place.
    pub fn stop_rule(&self) -> StopRule {
        self.relaxed.unwrap_or(self.job.goals.stop)
    }

    /// What one of its tasks uses: as was said lately, else what it demands.
    pub fn used_by(&self, task: TaskId) -> Resources {
        self.used.of(task).or_else(|| self.job.shape.demand_of(task)).unwrap_or_default()
    }

    /// GPU time up to now in GPU-seconds, loading included: Tiresias' attained service.
    pub fn attained_gpu_s(&self, now: Time) -> f64 {
        let open = self.served.changed_span(now, self.held.is_some()).0 as f64;
        (self.served.gpu_milli_us as f64 + open * self.held.gpu_milli() as f64) / 1e9
    }

    /// The same in thousandths of a GPU times microseconds, without any rounding.
    pub fn attained_gpu_milli_us(&self, now: Time) -> u64 {
        let open = self.served.changed_span(now, self.held.is_some()).0;
        self.served.gpu_milli_us.saturating_add(open.saturating_mul(self.held.gpu_milli()))
    }

    /// Time up to now during which it held devices.
    pub fn executed(&self, now: Time) -> Span {
        self.served.executed + self.served.changed_span(now, self.held.is_some())
    }

    /// Time up to now during which it held nothing.
    pub fn waited(&self, now: Time) -> Span {
        self.served.waited + self.served.changed_span(now, self.held.is_none())
    }

    /// Iterations up to now, carried on from the latest report at the speed reported then.
    pub fn iterations(&self, now: Time) -> f64 {
        self.done.iterations + self.done.speed * now.since(self.done.as_of).as_secs_f64()
    }

    /// How long it still claims to run, if it says so: on what it holds if it runs, else on its
    /// smallest gang. Where it only says how many iterations, they take as long as was measured.
    pub fn declared_remaining(&self, now: Time) -> Option<Span> {
        let declared = &self.job.declared;
        let left = declared.iterations.map(|count| (count - self.iterations(now)).max(0.0));
        let by_limit = || Some(declared.limit?.saturating_sub(self.executed(now)));
        let Some(left) = left else { return by_limit() };
        if self.phase == Phase::Running && self.done.speed > 0.0 {
            return Some(Span::from_secs_f64(left / self.done.speed));
        }
        match declared.iteration.or_else(|| self.measured_iteration()) {
            Some(each) => Some(each.scaled(left)),
            None => by_limit(),
        }
    }

    /// GPU-seconds to its last iteration, on what it holds, or on its smallest gang; 0 if nobody knows.
    pub fn remaining_gpu_s(&self, now: Time) -> f64 {
        let held = self.held.gpu_milli();
        let milli = if held > 0 { held } else { self.job.shape.minimum().gpu_milli };
        self.declared_remaining(now).map_or(0.0, Span::as_secs_f64) * milli as f64 / GPU as f64
    }

    /// When a job that trains claims to be done, at the speed of its latest report or by its limit, if it says so; that may have
    /// been some time ago. It is the same whenever it is asked for between two reports.
    pub fn declared_end(&self) -> Option<Time> {
        if self.phase != Phase::Running {
            return None;
        }
        let Some(iterations) = self.job.declared.iterations else {
            let limit = self.job.declared.limit?;
            return Some(Time((self.served.changed + limit).0.saturating_sub(self.served.executed.0)));
        };
        let left = (iterations - self.done.iterations).max(0.0);
        (self.done.speed > 0.0).then(|| self.done.as_of + Span::from_secs_f64(left / self.done.speed))
    }

    /// How fast the whole gang goes on GPUs of one type, as far as known. What is trusted, in this order: that it was
    /// profiled there with so many workers; that it was measured there itself; what it declares, and last what was
    /// measured of it elsewhere, both on every type alike and in proportion to its workers. `None` if nothing is known of
    /// it, so that whoever asks may estimate; 0 where it does not fit.
    pub fn iterations_per_s(&self, gpu_type: GpuTypeId, workers: u32, spread: bool) -> Option<f64> {
        if !self.job.wanted.gpu_types.has(gpu_type) {
            return Some(0.0);
        }
        let declared = &self.job.declared;
        if let Some(per_s) = declared.rates.as_ref().and_then(|rates| rates.per_s(gpu_type, workers, spread))
        {
            return Some(per_s);
        }
        if let Some(per_s) = self.measured.per_s(gpu_type, workers, spread) {
            return Some(per_s);
        }
        let least = self.job.shape.data_parallel().map_or(1, |shape| shape.workers.min.max(1));
        let each_s = declared.iteration.or_else(|| self.measured_iteration())?.as_secs_f64();
        (each_s > 0.0).then(|| f64::from(workers) / (f64::from(least) * each_s))
    }

    /// The time of an iteration as measured last, on its smallest gang if it ever ran so.
    fn measured_iteration(&self) -> Option<Span> {
        let least = self.job.shape.data_parallel().map_or(1, |shape| shape.workers.min.max(1));
        let points = self.speeds.points();
        let point = points.iter().rfind(|point| point.workers == least).or_else(|| points.last())?;
        Some(Span::from_secs_f64(1.0 / point.iterations_per_s))
    }

    /// Work that stopping it now would throw away, in GPU-seconds: the devices idle while it saves and
    /// loads, and, if it cannot save when told to, what it did since it last saved by itself. A job
    /// that never saves loses everything since its start, so declaring a checkpoint never hurts.
    pub fn loss_if_stopped_gpu_s(&self, now: Time) -> f64 {
        let gpus = self.held.gpu_milli() as f64 / 1000.0;
        let cost = &self.job.move_cost;
        let running = now.since(self.done.saved_at);
        let unsaved = match (cost.loses_when_stopped, cost.checkpoint_every) {
            (false, _) => Span::ZERO,
            (true, None) => running,
            (true, Some(every)) => Span(running.0 % every.0.max(1)),
        };
        gpus * (cost.save + cost.load + unsaved).as_secs_f64()
    }
}

/// Progress, as last reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Iterations at `as_of`, over all copies.
    pub iterations: f64,
    /// When that was.
    pub as_of: Time,
    /// Iterations a second since then; 0 while it does not run.
    pub speed: f64,
    /// Iterations that each copy did in this attempt, for a forked job only; ascending.
    pub copies: SmallVec<[(CopyId, f64); 1]>,
    /// Iterations that a restart would begin from.
    pub saved: f64,
    /// When that was saved.
    pub saved_at: Time,
}

/// What a job was given so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Served {
    /// When it arrived.
    pub arrived: Time,
    /// When it first held anything.
    pub first_held: Option<Time>,
    /// When it last began or ceased to hold devices; the spans below end then.
    pub changed: Time,
    /// GPU time in thousandths of a GPU times microseconds.
    pub gpu_milli_us: u64,
    /// Time with devices.
    pub executed: Span,
    /// Time without.
    pub waited: Span,
    /// How often it was stopped against its will.
    pub preemptions: u32,
    /// How often it went on somewhere else or with another size.
    pub moves: u32,
    /// How often it lost what it held to a failure.
    pub failures: u32,
}

impl Served {
    fn changed_span(&self, now: Time, counts: bool) -> Span {
        if counts { now.since(self.changed) } else { Span::ZERO }
    }
}

/// A few integers that a policy asks to remember, about a job or about the run. Only that policy knows their meaning.
///
/// Notes are part of the snapshot and of the journal, so a policy's memory survives a crash and a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Note(pub SmallVec<[i64; 4]>);
