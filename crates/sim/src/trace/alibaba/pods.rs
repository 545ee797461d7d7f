//! Alibaba's pods of 2023 (USENIX ATC 2023), as CSV with either of two headers.
//!
//! A pod is one worker on one node: with no GPU, with a part of one (`gpu_milli` below 1000 with one GPU), or with
//! several. `gpu_spec` names acceptable types. A best-effort pod (`qos` is `BE`) becomes class -1. It runs from
//! `scheduled_time`, or from its creation where that is empty, to `deletion_time`. A pod that was `Running` when it
//! was deleted counts as killed, or as still running if its deletion is the last thing that the trace tells of. A
//! `Pending` pod never ran, so nobody knows for how long it would have; it is dropped and counted.
//!
//! The short header ends with `gpu_milli`. Such a list can only be packed onto a cluster once, which needs no times:
//! all pods arrive together and run for an hour, and the report says so.

use trainyard_sched::model::{GPU, Goals, Parallelism, PriorityClass, Resources, Span, Time};

use super::super::error::TraceError;
use super::super::fields::{Problem, Remark, time_s, whole};
use super::super::import::{Draft, Import};
use super::super::lines::Lines;
use super::super::rows::{Row, columns};
use super::super::{BEST_EFFORT, Format, header_has};
use super::{BYTES_PER_MIB, cpu_milli, memory_bytes};
use crate::truth::{Ending, Truth};

const MILLI: f64 = 1e3;
/// The most GPUs of a node.
const MOST_GPUS: f64 = 1024.0;
/// How long pods without times run: any length would do, since only what fits at once is of interest.
const STATIC_RUN: Span = Span::from_secs(3600);

columns! {
    need {
        Name "name" "the pod's id";
        Cpu "cpu_milli" "thousandths of CPU cores";
        Memory "memory_mib" "main memory in MiB";
        Gpus "num_gpu" "GPUs on one node";
        Share "gpu_milli" "thousandths of a GPU, below 1000 only with one GPU";
    }
    may {
        Spec "gpu_spec" "acceptable GPU types as `a|b`; empty is any";
        Qos "qos" "`BE` becomes class -1; `LS`, `Burstable` and `Guaranteed` are class 0";
        Phase "pod_phase" "`Succeeded`, `Failed`, `Running`, or `Pending`, which is dropped";
        Creation "creation_time" "submission in seconds; without it, all pods arrive at zero";
        Deletion "deletion_time" "end in seconds; without it, each pod runs for an hour";
        Scheduled "scheduled_time" "start in seconds; empty is the creation";
    }
    unread {}
}

/// The entry of the table of formats.
pub(crate) const FORMAT: Format = Format {
    name: "alibaba-v2023",
    title: "pods of Alibaba's cluster of 2023, with times or without",
    columns: TABLE.columns,
    detect: |head| TABLE.fits(head),
    read,
};

fn read(lines: &mut Lines<'_>, import: &mut Import<'_>) -> Result<(), TraceError> {
    let head = lines.peek()?.map(|line| String::from_utf8_lossy(line.bytes).into_owned()).unwrap_or_default();
    let times = ["creation_time", "deletion_time"];
    let is_missing = |name: &&str| !header_has(&head, &[name]);
    if times.iter().any(is_missing) {
        let others = ["scheduled_time", "pod_phase", "qos", "gpu_spec"];
        let missing: Vec<&str> = times.into_iter().chain(others).filter(is_missing).collect();
        import.assume(&format!(
            "the columns {} are missing, so only a static packing run is possible: all pods arrive at zero and run \
             for an hour",
            missing.join(", ")
        ));
        return TABLE.read(lines, import, |row| {
            draft(row, Life::plain(Time::ZERO, STATIC_RUN, Ending::Completed), Vec::new())
        });
    }
    import.start_at_first_arrival();
    TABLE.read(lines, import, |row| {
        let mut remarks = Vec::new();
        let life = life(row, &mut remarks)?;
        draft(row, life, remarks)
    })
}

/// When a pod is there.
struct Life {
    submitted: Time,
    length: Span,
    ending: Ending,
    /// When it was deleted while it ran.
    cut: Option<Time>,
    seen: Time,
}

