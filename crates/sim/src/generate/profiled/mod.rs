//! Jobs whose speed was profiled on each type of GPU: the workloads of Gavel (OSDI 2020) and those by which Hadar and HadarE
//! are tried here.
//!
//! Everything random is drawn as Python draws it, in the order of Gavel's generator, so that jobs are the very same as
//! there. Steps are real numbers, as there; a run time follows from them and from a table of throughputs.

mod gavel;
mod hadar;
mod job_types;
mod options;
mod python;

use std::sync::Arc;

use trainyard_sched::model::{
    Declared, Goals, GpuTypeSet, Job, JobId, ModelId, MoveCost, Parallelism, Rates, Span, Tenants, Time,
    Wanted,
};

pub use options::Profiled;

use super::{GenerateError, Parameters, Preset};
use crate::physics::{Locality, ThroughputTable, gavel_throughputs};
use crate::trace::declare;
use crate::truth::{Ending, Speed, Truth};
use crate::workload::{Done, ImportReport, Workload};
use job_types::JOB_TYPES;
use options::{CategoryOptions, GavelOptions, MixOptions};

/// The type to which lengths refer.
const REFERENCE_TYPE: &str = "v100";
/// The types of GPUs of the presets' clusters, in their order.
const GPU_TYPES: [&str; 3] = ["v100", "p100", "k80"];
/// The GPUs that jobs may have.
const SIZES: [u32; 4] = [1, 2, 4, 8];
/// Who owns all jobs.
const TENANT: &str = "all";

/// One job before it is one of ours.
struct Drawn {
    /// Position in [`JOB_TYPES`].
    job_type: usize,
    gpus: u32,
    steps: f64,
    submitted_s: f64,
    weight: f64,
    /// The deadline in seconds after its arrival.
    patience_s: Option<f64>,
}

/// A workload like a preset's.
pub(super) fn generate(
    kind: Profiled,
    preset: &Preset,
    parameters: &Parameters,
    mut report: ImportReport,
) -> Result<Workload, GenerateError> {
    if parameters.days.is_some() || parameters.load.is_some() {
        return Err(GenerateError::OwnArrivals { preset: preset.name });
    }
    let jobs = parameters.jobs.unwrap_or(preset.jobs);
    let seed = parameters.seed.0;
    let table = parameters.throughputs.clone().unwrap_or_else(gavel_throughputs);
    let rates = References::of(&table)?;
    let mut common = Common { move_cost: parameters.move_cost, ..Common::default() };
    let (drawn, distance) = match kind {
        Profiled::Gavel { .. } => {
            let options: GavelOptions = kind.options(preset, &parameters.options)?;
            (gavel::draw(seed, jobs, &options, &rates)?, options.distance)
        }
        Profiled::Categories => {
            let options: CategoryOptions = kind.options(preset, &parameters.options)?;
            common.wanted.mixed_gpu_types = true;
            (hadar::draw(seed, jobs, &rates)?, options.distance)
        }
        Profiled::Mix => {
            let options: MixOptions = kind.options(preset, &parameters.options)?;
            common.goals.copies = options.copies;
            if common.move_cost == MoveCost::default() {
                // Before a node goes to another job, what the one before did is saved or brought together.
                let save_s = options.aggregate_s.min(options.restart_s);
                let cost = &mut common.move_cost;
                cost.save = Span::from_secs_f64(save_s);
                cost.load = Span::from_secs_f64(options.restart_s - save_s);
                cost.merge = Span::from_secs_f64(options.aggregate_s);
            }
            (hadar::draw_mix(seed, jobs, &rates)?, false)
        }
    };
    if !parameters.options.is_empty() {
        let given = parameters.options.iter().map(|(key, value)| format!("{key} = {value}"));
        report.source = format!("{}, {}", report.source, given.collect::<Vec<_>>().join(", "));
    }
    report.find(
        Done::Assumed,
        "speeds are those of the table of throughputs, Gavel's if none was given",
        None,
    );
    if !distance {
        report.find(Done::Assumed, "gangs on several nodes are as fast as those on one", None);
    }
    let table = if distance { table } else { Arc::new(table.without_distance()) };
    let maker = Maker::new(preset, parameters, table, common);
    let jobs =
        drawn.iter().enumerate().map(|(i, drawn)| maker.job(i, drawn)).collect::<Result<Vec<_>, _>>()?;
    (report.rows, report.kept) = (jobs.len() as u64, jobs.len() as u64);
    Ok(Workload {
        jobs,
        tenants: maker.tenants,
        models: JOB_TYPES.iter().map(|job_type| job_type.name()).collect(),
        gpu_types: maker.gpu_types,
        report,
    })
}

/// Steps a second of all job types on the reference type, whole gangs on one node.
struct References {
    table: ThroughputTable,
    rows: Vec<u32>,
}

