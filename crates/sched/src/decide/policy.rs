//! The one trait that every scheduler implements.

use crate::estimate::Fitting;
use crate::model::{JobId, Span};
use crate::view::{Causes, Snapshot};

use super::{Abilities, Ahead, Decision, Parameter, ParameterError, Verdict};

/// A scheduler: a function from what is seen to what shall be.
///
/// It may keep caches, but only such as it could rebuild from the snapshot: a fresh instance that is
/// shown the same snapshot decides the same. What cannot be rebuilt goes into notes.
pub trait Policy: Send {
    /// When it wants to be asked.
    fn cadence(&self) -> Cadence;

    /// What it needs of the backend.
    fn needs(&self) -> Abilities {
        Abilities::NONE
    }

    /// The whole target, carried as its difference from the targets in the snapshot.
    ///
    /// It cannot fail, because it can always leave things as they are.
    fn decide(&mut self, seen: &Snapshot) -> Decision;

    /// Why one job runs or waits, asked anew. `job` is in the snapshot.
    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict;

    /// Which waiting jobs go before one that waits, by the order in which a decision on this snapshot looks at them.
    /// A policy that does not say has no order that it could tell.
    fn ahead(&mut self, seen: &Snapshot, job: JobId) -> Ahead {
        let _ = (seen, job);
        Ahead::default()
    }

    /// How it wants loss curves to be fitted, if it looks at them.
    fn fitting(&self) -> Option<Fitting> {
        None
    }

    /// Whether tenants never hold more than their limits by what it decides.
    fn keeps_limits(&self) -> bool {
        false
    }

    /// Whether it never leaves a job waiting that fits what is free (a job's own back-off apart).
    fn is_work_conserving(&self) -> bool {
        false
    }

    /// Whether every job that fits the idle cluster is sure to run in the end.
    fn is_starvation_free(&self) -> bool {
        false
    }
}

/// When a policy is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cadence {
    /// Whenever one of these happened.
    OnEvents(Causes),
    /// At fixed intervals only.
    Rounds(Span),
    /// Both.
    Both(Causes, Span),
}

impl Cadence {
    /// The causes that ask for a decision at once.
    pub const fn causes(self) -> Causes {
        match self {
            Self::OnEvents(causes) | Self::Both(causes, _) => causes,
            Self::Rounds(_) => Causes::NONE,
        }
    }

    /// The length of a round.
    pub const fn round(self) -> Option<Span> {
        match self {
            Self::OnEvents(_) => None,
            Self::Rounds(span) | Self::Both(_, span) => Some(span),
        }
    }
}

/// A policy's line in the table of policies.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name in scenarios and on the command line.
    pub name: &'static str,
    /// What it is, in a few words.
    pub title: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// Whether what jobs declare about their length matters to it.
    pub reads_declared: bool,
    /// Which jobs it is for. It decides on others too, but learns nothing from them.
    pub suits: Suits,
    /// What its parameters mean and may be.
    pub parameters: &'static [Parameter],
    /// Whether it chooses how many workers an elastic job has. The others start each with the fewest and leave it there.
    pub sizes: bool,
    /// Its parameters with their defaults, as TOML.
    pub defaults: fn() -> toml::Table,
    /// Makes one.
    pub build: Build,
}

/// What jobs must have for a policy to be worth a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suits {
    /// Nothing special.
    AnyJobs,
    /// Losses that they report.
    Losses,
    /// Parameter servers.
    Servers,
    /// Leave to be forked into several copies.
    Copies,
    /// One worker each, with one GPU or less.
    OneGpu,
    /// Stop rules other than their own end, or leave to be held to one.
    StopRules,
}

/// Makes a policy from its parameters.
pub type Build = fn(&toml::Table) -> Result<Box<dyn Policy>, ParameterError>;
