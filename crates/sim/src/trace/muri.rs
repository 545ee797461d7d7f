//! Muri's job lists (SIGCOMM 2022): Philly's arrivals and gangs with models drawn at random. All times are in
//! milliseconds.
//!
//! The run time is `duration`. In the lists for the simulator it is `iterations` times `iteration_time`, rounded
//! to a second. In the list for the testbed it is what was measured, and the two differ; rows where they do are
//! counted. `resource_time_0` to `2` say for how long an iteration uses each resource, which matters to jobs that
//! share devices by turns; that is not modelled. `priority` is 0 for a job with a guarantee and 1 for one that
//! takes what is left.

use trainyard_sched::model::{Goals, Parallelism, PriorityClass, Span};

use super::error::TraceError;
use super::fields::{
    MOST_ITERATIONS, Problem, duration_ms, gpu_count, number_within, span_ms, time_ms, whole,
};
use super::import::{Draft, Import};
use super::lines::Lines;
use super::rows::{Row, columns};
use super::{BEST_EFFORT, Format};
use crate::truth::Truth;

/// Durations are rounded to a second, in the simulator's lists once and in the generator once more.
const ROUNDING: Span = Span::from_secs(2);

columns! {
    need {
        JobId "job_id" "the job's id";
        Gpus "num_gpu" "GPUs of the gang";
        Submit "submit_time" "submission in milliseconds";
        Iterations "iterations" "iterations in all";
        Model "model_name" "what it trains";
        Duration "duration" "run time in milliseconds";
        IterationTime "iteration_time" "milliseconds of one iteration; only compared with the run time";
    }
    may {
        Priority "priority" "0 with a guarantee, 1 for a job that takes what is left, which becomes class -1";
    }
    unread {
        "batch_size" "samples of one iteration";
        "interval" "milliseconds to the next job";
        "resource_time_0" "milliseconds of one iteration on the first resource";
        "resource_time_1" "milliseconds of one iteration on the second";
        "resource_time_2" "milliseconds of one iteration on the third";
    }
}

/// The entry of the table of formats.
pub(crate) const FORMAT: Format = Format {
    name: "muri",
    title: "job list of Muri, times in milliseconds",
    columns: TABLE.columns,
    detect: |head| TABLE.fits(head),
    read,
};

fn read(lines: &mut Lines<'_>, import: &mut Import<'_>) -> Result<(), TraceError> {
    import.assume("an iteration keeps a GPU busy all the time; the resource times are not used");
    TABLE.read(lines, import, draft)
}

fn draft<'a>(row: &Row<'a, '_>) -> Result<Draft<'a>, Problem> {
    let name = row.filled(Key::JobId)?;
    let submitted = row.read(Key::Submit, time_ms)?;
    let gpus = row.read(Key::Gpus, gpu_count)?;
    let iterations =
        row.read(Key::Iterations, |field, value| number_within(field, value, 1.0, MOST_ITERATIONS))?;
    let mut remarks = Vec::new();
    let duration = row.duration(Key::Duration, duration_ms, &mut remarks)?;
    let each = row.read(Key::IterationTime, span_ms)?;
    let opportunistic = row.maybe(Key::Priority, |field, value| whole(field, value, 0.0, 1.0))? == Some(1.0);
    let class = if opportunistic { BEST_EFFORT } else { PriorityClass::default() };
    let product = each.scaled(iterations);
    if product.0.abs_diff(duration.0) > ROUNDING.0 {
        let what = "iterations times iteration_time is not the duration; the duration counts";
        remarks.push(row.assumed(Key::Duration, what));
    }
    let truth = Truth::iterating(duration, iterations, gpus);
    Ok(Draft {
        name: Some(name),
        model: row.text(Key::Model),
        goals: Goals { class, ..Goals::default() },
        remarks,
        ..Draft::plain(submitted, Parallelism::gang(gpus), truth)
    })
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::Time;

    use super::*;
    use crate::trace::{Options, dropped_places, read_from};
    use crate::truth::Speed;
    use crate::workload::Done;

    const HEADER: &str = "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,\
        iteration_time,resource_time_0,resource_time_1,resource_time_2,priority";

    #[test]
    fn times_are_milliseconds_and_the_duration_is_kept_to_the_microsecond() {
        let text = format!("{HEADER}\na,8,1534000,7000,vgg16,16,1498000,28000,214,82,75,66,1\n");
        let read = read_from("muri.csv", text.as_bytes(), &Options::default()).unwrap();
        let (job, truth) = &read.jobs[0];
        assert_eq!(job.submitted, Time::from_secs(1534));
        assert_eq!((job.goals.class, read.models[0].as_str()), (BEST_EFFORT, "vgg16"));
        assert_eq!((truth.iterations, job.shape.minimum().gpu_milli), (7000.0, 8000));
        assert_eq!(truth.speed, Speed::Fixed { iteration: Span(214_000), workers: 8 });
        assert_eq!(job.declared.duration(), Some(Span::from_secs(1498)));
        assert_eq!(read.report.findings.len(), 1, "{:?}", read.report);
    }

    #[test]
    fn a_duration_that_was_measured_counts_and_is_said() {
        let text = format!("{HEADER}\na,8,0,1000,vgg16,16,180000,28000,214,82,75,66,0\n");
        let read = read_from("muri.csv", text.as_bytes(), &Options::default()).unwrap();
        assert_eq!(read.jobs[0].0.declared.duration(), Some(Span::from_secs(180)));
        assert_eq!((read.jobs[0].1.iterations, read.jobs[0].0.goals.class.0), (1000.0, 0));
        let said = read.report.findings.iter().find(|f| f.what.contains("the duration counts")).unwrap();
        assert_eq!((said.done, said.examples[0].as_str()), (Done::Assumed, "muri.csv:2: duration 180000"));
    }

    #[test]
    fn bad_rows_are_dropped_with_field_and_value() {
        let good = "a,8,0,1000,vgg16,16,214000,28000,214,82,75,66,0";
        let rows = [
            good,
            "b,-1,0,1000,vgg16,16,214000,28000,214,82,75,66,0",
            "c,8,-5,1000,vgg16,16,214000,28000,214,82,75,66,0",
            "d,8,0,0,vgg16,16,214000,28000,214,82,75,66,0",
            "e,8,0,1000,vgg16,16,0,28000,214,82,75,66,0",
            "f,8,0,1000,vgg16,16,214000,28000,NaN,82,75,66,0",
            "g,8,0,1000,vgg16,16,214000,28000,214,82,75,66,2",
            ",8,0,1000,vgg16,16,214000,28000,214,82,75,66,0",
            "h,8,0,1000,vgg16",
        ];
        let text = format!("{HEADER}\n{}\n", rows.join("\n"));
        let read = read_from("muri.csv", text.as_bytes(), &Options::default()).unwrap();
        assert_eq!((read.report.rows, read.report.kept), (9, 1));
        assert_eq!(
            dropped_places(&read),
            [
                "muri.csv:3: num_gpu -1",
                "muri.csv:4: submit_time -5",
                "muri.csv:5: iterations 0",
                "muri.csv:6: duration 0",
                "muri.csv:7: iteration_time NaN",
                "muri.csv:8: priority 2",
                "muri.csv:9: job_id (empty)",
                "muri.csv:10",
            ]
        );
    }

    #[test]
    fn a_list_without_iteration_time_is_not_muris() {
        let text =
            "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n0,1,0,606,vgg19,164,30\n";
        let read = read_from("jobs.csv", text.as_bytes(), &Options::default()).unwrap();
        assert!(read.report.source.ends_with("(tiresias)"), "{}", read.report.source);
    }
}
