//! `submit`: asks for a job to be run, from flags, from a file, or from a file with flags over it.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value};

use super::connection::{ClientError, Connection, Place};
use crate::commands::{Ending, Output, print};
use crate::failure::Failure;
use crate::web::{JobShown, Submitted};

/// What `submit` is told.
#[derive(Args, Debug)]
pub(crate) struct SubmitArguments {
    /// A file with the job, in TOML or YAML; its keys are those of the API.
    file: Option<PathBuf>,
    /// The program and its arguments, after `--`.
    #[arg(last = true)]
    command: Vec<String>,
    /// What to call it.
    #[arg(long)]
    name: Option<String>,
    /// Whose it is.
    #[arg(long)]
    tenant: Option<String>,
    /// Where it is started [default: a folder of its own].
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// A variable of its environment; may be given several times.
    #[arg(long = "env", value_name = "NAME=VALUE")]
    environment: Vec<String>,
    /// CPU cores of one worker, such as 0.05 [default: 1 without GPUs].
    #[arg(long)]
    cpus: Option<f64>,
    /// GPUs of one worker.
    #[arg(long)]
    gpus: Option<f64>,
    /// A type of GPU that will do; may be given several times.
    #[arg(long = "gpu-type", value_name = "TYPE")]
    gpu_types: Vec<String>,
    /// Main memory of one worker, such as 2GB.
    #[arg(long)]
    memory: Option<String>,
    /// How many workers: 4, or from 1 to 8 as 1..8 [default: 1].
    #[arg(long, value_name = "N|MIN..MAX")]
    workers: Option<String>,
    /// How close its workers must be: anywhere, same_rack or same_node [default: anywhere].
    #[arg(long)]
    topology: Option<String>,
    /// Whether it may be stopped or moved once it runs [default: true].
    #[arg(long, value_name = "true|false")]
    movable: Option<bool>,
    /// How many processes: per_node or per_worker.
    #[arg(long)]
    launch: Option<String>,
    /// How its progress is found [default: jsonl].
    #[arg(long)]
    progress: Option<String>,
    /// Seconds that it may take to save and leave [default: 30].
    #[arg(long, value_name = "S")]
    grace_s: Option<u32>,
    /// How often it is started again after it failed by itself [default: 0].
    #[arg(long)]
    retries: Option<u32>,
    /// Iterations in all, as declared.
    #[arg(long)]
    iterations: Option<f64>,
    /// How long it runs on its smallest gang, as declared, such as 2h.
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    /// The priority class; a higher one goes first [default: 0].
    #[arg(long, allow_hyphen_values = true)]
    priority: Option<i16>,
    /// Its weight among the jobs of its tenant [default: 1].
    #[arg(long)]
    weight: Option<f64>,
    /// When it should be done, from now, such as 8h.
    #[arg(long, value_name = "TIME")]
    deadline: Option<String>,
    /// When it has had enough: iterations=N, accuracy=FRACTION, or peak [default: when its program ends].
    #[arg(long, value_name = "RULE")]
    stop: Option<String>,
    /// Which way what it reports gets better: lower or higher [default: lower].
    #[arg(long)]
    better: Option<String>,
    /// How its loss converges: sublinear, linear or non_convex.
    #[arg(long)]
    convergence: Option<String>,
    /// The loss that training is known to reach.
    #[arg(long, value_name = "LOSS", allow_hyphen_values = true)]
    target_loss: Option<f64>,
    /// As how many copies of itself it may train at the same time, where the policy forks jobs; more than 1 need --iterations
    /// [default: 1].
    #[arg(long)]
    copies: Option<u16>,
    /// What this request is called; the same request sent again is the same job.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// What is shown of a submission.
#[derive(Serialize)]
struct Done {
    new: bool,
    job: JobShown,
    /// When it will start, as far as can be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    starts: Option<Value>,
}

/// Asks for a job, and says when it will start.
pub(crate) fn submit(given: &SubmitArguments, output: Output) -> Result<Ending, Failure> {
    let request = given.request()?;
    let connection = given.place.connect()?;
    // Without a name of its own a request that is sent again could become two jobs.
    let key = given.key.clone().map_or_else(new_key, Ok)?;
    let Submitted { new, job } = connection.post("/v1/jobs", &request, Some(&key))?;
    let starts = estimate(&connection, job.id);
    print(output, &Done { new, job, starts }, done_text)?;
    Ok(Ending::Done)
}

fn new_key() -> Result<String, Failure> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| Failure::Output(std::io::Error::other(error)))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What is known of its start; a job that was taken is taken, so nothing of this is a failure.
fn estimate(connection: &Connection, job: u32) -> Option<Value> {
    let answer: Value = connection.get(&format!("/v1/jobs/{job}/why")).ok()?;
    let mut starts = Map::new();
    starts.insert("state".to_owned(), answer["state"]["state"].clone());
    let at = answer["at"].as_f64()?;
    for key in ["earliest", "median", "latest"] {
        if let Some(time) = answer["forecast"][key].as_f64() {
            starts.insert(format!("{key}_in_s"), Value::from(((time - at) / 1e6).max(0.0)));
        }
    }
    Some(starts.into())
}

