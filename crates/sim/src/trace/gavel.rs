//! Gavel's traces (OSDI 2020): tab-separated, no header, with 7 fields or 10.
//!
//! A job's length is a number of steps; how long they take follows from a table of throughputs, by default
//! Gavel's own. A job that the table does not know is dropped. The service-level objective of the long form is
//! not read.

use std::sync::Arc;

use trainyard_sched::model::{Goals, GpuTypeId, GpuTypeSet, MoveCost, Parallelism, Span, Wanted};

use super::error::TraceError;
use super::fields::{Problem, Record, Splitter, gpu_count, number, number_within, time_s};
use super::import::{Draft, Import};
use super::lines::Lines;
use super::{Column, Format};
use crate::physics::{Locality, ThroughputTable, gavel_throughputs};
use crate::truth::{Ending, Speed, Truth};

/// What declared iteration times refer to.
const REFERENCE_TYPE: &str = "v100";
const MOST_STEPS: f64 = 1e15;
const NO_OBJECTIVE: f64 = -1.0;

/// The entry of the table of formats.
pub(crate) const FORMAT: Format = Format {
    name: "gavel",
    title: "Gavel's tab-separated trace of 7 or 10 fields",
    columns: &[
        Column {
            name: "job type",
            meaning: "field 1: model with batch size, a row of the table of throughputs",
        },
        Column { name: "command", meaning: "field 2; not read" },
        Column { name: "working directory", meaning: "field 3 of 10 only; not read" },
        Column { name: "step argument", meaning: "field 3 of 7, 4 of 10; not read" },
        Column { name: "needs data", meaning: "field 4 of 7, 5 of 10; not read" },
        Column { name: "total steps", meaning: "field 5 of 7, 6 of 10: iterations in all" },
        Column { name: "arrival", meaning: "field 6 of 7, 10 of 10: submission in seconds" },
        Column { name: "GPUs", meaning: "field 7 of 7 and of 10: GPUs of the gang" },
        Column { name: "priority weight", meaning: "field 8 of 10 only: the job's weight" },
        Column { name: "objective", meaning: "field 9 of 10 only; not read" },
    ],
    detect: |head| Places::of(head.line.split('\t').count()).is_some(),
    read,
};

/// Where the fields stand.
#[derive(Clone, Copy)]
struct Places {
    count: usize,
    steps: usize,
    gpus: usize,
    arrival: usize,
    weight: Option<usize>,
    objective: Option<usize>,
}

const SHORT: Places = Places { count: 7, steps: 4, arrival: 5, gpus: 6, weight: None, objective: None };
const LONG: Places = Places { count: 10, steps: 5, gpus: 6, weight: Some(7), objective: Some(8), arrival: 9 };

impl Places {
    fn of(fields: usize) -> Option<Self> {
        [SHORT, LONG].into_iter().find(|places| places.count == fields)
    }
}

fn read(lines: &mut Lines<'_>, import: &mut Import<'_>) -> Result<(), TraceError> {
    let table = import.options.throughputs.clone().unwrap_or_else(gavel_throughputs);
    let gpu_types = import.options.gpu_types.clone();
    let first = lines.peek()?.map_or(0, |line| line.bytes.split(|byte| *byte == b'\t').count());
    let places = Places::of(first).unwrap_or(SHORT);
    import.assume(if import.options.throughputs.is_none() {
        "speeds are Gavel's measured throughputs (simulation_throughputs)"
    } else {
        "speeds are those of the table of throughputs that was given"
    });
    let mut splitter = Splitter::default();
    while let Some(line) = lines.next()? {
        let row = line.text().and_then(|text| splitter.split(text, b'\t'));
        let draft = row.and_then(|record| draft(&record, places, &table, &gpu_types));
        let has_objective = row_has_objective(draft.as_ref().ok().map(|(_, objective)| *objective));
        import.row(line.number, line.bytes, draft.map(|(draft, _)| draft));
        if has_objective {
            import.assume("the row has a service-level objective; it is not used");
        }
    }
    Ok(())
}

fn row_has_objective(objective: Option<f64>) -> bool {
    objective.is_some_and(|objective| objective != NO_OBJECTIVE)
}

