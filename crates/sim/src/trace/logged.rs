//! What logs of clusters have in common: a submission, a start and an end on a wall clock, and a word for how it ended.

use trainyard_sched::model::{Parallelism, Resources, Span, Time};

use super::fields::{Problem, Remark};
use super::import::Draft;
use super::options::Repairs;
use super::wall::Clock;
use crate::truth::{Ending, Truth};
use crate::workload::Done;

/// How far a stated run time may be from the one between start and end before it is told, in seconds.
const TOLERANCE_S: f64 = 1.5;

/// A field with its name.
pub(crate) type Field<'r> = (&'static str, &'r str);

/// Whether a field says that nothing is known.
pub(crate) fn is_open(text: &str) -> bool {
    ["", "none", "null", "unknown", "nan", "nat"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// The times of one job as they stand in the log.
pub(crate) struct Stamps<'r> {
    /// When it was submitted.
    pub(crate) submitted: Field<'r>,
    /// When it began; open if it never did.
    pub(crate) started: Field<'r>,
    /// When it ended; open if it was still running.
    pub(crate) ended: Field<'r>,
}

/// When a job was there, and how long it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// When it was submitted.
    pub(crate) submitted: Time,
    /// When it ended.
    pub(crate) ended: Option<Time>,
    /// How long it ran; nothing if it still does.
    pub(crate) length: Span,
    /// When it began, if it was still running.
    pub(crate) running_since: Option<Time>,
}

impl Stamps<'_> {
    /// Reads the times. A job that never began is a problem, because nobody knows its length.
    pub(crate) fn run(
        &self,
        clock: &Clock,
        repairs: Repairs,
        remarks: &mut Vec<Remark>,
    ) -> Result<Run, Problem> {
        let submitted = clock.read(self.submitted.0, self.submitted.1, remarks)?;
        if is_open(self.started.1) {
            return Err(never_ran(self.started));
        }
        let started = clock.read(self.started.0, self.started.1, remarks)?;
        repairs.wait(submitted, started, self.started, remarks)?;
        if is_open(self.ended.1) {
            return Ok(Run { submitted, ended: None, length: Span::ZERO, running_since: Some(started) });
        }
        let ended = clock.read(self.ended.0, self.ended.1, remarks)?;
        let length = repairs.length(started, ended, self.ended, remarks)?;
        Ok(Run { submitted, ended: Some(ended), length, running_since: None })
    }
}

/// A job that never began.
pub(crate) fn never_ran((field, value): Field<'_>) -> Problem {
    Problem::new("the job never began, so nobody knows how long it would run", field, value)
}

impl Run {
    /// A job of this shape that ends like this, if it does not run on.
    pub(crate) fn draft<'a>(&self, shape: Parallelism, ending: Ending, remarks: Vec<Remark>) -> Draft<'a> {
        let workers = shape.data_parallel().map_or(1, |job| job.workers.min);
        let ending = if self.running_since.is_some() { Ending::Censored } else { ending };
        let truth = Truth { ending, ..Truth::lasting(self.length, workers) };
        let plain = Draft::plain(self.submitted, shape, truth);
        Draft { running_since: self.running_since, ended: self.ended, remarks, ..plain }
    }

    /// Tells of a stated run time in seconds that is not the one between start and end, which counts.
    pub(crate) fn compare(&self, (field, value): Field<'_>, remarks: &mut Vec<Remark>) {
        let stated: Option<f64> = value.parse().ok();
        let real = self.length.as_secs_f64();
        let far = stated.is_some_and(|stated| (stated - real).abs() > TOLERANCE_S);
        if far && self.running_since.is_none() {
            let what = format!("{field} is not the time from start to end, which counts");
            remarks.push(Remark { done: Done::Noted, problem: Problem::new(what, field, value) });
        }
    }
}

/// How a job ended, by a table of words; of an unknown word it is told that completion is assumed.
pub(crate) fn ending(
    table: &[(&str, Ending)],
    (field, word): Field<'_>,
    remarks: &mut Vec<Remark>,
) -> Ending {
    let known = table.iter().find(|(known, _)| known.eq_ignore_ascii_case(word));
    known.map_or_else(
        || {
            let what = format!("{field} is no known word; the job is taken to complete");
            remarks.push(Remark::assumed(what, field, word));
            Ending::Completed
        },
        |(_, ending)| *ending,
    )
}

/// Amounts that a job asks for in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Demand {
    /// Whole GPUs.
    pub(crate) gpus: u32,
    /// CPU cores in thousandths.
    pub(crate) cpu_milli: u64,
    /// Main memory in bytes.
    pub(crate) memory_bytes: u64,
    /// Machines, over which a job without GPUs is spread.
    pub(crate) nodes: u32,
}

impl Demand {
    /// The gang: one worker for each GPU, or one on each machine if there are none. CPUs and memory are shared out
    /// equally; `field` is where GPUs stand.
    pub(crate) fn shape(&self, (field, value): Field<'_>) -> Result<Parallelism, Problem> {
        if self.gpus == 0 && self.cpu_milli == 0 {
            return Err(Problem::new("the job asks for neither GPUs nor CPUs", field, value));
        }
        let workers = if self.gpus > 0 { self.gpus } else { self.nodes.max(1) };
        let each = Resources {
            cpu_milli: self.cpu_milli / u64::from(workers),
            memory_bytes: self.memory_bytes / u64::from(workers),
            ..Resources::gpus(u64::from(self.gpus.min(1)))
        };
        if self.gpus == 0 && each.cpu_milli == 0 {
            let what = "the job asks for less than a thousandth of a CPU core on each machine";
            return Err(Problem::new(what, field, value));
        }
        Ok(Parallelism::rigid(workers, each))
    }
}
