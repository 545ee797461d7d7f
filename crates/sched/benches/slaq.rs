//! How long SLAQ takes for 4,000 jobs on 16,000 cores, in one thread. `cargo bench -p trainyard-sched --bench slaq`.
//!
//! `shares` is the greedy alone; `decide` is a whole decision with fits given, from a snapshot to placements; `step` is the
//! loop around it when every job has reported a new loss since, so that every curve is fitted anew. Goals: 5 ms for the
//! second, 50 ms for the third.

use std::sync::Arc;

use divan::Bencher;
use trainyard_sched::control::{Action, Batch, Core, Event, Moment, Settings};
use trainyard_sched::decide::{Abilities, Policy};
use trainyard_sched::model::{
    Cluster, Convergence, Curve, Declared, DeclaredLoss, Goals, Job, JobId, LossPoint, MoveCost, Parallelism,
    RackId, Resources, Seed, SpeedFunction, TenantId, Tenants, Time, UNLIMITED, Wanted, WorkerRange,
};
use trainyard_sched::policies;
use trainyard_sched::rank::{Offer, hand_out};
use trainyard_sched::view::Snapshot;

const JOBS: u32 = 4000;
const CORES: u32 = 16_000;
/// Reports of each job before the last one.
const REPORTS: u32 = 30;

fn main() {
    divan::main();
}

fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    let holds = Resources { memory_bytes: UNLIMITED, network_bytes_per_s: UNLIMITED, ..Resources::cpus(32) };
    (0..CORES / 32).for_each(|_| _ = cluster.push(RackId(0), None, holds, None));
    cluster
}

/// Different lengths, every fourth one sublinear.
fn curve(i: u32) -> Curve {
    let k95 = 20.0 + f64::from(i * 7919 % 200);
    if i.is_multiple_of(4) {
        Curve::Sublinear { a: 9.5 / (k95 * k95), b: 9.5 / k95, c: 1.0, d: 0.1 }
    } else {
        Curve::Geometric { amplitude: 1.0, mu: 0.05_f64.powf(1.0 / k95), c: 0.1 }
    }
}

fn speed(i: u32) -> SpeedFunction {
    SpeedFunction::WithFixedPart { work_s: 2.0 + f64::from(i * 104_729 % 100), fixed_s: 0.05 }
}

fn job(i: u32, is_declared: bool) -> Arc<Job> {
    let convergence = Some(if i.is_multiple_of(4) { Convergence::Sublinear } else { Convergence::Linear });
    let loss = DeclaredLoss { convergence, curve: is_declared.then(|| curve(i)), ..DeclaredLoss::default() };
    Arc::new(Job {
        id: JobId(i),
        name: format!("job-{i}").into(),
        tenant: TenantId(0),
        model: None,
        submitted: Time::ZERO,
        shape: Parallelism::elastic(WorkerRange { min: 1, max: 640 }, Resources::cpus(1)),
        wanted: Wanted::default(),
        goals: Goals::default(),
        declared: Declared { speed: Some(speed(i)), loss, ..Declared::default() },
        move_cost: MoveCost::default(),
    })
}

fn slaq() -> Box<dyn Policy> {
    policies::build("slaq", &toml::Table::new()).expect("the policy exists")
}

/// All jobs run, have reported for a while, and have the shares of three epochs.
fn running(is_declared: bool) -> (Core, Vec<(JobId, trainyard_sched::model::Attempt)>) {
    let mut tenants = Tenants::default();
    tenants.intern("team");
    let settings = Settings { seed: Seed(0), abilities: Abilities::ALL, strict: true };
    let mut core = Core::new(cluster(), tenants, slaq(), settings);
    let events = (0..JOBS).map(|i| Event::Arrived { job: job(i, is_declared) }).collect();
    let step = core.step(&Batch { at: Time::ZERO, events });
    let mut attempts = Vec::new();
    for action in &step.actions {
        if let Action::Start { job, attempt, .. } = action {
            attempts.push((*job, *attempt));
        }
    }
    let started = |(job, attempt): &(JobId, trainyard_sched::model::Attempt)| Event::Started {
        job: *job,
        attempt: *attempt,
        iterations: 0.0,
        speed: 1.0,
    };
    core.step(&Batch { at: Time(1), events: attempts.iter().map(started).collect() });
    core.step(&Batch { at: Time(2), events: reports(&attempts, 0..REPORTS) });
    for epoch in 1..3 {
        let step = core.step(&Batch { at: Time::from_secs(3 * epoch), events: Vec::new() });
        let events = step.actions.iter().filter_map(resized).collect();
        core.step(&Batch { at: Time::from_secs(3 * epoch) + trainyard_sched::model::Span(1), events });
    }
    (core, attempts)
}

