//! What may be chosen of MLF-H.

use serde::{Deserialize, Serialize};

use crate::decide::{Parameter, ROUND_S, chosen, counted, flagged, numbered};

use super::priority::{Dependents, Weights};

/// In what the times of equation 4 are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TimeUnit {
    Hours,
    Minutes,
    Seconds,
}

impl TimeUnit {
    pub(super) const fn seconds(self) -> f64 {
        match self {
            Self::Hours => 3600.0,
            Self::Minutes => 60.0,
            Self::Seconds => 1.0,
        }
    }
}

/// What remains of a job, in equation 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Remaining {
    /// Time, as in the paper.
    Time,
    /// Time times the GPUs that the job demands.
    GpuTime,
}

/// By what tasks are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RankBy {
    /// The priority of the paper.
    Priority,
    /// What finishing the job is worth for what it still takes.
    Finishing,
}

/// What becomes of a task that had to leave an overloaded node and found no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Unplaced {
    /// It goes back to the queue, as in the paper, unless the overload is over.
    Queue,
    /// It stays where it is.
    Stay,
}

/// The parameters of `mlf-h`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Parameters {
    pub(super) alpha: f64,
    pub(super) gamma: f64,
    pub(super) weight_deadline: f64,
    pub(super) weight_remaining: f64,
    pub(super) weight_waiting: f64,
    pub(super) time_unit: TimeUnit,
    pub(super) dep_mode: Dependents,
    pub(super) remaining_in: Remaining,
    pub(super) rank_by: RankBy,
    pub(super) rank_normalised: bool,
    pub(super) urgency_on_total: bool,
    pub(super) ps_global_first: bool,
    pub(super) urgency: bool,
    pub(super) deadline: bool,
    pub(super) bandwidth: bool,
    pub(super) together: bool,
    pub(super) migration: bool,
    pub(super) overload: f64,
    pub(super) migration_share: f64,
    pub(super) ps_all: bool,
    pub(super) unplaced: Unplaced,
    pub(super) most_scanned: i64,
    pub(super) patience_h: f64,
    pub(super) round_s: f64,
    pub(super) at_events: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            alpha: 0.3,
            gamma: 0.8,
            weight_deadline: 0.3,
            weight_remaining: 0.3,
            weight_waiting: 0.35,
            time_unit: TimeUnit::Hours,
            dep_mode: Dependents::Sum,
            remaining_in: Remaining::Time,
            rank_by: RankBy::Priority,
            rank_normalised: false,
            urgency_on_total: false,
            ps_global_first: false,
            urgency: true,
            deadline: true,
            bandwidth: true,
            together: false,
            migration: true,
            overload: 0.9,
            migration_share: 0.1,
            ps_all: false,
            unplaced: Unplaced::Queue,
            most_scanned: 4096,
            patience_h: 0.0,
            round_s: 60.0,
            at_events: true,
        }
    }
}

/// The parameters of `mlf-h+`: the same, with other defaults; why they are so is said at the head of `mlfs`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Plus(pub(super) Parameters);

impl Default for Plus {
    fn default() -> Self {
        Self(Parameters {
            rank_by: RankBy::Finishing,
            together: true,
            migration: false,
            overload: 1.0,
            patience_h: 4.0,
            ..Parameters::default()
        })
    }
}

impl Parameters {
    pub(super) const fn weights(&self) -> Weights {
        Weights {
            alpha: self.alpha,
            gamma: self.gamma,
            deadline: if self.deadline { self.weight_deadline } else { 0.0 },
            remaining: self.weight_remaining,
            waiting: self.weight_waiting,
            dependents: self.dep_mode,
            urgency_on_total: self.urgency_on_total,
        }
    }
}

/// What they mean and may be.
pub(super) const PARAMETERS: &[Parameter] = &[
    numbered(
        "alpha",
        "",
        (0.0, 1.0),
        "the weight of what training has to gain beside that of time (α in the paper)",
    ),
    numbered("gamma", "", (0.0, 1.0), "what a task has of the priority of those that depend on it (γ)"),
    numbered("weight_deadline", "", (0.0, 1e6), "the weight of one over the time to the deadline (γ_d)"),
    numbered("weight_remaining", "", (0.0, 1e6), "the weight of one over the remaining time (γ_r)"),
    numbered("weight_waiting", "", (0.0, 1e6), "the weight of the time a task has waited (γ_w)"),
    chosen(
        "time_unit",
        &["hours", "minutes", "seconds"],
        "in what these times are measured; the paper does not say",
    ),
    chosen(
        "dep_mode",
        &["sum", "mean"],
        "whether dependents count by their sum, as in the paper, or by their mean",
    ),
    chosen(
        "remaining_in",
        &["time", "gpu_time"],
        "what remains of a job: time, as in the paper, or time times the GPUs that it demands",
    ),
    chosen(
        "rank_by",
        &["priority", "finishing"],
        "the priority of the paper, or urgency over what the job still takes, and the time it has waited",
    ),
    flagged(
        "rank_normalised",
        "whether both parts of a priority are replaced by their ranks before they are weighed",
    ),
    flagged("urgency_on_total", "whether urgency multiplies the whole priority instead of its learning part"),
    flagged(
        "ps_global_first",
        "whether parameter servers go before everything else, and not only before the workers of their job",
    ),
    flagged("urgency", "whether urgency counts"),
    flagged("deadline", "whether deadlines count"),
    flagged("bandwidth", "whether data between tasks count when nodes and tasks are chosen"),
    flagged(
        "together",
        "whether tasks that must run together go to one node where one has room for all of them",
    ),
    flagged("migration", "whether tasks leave overloaded nodes"),
    numbered("overload", "", (0.05, 1.0), "the utilisation beyond which a node or a GPU is overloaded (h_r)"),
    numbered(
        "migration_share",
        "",
        (0.0, 1.0),
        "of the tasks on overloaded GPUs, the share of the lowest priority that may leave (p_s); at least one may",
    ),
    flagged("ps_all", "whether that share holds for overloads of other resources, too"),
    chosen(
        "unplaced",
        &["queue", "stay"],
        "whether a task that had to leave and found no node waits, as in the paper, or stays where it is",
    ),
    counted(
        "most_scanned",
        "tasks",
        (1, 1_000_000),
        "for how many waiting tasks a node is sought in one decision",
    ),
    numbered(
        "patience_h",
        "h",
        (0.0, 1e6),
        "how long what waits may be passed over by what comes behind it in the queue; 0: for ever, as in the paper",
    ),
    ROUND_S,
    flagged("at_events", "whether it decides also when jobs come and go, and not only in rounds"),
];
