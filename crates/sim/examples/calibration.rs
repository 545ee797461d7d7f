//! How far the intervals of `sim::forecast` can be trusted: replays of traces, in which jobs are asked at submission
//! and at a random moment of their waiting when they will start, and what then happened.
//!
//! `cargo run --release -p trainyard-sim --example calibration -- [OPTION VALUE]... FOLDER`
//! where `FOLDER` holds the public traces. Prints one row for each trace, policy and kind of question. Options:
//!
//! - `--late F`: the cluster is the smallest one on which at most this part of the jobs of the middle half of the
//!   arrivals starts after the last arrival (0.01)
//! - `--gpus N`: so many GPUs instead
//! - `--asks N`: about how many jobs is asked at most (120)
//! - `--quarter N`: the quarter of the arrivals from which they are (3); those before are what may be learnt from
//! - `--declared exact|noisy:SPREAD|absent` (`noisy:0.5`), `--seed N` (7)
//! - `--only TRACE`, `--policy NAME`: not all of them
//! - `--misses yes`: also each start outside its interval

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
use trainyard_sim::workload::Workload;

/// A trace and the part of it that is replayed.
struct Source {
    name: &'static str,
    path: &'static str,
    tenant: Option<&'static str>,
    from_s: u64,
    jobs: usize,
}

