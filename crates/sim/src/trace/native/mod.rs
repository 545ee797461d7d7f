//! Trainyard's own trace format, as CSV and as one JSON object a line; described in `docs/trace-format.md`.
//!
//! Both forms give the same texts by column, and only this file, `goals`, `graph`, `rates` and `training` know what they mean.
//! Parameter servers of equal workers cannot be written in it.

mod csv;
mod goals;
mod graph;
mod graph_words;
mod json;
mod rates;
mod training;

use std::sync::Arc;

use trainyard_sched::model::{
    Declared, GPU, GpuTypeSet, MoveCost, Parallelism, Rates, Resources, Span, Topology, Wanted, WorkerRange,
};

pub(crate) use csv::FORMAT as CSV;
pub(crate) use goals::{relaxing_text, stop_text};
pub(crate) use graph::texts as graph_texts;
pub use graph_words::graph_text;
pub(crate) use json::FORMAT as JSON;
pub(crate) use rates::text as rates_text;
pub(crate) use training::texts as training_texts;

use super::Column;
use super::Options;
use super::error::TraceError;
use super::fields::{
    GPU_LIMIT, Problem, Remark, duration_s, gpu_count, number_within, span_s, time_s, whole,
};
use super::import::{Draft, Import};
use crate::truth::{Ending, Truth};
use rates::{Profile, Speeds};

const BYTES_PER_GB: f64 = 1e9;

macro_rules! columns {
    ($($index:ident $name:literal $meaning:literal;)*) => {
        /// Positions in [`COLUMNS`].
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Key { $($index),* }

        /// All columns, required ones first.
        pub(crate) const COLUMNS: &[Column] = &[$(Column { name: $name, meaning: $meaning }),*];
    };
}

columns! {
    JobId "job_id" "the job's id, any text; required";
    Submit "submit_s" "submission in seconds from the start of the trace; required";
    Duration "duration_s" "run time in seconds on `gpus` GPUs; of a job with a `graph` it may be left out, as it follows from that; otherwise required";
    Gpus "gpus" "GPUs of the gang; 0 for a job without GPU, which then needs `cpus`; of a job with a `graph` it may be left out, as it follows from that; otherwise required";
    Tenant "tenant" "who owns it; default `default`";
    GpuTypes "gpu_types" "acceptable GPU types as `a|b`, a set; default any";
    Workers "workers" "into how many equal workers the gang is cut, each on one node; default one for each GPU, or one without GPU";
    Cpus "cpus" "CPU cores of each worker; default 0";
    Memory "memory_gb" "main memory of each worker in GB (1e9 bytes); default 0";
    Share "gpu_share" "part of one device that each worker needs, above 0 and up to 1, if it has one GPU; default 1";
    MinGpus "min_gpus" "the fewest GPUs with which it can run; default `gpus`";
    MaxGpus "max_gpus" "the most GPUs that are of use, speed in proportion; default `gpus`";
    SameNode "same_node" "`true` if all workers must be on one node; default `false`";
    Class "class" "priority class, a whole number from -32768 to 32767, higher first; default 0";
    Weight "weight" "weight among the jobs of its tenant, from 0 upwards; default 1";
    Deadline "deadline_s" "when it should be done, in seconds from the start of the trace; default none";
    Model "model" "what it trains; default unknown";
    Status "status" "how it ends: `completed`, `failed`, `killed`, or `censored` if it was still running when the trace ended; default `completed`";
    Save "save_s" "seconds from the order to stop until its GPUs are free; default as the run says";
    Load "load_s" "seconds from a start to the first new iteration; default as the run says";
    Checkpoint "checkpoint_every_s" "seconds between its own checkpoints; default none";
    Declared "declared_s" "the run time on `gpus` GPUs that its owner claims; default as the run says, or nothing if `limit_s` is given";
    Limit "limit_s" "the run time that its owner asked for, as a limit; default none";
    Iterations "iterations" "iterations of the whole run; default one for each second of `duration_s`";
    Work "work_s" "worker-seconds of one iteration that divide among the workers, if not all of it does; needs `iterations`, and `duration_s` must agree; default none";
    Fixed "fixed_s" "seconds of one iteration that no number of workers shortens; default 0";
    Loss "loss" "the loss that it reports: `sublinear a b c d` for 1 / (a k^2 + b k + c) + d, `geometric amplitude mu c` for amplitude mu^k + c (a score, with `higher` in `better`, has a negative amplitude), or the name of a recorded curve of `--curves FILE`; default none";
    LossNoise "loss_noise" "spread of a random factor on each reported loss; default 0";
    Better "better" "`lower` if it reports a loss, `higher` if it reports a score such as an accuracy; default `lower`";
    Convergence "convergence" "how its owner says that it converges: `sublinear`, `linear` or `non_convex`; default unknown";
    TargetLoss "target_loss" "the loss that its owner says it will reach; default unknown";
    Rates "rates" "how fast it goes by GPU type, as it was profiled and declares: iterations a second of the whole job as `v100 5.4|k80 0.9`, on `gpus` GPUs of one node, or as `v100 x4 19.5` on others and `v100 x4 apart 17.2` on several nodes; 0 where it does not fit; needs `iterations` and workers with one GPU each, and `duration_s` must agree with one of them; default as fast on every type";
    Urgency "urgency" "how urgent it is, a whole number from 0 to 255, larger is more urgent; default 0";
    RequiredAccuracy "required_accuracy" "the validation accuracy that its owner needs, from 0 to 1; default none";
    Stop "stop" "when it has had enough: `own_iterations`, `iterations N`, `at_peak` of its accuracy, or `at_accuracy A`; default `own_iterations`";
    MayRelax "may_relax" "by which cheaper rules an overloaded cluster may replace `stop`, as a set: `own_to_peak`, `own_to_accuracy`, `peak_to_accuracy`; default none";
    Accuracy "accuracy" "the accuracy that it reports beside its loss: `weibull start top scale shape` for top - (top - start) exp(-(k / scale)^shape), and `from each` behind these if it falls by each with every iteration after from; needs `loss`; default none";
    Graph "graph" "the tasks of a job that is a graph of tasks and no equal workers, as text or as an object, see below; needs `iterations` or `duration_s`; default none";
    Pace "pace" "true computing times of the tasks of a `graph`, as a multiple of those in it; default 1";
    Wander "wander" "how what the tasks of a `graph` use wanders around their demand from minute to minute: `rho deviation` or `rho deviation seed` of an autoregressive process; default not at all";
    DeclaredIterations "declared_iterations" "how many iterations the owner of a job with a `graph` claims; alone it means that no run time is claimed; default `iterations`";
}

