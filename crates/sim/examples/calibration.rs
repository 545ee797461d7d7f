//! How far the intervals of `sim::forecast` can be trusted: replays of traces, in which jobs are asked at submission
//! and at a random moment of their waiting when they will start, and what then happened.
//!
//! `cargo run --release -p trainyard-sim --example calibration -- [--load F] [--asks N] [--declared HOW] FOLDER`
//! where `FOLDER` holds the public traces. Prints one row for each trace, policy and kind of question.

#![expect(clippy::disallowed_methods, reason = "a program of its own has arguments")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use trainyard_sched::control::{Action, Backend, Moment};
use trainyard_sched::model::{Cluster, GPU, JobId, Seed, Time};
use trainyard_sched::policies;
use trainyard_sim::backend::Options;
use trainyard_sim::forecast::{Estimate, Forecast, Past};
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::{Setup, prepare};
use trainyard_sim::trace::{self, Declaring};
use trainyard_sim::truth::{Speed, Truth};
use trainyard_sim::workload::Workload;

/// A trace and the part of it that is replayed.
struct Source {
    name: &'static str,
    path: &'static str,
    tenant: Option<&'static str>,
    from_s: u64,
    jobs: usize,
}

const SOURCES: [Source; 4] = [
    Source {
        name: "Sia-Philly",
        path: "sia/traces/philly.csv.gz",
        tenant: Some("6c71a0"),
        from_s: 0,
        jobs: 4_000,
    },
    Source {
        name: "Tiresias-480",
        path: "tiresias_runs/traces/philly_103959_480.csv",
        tenant: None,
        from_s: 0,
        jobs: 480,
    },
    Source {
        name: "Chronus",
        path: "chronus/trace_job_Philly_MIX1.csv.gz",
        tenant: None,
        from_s: 0,
        jobs: 40_000,
    },
    Source { name: "Muri", path: "muri/simulator/trace2.csv", tenant: None, from_s: 0, jobs: 6_000 },
];
/// Policies with the load that is usual here: under those that stop running jobs few wait unless there is too much to do.
const POLICIES: [(&str, f64); 3] = [("fifo", 0.95), ("srtf", 1.2), ("tiresias", 1.4)];
const SEED: Seed = Seed(7);

/// What is asked for.
struct Wish {
    load: Option<f64>,
    asks: usize,
    declared: Declaring,
    folder: PathBuf,
    only: Option<String>,
    policy: Option<String>,
}

fn wish() -> Wish {
    let mut wish = Wish {
        load: None,
        asks: 120,
        declared: Declaring::Noisy { spread: 0.5 },
        folder: std::env::var_os("TRAINYARD_PUBLIC_DATA")
            .map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from),
        only: None,
        policy: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("{word} wants a value"));
        match word.as_str() {
            "--load" => wish.load = Some(value().parse().expect("a load is a number")),
            "--asks" => wish.asks = value().parse().expect("asks are a number"),
            "--policy" => wish.policy = Some(value()),
            "--only" => wish.only = Some(value()),
            "--declared" => {
                wish.declared = match value().as_str() {
                    "exact" => Declaring::Exact,
                    "absent" => Declaring::Absent,
                    noisy => Declaring::Noisy {
                        spread: noisy.trim_start_matches("noisy:").parse().expect("a spread is a number"),
                    },
                }
            }
            folder => wish.folder = PathBuf::from(folder),
        }
    }
    wish
}

fn read(source: &Source, wish: &Wish) -> Option<Workload> {
    let path = wish.folder.join(source.path);
    let options = trace::Options {
        seed: SEED,
        declared: wish.declared,
        from: Time::from_secs(source.from_s),
        ..trace::Options::default()
    };
    match trace::read(&path, &options) {
        Ok(workload) => Some(only(workload, source)),
        Err(error) => {
            println!("{:<13} not read: {error}", source.name);
            None
        }
    }
}

/// The jobs of one tenant, and as many as are wanted.
fn only(mut workload: Workload, source: &Source) -> Workload {
    if let Some(name) = source.tenant {
        let tenant = workload.tenants.find(name).expect("the tenant is in the trace");
        workload.jobs.retain(|(job, _)| job.tenant == tenant);
    }
    workload.jobs.truncate(source.jobs);
    workload.number();
    workload
}

/// How long a job runs in seconds on the gang that it asks for.
fn duration_s(truth: &Truth) -> f64 {
    match &truth.speed {
        Speed::Fixed { iteration, .. } => truth.iterations * iteration.as_secs_f64(),
        Speed::Function(_) | Speed::Table { .. } => unreachable!("the lists give run times"),
    }
}

