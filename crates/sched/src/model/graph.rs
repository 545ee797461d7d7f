//! Jobs whose model is cut into parts: tasks of different size with data flowing between them.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Resources, TaskId};

/// More tasks than this no job has.
pub const MAX_TASKS: usize = 100_000;
/// More edges than this no job has.
pub const MAX_EDGES: usize = 1_000_000;

/// A job whose model is cut into parts, in one replica or several (MLFS, section 3.2). It is sound by construction: edges
/// lead from lower to higher tasks, so there is no cycle; they stay inside a replica, or lead to a parameter server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Described", into = "Described")]
pub struct TaskGraph {
    tasks: Vec<Task>,
    /// Ascending by where they come from, then by where they lead.
    edges: Vec<Edge>,
    reduce: Option<AllReduce>,
    partial: bool,
    /// Where in `edges` those begin that come from a task; one more than there are tasks.
    outputs: Vec<u32>,
    /// Edges by where they lead, as numbers of `edges`, and where in that those of a task begin.
    inputs: (Vec<u32>, Vec<u32>),
    parameters: u64,
    replicas: Vec<u32>,
}

/// One model partition of one replica, run by one persistent worker, or a parameter server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// What it needs while it runs.
    #[serde(default)]
    pub demand: Resources,
    /// Parameters in its partition.
    #[serde(default)]
    pub parameters: u64,
    /// Which replica of the whole graph it belongs to; `None` for a parameter server shared by all.
    #[serde(default = "first_replica")]
    pub replica: Option<u32>,
    /// Seconds of computing in one iteration on an idle reference device.
    #[serde(default)]
    pub compute_s: f64,
    /// Bytes of its state: what a move carries from node to node.
    #[serde(default)]
    pub state_bytes: u64,
}

#[expect(clippy::unnecessary_wraps, reason = "serde wants the type of the field")]
const fn first_replica() -> Option<u32> {
    Some(0)
}

/// Data that flows between two tasks. What flows to a parameter server comes back, as the new model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// The producer.
    pub from: TaskId,
    /// The consumer.
    pub to: TaskId,
    /// Bytes in one iteration.
    pub bytes: u64,
}

/// How replicas agree on a model without parameter servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllReduce {
    /// Along what.
    pub along: Along,
    /// Bytes that each replica brings into it in one iteration.
    pub bytes: u64,
}

/// What an all-reduce goes along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Along {
    /// One ring of all replicas.
    #[default]
    Ring,
    /// The rows of a two-dimensional torus, then its columns.
    Torus,
}

/// A graph as it is written down.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    tasks: Vec<Task>,
    #[serde(default)]
    edges: Vec<Edge>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reduce: Option<AllReduce>,
    #[serde(default)]
    partial: bool,
}

/// What is wrong with a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphError {
    /// It has no task but parameter servers.
    NoTask,
    /// It has too many tasks or edges.
    TooLarge {
        /// Tasks.
        tasks: usize,
        /// Edges.
        edges: usize,
    },
    /// The computing time of a task is no time.
    NoTime {
        /// The task.
        task: TaskId,
    },
    /// An edge leads from or to a task that is not there.
    NoSuchTask {
        /// Which edge, from 0.
        edge: usize,
        /// The task.
        task: TaskId,
    },
    /// An edge leads back, or to the task that it comes from.
    Backwards {
        /// Which edge, from 0.
        edge: usize,
    },
    /// An edge leads from one replica to another, or away from a parameter server.
    Across {
        /// Which edge, from 0.
        edge: usize,
    },
    /// Two edges lead from one task to one other.
    Twice {
        /// From here.
        from: TaskId,
        /// To here.
        to: TaskId,
    },
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTask => f.write_str("the graph has no task of any replica; give it at least one"),
            Self::TooLarge { tasks, edges } => write!(
                f,
                "the graph has {tasks} tasks and {edges} edges; at most {MAX_TASKS} and {MAX_EDGES} are possible"
            ),
            Self::NoTime { task } => {
                write!(f, "compute_s of task {} is no time; give seconds, 0 or more", task.0)
            }
            Self::NoSuchTask { edge, task } => {
                write!(f, "edge {edge} names task {}, which is not there; tasks count from 0", task.0)
            }
            Self::Backwards { edge } => write!(
                f,
                "edge {edge} leads back; tasks must be numbered so that edges lead from lower to higher ones, and a graph with a cycle has no such numbers"
            ),
            Self::Across { edge } => write!(
                f,
                "edge {edge} leads from one replica to another, or away from a parameter server; replicas meet in parameter servers, or by `reduce`"
            ),
            Self::Twice { from, to } => {
                write!(f, "two edges lead from task {} to task {}; add their bytes up", from.0, to.0)
            }
        }
    }
}

impl std::error::Error for GraphError {}

