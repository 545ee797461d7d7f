//! A job as its owner describes it. What it really does is the simulator's secret.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    Better, Convergence, Curve, Goals, GpuTypeSet, JobId, ModelId, Parallelism, Rates, Span, SpeedFunction,
    StopRule, TenantId, Time,
};

/// A training job: everything that is known when it arrives and does not change afterwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// What its owner or the trace calls it.
    pub name: Arc<str>,
    /// Who owns it.
    pub tenant: TenantId,
    /// What it trains, where known.
    pub model: Option<ModelId>,
    /// When it was submitted.
    pub submitted: Time,
    /// How it can be cut into pieces.
    pub shape: Parallelism,
    /// Where it may run.
    pub wanted: Wanted,
    /// What it is for.
    pub goals: Goals,
    /// What is claimed about its length and speed.
    pub declared: Declared,
    /// What stopping and starting it costs, as far as declared.
    pub move_cost: MoveCost,
}

impl Job {
    /// Whether it is better left alone once it runs: it may not be moved, or it would lose all that it did since its start. Such
    /// jobs that took turns would never end.
    pub const fn stays_once_it_runs(&self) -> bool {
        !self.goals.movable
            || (self.move_cost.loses_when_stopped && self.move_cost.checkpoint_every.is_none())
    }

    /// How many iterations it is to come to, if that is known: as many as it says that it has, or fewer if it is to be stopped
    /// before.
    pub fn goal(&self) -> Option<f64> {
        let declared = self.declared.iterations;
        match self.goals.stop {
            StopRule::Iterations(most) => Some(declared.map_or(most as f64, |all| all.min(most as f64))),
            StopRule::OwnIterations | StopRule::AtPeak | StopRule::AtAccuracy(_) => declared,
        }
    }
}

/// Constraints on where a job may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Wanted {
    /// The acceptable GPU types.
    pub gpu_types: GpuTypeSet,
    /// How close its workers must be.
    pub topology: Topology,
    /// Whether its workers may sit on GPUs of different types at one time.
    pub mixed_gpu_types: bool,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { gpu_types: GpuTypeSet::ALL, topology: Topology::Anywhere, mixed_gpu_types: false }
    }
}

/// How close the parts of a job must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topology {
    /// Any nodes.
    #[default]
    Anywhere,
    /// Nodes of one rack.
    SameRack,
    /// One node.
    SameNode,
}

/// What the user or the trace claims. It may be exact, noisy or absent; no policy can tell which.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Declared {
    /// Iterations in all.
    pub iterations: Option<f64>,
    /// Time of one iteration on the smallest gang that can run.
    pub iteration: Option<Span>,
    /// The time limit: after so long a run the job is over in any case.
    pub limit: Option<Span>,
    /// Its speed by workers and servers, if known from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<SpeedFunction>,
    /// Its speed by GPU type, if it was profiled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rates: Option<Arc<Rates>>,
    /// What is known of its loss.
    #[serde(default, skip_serializing_if = "DeclaredLoss::is_empty")]
    pub loss: DeclaredLoss,
}

/// What is known beforehand of the loss that a job will report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeclaredLoss {
    /// Which way it gets better.
    pub better: Better,
    /// How it converges.
    pub convergence: Option<Convergence>,
    /// The loss that training is known to reach, from earlier trials or publications.
    pub target: Option<f64>,
    /// The whole curve, if known from an earlier run.
    pub curve: Option<Curve>,
}

impl DeclaredLoss {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Declared {
    /// How long the job claims to run, from a fresh start on its smallest gang.
    pub fn duration(&self) -> Option<Span> {
        match (self.iterations, self.iteration) {
            (Some(count), Some(each)) => Some(each.scaled(count)),
            _ => self.limit,
        }
    }
}

/// What it costs to stop a job and to start it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MoveCost {
    /// From the order to stop until its devices are free, saving included.
    pub save: Span,
    /// From a start until the first new iteration.
    pub load: Span,
    /// How often it saves by itself; `None` means only when told to.
    pub checkpoint_every: Option<Span>,
    /// Whether it cannot save when told to stop, so that stopping loses what it did since it last saved.
    pub loses_when_stopped: bool,
    /// How long its copies take to be brought together, if it has several: from the order until all go on.
    #[serde(skip_serializing_if = "is_nothing")]
    pub merge: Span,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
const fn is_nothing(span: &Span) -> bool {
    span.0 == 0
}
