//! Jobs with parameter servers that arrive in slots of 20 minutes: the workloads on which DL2 is compared with Optimus and
//! DRF (specification of DL2, part C and section 5.4).
//!
//! Arrivals: a curve over the day times a noise, scaled so that the busiest slot of a week has the wanted number, rounded
//! up as in the public code; a trace begins anywhere in that week. Lengths are log-normal. The curve and the distribution
//! are ours; published are the mean length, the rhythm and the counting by 20 minutes.

mod profile;
mod rbf;

use std::path::PathBuf;
use std::sync::Arc;

use rand::RngExt;
use rand_distr::{Distribution, Gamma, LogNormal, Poisson};
use trainyard_sched::model::{
    Cluster, DataParallel, Declared, Goals, Job, JobId, ModelId, MoveCost, Parallelism, Resources, Seed,
    Span, SpeedFunction, Tenants, Time, Wanted, WorkerRange,
};

pub use rbf::SpeedsError;

use crate::trace::declare;
use crate::truth::{Ending, Speed, Truth};
use crate::workload::{Done, ImportReport, Workload};

use super::{GenerateError, Parameters, Preset, branch};
use profile::MODELS;

/// The length of a slot in seconds.
pub const SLOT_S: u64 = 1200;

/// CPU slots of a node, and GPU slots; one GPU is four of them.
const NODE_SLOTS: u64 = 8;
/// The most workers of a job, and the most servers.
const MOST_WORKERS: u32 = 16;
/// Slots of a week.
const WEEK: usize = 504;
/// Jobs in an average slot before scaling: so many that counting adds next to nothing to the noise.
const MEAN_ARRIVALS: f64 = 1000.0;
/// The standard deviation of the noise, relative to its mean.
const NOISE: f64 = 0.3;
/// The least and the greatest rate of a day, relative to the mean, and the exponent of the raised cosine that makes the
/// mean so. The peak is at 17 h.
const RATES: (f64, f64) = (0.1, 2.4);
const EXPONENT: f64 = 1.814_15;
/// Lengths in minutes: median, mean and the longest.
const LENGTH: (f64, f64, f64) = (35.0, 147.0, 1155.0);
/// Units of work of the longest job.
const MOST_UNITS: f64 = 30_000.0;

/// How jobs with parameter servers are mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerMix {
    /// Arrivals in the busiest slot.
    pub most_arrivals: u32,
    /// Whether the model follows from the length, as in the public code, or is drawn apart from it.
    pub model_by_length: bool,
}

/// Nodes of 8 CPU and 8 GPU slots.
pub fn server_cluster(nodes: u32) -> Cluster {
    let mut cluster = Cluster::uniform(nodes, NODE_SLOTS, "slot");
    cluster.nodes.iter_mut().for_each(|node| node.holds.cpu_milli = Resources::cpus(NODE_SLOTS).cpu_milli);
    cluster
}

/// How fast jobs with parameter servers go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ServerSpeeds {
    /// As measured with one total batch, at 30 sizes, and between them.
    #[default]
    Strong,
    /// A smooth function fitted to all that was measured with one total batch.
    StrongFitted,
    /// A smooth function fitted to what was measured with a batch for each worker.
    Weak,
    /// All that was measured, from a file in the form of the public code of DL2, as that code interpolates it.
    File {
        /// The file.
        path: PathBuf,
        /// Whether runs that failed count as speed 0, as in that code, or are left out.
        keep_failed: bool,
    },
}

impl ServerSpeeds {
    /// A function for each model, in units of work a second.
    ///
    /// # Errors
    /// If a file is named and cannot be used.
    pub fn functions(&self) -> Result<Vec<SpeedFunction>, SpeedsError> {
        let measured = |table| SpeedFunction::Measured(Arc::new(table));
        Ok(match self {
            Self::Strong => MODELS.iter().map(|model| measured(model.as_measured())).collect(),
            Self::StrongFitted => MODELS.iter().map(|model| model.as_fitted()).collect(),
            Self::Weak => MODELS.iter().map(|model| model.as_weak()).collect(),
            Self::File { path, keep_failed } => {
                rbf::read(path, *keep_failed)?.into_iter().map(measured).collect()
            }
        })
    }

    fn words(&self) -> String {
        match self {
            Self::Strong => "measured with one total batch, bilinear between 30 sizes".to_owned(),
            Self::StrongFitted => "fitted to those measured with one total batch".to_owned(),
            Self::Weak => "fitted to those measured with a batch for each worker".to_owned(),
            Self::File { path, keep_failed } => {
                let failed = if *keep_failed { "kept as speed 0" } else { "left out" };
                format!("interpolated from {}, failed runs {failed}", path.display())
            }
        }
    }
}

/// One job with parameter servers.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerJob {
    /// The position of its model in [`server_models`].
    pub model: usize,
    /// The slot in which it arrives.
    pub slot: u64,
    /// Units of work.
    pub units: f64,
}

