//! A job that is asked for as a graph of tasks: what each of them needs, and what flows between them.

use serde::{Deserialize, Serialize};
use trainyard_sched::model::{
    AllReduce, Along, Edge, GPU, GraphError, Parallelism, Resources, Task, TaskGraph, TaskId,
};
use utoipa::ToSchema;

use super::job_request::{Amount, JobRequest, milli};
use super::problem::Problem;

/// Each task is a program of its own, so a job has no more of them.
const MOST_TASKS: usize = 1000;
/// The most edges between them.
const MOST_EDGES: usize = 100_000;
/// The most parameters of a task, and bytes of anything.
const MOST_COUNTED: u64 = 1_000_000_000_000_000;
/// The most seconds of computing in an iteration.
const MOST_SECONDS: f64 = 1e9;

/// A task of a job: one program.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(example = json!({ "cpus": 0.5, "parameters": 4096, "compute_s": 0.02 }))]
pub(crate) struct TaskRequest {
    /// CPU cores, such as 0.05; 1 by default where no GPUs are asked for, else 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpus: Option<f64>,
    /// GPUs; below 1 a share of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gpus: Option<f64>,
    /// Main memory: bytes, or an amount such as "2GB" or "512MiB".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<Amount>,
    /// Parameters of its part of the model.
    pub(crate) parameters: u64,
    /// Seconds of computing in one iteration, on a device of usual speed that has nothing else to do.
    pub(crate) compute_s: f64,
    /// What of it moves when it does: bytes, or an amount; by default 8 bytes for each parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<Amount>,
    /// Which replica of the whole model it is part of; 0 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replica: Option<u32>,
    /// Whether it is a parameter server, which is part of no replica.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<bool>,
}

/// Data that flow from one task to a later one.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "from": 0, "to": 1, "bytes": "4MB" }))]
pub(crate) struct EdgeRequest {
    /// The task that they come from, from 0.
    pub(crate) from: u32,
    /// The task that they go to, which has a higher number.
    pub(crate) to: u32,
    /// How much in one iteration: bytes, or an amount such as "4MB".
    pub(crate) bytes: Amount,
}

/// How replicas agree on one model without parameter servers.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "along": "ring", "bytes": "4MB" }))]
pub(crate) struct ReduceRequest {
    /// What it goes along: one `ring` of all replicas, the default, or the rows and then the columns of a `torus`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) along: Option<Along>,
    /// How much each replica brings into it in one iteration: bytes, or an amount such as "4MB".
    pub(crate) bytes: Amount,
}

impl JobRequest {
    /// The job as a graph of tasks, if it is described as one.
    pub(super) fn graph(&self) -> Result<Option<Parallelism>, Problem> {
        let Some(tasks) = &self.tasks else {
            let of_graphs = [
                ("edges", !self.edges.is_empty()),
                ("reduce", self.reduce.is_some()),
                ("partial", self.partial.is_some()),
            ];
            for (field, said) in of_graphs {
                if said {
                    return Err(Problem::field(field, "it is of use to a job with `tasks` only"));
                }
            }
            return Ok(None);
        };
        let of_workers = [
            ("cpus", self.cpus.is_some()),
            ("gpus", self.gpus.is_some()),
            ("memory", self.memory.is_some()),
            ("workers", self.workers.is_some()),
            ("launch", self.launch.is_some()),
            ("copies", self.copies.is_some()),
        ];
        if let Some((field, _)) = of_workers.iter().find(|(_, said)| *said) {
            return Err(Problem::field(field, "a job with `tasks` has no workers; say it of its tasks"));
        }
        if tasks.is_empty() || tasks.len() > MOST_TASKS {
            return Err(Problem::field("tasks", format!("{} tasks; write 1 to {MOST_TASKS}", tasks.len())));
        }
        if self.edges.len() > MOST_EDGES {
            let wrong = format!("{} edges; at most {MOST_EDGES} are possible", self.edges.len());
            return Err(Problem::field("edges", wrong));
        }
        let tasks = tasks.iter().enumerate().map(|(i, task)| task.task(i)).collect::<Result<_, _>>()?;
        let edge = |(i, edge): (usize, &EdgeRequest)| {
            let field = format!("edges[{i}].bytes");
            let bytes = counted(&field, edge.bytes.bytes(&field)?)?;
            Ok(Edge { from: TaskId(edge.from), to: TaskId(edge.to), bytes })
        };
        let edges = self.edges.iter().enumerate().map(edge).collect::<Result<_, Problem>>()?;
        let reduce = self.reduce.as_ref().map(ReduceRequest::all_reduce).transpose()?;
        let graph = TaskGraph::new(tasks, edges, reduce, self.partial.unwrap_or(false)).map_err(|error| {
            let field = match error {
                GraphError::NoTask | GraphError::TooLarge { .. } | GraphError::NoTime { .. } => "tasks",
                _ => "edges",
            };
            Problem::field(field, error)
        })?;
        if reduce.is_some() && graph.replicas().len() < 2 {
            let wrong = "it is between replicas, and all tasks are of one; say `replica` of each task, or leave it out";
            return Err(Problem::field("reduce", wrong));
        }
        Ok(Some(Parallelism::TaskGraph(graph)))
    }
}

