//! Forecasts of starts: they repeat, they are held against what happens, and they know what they must know.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainyard_sched::control::{Action, Backend, Core, Moment};
use trainyard_sched::decide::Policy;
use trainyard_sched::model::{
    Cluster, Declared, GPU, Job, JobId, Parallelism, Resources, Seed, Span, TenantId, Time, WorkerRange,
};
use trainyard_sched::policies;
use trainyard_sched::view::Phase;
use trainyard_sim::backend::Options;
use trainyard_sim::forecast::{Estimate, Forecast, Past};
use trainyard_sim::generate::{Load, Parameters, generate};
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::{Setup, prepare};
use trainyard_sim::trace::Declaring;
use trainyard_sim::truth::Truth;
use trainyard_sim::workload::Workload;

const GPUS: u64 = 32;

fn workload(seed: u64, declared: Declaring) -> Workload {
    let load = Some(Load { fraction: 1.4, gpus: GPUS });
    let parameters = Parameters { seed: Seed(seed), load, declared, ..Parameters::default() };
    generate(&parameters).expect("the preset makes jobs")
}

fn build(policy: &str) -> Box<dyn Policy> {
    policies::build(policy, &toml::Table::new()).expect("the policy exists")
}

/// Goes through a run and shows the loop after each instant, with when the next one is.
fn replay(workload: &Workload, policy: &str, mut look: impl FnMut(&Core, &Past, Time, &[JobId])) {
    let setup = Setup {
        cluster: Cluster::uniform((GPUS / 8) as u32, 8, "v100"),
        tenants: workload.tenants.clone(),
        workload: workload.clone(),
        physics: Physics::default(),
        options: Options::default(),
        seed: Seed(5),
    };
    let (mut backend, mut core) = prepare(setup, build(policy)).expect("the run begins");
    let (mut past, mut wake) = (Past::default(), None);
    while let Some(batch) = backend.wait(wake) {
        past.observe(core.state(), &batch);
        let step = core.step(&batch);
        let starts: Vec<JobId> = step
            .actions
            .iter()
            .filter_map(|action| if let Action::Start { job, .. } = action { Some(*job) } else { None })
            .collect();
        step.actions.iter().for_each(|action| backend.perform(action));
        wake = step.wake;
        look(&core, &past, batch.at, &starts);
    }
}

fn ask(moment: &Moment, past: &Past, policy: &str, job: JobId) -> Estimate {
    let forecast = Forecast::new(moment, past, job);
    let mut seen = Vec::new();
    loop {
        let next = forecast.next_futures(&seen);
        if next.is_empty() {
            return forecast.estimate(&seen);
        }
        seen.extend(next.map(|number| forecast.one_future(build(policy), number)));
    }
}

/// Asks about every so many jobs that wait after their arrival, and a while later once more. Returns how many
/// intervals hold the start, how many there are, and the median of width over wait.
fn calibrate(workload: &Workload, policy: &str, every: usize) -> (usize, usize, f64) {
    let mut starts: BTreeMap<JobId, Time> = BTreeMap::new();
    let mut answers: Vec<(JobId, Time, Estimate)> = Vec::new();
    let mut met = 0;
    let last = workload.jobs.last().map_or(Time::ZERO, |(job, _)| job.submitted);
    replay(workload, policy, |core, past, at, started| {
        started.iter().for_each(|job| _ = starts.entry(*job).or_insert(at));
        let waits = |view: &&trainyard_sched::view::JobView| {
            view.phase == Phase::Waiting && view.attempt.0 == 0 && view.waited(at) > Span::ZERO
        };
        let Some(view) = core.state().jobs().find(waits).filter(|_| past.ends() > 100 && at < last) else {
            return;
        };
        met += 1;
        if met % every == 0 {
            let ids: Vec<JobId> = core.state().jobs().filter(waits).map(|view| view.id()).collect();
            let id = ids[met / every % ids.len()];
            answers.push((id, at, ask(&core.moment(at), past, policy, id)));
        }
        let _ = view;
    });
    // The trace ends, which nobody could know.
    answers.retain(|(job, ..)| starts.get(job).is_some_and(|start| *start <= last));
    let inside = answers.iter().filter(|(job, _, answer)| answer.holds(starts[job])).count();
    let mut widths: Vec<f64> = answers
        .iter()
        .map(|(job, at, answer)| {
            let width = answer.width().map_or(f64::INFINITY, Span::as_secs_f64);
            width / starts[job].since(*at).as_secs_f64().max(60.0)
        })
        .collect();
    widths.sort_by(f64::total_cmp);
    let median = widths.get(widths.len() / 2).copied().unwrap_or(f64::INFINITY);
    (inside, answers.len(), median)
}

