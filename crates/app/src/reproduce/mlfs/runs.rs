//! Who is run on which jobs of tasks, and what is measured of it.

use std::collections::BTreeMap;

use rayon::prelude::*;
use trainyard_sched::control::Nothing;
use trainyard_sched::metrics::ObjectivesSummary;
use trainyard_sched::model::Seed;
use trainyard_sim::backend::Options;
use trainyard_sim::cluster::parse_words;
use trainyard_sim::generate::{PRESETS, Parameters, generate};
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::{Setup, simulate};

use super::super::Progress;
use crate::config::PolicyChoice;
use crate::experiment::Stopwatch;
use crate::failure::Failure;

/// Jobs that took no longer than this count as quick ones.
const QUICK_S: f64 = 6000.0;

/// A policy by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alone {
    MlfH,
    MlfHPlus,
    /// MLF-H where every job is as urgent as any other.
    NoUrgency,
    /// MLF-H that does not look at deadlines.
    NoDeadline,
    /// MLF-H that does not look at traffic.
    NoBandwidth,
    /// MLF-H that moves nothing.
    NoMigration,
    Graphene,
    Tiresias,
    HyperSched,
    Gandiva,
    Borg,
    Slaq,
}

/// Those that are compared with MLFS.
pub(super) const RIVALS: [Alone; 6] =
    [Alone::Graphene, Alone::Tiresias, Alone::HyperSched, Alone::Gandiva, Alone::Borg, Alone::Slaq];

/// A policy, with load control or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Who {
    pub(super) policy: Alone,
    pub(super) controlled: bool,
}

impl Alone {
    pub(super) const fn plain(self) -> Who {
        Who { policy: self, controlled: false }
    }

    pub(super) const fn controlled(self) -> Who {
        Who { policy: self, controlled: true }
    }

    /// Its name in the table of policies, and its parameters.
    const fn chosen(self) -> (&'static str, &'static str) {
        match self {
            Self::MlfH => ("mlf-h", ""),
            Self::MlfHPlus => ("mlf-h+", ""),
            Self::NoUrgency => ("mlf-h", "urgency = false"),
            Self::NoDeadline => ("mlf-h", "deadline = false"),
            Self::NoBandwidth => ("mlf-h", "bandwidth = false"),
            Self::NoMigration => ("mlf-h", "migration = false"),
            Self::Graphene => ("graphene", ""),
            Self::Tiresias => ("tiresias", "variant = 'gittins'"),
            Self::HyperSched => ("hypersched", ""),
            Self::Gandiva => ("gandiva-pools", ""),
            Self::Borg => ("borg", ""),
            Self::Slaq => ("slaq", "epoch_s = 60.0"),
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::MlfH => "MLF-H",
            Self::MlfHPlus => "MLF-H+",
            Self::NoUrgency => "MLF-H without urgency",
            Self::NoDeadline => "MLF-H without deadlines",
            Self::NoBandwidth => "MLF-H without bandwidth",
            Self::NoMigration => "MLF-H without migration",
            Self::Graphene => "Graphene",
            Self::Tiresias => "Tiresias",
            Self::HyperSched => "HyperSched",
            Self::Gandiva => "Gandiva",
            Self::Borg => "Borg fair",
            Self::Slaq => "SLAQ",
        }
    }
}

/// MLFS before it has learnt anything: MLF-H under load control.
pub(super) const MLFS: Who = Alone::MlfH.controlled();
/// The same with what we found to be better.
pub(super) const MLFS_PLUS: Who = Alone::MlfHPlus.controlled();

impl Who {
    pub(super) fn label(self) -> String {
        match (self.policy, self.controlled) {
            (Alone::MlfH, true) => "MLFS".to_owned(),
            (Alone::MlfHPlus, true) => "MLFS+".to_owned(),
            (policy, false) => policy.label().to_owned(),
            (policy, true) => format!("{} + C", policy.label()),
        }
    }

