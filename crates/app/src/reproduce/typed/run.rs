//! A preset under a policy, and what is measured of it.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use trainyard_sched::control::{Batch, Core, Log, Step};
use trainyard_sched::metrics::{CopyBooks, Spending, Usage};
use trainyard_sched::model::{Cluster, GpuTypeId, JobId, MoveCost, Seed, Span, Time};
use trainyard_sched::policies::gavel;
use trainyard_sched::policies::hadar::{Price, told};
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
    /// Only these jobs are measured, by number.
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
    /// What was asked for beside it.
    pub(in crate::reproduce) extra: Extra,
}

/// What is followed of a run only where it is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::reproduce) struct Follow {
    /// What ran where.
    pub(in crate::reproduce) places: bool,
    /// What the GPUs cost that jobs held.
    pub(in crate::reproduce) spending: bool,
    /// The prices that Hadar tells.
    pub(in crate::reproduce) prices: bool,
    /// What copies report, every five seconds.
    pub(in crate::reproduce) copies: bool,
}

/// What came of that.
#[derive(Clone, Debug, Default)]
pub(in crate::reproduce) struct Extra {
    /// Which job was on GPUs of which type, since when and until when.
    pub(in crate::reproduce) places: Vec<(JobId, GpuTypeId, Time, Time)>,
    /// Dollars.
    pub(in crate::reproduce) spent: Option<f64>,
    /// By GPU type, since when in seconds.
    pub(in crate::reproduce) prices: Vec<(f64, Vec<Price>)>,
    /// What copies did.
    pub(in crate::reproduce) copies: Option<CopyBooks>,
    /// Which part of the nodes trained, over time.
    pub(in crate::reproduce) trained: Vec<(f64, f64)>,
    /// When each job ended, in seconds.
    pub(in crate::reproduce) ended_s: Vec<Option<f64>>,
}

impl Seen {
    /// Of each job that both runs ended, how many times as long it took here as there.
    pub(in crate::reproduce) fn times_as_long(&self, other: &Self) -> Vec<f64> {
        let both = self.jct_s.iter().zip(&other.jct_s);
        both.filter_map(|(own, other)| Some((*own)? / (*other)?)).collect()
    }
}

/// Which job is on GPUs of which type.
#[derive(Default)]
struct Places {
    at: Time,
    open: BTreeMap<(JobId, GpuTypeId), Time>,
    closed: Vec<(JobId, GpuTypeId, Time, Time)>,
}

impl Places {
    /// From now on these are there, and no others.
    fn set(&mut self, there: &BTreeSet<(JobId, GpuTypeId)>) {
        let at = self.at;
        let Self { open, closed, .. } = self;
        open.retain(|(job, gpu_type), since| {
            let stays = there.contains(&(*job, *gpu_type));
            if !stays {
                closed.push((*job, *gpu_type, *since, at));
            }
            stays
        });
        for place in there {
            open.entry(*place).or_insert(at);
        }
    }
}

/// What follows a run.
struct Watch {
    usage: Usage,
    places: Option<Places>,
    spending: Option<Spending>,
    prices: Option<Vec<(f64, Vec<Price>)>>,
    copies: Option<CopyBooks>,
}

impl Watch {
    fn new(follow: Follow, cluster: &Cluster) -> Self {
        let Follow { places, spending, prices, copies } = follow;
        Self {
            usage: Usage::new(cluster),
            places: places.then(Places::default),
            spending: spending.then(|| Spending::new(gavel::prices(cluster))),
            prices: prices.then(Vec::new),
            copies: copies.then(CopyBooks::default),
        }
    }
}

