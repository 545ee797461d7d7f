//! A daemon and its keepers as a program of its own, for this crate's tests, which kill it. The product's binary has both
//! as commands.
//!
//! `yard serve FOLDER POLICY KEEP_EVERY CRASH_AT` says `ready`, then answers each line that it reads with one line.
//! `yard count TOTAL EACH_MS SAVE_EVERY [RANK AFTER]` is a job to be kept, and `yard chain` of the same words one of tasks.

#![allow(dead_code, reason = "what tests share is not all used here")]

use std::error::Error;
use std::io::{BufRead, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use trainyard_live::board::{Card, Standing};
use trainyard_live::local::{Confinement, LocalExecutor, become_program, keep};
use trainyard_live::{Daemon, Handle, Refusal, Work, fault};
use trainyard_sched::control::Outcome;
use trainyard_sched::model::{Accuracy, JobId, NodeId, NodeState, StopRule};

#[path = "../../tests/common/chained.rs"]
mod chained;
#[path = "../../tests/common/counting.rs"]
mod counting;
#[path = "../../tests/common/learn.rs"]
mod learn;
#[path = "../../tests/common/place.rs"]
mod place;
#[path = "../../tests/common/scripted.rs"]
mod scripted;

/// How long all jobs may take to end.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let exe = std::env::current_exe().unwrap_or_default();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "keep", folder] => keep(Path::new(folder), &exe),
        [_, "keep", folder, "--program", number] => {
            let why = number.parse().map_or_else(
                |_| format!("`{number}` is no number"),
                |number| become_program(Path::new(folder), number),
            );
            let _ = writeln!(std::io::stderr(), "{why}");
            ExitCode::from(127)
        }
        [_, "learn", ref words @ ..] => or_say(learn::learn(words).map(|()| ExitCode::SUCCESS)),
        [_, "serve", folder, policy, keep_every, crash_at] => {
            let served = serve(Path::new(folder), policy, keep_every, crash_at);
            or_say(served.map(|()| ExitCode::SUCCESS))
        }
        [_, "count", ref words @ ..] => or_say(counting::count(words)),
        [_, "chain", ref words @ ..] => or_say(chained::chain(words)),
        _ => ExitCode::from(2),
    }
}

fn or_say(done: Result<ExitCode, Box<dyn Error>>) -> ExitCode {
    done.unwrap_or_else(|error| {
        let _ = writeln!(std::io::stderr(), "{error}");
        ExitCode::FAILURE
    })
}

fn serve(folder: &Path, policy: &str, keep_every: &str, crash_at: &str) -> Result<(), Box<dyn Error>> {
    if crash_at != "never" {
        fault::die_at(crash_at.parse()?);
    }
    let name = folder.file_name().ok_or("the folder has no name")?.to_string_lossy();
    let confinement = Confinement::find(&format!("yard-{name}"));
    let cluster = place::cluster((2, 2));
    let mut settings = place::settings(folder, cluster.clone(), policy);
    settings.keep_every = keep_every.parse()?;
    if policy == "scripted" {
        scripted::decides(&mut settings);
    }
    let options = place::options(folder, std::env::current_exe()?, confinement.clone());
    let executor = LocalExecutor::new(options, cluster);
    let daemon = Daemon::begin(settings, Box::new(executor), Box::new(|_| {}))?;
    let handle = daemon.handle();
    say("ready")?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if line == "leave" {
            daemon.leave();
            confinement.leave();
            return say("left");
        }
        say(&answer(&handle, &line)?)?;
    }
    Ok(())
}

