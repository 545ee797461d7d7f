//! The task table of Alibaba's PAI of 2020 (NSDI 2022): 10 fields, usually without a header.
//!
//! A row is a task: `inst_num` equal instances, which become the workers of a gang. Most jobs have one task. The
//! tasks of a job that has several (parameter servers, workers, an evaluator) are read as jobs of their own and
//! called `job/task`, so they do not wait for each other. `plan_gpu` and `plan_cpu` are percent of a GPU and of a
//! core for each instance; 50 is half a GPU. An empty `plan_gpu` means a CPU task by default, and such rows are
//! counted. `plan_mem` is said to be in GB, but its usual 29.296875 is 30,000 MiB, so a GB is 2^30 bytes here.
//!
//! When a job was submitted stands in the job table, which is another file. Without it, the start of a task is taken
//! for its submission, so the waiting of the original cluster is not in the arrivals. `gpu_type` is the type that
//! the task was given. Its run time belongs to that type, so it is taken for the type that it needs. Times are
//! seconds from an origin that is not told; the first arrival becomes time zero.

use trainyard_sched::model::{Parallelism, Resources, Span, Time};

use super::super::Format;
use super::super::error::TraceError;
use super::super::fields::{Problem, gpu_count, time_s};
use super::super::import::{Draft, Import};
use super::super::lines::{Head, Lines};
use super::super::rows::{Row, columns};
use super::{BYTES_PER_GIB, cpu_milli, gpu_milli, memory_bytes};
use crate::truth::{Ending, Truth};

const PERCENT: f64 = 100.0;
/// What the table says about tasks on machines without GPUs.
const NO_GPU_TYPE: &str = "CPU";

columns! {
    need {
        Job "job_name" "the job's id; a task is called `job_name/task_name`";
        Task "task_name" "which task of the job it is";
        Instances "inst_num" "workers of the gang";
        Status "status" "`Terminated`, `Failed`, `Running` (at the end of the trace) or `Waiting` (dropped)";
        Start "start_time" "start in seconds, taken for the submission; a task without one is dropped";
        End "end_time" "end in seconds";
        Cpu "plan_cpu" "percent of a CPU core for each worker";
        Memory "plan_mem" "main memory of each worker, in 2^30 bytes";
        Gpu "plan_gpu" "percent of a GPU for each worker, a part of one or whole ones; empty is a CPU task";
        GpuType "gpu_type" "the GPU type that it was given, taken for the one that it needs";
    }
    may {}
    unread {}
}

/// The entry of the table of formats.
pub(crate) const FORMAT: Format = Format {
    name: "alibaba-v2020",
    title: "task table of Alibaba's PAI of 2020, with or without a header",
    columns: TABLE.columns,
    detect: |head| TABLE.fits(head) || is_bare(head),
    read,
};

/// Whether the first line is a row of the table.
fn is_bare(head: &Head<'_>) -> bool {
    let fields: Vec<&str> = head.line.split(',').map(str::trim).collect();
    let is_number = |index: &usize| fields[*index].is_empty() || fields[*index].parse::<f64>().is_ok();
    fields.len() == TABLE.columns.len()
        && status(fields[Key::Status as usize]).is_some()
        && [Key::Instances, Key::Start, Key::End, Key::Cpu, Key::Memory, Key::Gpu]
            .iter()
            .all(|key| is_number(&(*key as usize)))
}

fn read(lines: &mut Lines<'_>, import: &mut Import<'_>) -> Result<(), TraceError> {
    import.start_at_first_arrival();
    import.assume("the start of a task is taken for its submission, which only the job table has");
    import.assume("each task is a job of its own; the tasks of one job do not wait for each other");
    import.assume("a task needs the GPU type that it was given, since its run time belongs to that type");
    let has_header = lines.peek()?.is_some_and(|line| line.bytes.starts_with(b"job_name,"));
    if has_header { TABLE.read(lines, import, draft) } else { TABLE.read_bare(lines, import, draft) }
}

/// How a task ends; `None` if it never started.
type Fate = Option<Ending>;

