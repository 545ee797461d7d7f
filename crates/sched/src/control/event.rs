//! What happens, and what shall be done. Both are closed lists, so everything that can wake the loop
//! or leave it is visible here.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::model::{
    Allocation, Attempt, CopyProgress, Job, JobId, LossPoint, NodeId, NodeState, Quotas, Usage, any_number,
};

/// Something that happened. Every event may come twice or late; applying it again changes nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// A job was submitted.
    Arrived {
        /// The job.
        job: Arc<Job>,
    },
    /// Its owner took it back.
    Withdrawn {
        /// The job.
        job: JobId,
    },
    /// Its owner wants it to go on, after it was cut short by a stop rule. It keeps its number and what it saved, and its
    /// own iterations are its rule from now on. A job that did not end in that way stays as it is.
    Resumed {
        /// The job.
        job: JobId,
    },
    /// A node came, went, or began to drain.
    NodeChanged {
        /// The node.
        node: NodeId,
        /// Its new state.
        state: NodeState,
    },
    /// Somebody chose another policy, or other parameters of the same one. It decides from now on.
    PolicyChanged {
        /// Its name.
        policy: String,
        /// Its parameters.
        parameters: toml::Table,
    },
    /// An attempt has loaded and makes progress from now on.
    Started {
        /// The job.
        job: JobId,
        /// Which start.
        attempt: Attempt,
        /// Iterations that it began from.
        iterations: f64,
        /// Iterations a second, as far as known.
        speed: f64,
    },
    /// An attempt could not be started. Its devices are free.
    StartFailed {
        /// The job.
        job: JobId,
        /// Which start.
        attempt: Attempt,
        /// The node at fault, where known.
        node: Option<NodeId>,
    },
    /// A running job now holds something else.
    Resized {
        /// The job.
        job: JobId,
        /// Which start.
        attempt: Attempt,
        /// What it holds now.
        allocation: Allocation,
        /// Iterations done.
        iterations: f64,
        /// Iterations a second from now on.
        speed: f64,
    },
    /// An attempt has ended as ordered. Its devices are free.
    Stopped {
        /// The job.
        job: JobId,
        /// Which start.
        attempt: Attempt,
        /// Iterations that the next start will begin from.
        iterations: f64,
    },
    /// A running job reported.
    Progress {
        /// The job.
        job: JobId,
        /// Which start.
        attempt: Attempt,
        /// Iterations done.
        #[serde(with = "any_number")]
        iterations: f64,
        /// Iterations a second, as measured lately.
        #[serde(with = "any_number")]
        speed: f64,
        /// Iterations that are saved.
        #[serde(with = "any_number")]
        saved: f64,
        /// Losses since the report before, by ascending iteration. Older journals have one `loss`, or none.
        #[serde(
            default,
            skip_serializing_if = "Vec::is_empty",
            alias = "loss",
            deserialize_with = "one_or_many"
        )]
        losses: Vec<LossPoint>,
        /// How far each copy is, if it has several. Older journals do not say.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        copies: Vec<CopyProgress>,
    },
    /// What the tasks of an attempt used lately.
    Used {
        /// The job.
        job: JobId,
        /// Which start.
        attempt: Attempt,
        /// What each of them used, as far as known.
        usage: Usage,
    },
    /// The copies of a job now have the same parameters.
    Merged {
        /// The job.
        job: JobId,
        /// Which start.
        attempt: Attempt,
        /// The number of the merge that was ordered. Older journals have none, and mean the one that is open.
        #[serde(default, skip_serializing_if = "is_zero")]
        number: u32,
    },
    /// An attempt ended against everybody's will. Its devices are free, as far as they still exist.
    Lost {
        /// The job.
        job: JobId,
        /// Which start.
        attempt: Attempt,
        /// Iterations that the next start will begin from.
        iterations: f64,
        /// The node at fault, where known.
        node: Option<NodeId>,
    },
    /// A job is over. Its devices are free.
    Finished {
        /// The job.
        job: JobId,
        /// Which start.
        attempt: Attempt,
        /// How it ended.
        outcome: Outcome,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Reads a list of losses, one loss, or nothing.
fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<LossPoint>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Told {
        Many(Vec<LossPoint>),
        One(LossPoint),
        Nothing,
    }
    Ok(match Told::deserialize(from)? {
        Told::Many(points) => points,
        Told::One(point) => vec![point],
        Told::Nothing => Vec::new(),
    })
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// By itself, as meant.
    Completed,
    /// By itself, in an error.
    Failed,
    /// Killed by its owner.
    Killed,
    /// Not known: as far as anybody saw it, it was still running.
    Censored,
    /// Its stop rule was met.
    StopRuleMet,
    /// Its owner withdrew it before the end.
    Withdrawn,
    /// It could never run.
    Rejected,
}

