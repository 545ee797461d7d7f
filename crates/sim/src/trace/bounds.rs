//! What any format may say of a job: limits that hold for all of them, so that what was read can be written in the native
//! format and read again. What the columns of one format may hold is that format's affair.

use trainyard_sched::model::{GPU, Parallelism, Task, TaskGraph};

use super::fields::{GPU_LIMIT, LIMIT_S, Problem};
use super::import::Draft;
use crate::truth::{Speed, Truth};

/// The most that a worker may ask for, as in the native format.
const MOST_CPU_MILLI: u64 = 1_000_000_000;
const MOST_MEMORY_BYTES: u64 = 1_000_000_000_000_000_000;

/// More than any task uses, sends or carries: an exabyte, and an exabyte a second.
const MOST_BYTES: u64 = MOST_MEMORY_BYTES;
/// The longest run of a job of tasks on an idle node, in seconds: a year. What its tasks use is told every minute.
const LONGEST_GRAPH_S: f64 = 366.0 * 86_400.0;

/// Refuses a job whose id is empty, a gang of more GPUs than any job may have, and workers beyond what the native format
/// can say.
pub(super) fn bounded(draft: Draft<'_>) -> Result<Draft<'_>, Problem> {
    if draft.name == Some("") {
        return Err(Problem::new("the job's id is missing", "", "(empty)"));
    }
    bounded_time(&draft.truth)?;
    let worker = draft.shape.data_parallel().map(|job| job.worker).unwrap_or_default();
    if worker.cpu_milli > MOST_CPU_MILLI {
        let what = "a worker asks for more than a million CPU cores";
        return Err(Problem::new(what, "", &(worker.cpu_milli / 1000).to_string()));
    }
    if worker.memory_bytes > MOST_MEMORY_BYTES {
        let what = "a worker asks for more than a thousand million GB of memory";
        return Err(Problem::new(what, "", &worker.memory_bytes.to_string()));
    }
    if let Parallelism::TaskGraph(graph) = &draft.shape {
        bounded_graph(graph, &draft)?;
    }
    let gpus = draft.shape.minimum().gpu_milli.div_ceil(GPU);
    if gpus as f64 <= GPU_LIMIT {
        return Ok(draft);
    }
    let what = format!("the workers together ask for more than {GPU_LIMIT} GPUs");
    Err(Problem::new(what, "", &gpus.to_string()))
}

/// Attempts that are sums, and a job that ran until the trace ended, may be longer than any time that is read.
pub(super) fn bounded_time(truth: &Truth) -> Result<(), Problem> {
    let Speed::Fixed { iteration, .. } = truth.speed else { return Ok(()) };
    let length_s = truth.iterations * iteration.as_secs_f64();
    if length_s <= LIMIT_S {
        return Ok(());
    }
    Err(Problem::new("the job takes longer than three thousand years", "", &length_s.to_string()))
}

/// Refuses a graph whose tasks demand nothing or too much, or that runs for too long.
fn bounded_graph(graph: &TaskGraph, draft: &Draft<'_>) -> Result<(), Problem> {
    let all = draft.shape.minimum();
    let refused = |what: &str, value: u64| Err(Problem::new(what, "", &value.to_string()));
    if all.gpu_milli == 0 && all.cpu_milli == 0 {
        return refused("the tasks of the graph demand neither GPUs nor CPU cores", 0);
    }
    if all.cpu_milli > MOST_CPU_MILLI {
        return refused("the tasks of the graph demand more than a million CPU cores", all.cpu_milli / 1000);
    }
    let carried = graph.tasks().iter().map(|task| task.state_bytes);
    let sent = graph.edges().iter().map(|edge| edge.bytes).chain(graph.reduce().map(|reduce| reduce.bytes));
    let most = [all.memory_bytes, all.network_bytes_per_s].into_iter().chain(carried).chain(sent).max();
    if let Some(most) = most.filter(|most| *most > MOST_BYTES) {
        return refused("the graph has more than a thousand million GB somewhere", most);
    }
    let is_odd = |task: &&Task| task.demand.gpu_milli > GPU && !task.demand.gpu_milli.is_multiple_of(GPU);
    if let Some(task) = graph.tasks().iter().find(is_odd) {
        return refused("a task has either whole GPUs or a part of one", task.demand.gpu_milli);
    }
    let Speed::Graph(truth) = draft.truth.speed else { return Ok(()) };
    let runs_s = draft.truth.iterations * truth.idle_iteration_s(&draft.shape);
    if runs_s > LONGEST_GRAPH_S {
        return refused("a job that is a graph of tasks runs for more than a year", runs_s as u64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::{Resources, Span, Time};

    use super::*;
    use crate::truth::Truth;

    fn told(name: Option<&'static str>, worker: Resources) -> Result<(), String> {
        let truth = Truth::lasting(Span::from_secs(9), 1);
        let draft = Draft::plain(Time::ZERO, Parallelism::rigid(1, worker), truth);
        bounded(Draft { name, ..draft }).map(|_| ()).map_err(|problem| problem.what)
    }

    #[test]
    fn what_the_native_format_cannot_say_is_refused() {
        let cpus = |cpu_milli| Resources { cpu_milli, ..Resources::gpus(1) };
        let memory = |memory_bytes| Resources { memory_bytes, ..Resources::gpus(1) };
        assert_eq!(told(Some("a"), cpus(MOST_CPU_MILLI)), Ok(()));
        assert!(told(Some("a"), cpus(MOST_CPU_MILLI + 1)).unwrap_err().contains("CPU"));
        assert_eq!(told(None, memory(MOST_MEMORY_BYTES)), Ok(()));
        assert!(told(None, memory(MOST_MEMORY_BYTES + 1)).unwrap_err().contains("memory"));
        assert!(told(Some(""), cpus(1)).unwrap_err().contains("id is missing"));
    }
}
