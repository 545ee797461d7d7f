//! Job lists of the Tiresias simulator (NSDI 2019): `job_id,num_gpu,submit_time,iterations,model_name,duration,
//! interval` in any order, and the older `tf_job.csv` header.
//!
//! The number of iterations is not read: the simulator goes by the duration, and so a job has one iteration a
//! second. Headers with other columns are not taken for Tiresias's, since its relatives count in minutes.

use trainyard_sched::model::Parallelism;

use super::error::TraceError;
use super::fields::{Problem, duration_s, gpu_count, time_s};
use super::import::{Draft, Import};
use super::lines::Lines;
use super::rows::{Row, columns};
use super::{Format, header_names};
use crate::truth::Truth;

columns! {
    need {
        JobId "job_id" "the job's id";
        Gpus "num_gpu" "GPUs of the gang";
        Submit "submit_time" "submission in seconds";
        Duration "duration" "run time in seconds";
    }
    may {
        Model "model_name" "what it trains";
    }
    unread {
        "iterations" "the duration counts";
        "interval" "seconds to the next job";
        "start_time" "older files";
        "model_size" "older files";
        "aggr_interval" "older files";
        "model_scale" "older files";
    }
}

/// The entry of the table of formats.
pub(crate) const FORMAT: Format = Format {
    name: "tiresias",
    title: "job list of the Tiresias simulator",
    columns: TABLE.columns,
    detect: |head| {
        let known = |name: String| TABLE.columns.iter().any(|column| column.name == name);
        TABLE.fits(head) && header_names(head.line).all(known)
    },
    read,
};

fn read(lines: &mut Lines<'_>, import: &mut Import<'_>) -> Result<(), TraceError> {
    TABLE.read(lines, import, draft)
}

fn draft<'a>(row: &Row<'a, '_>) -> Result<Draft<'a>, Problem> {
    let name = row.filled(Key::JobId)?;
    let gpus = row.read(Key::Gpus, gpu_count)?;
    let submitted = row.read(Key::Submit, time_s)?;
    let mut remarks = Vec::new();
    let duration = row.duration(Key::Duration, duration_s, &mut remarks)?;
    let plain = Draft::plain(submitted, Parallelism::gang(gpus), Truth::lasting(duration, gpus));
    Ok(Draft { name: Some(name), model: row.text(Key::Model), remarks, ..plain })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Options, read_from};
    use crate::workload::{Done, Workload};

    fn read_text(text: &str) -> Result<Workload, TraceError> {
        read_from("jobs.csv", text.as_bytes(), &Options::default())
    }

    const PLAIN: &str = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n\
        0,1,0,606,vgg19,164,30\n1,8,30,133,vgg11,147,23\n";

    #[test]
    fn order_of_columns_and_line_ends_change_nothing() {
        let plain = read_text(PLAIN).unwrap();
        assert_eq!(plain.models, ["vgg19", "vgg11"]);
        assert_eq!(&*plain.jobs[1].0.name, "1");
        let crlf = format!("\u{feff}{}\r\n\r\n", PLAIN.trim().replace('\n', "\r\n"));
        assert_eq!(read_text(&crlf).unwrap().jobs, plain.jobs);
        let shuffled = "duration,job_id,submit_time,num_gpu,model_name\n164,0,0,1,vgg19\n147,1,30,8,vgg11";
        assert_eq!(read_text(shuffled).unwrap().jobs, plain.jobs);
    }

    #[test]
    fn an_equal_row_is_dropped_and_a_different_one_names_both_lines() {
        let read = read_text(&format!("{PLAIN}1,8,30,133,vgg11,147,23\n")).unwrap();
        assert_eq!((read.report.rows, read.report.kept), (3, 2));
        let finding = read.report.findings.iter().find(|f| f.done == Done::Dropped).unwrap();
        assert_eq!((finding.count, finding.examples.as_slice()), (1, &["jobs.csv:4: 1".to_owned()][..]));
        let error = read_text(&format!("{PLAIN}1,8,30,133,vgg11,148,23\n")).unwrap_err();
        assert!(matches!(&error, TraceError::DuplicateJob { first: 3, second: 4, .. }), "{error}");
        // The iterations are not read, and still the rows are not equal.
        assert!(read_text(&format!("{PLAIN}1,8,30,134,vgg11,147,23\n")).is_err());
    }

    #[test]
    fn relatives_that_count_in_minutes_are_not_taken_for_it() {
        let chronus =
            "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval\n1,a,1,0,1,m,5,5\n";
        assert!(matches!(read_text(chronus), Err(TraceError::UnknownFormat { .. })));
    }

    #[test]
    fn the_window_is_cut_after_sorting() {
        let text = format!("{PLAIN}2,1,10,1,vgg11,5,1\n3,1,99,1,vgg11,5,1\n");
        let from = trainyard_sched::model::Time::from_secs(5);
        let options = Options { from, jobs: Some(2), ..Options::default() };
        let read = read_from("jobs.csv", text.as_bytes(), &options).unwrap();
        let names: Vec<&str> = read.jobs.iter().map(|(job, _)| &*job.name).collect();
        assert_eq!(names, ["2", "1"]);
        assert_eq!(read.jobs[0].0.submitted.as_secs_f64(), 5.0);
    }
}
