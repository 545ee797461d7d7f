//! Forecasts of starts: they repeat, they are held against what happens, and they know what they must know.

use std::collections::BTreeMap;

use trainyard_sched::control::{Action, Backend, Core, Moment};
use trainyard_sched::decide::Policy;
use trainyard_sched::model::{Cluster, JobId, Seed, Span, Time};
use trainyard_sched::policies;
use trainyard_sched::view::Phase;
use trainyard_sim::backend::Options;
use trainyard_sim::forecast::{Estimate, Forecast, Past};
use trainyard_sim::generate::{Load, Parameters, generate};
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::{Setup, prepare};
use trainyard_sim::trace::Declaring;
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
    for (policy, every, widest) in [("fifo", 40, 1.5), ("srtf", 40, 4.0), ("tiresias", 40, 4.0)] {
        let workload = workload(11, Declaring::Noisy { spread: 0.5 });
        let (inside, asked, width) = calibrate(&workload, policy, every);
        println!("{policy}: {inside} of {asked} inside, width {width:.2} of the wait");
        assert!(asked >= 12, "{policy}: only {asked} were asked");
        assert!(inside * 100 >= asked * 75, "{policy}: {inside} of {asked} starts lie inside");
        assert!(width <= widest, "{policy}: half of the intervals are wider than {width} times the wait");
    }
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