impl Life {
    const fn plain(submitted: Time, length: Span, ending: Ending) -> Self {
        Self { submitted, length, ending, cut: None, seen: Time::ZERO }
    }
}

fn life(row: &Row<'_, '_>, remarks: &mut Vec<Remark>) -> Result<Life, Problem> {
    let submitted = row.read(Key::Creation, time_s)?;
    let phase = row.text(Key::Phase);
    if phase == "Pending" {
        return Err(row.problem(Key::Phase, "the pod never ran, so nobody knows for how long it would have"));
    }
    let deleted = row.read(Key::Deletion, time_s)?;
    let start = match row.maybe(Key::Scheduled, time_s)? {
        Some(start) => {
            row.wait(submitted, (start, Key::Scheduled), remarks)?;
            start
        }
        None => {
            remarks
                .push(row.assumed(Key::Scheduled, "scheduled_time is empty; it is taken for creation_time"));
            submitted
        }
    };
    let length = row.length(start, (deleted, Key::Deletion), remarks)?;
    let ending = match phase {
        "Succeeded" => Ending::Completed,
        "Failed" => Ending::Failed,
        "Running" => Ending::Killed,
        _ => {
            remarks.push(row.assumed(Key::Phase, "pod_phase is unknown; the pod is taken to complete"));
            Ending::Completed
        }
    };
    let cut = (ending == Ending::Killed).then_some(deleted);
    Ok(Life { submitted, length, ending, cut, seen: deleted })
}

