//! Workloads from a seed. Draws sizes, run times, owners, endings and arrivals of a preset; reads no file.
//!
//! Every kind of draw has its own branch of the seed, so a new kind of draw changes no other number.

mod error;
mod graphs;
mod learning;
mod presets;
mod profiled;
mod rhythm;
mod servers;
mod shares;

use std::sync::Arc;

use rand::RngExt;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;
use serde::Serialize;
use serde::de::DeserializeOwned;
use trainyard_sched::decide::{Parameter, ParameterError, parameters as read};
use trainyard_sched::model::{
    Goals, Job, JobId, MoveCost, Parallelism, Seed, Span, TenantId, Tenants, Time, Wanted,
};

pub use error::GenerateError;
pub use graphs::GraphMix;
pub use learning::{Declares, LEAVES_AT, Learning};
pub use presets::{PRESETS, Preset};
pub use profiled::Profiled;
pub use servers::{
    SLOT_S, ServerJob, ServerMix, ServerSpeeds, SpeedsError, draw_server_jobs, server_cluster,
    server_model_needs_gpu, server_models, server_workload,
};

use crate::physics::ThroughputTable;
use crate::trace::{Declaring, SPREAD_LIMIT, declare};
use crate::truth::{Ending, Truth};
use crate::workload::{Done, ImportReport, Workload};
use presets::SizeClass;
use shares::{Shares, quantile};

const DAY_S: f64 = 86_400.0;
const JOB_LIMIT: u32 = 10_000_000;
const DAY_LIMIT: f64 = 3650.0;

/// What to generate.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// The name of a preset; see [`PRESETS`].
    pub preset: String,
    /// The seed.
    pub seed: Seed,
    /// How many jobs; `None` means as many as the preset has, or as many as fill `days` with `load`.
    pub jobs: Option<u32>,
    /// Over how many days they arrive; `None` means as the preset, or as many as give `load`.
    pub days: Option<f64>,
    /// The GPU time that is asked for, as a part of the GPU time that a cluster has while jobs arrive. With
    /// `jobs` and `days` as well, run times are scaled to meet it.
    pub load: Option<Load>,
    /// Tenants that are known before, usually the cluster's; the preset's own are added.
    pub tenants: Tenants,
    /// What jobs declare about their length.
    pub declared: Declaring,
    /// What moving costs each job.
    pub move_cost: MoveCost,
    /// How fast jobs with parameter servers go.
    pub server_speeds: ServerSpeeds,
    /// Options of the preset.
    pub options: toml::Table,
    /// The GPU types of the cluster in the order of their ids. While empty, they are those of the preset's cluster.
    pub gpu_types: Vec<Arc<str>>,
    /// How fast profiled jobs go; `None` means Gavel's figures.
    pub throughputs: Option<Arc<ThroughputTable>>,
}

/// A part of the GPU time of a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// 1 is as much as there is.
    pub fraction: f64,
    /// The GPUs of the cluster.
    pub gpus: u64,
}

impl Default for Parameters {
    /// The busy day.
    fn default() -> Self {
        Self {
            preset: "day".to_owned(),
            seed: Seed(0),
            jobs: None,
            days: None,
            load: None,
            tenants: Tenants::default(),
            declared: Declaring::Exact,
            move_cost: MoveCost::default(),
            server_speeds: ServerSpeeds::default(),
            options: toml::Table::new(),
            gpu_types: Vec::new(),
            throughputs: None,
        }
    }
}

impl Preset {
    /// What may be said of its jobs, with what holds if nobody says otherwise.
    pub fn options(&self) -> (&'static [Parameter], toml::Table) {
        match (self.profiled, self.graphs) {
            (Some(profiled), _) => (profiled.parameters(), profiled.defaults()),
            (None, Some(mix)) => (mix.parameters(), mix.defaults()),
            (None, None) => (&[], toml::Table::new()),
        }
    }
}