/// Nodes of eight GPUs, as many as make the load, and enough for the widest job.
fn cluster(workload: &Workload, load: f64) -> Cluster {
    let gpus = |job: &trainyard_sched::model::Job| job.shape.minimum().gpu_milli as f64 / GPU as f64;
    let work: f64 = workload.jobs.iter().map(|(job, truth)| gpus(job) * duration_s(truth)).sum();
    let widest = workload.jobs.iter().map(|(job, _)| gpus(job)).fold(0.0, f64::max);
    let last = workload.jobs.last().map_or(Time::ZERO, |(job, _)| job.submitted);
    let needed = (work / last.as_secs_f64().max(1.0) / load).max(widest);
    Cluster::uniform(((needed / 8.0).ceil() as u32).max(1), 8, "v100")
}

/// A run through a workload that is looked at between its steps.
fn replay(workload: &Workload, cluster: &Cluster, policy: &str, mut look: impl FnMut(&Look<'_>)) {
    let build = || policies::build(policy, &toml::Table::new()).expect("the policy exists");
    let setup = Setup {
        cluster: cluster.clone(),
        tenants: workload.tenants.clone(),
        workload: workload.clone(),
        physics: Physics::default(),
        options: Options::default(),
        seed: SEED,
    };
    let (mut backend, mut core) = prepare(setup, build()).expect("the run begins");
    let mut past = Past::default();
    let mut wake = None;
    let mut last = Time::ZERO;
    while let Some(batch) = backend.wait(wake) {
        if batch.at > last {
            look(&Look { core: &core, past: &past, from: last, to: batch.at, starts: &[] });
        }
        past.observe(core.state(), &batch);
        let step = core.step(&batch);
        let starts: Vec<JobId> = step
            .actions
            .iter()
            .filter_map(|action| if let Action::Start { job, .. } = action { Some(*job) } else { None })
            .collect();
        look(&Look { core: &core, past: &past, from: batch.at, to: batch.at, starts: &starts });
        step.actions.iter().for_each(|action| backend.perform(action));
        wake = step.wake;
        last = batch.at;
    }
}

/// What is seen: between steps nothing has changed from `from` until before `to`; after a step, who starts.
struct Look<'a> {
    core: &'a trainyard_sched::control::Core,
    past: &'a Past,
    from: Time,
    to: Time,
    starts: &'a [JobId],
}

/// One question and its answer.
struct Asked {
    at_submission: bool,
    job: JobId,
    estimate: Estimate,
}

/// A question with everything that its answer needs.
struct Open {
    at_submission: bool,
    job: JobId,
    moment: Moment,
    past: Past,
}

fn ask(open: &Open, policy: &str) -> Asked {
    let forecast = Forecast::new(&open.moment, &open.past, open.job);
    let build = || policies::build(policy, &toml::Table::new()).expect("the policy exists");
    let mut seen = Vec::new();
    loop {
        let next = forecast.next_futures(&seen);
        if next.is_empty() {
            break;
        }
        seen.extend(next.map(|number| forecast.one_future(build(), number)));
    }
    Asked { at_submission: open.at_submission, job: open.job, estimate: forecast.estimate(&seen) }
}