fn draft<'a>(row: &Row<'a, '_>, life: Life, remarks: Vec<Remark>) -> Result<Draft<'a>, Problem> {
    let name = row.filled(Key::Name)?;
    let gpus = row.read(Key::Gpus, |field, value| whole(field, value, 0.0, MOST_GPUS))? as u64;
    let share = row.read(Key::Share, |field, value| whole(field, value, 0.0, MILLI))? as u64;
    if (gpus == 0) != (share == 0) || (gpus > 1 && share < GPU) {
        return Err(row.problem(Key::Share, format!("gpu_milli does not go with {gpus} GPUs")));
    }
    let worker = Resources {
        gpu_milli: gpus * share,
        cpu_milli: row.read(Key::Cpu, |field, value| cpu_milli(field, value, MILLI))?,
        memory_bytes: row.read(Key::Memory, |field, value| memory_bytes(field, value, BYTES_PER_MIB))?,
        network_bytes_per_s: 0,
    };
    if worker.gpu_milli == 0 && worker.cpu_milli == 0 {
        return Err(row.problem(Key::Cpu, "the pod asks for neither GPU nor CPU"));
    }
    let class = if row.text(Key::Qos) == "BE" { BEST_EFFORT } else { PriorityClass::default() };
    let truth = Truth { ending: life.ending, ..Truth::lasting(life.length, 1) };
    Ok(Draft {
        name: Some(name),
        goals: Goals { class, ..Goals::default() },
        gpu_types: if gpus == 0 { "" } else { row.text(Key::Spec) },
        cut: life.cut,
        ended: Some(life.seen),
        remarks,
        ..Draft::plain(life.submitted, Parallelism::rigid(1, worker), truth)
    })
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::{GpuTypeId, GpuTypeSet};

    use super::*;
    use crate::trace::{Options, TraceError, dropped_places, read_from};
    use crate::workload::{Done, Workload};

    const LONG: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,\
        deletion_time,scheduled_time";
    const SHORT: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli";

    fn read_text(header: &str, rows: &str) -> Workload {
        read_from("pods.csv", format!("{header}\n{rows}\n").as_bytes(), &Options::default()).unwrap()
    }

    #[test]
    fn parts_of_a_gpu_types_and_times_are_read() {
        let rows = "a,6000,1024,1,460,,BE,Succeeded,100,400,150\n\
            b,88000,2048,8,1000,V100M16|V100M32|V100M32,LS,Failed,200,300,200\n\
            c,2000,512,0,0,V100M16,Burstable,Running,200,350,\n\
            d,2000,512,1,1000,,LS,Running,300,500,300\n";
        let read = read_text(LONG, rows);
        let (job, truth) = &read.jobs[0];
        let worker =
            Resources { gpu_milli: 460, cpu_milli: 6000, memory_bytes: 1 << 30, network_bytes_per_s: 0 };
        assert_eq!(job.shape, Parallelism::rigid(1, worker));
        assert_eq!((job.submitted, truth.iterations, job.goals.class), (Time::ZERO, 250.0, BEST_EFFORT));
        let (large, failed) = &read.jobs[1];
        assert_eq!((large.shape.minimum().gpu_milli, failed.ending), (8000, Ending::Failed));
        assert_eq!(large.wanted.gpu_types, GpuTypeSet::of(&[GpuTypeId(0), GpuTypeId(1)]));
        let (cpu, deleted) = &read.jobs[2];
        assert_eq!((cpu.wanted.gpu_types, deleted.ending), (GpuTypeSet::ALL, Ending::Killed));
        assert_eq!(deleted.iterations, 150.0, "from the creation, since nobody knows when it was scheduled");
        // The last moment of the trace is the deletion of the last pod, so nobody knows how that one ended.
        assert_eq!(read.jobs[3].1.ending, Ending::Censored);
        assert_eq!(read.jobs[3].1.iterations, 200.0);
    }

    #[test]
    fn a_list_without_times_can_be_packed_and_says_what_is_missing() {
        let read = read_text(SHORT, "a,6000,1024,1,460\nb,88000,2048,8,1000");
        let said = &read.report.findings[0];
        assert_eq!(said.done, Done::Assumed);
        assert!(
            said.what.starts_with("the columns creation_time, deletion_time, scheduled_time, pod_phase, qos")
        );
        assert!(said.what.contains("only a static packing run is possible"), "{}", said.what);
        assert!(read.jobs.iter().all(|(job, _)| job.submitted == Time::ZERO));
        assert!(read.jobs.iter().all(|(_, truth)| *truth == Truth::lasting(STATIC_RUN, 1)));
    }

    #[test]
    fn an_unknown_gpu_type_is_an_error_that_names_the_known_ones_or_is_mapped() {
        let text = format!("{LONG}\na,6000,1024,1,1000,H900,LS,Failed,100,400,150\n");
        let mut options = Options { gpu_types: vec!["h100".into(), "t4".into()], ..Options::default() };
        let error = read_from("pods.csv", text.as_bytes(), &options).unwrap_err();
        assert!(matches!(&error, TraceError::UnknownGpuType { line: 2, .. }), "{error}");
        assert!(error.to_string().contains("did you mean `h100`?"), "{error}");
        options.gpu_type_names.insert("h900".to_owned(), "H100".to_owned());
        let read = read_from("pods.csv", text.as_bytes(), &options).unwrap();
        assert_eq!(read.jobs[0].0.wanted.gpu_types, GpuTypeSet::of(&[GpuTypeId(0)]));
    }

    #[test]
    fn bad_rows_and_pods_that_never_ran_are_dropped_with_field_and_value() {
        let rows = [
            "a,6000,1024,1,460,,BE,Succeeded,100,400,150",
            "b,6000,1024,1,460,,BE,Pending,100,400,",
            "c,6000,1024,2,460,,BE,Succeeded,100,400,150",
            "d,6000,1024,0,460,,BE,Succeeded,100,400,150",
            "e,0,1024,0,0,,BE,Succeeded,100,400,150",
            "f,6000,1024,1,460,,BE,Succeeded,100,140,150",
            "g,6000,1024,1,460,,BE,Succeeded,160,400,150",
            "h,6000,1024,1,460,,BE,Succeeded,,400,150",
            "i,6000,-1,1,460,,BE,Succeeded,100,400,150",
        ];
        let read = read_text(LONG, &rows.join("\n"));
        assert_eq!(read.report.kept, 1);
        assert_eq!(
            dropped_places(&read),
            [
                "pods.csv:3: pod_phase Pending",
                "pods.csv:4: gpu_milli 460",
                "pods.csv:5: gpu_milli 460",
                "pods.csv:6: cpu_milli 0",
                "pods.csv:7: deletion_time 140",
                "pods.csv:8: scheduled_time 150",
                "pods.csv:9: creation_time (empty)",
                "pods.csv:10: memory_mib -1",
            ]
        );
    }
}