    fn choice(self) -> Result<PolicyChoice, Failure> {
        let (name, parameters) = self.policy.chosen();
        let own: toml::Table = parameters.parse().expect("parameters of this project are TOML");
        if !self.controlled {
            return Ok(PolicyChoice::new(name, own)?);
        }
        let mut given = toml::Table::new();
        given.insert("inner".to_owned(), name.into());
        if !own.is_empty() {
            given.insert("inner_parameters".to_owned(), own.into());
        }
        Ok(PolicyChoice::new("mlf-c", given)?)
    }
}

/// The workload of a run, seed aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Load {
    /// A preset.
    pub(super) preset: &'static str,
    /// How many jobs arrive in the time of the preset.
    pub(super) jobs: u32,
    /// Its options in TOML.
    pub(super) options: &'static str,
}

/// What is measured of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) jct_min: f64,
    pub(super) makespan_h: f64,
    pub(super) waiting_s: f64,
    pub(super) longest_wait_s: f64,
    /// The part of the jobs that took at most 100 minutes.
    pub(super) quick: f64,
    /// How long decisions took on this machine, all but one of a hundred.
    pub(super) decision_p99_ms: f64,
    pub(super) objectives: ObjectivesSummary,
    /// The part of the jobs that ended.
    pub(super) ended: f64,
}

/// A run by what is run.
pub(super) type Key = (Load, Who);

/// All runs, those of each kind in the order of the seeds.
pub(super) type Runs = BTreeMap<Key, Vec<Measured>>;

fn perform((load, who): Key, seed: Seed) -> Result<Measured, Failure> {
    let preset = PRESETS.iter().find(|preset| preset.name == load.preset).expect("a preset of this project");
    let words = preset.cluster.expect("it has machines");
    let cluster = parse_words(words).expect("these are words of a cluster");
    let workload = generate(&Parameters {
        preset: load.preset.to_owned(),
        jobs: Some(load.jobs),
        options: load.options.parse().expect("options of this project are TOML"),
        seed,
        ..Parameters::default()
    })?;
    let policy = who.choice()?;
    let setup = Setup {
        cluster,
        tenants: workload.tenants.clone(),
        workload,
        physics: Physics::default(),
        options: Options::default(),
        seed,
    };
    let (timed, times) = Stopwatch::around(policy.build()?);
    let finished = simulate(setup, timed, &mut Nothing, |_, _| {})
        .map_err(|source| Failure::Setup { policy: policy.label(), source })?;
    let summary = finished.metrics.summary(finished.ended);
    // A job that has not ended when everything is over has taken until then at least.
    let taken = |row: &trainyard_sched::metrics::JobRow| {
        row.ended.unwrap_or(finished.ended).since(row.submitted).as_secs_f64()
    };
    let rows: Vec<(f64, f64)> =
        finished.metrics.rows().map(|row| (taken(row), (taken(row) - row.held_s).max(0.0))).collect();
    let count = rows.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| rows.iter().map(of).sum::<f64>() / count;
    Ok(Measured {
        jct_min: mean(|row| row.0) / 60.0,
        makespan_h: summary.makespan_s / 3600.0,
        waiting_s: mean(|row| row.1),
        longest_wait_s: rows.iter().map(|row| row.1).fold(0.0, f64::max),
        quick: rows.iter().filter(|row| row.0 <= QUICK_S).count() as f64 / count,
        decision_p99_ms: times.percentiles_us().1.unwrap_or(f64::NAN) / 1e3,
        objectives: summary.objectives.unwrap_or_default(),
        ended: summary.completed as f64 / count,
    })
}

/// Runs all of them on the same seeds.
pub(super) fn perform_all(keys: &[Key], seeds: &[Seed], progress: &Progress<'_>) -> Result<Runs, Failure> {
    let tasks: Vec<(Key, Seed)> =
        keys.iter().flat_map(|key| seeds.iter().map(move |seed| (*key, *seed))).collect();
    (progress.expect)(tasks.len() as u64);
    let results: Vec<Result<Measured, Failure>> = tasks
        .par_iter()
        .with_max_len(1)
        .map(|(key, seed)| {
            let measured = perform(*key, *seed);
            (progress.done)();
            measured
        })
        .collect();
    let mut runs = Runs::new();
    for ((key, _), measured) in tasks.into_iter().zip(results) {
        runs.entry(key).or_default().push(measured?);
    }
    Ok(runs)
}