fn done_text(done: &Done) -> String {
    let Done { new, job, starts } = done;
    let again = if *new { "" } else { " (it was there already)" };
    let starts = starts.as_ref().map_or_else(String::new, starts_text);
    format!("{}\njob {} ({}) of {}: {}{again}{starts}", job.id, job.id, job.name, job.tenant, job.state)
}

fn starts_text(starts: &Value) -> String {
    let time = |key: &str| {
        let seconds = starts[key].as_f64()?;
        Some(trainyard_sched::model::Span::from_secs_f64(seconds).to_string())
    };
    match (starts["state"].as_str(), time("earliest_in_s"), time("latest_in_s")) {
        (Some("waits"), Some(from), Some(to)) => format!("; starts in {from} to {to} with a chance of 80 %"),
        (Some("waits"), Some(from), None) => format!("; starts not before {from} from now"),
        (Some("waits"), None, _) => "; nothing can be said yet about when it starts".to_owned(),
        _ => String::new(),
    }
}

impl SubmitArguments {
    /// The request: the file, with what flags say over it.
    fn request(&self) -> Result<Map<String, Value>, Failure> {
        let mut request = self.file.as_deref().map(read_job).transpose()?.unwrap_or_default();
        let mut set = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                request.insert(key.to_owned(), value);
            }
        };
        let text = |value: &Option<String>| value.clone().map(Value::from);
        set("name", text(&self.name));
        set("tenant", text(&self.tenant));
        set("memory", text(&self.memory));
        set("launch", text(&self.launch));
        set("topology", text(&self.topology));
        set("better", text(&self.better));
        set("convergence", text(&self.convergence));
        set("progress", text(&self.progress));
        set("duration", text(&self.duration));
        set("deadline", text(&self.deadline));
        set("directory", self.directory.as_ref().map(|path| path.to_string_lossy().into_owned().into()));
        set("cpus", self.cpus.map(Value::from));
        set("gpus", self.gpus.map(Value::from));
        set("iterations", self.iterations.map(Value::from));
        set("weight", self.weight.map(Value::from));
        set("grace_s", self.grace_s.map(Value::from));
        set("retries", self.retries.map(Value::from));
        set("priority", self.priority.map(Value::from));
        set("target_loss", self.target_loss.map(Value::from));
        set("movable", self.movable.map(Value::from));
        set("stop", self.stop.as_deref().map(stop).transpose()?);
        set("copies", self.copies.map(Value::from));
        set("workers", self.workers.as_deref().map(workers).transpose()?);
        set("gpu_types", (!self.gpu_types.is_empty()).then(|| self.gpu_types.clone().into()));
        set("command", (!self.command.is_empty()).then(|| self.command.clone().into()));
        if !self.environment.is_empty() {
            set("environment", Some(self.variables()?.into()));
        }
        Ok(request)
    }

    fn variables(&self) -> Result<Map<String, Value>, Failure> {
        let pair = |given: &String| {
            let (name, value) = given.split_once('=').ok_or_else(|| ClientError::Given {
                given: given.clone(),
                message: "write a variable as NAME=VALUE".to_owned(),
            })?;
            Ok((name.to_owned(), Value::from(value)))
        };
        self.environment.iter().map(pair).collect()
    }
}

/// `4` or `1..8`.
fn workers(words: &str) -> Result<Value, Failure> {
    let number = |word: &str| {
        word.trim().parse::<u32>().map_err(|_| ClientError::Given {
            given: words.to_owned(),
            message: "write a number of workers, or from how many to how many as 1..8".to_owned(),
        })
    };
    Ok(match words.split_once("..") {
        Some((min, max)) => serde_json::json!({ "min": number(min)?, "max": number(max)? }),
        None => number(words)?.into(),
    })
}

/// `iterations=5000`, `accuracy=0.9` or `peak`.
fn stop(words: &str) -> Result<Value, Failure> {
    let wrong = || ClientError::Given {
        given: words.to_owned(),
        message: "write when it has had enough as iterations=5000, accuracy=0.9 or peak".to_owned(),
    };
    Ok(match words.split_once('=') {
        None if words == "peak" => words.into(),
        Some((kind @ "iterations", count)) => {
            serde_json::json!({ kind: count.trim().parse::<u64>().map_err(|_| wrong())? })
        }
        Some((kind @ "accuracy", share)) => {
            serde_json::json!({ kind: share.trim().parse::<f64>().map_err(|_| wrong())? })
        }
        _ => return Err(wrong().into()),
    })
}

/// Reads a file with a job. What it says is checked by the daemon; here it only has to be a table.
fn read_job(path: &Path) -> Result<Map<String, Value>, Failure> {
    let text = std::fs::read_to_string(path).map_err(Failure::file("read", path))?;
    let is_toml = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("toml"));
    let read: Result<Map<String, Value>, String> = if is_toml {
        toml::from_str(&text).map_err(|error| error.to_string())
    } else {
        serde_saphyr::from_str(&text).map_err(|error| error.to_string())
    };
    read.map_err(|message| {
        ClientError::JobFile { path: path.to_owned(), message: message.trim_end().to_owned() }.into()
    })
}