/// How a job is to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// Save, so that it can go on later.
    Save,
    /// For good.
    Finish,
}

/// Something to be done. A backend has no choice left to make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "action")]
pub enum Action {
    /// Start a job.
    Start {
        /// The job.
        job: JobId,
        /// The number of this start.
        attempt: Attempt,
        /// Where.
        allocation: Allocation,
        /// How far each of its copies may go at first, if it has several.
        #[serde(default, skip_serializing_if = "Quotas::is_none")]
        quotas: Quotas,
    },
    /// Stop a job.
    Stop {
        /// The job.
        job: JobId,
        /// Which start.
        attempt: Attempt,
        /// How.
        how: How,
    },
    /// Give a running job something else to hold. Copies that are where they were go on.
    Resize {
        /// The job.
        job: JobId,
        /// Which start.
        attempt: Attempt,
        /// What it shall hold.
        allocation: Allocation,
        /// How far each of its copies may go, counted from when they were brought together last, if it has several.
        #[serde(default, skip_serializing_if = "Quotas::is_none")]
        quotas: Quotas,
    },
    /// Bring the parameters of a job's copies together.
    Merge {
        /// The job.
        job: JobId,
        /// Which start.
        attempt: Attempt,
        /// Counts the merges of this start from 1, so that an order that comes again is known. Older journals have none.
        #[serde(default, skip_serializing_if = "is_zero")]
        number: u32,
        /// How far each of its copies may go from then on.
        #[serde(default, skip_serializing_if = "Quotas::is_none")]
        quotas: Quotas,
    },
}

impl Event {
    /// The job and attempt that it is about, if it is about an attempt.
    pub(super) fn attempt(&self) -> Option<(JobId, Attempt)> {
        match self {
            Self::Arrived { .. }
            | Self::Withdrawn { .. }
            | Self::Resumed { .. }
            | Self::NodeChanged { .. }
            | Self::PolicyChanged { .. } => None,
            Self::Started { job, attempt, .. }
            | Self::StartFailed { job, attempt, .. }
            | Self::Resized { job, attempt, .. }
            | Self::Stopped { job, attempt, .. }
            | Self::Progress { job, attempt, .. }
            | Self::Used { job, attempt, .. }
            | Self::Merged { job, attempt, .. }
            | Self::Lost { job, attempt, .. }
            | Self::Finished { job, attempt, .. } => Some((*job, *attempt)),
        }
    }

    /// The job it is about, if it is about one.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Self::Arrived { job } => Some(job.id),
            Self::NodeChanged { .. } | Self::PolicyChanged { .. } => None,
            Self::Withdrawn { job }
            | Self::Resumed { job }
            | Self::Started { job, .. }
            | Self::StartFailed { job, .. }
            | Self::Resized { job, .. }
            | Self::Stopped { job, .. }
            | Self::Progress { job, .. }
            | Self::Used { job, .. }
            | Self::Merged { job, .. }
            | Self::Lost { job, .. }
            | Self::Finished { job, .. } => Some(*job),
        }
    }
}

impl Action {
    /// The job it is about.
    pub const fn job(&self) -> JobId {
        match self {
            Self::Start { job, .. }
            | Self::Stop { job, .. }
            | Self::Resize { job, .. }
            | Self::Merge { job, .. } => *job,
        }
    }
}
