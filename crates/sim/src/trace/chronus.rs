//! Chronus's job lists (SoCC 2021): Philly's jobs with deadlines. All times are in minutes.
//!
//! `expect_time_list` is how long after its submission a job should be done. A job with a soft deadline has several
//! times as `a-b-c`, and `expect_value_list` says what it is worth to meet each. Only the first, which is worth the
//! most, becomes the deadline. A best-effort job has no deadline; what the list says there is its submission
//! again. A job with `num_gpu` 0 asks for nothing that the list names, so it is dropped and counted.

use trainyard_sched::model::{Goals, Parallelism, PriorityClass, Span};

use super::error::TraceError;
use super::fields::{
    GPU_LIMIT, MOST_ITERATIONS, Problem, Remark, duration_min, number, number_within, span_min, time_min,
    whole,
};
use super::import::{Draft, Import};
use super::lines::Lines;
use super::rows::{Row, columns};
use super::{BEST_EFFORT, Format};
use crate::truth::Truth;

columns! {
    need {
        JobId "job_id" "the job's id";
        Gpus "num_gpu" "GPUs of the gang; a job with 0 is dropped";
        Submit "submit_time" "submission in minutes";
        Iterations "iterations" "iterations in all";
        Model "model_name" "what it trains";
        Duration "duration" "run time in minutes";
        Expected "expect_time_list" "minutes from the submission to the deadline, several as `a-b-c`";
    }
    may {
        User "user" "who owns it; becomes the tenant";
        Values "expect_value_list" "what each deadline is worth; checked, not used";
        BestEffort "best_effort" "1 for a job without deadline, which becomes class -1";
        Kind "job_type" "`strict`, `soft` or `best`; must agree with `best_effort`";
    }
    unread {
        "interval" "minutes between reports of progress";
    }
}

/// The entry of the table of formats.
pub(crate) const FORMAT: Format = Format {
    name: "chronus",
    title: "job list of Chronus, times in minutes, with deadlines",
    columns: TABLE.columns,
    detect: |head| TABLE.fits(head),
    read,
};

fn read(lines: &mut Lines<'_>, import: &mut Import<'_>) -> Result<(), TraceError> {
    TABLE.read(lines, import, draft)
}

fn draft<'a>(row: &Row<'a, '_>) -> Result<Draft<'a>, Problem> {
    let name = row.filled(Key::JobId)?;
    let submitted = row.read(Key::Submit, time_min)?;
    let gpus = row.read(Key::Gpus, |field, value| whole(field, value, 0.0, GPU_LIMIT))? as u32;
    let iterations =
        row.read(Key::Iterations, |field, value| number_within(field, value, 1.0, MOST_ITERATIONS))?;
    let mut remarks = Vec::new();
    let duration = row.duration(Key::Duration, duration_min, &mut remarks)?;
    let best_effort = is_best_effort(row)?;
    let deadline = if best_effort { None } else { Some(submitted + first_deadline(row, &mut remarks)?) };
    if gpus == 0 {
        return Err(row.problem(Key::Gpus, "the job asks for no GPU, and the list has no other demand"));
    }
    let class = if best_effort { BEST_EFFORT } else { PriorityClass::default() };
    Ok(Draft {
        name: Some(name),
        tenant: row.text(Key::User),
        model: row.text(Key::Model),
        goals: Goals { deadline, class, ..Goals::default() },
        remarks,
        ..Draft::plain(submitted, Parallelism::gang(gpus), Truth::iterating(duration, iterations, gpus))
    })
}

fn is_best_effort(row: &Row<'_, '_>) -> Result<bool, Problem> {
    let flag = row.maybe(Key::BestEffort, |field, value| whole(field, value, 0.0, 1.0))?;
    let kind = match row.text(Key::Kind) {
        "" => None,
        "strict" | "soft" => Some(false),
        "best" => Some(true),
        _ => return Err(row.problem(Key::Kind, "job_type is none of strict, soft and best")),
    };
    match (flag.map(|flag| flag == 1.0), kind) {
        (Some(flag), Some(kind)) if flag != kind => {
            Err(row.problem(Key::Kind, "job_type and best_effort contradict each other"))
        }
        (flag, kind) => Ok(flag.or(kind).unwrap_or(false)),
    }
}