impl ReduceRequest {
    fn all_reduce(&self) -> Result<AllReduce, Problem> {
        let bytes = counted("reduce.bytes", self.bytes.bytes("reduce.bytes")?)?;
        Ok(AllReduce { along: self.along.unwrap_or_default(), bytes })
    }
}

impl TaskRequest {
    fn task(&self, number: usize) -> Result<Task, Problem> {
        let at = |field: &str| format!("tasks[{number}].{field}");
        let gpu_milli = milli(&at("gpus"), self.gpus.unwrap_or(0.0))?;
        if gpu_milli > GPU && !gpu_milli.is_multiple_of(GPU) {
            let wrong = "above 1 it is a whole number; below 1 it is a share of one GPU";
            return Err(Problem::field(&at("gpus"), wrong));
        }
        let usual_cpus = if gpu_milli > 0 { 0.0 } else { 1.0 };
        let cpu_milli = milli(&at("cpus"), self.cpus.unwrap_or(usual_cpus))?;
        if gpu_milli == 0 && cpu_milli == 0 {
            return Err(Problem::field(&at("cpus"), "a task needs some CPU or GPU; the least is 0.001"));
        }
        let amount = |field: &str, amount: &Option<Amount>, usual: u64| {
            let bytes = amount.as_ref().map_or(Ok(usual), |amount| amount.bytes(&at(field)))?;
            counted(&at(field), bytes)
        };
        if !(self.compute_s.is_finite() && (0.0..=MOST_SECONDS).contains(&self.compute_s)) {
            let wrong = format!("{} is no time from 0 to {MOST_SECONDS} seconds", self.compute_s);
            return Err(Problem::field(&at("compute_s"), wrong));
        }
        let parameters = counted(&at("parameters"), self.parameters)?;
        let replica = match (self.server.unwrap_or(false), self.replica) {
            (true, Some(_)) => {
                return Err(Problem::field(&at("replica"), "a parameter server is part of no replica"));
            }
            (true, None) => None,
            (false, replica) => Some(replica.unwrap_or(0)),
        };
        let memory_bytes = amount("memory", &self.memory, 0)?;
        Ok(Task {
            demand: Resources { gpu_milli, cpu_milli, memory_bytes, ..Resources::NONE },
            parameters,
            replica,
            compute_s: self.compute_s,
            state_bytes: amount("state", &self.state, parameters.saturating_mul(8).min(MOST_COUNTED))?,
        })
    }
}