impl Log for Watch {
    fn step(&mut self, batch: &Batch, step: &Step) {
        self.usage.step(batch, step);
        if let Some(places) = &mut self.places {
            places.at = batch.at;
        }
        if let Some(spending) = &mut self.spending {
            spending.step(batch, step);
        }
        if let Some(copies) = &mut self.copies {
            copies.step(batch, step);
        }
        let note = step.decision.as_ref().and_then(|decision| decision.note.as_ref());
        if let (Some(prices), Some(note)) = (&mut self.prices, note) {
            prices.push((batch.at.as_secs_f64(), told(note)));
        }
    }

    fn rest(&mut self, core: &Core) {
        if let Some(spending) = &mut self.spending {
            spending.rest(core);
        }
        if let Some(places) = &mut self.places {
            let cluster = core.state().cluster();
            let held = core.state().jobs().flat_map(|view| {
                let nodes = view.held.nodes().into_iter();
                nodes.filter_map(|node| Some((view.id(), cluster.node(node).gpu_type?)))
            });
            places.set(&held.collect());
        }
    }
}

/// Runs one.
pub(in crate::reproduce) fn perform(
    case: &Case,
    contender: &Contender,
    follow: Follow,
) -> Result<Seen, Failure> {
    let table: toml::Table = contender.parameters.parse().expect("parameters of this project are TOML");
    let policy = PolicyChoice::new(contender.policy, table)?;
    let (cluster, workload) = (case.machines(), case.jobs()?);
    let mut watch = Watch::new(follow, &cluster);
    let report_every = follow.copies.then(|| Span::from_secs(5));
    let setup = Setup {
        cluster,
        tenants: workload.tenants.clone(),
        workload,
        physics: Physics::default(),
        options: Options { report_every, ..Options::default() },
        seed: case.seed,
    };
    let finished = simulate(setup, policy.build()?, &mut watch, |_, _| {})
        .map_err(|source| Failure::Setup { policy: policy.label(), source })?;
    let trained = watch.usage.utilisation();
    let summary = finished.metrics.summary(finished.ended);
    let since = |from: fn(&trainyard_sched::metrics::JobRow) -> Time| {
        let each = finished.metrics.rows();
        each.map(|row| row.ended.map(|ended| ended.since(from(row)).as_secs_f64())).collect()
    };
    let jct_s: Vec<Option<f64>> = since(|row| row.submitted);
    let (from, to) = case.measured.unwrap_or((0, jct_s.len()));
    let measured = &jct_s[from.min(jct_s.len())..to.min(jct_s.len())];
    let all: Option<Vec<f64>> = (!measured.is_empty() && measured.len() == to - from)
        .then(|| measured.iter().copied().collect::<Option<_>>())
        .flatten();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let mut places = watch.places.unwrap_or_default();
    places.at = finished.ended;
    places.set(&BTreeSet::new());
    let extra = Extra {
        places: places.closed,
        spent: watch.spending.as_ref().map(Spending::spent),
        prices: watch.prices.unwrap_or_default(),
        copies: watch.copies,
        trained: watch.usage.over_time(),
        ended_s: since(|_| Time::ZERO),
    };
    Ok(Seen {
        jct_h: all.map(|all| mean(&all) / HOUR_S),
        makespan_h: summary.makespan_s / HOUR_S,
        utilization: summary.gpu_utilization,
        trained: trained.map_or(0.0, |(trained, _)| trained),
        wait_h: summary.avg_wait_s.unwrap_or(f64::NAN) / HOUR_S,
        jct_s,
        used: finished.metrics.used_gpus.means(),
        extra,
    })
}

/// Runs all of them, and answers in their order.
pub(in crate::reproduce) fn perform_all(
    tasks: &[(Case, Contender)],
    progress: &Progress<'_>,
) -> Result<Vec<Seen>, Failure> {
    (progress.expect)(tasks.len() as u64);
    let run = |(case, contender): &(Case, Contender)| {
        let seen = perform(case, contender, Follow::default());
        (progress.done)();
        seen
    };
    let seen: Vec<Result<Seen, Failure>> = tasks.par_iter().map(run).collect();
    seen.into_iter().collect()
}
