//! A preset under a policy, and what is measured of it.

use rayon::prelude::*;
use trainyard_sched::control::{Batch, Log, Step};
use trainyard_sched::metrics::{Details, Usage};
use trainyard_sched::model::{Cluster, MoveCost, Seed, Span, Time};
use trainyard_sim::backend::Options;
use trainyard_sim::cluster::parse_words;
use trainyard_sim::generate::{PRESETS, Parameters, generate};
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::{Setup, simulate};
use trainyard_sim::workload::Workload;

use super::HOUR_S;
use crate::config::PolicyChoice;
use crate::failure::Failure;
use crate::reproduce::Progress;

/// A policy with its parameters.
#[derive(Clone, Debug)]
pub(in crate::reproduce) struct Contender {
    /// What it is called in rows.
    pub(in crate::reproduce) label: &'static str,
    /// Its name in the table of policies.
    pub(in crate::reproduce) policy: &'static str,
    /// Its parameters in TOML.
    pub(in crate::reproduce) parameters: String,
}

pub(in crate::reproduce) fn contender(
    label: &'static str,
    policy: &'static str,
    parameters: &str,
) -> Contender {
    Contender { label, policy, parameters: parameters.to_owned() }
}

/// A workload and its machines.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::reproduce) struct Case {
    /// The preset.
    pub(in crate::reproduce) preset: &'static str,
    /// Its options in TOML.
    pub(in crate::reproduce) options: String,
    /// How many jobs; `None` means as many as it has.
    pub(in crate::reproduce) jobs: Option<u32>,
    /// The machines; `None` means its own.
    pub(in crate::reproduce) cluster: Option<&'static str>,
    /// The seed.
    pub(in crate::reproduce) seed: Seed,
    /// Seconds of a restart, where the preset does not say.
    pub(in crate::reproduce) restart_s: f64,
    /// Only these jobs are measured, by number, and the run ends when the last job has arrived.
    pub(in crate::reproduce) measured: Option<(usize, usize)>,
}

impl Case {
    /// A preset as it is.
    pub(in crate::reproduce) const fn of(preset: &'static str, seed: Seed) -> Self {
        let options = String::new();
        Self { preset, options, jobs: None, cluster: None, seed, restart_s: 0.0, measured: None }
    }

    /// The machines.
    pub(in crate::reproduce) fn machines(&self) -> Cluster {
        let preset = PRESETS.iter().find(|preset| preset.name == self.preset);
        let words = self.cluster.or_else(|| preset.and_then(|preset| preset.cluster));
        parse_words(words.expect("a preset with machines")).expect("these are words of a cluster")
    }

    /// The jobs.
    pub(in crate::reproduce) fn jobs(&self) -> Result<Workload, Failure> {
        let parameters = Parameters {
            preset: self.preset.to_owned(),
            options: self.options.parse().expect("options of this project are TOML"),
            jobs: self.jobs,
            seed: self.seed,
            move_cost: MoveCost { load: Span::from_secs_f64(self.restart_s), ..MoveCost::default() },
            gpu_types: self.machines().gpu_types.iter().map(|gpu_type| gpu_type.name.clone()).collect(),
            ..Parameters::default()
        };
        Ok(generate(&parameters)?)
    }
}

/// What is measured of a run.
#[derive(Clone, Debug)]
pub(in crate::reproduce) struct Seen {
    /// The mean time from arrival to end of the measured jobs, in hours; `None` if one did not end.
    pub(in crate::reproduce) jct_h: Option<f64>,
    /// Until all were done, in hours.
    pub(in crate::reproduce) makespan_h: f64,
    /// The part of GPU time that was used.
    pub(in crate::reproduce) utilization: f64,
    /// The part of the time for which nodes trained.
    pub(in crate::reproduce) trained: f64,
    /// The mean time without GPUs, from arrival to end, in hours.
    pub(in crate::reproduce) wait_h: f64,
    /// Times from arrival to end, in seconds, by job.
    pub(in crate::reproduce) jct_s: Vec<Option<f64>>,
    /// GPUs in use over time.
    pub(in crate::reproduce) used: Vec<(f64, f64)>,
    /// What ran where, of runs of which that is drawn.
    pub(in crate::reproduce) details: Option<Details>,
}

