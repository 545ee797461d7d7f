//! Gavel's traces (OSDI 2020): tab-separated, no header, with 7 fields or 10.
//!
//! A job's length is a number of steps; how long they take follows from a table of throughputs, by default
//! Gavel's own. A job that the table does not know is dropped. The service-level objective of the long form is -1
//! for none, and else how many times its run time on V100 a job may take from arrival to end, as in Gavel's
//! scheduler (`job.SLO * job.duration` after its arrival); it becomes the deadline.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use trainyard_sched::model::{GpuTypeSet, ModelId, MoveCost, Parallelism, Rates, Span, Time, Wanted};

use super::error::TraceError;
use super::fields::{
    LIMIT_S, MOST_ITERATIONS, Problem, Record, Remark, Splitter, gpu_count, number, number_within, time_s,
};
use super::import::{Draft, Import};
use super::lines::Lines;
use super::{Column, Format};
use crate::physics::{Locality, ThroughputTable, gavel_throughputs};
use crate::truth::{Ending, Speed, Truth};

/// What declared iteration times refer to.
const REFERENCE_TYPE: &str = "v100";
const NO_OBJECTIVE: f64 = -1.0;
/// The largest objective: a million times the run time.
const MOST_PATIENCE: f64 = 1e6;

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
        Column {
            name: "objective",
            meaning: "field 9 of 10 only: the deadline as a multiple of the run time on V100; -1 is none",
        },
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
    let catalogue = Catalogue::of(import);
    let first = lines.peek()?.map_or(0, |line| line.bytes.split(|byte| *byte == b'\t').count());
    let places = Places::of(first).unwrap_or(SHORT);
    let mut splitter = Splitter::default();
    while let Some(line) = lines.next()? {
        let row = line.text().and_then(|text| splitter.split(text, b'\t'));
        let draft = row.and_then(|record| draft(&record, places, &catalogue));
        import.row(line.number, line.bytes, draft);
    }
    Ok(())
}

fn draft<'a>(record: &Record<'a>, places: Places, catalogue: &Catalogue) -> Result<Draft<'a>, Problem> {
    record.expect(places.count)?;
    let steps = number_within("total steps", record.get(places.steps), 1.0, MOST_ITERATIONS)?;
    let gpus = gpu_count("GPUs", record.get(places.gpus))?;
    let submitted = time_s("arrival", record.get(places.arrival))?;
    let weight = places.weight.map_or(Ok(1.0), |place| weight("priority weight", record.get(place)))?;
    let objective = places.objective.map_or(Ok(None), |place| objective("objective", record.get(place)))?;
    let mut draft = catalogue.draft(submitted, record.get(0), gpus, steps)?;
    draft.goals.weight = weight;
    if let Some(factor) = objective {
        match draft.iteration {
            Some(each) => draft.goals.deadline = Some(submitted + each.scaled(steps * factor)),
            None => {
                let what = "the table has no V100 figure for the objective to refer to; it is left out";
                let value = record.get(places.objective.unwrap_or_default());
                draft.remarks.push(Remark::assumed(what, "objective", value));
            }
        }
    }
    Ok(draft)
}

/// A weight among the jobs of a tenant.
pub(super) fn weight(field: &str, value: &str) -> Result<f64, Problem> {
    number_within(field, value, 0.0, 1e9)
}

/// A service-level objective as a multiple of the run time, if there is one.
pub(super) fn objective(field: &str, value: &str) -> Result<Option<f64>, Problem> {
    if number(field, value)? == NO_OBJECTIVE {
        return Ok(None);
    }
    number_within(field, value, 0.0, MOST_PATIENCE).map(Some)
}

/// What job types mean: a table of throughputs, seen from the GPU types of a cluster.
pub(super) struct Catalogue {
    table: Arc<ThroughputTable>,
    gpu_types: Vec<Arc<str>>,
    /// Models are known by number: that of their row.
    models: bool,
    /// What the table says of gangs of each row, for these types.
    rates: RefCell<RatesByGang>,
}

/// By row and gang; nothing where nothing is known.
type RatesByGang = BTreeMap<(u32, u32), Option<Arc<Rates>>>;