fn say(text: &str) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Does what a line says.
fn answer(handle: &Handle, line: &str) -> Result<String, Box<dyn Error>> {
    Ok(match line.splitn(5, ' ').collect::<Vec<_>>()[..] {
        [what @ ("submit" | "enough"), key, min, max, script] => {
            submit(handle, what, key, (min.parse()?, max.parse()?), script)?
        }
        // A job that may be forked: its iterations in all, and words for `yard learn`.
        ["fork", goal, ref words @ ..] => {
            let exe = std::env::current_exe()?.display().to_string();
            let words = words.iter().flat_map(|words| words.split(' ')).map(str::to_owned);
            let command = [exe, "learn".to_owned()].into_iter().chain(words).collect();
            let work = Work { grace_s: 20, ..Work::new(command) };
            let submission = place::forked(place::elastic(1, 2), work, goal.parse()?);
            let (job, new) = handle.submit(submission)?;
            format!("{} {new}", job.0)
        }
        ["chain", tasks, ref words @ ..] => chain(handle, tasks, words)?,
        // How far a job is, and whether it is over.
        ["far", job] => {
            let job = JobId(job.parse()?);
            let board = handle.board();
            let card = board.jobs.get(&job).ok_or("there is no such job")?;
            format!("{} {:?} {:?} {}", card.iterations, card.state, card.outcome, card.workers)
        }
        ["resume", job] => match handle.resume(JobId(job.parse()?)) {
            // Asked again after it came to its own end meanwhile.
            Ok(()) | Err(Refusal::NotCutShort { how: Some(Outcome::Completed), .. }) => "resumed".to_owned(),
            Err(refusal) => return Err(refusal.into()),
        },
        ["cut", job] => {
            let outcome = |card: &Card| card.outcome == Some(Outcome::StopRuleMet);
            until(handle, JobId(job.parse()?), outcome, "cut")
        }
        ["withdraw", job] => {
            handle.withdraw(JobId(job.parse()?))?;
            "withdrawn".to_owned()
        }
        ["node", node, state] => {
            let state = match state {
                "up" => NodeState::Up,
                "draining" => NodeState::Draining,
                _ => NodeState::Down,
            };
            handle.set_node(NodeId(node.parse()?), state)?;
            "changed".to_owned()
        }
        ["policy", name] => {
            handle.choose(name, &toml::Table::new())?;
            "chosen".to_owned()
        }
        // Of each job that has not ended, how long it has waited and run.
        ["served"] => handle.look(|core, at| {
            let views = core.state().jobs();
            let of = |view: &trainyard_sched::view::JobView| {
                format!("{}:{}:{}", view.id().0, view.waited(at).0, view.executed(at).0)
            };
            views.map(of).collect::<Vec<_>>().join(" ")
        })?,
        ["running", job] => {
            let runs = |card: &Card| matches!(card.state, Standing::Running | Standing::Ended);
            until(handle, JobId(job.parse()?), runs, "running")
        }
        ["wait"] => wait(handle),
        ["who"] => {
            let board = handle.board();
            let nodes = board.nodes.iter().map(|node| format!("{:?}", node.state)).collect::<Vec<_>>();
            format!("{} {}", board.policy, nodes.join(" "))
        }
        _ => return Err(format!("`{line}` is not understood").into()),
    })
}

/// Submits a chain of tasks, with words for `yard chain`.
fn chain(handle: &Handle, tasks: &str, words: &[&str]) -> Result<String, Box<dyn Error>> {
    let exe = std::env::current_exe()?.display().to_string();
    let words = words.iter().flat_map(|words| words.split(' ')).map(str::to_owned);
    let command = [exe, "chain".to_owned()].into_iter().chain(words).collect();
    let work = Work { grace_s: 20, ..Work::new(command) };
    let (job, new) =
        handle.submit(place::submission(place::chain(tasks.parse()?), work, Some("chain".into())))?;
    Ok(format!("{} {new}", job.0))
}

/// Submits a script as a job with a key. One of `enough` has had enough at an accuracy of a half.
fn submit(
    handle: &Handle,
    what: &str,
    key: &str,
    (min, max): (u32, u32),
    script: &str,
) -> Result<String, Box<dyn Error>> {
    let mut work = Work::new(["sh", "-c", script].map(str::to_owned).to_vec());
    work.grace_s = 1;
    let mut submission = place::submission(place::elastic(min, max), work, Some(key.into()));
    if what == "enough" {
        submission.job.goals.stop = StopRule::AtAccuracy(Accuracy(0.5));
    }
    let (job, new) = handle.submit(submission)?;
    Ok(format!("{} {new}", job.0))
}

/// Waits until something is true of a job, and says so.
fn until(handle: &Handle, job: JobId, holds: impl Fn(&Card) -> bool, then: &str) -> String {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if handle.board().jobs.get(&job).is_some_and(&holds) {
            return then.to_owned();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    "late".to_owned()
}

/// Waits until all jobs have ended: how each did.
fn wait(handle: &Handle) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let board = handle.board();
        if board.jobs.values().all(|card| card.ended.is_some()) {
            let of = |card: &Card| format!("{}:{:?}:{}", card.job.0, card.outcome, card.attempt);
            return board.jobs.values().map(of).collect::<Vec<_>>().join(" ");
        }
        if Instant::now() > end {
            let left: Vec<_> = board.jobs.values().filter(|card| card.ended.is_none()).collect();
            return format!("late: {left:?}").replace('\n', " ");
        }
        drop(board);
        std::thread::sleep(Duration::from_millis(10));
    }
}