impl Seen {
    /// Of each job that both runs ended, how many times as long it took here as there.
    pub(in crate::reproduce) fn times_as_long(&self, other: &Self) -> Vec<f64> {
        let both = self.jct_s.iter().zip(&other.jct_s);
        both.filter_map(|(own, other)| Some((*own)? / (*other)?)).collect()
    }
}

/// How much of a run is followed.
enum Watch {
    Usage(Usage),
    All(Box<Details>),
}

impl Log for Watch {
    fn step(&mut self, batch: &Batch, step: &Step) {
        match self {
            Self::Usage(usage) => usage.step(batch, step),
            Self::All(details) => details.step(batch, step),
        }
    }
}

/// Runs one.
pub(in crate::reproduce) fn perform(
    case: &Case,
    contender: &Contender,
    detailed: bool,
) -> Result<Seen, Failure> {
    let table: toml::Table = contender.parameters.parse().expect("parameters of this project are TOML");
    let policy = PolicyChoice::new(contender.policy, table)?;
    let (cluster, workload) = (case.machines(), case.jobs()?);
    let mut watch = if detailed {
        Watch::All(Box::new(Details::new(&cluster, &workload.tenants)))
    } else {
        Watch::Usage(Usage::new(&cluster))
    };
    let last = workload.jobs.last().map_or(Time::ZERO, |(job, _)| job.submitted);
    let horizon = if case.measured.is_some() { last } else { Options::default().horizon };
    let setup = Setup {
        cluster,
        tenants: workload.tenants.clone(),
        workload,
        physics: Physics::default(),
        options: Options { horizon, ..Options::default() },
        seed: case.seed,
    };
    let finished = simulate(setup, policy.build()?, &mut watch, |_, _| {})
        .map_err(|source| Failure::Setup { policy: policy.label(), source })?;
    let (trained, details) = match watch {
        Watch::Usage(usage) => (usage.utilisation(), None),
        Watch::All(mut details) => {
            details.finish(finished.ended);
            (details.usage.utilisation(), Some(*details))
        }
    };
    let summary = finished.metrics.summary(finished.ended);
    let jct_s: Vec<Option<f64>> = finished
        .metrics
        .rows()
        .map(|row| row.ended.map(|ended| ended.since(row.submitted).as_secs_f64()))
        .collect();
    let (from, to) = case.measured.unwrap_or((0, jct_s.len()));
    let measured = &jct_s[from.min(jct_s.len())..to.min(jct_s.len())];
    let all: Option<Vec<f64>> = (!measured.is_empty() && measured.len() == to - from)
        .then(|| measured.iter().copied().collect::<Option<_>>())
        .flatten();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    Ok(Seen {
        jct_h: all.map(|all| mean(&all) / HOUR_S),
        makespan_h: summary.makespan_s / HOUR_S,
        utilization: summary.gpu_utilization,
        trained: trained.map_or(0.0, |(trained, _)| trained),
        wait_h: summary.avg_wait_s.unwrap_or(f64::NAN) / HOUR_S,
        jct_s,
        used: finished.metrics.used_gpus.means(),
        details,
    })
}

/// Runs all of them, and answers in their order.
pub(in crate::reproduce) fn perform_all(
    tasks: &[(Case, Contender)],
    progress: &Progress<'_>,
) -> Result<Vec<Seen>, Failure> {
    (progress.expect)(tasks.len() as u64);
    let run = |(case, contender): &(Case, Contender)| {
        let seen = perform(case, contender, false);
        (progress.done)();
        seen
    };
    let seen: Vec<Result<Seen, Failure>> = tasks.par_iter().map(run).collect();
    seen.into_iter().collect()
}