impl Catalogue {
    /// The table that was given, or Gavel's own; the report says which.
    pub(super) fn of(import: &mut Import<'_>) -> Self {
        import.assume(if import.options.throughputs.is_none() {
            "speeds are Gavel's measured throughputs (simulation_throughputs)"
        } else {
            "speeds are those of the table of throughputs that was given"
        });
        let table = import.options.throughputs.clone().unwrap_or_else(gavel_throughputs);
        let gpu_types = import.options.gpu_types.clone();
        // Pairs name the other model, which may belong to no job of the trace.
        let models = !gpu_types.is_empty()
            && table.has_pairs()
            && (0..table.rows()).all(|row| import.model(table.name(row)).0 == row);
        Self { table, gpu_types, models, rates: RefCell::default() }
    }

    /// What is known of gangs of a row; shared by all that are alike.
    fn rates(&self, row: u32, gpus: u32) -> Option<Arc<Rates>> {
        let model = |row| self.models.then_some(ModelId(row));
        let made = || self.table.rates(row, &self.gpu_types, Some(gpus), model).shared();
        self.rates.borrow_mut().entry((row, gpus)).or_insert_with(made).clone()
    }

    /// A job of `steps` iterations on `gpus` GPUs. Its declared iteration time is that on V100.
    pub(super) fn draft<'a>(
        &self,
        submitted: Time,
        job_type: &'a str,
        gpus: u32,
        steps: f64,
    ) -> Result<Draft<'a>, Problem> {
        let problem = |what: &str| Problem::new(what, "job type", &format!("{job_type} on {gpus}"));
        let unknown = || problem("the table of throughputs has no row for the job type on so many GPUs");
        let row = self.table.row(job_type).ok_or_else(unknown)?;
        let per_s = |gpu_type: &str| self.table.per_s(row, gpu_type, gpus, Locality::Node);
        let reference = per_s(REFERENCE_TYPE);
        if reference.is_none() && !self.gpu_types.iter().any(|gpu_type| per_s(gpu_type).is_some()) {
            return Err(unknown());
        }
        if self.table.slowest_per_s(row).is_some_and(|per_s| steps / per_s > LIMIT_S) {
            let what = "the steps take longer than three thousand years";
            return Err(Problem::new(what, "total steps", &steps.to_string()));
        }
        let gpu_types = self.table.gpu_types(row, gpus, &self.gpu_types);
        if gpu_types == GpuTypeSet::NONE {
            return Err(problem(
                "the table of throughputs has no figure for the job type on any GPU type of the cluster",
            ));
        }
        let truth = Truth {
            iterations: steps,
            speed: Speed::Table { table: Arc::clone(&self.table), row },
            move_cost: MoveCost::default(),
            gradient_bytes: 0.0,
            loss: None,
            ending: Ending::Completed,
            overheads: None,
        };
        Ok(Draft {
            model: job_type,
            iteration: reference.map(|per_s| Span::from_secs_f64(1.0 / per_s)),
            rates: self.rates(row, gpus),
            wanted: Wanted { gpu_types, ..Wanted::default() },
            ..Draft::plain(submitted, Parallelism::gang(gpus), truth)
        })
    }
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::GpuTypeId;

    use super::*;
    use crate::trace::{Options, dropped_places, read_from};
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

    #[test]
    fn steps_that_nobody_lives_to_see_are_dropped() {
        let text = format!("{SHORT_ROW}{}", SHORT_ROW.replace("1646636", "1e15"));
        let read = read_from("a.trace", text.as_bytes(), &Options::default()).unwrap();
        assert_eq!(dropped_places(&read), ["a.trace:2: total steps 1000000000000000"]);
    }

    #[test]
    fn an_objective_is_a_multiple_of_the_run_time_on_v100() {
        let text = LONG_ROW.replace("-1.000000", "1.2").replace("0.000000", "50");
        let read = read_from("b.trace", text.as_bytes(), &Options::default()).unwrap();
        let job = &read.jobs[0].0;
        let patience_s = job.goals.deadline.unwrap().since(job.submitted).as_secs_f64();
        assert!((patience_s - 1.2 * 1000.0 / 7.175767179667988).abs() < 1e-3, "{patience_s}");
        let none = read_from("b.trace", LONG_ROW.as_bytes(), &Options::default()).unwrap();
        assert_eq!(none.jobs[0].0.goals.deadline, None);
        let odd = format!("{LONG_ROW}{}", LONG_ROW.replace("-1.000000", "-2"));
        let odd = read_from("b.trace", odd.as_bytes(), &Options::default()).unwrap();
        assert_eq!(dropped_places(&odd), ["b.trace:2: objective -2"]);
    }
}