fn status(word: &str) -> Option<Fate> {
    match word {
        "Terminated" => Some(Some(Ending::Completed)),
        "Failed" => Some(Some(Ending::Failed)),
        "Running" => Some(Some(Ending::Censored)),
        "Waiting" => Some(None),
        _ => None,
    }
}

fn draft<'a>(row: &Row<'a, '_>) -> Result<Draft<'a>, Problem> {
    let (name, part) = (row.filled(Key::Job)?, row.filled(Key::Task)?);
    let workers = row.read(Key::Instances, gpu_count)?;
    let mut remarks = Vec::new();
    let ending = match status(row.text(Key::Status)) {
        Some(Some(ending)) => ending,
        Some(None) => return Err(row.problem(Key::Status, "the task never started")),
        None => {
            remarks.push(row.assumed(Key::Status, "status is unknown; the task is taken to complete"));
            Ending::Completed
        }
    };
    let Some(start) = row.maybe(Key::Start, time_s)? else {
        return Err(row.problem(Key::Start, "start_time is empty; the task never started"));
    };
    let end = row.maybe(Key::End, time_s)?;
    let (length, running_since) = match end {
        Some(end) => (row.length(start, (end, Key::End), &mut remarks)?, None),
        None if ending == Ending::Censored => (Span::ZERO, Some(start)),
        None => return Err(row.problem(Key::End, "end_time is empty although the task ended")),
    };
    let gpus = row.maybe(Key::Gpu, |field, value| gpu_milli(field, value, PERCENT))?;
    if gpus.is_none() {
        remarks.push(row.assumed(Key::Gpu, "plan_gpu is empty; it is taken for a CPU task"));
    }
    let worker = Resources {
        gpu_milli: gpus.unwrap_or(0),
        cpu_milli: row.maybe(Key::Cpu, |field, value| cpu_milli(field, value, PERCENT))?.unwrap_or(0),
        memory_bytes: row
            .maybe(Key::Memory, |field, value| memory_bytes(field, value, BYTES_PER_GIB))?
            .unwrap_or(0),
        network_bytes_per_s: 0,
    };
    if worker.gpu_milli == 0 && worker.cpu_milli == 0 {
        return Err(row.problem(Key::Cpu, "the task asks for neither GPU nor CPU"));
    }
    let gpu_type = row.text(Key::GpuType);
    let gpu_types = if worker.gpu_milli == 0 || gpu_type == NO_GPU_TYPE { "" } else { gpu_type };
    let truth = Truth { ending, ..Truth::lasting(length, workers) };
    Ok(Draft {
        name: Some(name),
        part,
        gpu_types,
        ended: Some(end.unwrap_or(Time::ZERO).max(start)),
        running_since,
        remarks,
        ..Draft::plain(start, Parallelism::rigid(workers, worker), truth)
    })
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::{GpuTypeId, GpuTypeSet};

    use super::*;
    use crate::trace::{Options, dropped_places, read_from};
    use crate::workload::{Done, Workload};

    const ROWS: &str = "j1,worker,2.0,Terminated,1000.0,1600.0,600.0,29.296875,50.0,MISC\n\
        j1,ps,1.0,Terminated,1000.0,1600.0,400.0,10.0,0.0,CPU\n\
        j2,tensorflow,1.0,Failed,1100.0,1150.0,600.0,29.296875,200.0,V100\n\
        j3,tensorflow,1.0,Running,1200.0,,600.0,29.296875,,\n\
        j4,tensorflow,1.0,Running,1300.0,1500.0,600.0,29.296875,100.0,T4\n";

    fn read_text(text: &str) -> Workload {
        read_from("tasks.csv", text.as_bytes(), &Options::default()).unwrap()
    }

    #[test]
    fn instances_are_workers_and_half_a_gpu_is_half_a_gpu() {
        let read = read_text(ROWS);
        let names: Vec<&str> = read.jobs.iter().map(|(job, _)| &*job.name).collect();
        assert_eq!(names, ["j1/worker", "j1/ps", "j2/tensorflow", "j3/tensorflow", "j4/tensorflow"]);
        let (job, truth) = &read.jobs[0];
        let worker =
            Resources { gpu_milli: 500, cpu_milli: 6000, memory_bytes: 30_000 << 20, network_bytes_per_s: 0 };
        assert_eq!(job.shape, Parallelism::rigid(2, worker));
        assert_eq!((job.submitted, job.declared.duration()), (Time::ZERO, Some(Span::from_secs(600))));
        assert_eq!(job.wanted.gpu_types, GpuTypeSet::of(&[GpuTypeId(0)]));
        assert_eq!((truth.ending, read.gpu_types.len()), (Ending::Completed, 3));
        assert_eq!(read.jobs[1].0.shape.minimum().gpu_milli, 0);
        assert_eq!(read.jobs[1].0.wanted.gpu_types, GpuTypeSet::ALL);
        assert_eq!(read.jobs[2].1.ending, Ending::Failed);
    }

    #[test]
    fn what_was_still_running_is_censored_at_the_last_moment_of_the_trace() {
        let read = read_text(ROWS);
        // Nothing is told of later than 1600.
        let (open, seen) = (&read.jobs[3], &read.jobs[4]);
        assert_eq!((open.1.ending, open.1.iterations), (Ending::Censored, 400.0));
        assert_eq!((seen.1.ending, seen.1.iterations), (Ending::Censored, 200.0));
        let said = read.report.findings.iter().find(|f| f.what.contains("plan_gpu is empty")).unwrap();
        let place = "tasks.csv:4: plan_gpu (empty)".to_owned();
        assert_eq!((said.done, said.count, &said.examples), (Done::Assumed, 1, &vec![place]));
    }

    #[test]
    fn a_header_changes_nothing() {
        let header: Vec<&str> = TABLE.columns.iter().map(|column| column.name).collect();
        assert_eq!(read_text(&format!("{}\n{ROWS}", header.join(","))).jobs, read_text(ROWS).jobs);
    }

    #[test]
    fn bad_rows_are_dropped_with_field_and_value() {
        let rows = [
            "j1,worker,2.0,Terminated,1000.0,1600.0,600.0,29.296875,50.0,MISC",
            "j2,worker,2.0,Waiting,,,600.0,29.296875,50.0,MISC",
            "j3,worker,2.0,Failed,,,600.0,29.296875,50.0,MISC",
            "j4,worker,2.0,Failed,1000.0,,600.0,29.296875,50.0,MISC",
            "j5,worker,2.0,Terminated,1000.0,900.0,600.0,29.296875,50.0,MISC",
            "j6,worker,2.5,Terminated,1000.0,1600.0,600.0,29.296875,50.0,MISC",
            "j7,worker,2.0,Terminated,1000.0,1600.0,600.0,29.296875,150.0,MISC",
            "j8,worker,2.0,Terminated,1000.0,1600.0,,29.296875,,",
            "j9,worker,2.0,Terminated,1000.0,1600.0,600.0,29.296875,50.0",
            "j10,worker,2.0,Odd,1000.0,1600.0,600.0,29.296875,50.0,MISC",
        ];
        let read = read_text(&rows.join("\n"));
        assert_eq!(read.report.kept, 2);
        assert_eq!(
            dropped_places(&read),
            [
                "tasks.csv:2: status Waiting",
                "tasks.csv:3: start_time (empty)",
                "tasks.csv:4: end_time (empty)",
                "tasks.csv:5: end_time 900.0",
                "tasks.csv:6: inst_num 2.5",
                "tasks.csv:7: plan_gpu 150.0",
                "tasks.csv:8: plan_cpu (empty)",
                "tasks.csv:9",
            ]
        );
        let said = read.report.findings.iter().find(|f| f.what.contains("status is unknown")).unwrap();
        assert_eq!(said.examples, ["tasks.csv:10: status Odd"]);
    }

    #[test]
    fn other_tables_of_the_trace_are_not_taken_for_it() {
        let job = "j1,inst,user,Terminated,4550879.0,4551416.0\n";
        let instance = "j1,worker,i1,w1,inst,Terminated,2081336.0,2083889.0,machine\n";
        for text in [job, instance] {
            assert!(read_from("other.csv", text.as_bytes(), &Options::default()).is_err(), "{text}");
        }
    }
}