/// Asks many questions on two threads; the order of the answers does not depend on them.
fn ask_all(open: &[Open], policy: &str) -> Vec<Asked> {
    let next = AtomicUsize::new(0);
    let mut all: Vec<(usize, Asked)> = std::thread::scope(|scope| {
        let work = || {
            let mut done = Vec::new();
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(question) = open.get(i) else { return done };
                done.push((i, ask(question, policy)));
            }
        };
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    all.sort_by_key(|(i, _)| *i);
    all.into_iter().map(|(_, asked)| asked).collect()
}

/// One cell of the table: a trace under a policy.
fn cell(name: &str, workload: &Workload, cluster: &Cluster, policy: &str, wish: &Wish) {
    let mut starts: BTreeMap<JobId, Time> = BTreeMap::new();
    replay(workload, cluster, policy, |look| {
        look.starts.iter().for_each(|job| _ = starts.entry(*job).or_insert(look.from));
    });
    let submitted = |id: JobId| workload.jobs[id.index()].0.submitted;
    let waited: Vec<(JobId, Time)> =
        starts.iter().filter(|(id, at)| **at > submitted(**id)).map(|(id, at)| (*id, *at)).collect();
    // Evenly over those that waited and were submitted in the second or third quarter of the arrivals: there is a past
    // to learn from, and arrivals go on for long, so that nobody has to be left out because of how he fared.
    let count = workload.jobs.len();
    let middle = |id: JobId| (count / 4..count * 3 / 4).contains(&id.index());
    let late: Vec<&(JobId, Time)> = waited.iter().filter(|(id, _)| middle(*id)).collect();
    let step = late.len().div_ceil(wish.asks).max(1);
    let mut questions: BTreeMap<Time, Vec<(JobId, bool)>> = BTreeMap::new();
    for (id, start) in late.into_iter().step_by(step) {
        questions.entry(submitted(*id)).or_default().push((*id, true));
        let part = (SEED.branch("moment").numbered(u64::from(id.0)).0 >> 11) as f64 / (1_u64 << 53) as f64;
        let waits = start.since(submitted(*id));
        questions.entry(submitted(*id) + waits.scaled(part * 0.999)).or_default().push((*id, false));
    }
    let mut open = Vec::new();
    let mut asked = Vec::new();
    replay(workload, cluster, policy, |look| {
        while let Some(entry) = questions.first_entry().filter(|entry| *entry.key() < look.to) {
            let at = *entry.key();
            for (job, at_submission) in entry.remove() {
                let moment = look.core.moment(at.max(look.from));
                open.push(Open { at_submission, job, moment, past: look.past.clone() });
            }
            if open.len() >= 16 {
                asked.extend(ask_all(&std::mem::take(&mut open), policy));
            }
        }
    });
    asked.extend(ask_all(&open, policy));
    // The trace ends, which no forecast can know: an interval that reaches beyond the last arrival cannot be judged.
    // What the forecast says decides that, and not what came of it, or the early would be picked out.
    let last = workload.jobs.last().map_or(Time::ZERO, |(job, _)| job.submitted);
    let judged = |asked: &Asked| asked.estimate.latest.is_some_and(|latest| latest <= last);
    let (asked, beyond): (Vec<Asked>, Vec<Asked>) = asked.into_iter().partition(judged);
    print_rows(name, policy, workload, &starts, &asked, beyond.len());
}

fn quantile(sorted: &[f64], part: f64) -> f64 {
    sorted.get(((sorted.len().max(1) - 1) as f64 * part).round() as usize).copied().unwrap_or(0.0)
}

/// The range from p10 to p90 of the waits of earlier jobs of the same size; of those that waited at all, or of all.
fn spread_of_earlier(workload: &Workload, starts: &BTreeMap<JobId, Time>, job: JobId, all: bool) -> f64 {
    let (like, _) = &workload.jobs[job.index()];
    let earlier = starts.iter().map(|(id, at)| (&workload.jobs[id.index()].0, at));
    let same = earlier.filter(|(other, at)| {
        other.shape.minimum().gpu_milli == like.shape.minimum().gpu_milli
            && **at <= like.submitted
            && (all || **at > other.submitted)
    });
    let mut waits: Vec<f64> = same.map(|(other, at)| at.since(other.submitted).as_secs_f64()).collect();
    waits.sort_by(f64::total_cmp);
    quantile(&waits, 0.9) - quantile(&waits, 0.1)
}

fn print_rows(
    name: &str,
    policy: &str,
    workload: &Workload,
    starts: &BTreeMap<JobId, Time>,
    asked: &[Asked],
    beyond: usize,
) {
    for at_submission in [true, false] {
        let these: Vec<&Asked> = asked.iter().filter(|a| a.at_submission == at_submission).collect();
        let n = these.len().max(1) as f64;
        let part =
            |holds: &dyn Fn(&Asked) -> bool| these.iter().filter(|a| holds(a)).count() as f64 / n * 100.0;
        let inside = part(&|a| a.estimate.holds(starts[&a.job]));
        let early = part(&|a| a.estimate.earliest.is_some_and(|earliest| starts[&a.job] < earliest));
        let below = part(&|a| a.estimate.median.is_some_and(|median| starts[&a.job] <= median));
        let median = |of: &dyn Fn(&Asked) -> f64| {
            let mut values: Vec<f64> = these.iter().map(|a| of(a)).collect();
            values.sort_by(f64::total_cmp);
            quantile(&values, 0.5)
        };
        let width = median(&|a| a.estimate.width().map_or(f64::INFINITY, |width| width.as_secs_f64()));
        let waited = median(&|a| spread_of_earlier(workload, starts, a.job, false));
        let all = median(&|a| spread_of_earlier(workload, starts, a.job, true));
        let when = if at_submission { "submission" } else { "waiting" };
        let (of_waited, of_all) = (width / waited.max(1.0), width / all.max(1.0));
        println!(
            "{name:<13} {policy:<9} {when:<10} {:>5} {beyond:>6} {inside:>7.1} {early:>7.1} {below:>7.1} {width:>9.0} {of_waited:>9.2} {of_all:>9.2}",
            these.len(),
        );
    }
}

fn main() {
    let wish = wish();
    println!(
        "trace         policy    asked at   judged beyond inside%  early%  <=med%   width_s  /waited      /all"
    );
    for source in &SOURCES {
        if wish.only.as_ref().is_some_and(|only| !source.name.contains(only)) {
            continue;
        }
        let Some(workload) = read(source, &wish) else { continue };
        let wanted = |name: &str| wish.policy.as_ref().is_none_or(|only| only == name);
        for (policy, usual) in POLICIES.into_iter().filter(|(name, _)| wanted(name)) {
            let cluster = cluster(&workload, wish.load.unwrap_or(usual));
            let (jobs, gpus) = (workload.jobs.len(), cluster.gpu_count());
            println!("# {jobs} jobs on {gpus} GPUs, {}", Path::new(source.path).display());
            cell(source.name, &workload, &cluster, policy, &wish);
        }
    }
}
