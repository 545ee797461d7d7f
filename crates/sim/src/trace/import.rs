//! Collects the rows of a trace into a workload: names become numbers, repeated rows are found, arrivals are
//! sorted and cut to the window that was asked for. Knows no format.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;
use trainyard_sched::model::{
    Declared, Goals, GpuTypeId, GpuTypeSet, Job, JobId, ModelId, MoveCost, Parallelism, Seed, Span, TenantId,
    Time, Wanted,
};

use super::error::{TraceError, nearest};
use super::fields::Problem;
use super::{Declaring, Options};
use crate::truth::{Speed, Truth};
use crate::workload::{Done, Finding, ImportReport, Workload};

/// The tenant of jobs whose trace names none.
const NOBODY: &str = "default";

/// One row, read and checked.
pub(crate) struct Draft<'a> {
    /// The job's id in the trace; `None` where rows have no id, and the number of the row stands in.
    pub(crate) name: Option<&'a str>,
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
    /// What it is for.
    pub(crate) goals: Goals,
    /// What it really is.
    pub(crate) truth: Truth,
    /// The time of one iteration on the smallest gang, where the truth does not give it.
    pub(crate) iteration: Option<Span>,
    /// What the trace says that its owner claimed; else it is made from the truth.
    pub(crate) declared: Option<Declared>,
    /// What moving costs, where the trace says so.
    pub(crate) move_cost: Option<MoveCost>,
    /// What had to be assumed about this row, each with its field.
    pub(crate) assumed: Vec<Problem>,
}

impl Draft<'_> {
    /// A job with nothing special.
    pub(crate) fn plain(submitted: Time, shape: Parallelism, truth: Truth) -> Self {
        Self {
            name: None,
            tenant: "",
            model: "",
            submitted,
            shape,
            wanted: Wanted::default(),
            goals: Goals::default(),
            truth,
            iteration: None,
            declared: None,
            move_cost: None,
            assumed: Vec::new(),
        }
    }
}

/// Where a job comes from, to recognise repeated rows.
#[derive(Clone, Copy)]
struct Origin {
    name_hash: u64,
    row_hash: u64,
    line: u64,
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
    gpu_types: Vec<Arc<str>>,
    /// Whether rows carry ids of their own.
    named: bool,
    /// Whether the first arrival is time zero.
    shift: bool,
    /// Whether the declaration is the trace's own, by job.
    declared_by_trace: Vec<bool>,
}

/// Names in order of appearance, found quickly.
#[derive(Default)]
struct Names {
    list: Vec<String>,
    numbers: BTreeMap<String, u32>,
    last: u32,
}

impl Names {
    fn intern(&mut self, name: &str) -> u32 {
        // Neighbouring rows often share a name.
        if self.list.get(self.last as usize).is_some_and(|last| last == name) {
            return self.last;
        }
        self.last = self.numbers.get(name).copied().unwrap_or_else(|| self.push(name));
        self.last
    }

    /// Adds a name at the end; of equal names the first is found.
    fn push(&mut self, name: &str) -> u32 {
        let number = self.list.len() as u32;
        self.list.push(name.to_owned());
        self.numbers.entry(name.to_owned()).or_insert(number);
        number
    }
}

