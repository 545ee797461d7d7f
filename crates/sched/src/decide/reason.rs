//! Why a job runs or waits: a closed list with numbers, turned into sentences in one place.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::{JobId, NodeId, TaskId, TenantId, Time, any_number};
use crate::place::NoRoom;

use super::Enough;

/// What a policy says about one job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict", content = "reason")]
pub enum Verdict {
    /// It gets devices.
    Run(Reason),
    /// It gets none.
    Wait(Reason),
    /// It had devices and must give them up.
    Yield(Reason),
}

impl Verdict {
    /// The reason behind it.
    pub const fn reason(&self) -> &Reason {
        match self {
            Self::Run(reason) | Self::Wait(reason) | Self::Yield(reason) => reason,
        }
    }

    /// Whether the job gets devices.
    pub const fn runs(&self) -> bool {
        matches!(self, Self::Run(_))
    }
}

/// A reason, with the numbers behind it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Reason {
    /// No policy has looked at the job yet.
    NotYetEvaluated,
    /// It is its turn and there is room.
    Chosen,
    /// It already runs and nothing speaks against it.
    Kept,
    /// Started ahead of its turn because it does not delay the job that has the reservation.
    Backfilled {
        /// The job with the reservation.
        ahead_of: JobId,
    },
    /// It is its turn, but there is no room.
    NoCapacity(NoRoom),
    /// The order of the queue holds it: an earlier job waits for the same resource.
    Behind {
        /// The first job that it waits behind.
        ahead: JobId,
    },
    /// There is room now, but starting would delay the job that has the reservation.
    WouldDelay {
        /// The job with the reservation.
        reserved: JobId,
        /// When that job is expected to start.
        starts: Time,
    },
    /// A job that ranks higher took its place.
    Outranked {
        /// The job that took it.
        by: JobId,
    },
    /// More wait than there is room for, and its turn is over.
    TurnOver {
        /// The job whose turn it is.
        by: JobId,
    },
    /// Workers go where they lower the loss most; it has as many as that comes to.
    ByGain {
        /// What one more worker would bring it until the next decision, in parts of what there is to gain.
        #[serde(with = "any_number")]
        next: f64,
        /// What the last worker that was given brought.
        #[serde(with = "any_number")]
        last: f64,
    },
    /// Whatever could be reserved for it costs as much as it is worth, or more.
    TooDear {
        /// What it would be worth with the best of that.
        #[serde(with = "any_number")]
        worth: f64,
        /// What that costs.
        #[serde(with = "any_number")]
        price: f64,
    },
    /// GPUs are reserved for it from later on.
    Reserved {
        /// When it is to start.
        starts: Time,
    },
    /// Its tenant already has its share while others have less.
    ShareUsed {
        /// The tenant.
        tenant: TenantId,
        /// Its share, divided by its weight.
        #[serde(with = "any_number")]
        share: f64,
    },
    /// Its tenant has weight 0 and runs only on what nobody else wants.
    OnlyIdle {
        /// The tenant.
        tenant: TenantId,
    },
    /// Its tenant may not hold more.
    QuotaFull {
        /// The tenant, or one above it, whose limit is reached.
        tenant: TenantId,
    },
    /// What it held belongs to a tenant that wants its guaranteed quota back.
    Reclaimed {
        /// The tenant that gets it.
        by: TenantId,
    },
    /// It has already had so much service that newer jobs go first.
    Demoted {
        /// The queue it is in now; 0 is the highest.
        band: u8,
        /// What it was given, in GPU-seconds.
        #[serde(with = "any_number")]
        served_gpu_s: f64,
    },
    /// It is owed more of the time than it had, beside others.
    OwedTime {
        /// The share of time that it is owed, over all types of GPUs.
        #[serde(with = "any_number")]
        share: f64,
        /// The part of the time that it had since shares were worked out.
        #[serde(with = "any_number")]
        had: f64,
        /// Whether shares are equal parts because their program could not be solved.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unsolved: bool,
    },
    /// Others are owed more of the time than they had.
    TimeHad {
        /// The share of time that it is owed, over all types of GPUs.
        #[serde(with = "any_number")]
        share: f64,
        /// The part of the time that it had since shares were worked out.
        #[serde(with = "any_number")]
        had: f64,
        /// Whether shares are equal parts because their program could not be solved.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unsolved: bool,
    },
    /// Its policy owes time to smaller gangs only; it runs where GPUs would idle otherwise.
    OwedNothing {
        /// GPUs of its gang.
        gpus: u32,
        /// GPUs of the largest gangs that are owed time.
        most: u32,
    },
    /// A round is under way, and nothing is given out before the next.
    NextRound {
        /// When that begins.
        starts: Time,
    },
    /// It could not even run on the whole idle cluster.
    Unplaceable {
        /// Workers that it needs.
        workers: u32,
        /// The most that would fit.
        largest: u32,
    },
    /// It failed there lately and waits before it tries again.
    Backoff {
        /// When it may try again.
        until: Time,
    },
    /// One of its tasks finds no node that is not used too much already, or has what it demands.
    NoHost {
        /// The task.
        task: TaskId,
        /// How many of those that must be placed with it had found a node.
        found: u32,
        /// How many these are.
        tasks: u32,
    },
    /// It runs with some of its replicas, and the others wait for room.
    InPart {
        /// Tasks that have a place.
        placed: u32,
        /// All of its tasks.
        tasks: u32,
    },
    /// A task of it had to leave a node on which more was used than may be.
    Relieved {
        /// The node.
        node: NodeId,
    },
    /// It has had enough by its stop rule, and ends.
    HadEnough(Enough),
    /// A rule decided where what was learned did not.
    StoodIn(StoodIn),
}