/// The words for endings.
pub(crate) const ENDINGS: [(&str, Ending); 4] = [
    ("completed", Ending::Completed),
    ("failed", Ending::Failed),
    ("killed", Ending::Killed),
    ("censored", Ending::Censored),
];

/// The first columns are required; of jobs with a graph only the first two of them.
pub(crate) const REQUIRED: usize = 4;
/// Those that are required of every job.
pub(crate) const ALWAYS_REQUIRED: usize = 2;

/// The texts of one row by column; empty where nothing is said.
pub(crate) struct Texts<'a>(pub(crate) [&'a str; COLUMNS.len()]);

impl<'a> Texts<'a> {
    /// Name and text of a column.
    fn get(&self, key: Key) -> (&'static str, &'a str) {
        (COLUMNS[key as usize].name, self.0[key as usize])
    }

    /// A value, if something is said.
    fn optional<T>(
        &self,
        key: Key,
        read: impl Fn(&str, &str) -> Result<T, Problem>,
    ) -> Result<Option<T>, Problem> {
        let (name, text) = self.get(key);
        if text.is_empty() { Ok(None) } else { read(name, text).map(Some) }
    }

    /// A value that must be there.
    fn required<T>(&self, key: Key, read: impl Fn(&str, &str) -> Result<T, Problem>) -> Result<T, Problem> {
        let (name, text) = self.get(key);
        read(name, text)
    }
}

/// Reads one row and hands it over.
fn take(
    import: &mut Import<'_>,
    line: u64,
    bytes: &[u8],
    row: Result<Texts<'_>, Problem>,
) -> Result<(), TraceError> {
    let texts = match row {
        Ok(texts) => texts,
        Err(problem) => {
            import.row(line, bytes, Err(problem));
            return Ok(());
        }
    };
    let gpu_types = match texts.get(Key::GpuTypes).1 {
        "" => GpuTypeSet::ALL,
        words => import.gpu_types(line, words)?,
    };
    let profile = rates::read(import, line, &texts)?;
    let draft = profile.and_then(|profile| draft(&texts, gpu_types, profile, import.options));
    import.row(line, bytes, draft);
    Ok(())
}