const SOURCES: [Source; 3] = [
    Source {
        name: "Sia-Philly",
        path: "sia/traces/philly.csv.gz",
        tenant: Some("6c71a0"),
        from_s: 0,
        jobs: 4_000,
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
/// What is replayed under.
const POLICIES: [&str; 3] = ["fifo", "srtf", "tiresias"];
/// The GPUs of one node.
const NODE_GPUS: u64 = 8;

/// What is asked for.
struct Wish {
    late: f64,
    gpus: Option<u64>,
    asks: usize,
    quarter: usize,
    declared: Declaring,
    seed: Seed,
    folder: PathBuf,
    only: Option<String>,
    policy: Option<String>,
    misses: bool,
}

fn wish() -> Wish {
    let mut wish = Wish {
        late: 0.01,
        gpus: None,
        asks: 120,
        quarter: 3,
        declared: Declaring::Noisy { spread: 0.5 },
        seed: Seed(7),
        folder: std::env::var_os("TRAINYARD_PUBLIC_DATA")
            .map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from),
        only: None,
        policy: None,
        misses: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("{word} wants a value"));
        match word.as_str() {
            "--late" => wish.late = value().parse().expect("a part is a number"),
            "--gpus" => wish.gpus = Some(value().parse().expect("GPUs are a number")),
            "--asks" => wish.asks = value().parse().expect("asks are a number"),
            "--quarter" => wish.quarter = value().parse().expect("a quarter is 1, 2, 3 or 4"),
            "--seed" => wish.seed = Seed(value().parse().expect("a seed is a number")),
            "--policy" => wish.policy = Some(value()),
            "--only" => wish.only = Some(value()),
            "--misses" => wish.misses = value() == "yes",
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
        seed: wish.seed,
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

/// The smallest cluster on which nearly all jobs of the middle half start before the last arrival: as much contention
/// as leaves something to judge. No forecast is asked for that.
fn cluster(workload: &Workload, policy: &str, wish: &Wish) -> Cluster {
    let of_nodes = |nodes: u64| Cluster::uniform(nodes as u32, NODE_GPUS, "v100");
    if let Some(gpus) = wish.gpus {
        return of_nodes(gpus.div_ceil(NODE_GPUS));
    }
    let count = workload.jobs.len();
    let last = last_arrival(workload);
    let is_enough = |nodes: u64| {
        let starts = starts(workload, &of_nodes(nodes), policy);
        let middle = starts.range(JobId(count as u32 / 4)..JobId(count as u32 * 3 / 4));
        let (all, late) = middle.fold((0, 0), |(all, late), (_, at)| (all + 1, late + u64::from(*at > last)));
        late as f64 <= wish.late * f64::from(all)
    };
    let gpus = workload.jobs.iter().map(|(job, _)| job.shape.minimum().gpu_milli.div_ceil(GPU));
    let widest = gpus.max().unwrap_or(1).div_ceil(NODE_GPUS);
    // Downwards in steps of a fifth, then halving: a run with too much to do takes long.
    let (mut too_few, mut enough) = (widest - 1, widest * 64);
    while enough > widest && too_few < widest {
        let fewer = (enough * 4 / 5).max(widest);
        *(if is_enough(fewer) { &mut enough } else { &mut too_few }) = fewer;
    }
    while enough - too_few > 1 {
        let nodes = too_few.midpoint(enough);
        *(if is_enough(nodes) { &mut enough } else { &mut too_few }) = nodes;
    }
    of_nodes(enough)
}

fn last_arrival(workload: &Workload) -> Time {
    workload.jobs.last().map_or(Time::ZERO, |(job, _)| job.submitted)
}

/// The jobs that may be asked about: there is a past to learn from, and arrivals go on for long after them, so that
/// nobody has to be left out because of how he fared.
fn quarter(workload: &Workload, wish: &Wish) -> std::ops::Range<usize> {
    let count = workload.jobs.len();
    count * (wish.quarter - 1) / 4..count * wish.quarter / 4
}

/// When each job starts for the first time.
fn starts(workload: &Workload, cluster: &Cluster, policy: &str) -> BTreeMap<JobId, Time> {
    let mut starts: BTreeMap<JobId, Time> = BTreeMap::new();
    replay(workload, cluster, policy, |look| {
        look.starts.iter().for_each(|job| _ = starts.entry(*job).or_insert(look.from));
    });
    starts
}

/// Those that waited, and until when.
fn waited(workload: &Workload, starts: &BTreeMap<JobId, Time>) -> impl Iterator<Item = (JobId, Time)> {
    let all = starts.iter().map(|(id, at)| (*id, *at));
    all.filter(|(id, at)| *at > workload.jobs[id.index()].0.submitted)
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
        seed: Seed(7),
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
    at: Time,
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
    let estimate = forecast.estimate(&seen);
    Asked { at_submission: open.at_submission, job: open.job, at: open.moment.at, estimate }
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
    let starts = starts(workload, cluster, policy);
    let submitted = |id: JobId| workload.jobs[id.index()].0.submitted;
    let asked = quarter(workload, wish);
    let late: Vec<(JobId, Time)> =
        waited(workload, &starts).filter(|(id, _)| asked.contains(&id.index())).collect();
    let step = late.len().div_ceil(wish.asks).max(1);
    let mut questions: BTreeMap<Time, Vec<(JobId, bool)>> = BTreeMap::new();
    for (id, start) in late.into_iter().step_by(step) {
        questions.entry(submitted(id)).or_default().push((id, true));
        let part =
            (wish.seed.branch("moment").numbered(u64::from(id.0)).0 >> 11) as f64 / (1_u64 << 53) as f64;
        let waits = start.since(submitted(id));
        questions.entry(submitted(id) + waits.scaled(part * 0.999)).or_default().push((id, false));
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
    let last = last_arrival(workload);
    if wish.misses {
        asked.iter().for_each(|asked| print_miss(asked, submitted(asked.job), starts[&asked.job]));
    }
    let judged = |asked: &Asked| asked.estimate.latest.is_some_and(|latest| latest <= last);
    let (asked, beyond): (Vec<Asked>, Vec<Asked>) = asked.into_iter().partition(judged);
    print_rows(name, policy, workload, &starts, &asked, beyond.len());
}

fn print_miss(asked: &Asked, submitted: Time, start: Time) {
    if !asked.estimate.holds(start) {
        let hours = |at: Option<Time>| at.map_or(f64::NAN, |at| at.as_secs_f64() / 3600.0);
        let Estimate { earliest, median, latest, .. } = asked.estimate;
        println!(
            "- job {} of {:.2} h asked at {:.2} h: {:.2} to {:.2} h, median {:.2} h; started at {:.2} h",
            asked.job.0,
            hours(Some(submitted)),
            hours(Some(asked.at)),
            hours(earliest),
            hours(latest),
            hours(median),
            hours(Some(start)),
        );
    }
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
        for policy in POLICIES.into_iter().filter(|name| wanted(name)) {
            let cluster = cluster(&workload, policy, &wish);
            let (jobs, gpus) = (workload.jobs.len(), cluster.gpu_count());
            println!("# {jobs} jobs on {gpus} GPUs, {}", Path::new(source.path).display());
            cell(source.name, &workload, &cluster, policy, &wish);
        }
    }
}