/// How long after the submission the first deadline is. All of them are checked.
fn first_deadline(row: &Row<'_, '_>, remarks: &mut Vec<Remark>) -> Result<Span, Problem> {
    let words = row.filled(Key::Expected)?.split('-');
    let times: Result<Vec<Span>, Problem> =
        words.map(|each| span_min("expect_time_list", each.trim())).collect();
    let not_a_list =
        |_| row.problem(Key::Expected, "expect_time_list is not a list of minutes like 45-60-90");
    let times = times.map_err(not_a_list)?;
    let values = row.maybe(Key::Values, |field, value| {
        value.split('-').try_for_each(|each| number(field, each.trim()).map(|_| ()))?;
        Ok(value.split('-').count())
    })?;
    if values.is_some_and(|count| count != times.len()) {
        return Err(row.problem(Key::Values, "there is not one value for each deadline"));
    }
    if times.len() > 1 {
        let what = "the job has several deadlines; the first is its deadline, and later ones are not used";
        remarks.push(row.assumed(Key::Expected, what));
    }
    Ok(times[0])
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::Time;

    use super::*;
    use crate::trace::{Options, dropped_places, read_from};
    use crate::workload::{Done, Workload};

    const HEADER: &str = "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,\
        expect_time_list,expect_value_list,best_effort,job_type";

    fn read_text(rows: &str) -> Workload {
        read_from("chronus.csv", format!("{HEADER}\n{rows}\n").as_bytes(), &Options::default()).unwrap()
    }

    #[test]
    fn times_are_minutes_and_deadlines_count_from_the_submission() {
        let read =
            read_text("a,vc_x,4,10,600,vgg16,30,5,45,10,0,strict\nb,vc_y,1,20,600,bert,30,5,20,10,1,best");
        let (job, truth) = &read.jobs[0];
        assert_eq!((job.submitted, job.goals.deadline), (Time::from_secs(600), Some(Time::from_secs(3300))));
        assert_eq!((truth.iterations, job.declared.duration()), (600.0, Some(Span::from_secs(1800))));
        assert_eq!(job.declared.iteration, Some(Span::from_secs(3)));
        assert_eq!(&*read.tenants.get(job.tenant).unwrap().name, "vc_x");
        let (best, _) = &read.jobs[1];
        assert_eq!((best.goals.deadline, best.goals.class), (None, BEST_EFFORT));
        assert!(read.report.findings.is_empty(), "{:?}", read.report);
    }

    #[test]
    fn of_several_deadlines_the_first_is_kept_and_it_is_said() {
        let read = read_text("a,u,1,10,600,vgg16,30,5,45-60-90,10-5-1,0,soft");
        assert_eq!(read.jobs[0].0.goals.deadline, Some(Time::from_secs(3300)));
        let said = &read.report.findings[0];
        assert_eq!(
            (said.done, said.examples[0].as_str()),
            (Done::Assumed, "chronus.csv:2: expect_time_list 45-60-90")
        );
    }

    #[test]
    fn bad_rows_and_jobs_without_gpu_are_dropped_with_field_and_value() {
        let rows = [
            "a,u,1,10,600,vgg16,30,5,45,10,0,strict",
            "b,u,0,10,600,vgg16,30,5,45,10,0,strict",
            "c,u,1,10,600,vgg16,30,5,45--60,10-5-1,0,soft",
            "d,u,1,10,600,vgg16,30,5,45-60,10,0,soft",
            "e,u,1,10,600,vgg16,30,5,,10,0,strict",
            "f,u,1,10,600,vgg16,30,5,45,10,1,strict",
            "g,u,1,10,600,vgg16,30,5,45,10,0,hard",
            "h,u,2.5,10,600,vgg16,30,5,45,10,0,strict",
            "i,u,1,10,600,vgg16,-30,5,45,10,0,strict",
        ];
        let read = read_text(&rows.join("\n"));
        assert_eq!((read.report.rows, read.report.kept), (9, 1));
        assert_eq!(
            dropped_places(&read),
            [
                "chronus.csv:3: num_gpu 0",
                "chronus.csv:4: expect_time_list 45--60",
                "chronus.csv:5: expect_value_list 10",
                "chronus.csv:6: expect_time_list (empty)",
                "chronus.csv:7: job_type strict",
                "chronus.csv:8: job_type hard",
                "chronus.csv:9: num_gpu 2.5",
                "chronus.csv:10: duration -30",
            ]
        );
    }
}
