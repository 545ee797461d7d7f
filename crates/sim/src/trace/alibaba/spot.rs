//! Alibaba's jobs of 2026 (ASPLOS 2026), of which some run on spot capacity.
//!
//! `gpu_request` and `cpu_request` are those of one worker: a job of 94 workers that asks for one GPU could not be
//! otherwise. A high-priority job is class 0 and a spot job class -1. Spot jobs may be stopped at any time, as all
//! jobs here may. How jobs end is not told; all are taken to complete.

use trainyard_sched::model::{Goals, Parallelism, PriorityClass, Resources};

use super::super::error::TraceError;
use super::super::fields::{Problem, duration_s, gpu_count, time_s};
use super::super::import::{Draft, Import};
use super::super::lines::Lines;
use super::super::rows::{Row, columns};
use super::super::{BEST_EFFORT, Format};
use super::{cpu_milli, gpu_milli};
use crate::truth::Truth;

columns! {
    need {
        Name "job_name" "the job's id";
        Workers "worker_num" "workers of the gang";
        Gpu "gpu_request" "GPUs of each worker, a part of one or whole ones";
        Model "gpu_model" "the GPU type that it needs; empty is any";
        Submit "submit_time" "submission in seconds";
        Duration "duration" "run time in seconds";
        Kind "job_type" "`HP`, or `Spot`, which becomes class -1";
    }
    may {
        Organization "organization" "who owns it; becomes the tenant";
        Cpu "cpu_request" "CPU cores of each worker";
    }
    unread {}
}

/// The entry of the table of formats.
pub(crate) const FORMAT: Format = Format {
    name: "alibaba-v2026-spot",
    title: "jobs of Alibaba's cluster of 2026, with high priority or on spot capacity",
    columns: TABLE.columns,
    detect: |head| TABLE.fits(head),
    read,
};

fn read(lines: &mut Lines<'_>, import: &mut Import<'_>) -> Result<(), TraceError> {
    import.assume("the file does not say which jobs failed or were killed; all are taken to complete");
    TABLE.read(lines, import, draft)
}

fn draft<'a>(row: &Row<'a, '_>) -> Result<Draft<'a>, Problem> {
    let name = row.filled(Key::Name)?;
    let submitted = row.read(Key::Submit, time_s)?;
    let mut remarks = Vec::new();
    let duration = row.duration(Key::Duration, duration_s, &mut remarks)?;
    let workers = row.read(Key::Workers, gpu_count)?;
    let worker = Resources {
        gpu_milli: row.read(Key::Gpu, |field, value| gpu_milli(field, value, 1.0))?,
        cpu_milli: row.maybe(Key::Cpu, |field, value| cpu_milli(field, value, 1.0))?.unwrap_or(0),
        ..Resources::NONE
    };
    if worker.gpu_milli == 0 && worker.cpu_milli == 0 {
        return Err(row.problem(Key::Gpu, "the job asks for neither GPU nor CPU"));
    }
    let class = match row.text(Key::Kind) {
        "HP" => PriorityClass::default(),
        "Spot" => BEST_EFFORT,
        _ => return Err(row.problem(Key::Kind, "job_type is neither HP nor Spot")),
    };
    Ok(Draft {
        name: Some(name),
        tenant: row.text(Key::Organization),
        goals: Goals { class, ..Goals::default() },
        gpu_types: if worker.gpu_milli == 0 { "" } else { row.text(Key::Model) },
        remarks,
        ..Draft::plain(submitted, Parallelism::rigid(workers, worker), Truth::lasting(duration, workers))
    })
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::{GpuTypeId, GpuTypeSet, Span, Time};

    use super::*;
    use crate::trace::{Options, dropped_places, read_from};

    const HEADER: &str =
        "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type";

    #[test]
    fn requests_are_those_of_a_worker_and_spot_jobs_are_a_lower_class() {
        let text = format!("{HEADER}\na,13,A10,20,1,1,0,500,HP\nb,57,GPU-series-1,15,2,16,9,60,Spot\n");
        let read = read_from("spot.csv", text.as_bytes(), &Options::default()).unwrap();
        let (job, _) = &read.jobs[1];
        let worker = Resources { cpu_milli: 15_000, ..Resources::gpus(2) };
        assert_eq!(job.shape, Parallelism::rigid(16, worker));
        assert_eq!((job.submitted, job.declared.duration()), (Time::from_secs(9), Some(Span::from_secs(60))));
        assert_eq!((job.goals.class, read.jobs[0].0.goals.class.0), (BEST_EFFORT, 0));
        assert_eq!(job.wanted.gpu_types, GpuTypeSet::of(&[GpuTypeId(1)]));
        assert_eq!(&*read.gpu_types[1], "gpu-series-1", "a name that says nothing is a type of its own");
        assert_eq!(&*read.tenants.get(job.tenant).unwrap().name, "57");
    }

    #[test]
    fn bad_rows_are_dropped_with_field_and_value() {
        let rows = [
            "a,13,A10,20,1,1,0,500,HP",
            "b,13,A10,20,1,0,0,500,HP",
            "c,13,A10,20,1.5,1,0,500,HP",
            "d,13,A10,20,1,1,0,0,HP",
            "e,13,A10,20,1,1,0,500,Low",
            "f,13,A10,20,1,1,-3,500,HP",
            "g,13,A10,0,0,1,0,500,HP",
            "h,13,A10,20,32000,16,0,500,HP",
        ];
        let text = format!("{HEADER}\n{}\n", rows.join("\n"));
        let read = read_from("spot.csv", text.as_bytes(), &Options::default()).unwrap();
        assert_eq!(read.report.kept, 1);
        assert_eq!(
            dropped_places(&read),
            [
                "spot.csv:3: worker_num 0",
                "spot.csv:4: gpu_request 1.5",
                "spot.csv:5: duration 0",
                "spot.csv:6: job_type Low",
                "spot.csv:7: submit_time -3",
                "spot.csv:8: gpu_request 0",
                "spot.csv:9: 512000",
            ]
        );
    }
}
