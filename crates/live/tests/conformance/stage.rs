//! What a scene is played on. A kind of cluster that shall be held to the script is one more [`Stage`].

use std::sync::Arc;

use trainyard_sched::control::{Backend, Outcome};
use trainyard_sched::model::{
    Attempt, Cluster, Declared, Edge, Goals, Job, JobId, MoveCost, NodeId, NodeState, Parallelism, Resources,
    Task, TaskGraph, TaskId, TenantId, Time, UNLIMITED, Wanted, WorkerRange,
};

/// How many devices each node has.
pub(crate) const DEVICES: u32 = 2;

/// A job that counts its iterations.
#[derive(Clone, Debug)]
pub(crate) struct Training {
    /// Iterations until it ends by itself.
    pub(crate) total: u32,
    /// How long one takes on the fewest workers.
    pub(crate) each_ms: u32,
    /// After how many it saves without being told.
    pub(crate) save_every: u32,
    /// How many workers it may have.
    pub(crate) workers: (u32, u32),
    /// What of a device each worker needs.
    pub(crate) gpu_milli: u64,
    /// Which of its processes fails, and after how many iterations. It had saved then.
    pub(crate) fails: Option<(u32, u32)>,
    /// Whether it may train as several copies of itself.
    pub(crate) copied: bool,
    /// Of how many tasks it is a chain, instead of having workers.
    pub(crate) tasks: Option<u32>,
}

impl Training {
    /// One worker with a device of its own.
    pub(crate) const fn of(total: u32) -> Self {
        Self {
            total,
            each_ms: 10,
            save_every: 5,
            workers: (1, 1),
            gpu_milli: 1000,
            fails: None,
            copied: false,
            tasks: None,
        }
    }

    /// From so many to so many workers.
    pub(crate) const fn workers(self, min: u32, max: u32) -> Self {
        Self { workers: (min, max), ..self }
    }

    /// A process of this rank fails after so many iterations.
    pub(crate) const fn failing(self, rank: u32, after: u32) -> Self {
        Self { fails: Some((rank, after)), ..self }
    }

    /// It may train as several copies of itself.
    pub(crate) const fn copied(self) -> Self {
        Self { copied: true, ..self }
    }

    /// It is a chain of so many tasks, each with a device of its own.
    pub(crate) const fn tasks(self, tasks: u32) -> Self {
        Self { tasks: Some(tasks), ..self }
    }

    /// Each worker needs only a part of a device.
    pub(crate) const fn sharing(self, gpu_milli: u64) -> Self {
        Self { gpu_milli, ..self }
    }

    /// How it ends if it is left alone.
    pub(crate) const fn outcome(&self) -> Outcome {
        if self.fails.is_some() { Outcome::Failed } else { Outcome::Completed }
    }

    /// Its tasks together take as long for an iteration as one would.
    fn graph(&self, tasks: u32) -> TaskGraph {
        let task = Task {
            demand: Resources::gpus(1),
            parameters: 10,
            replica: Some(0),
            compute_s: f64::from(self.each_ms) / 1e3 / f64::from(tasks),
            state_bytes: 80,
        };
        let edge = |from: u32| Edge { from: TaskId(from), to: TaskId(from + 1), bytes: 8 };
        TaskGraph::new(vec![task; tasks as usize], (0..tasks - 1).map(edge).collect(), None, true)
            .expect("a chain is a graph")
    }

    /// The job as its owner describes it.
    pub(crate) fn job(&self, id: usize) -> Job {
        let (min, max) = self.workers;
        let worker = Resources { gpu_milli: self.gpu_milli, ..Resources::NONE };
        Job {
            id: JobId(id as u32),
            name: format!("counting-{id}").into(),
            tenant: TenantId(0),
            model: None,
            submitted: Time::ZERO,
            shape: match self.tasks {
                Some(tasks) => Parallelism::TaskGraph(self.graph(tasks)),
                None => Parallelism::elastic(WorkerRange { min, max }, worker),
            },
            wanted: Wanted::default(),
            goals: Goals { copies: if self.copied { 2 } else { 1 }, ..Goals::default() },
            declared: Declared {
                iterations: self.copied.then_some(f64::from(self.total)),
                ..Declared::default()
            },
            move_cost: MoveCost::default(),
        }
    }
}

/// What a scene needs.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// Nodes with [`DEVICES`] each.
    pub(crate) nodes: u32,
    /// The jobs, all of which are submitted at the beginning.
    pub(crate) trainings: Vec<Training>,
}

impl Setting {
    /// The machines.
    pub(crate) fn cluster(&self) -> Cluster {
        let mut cluster = Cluster::default();
        let gpu_type = cluster.intern_gpu_type("virtual");
        let holds = Resources {
            cpu_milli: UNLIMITED,
            memory_bytes: UNLIMITED,
            network_bytes_per_s: UNLIMITED,
            ..Resources::gpus(u64::from(DEVICES))
        };
        for _ in 0..self.nodes {
            cluster.push(trainyard_sched::model::RackId(0), Some(gpu_type), holds, None::<Arc<str>>);
        }
        cluster
    }
}

/// An attempt that is really there, whatever was said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Presence {
    pub(crate) job: JobId,
    pub(crate) attempt: Attempt,
    /// On how many nodes it is, or of how many processes: one for each placement.
    pub(crate) parts: usize,
    /// The devices that each part uses, as bits and in ascending order, where that can be found out.
    pub(crate) devices: Option<Vec<u64>>,
}

/// A backend, what is asked of it beside actions, and a look behind it.
pub(crate) trait Stage {
    /// The backend, to be driven as the loop would.
    fn backend(&mut self) -> &mut dyn Backend;

    /// An operator changes a node.
    fn set_node(&mut self, node: NodeId, state: NodeState);

    /// An owner takes a job back.
    fn withdraw(&mut self, job: JobId);

    /// What is really there now, found out by other means than events.
    fn really_there(&mut self) -> Vec<Presence>;

    /// What else is known, for whoever reads that a scene failed.
    fn words(&mut self) -> String;
}

/// Makes a stage for a setting.
pub(crate) type Theatre<'a> = &'a (dyn Fn(&Setting) -> Box<dyn Stage> + Sync);
