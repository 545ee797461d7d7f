//! Checks of SLAQ that need no run of a workload: how well curves predict, whether the greedy is the optimum, and how long
//! one decision takes.

use std::sync::Arc;
use std::time::Instant;

use trainyard_sched::control::{Batch, Core, Event, Settings};
use trainyard_sched::decide::Abilities;
use trainyard_sched::estimate::{Fitting, LossHistory};
use trainyard_sched::model::{
    Cluster, Convergence, Curve, DeclaredLoss, Job, LossPoint, MoveCost, Parallelism, Seed, SpeedFunction,
    Tenants, Time, WorkerRange,
};
use trainyard_sim::cluster::parse_words;
use trainyard_sim::generate::{Declares, Learning};
use trainyard_sim::loss::TrueLoss;

use crate::config::PolicyChoice;
use crate::failure::Failure;

/// Iterations ahead (SLAQ, SoCC 2017).
const AHEAD: f64 = 10.0;
/// With fewer reports nothing is predicted.
const FIRST: u32 = 8;

/// The prediction of one curve: the mean relative error ten iterations ahead, and the points of a picture.
pub(super) struct Predicted {
    pub(super) is_geometric: bool,
    pub(super) mean_error: f64,
    /// Iterations with the loss that was predicted for it and the one that was reported.
    pub(super) points: Vec<(f64, f64, f64)>,
}

/// Predicts so many curves of both families, each point from the reports up to ten iterations before, with noise.
pub(super) fn predict(count: u32, noise: f64, seed: Seed) -> Vec<Predicted> {
    let drawn = Learning { jobs: count, noise, geometric: 0.5, ..Learning::default() };
    // Losses that tend to something: a hundredth to one half of where they begin.
    let offset = |i: u32| 0.01 + 0.49 * f64::from(i) / f64::from(count.max(1));
    let scales = (0..count).map(|i| (1.0 - offset(i), offset(i))).collect();
    let workload = Learning { scales, ..drawn }.draw(seed, &Tenants::default(), MoveCost::default());
    let losses = workload.jobs.iter().filter_map(|(_, truth)| truth.loss.clone());
    losses.map(|loss| predict_one(&loss)).collect()
}

fn predict_one(loss: &TrueLoss) -> Predicted {
    let is_geometric = matches!(loss.course.formula(), Some(Curve::Geometric { .. }));
    let convergence = Some(if is_geometric { Convergence::Linear } else { Convergence::Sublinear });
    let declared = DeclaredLoss { convergence, ..DeclaredLoss::default() };
    let fitting = Fitting::default();
    let last = (2.0 * loss.course.formula().map_or(0.0, |curve| curve.iterations_to(0.05))) as u32;
    let mut history = LossHistory::default();
    let (mut errors, mut points) = (Vec::new(), Vec::new());
    for k in 0..=last {
        let iteration = f64::from(k);
        let point = LossPoint { iteration, loss: loss.reported(iteration), accuracy: None };
        history.report(&[point], &declared, Some(&fitting));
        let Some(expected) = history.expected().filter(|_| k >= FIRST) else { continue };
        let (said, is) = (expected.loss(iteration + AHEAD), loss.reported(iteration + AHEAD));
        errors.push((said - is).abs() / is);
        points.push((iteration + AHEAD, said, is));
    }
    let mean_error = errors.iter().sum::<f64>() / errors.len() as f64;
    Predicted { is_geometric, mean_error, points }
}

/// How many of so many small cases the policy divides worse than the best of all divisions: up to four jobs and twelve
/// cores, concave gains.
pub(super) fn worse_than_the_optimum(cases: u64, seed: Seed, slaq: &PolicyChoice) -> Result<u64, Failure> {
    let mut worse = 0;
    for case in 0..cases {
        let seed = seed.numbered(case);
        let jobs = 1 + (seed.branch("jobs").0 % 4) as u32;
        let cores = u64::from(jobs) + seed.branch("cores").0 % (13 - u64::from(jobs));
        let workload =
            Learning { jobs, ..Learning::default() }.draw(seed, &Tenants::default(), MoveCost::default());
        let all: Vec<Arc<Job>> = workload.jobs.iter().map(|(job, _)| job.clone()).collect();
        let cluster = parse_words(&format!("1x{cores}:cpu")).expect("these are words of a cluster");
        let ours = first_shares(cluster, &all, slaq)?;
        let value = |job: &Arc<Job>, workers: u32| -> f64 {
            let (Some(curve), Some(speed)) = (job.declared.loss.curve, job.declared.speed.clone()) else {
                return 0.0;
            };
            1.0 - curve.excess(3.0 * speed.iterations_per_s(workers, 0)) / curve.excess(0.0)
        };
        let sum: f64 = all.iter().zip(&ours).map(|(job, workers)| value(job, *workers)).sum();
        let best = best_sum(&all, cores as u32, &value);
        worse += u64::from((sum - best).abs() > 1e-12);
    }
    Ok(worse)
}

/// The greatest sum over all ways to give every job one worker or more.
fn best_sum(jobs: &[Arc<Job>], cores: u32, value: &dyn Fn(&Arc<Job>, u32) -> f64) -> f64 {
    let Some((first, rest)) = jobs.split_first() else { return 0.0 };
    let most = cores - rest.len() as u32;
    let sum = |workers: u32| value(first, workers) + best_sum(rest, cores - workers, value);
    (1..=most).map(sum).fold(f64::NEG_INFINITY, f64::max)
}

