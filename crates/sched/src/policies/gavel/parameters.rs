//! What may be chosen of Gavel's policies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::decide::{PLACEMENT, Parameter, ROUND_S, Values, chosen, flagged, numbered};
use crate::model::Cluster;
use crate::place::Rule;

use super::allocation::Parting;

/// What the shares of time are made to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Objective {
    /// The job that does worst beside an equal part of the cluster does as well as possible (section 4.1).
    MaxMinFairness,
    /// The job that ends latest beside an equal part of the cluster ends as soon as possible (Themis, NSDI 2020).
    FinishTimeFairness,
    /// All jobs are done as soon as possible.
    Makespan,
    /// All jobs together do as many iterations a second as possible.
    Throughput,
    /// As many iterations for the money as possible.
    Cost,
    /// Max-min fairness with all that is left over shared out in the same way, until nothing is left (section 4.3).
    WaterFilling,
    /// The same among tenants by their weights, and among the jobs of each (section 4.3).
    Hierarchical,
    /// The product of what jobs have is as great as possible.
    Proportional,
    /// The same, less what a job takes from others, so that no job gains by lying about its rates.
    StrategyProof,
    /// Jobs in the order of their arrival, each on the type on which it is fastest.
    Fifo,
    /// The same in the order of the time that is left at best.
    ShortestJobFirst,
    /// Every job has an equal part of the cluster.
    Isolated,
}

/// How the least makespan is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Search {
    /// By one linear program.
    Exact,
    /// By halving, within a twentieth.
    AsCoded,
}

/// What iterations for the money are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Money {
    /// All iterations over all money.
    Ratio,
    /// The sum of iterations over prices.
    AsCoded,
}

/// How a tenant's jobs share what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Within {
    /// By their weights.
    Fairness,
    /// All to the first that can use it.
    Fifo,
}

/// When a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RoundEnd {
    /// After its length.
    Fixed,
    /// When the last job that was placed in it has done its iterations for this round.
    LastSlice,
}

/// In which order jobs are placed in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// One order over all types, as Algorithm 1 of the paper has it.
    Global,
    /// Type after type, as coded.
    ByType,
}

/// How rounds go, whatever the objective.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Rounds {
    pub(super) placement: Rule,
    pub(super) round_s: f64,
    pub(super) recompute_s: f64,
    pub(super) start_at_events: bool,
    pub(super) compatibility: bool,
    pub(super) round_end: RoundEnd,
    pub(super) whole_iterations: bool,
    pub(super) order: Order,
    pub(super) hold_for_new: bool,
    pub(super) pass_unfit: bool,
}

/// The parameters of `gavel`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Parameters {
    pub(super) objective: Objective,
    pub(super) aware: bool,
    pub(super) makespan: Search,
    pub(super) cost: Money,
    pub(super) deadlines: bool,
    pub(super) within: Within,
    pub(super) packed: bool,
    pub(super) by_place: bool,
    #[serde(flatten)]
    pub(super) rounds: Rounds,
}

impl Default for Rounds {
    fn default() -> Self {
        Self {
            placement: Rule::Pack,
            round_s: 360.0,
            recompute_s: 0.001,
            start_at_events: false,
            compatibility: false,
            round_end: RoundEnd::Fixed,
            whole_iterations: false,
            order: Order::Global,
            hold_for_new: false,
            pass_unfit: false,
        }
    }
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            objective: Objective::MaxMinFairness,
            aware: true,
            makespan: Search::Exact,
            cost: Money::Ratio,
            deadlines: true,
            within: Within::Fairness,
            packed: false,
            by_place: false,
            rounds: Rounds::default(),
        }
    }
}

/// What an hour of one GPU costs in dollars, by type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Prices(BTreeMap<String, f64>);

impl Default for Prices {
    /// Spot prices of Google's cloud that the public code has.
    fn default() -> Self {
        let known = [("v100", 0.74), ("p100", 0.43), ("k80", 0.135)];
        Self(known.into_iter().map(|(name, price)| (name.to_owned(), price)).collect())
    }
}

impl Prices {
    /// Prices by type; a type without one costs as much as the dearest of those that have one.
    pub(super) fn of(&self, cluster: &Cluster) -> Vec<f64> {
        let dearest = self.0.values().copied().fold(0.0, f64::max);
        let price = |name: &str| self.0.get(name).copied().unwrap_or(dearest);
        cluster.gpu_types.iter().map(|gpu_type| price(&gpu_type.name)).collect()
    }
}

