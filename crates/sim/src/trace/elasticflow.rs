//! ElasticFlow's job lists (ASPLOS 2023): jobs with absolute deadlines, in seconds.
//!
//! There are two headers. One has `iteration` and `best_effort`; the other has `real_iteration` and
//! `real_duration` beside `iteration` and `duration`. ElasticFlow's scheduler goes by the names without `real`,
//! and so do we; rows where the two differ are counted. ElasticFlow gives a job more or fewer GPUs than `num_gpu` as
//! it likes, by a table of speeds that is not in the list; here a job is a gang of `num_gpu`. Many deadlines
//! cannot be met even by a job that starts at once; they are kept as they are.

use trainyard_sched::model::{Goals, Parallelism, PriorityClass};

use super::error::TraceError;
use super::fields::{MOST_ITERATIONS, Problem, duration_s, gpu_count, number_within, time_s, whole};
use super::import::{Draft, Import};
use super::lines::Lines;
use super::rows::{Row, columns};
use super::{BEST_EFFORT, Format};
use crate::truth::Truth;

columns! {
    need {
        JobId "job_id" "the job's id";
        Submit "submit_time" "submission in seconds";
        Gpus "num_gpu" "GPUs of the gang";
        Duration "duration" "run time in seconds on `num_gpu` GPUs";
        Iteration "iteration" "iterations in all";
        Deadline "ddl" "deadline in seconds from the start of the trace";
    }
    may {
        Model "model_name" "what it trains";
        BestEffort "best_effort" "1 for a job without deadline, which becomes class -1";
        RealDuration "real_duration" "only compared with `duration`";
        RealIteration "real_iteration" "only compared with `iteration`";
    }
    unread {
        "batch_size" "samples of one iteration over all GPUs";
    }
}

/// The entry of the table of formats.
pub(crate) const FORMAT: Format = Format {
    name: "elasticflow",
    title: "job list of ElasticFlow, with deadlines",
    columns: TABLE.columns,
    detect: |head| TABLE.fits(head),
    read,
};

fn read(lines: &mut Lines<'_>, import: &mut Import<'_>) -> Result<(), TraceError> {
    import.assume("a job is a gang of num_gpu GPUs; ElasticFlow may give it more or fewer");
    TABLE.read(lines, import, draft)
}

fn draft<'a>(row: &Row<'a, '_>) -> Result<Draft<'a>, Problem> {
    let name = row.filled(Key::JobId)?;
    let submitted = row.read(Key::Submit, time_s)?;
    let gpus = row.read(Key::Gpus, gpu_count)?;
    let mut remarks = Vec::new();
    let duration = row.duration(Key::Duration, duration_s, &mut remarks)?;
    let count = |field: &str, value: &str| number_within(field, value, 1.0, MOST_ITERATIONS);
    let iterations = row.read(Key::Iteration, count)?;
    let best_effort = row.maybe(Key::BestEffort, |field, value| whole(field, value, 0.0, 1.0))? == Some(1.0);
    let deadline = if best_effort { None } else { Some(row.read(Key::Deadline, time_s)?) };
    if row.maybe(Key::RealDuration, duration_s)?.is_some_and(|real| real != duration) {
        remarks.push(row.assumed(Key::RealDuration, "real_duration is not duration; duration counts"));
    }
    if row.maybe(Key::RealIteration, count)?.is_some_and(|real| real != iterations) {
        remarks.push(row.assumed(Key::RealIteration, "real_iteration is not iteration; iteration counts"));
    }
    let class = if best_effort { BEST_EFFORT } else { PriorityClass::default() };
    Ok(Draft {
        name: Some(name),
        model: row.text(Key::Model),
        goals: Goals { deadline, class, ..Goals::default() },
        remarks,
        ..Draft::plain(submitted, Parallelism::gang(gpus), Truth::iterating(duration, iterations, gpus))
    })
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::{Span, Time};

    use super::*;
    use crate::trace::{Options, dropped_places, read_from};
    use crate::workload::{Done, Workload};

    const SHORT: &str = "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort";
    const LONG: &str = "job_id,submit_time,real_iteration,model_name,ddl,batch_size,num_gpu,real_duration,\
        duration,iteration";

    fn read_text(header: &str, rows: &str) -> Workload {
        read_from("ef.csv", format!("{header}\n{rows}\n").as_bytes(), &Options::default()).unwrap()
    }

    #[test]
    fn both_headers_give_the_same_job_and_deadlines_are_absolute() {
        let short = read_text(SHORT, "a,100,500,bert,1200,64,4,1000,0");
        let long = read_text(LONG, "a,100,500,bert,1200,64,4,1000,1000,500");
        assert_eq!(short.jobs, long.jobs);
        let (job, truth) = &short.jobs[0];
        assert_eq!((job.submitted, job.goals.deadline), (Time::from_secs(100), Some(Time::from_secs(1200))));
        assert_eq!((truth.iterations, job.declared.duration()), (500.0, Some(Span::from_secs(1000))));
    }

    #[test]
    fn a_best_effort_job_has_no_deadline() {
        let read = read_text(SHORT, "a,100,500,bert,1200,64,4,1000,1");
        let goals = &read.jobs[0].0.goals;
        assert_eq!((goals.deadline, goals.class), (None, BEST_EFFORT));
    }

    #[test]
    fn real_figures_that_differ_are_counted() {
        let read = read_text(LONG, "a,100,501,bert,1200,64,4,1001,1000,500");
        assert_eq!(read.jobs[0].0.declared.duration(), Some(Span::from_secs(1000)));
        let said = read.report.findings.iter().filter(|f| f.done == Done::Assumed && !f.examples.is_empty());
        let places: Vec<&str> = said.map(|f| f.examples[0].as_str()).collect();
        assert_eq!(places, ["ef.csv:2: real_duration 1001", "ef.csv:2: real_iteration 501"]);
    }

    #[test]
    fn bad_rows_are_dropped_with_field_and_value() {
        let rows = [
            "a,100,500,bert,1200,64,4,1000,0",
            "b,100,500,bert,,64,4,1000,0",
            "c,100,500,bert,1200,64,four,1000,0",
            "d,100,0,bert,1200,64,4,1000,0",
            "e,100,500,bert,1200,64,4,1e309,0",
            "f,100,500,bert,1200,64,4,1000,yes",
        ];
        let read = read_text(SHORT, &rows.join("\n"));
        assert_eq!(read.report.kept, 1);
        assert_eq!(
            dropped_places(&read),
            [
                "ef.csv:3: ddl (empty)",
                "ef.csv:4: num_gpu four",
                "ef.csv:5: iteration 0",
                "ef.csv:6: duration 1e309",
                "ef.csv:7: best_effort yes",
            ]
        );
    }
}