fn core(cluster: Cluster, policy: &PolicyChoice) -> Result<Core, Failure> {
    let settings = Settings { seed: Seed(0), abilities: Abilities::ALL, strict: true };
    let mut tenants = Tenants::default();
    tenants.intern("learning");
    Ok(Core::new(cluster, tenants, policy.build()?, settings))
}

/// What jobs get that have just arrived.
fn first_shares(cluster: Cluster, jobs: &[Arc<Job>], policy: &PolicyChoice) -> Result<Vec<u32>, Failure> {
    let mut core = core(cluster, policy)?;
    let events = jobs.iter().map(|job| Event::Arrived { job: job.clone() }).collect();
    core.step(&Batch { at: Time::ZERO, events });
    let workers = |job: &Arc<Job>| core.state().job(job.id).map_or(0, |view| view.target.workers());
    Ok(jobs.iter().map(workers).collect())
}

/// The seconds that one decision takes, fits given: the least of some, as others may use the machine.
pub(super) fn decision_s(jobs: u32, cores: u32, slaq: &PolicyChoice) -> Result<f64, Failure> {
    let learning = Learning { jobs, gap_s: 1e-6, declares: Declares::ALL, ..Learning::default() };
    let workload = learning.draw(Seed(1), &Tenants::default(), MoveCost::default());
    let cluster = parse_words(&format!("{}x32:cpu", cores / 32)).expect("these are words of a cluster");
    let mut core = core(cluster, slaq)?;
    let events = workload.jobs.iter().map(|(job, _)| Event::Arrived { job: job.clone() }).collect();
    let step = core.step(&Batch { at: Time::ZERO, events });
    let started = |action: &trainyard_sched::control::Action| match action {
        trainyard_sched::control::Action::Start { job, attempt, .. } => {
            Some(Event::Started { job: *job, attempt: *attempt, iterations: 0.0, speed: 1.0 })
        }
        _ => None,
    };
    let events = step.actions.iter().filter_map(started).collect();
    core.step(&Batch { at: Time(1), events });
    let seen = core.snapshot(Time::from_secs(3));
    let mut policy = slaq.build()?;
    let mut least = f64::INFINITY;
    for _ in 0..5 {
        let began = Instant::now();
        let decision = policy.decide(&seen);
        least = least.min(began.elapsed().as_secs_f64());
        assert!(!decision.targets.is_empty(), "after three seconds shares are others");
    }
    Ok(least)
}

/// Whether a job of which everything is odd leaves the others' shares as if it were flat: loss reports that are no numbers,
/// that rise, or that never change.
pub(super) fn is_immune(slaq: &PolicyChoice) -> Result<bool, Failure> {
    let speed = SpeedFunction::WithFixedPart { work_s: 5.0, fixed_s: 0.05 };
    let drawn = Learning { jobs: 8, gap_s: 1e-6, ..Learning::default() };
    let workload = drawn.draw(Seed(2), &Tenants::default(), MoveCost::default());
    let mut shares: Vec<Vec<u32>> = Vec::new();
    let courses: [&dyn Fn(f64) -> f64; 4] =
        [&|_| f64::NAN, &|k| 1.0 + k * k, &|_| 1.0, &|k| if k < 1.0 { f64::INFINITY } else { -f64::NAN }];
    for course in courses {
        let mut jobs: Vec<Arc<Job>> = workload.jobs.iter().map(|(job, _)| job.clone()).collect();
        let bad = Arc::make_mut(&mut jobs[3]);
        bad.declared.loss = DeclaredLoss::default();
        bad.declared.speed = Some(speed.clone());
        bad.shape = Parallelism::elastic(
            WorkerRange { min: 1, max: 640 },
            trainyard_sched::model::Resources::cpus(1),
        );
        shares.push(shares_after_reports(&jobs, course, slaq)?);
    }
    Ok(shares.iter().all(|of_course| *of_course == shares[0] && of_course[3] == 1))
}

/// Shares after twenty reports of the fourth job.
fn shares_after_reports(
    jobs: &[Arc<Job>],
    course: &dyn Fn(f64) -> f64,
    slaq: &PolicyChoice,
) -> Result<Vec<u32>, Failure> {
    let mut core = core(parse_words("2x32:cpu").expect("these are words of a cluster"), slaq)?;
    let events = jobs.iter().map(|job| Event::Arrived { job: job.clone() }).collect();
    let step = core.step(&Batch { at: Time::ZERO, events });
    let mut events = Vec::new();
    for action in &step.actions {
        let trainyard_sched::control::Action::Start { job, attempt, .. } = action else { continue };
        events.push(Event::Started { job: *job, attempt: *attempt, iterations: 0.0, speed: 7.0 });
        if *job == jobs[3].id {
            let loss =
                |k: u32| LossPoint { iteration: f64::from(k), loss: course(f64::from(k)), accuracy: None };
            let losses = (0..20).map(loss).collect();
            let (iterations, speed, saved) = (20.0, 7.0, 0.0);
            events.push(Event::Progress {
                job: *job,
                attempt: *attempt,
                iterations,
                speed,
                saved,
                losses,
                copies: Vec::new(),
            });
        }
    }
    core.step(&Batch { at: Time(1), events });
    core.step(&Batch { at: Time::from_secs(3), events: Vec::new() });
    Ok(jobs.iter().map(|job| core.state().job(job.id).map_or(0, |view| view.target.workers())).collect())
}
