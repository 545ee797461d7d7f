//! One simulated run, from a workload to its numbers.

use std::sync::Arc;

use trainyard_sched::control::{Backend, Batch, Core, Log, Settings, Step, run};
use trainyard_sched::decide::{Abilities, Policy};
use trainyard_sched::metrics::Metrics;
use trainyard_sched::model::{Cluster, GPU, GpuTypeId, GpuTypeSet, Seed, Span, Tenants, Time};

use crate::backend::{Options, SimBackend};
use crate::physics::{Locality, Physics};
use crate::truth::Speed;
use crate::workload::Workload;

/// Everything that a run depends on.
pub struct Setup {
    /// The machines.
    pub cluster: Cluster,
    /// The tenants, with the workload's first.
    pub tenants: Tenants,
    /// The jobs.
    pub workload: Workload,
    /// The constants of the world.
    pub physics: Physics,
    /// How the virtual world behaves.
    pub options: Options,
    /// The seed of the run.
    pub seed: Seed,
}

/// A run cannot begin.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SetupError {
    /// The policy wants what the backend cannot do.
    #[error("the policy needs {0}, which this backend does not offer")]
    Lacks(Abilities),
    /// There is nothing to do.
    #[error("there are no jobs to run")]
    NoJobs,
    /// The cluster makes no sense.
    #[error(transparent)]
    Cluster(#[from] trainyard_sched::model::ClusterError),
    /// A node change names a node that is not there.
    #[error("a node change names node {0}, but the cluster has only {1} nodes")]
    UnknownNode(u32, usize),
}

/// What a run leaves behind.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Everything measured.
    pub metrics: Metrics,
    /// When the run ended.
    pub ended: Time,
    /// Whether it was cut off at the horizon.
    pub cut_off: bool,
}

/// A horizon that any policy which does not waste the cluster keeps: four times the time that all work
/// would take on the whole cluster, and two of the longest job, after the last arrival.
pub fn natural_horizon(workload: &Workload, cluster: &Cluster) -> Time {
    let gpus = (cluster.gpu_count() as f64).max(1.0);
    let mut work_gpu_s = 0.0;
    let mut longest_s: f64 = 0.0;
    let mut last = Time::ZERO;
    for (job, truth) in &workload.jobs {
        let per_s = match &truth.speed {
            Speed::Fixed { iteration, .. } => 1.0 / iteration.as_secs_f64().max(1e-6),
            Speed::Function(function) => {
                let workers = job.shape.data_parallel().map_or(1, |shape| shape.workers.min);
                function.iterations_per_s(workers, workers)
            }
            Speed::Table { table, row } => table.slowest_per_s(*row).unwrap_or(1.0),
            Speed::Measured(speeds) => speeds.slowest_per_s().unwrap_or(1.0),
            // What it sends from node to node, and a crowd, may make it several times slower.
            Speed::Graph(graph) => 0.25 / graph.idle_iteration_s(&job.shape).max(1e-6),
        };
        let duration_s = truth.iterations / per_s.max(1e-9);
        work_gpu_s += duration_s * (job.shape.minimum().gpu_milli as f64 / GPU as f64).max(1.0);
        longest_s = longest_s.max(duration_s);
        last = last.max(job.submitted);
    }
    last + Span::from_secs_f64(4.0 * work_gpu_s / gpus + 2.0 * longest_s)
}

/// Runs a policy over a workload.
///
/// # Errors
/// If the run cannot begin.
///
/// # Panics
/// If the policy decides something that cannot be, or the loop breaks a rule: these are bugs.
pub fn simulate(
    setup: Setup,
    policy: Box<dyn Policy>,
    log: &mut dyn Log,
    mut progress: impl FnMut(usize, usize),
) -> Result<Finished, SetupError> {
    let (mut backend, mut core) = prepare(setup, policy)?;
    let horizon = backend.horizon();
    let mut metrics = Metrics::new(core.state().cluster());
    struct Both<'a>(&'a mut dyn Log, &'a mut Metrics);
    impl Log for Both<'_> {
        fn step(&mut self, batch: &Batch, step: &Step) {
            self.0.step(batch, step);
            self.1.step(batch, step);
        }
        fn rest(&mut self, core: &Core) {
            self.0.rest(core);
            self.1.rest(core);
        }
    }
    struct Watched<'a, F>(&'a mut SimBackend, &'a mut F, u32);
    impl<F: FnMut(usize, usize)> Backend for Watched<'_, F> {
        fn abilities(&self) -> Abilities {
            self.0.abilities()
        }
        fn wait(&mut self, until: Option<Time>) -> Option<Batch> {
            self.2 = self.2.wrapping_add(1);
            if self.2.is_multiple_of(4096) {
                let (arrived, all) = self.0.arrivals();
                (self.1)(arrived, all);
            }
            self.0.wait(until)
        }
        fn perform(&mut self, action: &trainyard_sched::control::Action) {
            self.0.perform(action);
        }
    }
    run(&mut Watched(&mut backend, &mut progress, 0), &mut core, &mut Both(log, &mut metrics));
    let ended = backend.now();
    Ok(Finished { metrics, ended, cut_off: ended >= horizon })
}

/// The backend and the loop of a run that has not begun.
///
/// # Errors
/// If the run cannot begin.
pub fn prepare(setup: Setup, policy: Box<dyn Policy>) -> Result<(SimBackend, Core), SetupError> {
    let Setup { cluster, tenants, mut workload, physics, options, seed } = setup;
    cluster.validate()?;
    if workload.jobs.is_empty() {
        return Err(SetupError::NoJobs);
    }
    let beyond = options.node_changes.iter().find(|(_, node, _)| node.index() >= cluster.nodes.len());
    if let Some((_, node, _)) = beyond {
        return Err(SetupError::UnknownNode(node.0, cluster.nodes.len()));
    }
    keep_off_types_that_do_not_fit(&mut workload, &cluster);
    let settings = Settings { seed, abilities: options.abilities, strict: true };
    let core = Core::new(cluster.clone(), tenants, policy, settings);
    let lacks = core.lacks();
    if !lacks.is_none() {
        return Err(SetupError::Lacks(lacks));
    }
    Ok((SimBackend::new(cluster, workload, physics, options), core))
}

/// A job whose measured speed on a GPU type is zero or missing does not fit there; its owner knows that.
fn keep_off_types_that_do_not_fit(workload: &mut Workload, cluster: &Cluster) {
    for (job, truth) in &mut workload.jobs {
        let Speed::Table { table, row } = &truth.speed else { continue };
        let gpus = (job.shape.minimum().gpu_milli / GPU) as u32;
        let fits = |gpu_type: &GpuTypeId| {
            let name = &cluster.gpu_types[gpu_type.index()].name;
            table.per_s(*row, name, gpus, Locality::Node).is_some_and(|per_s| per_s > 0.0)
        };
        let types: Vec<GpuTypeId> = (0..cluster.gpu_types.len() as u8)
            .map(GpuTypeId)
            .filter(|gpu_type| job.wanted.gpu_types.has(*gpu_type) && fits(gpu_type))
            .collect();
        Arc::make_mut(job).wanted.gpu_types = GpuTypeSet::of(&types);
    }
}