impl Parameters {
    /// The same with `factor` times as many jobs over the same days, and so with `factor` times the load. (Where a load
    /// is given and no days, it is met exactly and the days only on average.)
    pub fn times(mut self, factor: f64) -> Result<Self, GenerateError> {
        let preset = find(&self.preset)?;
        if let Some(profiled) = preset.profiled {
            profiled.faster(&mut self.options, factor);
            let jobs = f64::from(self.jobs.unwrap_or(preset.jobs)) * factor;
            self.jobs = Some(jobs.round().clamp(1.0, f64::from(JOB_LIMIT)) as u32);
            return Ok(self);
        }
        // What is open is filled in first, so that it does not follow from the new numbers.
        match (self.jobs, self.days, self.load) {
            (None, None, None) => {
                (self.jobs, self.days) = (Some(preset.jobs), Some(preset.days));
                self.load = preset.load.map(|(fraction, gpus)| Load { fraction, gpus });
            }
            (Some(jobs), None, None) => {
                self.days = Some(preset.days * f64::from(jobs) / f64::from(preset.jobs));
            }
            (None, Some(days), None) => self.jobs = Some(jobs_in(preset, days)),
            (None, None, Some(_)) => self.jobs = Some(preset.jobs),
            _ => {}
        }
        let more = |jobs: u32| (f64::from(jobs) * factor).round().clamp(1.0, f64::from(JOB_LIMIT)) as u32;
        self.jobs = self.jobs.map(more);
        self.load = self.load.map(|load| Load { fraction: load.fraction * factor, ..load });
        Ok(self)
    }
}

/// As many jobs as the preset has in so many days.
fn jobs_in(preset: &Preset, days: f64) -> u32 {
    (f64::from(preset.jobs) * days / preset.days).round().clamp(1.0, f64::from(JOB_LIMIT)) as u32
}

/// What is drawn for one job, arrival aside.
struct Draw {
    gpus: u32,
    duration_s: f64,
}

/// A workload like the preset's.
pub fn generate(parameters: &Parameters) -> Result<Workload, GenerateError> {
    let preset = find(&parameters.preset)?;
    check(parameters)?;
    let mut report = ImportReport { source: describe(preset, parameters), ..ImportReport::default() };
    report.find(Done::Assumed, format!("figures of the preset {}: {}", preset.name, preset.source), None);
    if let Some(kind) = preset.profiled {
        return profiled::generate(kind, preset, parameters, report);
    }
    if let Some(mix) = preset.graphs {
        return graphs::generate(mix, preset, parameters, report);
    }
    if let Some(key) = parameters.options.keys().next() {
        let hint = "it has none".to_owned();
        return Err(GenerateError::UnknownOption { preset: preset.name, key: key.clone(), hint });
    }
    if let Some(mix) = preset.servers {
        return servers::generate(&mix, preset, parameters, report);
    }
    if let Some(learning) = preset.learning {
        return learn(&learning(), preset, parameters, report);
    }
    let plan = Plan::of(preset, parameters);
    let mut draws = draw_jobs(preset, parameters.seed, &plan);
    let gpu_time_s: f64 = draws.iter().map(|draw| f64::from(draw.gpus) * draw.duration_s).sum();
    let days = match (plan.days, plan.load) {
        (Some(days), Some(load)) => {
            let factor = load.gpu_time_s(days) / gpu_time_s;
            if plan.scale {
                draws.iter_mut().for_each(|draw| draw.duration_s *= factor);
                let what = format!("run times were multiplied by {factor:.3} to meet the load");
                report.find(Done::Assumed, what, None);
            }
            days
        }
        (Some(days), None) => days,
        (None, Some(load)) => gpu_time_s / load.gpu_time_s(1.0),
        (None, None) => preset.days,
    };
    if !(days.is_finite() && 0.0 < days && days <= DAY_LIMIT) {
        return Err(GenerateError::Days { days });
    }
    report.rows = draws.len() as u64;
    report.kept = report.rows;
    Ok(assemble(preset, parameters, &draws, days, report))
}

