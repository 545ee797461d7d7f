//! Collects the rows of a trace into a workload: names become numbers, repeated rows are found, arrivals are
//! sorted and cut to the window that was asked for. Knows no format.

use std::collections::BTreeSet;
use std::sync::Arc;

use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;
use trainyard_sched::model::{
    Declared, DeclaredLoss, Goals, GpuTypeId, GpuTypeSet, Job, JobId, ModelId, MoveCost, Parallelism, Rates,
    Seed, Span, TenantId, Time, Wanted,
};

use super::bounds::{bounded, bounded_time};
use super::duplicates::{Origin, Rows, hash};
use super::error::{TraceError, nearest, shortened};
use super::fields::{Problem, Remark};
use super::names::Names;
use super::wall::Clock;
use super::{Declaring, Options};
use crate::truth::{Ending, Speed, Truth};
use crate::workload::{Done, Finding, ImportReport, Workload};

/// The tenant of jobs whose trace names none.
const NOBODY: &str = "default";

const STILL_RUNNING: &str =
    "the job was still running when the trace ended; it runs for what was seen, and no mean counts it";
const STILL_RUNNING_COUNTED: &str =
    "the job was still running when the trace ended; it is taken to complete then";
const NOTHING_SEEN: &str = "the job began at the trace's last moment, so nobody knows how long it would run";

/// One row, read and checked.
pub(crate) struct Draft<'a> {
    /// The job's id in the trace; `None` where rows have no id, and the number of the row stands in.
    pub(crate) name: Option<&'a str>,
    /// Which part of the job of that name it is, where a trace lists parts; it is added to the name.
    pub(crate) part: &'a str,
    /// Its owner; empty where the trace does not say.
    pub(crate) tenant: &'a str,
    /// What it trains; empty where the trace does not say.
    pub(crate) model: &'a str,
    /// When it arrives.
    pub(crate) submitted: Time,
    /// How it is cut into pieces.
    pub(crate) shape: Parallelism,
    /// Where it may run.
    pub(crate) wanted: Wanted,
    /// The acceptable GPU types as the trace names them, where `wanted` does not have them yet.
    pub(crate) gpu_types: &'a str,
    /// What it is for.
    pub(crate) goals: Goals,
    /// What it really is.
    pub(crate) truth: Truth,
    /// The time of one iteration on the smallest gang, where the truth does not give it.
    pub(crate) iteration: Option<Span>,
    /// What the trace says that its owner claimed; else it is made from the truth.
    pub(crate) declared: Option<Declared>,
    /// Its speed by GPU type, as it was profiled.
    pub(crate) rates: Option<Arc<Rates>>,
    /// What its owner says of its loss.
    pub(crate) declared_loss: DeclaredLoss,
    /// What moving costs, where the trace says so.
    pub(crate) move_cost: Option<MoveCost>,
    /// When it ended, where the trace says so; the trace did not end before.
    pub(crate) ended: Option<Time>,
    /// Since when it was running at the end of the trace, which adds to the length in its truth.
    pub(crate) running_since: Option<Time>,
    /// When it ended, if that may only be where the trace ends: then it is the last moment that the trace tells of.
    pub(crate) cut: Option<Time>,
    /// What there is to tell of the row.
    pub(crate) remarks: Vec<Remark>,
}

impl Draft<'_> {
    /// A job with nothing special.
    pub(crate) fn plain(submitted: Time, shape: Parallelism, truth: Truth) -> Self {
        Self {
            name: None,
            part: "",
            tenant: "",
            model: "",
            submitted,
            shape,
            wanted: Wanted::default(),
            gpu_types: "",
            goals: Goals::default(),
            truth,
            iteration: None,
            declared: None,
            rates: None,
            declared_loss: DeclaredLoss::default(),
            move_cost: None,
            ended: None,
            running_since: None,
            cut: None,
            remarks: Vec::new(),
        }
    }
}