/// How a job is cut into pieces, and what follows from that.
struct Body {
    shape: Parallelism,
    truth: Truth,
    /// The types on which it can run, if fewer than were named.
    gpu_types: Option<GpuTypeSet>,
    rates: Option<Arc<Rates>>,
    /// The time of one iteration on the smallest gang.
    iteration: Span,
    declared: Option<Declared>,
}

fn draft<'a>(
    texts: &Texts<'a>,
    gpu_types: GpuTypeSet,
    profile: Option<Profile>,
    options: &Options,
) -> Result<Draft<'a>, Problem> {
    let mut remarks = Vec::new();
    let (field, name) = texts.get(Key::JobId);
    if name.is_empty() {
        return Err(Problem::new("job_id is missing", field, "(empty)"));
    }
    let submitted = texts.required(Key::Submit, time_s)?;
    let body = match graph::read(texts, options, &mut remarks)? {
        Some(body) => body,
        None => workers(texts, gpu_types, profile, options, &mut remarks)?,
    };
    let (field, text) = texts.get(Key::Status);
    let ending = ending(field, text, &mut remarks);
    let same_node = texts.optional(Key::SameNode, truth_value)?.unwrap_or(false);
    let topology = if same_node { Topology::SameNode } else { Topology::Anywhere };
    let gpu_types = body.gpu_types.unwrap_or(gpu_types);
    Ok(Draft {
        name: Some(name),
        tenant: texts.get(Key::Tenant).1,
        model: texts.get(Key::Model).1,
        wanted: Wanted { gpu_types, topology, ..Wanted::default() },
        goals: goals::read(texts)?,
        iteration: Some(body.iteration),
        declared: body.declared,
        rates: body.rates,
        declared_loss: training::declared_loss(texts)?,
        move_cost: move_cost(texts, options.move_cost)?,
        remarks,
        ..Draft::plain(submitted, body.shape, Truth { ending, ..body.truth })
    })
}

/// A job of equal workers.
fn workers(
    texts: &Texts<'_>,
    gpu_types: GpuTypeSet,
    profile: Option<Profile>,
    options: &Options,
    remarks: &mut Vec<Remark>,
) -> Result<Body, Problem> {
    let (field, text) = texts.get(Key::Duration);
    let duration = options.repairs.duration_s(field, text, remarks)?;
    let (workers, range, worker) = demand(texts)?;
    let claimed = texts.optional(Key::Declared, duration_s)?;
    let limit = texts.optional(Key::Limit, duration_s)?;
    let mut truth = training::truth(texts, duration, workers, options.curves.as_deref())?;
    let Speeds { rates, gpu_types, iteration: (each, iteration) } = match profile {
        Some(profile) => {
            profile.apply(texts, &mut truth, (gpu_types, duration), (workers, range.min, worker))?
        }
        None => {
            let iteration = training::iteration(&truth, workers, range.min);
            Speeds { rates: None, gpu_types, iteration }
        }
    };
    let declared = (claimed.is_some() || limit.is_some()).then(|| Declared {
        iterations: claimed.map(|claimed| claimed.as_secs_f64() / each.as_secs_f64()),
        iteration: claimed.map(|_| iteration),
        limit,
        ..Declared::default()
    });
    let shape = Parallelism::elastic(range, worker);
    Ok(Body { shape, truth, gpu_types: Some(gpu_types), rates, iteration, declared })
}

