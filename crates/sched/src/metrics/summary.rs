//! The numbers of a run, flat and with sorted keys.

use serde::{Deserialize, Serialize};

use super::{ObjectivesSummary, QualitySummary};

/// The numbers of a run. Times are in seconds. Means and percentiles are over the completed jobs (those
/// that began and came to an end, however they ended) and absent where there are none, or where the
/// run was unstable and they would mean nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Mean of completion time over the time on a fair 1/n share; see `docs/metrics.md`.
    pub avg_ftf: Option<f64>,
    /// The same mean as [`Self::avg_jct_s`] over the jobs that ended as they were meant to.
    #[serde(default)]
    pub avg_jct_completed_s: Option<f64>,
    /// Mean completion time, from submission to end.
    pub avg_jct_s: Option<f64>,
    /// Mean of completion time over the time spent training.
    pub avg_slowdown: Option<f64>,
    /// Mean time without devices, from submission to end.
    pub avg_wait_s: Option<f64>,
    /// Jobs that had not ended when the run did, and those whose trace ended while they ran.
    pub censored: u64,
    /// Jobs that came to an end.
    pub completed: u64,
    /// Median time of one decision in microseconds, as measured; not part of a reproducible output.
    pub decide_us_p50: Option<f64>,
    /// 99th percentile of the same.
    pub decide_us_p99: Option<f64>,
    /// Decisions made.
    pub decisions: u64,
    /// Of the completed jobs, those that ended in an error.
    pub failed: u64,
    /// GPU-seconds held without lasting progress: loading, saving, and work undone by failures.
    pub gpu_seconds_lost: f64,
    /// GPU time held over GPU time there was, from the first arrival to the last end.
    pub gpu_utilization: f64,
    /// Jobs that could not run even on the idle cluster.
    pub impossible: u64,
    /// Jobs that arrived.
    pub jobs: u64,
    /// Of the completed jobs, those that their owners killed.
    pub killed: u64,
    /// From the first arrival to the last end.
    pub makespan_s: f64,
    /// How often a job went on somewhere else or with another size.
    pub migrations: u64,
    /// What jobs are for, and what they cost others; absent where none has a deadline, needs an accuracy or is a graph of tasks.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub objectives: Option<ObjectivesSummary>,
    /// Median completion time.
    pub p50_jct_s: Option<f64>,
    /// 90th percentile of completion time.
    pub p90_jct_s: Option<f64>,
    /// 95th percentile of waiting time.
    pub p95_wait_s: Option<f64>,
    /// 99th percentile of completion time.
    pub p99_jct_s: Option<f64>,
    /// The policy, with its parameters where they are not the defaults.
    pub policy: String,
    /// How often a job was stopped against its will.
    pub preemptions: u64,
    /// How good jobs became; absent where none reported a loss.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub quality: Option<QualitySummary>,
    /// Whether the queue kept growing, so that means would depend on when one stops looking.
    pub unstable: bool,
    /// Wall time of the run, as measured; not part of a reproducible output.
    pub wall_s: Option<f64>,
}

/// The nearest-rank percentile of sorted values: the smallest value that at least `percent` of them do
/// not exceed.
pub fn percentile(sorted: &[f64], percent: f64) -> Option<f64> {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(percentile(&values, 50.0), Some(5.0));
        assert_eq!(percentile(&values, 90.0), Some(9.0));
        assert_eq!(percentile(&values, 99.0), Some(10.0));
        assert_eq!(percentile(&[7.0], 50.0), Some(7.0));
        assert_eq!(percentile(&[], 50.0), None);
    }
}