/// All that may be given for `gavel`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Given {
    #[serde(flatten)]
    pub(super) parameters: Parameters,
    pub(super) prices: Prices,
}

/// The parameters of `allox`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct AlloxParameters {
    pub(super) alpha: f64,
    #[serde(flatten)]
    pub(super) rounds: Rounds,
}

impl Default for AlloxParameters {
    fn default() -> Self {
        Self { alpha: 1.0, rounds: Rounds::default() }
    }
}

/// The parameters of `gandiva`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct GandivaParameters {
    pub(super) parting: Parting,
    #[serde(flatten)]
    pub(super) rounds: Rounds,
}

impl Parameters {
    /// What is asked for and would do nothing, so that something else would come of it than whoever asks believes: what to try.
    pub(super) fn refusal(&self) -> Option<String> {
        let objective = self.objective;
        let name =
            || toml::Value::try_from(objective).map_or_else(|_| String::new(), |name| name.to_string());
        let packs = !matches!(
            objective,
            Objective::Throughput
                | Objective::Proportional
                | Objective::StrategyProof
                | Objective::ShortestJobFirst
                | Objective::Isolated
        );
        // What is always told by speeds, or never.
        let is_by_speed =
            matches!(objective, Objective::Throughput | Objective::Cost | Objective::ShortestJobFirst);
        let is_equal = objective == Objective::Isolated;
        if self.packed && !packs {
            return Some(format!(
                "packed = true does nothing with objective = {}, for which nobody has said how jobs share GPUs; leave \
                 it out, or choose max_min_fairness, finish_time_fairness, makespan, cost, water_filling, hierarchical or \
                 fifo",
                name()
            ));
        }
        if !self.aware && self.packed {
            return Some(
                "aware = false does nothing with packed = true, since what pairs are worth depends on speeds; leave one \
                 of them out"
                    .to_owned(),
            );
        }
        if !self.aware && (is_by_speed || is_equal) {
            let why = if is_equal { "which never looks at speeds" } else { "which is made of speeds" };
            return Some(format!(
                "aware = false does nothing with objective = {}, {why}; leave it out, or choose another objective",
                name()
            ));
        }
        (self.by_place && is_equal).then(|| {
            "by_place = true does nothing with objective = \"isolated\", which never looks at speeds; leave it out, or \
             choose another objective"
                .to_owned()
        })
    }

    /// What holds, with all that `compatibility` stands for.
    pub(super) fn effective(self) -> Self {
        let coded = self.rounds.compatibility;
        Self {
            rounds: self.rounds.effective(),
            makespan: if coded { Search::AsCoded } else { self.makespan },
            cost: if coded { Money::AsCoded } else { self.cost },
            ..self
        }
    }
}

impl Rounds {
    /// Rounds as the public simulator has them.
    pub(super) const COMPATIBLE: Self = Self {
        placement: Rule::FirstFit,
        round_s: 360.0,
        recompute_s: 1920.0,
        start_at_events: false,
        compatibility: true,
        round_end: RoundEnd::LastSlice,
        whole_iterations: true,
        order: Order::ByType,
        hold_for_new: true,
        pass_unfit: true,
    };

    /// What holds, with all that `compatibility` stands for.
    pub(super) fn effective(self) -> Self {
        if self.compatibility { Self { round_s: self.round_s, ..Self::COMPATIBLE } } else { self }
    }
}

const RECOMPUTE_S: Parameter = numbered(
    "recompute_s",
    "s",
    (0.001, 1e6),
    "the least time between two times that shares are worked out anew after a change; as coded 1920",
);
const START_AT_EVENTS: Parameter = flagged(
    "start_at_events",
    "start jobs on GPUs that become free inside a round; in the paper these wait for the next one",
);
const COMPATIBILITY: Parameter = flagged(
    "compatibility",
    "rounds as in the public simulator: sets all that is said to be as coded, and first_fit, whatever else is given",
);
const ROUND_END: Parameter = chosen(
    "round_end",
    &["fixed", "last_slice"],
    "when a round ends: after its length, or as coded when the last job placed in it has done its iterations",
);
const WHOLE_ITERATIONS: Parameter = flagged(
    "whole_iterations",
    "as coded: a job does a whole number of iterations in a round and its GPUs then idle until the round ends",
);
const ORDER: Parameter = chosen(
    "order",
    &["global", "by_type"],
    "the order of placing: one over all GPU types, or as coded type after type as the cluster lists them",
);
const HOLD_FOR_NEW: Parameter = flagged(
    "hold_for_new",
    "as coded: a job for which shares were not worked out yet is chosen and not placed, so that GPUs idle",
);

