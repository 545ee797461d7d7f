//! What somebody asks to be run, as it comes over the wire or from a file: read strictly, checked against the cluster, and
//! turned into a job and its work.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use trainyard_live::Submission;
use trainyard_live::work::{Launch, Work};
use trainyard_sched::model::{
    Accuracy, Better, Cluster, Convergence, DataParallel, Declared, DeclaredLoss, GPU, Goals, GpuTypeId,
    GpuTypeSet, Job, JobId, MoveCost, Parallelism, PriorityClass, Relaxing, Resources, Span, StopRule,
    TenantId, Time, Topology, Wanted, WorkerRange,
};
use utoipa::ToSchema;

use super::problem::Problem;
use super::strict;
use super::tasks_request::{EdgeRequest, ReduceRequest, TaskRequest};
use crate::config::span;

/// No amount is larger, so that sums fit.
const MOST: f64 = 1e12;
/// The most workers that a job may ask for.
const MOST_WORKERS: u32 = 1_000_000;
/// The most copies that a job may ask for.
const MOST_COPIES: u16 = 1000;

/// A job that somebody wants to run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(example = json!({ "command": ["python3", "train.py"], "cpus": 1.0, "progress": "jsonl" }))]
pub(crate) struct JobRequest {
    /// What to call it; by default job-N.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Whose it is. A user's token says so itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    /// The program and its arguments.
    #[schema(required, min_items = 1)]
    pub(crate) command: Vec<String>,
    /// Where it is started; by default in a folder of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) directory: Option<PathBuf>,
    /// Variables of its environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) environment: BTreeMap<String, String>,
    /// CPU cores of one worker, such as 0.05; 1 by default where no GPUs are asked for, else 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpus: Option<f64>,
    /// GPUs of one worker; below 1 a share of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gpus: Option<f64>,
    /// Types of GPU that will do, by name; by default any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) gpu_types: Vec<String>,
    /// Main memory of one worker: bytes, or an amount such as "2GB" or "512MiB".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<Amount>,
    /// How many workers: a number, or from `min` to `max`; 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workers: Option<Workers>,
    /// How close its workers must be: `anywhere`, `same_rack` or `same_node`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) topology: Option<Topology>,
    /// How many processes it is: `per_node` or `per_worker`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) launch: Option<Launch>,
    /// How its progress is found, such as `jsonl`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) progress: Option<String>,
    /// Seconds that it may take to save and leave when told to stop; 30 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) grace_s: Option<u32>,
    /// How often it is started again after it failed by itself; 0 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retries: Option<u32>,
    /// Iterations in all, as its owner declares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) iterations: Option<f64>,
    /// How long it runs on its smallest gang, as its owner declares: seconds, or such as "2h".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duration: Option<Length>,
    /// The priority class; a higher one always goes first. 0 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) priority: Option<i16>,
    /// Its weight among the jobs of its tenant; 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) weight: Option<f64>,
    /// When it should be done, from now: seconds, or such as "8h".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deadline: Option<Length>,
    /// When it has had enough: `{"iterations": 5000}`, `{"accuracy": 0.9}` or `"peak"`; by default when its program ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stop: Option<Stop>,
    /// The accuracy that its owner needs, a fraction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) accuracy: Option<f64>,
    /// By which cheaper rules its stop rule may be replaced while the cluster is overloaded; by default by none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) may_relax: Option<MayRelax>,
    /// Which way what it reports gets better: `lower` or `higher`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) better: Option<Better>,
    /// How it converges: `sublinear`, `linear` or `non_convex`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) convergence: Option<Convergence>,
    /// The loss that training is known to reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target_loss: Option<f64>,
    /// As how many copies of itself it may train at a time, if the policy forks jobs; more than 1, the default, need `iterations`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) copies: Option<u16>,
    /// Whether it may be stopped or moved once it runs; true by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) movable: Option<bool>,
    /// Its tasks, if it is a graph of tasks rather than of equal workers: the program is started once for each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tasks: Option<Vec<TaskRequest>>,
    /// What flows from task to task.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) edges: Vec<EdgeRequest>,
    /// How its replicas agree on one model, if by an all-reduce.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reduce: Option<ReduceRequest>,
    /// Whether it makes progress while only some replicas are placed; false by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) partial: Option<bool>,
}