/// A workload in the making.
pub(crate) struct Import<'o> {
    pub(crate) options: &'o Options,
    pub(crate) report: ImportReport,
    file: String,
    jobs: Vec<(Arc<Job>, Truth)>,
    origins: Vec<Origin>,
    tenants: Names,
    models: Names,
    pub(crate) gpu_types: Vec<Arc<str>>,
    /// Whether rows carry ids of their own.
    named: bool,
    /// Whether the first arrival is time zero.
    shift: bool,
    /// Jobs that were running at the end of the trace: which, and since when.
    running: Vec<(u32, Time)>,
    /// Jobs that may have been running at the end of the trace: which, and when they ended.
    cut: Vec<(u32, Time)>,
    /// The latest moment that the trace tells of.
    latest: Time,
    /// The clock by which the times of the trace are told.
    clock: Option<Clock>,
    /// What time zero is on that clock.
    zero: Time,
}

impl<'o> Import<'o> {
    /// Nothing yet.
    pub(crate) fn new(file: &str, format: &str, options: &'o Options) -> Result<Self, TraceError> {
        // A zone that does not exist is told whether or not the format has use for it.
        options.zone.as_deref().map(Clock::new).transpose()?;
        let source = format!("{file} ({format})");
        let mut tenants = Names::default();
        for (_, tenant) in options.tenants.iter() {
            tenants.push(&tenant.name);
        }
        Ok(Self {
            options,
            report: ImportReport { source, ..ImportReport::default() },
            file: file.to_owned(),
            jobs: Vec::new(),
            origins: Vec::new(),
            tenants,
            models: Names::default(),
            gpu_types: options.gpu_types.clone(),
            named: false,
            shift: false,
            running: Vec::new(),
            cut: Vec::new(),
            latest: Time::ZERO,
            clock: None,
            zero: Time::ZERO,
        })
    }

    /// The clock for times without a zone: that of the zone that was asked for, else the format's. The first arrival
    /// is then time zero.
    pub(crate) fn clock(&mut self, zone_of_format: &str) -> Result<Clock, TraceError> {
        let clock = Clock::new(self.options.zone.as_deref().unwrap_or(zone_of_format))?;
        if self.options.zone.is_none() {
            self.assume(&format!("times without a zone are of {}", clock.name()));
        }
        self.clock = Some(clock.clone());
        self.shift = true;
        Ok(clock)
    }

    /// The clock for a format that writes the zone behind each time. The first arrival is then time zero.
    pub(crate) fn clock_with_zones(&mut self) -> Result<Clock, TraceError> {
        let clock = Clock::new(self.options.zone.as_deref().unwrap_or("UTC"))?;
        self.clock = Some(clock.clone());
        self.shift = true;
        Ok(clock)
    }

    /// Time zero of the trace is this moment of the clock; it is only told.
    pub(crate) fn begins_at(&mut self, clock: Clock, at: Time) {
        self.clock = Some(clock);
        self.zero = at;
    }

    /// Makes the first arrival time zero.
    pub(crate) const fn start_at_first_arrival(&mut self) {
        self.shift = true;
    }

    /// The number of a model, which is known from then on.
    pub(crate) fn model(&mut self, name: &str) -> ModelId {
        ModelId(self.models.intern(name))
    }

    /// Says once that something was assumed.
    pub(crate) fn assume(&mut self, what: &str) {
        self.report.find(Done::Assumed, what, None);
    }

    /// Says once that something is worth knowing.
    pub(crate) fn note(&mut self, what: &str) {
        self.report.find(Done::Noted, what, None);
    }

    /// Counts a row that is no job of its own, and says why.
    pub(crate) fn pass(&mut self, line: u64, problem: Problem) {
        self.report.rows += 1;
        let place = problem.place(&self.file, line);
        self.report.find(Done::Noted, problem.what, Some(place));
    }