const PASS_UNFIT: Parameter = flagged(
    "pass_unfit",
    "as coded: in fifo a job for which only GPUs are left on which it does not fit is passed by; else it holds back all later ones",
);

/// What the parameters of rounds mean and may be.
pub(super) const ROUNDS: [Parameter; 10] = [
    PLACEMENT,
    ROUND_S,
    RECOMPUTE_S,
    START_AT_EVENTS,
    COMPATIBILITY,
    ROUND_END,
    WHOLE_ITERATIONS,
    ORDER,
    HOLD_FOR_NEW,
    PASS_UNFIT,
];

const OBJECTIVE: Parameter = chosen(
    "objective",
    &[
        "max_min_fairness",
        "finish_time_fairness",
        "makespan",
        "throughput",
        "cost",
        "water_filling",
        "hierarchical",
        "proportional",
        "strategy_proof",
        "fifo",
        "shortest_job_first",
        "isolated",
    ],
    "what shares of time are made to serve",
);
const AWARE: Parameter = flagged(
    "aware",
    "whether shares depend on how fast a job is on each type; if not, all types are alike. Not with packed, nor throughput, cost, shortest_job_first and isolated, where false is refused",
);

const MAKESPAN: Parameter = chosen(
    "makespan",
    &["exact", "as_coded"],
    "how the least makespan is found: by one linear program with no job owed more than it needs, or as coded by halving until it is within 5 %; with packed always the former, where all that suffices may be owed",
);
const COST: Parameter = chosen(
    "cost",
    &["ratio", "as_coded"],
    "what is maximised for the least cost: all iterations over all money, or as coded the sum of iterations over prices",
);
const DEADLINES: Parameter = flagged(
    "deadlines",
    "least cost keeps the deadlines of jobs, as many as can be kept, or as coded all or none",
);
const PRICES: Parameter = Parameter {
    name: "prices",
    meaning: "what an hour of one GPU costs, by GPU type, for the least cost; a type that is not listed costs as much as the dearest that is",
    unit: "$/h",
    values: Values::Named { least: 1e-6, most: 1e6 },
};

const WITHIN: Parameter = chosen(
    "within",
    &["fairness", "fifo"],
    "how the jobs of a tenant share what it has in hierarchical fairness: by their weights, or one after the other",
);
const PACKED: Parameter = flagged(
    "packed",
    "whether two jobs may share the same GPUs where that was measured to be worth it; refused with throughput, proportional, strategy_proof, shortest_job_first and isolated",
);
const BY_PLACE: Parameter = flagged(
    "by_place",
    "whether gangs close together are told from gangs that are spread over nodes, each with its own speed and share; refused with isolated",
);
const ALPHA: Parameter =
    numbered("alpha", "", (0.0, 1.0), "the share of the waiting jobs that is looked at, the oldest first");
const PARTING: Parameter = chosen(
    "parting",
    &["mean", "sum"],
    "what parts a pair: that it is worth less than one job alone on average over GPU types, or as coded in their sum",
);

/// What the parameters of `gavel` mean and may be.
pub(super) const GAVEL: [Parameter; 19] = {
    let [a, b, c, d, e, f, g, h, i, j] = ROUNDS;
    [
        OBJECTIVE, AWARE, MAKESPAN, COST, DEADLINES, PRICES, WITHIN, PACKED, BY_PLACE, a, b, c, d, e, f, g,
        h, i, j,
    ]
};
/// What the parameters of `allox` mean and may be.
pub(super) const ALLOX: [Parameter; 11] = {
    let [a, b, c, d, e, f, g, h, i, j] = ROUNDS;
    [ALPHA, a, b, c, d, e, f, g, h, i, j]
};
/// What the parameters of `gandiva` mean and may be.
pub(super) const GANDIVA: [Parameter; 11] = {
    let [a, b, c, d, e, f, g, h, i, j] = ROUNDS;
    [PARTING, a, b, c, d, e, f, g, h, i, j]
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_without_a_price_costs_as_much_as_the_dearest() {
        let mut cluster = Cluster::default();
        ["k80", "a100", "v100"].into_iter().for_each(|gpu_type| cluster.add(1, 1, gpu_type));
        assert_eq!(Prices::default().of(&cluster), [0.135, 0.74, 0.74]);
        let given =
            Prices([("a100", 3.0), ("k80", 0.5)].map(|(name, price)| (name.to_owned(), price)).into());
        assert_eq!(given.of(&cluster), [0.5, 3.0, 3.0], "nothing else is known any more");
    }
}