/// An amount of memory.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "bytes as a number, or an amount such as \"2GB\" or \"512MiB\"")]
pub(crate) enum Amount {
    /// Bytes.
    Bytes(u64),
    /// With a unit.
    Words(String),
}

/// A length of time.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "seconds as a number, or a length of time such as \"2h\"")]
pub(crate) enum Length {
    /// Seconds.
    Seconds(f64),
    /// With a unit.
    Words(String),
}

/// How many workers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "a number of workers, or {\"min\": 1, \"max\": 8}")]
pub(crate) enum Workers {
    /// Exactly so many.
    Exactly(u32),
    /// From how many to how many.
    Range(Range),
}

/// From how many to how many.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Range {
    /// With fewer it cannot run.
    pub(crate) min: u32,
    /// More are of no use.
    pub(crate) max: u32,
}

/// By which cheaper rules a stop rule may be replaced while the cluster is overloaded.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct MayRelax {
    /// From its own iterations to the peak of its accuracy.
    pub(crate) own_to_peak: bool,
    /// From its own iterations to the accuracy that its owner needs.
    pub(crate) own_to_accuracy: bool,
    /// From the peak of its accuracy to the accuracy that its owner needs.
    pub(crate) peak_to_accuracy: bool,
}

/// When a job has had enough; by default when its program ends.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stop {
    /// After so many iterations.
    Iterations(u64),
    /// When it has reached this accuracy, a fraction.
    Accuracy(f64),
    /// When its accuracy is as good as it is going to be.
    Peak,
}

/// What a request is read against.
pub(crate) struct Terms<'a> {
    /// The machines.
    pub(crate) cluster: &'a Cluster,
    /// Whose job it is.
    pub(crate) tenant: TenantId,
    /// The tenant's name.
    pub(crate) tenant_name: Arc<str>,
    /// What time it is in the run.
    pub(crate) now: Time,
    /// What its owner calls the request.
    pub(crate) key: Option<Arc<str>>,
}

impl JobRequest {
    /// The job, or the first thing that is wrong with it.
    pub(crate) fn submission(self, terms: &Terms<'_>) -> Result<Submission, Problem> {
        let work = self.work()?;
        let (declared, goals) = (self.declared()?, self.goals(terms.now)?);
        let job = Job {
            id: JobId(0),
            name: self.checked_name()?.unwrap_or_default().into(),
            tenant: terms.tenant,
            model: None,
            submitted: terms.now,
            shape: self.shape()?,
            wanted: self.wanted(terms.cluster)?,
            goals,
            declared,
            move_cost: MoveCost::default(),
        };
        Ok(Submission { job, tenant_name: Arc::clone(&terms.tenant_name), work, key: terms.key.clone() })
    }

    fn checked_name(&self) -> Result<Option<String>, Problem> {
        let Some(name) = &self.name else { return Ok(None) };
        let is_name = |c: char| !c.is_control() && c != '/';
        if name.is_empty() || name.len() > 200 || !name.chars().all(is_name) {
            return Err(Problem::field(
                "name",
                "a name has 1 to 200 bytes, no slash and no control characters",
            ));
        }
        if name.parse::<u64>().is_ok() {
            return Err(Problem::field(
                "name",
                format!("`{name}` would be taken for a number; add a letter"),
            ));
        }
        Ok(Some(name.clone()))
    }

    fn work(&self) -> Result<Work, Problem> {
        let program = self.command.first().map(|program| program.trim());
        if program.is_none_or(str::is_empty) {
            let wrong = "name the program to run and its arguments, such as [\"python\", \"train.py\"]";
            return Err(Problem::field("command", wrong));
        }
        if self.command.iter().any(|part| part.contains('\0')) {
            return Err(Problem::field("command", "an argument has no zero byte"));
        }
        let odd = |name: &&String| name.is_empty() || name.contains(['=', '\0']);
        if let Some(name) = self.environment.keys().find(odd) {
            return Err(Problem::field("environment", format!("`{name}` is no name of a variable")));
        }
        let usual = Work::new(self.command.clone());
        Ok(Work {
            directory: self.directory.clone(),
            environment: self.environment.clone(),
            launch: self.launch.unwrap_or(usual.launch),
            progress: self.progress.clone().unwrap_or(usual.progress),
            grace_s: self.grace_s.unwrap_or(usual.grace_s),
            retries: self.retries.unwrap_or(usual.retries),
            command: usual.command,
        })
    }

