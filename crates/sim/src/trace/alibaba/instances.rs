//! Alibaba's inference instances of 2025 (NSDI 2025): services of recommendation models, on CPU nodes and GPU nodes.
//!
//! An instance is not a training job. It is read as a job with a lifetime, because it asks for GPUs at a time and
//! holds them for a while; what it serves is not modelled. One that was there before the trace arrives at zero. One
//! that is there after it is still running at the end, so its length is what was seen of it. RDMA, disks and the
//! limit of instances of one service on one node do not constrain where it goes.

use trainyard_sched::model::{Parallelism, Resources, Span, Time};

use super::super::Format;
use super::super::error::TraceError;
use super::super::fields::{Problem, time_s};
use super::super::import::{Draft, Import};
use super::super::lines::Lines;
use super::super::rows::{Row, columns};
use super::{BYTES_PER_GIB, cpu_milli, gpu_milli, memory_bytes};
use crate::truth::{Ending, Truth};

columns! {
    need {
        Name "instance_sn" "the instance's id";
        App "app_name" "the service that it belongs to, as the model";
        Cpu "cpu_request" "CPU cores";
        Gpu "gpu_request" "GPUs on one node, a part of one or whole ones";
        Memory "memory_request" "main memory in GiB";
        Creation "creation_time" "submission in seconds; empty is before the trace, and then it arrives at zero";
        Scheduled "scheduled_time" "start in seconds; empty goes with an empty creation";
        Deletion "deletion_time" "end in seconds; empty is after the trace, so it is still running at its end";
    }
    may {}
    unread {
        "role" "on which kind of node it runs";
        "cpu_limit" "the same as `cpu_request`";
        "gpu_limit" "the same as `gpu_request`";
        "rdma_request" "percent of the bandwidth of an RDMA card";
        "rdma_limit" "the same as `rdma_request`";
        "memory_limit" "the most main memory in GiB";
        "disk_request" "disk space in GiB";
        "disk_limit" "the most disk space in GiB";
        "max_instance_per_node" "the most instances of the service on one node; -1 is no limit";
    }
}

/// The entry of the table of formats.
pub(crate) const FORMAT: Format = Format {
    name: "alibaba-v2025",
    title: "inference instances of Alibaba's clusters of 2025, as jobs with a lifetime",
    columns: TABLE.columns,
    detect: |head| TABLE.fits(head),
    read,
};

fn read(lines: &mut Lines<'_>, import: &mut Import<'_>) -> Result<(), TraceError> {
    import.assume("an instance of a service is a job that runs from its start to its deletion");
    import
        .assume("RDMA, disks and the limit of instances on one node do not constrain where an instance goes");
    TABLE.read(lines, import, draft)
}

fn draft<'a>(row: &Row<'a, '_>) -> Result<Draft<'a>, Problem> {
    let name = row.filled(Key::Name)?;
    let mut remarks = Vec::new();
    let created = row.maybe(Key::Creation, time_s)?;
    let scheduled = row.maybe(Key::Scheduled, time_s)?;
    let start = match (created, scheduled) {
        (Some(created), Some(scheduled)) => {
            row.wait(created, (scheduled, Key::Scheduled), &mut remarks)?;
            scheduled
        }
        (Some(_), None) => return Err(row.problem(Key::Scheduled, "the instance was never scheduled")),
        (None, scheduled) => {
            let what = "the instance is older than the trace; it is taken to arrive at zero";
            remarks.push(row.assumed(Key::Creation, what));
            scheduled.unwrap_or(Time::ZERO)
        }
    };
    let deleted = row.maybe(Key::Deletion, time_s)?;
    let (length, ending, running_since) = match deleted {
        Some(end) => (row.length(start, (end, Key::Deletion), &mut remarks)?, Ending::Completed, None),
        None => (Span::ZERO, Ending::Censored, Some(start)),
    };
    let worker = Resources {
        gpu_milli: row.read(Key::Gpu, |field, value| gpu_milli(field, value, 1.0))?,
        cpu_milli: row.read(Key::Cpu, |field, value| cpu_milli(field, value, 1.0))?,
        memory_bytes: row.read(Key::Memory, |field, value| memory_bytes(field, value, BYTES_PER_GIB))?,
        network_bytes_per_s: 0,
    };
    if worker.gpu_milli == 0 && worker.cpu_milli == 0 {
        return Err(row.problem(Key::Cpu, "the instance asks for neither GPU nor CPU"));
    }
    let truth = Truth { ending, ..Truth::lasting(length, 1) };
    Ok(Draft {
        name: Some(name),
        model: row.text(Key::App),
        ended: Some(deleted.unwrap_or(Time::ZERO).max(start)),
        running_since,
        remarks,
        ..Draft::plain(created.unwrap_or(Time::ZERO), Parallelism::rigid(1, worker), truth)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Options, dropped_places, read_from};
    use crate::workload::Workload;

    const HEADER: &str = "instance_sn,role,app_name,cpu_request,gpu_request,memory_request,creation_time,\
        scheduled_time,deletion_time";

    fn read_text(rows: &str) -> Workload {
        read_from("dlrm.csv", format!("{HEADER}\n{rows}\n").as_bytes(), &Options::default()).unwrap()
    }

    #[test]
    fn instances_are_cut_off_at_both_ends_of_the_trace() {
        let read = read_text(
            "i0,HN,app_0,12,1,120.0,,,\ni1,CN,app_1,64,0,320.0,,,85.0\ni2,HN,app_0,8,1,1,60,70,100",
        );
        let lives: Vec<(f64, f64, Ending)> = read
            .jobs
            .iter()
            .map(|(job, truth)| (job.submitted.as_secs_f64(), truth.iterations, truth.ending))
            .collect();
        let censored = (0.0, 100.0, Ending::Censored);
        assert_eq!(lives, [censored, (0.0, 85.0, Ending::Completed), (60.0, 30.0, Ending::Completed)]);
        assert_eq!(read.models, ["app_0", "app_1"]);
        let older = read.report.findings.iter().find(|f| f.what.contains("older than the trace")).unwrap();
        assert_eq!(older.count, 2);
        assert_eq!(read.jobs[0].0.shape.minimum().memory_bytes, 120 << 30);
    }

    #[test]
    fn bad_rows_are_dropped_with_field_and_value() {
        let rows = [
            "a,HN,app_0,12,1,120.0,,,",
            "b,HN,app_0,12,1.5,120.0,,,",
            "c,HN,app_0,0,0,120.0,,,",
            "d,HN,app_0,12,1,120.0,60,50,100",
            "e,HN,app_0,12,1,120.0,60,70,65",
            "f,HN,app_0,12,1,120.0,60,,65",
            "g,HN,app_0,12,1,120.0,60,70,100",
        ];
        let read = read_text(&rows.join("\n"));
        assert_eq!(read.report.kept, 2);
        assert_eq!(
            dropped_places(&read),
            [
                "dlrm.csv:3: gpu_request 1.5",
                "dlrm.csv:4: cpu_request 0",
                "dlrm.csv:5: scheduled_time 50",
                "dlrm.csv:6: deletion_time 65",
                "dlrm.csv:7: scheduled_time (empty)",
            ]
        );
    }
}