/// Why a rule stood in for what was learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoodIn {
    /// There are no weights.
    NothingLearned,
    /// The network answered with what is no number.
    NoAnswer,
    /// It went on for too long.
    TooMany,
}

impl StoodIn {
    fn told(self) -> String {
        let why = match self {
            Self::NothingLearned => "nothing was learned yet",
            Self::NoAnswer => "the network had no answer",
            Self::TooMany => "it made too many choices in one slot",
        };
        format!("a rule decided and not what was learned: {why}")
    }
}

impl Reason {
    /// Every kind with its remedy, for the documentation; the order is that of the declaration.
    pub const KINDS: [(&'static str, &'static str); 28] = [
        ("not_yet_evaluated", "wait for the next decision"),
        ("chosen", "nothing to do"),
        ("kept", "nothing to do"),
        ("backfilled", "nothing to do"),
        ("no_capacity", "wait until a job ends, or ask for fewer workers or less on one node"),
        ("behind", "wait for the jobs ahead, or use a policy that lets small jobs pass"),
        ("would_delay", "declare a shorter run time if it is true"),
        ("outranked", "wait; it goes on when the higher-ranked jobs are done"),
        ("turn_over", "wait; it comes round again, those first that have waited longest"),
        ("by_gain", "nothing to do"),
        ("too_dear", "wait until less is asked for, or ask for fewer GPUs"),
        ("reserved", "wait until the time shown"),
        ("share_used", "wait until other tenants have had their share, or ask for a larger weight"),
        ("only_idle", "wait until nobody else wants the room, or ask for a weight above 0"),
        ("quota_full", "wait for the tenant's own jobs, or ask an operator for a higher limit"),
        ("reclaimed", "wait; it ran on another tenant's guaranteed quota"),
        ("demoted", "wait; short jobs go first"),
        ("owed_time", "nothing to do"),
        ("time_had", "wait; over many rounds it gets the share of time shown, or ask for a larger weight"),
        ("owed_nothing", "wait until GPUs idle, or use a policy that is for gangs"),
        ("next_round", "wait until the time shown"),
        ("unplaceable", "ask for at most the largest size that fits"),
        ("backoff", "wait until the time shown"),
        ("no_host", "wait until tasks end or use less, or ask for less in each task"),
        ("in_part", "wait for the rest, or ask for less in each task"),
        ("relieved", "wait; it goes on as soon as there is room for all that must run together"),
        ("had_enough", "nothing to do; its owner may take it up again"),
        ("stood_in", "nothing to do; who runs the cluster may train the policy, or give it other weights"),
    ];

    /// The position of this kind in [`Self::KINDS`].
    pub const fn kind_index(&self) -> usize {
        match self {
            Self::NotYetEvaluated => 0,
            Self::Chosen => 1,
            Self::Kept => 2,
            Self::Backfilled { .. } => 3,
            Self::NoCapacity(_) => 4,
            Self::Behind { .. } => 5,
            Self::WouldDelay { .. } => 6,
            Self::Outranked { .. } => 7,
            Self::TurnOver { .. } => 8,
            Self::ByGain { .. } => 9,
            Self::TooDear { .. } => 10,
            Self::Reserved { .. } => 11,
            Self::ShareUsed { .. } => 12,
            Self::OnlyIdle { .. } => 13,
            Self::QuotaFull { .. } => 14,
            Self::Reclaimed { .. } => 15,
            Self::Demoted { .. } => 16,
            Self::OwedTime { .. } => 17,
            Self::TimeHad { .. } => 18,
            Self::OwedNothing { .. } => 19,
            Self::NextRound { .. } => 20,
            Self::Unplaceable { .. } => 21,
            Self::Backoff { .. } => 22,
            Self::NoHost { .. } => 23,
            Self::InPart { .. } => 24,
            Self::Relieved { .. } => 25,
            Self::HadEnough(_) => 26,
            Self::StoodIn(_) => 27,
        }
    }