impl References {
    fn of(table: &ThroughputTable) -> Result<Self, GenerateError> {
        let row = |name: String| {
            let row =
                table.row(&name).filter(|row| table.per_s(*row, REFERENCE_TYPE, 1, Locality::Node).is_some());
            row.ok_or(GenerateError::NotInTable { model: name, gpus: 1, gpu_type: REFERENCE_TYPE })
        };
        let rows = JOB_TYPES.iter().map(|job_type| row(job_type.name())).collect::<Result<_, _>>()?;
        Ok(Self { table: table.clone(), rows })
    }

    /// Steps a second of a gang.
    fn per_s(&self, job_type: usize, gpus: u32) -> Result<f64, GenerateError> {
        let known = self.table.per_s(self.rows[job_type], REFERENCE_TYPE, gpus, Locality::Node);
        let model = || JOB_TYPES[job_type].name();
        known.ok_or_else(|| GenerateError::NotInTable { model: model(), gpus, gpu_type: REFERENCE_TYPE })
    }
}

/// What all jobs of a preset have in common.
#[derive(Default)]
struct Common {
    goals: Goals,
    wanted: Wanted,
    move_cost: MoveCost,
}

/// Makes jobs of what was drawn.
struct Maker<'a> {
    preset: &'a Preset,
    parameters: &'a Parameters,
    table: Arc<ThroughputTable>,
    gpu_types: Vec<Arc<str>>,
    tenants: Tenants,
    common: Common,
    /// For each job type its row in the table, and what is declared of gangs of each of [`SIZES`].
    rows: Vec<(u32, Vec<Option<Arc<Rates>>>)>,
}

impl<'a> Maker<'a> {
    fn new(
        preset: &'a Preset,
        parameters: &'a Parameters,
        table: Arc<ThroughputTable>,
        common: Common,
    ) -> Self {
        let gpu_types: Vec<Arc<str>> = if parameters.gpu_types.is_empty() {
            GPU_TYPES.map(Arc::from).to_vec()
        } else {
            parameters.gpu_types.clone()
        };
        let numbers: Vec<Option<ModelId>> = (0..table.rows())
            .map(|row| JOB_TYPES.iter().position(|job_type| job_type.name() == table.name(row)))
            .map(|position| position.map(|i| ModelId(i as u32)))
            .collect();
        let model = |row: u32| numbers[row as usize];
        let row = |job_type: &job_types::JobType| {
            let row = table.row(&job_type.name()).expect("all types are in the table");
            let sizes: &[u32] = if job_type.distributed { &SIZES } else { &SIZES[..1] };
            let rates = |gpus: &u32| table.rates(row, &gpu_types, Some(*gpus), model).shared();
            (row, sizes.iter().map(rates).collect())
        };
        let rows = JOB_TYPES.iter().map(row).collect();
        let mut tenants = parameters.tenants.clone();
        tenants.intern(TENANT);
        Self { preset, parameters, rows, table, gpu_types, tenants, common }
    }

    fn job(&self, i: usize, drawn: &Drawn) -> Result<(Arc<Job>, Truth), GenerateError> {
        let (row, rates) = &self.rows[drawn.job_type];
        let fits = self.table.gpu_types(*row, drawn.gpus, &self.gpu_types);
        if fits == GpuTypeSet::NONE {
            let model = JOB_TYPES[drawn.job_type].name();
            return Err(GenerateError::FitsNowhere { model, gpus: drawn.gpus });
        }
        let submitted = Time::ZERO + Span::from_secs_f64(drawn.submitted_s);
        let after = |seconds| submitted + Span::from_secs_f64(seconds);
        let reference = self.table.per_s(*row, REFERENCE_TYPE, drawn.gpus, Locality::Node);
        let mut job = Job {
            id: JobId(i as u32),
            name: format!("{}-{}", self.preset.name, i + 1).into(),
            tenant: self.tenants.find(TENANT).expect("it was named"),
            model: Some(ModelId(drawn.job_type as u32)),
            submitted,
            shape: Parallelism::gang(drawn.gpus),
            wanted: Wanted { gpu_types: fits, ..self.common.wanted },
            goals: Goals {
                weight: drawn.weight,
                deadline: drawn.patience_s.map(after),
                ..self.common.goals.clone()
            },
            declared: Declared {
                iterations: Some(drawn.steps),
                iteration: reference.map(|per_s| Span::from_secs_f64(1.0 / per_s)),
                rates: SIZES.iter().position(|size| *size == drawn.gpus).and_then(|i| rates[i].clone()),
                ..Declared::default()
            },
            move_cost: self.common.move_cost,
        };
        declare(&mut job, self.parameters.declared, self.parameters.seed);
        let truth = Truth {
            iterations: drawn.steps,
            speed: Speed::Table { table: Arc::clone(&self.table), row: *row },
            move_cost: self.common.move_cost,
            gradient_bytes: 0.0,
            loss: None,
            ending: Ending::Completed,
            overheads: None,
        };
        Ok((Arc::new(job), truth))
    }
}
