//! What a trace holds, counted.

use std::sync::Arc;

use serde::Serialize;
use trainyard_sched::model::{GPU, Job, Parallelism, TaskGraph};
use trainyard_sim::truth::{self, Speed, Truth};
use trainyard_sim::workload::{Done, ImportReport, Workload};

/// What a trace holds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Inspection {
    /// What was read, left out, repaired and assumed.
    pub(crate) report: ImportReport,
    /// Jobs.
    pub(crate) jobs: usize,
    /// Rows or things that were left out, repaired, assumed and noted.
    pub(crate) counts: Counts,
    /// From the first to the last arrival.
    pub(crate) span_s: f64,
    /// Jobs by GPUs.
    pub(crate) gpus: Vec<SizeShare>,
    /// Run times in seconds at 0, 10, 50, 90, 99 and 100 %, of jobs whose run time is known beforehand.
    pub(crate) duration_s: Vec<(f64, f64)>,
    /// Jobs by how they end.
    pub(crate) endings: Vec<(truth::Ending, usize)>,
    /// Jobs without GPUs.
    pub(crate) without_gpus: usize,
    /// Jobs that are graphs of tasks, if any are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) graphs: Option<GraphShare>,
    /// Jobs by tenant.
    pub(crate) tenants: Vec<(Arc<str>, usize)>,
}

/// How much was done to the rows, by kind.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Counts {
    /// Left out.
    pub(crate) dropped: u64,
    /// Repaired.
    pub(crate) repaired: u64,
    /// Assumed.
    pub(crate) assumed: u64,
    /// Only told.
    pub(crate) noted: u64,
}

/// How many jobs are of one size.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct SizeShare {
    /// GPUs.
    pub(crate) gpus: f64,
    /// Jobs.
    pub(crate) jobs: usize,
}

/// What there is of jobs that are graphs of tasks.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct GraphShare {
    /// Jobs.
    pub(crate) jobs: usize,
    /// Tasks of one job: the fewest, the mean and the most.
    pub(crate) tasks: (usize, f64, usize),
    /// Edges of one job: the same.
    pub(crate) edges: (usize, f64, usize),
    /// Jobs with several replicas.
    pub(crate) with_replicas: usize,
    /// Jobs with parameter servers.
    pub(crate) with_servers: usize,
}

impl Inspection {
    /// Looks at a workload.
    pub(crate) fn of(workload: Workload) -> Self {
        let Workload { jobs, tenants, report, .. } = workload;
        let mut sizes: Vec<u64> = jobs.iter().map(|(job, _)| job.shape.minimum().gpu_milli).collect();
        sizes.sort_unstable();
        let of_size = |same: &[u64]| SizeShare { gpus: same[0] as f64 / GPU as f64, jobs: same.len() };
        let mut durations: Vec<f64> = jobs
            .iter()
            .filter_map(|(_, truth)| match &truth.speed {
                Speed::Fixed { iteration, .. } => Some(truth.iterations * iteration.as_secs_f64()),
                Speed::Function(_) | Speed::Table { .. } | Speed::Measured(_) | Speed::Graph(_) => None,
            })
            .collect();
        durations.sort_by(f64::total_cmp);
        let quantile =
            |percent| trainyard_sched::metrics::percentile(&durations, percent).map(|s| (percent, s));
        let mut by_tenant = vec![0; tenants.len()];
        for (job, _) in &jobs {
            by_tenant[job.tenant.index()] += 1;
        }
        let arrival = |at: Option<&(Arc<_>, _)>| {
            at.map_or(0.0, |(job, _): &(Arc<trainyard_sched::model::Job>, _)| job.submitted.as_secs_f64())
        };
        let count = |done| report.count(done);
        Self {
            counts: Counts {
                dropped: count(Done::Dropped),
                repaired: count(Done::Repaired),
                assumed: count(Done::Assumed),
                noted: count(Done::Noted),
            },
            endings: endings(&jobs),
            graphs: graphs(&jobs),
            without_gpus: sizes.partition_point(|milli| *milli == 0),
            jobs: jobs.len(),
            span_s: arrival(jobs.last()) - arrival(jobs.first()),
            gpus: sizes.chunk_by(|a, b| a == b).map(of_size).collect(),
            duration_s: [0.0, 10.0, 50.0, 90.0, 99.0, 100.0].into_iter().filter_map(quantile).collect(),
            tenants: tenants
                .iter()
                .map(|(id, tenant)| (Arc::clone(&tenant.name), by_tenant[id.index()]))
                .collect(),
            report,
        }
    }
}

fn graphs(jobs: &[(Arc<Job>, Truth)]) -> Option<GraphShare> {
    let graphs = jobs.iter().filter_map(|(job, _)| match &job.shape {
        Parallelism::TaskGraph(graph) => Some(graph),
        Parallelism::DataParallel(_) => None,
    });
    let graphs: Vec<&TaskGraph> = graphs.collect();
    let span = |of: fn(&TaskGraph) -> usize| {
        let counts = || graphs.iter().map(|graph| of(graph));
        let mean = counts().sum::<usize>() as f64 / graphs.len() as f64;
        Some((counts().min()?, mean, counts().max()?))
    };
    Some(GraphShare {
        jobs: graphs.len(),
        tasks: span(|graph| graph.tasks().len())?,
        edges: span(|graph| graph.edges().len())?,
        with_replicas: graphs.iter().filter(|graph| graph.replicas().len() > 1).count(),
        with_servers: graphs.iter().filter(|graph| graph.tasks().iter().any(|t| t.replica.is_none())).count(),
    })
}

fn endings(jobs: &[(Arc<Job>, Truth)]) -> Vec<(truth::Ending, usize)> {
    use truth::Ending::{Censored, Completed, Failed, Killed};
    let count = |ending| jobs.iter().filter(|(_, truth)| truth.ending == ending).count();
    [Completed, Failed, Killed, Censored].map(|ending| (ending, count(ending))).into()
}
