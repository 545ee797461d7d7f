//! Per-job results of the Tiresias simulator and of those that descend from it, such as Muri's testbed: one row a
//! finished job, in seconds, in the order of their ends.
//!
//! They hold the jobs that went in: submission, gang and run time without waiting. When the run in question started
//! and ended them is checked for order and not used otherwise. Jobs that had not ended are not in such a file.

use trainyard_sched::model::Parallelism;

use super::Format;
use super::error::TraceError;
use super::fields::{Problem, duration_s, gpu_count, time_s};
use super::import::{Draft, Import};
use super::lines::Lines;
use super::rows::{Row, columns};
use crate::truth::Truth;

columns! {
    need {
        JobId "job_id" "the job's id";
        Gpus "num_gpu" "GPUs of the gang";
        Submit "submit_time" "submission in seconds";
        Start "start_time" "when that run first started it; not before the submission";
        End "end_time" "when it ended there; not before the start";
        Duration "duration" "run time in seconds without waiting";
    }
    may {}
    unread {
        "time" "when the row was written";
        "executed_time" "seconds in which it ran there";
        "real_executed_time" "the same as measured";
        "JCT" "seconds from submission to end there";
        "pending_time" "seconds of waiting there";
        "job_counter" "starts there";
        "preempt" "stops there";
        "resume" "starts there";
        "promote" "promotions there";
    }
}

/// The entry of the table of formats.
pub(crate) const FORMAT: Format = Format {
    name: "tiresias-result",
    title: "per-job results of the Tiresias simulator or Muri's testbed, for the jobs in them",
    columns: TABLE.columns,
    detect: |head| TABLE.fits(head),
    read,
};

fn read(lines: &mut Lines<'_>, import: &mut Import<'_>) -> Result<(), TraceError> {
    import.assume(
        "the file is the result of a run; its jobs are read, and jobs that had not ended are not in it",
    );
    TABLE.read(lines, import, draft)
}

fn draft<'a>(row: &Row<'a, '_>) -> Result<Draft<'a>, Problem> {
    let name = row.filled(Key::JobId)?;
    let gpus = row.read(Key::Gpus, gpu_count)?;
    let submitted = row.read(Key::Submit, time_s)?;
    let (start, end) = (row.read(Key::Start, time_s)?, row.read(Key::End, time_s)?);
    let mut remarks = Vec::new();
    row.wait(submitted, (start, Key::Start), &mut remarks)?;
    row.length(start, (end, Key::End), &mut remarks)?;
    let duration = row.duration(Key::Duration, duration_s, &mut remarks)?;
    let plain = Draft::plain(submitted, Parallelism::gang(gpus), Truth::lasting(duration, gpus));
    Ok(Draft { name: Some(name), remarks, ..plain })
}

#[cfg(test)]
mod tests {
    use crate::trace::{Options, dropped_places, read_from};

    const HEADER: &str = "time,job_id,num_gpu,submit_time,start_time,end_time,executed_time,JCT,duration,\
        pending_time,preempt,resume,promote";

    #[test]
    fn the_jobs_are_those_that_went_in() {
        let text = format!(
            "{HEADER}\n210,b,2,20,30,210,100,190,100,80,1,2,0\n300,a,1,0,0,300,300,300,300,0,0,1,0\n"
        );
        let read = read_from("run.csv", text.as_bytes(), &Options::default()).unwrap();
        let list = "job_id,num_gpu,submit_time,duration\na,1,0,300\nb,2,20,100\n";
        let list = read_from("list.csv", list.as_bytes(), &Options::default()).unwrap();
        assert_eq!(read.jobs, list.jobs);
    }

    #[test]
    fn times_out_of_order_are_dropped_with_field_and_value() {
        let rows = [
            "300,a,1,0,0,300,300,300,300,0,0,1,0",
            "300,b,1,9,8,300,300,300,300,0,0,1,0",
            "300,c,1,0,301,300,300,300,300,0,0,1,0",
            "300,d,1,0,0,300,300,300,0,0,0,1,0",
        ];
        let text = format!("{HEADER}\n{}\n", rows.join("\n"));
        let read = read_from("run.csv", text.as_bytes(), &Options::default()).unwrap();
        assert_eq!(read.report.kept, 1);
        let places = ["run.csv:3: start_time 8", "run.csv:4: end_time 300", "run.csv:5: duration 0"];
        assert_eq!(dropped_places(&read), places);
    }
}