    /// The machine-readable kind, as in JSON.
    pub const fn kind(&self) -> &'static str {
        Self::KINDS[self.kind_index()].0
    }

    /// What would help.
    pub const fn remedy(&self) -> &'static str {
        Self::KINDS[self.kind_index()].1
    }
}

impl Reason {
    /// The sentence, with jobs and tenants called as `names` says.
    pub fn told(&self, names: &dyn Names) -> String {
        let (job, tenant) = (|id: &JobId| names.job(*id), |id: &TenantId| names.tenant(*id));
        match self {
            Self::NotYetEvaluated => "no decision has looked at it yet".to_owned(),
            Self::Chosen => "it is its turn and there is room".to_owned(),
            Self::Kept => "it runs and stays where it is".to_owned(),
            Self::Backfilled { ahead_of } => format!("it does not delay {}", job(ahead_of)),
            Self::NoCapacity(room) => room.sentence(),
            Self::Behind { ahead } => format!("{} is ahead and waits for the same resource", job(ahead)),
            Self::WouldDelay { reserved, starts } => {
                format!("it would delay {}, which is expected to start at {starts}", job(reserved))
            }
            Self::Outranked { by } => format!("{} ranks higher", job(by)),
            Self::TurnOver { by } => format!("its turn is over; {} has waited longer", job(by)),
            Self::ByGain { next, last } => {
                format!("one more worker would bring it {next:.2e}; the last one given brought {last:.2e}")
            }
            Self::TooDear { worth, price } => {
                format!(
                    "the best that could be reserved for it costs {price:.2e}, and it is worth {worth:.2e}"
                )
            }
            Self::Reserved { starts } => format!("GPUs are reserved for it from {starts} on"),
            Self::ShareUsed { tenant: of, share } => {
                format!("{} already has {share:.3} of the cluster per weight", tenant(of))
            }
            Self::OnlyIdle { tenant: of } => {
                format!("{} has weight 0 and runs only on what nobody else wants", tenant(of))
            }
            Self::QuotaFull { tenant: of } => format!("{} may not hold more", tenant(of)),
            Self::Reclaimed { by } => format!("{} took back its guaranteed quota", tenant(by)),
            Self::Demoted { band, served_gpu_s } => {
                let hours = served_gpu_s / 3600.0;
                format!("it is in band {band} after {hours:.2} GPU-hours; lower bands go first")
            }
            Self::OwedTime { share, had, unsolved } => {
                let by = if *unsolved { EQUAL_PARTS } else { "" };
                format!("it is owed {share:.3} of the time{by} and had {had:.3}; it is its turn")
            }
            Self::TimeHad { share, had, unsolved } => {
                let by = if *unsolved { EQUAL_PARTS } else { "" };
                format!(
                    "it is owed {share:.3} of the time{by} and had {had:.3}; others go first in this round"
                )
            }
            Self::OwedNothing { gpus, most } => {
                let plural = if *most == 1 { "" } else { "s" };
                format!(
                    "it needs {gpus} GPUs, and the policy owes time to jobs of {most} GPU{plural} only; it runs while GPUs idle"
                )
            }
            Self::NextRound { starts } => format!("a round is under way; the next begins at {starts}"),
            Self::Unplaceable { workers, largest } => {
                format!("needs {workers} workers; the idle cluster holds at most {largest}")
            }
            Self::Backoff { until } => format!("it failed lately and waits until {until}"),
            Self::NoHost { task, found, tasks } => {
                format!(
                    "no node has room for {task}; {found} of the {tasks} tasks that must run together found one"
                )
            }
            Self::InPart { placed, tasks } => format!("{placed} of its {tasks} tasks have a place"),
            Self::Relieved { node } => {
                format!("more was used on {node} than may be, and a task of it had to leave")
            }
            Self::StoodIn(why) => why.told(),
            Self::HadEnough(enough) => enough.to_string(),
        }
    }
}

/// Said of shares that could not be worked out.
const EQUAL_PARTS: &str = " (an equal part, since the program for the shares could not be solved)";

/// What jobs and tenants are called.
pub trait Names {
    /// A job.
    fn job(&self, id: JobId) -> String {
        id.to_string()
    }

    /// A tenant.
    fn tenant(&self, id: TenantId) -> String {
        id.to_string()
    }
}

/// Nothing has a name, only a number.
struct Numbers;

impl Names for Numbers {}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told(&Numbers))
    }
}