/// FNV-1a, good enough to find candidates that are then compared.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl<'o> Import<'o> {
    /// Nothing yet.
    pub(crate) fn new(file: &str, format: &str, options: &'o Options) -> Self {
        let source = format!("{file} ({format})");
        let mut tenants = Names::default();
        for (_, tenant) in options.tenants.iter() {
            tenants.push(&tenant.name);
        }
        Self {
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
            declared_by_trace: Vec::new(),
        }
    }

    /// Makes the first arrival time zero.
    pub(crate) const fn start_at_first_arrival(&mut self) {
        self.shift = true;
    }

    /// Says once that something was assumed.
    pub(crate) fn assume(&mut self, what: &str) {
        self.report.find(Done::Assumed, what, None);
    }

    /// Says once something that is worth knowing and changes nothing.
    pub(crate) fn note(&mut self, what: &str) {
        self.report.find(Done::Noted, what, None);
    }

    /// Says that something was assumed about the row at `line`.
    pub(crate) fn assume_of_row(&mut self, line: u64, problem: Problem) {
        let place = problem.place(&self.file, line);
        self.report.find(Done::Assumed, problem.what, Some(place));
    }

    /// Counts a row and keeps it or says why not.
    pub(crate) fn row(&mut self, line: u64, bytes: &[u8], row: Result<Draft<'_>, Problem>) {
        self.report.rows += 1;
        match row {
            Ok(mut draft) => {
                for problem in std::mem::take(&mut draft.assumed) {
                    self.assume_of_row(line, problem);
                }
                self.keep(line, bytes, draft);
            }
            Err(problem) => {
                let place = problem.place(&self.file, line);
                self.report.find(Done::Dropped, problem.what, Some(place));
            }
        }
    }

    fn keep(&mut self, line: u64, bytes: &[u8], draft: Draft<'_>) {
        let number = self.report.rows;
        self.named |= draft.name.is_some();
        let name: Arc<str> = draft.name.map_or_else(|| number.to_string().into(), Arc::from);
        self.origins.push(Origin { name_hash: hash(name.as_bytes()), row_hash: hash(bytes), line });
        let tenant = if draft.tenant.is_empty() { NOBODY } else { draft.tenant };
        let mut truth = draft.truth;
        truth.move_cost = draft.move_cost.unwrap_or(self.options.move_cost);
        self.declared_by_trace.push(draft.declared.is_some());
        let job = Job {
            id: JobId(0),
            name,
            tenant: TenantId(self.tenants.intern(tenant)),
            model: (!draft.model.is_empty()).then(|| ModelId(self.models.intern(draft.model))),
            submitted: draft.submitted,
            declared: draft.declared.unwrap_or_else(|| honest(&truth, &draft.shape, draft.iteration)),
            shape: draft.shape,
            wanted: draft.wanted,
            goals: draft.goals,
            move_cost: truth.move_cost,
        };
        self.jobs.push((Arc::new(job), truth));
    }

    /// A set of GPU types written as `a|b`; the empty word means any.
    pub(crate) fn gpu_types(&mut self, line: u64, value: &str) -> Result<GpuTypeSet, TraceError> {
        let mut ids = Vec::new();
        for word in value.split('|').map(str::trim).filter(|word| !word.is_empty()) {
            let name = word.to_lowercase();
            let known = self.gpu_types.iter().position(|known| **known == *name);
            let index = match known {
                Some(index) => index,
                None if self.options.gpu_types.is_empty() => {
                    self.gpu_types.push(name.as_str().into());
                    self.gpu_types.len() - 1
                }
                None => {
                    let hint = nearest(&name, self.gpu_types.iter().map(|known| &**known));
                    let (file, value) = (self.file.clone(), value.to_owned());
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
        self.declare();
        self.drop_repeated()?;
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
        for name in self.tenants.list.iter().skip(tenants.len()) {
            tenants.intern(name);
        }
        let mut workload = Workload {
            jobs: self.jobs,
            tenants,
            models: self.models.list,
            gpu_types: self.gpu_types,
            report: self.report,
        };
        workload.number();
        Ok(workload)
    }

    /// Keeps one of several equal rows for a job; different rows are an error.
    fn drop_repeated(&mut self) -> Result<(), TraceError> {
        if !self.named {
            return Ok(());
        }
        let mut order: Vec<(u64, u32)> = Vec::with_capacity(self.origins.len());
        order.extend(self.origins.iter().enumerate().map(|(i, origin)| (origin.name_hash, i as u32)));
        order.sort_unstable();
        let mut repeated = Vec::new();
        for group in order.chunk_by(|a, b| a.0 == b.0).filter(|group| group.len() > 1) {
            for (position, (_, later)) in group.iter().enumerate() {
                let later = *later as usize;
                let same_name = |(_, earlier): &&(u64, u32)| {
                    self.jobs[*earlier as usize].0.name == self.jobs[later].0.name
                };
                let Some((_, earlier)) = group[..position].iter().find(same_name) else { continue };
                let earlier = *earlier as usize;
                let (first, second) = (self.origins[earlier], self.origins[later]);
                if first.row_hash != second.row_hash || self.jobs[earlier] != self.jobs[later] {
                    return Err(TraceError::DuplicateJob {
                        file: self.file.clone(),
                        first: first.line,
                        second: second.line,
                        job: self.jobs[later].0.name.to_string(),
                    });
                }
                repeated.push(later);
            }
        }
        repeated.sort_unstable();
        for index in &repeated {
            let place = format!("{}:{}: {}", self.file, self.origins[*index].line, self.jobs[*index].0.name);
            self.report.find(Done::Dropped, "the row repeats an earlier one word for word", Some(place));
        }
        let mut index = 0..self.jobs.len();
        let mut stays = || index.next().is_some_and(|index| repeated.binary_search(&index).is_err());
        if !repeated.is_empty() {
            self.jobs.retain(|_| stays());
        }
        Ok(())
    }

    fn declare(&mut self) {
        let (declared, seed) = (self.options.declared, self.options.seed);
        for ((job, _), by_trace) in self.jobs.iter_mut().zip(&self.declared_by_trace) {
            // What the trace itself declares is noisy enough.
            if declared != Declaring::Exact && !(*by_trace && declared != Declaring::Absent) {
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
        Declaring::Absent => job.declared = Declared::default(),
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
