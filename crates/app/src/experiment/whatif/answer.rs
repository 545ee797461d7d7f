//! What a what-if found: the same values for the table, the page and programs. Computes nothing.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::config::Requirement;
use crate::statistics::Estimate;

/// All that was found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Answer {
    /// The program and its version.
    pub(crate) program: &'static str,
    /// Where the jobs come from, in words.
    pub(crate) source: String,
    /// How many jobs there are today.
    pub(crate) jobs: usize,
    /// The machines of today, in words.
    pub(crate) cluster: String,
    /// The seed of the first replicate; the others have the following ones.
    pub(crate) seed: u64,
    /// How many replicates there are.
    pub(crate) replicates: usize,
    /// What differs between them.
    pub(crate) varies: Vec<String>,
    /// What was assumed.
    pub(crate) assumptions: Vec<String>,
    /// Today first, then each change by itself, then all together.
    pub(crate) scenarios: Vec<Scenario>,
    /// What other policies give of the gain of more machines.
    pub(crate) shares: Vec<Share>,
    /// The searches for the smallest number of nodes.
    pub(crate) searches: Vec<Search>,
    /// What it means.
    pub(crate) sentences: Vec<String>,
}

/// What kind of change a scenario is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// None: as it is.
    Today,
    /// More machines.
    Add,
    /// Fewer machines.
    Remove,
    /// Another load.
    Load,
    /// Another policy.
    Policy,
    /// Several of them.
    Together,
}

/// Today, or one change, or all of them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Scenario {
    /// What it is called.
    pub(crate) name: String,
    /// What kind of change it is.
    pub(crate) kind: Kind,
    /// The policy.
    pub(crate) policy: String,
    /// GPUs of its cluster.
    pub(crate) gpus: u64,
    /// The numbers by key of the summary.
    pub(crate) metrics: BTreeMap<&'static str, Figure>,
    /// Hours that jobs waited, together. The difference is absent where not the same number of jobs was completed.
    pub(crate) waited_hours: Figure,
    /// The same, each job times its GPUs.
    pub(crate) waited_gpu_hours: Figure,
    /// Waits by tenant.
    pub(crate) teams: Vec<Team>,
    /// The jobs of the first replicate that can run today and cannot run then.
    pub(crate) cannot_run: CannotRun,
    /// What it costs, where a price was given.
    pub(crate) cost: Option<Cost>,
}

/// A number and how much it differs from today's.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Figure {
    /// The number.
    pub(crate) value: Estimate,
    /// The number minus today's, replicate by replicate; absent for today.
    pub(crate) difference: Option<Estimate>,
}

/// How long the jobs of a tenant wait.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Team {
    /// The tenant.
    pub(crate) name: String,
    /// The median.
    pub(crate) p50_wait_s: Figure,
    /// The 95th percentile.
    pub(crate) p95_wait_s: Figure,
}

/// What a policy gives of the gain that more machines would give.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Share {
    /// The number that gets better.
    pub(crate) metric: &'static str,
    /// The scenario with another policy.
    pub(crate) policy: String,
    /// The scenario with more machines.
    pub(crate) machines: String,
    /// The gain of the policy over that of the machines.
    pub(crate) share: Estimate,
}

/// Jobs that cannot run any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct CannotRun {
    /// How many.
    pub(crate) count: usize,
    /// The first of them, by name.
    pub(crate) examples: Vec<String>,
}

/// What other machines cost. Negative numbers are saved.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Cost {
    /// The price of a GPU-hour, as given.
    pub(crate) per_gpu_hour: f64,
    /// For the time from the first arrival to the last, the mean over the replicates.
    pub(crate) in_all: f64,
    /// For each hour of waiting that is removed; absent where it is not certain that any is.
    pub(crate) per_hour_of_waiting: Option<Estimate>,
}

/// A search for the smallest number of nodes that keeps the bounds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Search {
    /// The kind of node, such as `8:h100`.
    pub(crate) node: String,
    /// The policy.
    pub(crate) policy: String,
    /// The changes on top of which nodes are added.
    pub(crate) on_top_of: Vec<String>,
    /// The bounds.
    pub(crate) bounds: Vec<Requirement>,
    /// The smallest number of nodes that was found to keep them.
    pub(crate) nodes: Option<u32>,
    /// The largest number that was tried.
    pub(crate) looked_up_to: u32,
    /// Whether a larger number was seen that does not keep them.
    pub(crate) is_uneven: bool,
    /// Why no number helps, where that is known.
    pub(crate) hindered_by: Option<String>,
    /// Everything that was tried, by number of nodes.
    pub(crate) tried: Vec<Attempt>,
}

impl Search {
    /// The bounds as they are given, in one line.
    pub(crate) fn all_bounds(&self) -> String {
        self.bounds.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
    }
}

/// One number of nodes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Attempt {
    /// Nodes that were added.
    pub(crate) nodes: u32,
    /// GPUs that were added.
    pub(crate) gpus: u32,
    /// Whether all bounds are kept by the means over the replicates.
    pub(crate) is_enough: bool,
    /// The bounded numbers.
    pub(crate) metrics: BTreeMap<&'static str, Estimate>,
}