/// The workers to which the duration belongs, how many there may be, and what each needs.
fn demand(texts: &Texts<'_>) -> Result<(u32, WorkerRange, Resources), Problem> {
    let gpus = texts.required(Key::Gpus, |field, text| whole(field, text, 0.0, GPU_LIMIT))? as u32;
    let cpus = texts.optional(Key::Cpus, |field, text| number_within(field, text, 0.0, 1e6))?;
    let memory = texts.optional(Key::Memory, |field, text| number_within(field, text, 0.0, 1e9))?;
    let share = texts.optional(Key::Share, |field, text| number_within(field, text, 0.001, 1.0))?;
    let workers = texts.optional(Key::Workers, gpu_count)?.unwrap_or(gpus.max(1));
    let (gpus_field, gpus_text) = texts.get(Key::Gpus);
    if !gpus.is_multiple_of(workers) {
        let what = "gpus cannot be shared out equally among the workers";
        return Err(Problem::new(what, gpus_field, &format!("{gpus_text} for {workers} workers")));
    }
    let each = gpus / workers;
    let milli = |amount: f64| (amount * GPU as f64).round() as u64;
    let gpu_milli = match each {
        0 => 0,
        1 => share.map_or(GPU, milli),
        _ => u64::from(each) * GPU,
    };
    let worker = Resources {
        gpu_milli,
        cpu_milli: cpus.map_or(0, milli),
        memory_bytes: memory.map_or(0, |amount| (amount * BYTES_PER_GB).round() as u64),
        network_bytes_per_s: 0,
    };
    if gpus == 0 && worker.cpu_milli == 0 {
        return Err(Problem::new("a job without GPUs needs cpus", gpus_field, gpus_text));
    }
    if each > 1 && share.is_some_and(|share| share < 1.0) {
        return Err(Problem::new("a worker has either several GPUs or a part of one", gpus_field, gpus_text));
    }
    let range = |key| -> Result<u32, Problem> {
        let Some(least) = texts.optional(key, gpu_count)? else { return Ok(workers) };
        let (field, text) = texts.get(key);
        let odd = || Problem::new(format!("{field} is no multiple of the GPUs of a worker"), field, text);
        // A job without GPUs counts its workers.
        least.is_multiple_of(each.max(1)).then(|| least / each.max(1)).ok_or_else(odd)
    };
    let (min, max) = (range(Key::MinGpus)?, range(Key::MaxGpus)?);
    if !(min <= workers && workers <= max) {
        let value = format!("{min}..{max} around gpus {gpus}");
        return Err(Problem::new("gpus is not between min_gpus and max_gpus", "min_gpus..max_gpus", &value));
    }
    Ok((workers, WorkerRange { min, max }, worker))
}

/// What moving costs, if the row says anything about it; what it leaves out is as the run says.
fn move_cost(texts: &Texts<'_>, standard: MoveCost) -> Result<Option<MoveCost>, Problem> {
    let save = texts.optional(Key::Save, span_s)?;
    let load = texts.optional(Key::Load, span_s)?;
    let checkpoint_every = texts.optional(Key::Checkpoint, duration_s)?;
    if save.is_none() && load.is_none() && checkpoint_every.is_none() {
        return Ok(None);
    }
    Ok(Some(MoveCost {
        save: save.unwrap_or(standard.save),
        load: load.unwrap_or(standard.load),
        checkpoint_every: checkpoint_every.or(standard.checkpoint_every),
        loses_when_stopped: false,
        merge: standard.merge,
    }))
}

/// How the job ends; of an unknown word it is told that completion is assumed.
fn ending(field: &str, text: &str, remarks: &mut Vec<Remark>) -> Ending {
    if text.is_empty() {
        return Ending::Completed;
    }
    let known = ENDINGS.into_iter().find(|(word, _)| text.eq_ignore_ascii_case(word));
    known.map_or_else(
        || {
            remarks.push(Remark::assumed("the status is unknown; the job is taken to complete", field, text));
            Ending::Completed
        },
        |(_, ending)| ending,
    )
}

fn truth_value(field: &str, text: &str) -> Result<bool, Problem> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(Problem::new(format!("{field} is neither true nor false"), field, text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_every_column_word_for_word() {
        let text = include_str!("../../../../../docs/trace-format.md");
        for column in COLUMNS {
            let row = format!("| `{}` | {} |", column.name, column.meaning);
            assert!(text.contains(&row), "docs/trace-format.md lacks this row:\n{row}");
        }
    }

    #[test]
    fn required_columns_stand_first() {
        let says_required = |column: &Column| column.meaning.ends_with("required");
        assert!(COLUMNS.iter().enumerate().all(|(i, column)| says_required(column) == (i < REQUIRED)));
    }
}
