//! Shockwave's traces (NSDI 2023): tab-separated, no header, 12 fields. They are Gavel's ten fields with an
//! adaptation mode and a run time.
//!
//! The run time is that at full speed on the reference GPU. A job in the mode `accordion` or `gns` changes its
//! batch size while it trains, and then really needs less time; that is not modelled. It runs as long as the file
//! says, and such rows are counted. The service-level objective is as in Gavel's traces.

use trainyard_sched::model::{Goals, Parallelism};

use super::error::TraceError;
use super::fields::{
    MOST_ITERATIONS, Problem, Record, Remark, Splitter, duration_s, gpu_count, number_within, time_s,
};
use super::gavel::{objective, weight};
use super::import::{Draft, Import};
use super::lines::Lines;
use super::{Column, Format};
use crate::truth::Truth;

const FIELDS: usize = 12;

/// The entry of the table of formats.
pub(crate) const FORMAT: Format = Format {
    name: "shockwave",
    title: "Shockwave's tab-separated trace of 12 fields",
    columns: &[
        Column { name: "job type", meaning: "field 1: model with its first batch size" },
        Column { name: "command", meaning: "field 2; not read" },
        Column { name: "working directory", meaning: "field 3; not read" },
        Column { name: "step argument", meaning: "field 4; not read" },
        Column { name: "needs data", meaning: "field 5; not read" },
        Column { name: "total steps", meaning: "field 6: iterations in all" },
        Column { name: "GPUs", meaning: "field 7: GPUs of the gang" },
        Column { name: "mode", meaning: "field 8: `static`, `accordion` or `gns`; all run like `static`" },
        Column { name: "priority weight", meaning: "field 9: the job's weight" },
        Column {
            name: "objective",
            meaning: "field 10: the deadline as a multiple of the run time; -1 is none",
        },
        Column { name: "duration", meaning: "field 11: run time in seconds at full speed" },
        Column { name: "arrival", meaning: "field 12: submission in seconds" },
    ],
    detect: |head| head.line.split('\t').count() == FIELDS,
    read,
};

fn read(lines: &mut Lines<'_>, import: &mut Import<'_>) -> Result<(), TraceError> {
    import.assume("run times are those of the reference GPU and the same on every type");
    let mut splitter = Splitter::default();
    while let Some(line) = lines.next()? {
        let row = line.text().and_then(|text| splitter.split(text, b'\t'));
        import.row(line.number, line.bytes, row.and_then(|record| draft(&record)));
    }
    Ok(())
}

fn draft<'a>(record: &Record<'a>) -> Result<Draft<'a>, Problem> {
    record.expect(FIELDS)?;
    let steps = number_within("total steps", record.get(5), 1.0, MOST_ITERATIONS)?;
    let gpus = gpu_count("GPUs", record.get(6))?;
    let mut remarks = Vec::new();
    match record.get(7) {
        "static" => {}
        mode @ ("accordion" | "gns") => {
            let what = "the batch size changes while the job trains; that is not modelled";
            remarks.push(Remark::assumed(what, "mode", mode));
        }
        mode => return Err(Problem::new("mode is none of static, accordion and gns", "mode", mode)),
    }
    let weight = weight("priority weight", record.get(8))?;
    let objective = objective("objective", record.get(9))?;
    let duration = duration_s("duration", record.get(10))?;
    let submitted = time_s("arrival", record.get(11))?;
    let deadline = objective.map(|factor| submitted + duration.scaled(factor));
    Ok(Draft {
        model: record.get(0),
        goals: Goals { weight, deadline, ..Goals::default() },
        remarks,
        ..Draft::plain(submitted, Parallelism::gang(gpus), Truth::iterating(duration, steps, gpus))
    })
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::{Span, Time};

    use crate::trace::{Options, dropped_places, read_from};
    use crate::workload::Done;

    const ROW: &str =
        "LM (batch size 10)\tpython3\tlm\t--steps\t1\t2000\t4\tstatic\t2\t-1.000000\t1000\t55\n";

    #[test]
    fn steps_run_time_weight_and_objective_are_read() {
        let text = format!("{ROW}{}", ROW.replace("-1.000000", "1.5"));
        let read = read_from("s.trace", text.as_bytes(), &Options::default()).unwrap();
        let (job, truth) = &read.jobs[0];
        assert_eq!((job.submitted, job.shape.minimum().gpu_milli), (Time::from_secs(55), 4000));
        assert_eq!((truth.iterations, job.declared.duration()), (2000.0, Some(Span::from_secs(1000))));
        assert_eq!((job.goals.weight, job.goals.deadline), (2.0, None));
        assert_eq!(read.jobs[1].0.goals.deadline, Some(Time::from_secs(55 + 1500)));
        assert_eq!(read.models, ["LM (batch size 10)"]);
    }

    #[test]
    fn adaptation_is_counted_and_bad_rows_are_dropped() {
        let rows = [
            ROW.replace("static", "gns"),
            ROW.replace("static", "adaptive"),
            ROW.replace("\t4\t", "\t0\t"),
            ROW.replace("-1.000000", "-0.5"),
            ROW.replace("\t55", ""),
        ];
        let read = read_from("s.trace", rows.concat().as_bytes(), &Options::default()).unwrap();
        assert_eq!(read.report.kept, 1);
        let said = read.report.findings.iter().find(|f| f.what.contains("batch size changes")).unwrap();
        assert_eq!((said.done, said.examples[0].as_str()), (Done::Assumed, "s.trace:1: mode gns"));
        let places =
            ["s.trace:2: mode adaptive", "s.trace:3: GPUs 0", "s.trace:4: objective -0.5", "s.trace:5"];
        assert_eq!(dropped_places(&read), places);
    }
}