    fn shape(&self) -> Result<Parallelism, Problem> {
        if let Some(graph) = self.graph()? {
            return Ok(graph);
        }
        let gpu_milli = milli("gpus", self.gpus.unwrap_or(0.0))?;
        if gpu_milli > GPU && !gpu_milli.is_multiple_of(GPU) {
            return Err(Problem::field(
                "gpus",
                "above 1 it is a whole number; below 1 it is a share of one GPU",
            ));
        }
        let usual_cpus = if gpu_milli > 0 { 0.0 } else { 1.0 };
        let cpu_milli = milli("cpus", self.cpus.unwrap_or(usual_cpus))?;
        if gpu_milli == 0 && cpu_milli == 0 {
            return Err(Problem::field("cpus", "a worker needs some CPU or GPU; the least is 0.001"));
        }
        let memory_bytes =
            self.memory.as_ref().map(|memory| memory.bytes("memory")).transpose()?.unwrap_or(0);
        let worker = Resources { gpu_milli, cpu_milli, memory_bytes, ..Resources::NONE };
        let workers = match self.workers {
            None => WorkerRange::exactly(1),
            Some(Workers::Exactly(count)) => WorkerRange::exactly(count),
            Some(Workers::Range(Range { min, max })) => WorkerRange { min, max },
        };
        if workers.min == 0 || workers.max < workers.min || workers.max > MOST_WORKERS {
            let wrong = format!("write 1 <= min <= max <= {MOST_WORKERS}");
            return Err(Problem::field("workers", wrong));
        }
        let servers = WorkerRange::exactly(0);
        Ok(Parallelism::DataParallel(DataParallel { worker, workers, server: None, servers }))
    }

    fn wanted(&self, cluster: &Cluster) -> Result<Wanted, Problem> {
        let mut wanted = Wanted { topology: self.topology.unwrap_or_default(), ..Wanted::default() };
        if self.gpu_types.is_empty() {
            return Ok(wanted);
        }
        let known = || cluster.gpu_types.iter().map(|gpu_type| &*gpu_type.name);
        let find = |name: &String| -> Result<GpuTypeId, Problem> {
            cluster.gpu_type(&name.to_lowercase()).ok_or_else(|| {
                let all: Vec<&str> = known().collect();
                let all = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
                let meant = strict::meant(name, known());
                Problem::field("gpu_types", format!("this cluster has no `{name}`{meant}; it has {all}"))
            })
        };
        let types: Vec<GpuTypeId> = self.gpu_types.iter().map(find).collect::<Result<_, _>>()?;
        wanted.gpu_types = GpuTypeSet::of(&types);
        Ok(wanted)
    }

    fn declared(&self) -> Result<Declared, Problem> {
        let positive = |field: &str, value: f64| {
            let good = value.is_finite() && value > 0.0 && value <= MOST;
            good.then_some(value)
                .ok_or_else(|| Problem::field(field, format!("{value} is no number above 0")))
        };
        let iterations = self.iterations.map(|count| positive("iterations", count)).transpose()?;
        let duration = self.duration.as_ref().map(|length| length.span("duration")).transpose()?;
        let iteration = match (iterations, duration) {
            (Some(count), Some(all)) => Some(Span::from_secs_f64(all.as_secs_f64() / count)),
            _ => None,
        };
        if self.target_loss.is_some_and(|loss| !loss.is_finite()) {
            return Err(Problem::field("target_loss", "write a finite number"));
        }
        let loss = DeclaredLoss {
            better: self.better.unwrap_or_default(),
            convergence: self.convergence,
            target: self.target_loss,
            curve: None,
        };
        let limit = if iterations.is_none() { duration } else { None };
        Ok(Declared { iterations, iteration, limit, loss, ..Declared::default() })
    }

