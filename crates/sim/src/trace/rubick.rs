//! Rubick's workloads (MLSys 2025): language-model jobs, each with the execution plan that its length belongs to.
//!
//! A plan is a word (`ga`, `zero-dp`, `zero-offload`) or three digits, the degrees of three-dimensional
//! parallelism, whose product is the number of GPUs. Rubick changes plans while jobs run; here a job keeps its own.
//! `num_cpus` are cores of the whole gang. A job with `is_sla` 1 has a guarantee and becomes class 1.

use trainyard_sched::model::{Goals, Parallelism, PriorityClass, Resources};

use super::Format;
use super::error::TraceError;
use super::fields::{MOST_ITERATIONS, Problem, duration_s, gpu_count, number_within, time_s, whole};
use super::import::{Draft, Import};
use super::lines::Lines;
use super::rows::{Row, columns};
use crate::truth::Truth;

const MOST_CPUS: f64 = 1e6;
const MILLI: f64 = 1e3;

columns! {
    need {
        Name "name" "the job's id";
        Submit "submission_time" "submission in seconds";
        Duration "duration" "run time in seconds with this plan";
        Application "application" "what it trains";
        Gpus "num_gpus" "GPUs of the gang";
        Plan "exec_plan" "execution plan, a word or three digits whose product is the number of GPUs; checked";
        Steps "steps" "iterations in all";
    }
    may {
        Cpus "num_cpus" "CPU cores of the whole gang";
        Sla "is_sla" "1 for a job with a guarantee, which becomes class 1";
    }
    unread {
        "bandwidth" "network of the job, in a unit that is not stated";
    }
}

/// The entry of the table of formats.
pub(crate) const FORMAT: Format = Format {
    name: "rubick",
    title: "workload of Rubick, with execution plans",
    columns: TABLE.columns,
    detect: |head| TABLE.fits(head),
    read,
};

fn read(lines: &mut Lines<'_>, import: &mut Import<'_>) -> Result<(), TraceError> {
    import.assume("a job keeps the execution plan of its row, and its length belongs to that plan");
    TABLE.read(lines, import, draft)
}

fn draft<'a>(row: &Row<'a, '_>) -> Result<Draft<'a>, Problem> {
    let name = row.filled(Key::Name)?;
    let submitted = row.read(Key::Submit, time_s)?;
    let mut remarks = Vec::new();
    let duration = row.duration(Key::Duration, duration_s, &mut remarks)?;
    let gpus = row.read(Key::Gpus, gpu_count)?;
    check_plan(row, gpus)?;
    let steps = row.read(Key::Steps, |field, value| number_within(field, value, 1.0, MOST_ITERATIONS))?;
    let cpus = row.maybe(Key::Cpus, |field, value| number_within(field, value, 0.0, MOST_CPUS))?;
    let guaranteed = row.maybe(Key::Sla, |field, value| whole(field, value, 0.0, 1.0))? == Some(1.0);
    let cpu_milli = (cpus.unwrap_or(0.0) * MILLI / f64::from(gpus)).ceil() as u64;
    let worker = Resources { cpu_milli, ..Resources::gpus(1) };
    let class = PriorityClass(i16::from(guaranteed));
    Ok(Draft {
        name: Some(name),
        model: row.text(Key::Application),
        goals: Goals { class, ..Goals::default() },
        remarks,
        ..Draft::plain(submitted, Parallelism::rigid(gpus, worker), Truth::iterating(duration, steps, gpus))
    })
}

/// Refuses a plan that is for another number of GPUs, since then nobody knows which of the two is meant.
fn check_plan(row: &Row<'_, '_>, gpus: u32) -> Result<(), Problem> {
    let plan = row.filled(Key::Plan)?;
    let degrees: Option<Vec<u32>> = plan.chars().map(|digit| digit.to_digit(10)).collect();
    match degrees {
        Some(degrees) if degrees.len() == 3 && degrees.iter().product::<u32>() == gpus => Ok(()),
        Some(_) => Err(row.problem(Key::Plan, "exec_plan is not three digits whose product is num_gpus")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::{Span, Time};

    use super::*;
    use crate::trace::{Options, dropped_places, read_from};
    use crate::workload::Workload;

    const HEADER: &str =
        "name,submission_time,duration,application,num_gpus,num_cpus,bandwidth,exec_plan,steps,is_sla";

    fn read_text(rows: &str) -> Workload {
        read_from("rubick.csv", format!("{HEADER}\n{rows}\n").as_bytes(), &Options::default()).unwrap()
    }

    #[test]
    fn cores_are_shared_among_the_gpus_and_a_guarantee_is_a_class() {
        let read = read_text("llama-1,9,120,llama,24,192,1.25,641,60,1\nvit-2,10,5,vit,2,4,0,zero-dp,10,0");
        let (job, truth) = &read.jobs[0];
        assert_eq!((job.submitted, job.goals.class.0), (Time::from_secs(9), 1));
        let worker = Resources { cpu_milli: 8000, ..Resources::gpus(1) };
        assert_eq!(job.shape, Parallelism::rigid(24, worker));
        assert_eq!((truth.iterations, job.declared.iteration), (60.0, Some(Span::from_secs(2))));
        assert_eq!((read.jobs[1].0.goals.class.0, read.models[1].as_str()), (0, "vit"));
    }

    #[test]
    fn bad_rows_are_dropped_with_field_and_value() {
        let rows = [
            "ok,9,120,llama,24,192,1.25,641,60,1",
            "a,9,120,llama,25,192,1.25,641,60,1",
            "b,9,120,llama,24,192,1.25,64,60,1",
            "c,9,120,llama,24,192,1.25,,60,1",
            "d,9,120,llama,24,-1,1.25,641,60,1",
            "e,9,120,llama,24,192,1.25,641,0,1",
            "f,-9,120,llama,24,192,1.25,641,60,1",
        ];
        let read = read_text(&rows.join("\n"));
        assert_eq!(read.report.kept, 1);
        assert_eq!(
            dropped_places(&read),
            [
                "rubick.csv:3: exec_plan 641",
                "rubick.csv:4: exec_plan 64",
                "rubick.csv:5: exec_plan (empty)",
                "rubick.csv:6: num_cpus -1",
                "rubick.csv:7: steps 0",
                "rubick.csv:8: submission_time -9",
            ]
        );
    }
}