/// Jobs that learn. Exact declarations tell curves and speeds, absent ones the kind of algorithm only.
fn learn(
    learning: &Learning,
    preset: &Preset,
    parameters: &Parameters,
    mut report: ImportReport,
) -> Result<Workload, GenerateError> {
    if parameters.load.is_some() {
        return Err(GenerateError::NoLoad { preset: preset.name });
    }
    let declares = match parameters.declared {
        Declaring::Exact => Declares::ALL,
        Declaring::Absent => Declares::NOTHING,
        Declaring::Noisy { .. } => return Err(GenerateError::NoNoise { preset: preset.name }),
    };
    let jobs = parameters.jobs.or(parameters.days.map(|days| jobs_in(preset, days))).unwrap_or(preset.jobs);
    let gap_s = parameters.days.map_or(learning.gap_s, |days| days * DAY_S / f64::from(jobs));
    let drawn = Learning { jobs, gap_s, declares, ..learning.clone() };
    (report.rows, report.kept) = (u64::from(jobs), u64::from(jobs));
    let workload = drawn.draw(parameters.seed, &parameters.tenants, parameters.move_cost);
    Ok(Workload { report, ..workload })
}

/// How many jobs, over how many days, at which load; what is open follows from the draws.
struct Plan {
    jobs: Option<u32>,
    days: Option<f64>,
    load: Option<Load>,
    /// Whether run times are scaled to meet the load.
    scale: bool,
}

impl Plan {
    fn of(preset: &Preset, given: &Parameters) -> Self {
        let Parameters { jobs, days, load, .. } = given;
        let own_load = preset.load.map(|(fraction, gpus)| Load { fraction, gpus });
        match (*jobs, *days, *load) {
            // Nothing given: the preset as it was made.
            (None, None, None) => {
                let (jobs, days) = (Some(preset.jobs), Some(preset.days));
                Self { jobs, days, load: own_load, scale: own_load.is_some() }
            }
            (Some(jobs), None, None) => {
                // The rate of the preset.
                let days = preset.days * f64::from(jobs) / f64::from(preset.jobs);
                Self { jobs: Some(jobs), days: Some(days), load: None, scale: false }
            }
            (None, Some(days), None) => {
                Self { jobs: Some(jobs_in(preset, days)), days: Some(days), load: None, scale: false }
            }
            (None, None, load) => Self { jobs: Some(preset.jobs), days: None, load, scale: false },
            (jobs, days, load) => Self { jobs, days, load, scale: jobs.is_some() && load.is_some() },
        }
    }
}

impl Load {
    /// GPU-seconds of so many days.
    fn gpu_time_s(self, days: f64) -> f64 {
        self.fraction * self.gpus as f64 * days * DAY_S
    }
}

fn find(name: &str) -> Result<&'static Preset, GenerateError> {
    PRESETS.iter().find(|preset| preset.name == name).ok_or_else(|| GenerateError::NoSuchPreset {
        name: name.to_owned(),
        hint: crate::trace::nearest(name, PRESETS.iter().map(|preset| preset.name)),
    })
}

/// The options of a preset: its defaults, with what was given.
fn options_of<P: Serialize + DeserializeOwned + Default>(
    preset: &Preset,
    parameters: &[Parameter],
    defaults: toml::Table,
    given: &toml::Table,
) -> Result<P, GenerateError> {
    let mut all = defaults;
    all.extend(given.clone());
    read(preset.name, parameters, &all).map_err(|error| match error {
        ParameterError::UnknownKey { key, suggestion, known, .. } => {
            let hint = suggestion.map_or(format!("it has {known}"), |key| format!("did you mean `{key}`?"));
            GenerateError::UnknownOption { preset: preset.name, key, hint }
        }
        error => GenerateError::Option { preset: preset.name, message: error.to_string() },
    })
}