    /// Counts a row and keeps it or says why not.
    pub(crate) fn row(&mut self, line: u64, bytes: &[u8], row: Result<Draft<'_>, Problem>) {
        self.report.rows += 1;
        let chosen = row.and_then(|mut draft| {
            // How long a job is that was still running is known when the trace ends.
            if let (Some(preset), None) = (self.options.preset, draft.running_since) {
                draft.remarks.extend(preset.apply(&mut draft.shape, &mut draft.truth)?);
            }
            bounded(draft)
        });
        match chosen {
            Ok(draft) => self.keep(line, bytes, draft),
            Err(problem) => {
                let place = problem.place(&self.file, line);
                self.report.find(Done::Dropped, problem.what, Some(place));
            }
        }
    }

    fn keep(&mut self, line: u64, bytes: &[u8], draft: Draft<'_>) {
        let number = self.report.rows;
        self.named |= draft.name.is_some();
        let name: Arc<str> = match draft.name {
            Some(name) if draft.part.is_empty() => name.into(),
            Some(name) => format!("{name}/{}", draft.part).into(),
            None => number.to_string().into(),
        };
        self.origins.push(Origin {
            name_hash: hash(name.as_bytes()),
            row_hash: hash(bytes),
            line,
            declared_by_trace: draft.declared.is_some(),
        });
        for Remark { done, problem } in draft.remarks {
            let place = problem.place(&self.file, line);
            self.report.find(done, problem.what, Some(place));
        }
        let moments = [Some(draft.submitted), draft.ended, draft.running_since];
        self.latest = moments.into_iter().flatten().fold(self.latest, Time::max);
        if let Some(since) = draft.running_since {
            self.running.push((self.jobs.len() as u32, since));
        }
        if let Some(end) = draft.cut {
            self.cut.push((self.jobs.len() as u32, end));
        }
        let tenant = if draft.tenant.is_empty() { NOBODY } else { draft.tenant };
        let mut truth = draft.truth;
        truth.move_cost = draft.move_cost.unwrap_or(self.options.move_cost);
        if truth.ending == Ending::Censored && draft.running_since.is_none() {
            truth.ending = self.still_running(line, &name);
        }
        let job = Job {
            id: JobId(0),
            name,
            tenant: TenantId(self.tenants.intern(tenant)),
            model: (!draft.model.is_empty()).then(|| ModelId(self.models.intern(draft.model))),
            submitted: draft.submitted,
            declared: Declared {
                loss: draft.declared_loss,
                rates: draft.rates,
                ..draft.declared.unwrap_or_else(|| honest(&truth, &draft.shape, draft.iteration))
            },
            shape: draft.shape,
            wanted: draft.wanted,
            goals: draft.goals,
            move_cost: truth.move_cost,
        };
        self.jobs.push((Arc::new(job), truth));
    }

    /// Tells of a job that was still running when the trace ended, and says what that counts as.
    fn still_running(&mut self, line: u64, name: &str) -> Ending {
        let counts = self.options.count_censored;
        let what = if counts { STILL_RUNNING_COUNTED } else { STILL_RUNNING };
        let place = Problem::new(what, "", name).place(&self.file, line);
        self.report.find(if counts { Done::Assumed } else { Done::Noted }, what, Some(place));
        if counts { Ending::Completed } else { Ending::Censored }
    }

    /// A set of GPU types written as `a|b`; the empty word means any.
    pub(crate) fn gpu_types(&mut self, line: u64, value: &str) -> Result<GpuTypeSet, TraceError> {
        let mut ids = Vec::new();
        for word in value.split('|').map(str::trim).filter(|word| !word.is_empty()) {
            let name = word.to_lowercase();
            let name = match self.options.gpu_type_names.get(&name) {
                Some(other) => other.to_lowercase(),
                None => name,
            };
            let known = self.gpu_types.iter().position(|known| **known == *name);
            let index = match known {
                Some(index) => index,
                None if self.options.gpu_types.is_empty() => {
                    self.gpu_types.push(name.as_str().into());
                    self.gpu_types.len() - 1
                }
                None => {
                    let hint = nearest(&name, self.gpu_types.iter().map(|known| &**known));
                    let (file, value, name) = (self.file.clone(), shortened(value, 60), shortened(&name, 60));
                    return Err(TraceError::UnknownGpuType { file, line, value, gpu_type: name, hint });
                }
            };
            if index >= GpuTypeSet::MAX_TYPES {
                let (file, limit) = (self.file.clone(), GpuTypeSet::MAX_TYPES);
                return Err(TraceError::TooManyGpuTypes { file, line, limit });
            }
            ids.push(GpuTypeId(index as u8));
        }
        Ok(if ids.is_empty() { GpuTypeSet::ALL } else { GpuTypeSet::of(&ids) })
    }