/// The names of the models, with the samples that are one unit of work.
pub fn server_models() -> impl Iterator<Item = (&'static str, f64)> {
    MODELS.iter().map(|model| (model.name, model.samples))
}

/// Whether the workers of a model take GPU slots, by its position.
pub const fn server_model_needs_gpu(model: usize) -> bool {
    MODELS[model].needs_gpu
}

/// These jobs as a workload. `speeds` has a function for each model.
pub fn server_workload(jobs: &[ServerJob], speeds: &[SpeedFunction], name: &str) -> Workload {
    let mut tenants = Tenants::default();
    let tenant = tenants.intern("all");
    let cpus = Resources::cpus(2);
    let gang = |model: usize| {
        let gpu = if MODELS[model].needs_gpu { Resources::gpus(4) } else { Resources::NONE };
        let range = WorkerRange { min: 1, max: MOST_WORKERS };
        let shape = DataParallel { worker: cpus + gpu, workers: range, server: Some(cpus), servers: range };
        Parallelism::DataParallel(shape)
    };
    let job = |(i, of): (usize, &ServerJob)| {
        let speed = speeds[of.model].clone();
        let alone = speed.iterations_per_s(1, 1);
        let job = Job {
            id: JobId(i as u32),
            name: format!("{name}-{}", i + 1).into(),
            tenant,
            model: Some(ModelId(of.model as u32)),
            submitted: Time::from_secs(of.slot * SLOT_S),
            shape: gang(of.model),
            wanted: Wanted::default(),
            goals: Goals::default(),
            declared: Declared {
                iterations: Some(of.units),
                iteration: (alone > 0.0).then(|| Span::from_secs_f64(1.0 / alone)),
                speed: Some(speed.clone()),
                ..Declared::default()
            },
            move_cost: MoveCost::default(),
        };
        let truth = Truth {
            iterations: of.units,
            speed: Speed::Function(speed),
            move_cost: MoveCost::default(),
            gradient_bytes: 0.0,
            loss: None,
            ending: Ending::Completed,
            overheads: None,
        };
        (Arc::new(job), truth)
    };
    Workload {
        jobs: jobs.iter().enumerate().map(job).collect(),
        tenants,
        models: MODELS.iter().map(|model| model.name.to_owned()).collect(),
        gpu_types: Vec::new(),
        report: ImportReport::default(),
    }
}

/// So many jobs of a mix.
pub fn draw_server_jobs(mix: &ServerMix, jobs: u32, seed: Seed) -> Vec<ServerJob> {
    let (median, mean, longest) = LENGTH;
    let sigma = (2.0 * (mean / median).ln()).sqrt();
    let lengths = LogNormal::new(median.ln(), sigma).expect("a spread above 0");
    let (mut length, mut model) = (branch(seed, "durations"), branch(seed, "models"));
    let slots = arrivals(mix.most_arrivals, jobs, seed);
    let draw = |slot: u64| {
        let minutes = lengths.sample(&mut length).min(longest);
        // Drawn in any case, so that both kinds of preset have the same lengths.
        let any = model.random_range(0..MODELS.len());
        let octile = octile((minutes / median).ln() / sigma);
        let model = if mix.model_by_length { octile } else { any };
        ServerJob { model, slot, units: minutes / longest * MOST_UNITS }
    };
    slots.into_iter().map(draw).collect()
}

/// In which eighth of all a standard normal number lies.
fn octile(z: f64) -> usize {
    // The quantiles of the standard normal distribution at 1/8, 2/8 and so on.
    const EDGES: [f64; 7] = [-1.150_349, -0.674_490, -0.318_639, 0.0, 0.318_639, 0.674_490, 1.150_349];
    EDGES.partition_point(|edge| *edge <= z)
}

/// The slot of each of so many jobs, in order.
fn arrivals(most: u32, jobs: u32, seed: Seed) -> Vec<u64> {
    let mut random = branch(seed, "arrivals");
    let noise = Gamma::new(1.0 / (NOISE * NOISE), NOISE * NOISE).expect("a shape above 0");
    let busy: Vec<f64> = (0..WEEK)
        .map(|slot| {
            let mean = rate(slot) * noise.sample(&mut random) * MEAN_ARRIVALS;
            Poisson::new(mean).expect("a mean above 0").sample(&mut random)
        })
        .collect();
    let busiest = busy.iter().copied().fold(0.0, f64::max);
    let counts =
        busy.iter().map(|count| (count / busiest * f64::from(most)).ceil().min(f64::from(most)) as u32);
    let counts: Vec<u32> = counts.collect();
    let first = random.random_range(0..WEEK);
    let slots = (0..).flat_map(|slot: u64| {
        let count = counts[(first + slot as usize) % WEEK];
        std::iter::repeat_n(slot, count as usize)
    });
    slots.take(jobs as usize).collect()
}

