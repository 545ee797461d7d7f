//! What may be chosen of Hadar.

use serde::{Deserialize, Serialize};

use crate::decide::{Parameter, ROUND_S, chosen, counted, flagged, numbered};
use crate::model::MoveCost;

use super::utility::Utility;

/// What the schedule is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Objective {
    /// The mean time from arrival to end.
    #[default]
    Jct,
    /// The time until all are done.
    Makespan,
    /// Finish-time fairness.
    Ftf,
}

/// Which utility.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Form {
    /// That of the objective.
    #[default]
    Objective,
    /// See [`Utility::Inv`].
    Inv,
    /// See [`Utility::Norm`].
    Norm,
    /// See [`Utility::Raw`].
    Raw,
    /// See [`Utility::Rho`].
    Rho,
    /// See [`Utility::Fair`].
    Fair,
}

/// How the makespan is made short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum MakespanBy {
    /// By the parts of the time that a linear program says.
    #[default]
    Targets,
    /// By payoffs, the longest job first.
    Longest,
}

/// What going on elsewhere costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Restart {
    /// What the job declares.
    #[default]
    Declared,
    /// The same for all.
    Given,
    /// Nothing.
    Free,
}

/// All of it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Parameters {
    /// Whether whole schedules are reserved.
    pub admission: bool,
    /// After so many hours of waiting a job goes first.
    pub age_h: f64,
    /// States that the search keeps.
    pub beam: usize,
    /// What each further node costs.
    pub beta: f64,
    /// η, as a multiple of the least.
    pub eta: f64,
    /// Whether spread gangs are slower as measured.
    pub kappa: bool,
    /// How the makespan is made short.
    pub makespan_by: MakespanBy,
    /// Whether gangs may be on several types.
    pub mixing: bool,
    /// What the schedule is for.
    pub objective: Objective,
    /// What a restart costs.
    pub restart: Restart,
    /// Where that is the same for all.
    pub restart_s: f64,
    /// The length of a round.
    pub round_s: f64,
    /// What a job is worth.
    pub utility: Form,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            admission: false,
            age_h: 24.0,
            beam: 16,
            beta: 0.0,
            eta: 1.0,
            kappa: true,
            makespan_by: MakespanBy::Targets,
            mixing: true,
            objective: Objective::Jct,
            restart: Restart::Declared,
            restart_s: 10.0,
            round_s: 360.0,
            utility: Form::Objective,
        }
    }
}

impl Parameters {
    /// Whether a linear program says who is where.
    pub(super) fn has_targets(&self) -> bool {
        self.objective == Objective::Makespan && self.makespan_by == MakespanBy::Targets
    }

    /// The utility that is meant.
    pub(super) const fn utility(&self) -> Utility {
        match (self.utility, self.objective) {
            (Form::Inv, _) | (Form::Objective, Objective::Jct) => Utility::Inv,
            (Form::Norm, _) | (Form::Objective, Objective::Makespan) => Utility::Norm,
            (Form::Raw, _) => Utility::Raw,
            (Form::Rho, _) => Utility::Rho,
            (Form::Fair, _) | (Form::Objective, Objective::Ftf) => Utility::Fair,
        }
    }

    /// What it costs to start a job, or to move one that runs, in seconds.
    pub(super) fn restart_s(&self, cost: &MoveCost, runs: bool) -> f64 {
        match self.restart {
            Restart::Declared if runs => (cost.save + cost.load).as_secs_f64(),
            Restart::Declared => cost.load.as_secs_f64(),
            Restart::Given => self.restart_s,
            Restart::Free => 0.0,
        }
    }
}

/// What they mean and may be.
pub(super) const PARAMETERS: &[Parameter] = &[
    flagged(
        "admission",
        "whether a job is admitted once, with GPUs reserved from one round until another, as the proof of the ratio has it",
    ),
    numbered(
        "age_h",
        "h",
        (0.0, 1e6),
        "a job that waited so long since it last ran goes first, whatever it costs; 0 means never",
    ),
    counted(
        "beam",
        "states",
        (1, 64),
        "states that are kept where more than 12 jobs are decided on; 1 gives each job in turn its best place",
    ),
    numbered(
        "beta",
        "",
        (0.0, 1.0),
        "what each further node of a gang costs, in what the job is worth for one GPU; 0.05 makes sense without `kappa`",
    ),
    numbered(
        "eta",
        "",
        (1.0, 1e9),
        "lowers the price of idle GPUs: η as a multiple of the least that the proof allows",
    ),
    flagged("kappa", "whether a gang on several nodes is taken to be as slow as it was measured there"),
    chosen(
        "makespan_by",
        &["targets", "longest"],
        "how the makespan is made short: by the parts of the time that a linear program gives each job on each type, or by payoffs, the longest job first",
    ),
    flagged("mixing", "whether a gang that allows it may be on GPUs of several types"),
    chosen(
        "objective",
        &["jct", "makespan", "ftf"],
        "the mean time to the end, the time until all are done, or finish-time fairness",
    ),
    chosen(
        "restart",
        &["declared", "given", "free"],
        "what going on elsewhere costs: what the job declares, `restart_s`, or nothing",
    ),
    numbered("restart_s", "s", (0.001, 1e6), "what a restart costs where `restart` is `given`"),
    ROUND_S,
    chosen(
        "utility",
        &["objective", "inv", "norm", "raw", "rho", "fair"],
        "what a job is worth: as belongs to the objective, 1/JCT, shortest time/JCT, iterations/JCT, isolated time/JCT, or 1/(isolated time JCT)",
    ),
];
