//! Runs of SLAQ-W: one workload under one policy, and what the checks measure of it. The true curves are known here, so
//! "90 % of the loss reduction" is of what there was to gain by the curve and not by what the job happened to reach.

use std::collections::BTreeMap;

use trainyard_sched::control::Nothing;
use trainyard_sched::metrics::{Learner, Metrics, Moment};
use trainyard_sched::model::{Curve, JobId, MoveCost, Seed, Span, Tenants};
use trainyard_sim::backend::Options;
use trainyard_sim::cluster::parse_words;
use trainyard_sim::generate::Learning;
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::{Setup, simulate};

use crate::config::PolicyChoice;
use crate::failure::Failure;

/// The epoch of SLAQ, and how often jobs report: as often.
pub(super) const EPOCH: Span = Span::from_secs(3);
/// 640 cores (specification, A3.1).
const CLUSTER: &str = "20x32:cpu";
/// Parts of the loss that are left at 90, 95 and 99 % of its reduction.
const LEFT: [f64; 3] = [0.1, 0.05, 0.01];

/// A policy on a kind of workload.
#[derive(Clone, Debug)]
pub(super) struct Variant {
    pub(super) learning: Learning,
    pub(super) policy: PolicyChoice,
}

/// What is measured of a run.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// Seconds from arrival to 90, 95 and 99 % of the loss reduction, by job.
    pub(super) to: [Vec<f64>; 3],
    /// The mean over epochs of the mean normalised loss of the jobs that are there.
    pub(super) mean_loss: f64,
    /// Parts of the workers held by the quarter of the jobs with the highest loss, the next quarter and the other half;
    /// means over the epochs with four jobs and more.
    pub(super) shares: [f64; 3],
    /// The fewest workers that a job held between its first start and its end.
    pub(super) least_workers: f64,
    /// The epochs.
    pub(super) moments: Vec<Moment>,
    /// What every job held, from when on.
    pub(super) workers: Vec<Vec<(f64, f64)>>,
}

impl Measured {
    /// The mean time to 90, 95 or 99 %.
    pub(super) fn mean_to(&self, level: usize) -> f64 {
        let times = &self.to[level];
        times.iter().sum::<f64>() / times.len() as f64
    }
}

/// Runs a variant on the workload of a seed.
pub(super) fn perform(variant: &Variant, seed: Seed) -> Result<Measured, Failure> {
    let workload = variant.learning.draw(seed, &Tenants::default(), MoveCost::default());
    let curves: BTreeMap<JobId, Curve> = workload
        .jobs
        .iter()
        .filter_map(|(job, truth)| Some((job.id, truth.loss.as_ref()?.course.formula()?)))
        .collect();
    let setup = Setup {
        cluster: parse_words(CLUSTER).expect("these are words of a cluster"),
        tenants: workload.tenants.clone(),
        workload,
        physics: Physics::default(),
        options: Options { report_every: Some(EPOCH), ..Options::default() },
        seed,
    };
    let policy = variant.policy.build()?;
    let finished = simulate(setup, policy, &mut Nothing, |_, _| {})
        .map_err(|source| Failure::Setup { policy: variant.policy.label(), source })?;
    Ok(measure(&finished.metrics, &curves))
}

fn measure(metrics: &Metrics, curves: &BTreeMap<JobId, Curve>) -> Measured {
    let mut to = [Vec::new(), Vec::new(), Vec::new()];
    let (mut workers, mut least_workers) = (Vec::new(), f64::INFINITY);
    for (id, job) in metrics.quality.jobs() {
        for (times, left) in to.iter_mut().zip(LEFT) {
            times.push(seconds_to(job, &curves[&id], left));
        }
        // The last entry is the end, and before the first one it had not begun.
        let held = job.workers();
        let while_there = held.iter().take(held.len().saturating_sub(1));
        least_workers = while_there.map(|(_, workers)| *workers).fold(least_workers, f64::min);
        workers.push(held.to_vec());
    }
    let left = |id: JobId, job: &Learner, at| {
        let curve = &curves[&id];
        Some(curve.excess(job.iterations_at(at)) / curve.excess(0.0))
    };
    let moments = metrics.quality.moments(EPOCH, left);
    let count = moments.len() as f64;
    let with_shares: Vec<[f64; 3]> = moments.iter().filter_map(|moment| moment.shares).collect();
    let share = |i: usize| with_shares.iter().map(|shares| shares[i]).sum::<f64>() / with_shares.len() as f64;
    Measured {
        to,
        mean_loss: moments.iter().map(|moment| moment.mean_loss).sum::<f64>() / count,
        shares: [share(0), share(1), share(2)],
        least_workers,
        moments,
        workers,
    }
}

/// A job leaves when it is done with the last of these, so its end counts where rounding keeps it a hair before that.
fn seconds_to(job: &Learner, curve: &Curve, left: f64) -> f64 {
    let whole_life = job.ended.map(|ended| ended.since(job.arrived).as_secs_f64());
    let reached = job.seconds_to_iteration(curve.iterations_to(left));
    reached.or(whole_life).unwrap_or(f64::NAN)
}