#[test]
fn most_starts_lie_inside_and_intervals_are_not_vast() {
    // Other policies are measured by `examples/calibration.rs`: looking far ahead under them takes too long here.
    let workload = workload(11, Declaring::Noisy { spread: 0.5 });
    let (inside, asked, width) = calibrate(&workload, "fifo", 40);
    assert!(asked >= 12, "only {asked} were asked");
    assert!(inside * 100 >= asked * 75, "{inside} of {asked} starts lie inside");
    assert!(width <= 1.75, "half of the intervals are wider than {width} times the wait");
}

#[test]
fn exact_declarations_make_fifo_nearly_certain() {
    let (inside, asked, width) = calibrate(&workload(12, Declaring::Exact), "fifo", 60);
    assert!(asked >= 8 && inside == asked, "{inside} of {asked}");
    assert!(width < 0.5, "{width}");
}

#[test]
fn the_same_question_has_the_same_answer() {
    let workload = workload(13, Declaring::Noisy { spread: 0.5 });
    let mut asked = 0;
    replay(&workload, "srtf", |core, past, at, _| {
        let waiting = core.state().jobs().filter(|view| view.phase == Phase::Waiting).last();
        let Some(view) = waiting.filter(|_| asked < 3 && past.ends() > 50) else { return };
        let (moment, job) = (core.moment(at), view.id());
        let forecast = Forecast::new(&moment, past, job);
        let outlook = |number| forecast.one_future(build("srtf"), number);
        let (forwards, backwards): (Vec<_>, Vec<_>) =
            ((0..6).map(outlook).collect(), (0..6).rev().map(outlook).collect());
        assert!(forwards.iter().eq(backwards.iter().rev()), "the order of the futures does not matter");
        assert_eq!(ask(&moment, past, "srtf", job), ask(&moment, past, "srtf", job));
        asked += 1;
    });
    assert_eq!(asked, 3);
}

/// Jobs that each take the whole cluster: when they come, how long they run and how long they say, in seconds.
fn whole_cluster_jobs(jobs: impl IntoIterator<Item = (u64, u64, u64)>) -> Workload {
    const NODES: u32 = (GPUS / 8) as u32;
    let mut workload = workload(1, Declaring::Exact);
    let worker = Resources { gpu_milli: 8 * GPU, ..Resources::NONE };
    let like = Job {
        shape: Parallelism::elastic(WorkerRange { min: NODES, max: NODES }, worker),
        tenant: TenantId(0),
        ..(*workload.jobs[0].0).clone()
    };
    let made = |(submitted_s, runs_s, says_s): (u64, u64, u64)| {
        let iteration = Some(Span::from_secs(1));
        let declared = Declared { iterations: Some(says_s as f64), iteration, ..Declared::default() };
        let job = Job { submitted: Time::from_secs(submitted_s), declared, ..like.clone() };
        (Arc::new(job), Truth::lasting(Span::from_secs(runs_s), NODES))
    };
    workload.jobs = jobs.into_iter().map(made).collect();
    // Some number of its own for each, before they are numbered by arrival.
    workload.jobs.iter_mut().for_each(|(job, _)| Arc::make_mut(job).id = JobId(u32::MAX));
    workload.number();
    workload
}

/// What is said at a moment about the first job that came at another, and when that one really starts. Both times
/// are seconds, and something must happen at the moment.
fn ask_at(workload: &Workload, policy: &str, at_s: u64, came_s: u64) -> (Estimate, Time) {
    let came = |(job, _): &&(Arc<Job>, Truth)| job.submitted == Time::from_secs(came_s);
    let asked = workload.jobs.iter().find(came).expect("somebody comes then").0.id;
    let (mut answer, mut start) = (None, None);
    replay(workload, policy, |core, past, at, starts| {
        if at == Time::from_secs(at_s) && answer.is_none() {
            let waits = core.state().job(asked).is_some_and(|view| view.phase == Phase::Waiting);
            assert!(waits && start.is_none(), "{policy}: the job in question waits");
            answer = Some(ask(&core.moment(at), past, policy, asked));
        }
        if starts.contains(&asked) {
            start = start.or(Some(at));
        }
    });
    (answer.expect("something happens then"), start.expect("it starts in the end"))
}

