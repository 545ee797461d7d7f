//! What a daemon of the tests is made of: virtual nodes of this machine, one tenant, the policies of the table.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use trainyard_live::local::{Confinement, Options};
use trainyard_live::{Settings, Submission, Work};
use trainyard_sched::model::{
    Cluster, Declared, Edge, Goals, Job, JobId, MoveCost, Parallelism, RackId, Resources, Seed, Task,
    TaskGraph, TaskId, TenantId, Tenants, Time, UNLIMITED, Wanted, WorkerRange,
};
use trainyard_sched::policies;

/// A cluster of `nodes` with so many CPU cores each.
pub(crate) fn cluster((nodes, cores): (u32, u64)) -> Cluster {
    let mut cluster = Cluster::default();
    for _ in 0..nodes {
        let holds =
            Resources { memory_bytes: UNLIMITED, network_bytes_per_s: UNLIMITED, ..Resources::cpus(cores) };
        cluster.push(RackId(0), None, holds, None);
    }
    cluster
}

/// A daemon in this folder.
pub(crate) fn settings(folder: &Path, cluster: Cluster, policy: &str) -> Settings {
    let mut tenants = Tenants::default();
    tenants.intern("default");
    Settings {
        folder: folder.to_owned(),
        cluster,
        tenants,
        policy: (policy.to_owned(), toml::Table::new()),
        policies: Arc::new(|name, parameters| {
            policies::build(name, parameters).map_err(|error| error.to_string())?;
            let (name, parameters) = (name.to_owned(), parameters.clone());
            Ok(Arc::new(move || policies::build(&name, &parameters).expect("it was built before")))
        }),
        seed: Seed(7),
        settle: Duration::from_millis(2),
        budget: Duration::from_secs(5),
        keep_every: Settings::KEEP_EVERY,
    }
}

/// Real processes, kept by this program.
pub(crate) fn options(folder: &Path, exe: PathBuf, confinement: Confinement) -> Options {
    Options {
        jobs: folder.join("jobs"),
        exe,
        confinement,
        speeds: Vec::new(),
        cpus_per_gpu: None,
        gpu_indices: Vec::new(),
        url: None,
    }
}

/// A request for a job of this shape.
pub(crate) fn submission(shape: Parallelism, work: Work, key: Option<Arc<str>>) -> Submission {
    let job = Job {
        id: JobId(0),
        name: "".into(),
        tenant: TenantId(0),
        model: None,
        submitted: Time::ZERO,
        shape,
        wanted: Wanted::default(),
        goals: Goals::default(),
        declared: Declared::default(),
        move_cost: MoveCost::default(),
    };
    Submission { job, tenant_name: "default".into(), work, key }
}

/// A request for a job that may be forked into three copies and has so many iterations in all.
pub(crate) fn forked(shape: Parallelism, work: Work, goal: f64) -> Submission {
    let mut submission = submission(shape, work, Some("forked".into()));
    submission.job.goals.copies = 3;
    submission.job.declared.iterations = Some(goal);
    submission
}

/// So many workers of one core each.
pub(crate) fn gang(workers: u32) -> Parallelism {
    Parallelism::rigid(workers, Resources::cpus(1))
}

/// A chain of so many tasks, which need half a core each.
pub(crate) fn chain(tasks: u32) -> Parallelism {
    let demand = Resources { cpu_milli: 500, ..Resources::NONE };
    let task = Task { demand, parameters: 10, replica: Some(0), compute_s: 0.001, state_bytes: 80 };
    let edge = |from: u32| Edge { from: TaskId(from), to: TaskId(from + 1), bytes: 8 };
    let edges = (0..tasks.saturating_sub(1)).map(edge).collect();
    let graph = TaskGraph::new(vec![task; tasks as usize], edges, None, true);
    Parallelism::TaskGraph(graph.expect("a chain is a graph"))
}

/// From so many to so many workers of one core each.
pub(crate) fn elastic(min: u32, max: u32) -> Parallelism {
    Parallelism::elastic(WorkerRange { min, max }, Resources::cpus(1))
}