fn check(parameters: &Parameters) -> Result<(), GenerateError> {
    if let Some(jobs) = parameters.jobs.filter(|jobs| !(1..=JOB_LIMIT).contains(jobs)) {
        return Err(GenerateError::Jobs { jobs });
    }
    if let Some(days) = parameters.days.filter(|days| !(*days > 0.0 && *days <= DAY_LIMIT)) {
        return Err(GenerateError::Days { days });
    }
    let possible = |load: &Load| load.fraction > 0.0 && load.fraction <= 100.0 && load.gpus > 0;
    if let Some(Load { fraction, gpus }) = parameters.load.filter(|load| !possible(load)) {
        return Err(GenerateError::Load { fraction, gpus });
    }
    if let Declaring::Noisy { spread } = parameters.declared
        && !(0.0..=SPREAD_LIMIT).contains(&spread)
    {
        return Err(GenerateError::Spread { spread });
    }
    Ok(())
}

fn describe(preset: &Preset, parameters: &Parameters) -> String {
    format!("generated: preset {}, seed {}", preset.name, parameters.seed.0)
}

fn branch(seed: Seed, name: &str) -> Pcg64 {
    Pcg64::seed_from_u64(seed.branch(name).0)
}

/// Sizes and run times: as many jobs as planned, or as many as fill the days with the load.
fn draw_jobs(preset: &Preset, seed: Seed, plan: &Plan) -> Vec<Draw> {
    let mut sizes = branch(seed, "sizes");
    let mut durations = branch(seed, "durations");
    let choices: Vec<(&SizeClass, u32, f64)> = preset
        .classes
        .iter()
        .flat_map(|class| class.sizes.iter().map(move |(gpus, share)| (class, *gpus, *share)))
        .collect();
    let shares = Shares::new(choices.iter().map(|choice| choice.2));
    let limit = plan.jobs.unwrap_or(JOB_LIMIT);
    let enough_s = match (plan.jobs, plan.days, plan.load) {
        (None, Some(days), Some(load)) => load.gpu_time_s(days),
        _ => f64::INFINITY,
    };
    let mut draws = Vec::new();
    let mut gpu_time_s = 0.0;
    while (draws.len() as u32) < limit && gpu_time_s < enough_s {
        let (class, gpus, _) = choices[shares.pick(&mut sizes)];
        let duration_s = quantile(class.durations_s, durations.random());
        gpu_time_s += f64::from(gpus) * duration_s;
        draws.push(Draw { gpus, duration_s });
    }
    draws
}

fn assemble(
    preset: &Preset,
    parameters: &Parameters,
    draws: &[Draw],
    days: f64,
    report: ImportReport,
) -> Workload {
    let seed = parameters.seed;
    let arrivals = preset.rhythm.arrivals(draws.len(), days * DAY_S, &mut branch(seed, "arrivals"));
    let (mut owners, mut endings) = (branch(seed, "tenants"), branch(seed, "endings"));
    let owner_shares = Shares::new(preset.tenants.iter().map(|(_, share)| *share));
    let ending_shares = Shares::new(preset.endings.iter().copied());
    let mut tenants = parameters.tenants.clone();
    let owner_ids: Vec<TenantId> = preset.tenants.iter().map(|(name, _)| tenants.intern(name)).collect();
    let job = |(i, (draw, submitted)): (usize, (&Draw, Time))| {
        let duration = Span::from_secs_f64(draw.duration_s).max(Span(1));
        let mut truth = Truth::lasting(duration, draw.gpus);
        truth.move_cost = parameters.move_cost;
        truth.ending = [Ending::Completed, Ending::Failed, Ending::Killed][ending_shares.pick(&mut endings)];
        let mut job = Job {
            id: JobId(i as u32),
            name: format!("{}-{}", preset.name, i + 1).into(),
            tenant: owner_ids[owner_shares.pick(&mut owners)],
            model: None,
            submitted,
            shape: Parallelism::gang(draw.gpus),
            wanted: Wanted::default(),
            goals: Goals::default(),
            declared: Workload::honest(&truth),
            move_cost: parameters.move_cost,
        };
        declare(&mut job, parameters.declared, seed);
        (Arc::new(job), truth)
    };
    let jobs = draws.iter().zip(arrivals).enumerate().map(job).collect();
    Workload { jobs, tenants, models: Vec::new(), gpu_types: Vec::new(), report }
}

#[cfg(test)]
mod tests;