#[test]
fn what_a_running_job_has_already_run_counts() {
    // All say 1000 s; half of them run 100 s, and half 1500 s. Each is alone on the cluster but for the last ones.
    let alone = (0..200).map(|i| (2_000 * i, if i % 2 == 0 { 100 } else { 1_500 }, 1_000));
    // The one that runs has run for 600 s when the third of these comes, so it is a long one.
    let last = [(400_000, 1_500, 1_000), (400_300, 1_000, 1_000), (400_600, 1_000, 1_000)];
    let workload = whole_cluster_jobs(alone.chain(last));
    // Under `tiresias` the one that runs gives way long before.
    for policy in ["fifo", "srtf"] {
        let (answer, start) = ask_at(&workload, policy, 400_600, 400_300);
        assert_eq!(start, Time::from_secs(401_500), "{policy}");
        assert!(answer.holds(start), "{policy}: {answer:?}");
        assert!(answer.earliest >= Some(Time::from_secs(401_000)), "{policy}: {answer:?}");
    }
}

#[test]
fn iterations_that_were_declared_and_a_pace_that_is_seen_make_a_length() {
    // Earlier ones ran for 100 s. The one that runs does an iteration a second, which its owner could not know.
    let earlier = (0..40).map(|i| (2_000 * i, 100, 100));
    let last = [(100_000, 3_000, 3_000), (100_100, 500, 500), (100_500, 500, 500)];
    let mut workload = whole_cluster_jobs(earlier.chain(last));
    let ask = |workload: &Workload| ask_at(workload, "fifo", 100_500, 100_100);
    for (job, _) in &mut workload.jobs {
        Arc::make_mut(job).declared.iteration = None;
    }
    let (answer, start) = ask(&workload);
    assert_eq!(start, Time::from_secs(103_000));
    assert!(answer.holds(start), "{answer:?}");
    assert!(answer.median.is_some_and(|median| median >= Time::from_secs(101_500)), "{answer:?}");
    for (job, _) in &mut workload.jobs {
        Arc::make_mut(job).declared.iterations = None;
    }
    let (unknown, _) = ask(&workload);
    assert!(
        unknown.median < answer.median,
        "without it all are taken to be like the earlier ones: {unknown:?}"
    );
}

#[test]
fn who_will_come_before_a_start_counts() {
    // Every hour five short jobs come at once and three more half an hour later: they keep the cluster for 3200 s.
    let hours = 24 * 4;
    let short = (0..hours).flat_map(|hour| {
        let batch = |at: u64, count: usize| std::iter::repeat_n((3_600 * hour + at, 400, 400), count);
        batch(0, 5).chain(batch(1_800, 3))
    });
    // The long one comes when three days have passed. Without newcomers it would start after 2000 s.
    let now = 3_600 * 72;
    let mut jobs: Vec<(u64, u64, u64)> = short.chain([(now + 10, 10_000, 10_000)]).collect();
    jobs.sort_unstable();
    let workload = whole_cluster_jobs(jobs);
    let said = |policy| {
        let (answer, start) = ask_at(&workload, policy, now + 10, now + 10);
        assert!(answer.holds(start), "{policy}: {answer:?} {start:?}");
        let width = answer.width().expect("it has an end");
        assert!(
            width <= Span::from_secs(300),
            "{policy}: days are all alike, and all is declared: {answer:?}"
        );
        start.since(Time::from_secs(now))
    };
    // Shorter ones go first under `srtf` only.
    assert_eq!(said("srtf"), Span::from_secs(3_200));
    assert_eq!(said("fifo"), Span::from_secs(2_000));
    // Each of the five gives way when it has had an hour of GPU time.
    assert_eq!(said("tiresias"), Span::from_secs(5 * 3_600).scaled(1.0 / GPUS as f64));
}