/// The job and its service-level objective.
fn draft<'a>(
    record: &Record<'a>,
    places: Places,
    table: &Arc<ThroughputTable>,
    gpu_types: &[Arc<str>],
) -> Result<(Draft<'a>, f64), Problem> {
    record.expect(places.count)?;
    let job_type = record.get(0);
    let steps = number_within("total steps", record.get(places.steps), 1.0, MOST_STEPS)?;
    let gpus = gpu_count("GPUs", record.get(places.gpus))?;
    let submitted = time_s("arrival", record.get(places.arrival))?;
    let weight = match places.weight {
        Some(place) => number_within("priority weight", record.get(place), 0.0, 1e9)?,
        None => 1.0,
    };
    let objective = match places.objective {
        Some(place) => number("objective", record.get(place))?,
        None => NO_OBJECTIVE,
    };
    let unknown = || {
        let what = "the table of throughputs has no row for the job type on so many GPUs";
        Problem::new(what, "job type", &format!("{job_type} on {gpus}"))
    };
    let row = table.row(job_type).ok_or_else(unknown)?;
    let per_s = |gpu_type: &str| table.per_s(row, gpu_type, gpus, Locality::Node);
    let reference = per_s(REFERENCE_TYPE);
    if reference.is_none() && !gpu_types.iter().any(|gpu_type| per_s(gpu_type).is_some()) {
        return Err(unknown());
    }
    let truth = Truth {
        iterations: steps,
        speed: Speed::Table { table: Arc::clone(table), row },
        move_cost: MoveCost::default(),
        gradient_bytes: 0.0,
        curve: None,
        ending: Ending::Completed,
    };
    let fits: Vec<GpuTypeId> = (0..gpu_types.len().min(GpuTypeSet::MAX_TYPES))
        .filter(|i| per_s(&gpu_types[*i]).is_some())
        .map(|i| GpuTypeId(i as u8))
        .collect();
    if fits.is_empty() && !gpu_types.is_empty() {
        let what = "the table of throughputs has no figure for the job type on any GPU type of the cluster";
        return Err(Problem::new(what, "job type", &format!("{job_type} on {gpus}")));
    }
    let everywhere = fits.len() == gpu_types.len();
    let gpu_types = if everywhere { GpuTypeSet::ALL } else { GpuTypeSet::of(&fits) };
    let draft = Draft {
        model: job_type,
        iteration: reference.map(|per_s| Span::from_secs_f64(1.0 / per_s)),
        wanted: Wanted { gpu_types, ..Wanted::default() },
        goals: Goals { weight, ..Goals::default() },
        ..Draft::plain(submitted, Parallelism::gang(gpus), truth)
    };
    Ok((draft, objective))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Options, read_from};
    use crate::workload::Done;

    const SHORT_ROW: &str = "ResNet-18 (batch size 64)\tpython3 main.py\t--num_steps\t1\t1646636\t12.5\t2\n";
    const LONG_ROW: &str = "A3C\tpython3\trl\t--max-steps\t1\t1000\t1\t3\t-1.000000\t0.000000\n";

    #[test]
    fn both_forms_are_read_by_their_number_of_fields() {
        let short = read_from("a.trace", SHORT_ROW.as_bytes(), &Options::default()).unwrap();
        let (job, truth) = &short.jobs[0];
        assert_eq!((truth.iterations, job.submitted.as_secs_f64()), (1_646_636.0, 12.5));
        assert_eq!(job.shape, Parallelism::gang(2));
        assert_eq!(short.models, ["ResNet-18 (batch size 64)"]);
        let long = read_from("b.trace", LONG_ROW.as_bytes(), &Options::default()).unwrap();
        let (job, _) = &long.jobs[0];
        assert_eq!(job.goals.weight, 3.0);
        // 1000 steps at 7.1757... a second; the iteration is rounded to a microsecond.
        let declared_s = job.declared.duration().unwrap().as_secs_f64();
        assert!((declared_s - 1000.0 / 7.175767179667988).abs() < 1e-3, "{declared_s}");
    }

    #[test]
    fn jobs_that_the_table_does_not_know_are_dropped_with_a_finding() {
        let text = format!("{SHORT_ROW}{}", SHORT_ROW.replace("\t2\n", "\t16\n"));
        let read = read_from("a.trace", text.as_bytes(), &Options::default()).unwrap();
        assert_eq!((read.report.rows, read.report.kept), (2, 1));
        let dropped = read.report.findings.iter().find(|f| f.done == Done::Dropped).unwrap();
        assert_eq!(dropped.examples, ["a.trace:2: job type ResNet-18 (batch size 64) on 16"]);
    }

    #[test]
    fn types_on_which_the_model_does_not_fit_are_not_wanted() {
        let text = SHORT_ROW.replace("ResNet-18 (batch size 64)", "ResNet-50 (batch size 128)");
        let gpu_types = vec!["k80".into(), "v100".into()];
        let options = Options { gpu_types, ..Options::default() };
        let read = read_from("a.trace", text.as_bytes(), &options).unwrap();
        assert_eq!(read.jobs[0].0.wanted.gpu_types, GpuTypeSet::of(&[GpuTypeId(1)]));
        let options = Options { gpu_types: vec!["k80".into()], ..Options::default() };
        let error = read_from("a.trace", text.as_bytes(), &options).unwrap_err();
        assert!(error.to_string().contains("any GPU type of the cluster"), "{error}");
    }
}