    /// The workload.
    pub(crate) fn finish(mut self, format: &'static str) -> Result<Workload, TraceError> {
        if self.report.rows == 0 {
            return Err(TraceError::HeaderOnly { file: self.file, format });
        }
        self.close_running();
        if self.named {
            let Self { jobs, origins, report, file, options, .. } = &mut self;
            Rows { file, jobs, origins, report }.settle(options.on_duplicate)?;
        }
        self.declare();
        let usable = !self.jobs.is_empty();
        self.shift_and_sort();
        self.cut();
        if self.jobs.is_empty() {
            let is_reason = |finding: &&Finding| !usable && finding.done == Done::Dropped;
            let first = self.report.findings.iter().find(is_reason);
            let first = first.map_or_else(
                || "no job arrives in the window that was asked for".to_owned(),
                |finding| format!("{} ({})", finding.what, finding.examples.join("; ")),
            );
            return Err(TraceError::NothingKept { file: self.file, rows: self.report.rows, first });
        }
        self.report.kept = self.jobs.len() as u64;
        let mut tenants = self.options.tenants.clone();
        for name in self.tenants.list().iter().skip(tenants.len()) {
            tenants.intern(name);
        }
        let mut workload = Workload {
            jobs: self.jobs,
            tenants,
            models: self.models.into_list(),
            gpu_types: self.gpu_types,
            report: self.report,
        };
        workload.number();
        Ok(workload)
    }

    /// Gives the jobs that were still running the length that was seen of them. One of which nothing was seen is
    /// dropped, and so is one that is not of the study that was asked for.
    fn close_running(&mut self) {
        for (index, end) in std::mem::take(&mut self.cut) {
            if end == self.latest {
                let name = Arc::clone(&self.jobs[index as usize].0.name);
                let ending = self.still_running(self.origins[index as usize].line, &name);
                self.jobs[index as usize].1.ending = ending;
            }
        }
        let mut gone = BTreeSet::new();
        for (index, since) in std::mem::take(&mut self.running) {
            if let Err(problem) = self.close(index as usize, since) {
                let place = problem.place(&self.file, self.origins[index as usize].line);
                self.report.find(Done::Dropped, problem.what, Some(place));
                gone.insert(index as usize);
            }
        }
        if !gone.is_empty() {
            let (mut job, mut origin) = (0.., 0..);
            self.jobs.retain(|_| job.next().is_none_or(|index| !gone.contains(&index)));
            self.origins.retain(|_| origin.next().is_none_or(|index| !gone.contains(&index)));
        }
    }

    /// Gives one job that runs since then the length that was seen of it.
    fn close(&mut self, index: usize, since: Time) -> Result<(), Problem> {
        let line = self.origins[index].line;
        let (job, truth) = &mut self.jobs[index];
        truth.iterations += self.latest.since(since).as_secs_f64();
        if truth.iterations <= 0.0 {
            return Err(Problem::new(NOTHING_SEEN, "", &job.name));
        }
        bounded_time(truth)?;
        let name = Arc::clone(&job.name);
        let job = Arc::make_mut(job);
        let remark = match self.options.preset {
            Some(preset) => preset.apply(&mut job.shape, truth)?,
            None => None,
        };
        if !self.origins[index].declared_by_trace {
            let Declared { loss, iteration, rates, .. } = std::mem::take(&mut job.declared);
            job.declared = Declared { loss, rates, ..honest(truth, &job.shape, iteration) };
        }
        if let Some(Remark { done, problem }) = remark {
            let place = problem.place(&self.file, line);
            self.report.find(done, problem.what, Some(place));
        }
        if self.jobs[index].1.ending == Ending::Censored {
            self.jobs[index].1.ending = self.still_running(line, &name);
        }
        Ok(())
    }

