//! What any format may say of a job: limits that hold for all of them, so that what was read can be written in the native
//! format and read again. What the columns of one format may hold is that format's affair.

use trainyard_sched::model::GPU;

use super::fields::{GPU_LIMIT, Problem};
use super::import::Draft;

/// The most that a worker may ask for, as in the native format.
const MOST_CPU_MILLI: u64 = 1_000_000_000;
const MOST_MEMORY_BYTES: u64 = 1_000_000_000_000_000_000;

/// Refuses a job whose id is empty, a gang of more GPUs than any job may have, and workers beyond what the native format
/// can say.
pub(super) fn bounded(draft: Draft<'_>) -> Result<Draft<'_>, Problem> {
    if draft.name == Some("") {
        return Err(Problem::new("the job's id is missing", "", "(empty)"));
    }
    let worker = draft.shape.data_parallel().map(|job| job.worker).unwrap_or_default();
    if worker.cpu_milli > MOST_CPU_MILLI {
        let what = "a worker asks for more than a million CPU cores";
        return Err(Problem::new(what, "", &(worker.cpu_milli / 1000).to_string()));
    }
    if worker.memory_bytes > MOST_MEMORY_BYTES {
        let what = "a worker asks for more than a thousand million GB of memory";
        return Err(Problem::new(what, "", &worker.memory_bytes.to_string()));
    }
    let gpus = draft.shape.minimum().gpu_milli.div_ceil(GPU);
    if gpus as f64 <= GPU_LIMIT {
        return Ok(draft);
    }
    let what = format!("the workers together ask for more than {GPU_LIMIT} GPUs");
    Err(Problem::new(what, "", &gpus.to_string()))
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::{Parallelism, Resources, Span, Time};

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
