//! What is drawn of runs: curves over time, distributions, and what ran where.

use trainyard_sched::metrics::Details;
use trainyard_sched::model::{Cluster, Span};
use trainyard_sim::workload::Workload;

use crate::reproduce::{Band, Bands, PlotCurve};

/// Points of a curve; more than a chart has pixels to tell apart.
const MOST_POINTS: usize = 240;
/// Stretches shorter than this part of a run are drawn together.
const GRAINS: f64 = 400.0;

/// A curve over time, thinned to means over equal stretches.
pub(in crate::reproduce) fn over_time(name: &str, means: &[(f64, f64)], of: f64) -> PlotCurve {
    let each = means.len().div_ceil(MOST_POINTS).max(1);
    let mean = |some: &[(f64, f64)]| {
        let count = some.len() as f64;
        (some[0].0, some.iter().map(|point| point.1).sum::<f64>() / count / of)
    };
    PlotCurve { name: name.to_owned(), points: means.chunks(each).map(mean).collect() }
}

/// For each value, which part of all is no larger.
pub(in crate::reproduce) fn shares_below(name: &str, values: &[f64]) -> PlotCurve {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let each = sorted.len().div_ceil(MOST_POINTS).max(1);
    let chosen = |i: &usize| i.is_multiple_of(each) || i + 1 == sorted.len();
    let points = (0..sorted.len()).filter(chosen).map(|i| (sorted[i], (i + 1) as f64 / count)).collect();
    PlotCurve { name: name.to_owned(), points }
}

/// Which job was on GPUs of which type, and when; the first jobs only.
pub(in crate::reproduce) fn who_ran_where(
    details: &Details,
    cluster: &Cluster,
    workload: &Workload,
    most_jobs: usize,
    ended_s: f64,
) -> Bands {
    let jobs = workload.jobs.len().min(most_jobs);
    let mut rows: Vec<(String, Vec<Band>)> =
        workload.jobs[..jobs].iter().map(|(job, _)| (job.name.to_string(), Vec::new())).collect();
    let nodes: Vec<_> = details.timeline.nodes().collect();
    for block in details.timeline.blocks(Span::from_secs_f64(ended_s / GRAINS)) {
        let gpu_type = cluster.node(nodes[block.row]).gpu_type;
        let (Some(row), Some(gpu_type)) = (rows.get_mut(block.bar.job.index()), gpu_type) else { continue };
        let (from_s, to_s) = (block.bar.from.as_secs_f64(), block.bar.to.as_secs_f64());
        row.1.push(Band { from_s, to_s, series: gpu_type.index(), strength: 1.0 });
    }
    let series = cluster.gpu_types.iter().map(|gpu_type| gpu_type.name.to_string()).collect();
    Bands {
        title: String::new(),
        reading: String::new(),
        alternative: String::new(),
        series,
        rows,
        to_s: ended_s,
    }
}