    fn declare(&mut self) {
        let (declared, seed) = (self.options.declared, self.options.seed);
        for ((job, _), origin) in self.jobs.iter_mut().zip(&self.origins) {
            // What the trace itself declares is noisy enough.
            let by_trace = origin.declared_by_trace;
            if declared != Declaring::Exact && !(by_trace && declared != Declaring::Absent) {
                declare(Arc::make_mut(job), declared, seed);
            }
        }
    }

    fn shift_and_sort(&mut self) {
        if !self.jobs.is_sorted_by_key(|(job, _)| job.submitted) {
            self.jobs.sort_by_key(|(job, _)| job.submitted);
            self.report.find(Done::Noted, "the rows are not in the order of arrival; they were sorted", None);
        }
        let first = self.jobs.first().map_or(Time::ZERO, |(job, _)| job.submitted);
        if let Some(clock) = &self.clock {
            self.report.zone = Some(clock.name().to_owned());
            self.report.first_arrival = Some(clock.write(self.zero + Span(first.0)));
        }
        let origin =
            if self.shift { Time(first.0.saturating_add(self.options.from.0)) } else { self.options.from };
        if origin == Time::ZERO {
            return;
        }
        let early = self.jobs.partition_point(|(job, _)| job.submitted < origin);
        self.note_many("the job arrives before the window", early);
        self.jobs.drain(..early);
        for (job, _) in &mut self.jobs {
            let job = Arc::make_mut(job);
            job.submitted = Time(job.submitted.since(origin).0);
            job.goals.deadline = job.goals.deadline.map(|deadline| Time(deadline.since(origin).0));
        }
    }

    fn cut(&mut self) {
        if let Some(until) = self.options.until {
            let end = Time(until.since(self.options.from).0);
            let inside = self.jobs.partition_point(|(job, _)| job.submitted < end);
            self.note_many("the job arrives after the window", self.jobs.len() - inside);
            self.jobs.truncate(inside);
        }
        if let Some(limit) = self.options.jobs {
            self.note_many("the job is beyond the number asked for", self.jobs.len().saturating_sub(limit));
            self.jobs.truncate(limit);
        }
    }

    fn note_many(&mut self, what: &str, count: usize) {
        if count > 0 {
            self.report.find(Done::Noted, what, None);
            let finding = self.report.findings.iter_mut().find(|finding| finding.what == what);
            finding.expect("it was just found").count = count as u64;
        }
    }
}

/// Replaces the honest declaration of a job by what was asked for.
pub(crate) fn declare(job: &mut Job, declaring: Declaring, seed: Seed) {
    match declaring {
        Declaring::Exact => {}
        Declaring::Noisy { spread } => {
            // A branch for each job: its noise does not depend on which other jobs there are.
            let mut random = Pcg64::seed_from_u64(seed.branch("declared").branch(&job.name).0);
            let normal: f64 = StandardNormal.sample(&mut random);
            job.declared.iterations = job.declared.iterations.map(|count| count * (spread * normal).exp());
        }
        // Of its length; what it says of its loss stays, and so does what others know of its speed.
        Declaring::Absent => {
            let Declared { loss, rates, .. } = std::mem::take(&mut job.declared);
            job.declared = Declared { loss, rates, ..Declared::default() };
        }
    }
}

/// What an honest owner declares: the time of one iteration belongs to the smallest gang.
fn honest(truth: &Truth, shape: &Parallelism, iteration: Option<Span>) -> Declared {
    let mut declared = Workload::honest(truth);
    declared.iteration = iteration.or(declared.iteration);
    if let (Speed::Fixed { iteration, workers }, Some(job)) = (&truth.speed, shape.data_parallel())
        && *workers != job.workers.min
    {
        declared.iteration = Some(iteration.scaled(f64::from(*workers) / f64::from(job.workers.min)));
    }
    declared
}