/// A number that leaves room for sums.
fn counted(field: &str, number: u64) -> Result<u64, Problem> {
    let wrong =
        || Problem::field(field, format!("{number} is too much; at most {MOST_COUNTED} are possible"));
    if number <= MOST_COUNTED { Ok(number) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::strict;

    fn read(tasks: &str, more: &str) -> Result<Parallelism, String> {
        let body = format!("{{\"command\":[\"x\"],\"tasks\":{tasks}{more}}}");
        let request: JobRequest = strict::from_json(body.as_bytes()).map_err(|problem| problem.detail)?;
        let graph = request.graph().map_err(|problem| problem.detail)?;
        Ok(graph.expect("there are tasks"))
    }

    #[test]
    fn a_graph_is_read_as_it_is_meant() {
        let tasks = "[{\"cpus\":0.5,\"parameters\":10,\"compute_s\":0.1,\"memory\":\"1MiB\"},{\"gpus\":2},{\"server\":true}]";
        let more = ",\"edges\":[{\"from\":0,\"to\":1,\"bytes\":\"2kB\"},{\"from\":1,\"to\":2,\"bytes\":7}],\"partial\":true";
        let Parallelism::TaskGraph(graph) = read(tasks, more).unwrap() else { panic!("it is a graph") };
        let first = graph.tasks()[0];
        assert_eq!(first.demand, Resources { cpu_milli: 500, memory_bytes: 1 << 20, ..Resources::NONE });
        assert_eq!((first.parameters, first.state_bytes, first.replica), (10, 80, Some(0)));
        assert_eq!(graph.tasks()[1].demand, Resources::gpus(2));
        assert!(graph.is_server(TaskId(2)) && graph.is_partial());
        assert_eq!(graph.edges()[0], Edge { from: TaskId(0), to: TaskId(1), bytes: 2000 });
    }

    #[test]
    fn an_all_reduce_is_read_as_it_is_meant() {
        let reduce = |more: &str| {
            let shape = read("[{\"replica\":0},{\"replica\":1}]", more).unwrap();
            let Parallelism::TaskGraph(graph) = shape else { panic!("it is a graph") };
            graph.reduce()
        };
        assert_eq!(reduce(""), None);
        assert_eq!(
            reduce(",\"reduce\":{\"along\":\"torus\",\"bytes\":\"2MB\"}"),
            Some(AllReduce { along: Along::Torus, bytes: 2_000_000 })
        );
        let usual = reduce(",\"reduce\":{\"bytes\":7}");
        assert_eq!(usual, Some(AllReduce { along: Along::Ring, bytes: 7 }), "a ring is what is usual");
    }

    #[test]
    fn what_is_no_all_reduce_is_refused_by_name() {
        let two = "[{\"replica\":0},{\"replica\":1}]";
        let cases = [
            (two, "{\"along\":\"rign\",\"bytes\":1}", "`reduce.along`: unknown variant `rign`"),
            (two, "{\"along\":\"ring\"}", "`reduce`: missing field `bytes`"),
            (two, "{\"bytes\":-1}", "`reduce.bytes`"),
            (two, "{\"bytes\":\"much\"}", "`reduce.bytes`: `much` is no amount"),
            (two, "{\"bytes\":18446744073709551615}", "`reduce.bytes`: 18446744073709551615 is too much"),
            (two, "{\"bytes\":1,\"alnog\":\"ring\"}", "`reduce`: unknown key `alnog`; did you mean `along`"),
            (two, "\"ring\"", "`reduce`"),
            ("[{},{}]", "{\"bytes\":1}", "all tasks are of one"),
            ("[{},{\"server\":true}]", "{\"bytes\":1}", "all tasks are of one"),
        ];
        for (tasks, reduce, wanted) in cases {
            let told = read(tasks, &format!(",\"reduce\":{reduce}")).expect_err(wanted);
            assert!(told.contains(wanted), "`{wanted}` is not in: {told}");
        }
    }

    #[test]
    fn what_is_no_graph_is_refused_by_name() {
        let many = format!("[{}]", vec!["{}"; 10_000].join(","));
        let two = "[{},{}]";
        let edge = |from: u32, to: u32| format!(",\"edges\":[{{\"from\":{from},\"to\":{to},\"bytes\":1}}]");
        let cases: [(&str, &str, &str); 19] = [
            ("[]", "", "`tasks`: 0 tasks"),
            (&many, "", "`tasks`: 10000 tasks; write 1 to 1000"),
            (two, &edge(1, 0), "leads back"),
            (two, &edge(1, 1), "leads back"),
            (two, &edge(0, 2), "task 2, which is not there"),
            (
                two,
                ",\"edges\":[{\"from\":0,\"to\":1,\"bytes\":1},{\"from\":0,\"to\":1,\"bytes\":2}]",
                "add their bytes",
            ),
            (two, ",\"edges\":[{\"from\":0,\"to\":1,\"bytes\":99999999999999999}]", "edges[0].bytes"),
            (
                two,
                ",\"edges\":[{\"from\":0,\"to\":1,\"bytes\":\"7 elephants\"}]",
                "`edges[0].bytes`: `7 elephants` is no amount",
            ),
            (two, ",\"edges\":[{\"from\":-1,\"to\":1,\"bytes\":1}]", "edges[0].from"),
            ("[{\"server\":true}]", "", "no task of any replica"),
            ("[{\"server\":true,\"replica\":1},{}]", "", "part of no replica"),
            ("[{\"cpus\":-1}]", "", "tasks[0].cpus"),
            ("[{\"cpus\":0}]", "", "needs some CPU or GPU"),
            ("[{},{\"gpus\":1.5}]", "", "tasks[1].gpus"),
            ("[{\"compute_s\":1e300}]", "", "tasks[0].compute_s"),
            ("[{\"parameters\":18446744073709551615}]", "", "tasks[0].parameters"),
            ("[{\"parametres\":1}]", "", "did you mean `parameters`"),
            (two, ",\"workers\":2", "has no workers"),
            (two, ",\"copies\":2", "has no workers"),
        ];
        for (tasks, more, wanted) in cases {
            let told = read(tasks, more).expect_err(wanted);
            assert!(told.contains(wanted), "`{wanted}` is not in: {told}");
        }
    }
}