/// The rate of arrivals in a slot of the day, relative to the mean.
fn rate(slot: usize) -> f64 {
    let hour = (slot / 3 % 24) as f64;
    let (least, most) = RATES;
    let wave = (1.0 + (std::f64::consts::TAU * (hour - 17.0) / 24.0).cos()) / 2.0;
    least + (most - least) * wave.powf(EXPONENT)
}

/// A workload like a preset's.
pub(super) fn generate(
    mix: &ServerMix,
    preset: &Preset,
    parameters: &Parameters,
    mut report: ImportReport,
) -> Result<Workload, GenerateError> {
    if parameters.days.is_some() || parameters.load.is_some() {
        return Err(GenerateError::OwnArrivals { preset: preset.name });
    }
    let jobs = draw_server_jobs(mix, parameters.jobs.unwrap_or(preset.jobs), parameters.seed);
    let speeds = parameters.server_speeds.functions()?;
    let mut workload = server_workload(&jobs, &speeds, preset.name);
    let mut tenants = parameters.tenants.clone();
    let tenant = tenants.intern("all");
    for (job, truth) in &mut workload.jobs {
        let job = Arc::make_mut(job);
        job.tenant = tenant;
        job.move_cost = parameters.move_cost;
        truth.move_cost = parameters.move_cost;
        declare(job, parameters.declared, parameters.seed);
    }
    let speeds = parameters.server_speeds.words();
    if parameters.server_speeds != ServerSpeeds::default() {
        report.source = format!("{}, speeds {speeds}", report.source);
    }
    report.find(Done::Assumed, format!("speeds: {speeds}"), None);
    (report.rows, report.kept) = (jobs.len() as u64, jobs.len() as u64);
    Ok(Workload { tenants, report, ..workload })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_day_has_its_mean_and_its_extremes() {
        let rates: Vec<f64> = (0..72).map(rate).collect();
        let mean = rates.iter().sum::<f64>() / 72.0;
        assert!((mean - 1.0).abs() < 1e-4, "{mean}");
        assert_eq!(rates.iter().copied().fold(0.0, f64::max), rates[17 * 3]);
        assert!((rates[17 * 3] - 2.4).abs() < 1e-9 && (rates[5 * 3] - 0.1).abs() < 1e-9);
    }

    #[test]
    fn lengths_models_and_arrivals_are_as_said() {
        let draw = |model_by_length| {
            draw_server_jobs(&ServerMix { most_arrivals: 3, model_by_length }, 40_000, Seed(1))
        };
        let [correlated, apart] = [true, false].map(draw);
        let mut minutes: Vec<f64> = correlated.iter().map(|job| job.units / MOST_UNITS * 1155.0).collect();
        minutes.sort_by(f64::total_cmp);
        assert!((minutes[20_000] - 35.0).abs() < 1.0, "{}", minutes[20_000]);
        // The cap at 1155 minutes takes 11 minutes off the mean of 147 and more.
        let mean = minutes.iter().sum::<f64>() / 4e4;
        assert!((100.0..147.0).contains(&mean), "{mean}");
        for jobs in [&correlated, &apart] {
            for model in 0..MODELS.len() {
                let share = jobs.iter().filter(|job| job.model == model).count() as f64 / 4e4;
                assert!((share - 0.125).abs() < 0.01, "{model}: {share}");
            }
            let mut in_slot = std::collections::BTreeMap::new();
            jobs.iter().for_each(|job| *in_slot.entry(job.slot).or_insert(0) += 1);
            assert_eq!(in_slot.values().max(), Some(&3));
            assert!(jobs.is_sorted_by_key(|job| job.slot));
        }
        // With lengths of their own, short jobs are ResNet and long ones the word language model.
        let longest = |jobs: &[ServerJob], model| {
            jobs.iter().filter(|job| job.model == model).map(|job| job.units).fold(0.0, f64::max)
        };
        assert!(longest(&correlated, 0) < longest(&correlated, 7) / 50.0);
        assert!(longest(&apart, 0) == MOST_UNITS && longest(&apart, 7) == MOST_UNITS);
        assert!(correlated.iter().zip(&apart).all(|(a, b)| (a.units, a.slot) == (b.units, b.slot)));
    }

    #[test]
    fn jobs_go_as_fast_as_their_model_and_declare_it() {
        let speeds = ServerSpeeds::Strong.functions().expect("these are figures");
        let jobs = [ServerJob { model: 5, slot: 2, units: 100.0 }];
        let workload = server_workload(&jobs, &speeds, "test");
        let (job, truth) = &workload.jobs[0];
        assert_eq!(job.submitted, Time::from_secs(2400));
        assert_eq!(job.shape.minimum(), Resources::cpus(4), "no GPU for this model");
        assert_eq!(truth.speed, Speed::Function(job.declared.speed.clone().expect("declared")));
        let unit_s = job.declared.iteration.expect("declared").as_secs_f64();
        assert!((unit_s - 193.0 / 61.9).abs() < 1e-5, "{unit_s}");
    }
}
