//! `jobs` and `job`: what is there, and one of them.

use std::fmt::Write as _;

use clap::Args;
use trainyard_sched::model::Span;

use super::connection::{Place, escaped};
use crate::commands::{Ending, Output, print};
use crate::failure::Failure;
use crate::render::{Align, plain_table};
use crate::web::{JobPage, JobShown, TaskShown};

/// So many are asked for at one time.
const PAGE: usize = 1000;
/// Of so many tasks of one job it is written where they are.
const MOST_TASKS: usize = 50;

/// What `jobs` is told.
#[derive(Args, Debug)]
pub(crate) struct JobsArguments {
    /// Only those in this state: waiting, starting, running, stopping, ended, or active, which is all but ended.
    #[arg(long)]
    state: Option<String>,
    /// Only those of this tenant.
    #[arg(long)]
    tenant: Option<String>,
    /// Only those of this name.
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// What `job` is told.
#[derive(Args, Debug)]
pub(crate) struct JobArguments {
    /// Its number or name.
    job: String,
    #[command(flatten)]
    place: Place,
}

/// Lists jobs, page by page until all are there.
pub(crate) fn jobs(given: &JobsArguments, output: Output) -> Result<Ending, Failure> {
    let connection = given.place.connect()?;
    let mut query = format!("limit={PAGE}");
    for (key, value) in [("state", &given.state), ("tenant", &given.tenant), ("name", &given.name)] {
        if let Some(value) = value {
            let _ = write!(query, "&{key}={}", escaped(value));
        }
    }
    let mut all: Vec<JobShown> = Vec::new();
    let mut after = String::new();
    loop {
        let page: JobPage = connection.get(&format!("/v1/jobs?{query}{after}"))?;
        all.extend(page.jobs);
        let Some(next) = page.next else { break };
        after = format!("&after={next}");
    }
    print(output, &all, |all| jobs_text(all))?;
    Ok(Ending::Done)
}

/// Jobs as a table.
pub(crate) fn jobs_text(all: &[JobShown]) -> String {
    if all.is_empty() {
        return "no jobs".to_owned();
    }
    let headers = [
        ("job", Align::Right),
        ("name", Align::Left),
        ("tenant", Align::Left),
        ("state", Align::Left),
        ("workers", Align::Right),
        ("nodes", Align::Left),
        ("iterations", Align::Right),
        ("loss", Align::Right),
        ("waited", Align::Right),
        ("ran", Align::Right),
        ("because", Align::Left),
    ];
    let rows = all.iter().map(|job| {
        let of = job.of_iterations.map_or_else(String::new, |of| format!(" of {of}"));
        vec![
            job.id.to_string(),
            job.name.clone(),
            job.tenant.clone(),
            job.outcome.clone().unwrap_or_else(|| job.state.clone()),
            workers_cell(job),
            if job.nodes.is_empty() { "-".to_owned() } else { job.nodes.join(",") },
            format!("{:.0}{of}", job.iterations),
            job.loss.map_or_else(|| "-".to_owned(), |loss| format!("{loss:.4}")),
            length(job.waited_s),
            length(job.executed_s),
            job.reason.clone().or_else(|| job.said.clone()).unwrap_or_else(|| "-".to_owned()),
        ]
    });
    plain_table(&headers, rows.collect())
}

/// Workers that it has; of a graph of tasks, how many of them have a place.
fn workers_cell(job: &JobShown) -> String {
    match (job.tasks_placed.unwrap_or_default(), job.tasks) {
        (0, Some(_)) => "-".to_owned(),
        (placed, Some(tasks)) => format!("{placed} of {tasks}"),
        _ if job.workers == 0 => "-".to_owned(),
        _ => job.workers.to_string(),
    }
}

/// Whole seconds are enough for people.
fn length(seconds: f64) -> String {
    Span::from_secs_f64(seconds.round()).to_string()
}

/// Shows one job.
pub(crate) fn job(given: &JobArguments, output: Output) -> Result<Ending, Failure> {
    let job: JobShown = given.place.connect()?.get(&format!("/v1/jobs/{}", escaped(&given.job)))?;
    print(output, &job, job_text)?;
    Ok(Ending::Done)
}

/// One job, a line for each thing that is known of it.
pub(crate) fn job_text(job: &JobShown) -> String {
    let mut text = format!("job {} ({}) of {}: {}", job.id, job.name, job.tenant, job.state);
    if let Some(outcome) = &job.outcome {
        let _ = write!(text, ", {outcome}");
    }
    text.push('\n');
    let mut line = |label: &str, words: String| {
        let _ = writeln!(text, "  {label:<10} {words}");
    };
    line("command", job.command.join(" "));
    let range = if job.workers_min == job.workers_max {
        job.workers_min.to_string()
    } else {
        format!("{} to {}", job.workers_min, job.workers_max)
    };
    let each = amounts(job.gpus, job.cpus, job.memory_bytes);
    match job.tasks {
        Some(tasks) => line("asks for", format!("{tasks} tasks, together {each}")),
        None => line("asks for", format!("{range} workers, each {each}")),
    }
    match (job.tasks, job.tasks_placed.unwrap_or_default()) {
        (Some(tasks), placed) if placed > 0 => {
            line("holds", format!("a place for {placed} of {tasks} tasks, on {}", job.nodes.join(", ")));
        }
        (None, _) if job.workers > 0 => {
            line("holds", format!("{} workers on {}", job.workers, job.nodes.join(", ")));
        }
        _ => {}
    }
    if let Some(because) = &job.because {
        line("because", because.clone());
    }
    line("submitted", job.submitted.clone());
    if let Some(started) = &job.started {
        line("started", format!("{started}, attempt {}", job.attempt));
    }
    if let Some(ended) = &job.ended {
        line("ended", ended.clone());
    }
    line("time", format!("waited {}, ran {}", length(job.waited_s), length(job.executed_s)));
    let of = job.of_iterations.map_or_else(String::new, |of| format!(" of {of}"));
    let loss = job.loss.map_or_else(String::new, |loss| format!(", loss {loss}"));
    let done = format!(
        "{}{of} iterations, {} saved, {:.2} a second{loss}",
        job.iterations, job.saved, job.iterations_per_s
    );
    line("progress", done);
    if let Some(health) = &job.loss_health {
        line("its loss", health.clone());
    }
    let (preempted, moved, failed) = (job.preemptions, job.moves, job.failures);
    line("disturbed", format!("preempted {preempted} times, moved {moved}, lost {failed}"));
    if let Some(said) = &job.said {
        line("said", said.clone());
    }
    let tasks = job.each_task.as_deref().unwrap_or_default();
    for task in tasks.iter().take(MOST_TASKS) {
        line(&format!("task {}", task.task), task_words(task));
    }
    if tasks.len() > MOST_TASKS {
        let more = tasks.len() - MOST_TASKS;
        line("", format!("and {more} tasks more; --output json lists all"));
    }
    text
}

/// What a worker or a task asks for.
fn amounts(gpus: f64, cpus: f64, memory_bytes: u64) -> String {
    let each = [(gpus, "GPU"), (cpus, "CPU"), (memory_bytes as f64, "byte")];
    let words = |(much, what): &(f64, &str)| format!("{much} {what}{}", if *much == 1.0 { "" } else { "s" });
    let each: Vec<String> = each.iter().filter(|(much, _)| *much > 0.0).map(words).collect();
    if each.is_empty() { "nothing".to_owned() } else { each.join(", ") }
}

/// Where a task is and shall be, or what it waits for.
fn task_words(task: &TaskShown) -> String {
    let devices: Vec<String> = task.devices.iter().map(u32::to_string).collect();
    let devices = if devices.is_empty() { String::new() } else { format!(" (GPU {})", devices.join(", ")) };
    let state = &task.state;
    match (&task.node, &task.to) {
        (Some(node), Some(to)) => format!("{state} from {node}{devices} to {to}"),
        (Some(node), None) => format!("{state} on {node}{devices}"),
        (None, Some(to)) => format!("{state} on {to}"),
        (None, None) => format!("{state} for {}", amounts(task.gpus, task.cpus, task.memory_bytes)),
    }
}
