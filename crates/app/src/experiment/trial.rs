//! What is kept of a run to show it: its numbers and a few curves of bounded size.

use trainyard_sched::metrics::{
    Details, JobRow, LongWait, Series, Share, SizeClass, Summary, Timeline, Waited, waits_by_size,
};

use super::Outcome;

/// Points of a curve; more than a chart has pixels to tell apart.
const MOST_POINTS: usize = 240;

/// A run, small enough to keep many.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    /// Its numbers.
    pub(crate) summary: Summary,
    /// Completion times in seconds and the part of the completed jobs that took no longer.
    pub(crate) jct: Vec<(f64, f64)>,
    /// Waiting times likewise.
    pub(crate) wait: Vec<(f64, f64)>,
    /// GPUs in use over time in seconds.
    pub(crate) used_gpus: Vec<(f64, f64)>,
    /// Jobs without devices over time in seconds.
    pub(crate) waiting: Vec<(f64, f64)>,
    /// Waits by the size of jobs.
    pub(crate) sizes: Vec<SizeClass>,
    /// What is only there if it was asked for.
    pub(crate) closer: Option<Closer>,
}

/// A closer look at a run.
#[derive(Clone, Debug)]
pub(crate) struct Closer {
    /// What ran where.
    pub(crate) timeline: Timeline,
    /// Time waited by kind of reason.
    pub(crate) waited: Vec<(&'static str, Waited)>,
    /// The longest waits.
    pub(crate) longest: Vec<LongWait>,
    /// What tenants got.
    pub(crate) shares: Vec<Share>,
    /// Free GPUs that are of no use to a whole-node job, over time in seconds.
    pub(crate) stranded: Vec<(f64, f64)>,
    /// Their mean part of the free GPUs.
    pub(crate) stranded_part: Option<f64>,
    /// The part of the nodes that trained, over time in seconds; empty where no job had copies.
    pub(crate) trained: Vec<(f64, f64)>,
    /// The same over the whole time, without and with pauses.
    pub(crate) trained_part: Option<(f64, f64)>,
}

impl Trial {
    /// Keeps what is shown and lets go of the rest.
    pub(crate) fn new(outcome: Outcome) -> Self {
        let Outcome { summary, metrics, details } = outcome;
        let of = |value: fn(&JobRow) -> f64| {
            let completed = metrics.rows().filter(|row| row.is_completed());
            let mut values: Vec<f64> = completed.map(value).collect();
            values.sort_by(f64::total_cmp);
            distribution(&values)
        };
        Self {
            jct: of(JobRow::jct_s),
            wait: of(JobRow::wait_s),
            used_gpus: over_time(&metrics.used_gpus),
            waiting: over_time(&metrics.waiting),
            sizes: waits_by_size(metrics.rows()),
            closer: details.map(Closer::new),
            summary,
        }
    }

    /// What its policy is called.
    pub(crate) fn name(&self) -> &str {
        &self.summary.policy
    }
}

impl Closer {
    fn new(details: Details) -> Self {
        let Details { timeline, waiting, shares, fragmentation, usage, .. } = details;
        let trained = if usage.has_copies() { grouped(&usage.over_time()) } else { Vec::new() };
        let (free, stranded) = (fragmentation.free.integral(), fragmentation.stranded.integral());
        Self {
            timeline,
            waited: waiting.by_kind().collect(),
            longest: waiting.longest(),
            shares: shares.rows().collect(),
            stranded: over_time(&fragmentation.stranded),
            stranded_part: (free > 0.0).then(|| stranded / free),
            trained_part: usage.utilisation().filter(|_| usage.has_copies()),
            trained,
        }
    }
}

/// The distribution function of sorted values at evenly spaced ranks, both ends included.
fn distribution(sorted: &[f64]) -> Vec<(f64, f64)> {
    let count = sorted.len();
    let points = count.min(MOST_POINTS);
    let rank = |k: usize| if points < 2 { 0 } else { k * (count - 1) / (points - 1) };
    (0..points).map(rank).map(|i| (sorted[i], (i + 1) as f64 / count as f64)).collect()
}

/// The means of groups of neighbouring intervals.
fn over_time(series: &Series) -> Vec<(f64, f64)> {
    grouped(&series.means())
}

fn grouped(means: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let group = means.len().div_ceil(MOST_POINTS).max(1);
    let mean = |part: &[(f64, f64)]| {
        let (at, value) = part.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        (at / part.len() as f64, value / part.len() as f64)
    };
    means.chunks(group).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_keeps_both_ends_however_many_values_there_are() {
        let values: Vec<f64> = (0..10_000).map(f64::from).collect();
        let curve = distribution(&values);
        assert_eq!(curve.len(), MOST_POINTS);
        assert_eq!(curve[0], (0.0, 0.0001));
        assert_eq!(curve[MOST_POINTS - 1], (9999.0, 1.0));
        assert_eq!(distribution(&[7.0]), [(7.0, 1.0)]);
        assert!(distribution(&[]).is_empty());
    }
}