impl TaskGraph {
    /// A graph of these tasks; a task's id is its position. `partial` says whether the job makes progress while only some of
    /// its replicas are placed.
    pub fn new(
        tasks: Vec<Task>,
        edges: Vec<Edge>,
        reduce: Option<AllReduce>,
        partial: bool,
    ) -> Result<Self, GraphError> {
        sound(&tasks, &edges)?;
        let mut edges = edges;
        edges.sort_unstable_by_key(|edge| (edge.from, edge.to));
        if let Some(pair) =
            edges.windows(2).find(|pair| (pair[0].from, pair[0].to) == (pair[1].from, pair[1].to))
        {
            return Err(GraphError::Twice { from: pair[0].from, to: pair[0].to });
        }
        let mut by_target: Vec<u32> = (0..edges.len() as u32).collect();
        by_target.sort_by_key(|edge| edges[*edge as usize].to);
        let begins = |of: &dyn Fn(usize) -> TaskId| {
            let mut begins = Vec::with_capacity(tasks.len() + 1);
            let mut next = 0;
            for task in 0..=tasks.len() {
                while next < edges.len() && of(next).index() < task {
                    next += 1;
                }
                begins.push(next as u32);
            }
            begins
        };
        let outputs = begins(&|i| edges[i].from);
        let firsts = begins(&|i| edges[by_target[i] as usize].to);
        let mut replicas: Vec<u32> = tasks.iter().filter_map(|task| task.replica).collect();
        replicas.sort_unstable();
        replicas.dedup();
        let first = tasks.iter().filter(|task| task.replica == replicas.first().copied());
        let parameters = first.map(|task| task.parameters).fold(0, u64::saturating_add);
        Ok(Self { tasks, edges, reduce, partial, outputs, inputs: (by_target, firsts), parameters, replicas })
    }

    /// The tasks.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// All edges.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// How replicas agree, if not by parameter servers.
    pub const fn reduce(&self) -> Option<AllReduce> {
        self.reduce
    }

    /// Whether the job makes progress while only some of its replicas are placed.
    pub const fn is_partial(&self) -> bool {
        self.partial
    }

    /// The edges that come from a task.
    pub fn outputs(&self, task: TaskId) -> &[Edge] {
        let at = task.index();
        &self.edges[self.outputs[at] as usize..self.outputs[at + 1] as usize]
    }

    /// The edges that lead to a task, each with its position among all edges.
    pub fn inputs(&self, task: TaskId) -> impl Iterator<Item = (usize, &Edge)> {
        let (edges, begins) = &self.inputs;
        let at = task.index();
        edges[begins[at] as usize..begins[at + 1] as usize]
            .iter()
            .map(|i| (*i as usize, &self.edges[*i as usize]))
    }

    /// Whether a task is a parameter server.
    pub fn is_server(&self, task: TaskId) -> bool {
        self.tasks[task.index()].replica.is_none()
    }

    /// The replicas, ascending.
    pub fn replicas(&self) -> &[u32] {
        &self.replicas
    }

    /// Parameters of the whole model: those of one replica.
    pub const fn parameters(&self) -> u64 {
        self.parameters
    }

    /// The part of the model that a task has, from 0 to 1; 0 of a model without parameters.
    pub fn part(&self, task: TaskId) -> f64 {
        if self.parameters == 0 {
            return 0.0;
        }
        self.tasks[task.index()].parameters as f64 / self.parameters as f64
    }

    /// What flows along an edge in one iteration, back included.
    pub fn flow(&self, edge: &Edge) -> u64 {
        if self.is_server(edge.to) { edge.bytes.saturating_mul(2) } else { edge.bytes }
    }
}

fn sound(tasks: &[Task], edges: &[Edge]) -> Result<(), GraphError> {
    if tasks.len() > MAX_TASKS || edges.len() > MAX_EDGES {
        return Err(GraphError::TooLarge { tasks: tasks.len(), edges: edges.len() });
    }
    if tasks.iter().all(|task| task.replica.is_none()) {
        return Err(GraphError::NoTask);
    }
    let untimed = |task: &Task| !(task.compute_s.is_finite() && task.compute_s >= 0.0);
    if let Some(task) = tasks.iter().position(untimed) {
        return Err(GraphError::NoTime { task: TaskId(task as u32) });
    }
    for (i, edge) in edges.iter().enumerate() {
        let missing = [edge.from, edge.to].into_iter().find(|task| task.index() >= tasks.len());
        if let Some(task) = missing {
            return Err(GraphError::NoSuchTask { edge: i, task });
        }
        if edge.from >= edge.to {
            return Err(GraphError::Backwards { edge: i });
        }
        let (from, to) = (tasks[edge.from.index()].replica, tasks[edge.to.index()].replica);
        if from.is_none() || (to.is_some() && from != to) {
            return Err(GraphError::Across { edge: i });
        }
    }
    Ok(())
}

impl TryFrom<Described> for TaskGraph {
    type Error = GraphError;
    fn try_from(described: Described) -> Result<Self, GraphError> {
        Self::new(described.tasks, described.edges, described.reduce, described.partial)
    }
}