    fn goals(&self, now: Time) -> Result<Goals, Problem> {
        let usual = Goals::default();
        let weight = self.weight.unwrap_or(usual.weight);
        if !(weight.is_finite() && weight >= 0.0) {
            return Err(Problem::field("weight", format!("{weight} is no number from 0 upwards")));
        }
        let stop = match self.stop {
            None => StopRule::OwnIterations,
            Some(Stop::Iterations(0)) => return Err(Problem::field("stop", "at least 1 iteration")),
            Some(Stop::Iterations(count)) => StopRule::Iterations(count),
            Some(Stop::Accuracy(share)) => StopRule::AtAccuracy(accuracy("stop", share)?),
            Some(Stop::Peak) => StopRule::AtPeak,
        };
        let needed = self.accuracy.map(|share| accuracy("accuracy", share)).transpose()?;
        let MayRelax { own_to_peak, own_to_accuracy, peak_to_accuracy } = self.may_relax.unwrap_or_default();
        if needed.is_none() && (own_to_accuracy || peak_to_accuracy) {
            let wrong = "say which `accuracy` is needed, or it can be relaxed to the peak only";
            return Err(Problem::field("may_relax", wrong));
        }
        let copies = self.copies.unwrap_or(usual.copies);
        if !(1..=MOST_COPIES).contains(&copies) {
            return Err(Problem::field("copies", format!("write a number from 1 to {MOST_COPIES}")));
        }
        if copies > 1 && self.iterations.is_none() && !matches!(stop, StopRule::Iterations(_)) {
            let wrong = "several copies need `iterations`: how many all of them together are to do";
            return Err(Problem::field("copies", wrong));
        }
        let deadline = self.deadline.as_ref().map(|length| length.span("deadline")).transpose()?;
        Ok(Goals {
            stop,
            accuracy: needed,
            may_relax: Relaxing { own_to_peak, own_to_accuracy, peak_to_accuracy },
            deadline: deadline.map(|span| now + span),
            weight,
            class: PriorityClass(self.priority.unwrap_or(0)),
            movable: self.movable.unwrap_or(true),
            copies,
            ..usual
        })
    }
}

/// An accuracy that makes sense.
fn accuracy(field: &str, share: f64) -> Result<Accuracy, Problem> {
    if (0.0..=1.0).contains(&share) {
        return Ok(Accuracy(share));
    }
    Err(Problem::field(field, format!("{share} is no accuracy; write a fraction from 0 to 1")))
}

/// Thousandths of something that is counted in units.
pub(super) fn milli(field: &str, amount: f64) -> Result<u64, Problem> {
    if !(amount.is_finite() && (0.0..=1e6).contains(&amount)) {
        return Err(Problem::field(field, format!("{amount} is no amount from 0 to 1000000")));
    }
    let milli = (amount * 1e3).round();
    if (milli - amount * 1e3).abs() > 1e-6 {
        return Err(Problem::field(
            field,
            format!("{amount} has more than three decimal places; write {}", milli / 1e3),
        ));
    }
    Ok(milli as u64)
}

impl Length {
    fn span(&self, field: &str) -> Result<Span, Problem> {
        let found = match self {
            Self::Seconds(seconds) => span(&format!("{seconds}s")),
            Self::Words(words) => span(words),
        };
        let found = found.map_err(|error| Problem::field(field, error))?;
        if found == Span::ZERO {
            Err(Problem::field(field, "write a length of time above 0"))
        } else {
            Ok(found)
        }
    }
}

impl Amount {
    /// Units as they are usual: `kB`, `MB`, `GB`, `TB` are powers of 1000, `KiB` and so on of 1024.
    const UNITS: [(&'static str, u64); 9] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("B", 1),
    ];

    pub(super) fn bytes(&self, field: &str) -> Result<u64, Problem> {
        let words = match self {
            Self::Bytes(bytes) => return Ok(*bytes),
            Self::Words(words) => words.trim(),
        };
        let unit = Self::UNITS.iter().find_map(|(unit, factor)| Some((words.strip_suffix(unit)?, *factor)));
        let amount =
            unit.and_then(|(digits, factor)| Some(digits.trim().parse::<f64>().ok()? * factor as f64));
        let good = amount.filter(|amount| amount.is_finite() && (0.0..=1e18).contains(amount));
        let wrong = || {
            Problem::field(field, format!("`{words}` is no amount; write bytes, or such as 2GB or 512MiB"))
        };
        good.map(|amount| amount.round() as u64).ok_or_else(wrong)
    }
}
