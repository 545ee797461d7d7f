//! One run among many: its numbers and a few things that are told of it, without a folder. Says nothing about how runs
//! are compared.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use trainyard_sched::control::Nothing;
use trainyard_sched::metrics::{JobRow, Metrics, Summary, percentile};
use trainyard_sched::model::Tenants;
use trainyard_sim::simulate::simulate;

use super::stopwatch::Stopwatch;
use crate::config::{Inputs, PolicyChoice};
use crate::failure::Failure;

/// What is kept of a run.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// Its numbers, without those that were measured on this machine.
    pub(crate) summary: Summary,
    /// What was measured on this machine.
    pub(crate) times: Times,
    /// Seconds that jobs waited, together; over the completed jobs.
    pub(crate) waited_s: f64,
    /// The same, each job times its GPUs.
    pub(crate) waited_gpu_s: f64,
    /// Waits by tenant, in the order of the tenants; those without completed jobs are left out.
    pub(crate) teams: Vec<TeamWaits>,
    /// The jobs that cannot run even on the idle cluster, by name.
    pub(crate) impossible: Vec<String>,
    /// From the first arrival to the last.
    pub(crate) arrivals_s: f64,
}

/// What was measured of a run on this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Times {
    /// Wall time of the run.
    pub(crate) wall_s: f64,
    /// Median time of one decision in microseconds.
    pub(crate) decide_us_p50: Option<f64>,
    /// 99th percentile of the same.
    pub(crate) decide_us_p99: Option<f64>,
}

/// How long the jobs of a tenant waited.
#[derive(Clone, Debug)]
pub(crate) struct TeamWaits {
    /// The tenant's name.
    pub(crate) name: String,
    /// Median, in seconds; absent if the run was unstable.
    pub(crate) p50_s: Option<f64>,
    /// 95th percentile.
    pub(crate) p95_s: Option<f64>,
}

/// Runs one policy and keeps its numbers.
pub(crate) fn measure(inputs: Inputs, policy: &PolicyChoice) -> Result<Measured, Failure> {
    let began = Instant::now();
    let (timed, times) = Stopwatch::around(policy.build()?);
    let tenants = inputs.tenants.clone();
    let submitted =
        |at: usize| inputs.workload.jobs.get(at).map(|(job, _)| job.submitted).unwrap_or_default();
    let last = inputs.workload.jobs.len().saturating_sub(1);
    let arrivals_s = submitted(last).since(submitted(0)).as_secs_f64();
    let finished = simulate(inputs.into_setup(), timed, &mut Nothing, |_, _| {})
        .map_err(|source| Failure::Setup { policy: policy.label(), source })?;
    let metrics = finished.metrics;
    let summary = Summary { policy: policy.label(), ..metrics.summary(finished.ended) };
    let (decide_us_p50, decide_us_p99) = times.percentiles_us();
    let done = || metrics.rows().filter(|row| row.is_completed());
    Ok(Measured {
        waited_s: done().map(JobRow::wait_s).sum(),
        waited_gpu_s: done().map(|row| row.gpus * row.wait_s()).sum(),
        teams: teams(&metrics, &tenants, summary.unstable),
        impossible: metrics.rows().filter(|row| row.is_impossible()).map(|row| row.name.clone()).collect(),
        arrivals_s,
        times: Times { wall_s: began.elapsed().as_secs_f64(), decide_us_p50, decide_us_p99 },
        summary,
    })
}

fn teams(metrics: &Metrics, tenants: &Tenants, unstable: bool) -> Vec<TeamWaits> {
    let mut waits = vec![Vec::new(); tenants.len()];
    for row in metrics.rows().filter(|row| row.is_completed()) {
        if let Some(waits) = waits.get_mut(row.tenant.index()) {
            waits.push(row.wait_s());
        }
    }
    let mut all = Vec::new();
    for ((_, tenant), mut waits) in tenants.iter().zip(waits).filter(|(_, waits)| !waits.is_empty()) {
        waits.sort_by(f64::total_cmp);
        let at = |percent| percentile(&waits, percent).filter(|_| !unstable);
        all.push(TeamWaits { name: tenant.name.to_string(), p50_s: at(50.0), p95_s: at(95.0) });
    }
    all
}