impl From<TaskGraph> for Described {
    fn from(graph: TaskGraph) -> Self {
        Self { tasks: graph.tasks, edges: graph.edges, reduce: graph.reduce, partial: graph.partial }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(replica: Option<u32>, parameters: u64) -> Task {
        Task { demand: Resources::NONE, parameters, replica, compute_s: 1.0, state_bytes: 0 }
    }

    fn edge(from: u32, to: u32) -> Edge {
        Edge { from: TaskId(from), to: TaskId(to), bytes: u64::from(10 * from + to) }
    }

    fn graph(tasks: &[Option<u32>], edges: Vec<Edge>) -> Result<TaskGraph, GraphError> {
        TaskGraph::new(tasks.iter().map(|replica| task(*replica, 1)).collect(), edges, None, false)
    }

    #[test]
    fn edges_are_found_from_both_ends() {
        let tasks = [Some(0), Some(0), Some(0), Some(0), None];
        let edges = vec![edge(2, 3), edge(0, 2), edge(3, 4), edge(0, 1), edge(1, 3)];
        let graph = graph(&tasks, edges).expect("a diamond with a server");
        let to = |task| graph.outputs(TaskId(task)).iter().map(|edge| edge.to.0).collect::<Vec<_>>();
        assert_eq!((0..5).map(to).collect::<Vec<_>>(), [vec![1, 2], vec![3], vec![3], vec![4], vec![]]);
        let from = |task| graph.inputs(TaskId(task)).map(|(_, edge)| edge.from.0).collect::<Vec<_>>();
        assert_eq!((0..5).map(from).collect::<Vec<_>>(), [vec![], vec![0], vec![0], vec![1, 2], vec![3]]);
        assert!(graph.inputs(TaskId(3)).all(|(i, edge)| graph.edges()[i] == *edge));
        assert_eq!(graph.edges().iter().map(|edge| graph.flow(edge)).collect::<Vec<_>>(), [1, 2, 13, 23, 68]);
        assert_eq!((graph.parameters(), graph.part(TaskId(0)), graph.replicas()), (4, 0.25, &[0][..]));
    }

    #[test]
    fn what_is_no_graph_is_refused_with_the_reason() {
        let two = [Some(0), Some(0)];
        let refused = |tasks: &[Option<u32>], edges| graph(tasks, edges).expect_err("it is none");
        assert_eq!(refused(&[], vec![]), GraphError::NoTask);
        assert_eq!(refused(&[None], vec![]), GraphError::NoTask);
        assert_eq!(refused(&two, vec![edge(0, 1), edge(1, 0)]), GraphError::Backwards { edge: 1 });
        assert_eq!(refused(&two, vec![edge(1, 1)]), GraphError::Backwards { edge: 0 });
        assert_eq!(refused(&two, vec![edge(0, 2)]), GraphError::NoSuchTask { edge: 0, task: TaskId(2) });
        assert_eq!(refused(&[Some(0), Some(1)], vec![edge(0, 1)]), GraphError::Across { edge: 0 });
        assert_eq!(refused(&[Some(0), None, None], vec![edge(1, 2)]), GraphError::Across { edge: 0 });
        let twice = GraphError::Twice { from: TaskId(0), to: TaskId(1) };
        assert_eq!(refused(&two, vec![edge(0, 1), edge(0, 1)]), twice);
        let endless = Task { compute_s: f64::INFINITY, ..task(Some(0), 1) };
        let endless = TaskGraph::new(vec![endless], vec![], None, false);
        assert_eq!(endless, Err(GraphError::NoTime { task: TaskId(0) }));
        let many = TaskGraph::new(vec![task(Some(0), 1); MAX_TASKS + 1], vec![], None, false);
        assert!(matches!(many, Err(GraphError::TooLarge { .. })));
    }

    #[test]
    fn islands_and_models_without_parameters_are_graphs() {
        let islands = graph(&[Some(0), Some(0), Some(1)], vec![]).expect("three islands");
        assert_eq!(islands.replicas(), [0, 1]);
        let empty = TaskGraph::new(vec![task(Some(0), 0)], vec![], None, false).expect("a graph");
        assert_eq!(empty.part(TaskId(0)), 0.0);
    }

    #[test]
    fn a_graph_that_is_read_is_sound() {
        let text = r#"{"tasks": [{"parameters": 3, "compute_s": 0.5}, {}], "edges": [{"from": 0, "to": 1, "bytes": 7}]}"#;
        let read: TaskGraph = serde_json::from_str(text).expect("a chain");
        assert_eq!((read.tasks().len(), read.part(TaskId(0)), read.is_partial()), (2, 1.0, false));
        let again: TaskGraph =
            serde_json::from_value(serde_json::to_value(&read).expect("text")).expect("it");
        assert_eq!(again, read);
        let back = text.replace(r#""from": 0, "to": 1"#, r#""from": 1, "to": 0"#);
        let refused = serde_json::from_str::<TaskGraph>(&back).expect_err("it leads back").to_string();
        assert!(refused.contains("edge 0 leads back"), "{refused}");
    }
}