fn resized(action: &Action) -> Option<Event> {
    let Action::Resize { job, attempt, allocation, .. } = action else { return None };
    let (iterations, speed) = (f64::from(REPORTS), 1.0);
    Some(Event::Resized { job: *job, attempt: *attempt, allocation: allocation.clone(), iterations, speed })
}

fn reports(attempts: &[(JobId, trainyard_sched::model::Attempt)], of: std::ops::Range<u32>) -> Vec<Event> {
    let report = |(job, attempt): &(JobId, trainyard_sched::model::Attempt)| {
        let point = |k: u32| {
            // A little noise, so that fits are not exact.
            let noise = 1.0 + 0.002 * (f64::from((k * 31 + job.0 * 17) % 13) - 6.0) / 6.0;
            let loss = curve(job.0).loss(f64::from(k)) * noise;
            LossPoint { iteration: f64::from(k), loss, accuracy: None }
        };
        let losses = of.clone().map(point).collect();
        let (iterations, speed, saved) = (f64::from(of.end), 1.0, 0.0);
        Event::Progress { job: *job, attempt: *attempt, iterations, speed, saved, losses, copies: Vec::new() }
    };
    attempts.iter().map(report).collect()
}

/// The greedy: a worker for each job, and the other 12,000 by gain.
#[divan::bench]
fn shares(bencher: Bencher<'_, '_>) {
    let jobs: Vec<(Curve, SpeedFunction, f64)> =
        (0..JOBS).map(|i| (curve(i), speed(i), f64::from(i % 50))).collect();
    bencher.bench_local(|| {
        let value = |i: usize, workers: u32| {
            let (curve, speed, from) = &jobs[i];
            let iterations = 3.0 * speed.iterations_per_s(workers, 0);
            (curve.excess(*from) - curve.excess(from + iterations)) / curve.excess(0.0)
        };
        let ahead = (0..jobs.len()).map(|i| (value(i, 1), value(i, 2))).collect::<Vec<_>>();
        let mut state = (vec![1_u32; jobs.len()], ahead, CORES - JOBS);
        let gain = |state: &(Vec<u32>, Vec<(f64, f64)>, u32), i: usize| Some(state.1[i].1 - state.1[i].0);
        hand_out(&mut state, jobs.len(), 0.0, gain, |(units, ahead, free), i| {
            if *free == 0 {
                return Offer::Exhausted;
            }
            *free -= 1;
            units[i] += 1;
            ahead[i] = (ahead[i].1, value(i, units[i] + 1));
            Offer::Taken
        });
        state.0
    });
}

fn decide_on(bencher: Bencher<'_, '_>, seen: &Snapshot) {
    bencher.with_inputs(slaq).bench_local_values(|mut policy| policy.decide(seen));
}

/// A whole decision by an instance that has to build its picture first.
#[divan::bench(args = [true, false], sample_count = 30)]
fn decide(bencher: Bencher<'_, '_>, curves_are_declared: bool) {
    let (core, _) = running(curves_are_declared);
    decide_on(bencher, &core.snapshot(Time::from_secs(9)));
}

/// The same with 40 newcomers, for whom there is no room until others give way.
#[divan::bench(sample_count = 30)]
fn decide_with_newcomers(bencher: Bencher<'_, '_>) {
    let (mut core, _) = running(true);
    let events = (JOBS..JOBS + 40).map(|i| Event::Arrived { job: job(i, true) }).collect();
    core.step(&Batch { at: Time::from_secs(7), events });
    decide_on(bencher, &core.snapshot(Time::from_secs(9)));
}

/// A step of the loop in which every job has a new loss.
#[divan::bench(sample_count = 20)]
fn step_with_new_losses(bencher: Bencher<'_, '_>) {
    let (core, attempts) = running(false);
    let moment: Moment = core.moment(Time::from_secs(7));
    let events = reports(&attempts, REPORTS..REPORTS + 1);
    let inputs = || {
        // A first step without news, so that its policy is in step as in a long run.
        let mut core = moment.resume(slaq());
        let _ = core.snapshot(Time::from_secs(9));
        (core.step(&Batch { at: Time::from_secs(9), events: Vec::new() }), core)
    };
    let batch = Batch { at: Time::from_secs(12), events };
    bencher.with_inputs(inputs).bench_local_values(|(_, mut core)| core.step(&batch));
}
