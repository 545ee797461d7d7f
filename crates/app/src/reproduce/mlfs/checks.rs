//! The checks of the specification (section 6.3): whom they compare, in what, under which load, and what must come of it.

use super::runs::{Alone, Key, Load, MLFS, Measured, Who};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    Jct,
    Makespan,
    Waiting,
    Quick,
    Deadlines,
    UrgentDeadlines,
    Accuracy,
    Accuracies,
    Traffic,
    Overloads,
}

impl Quantity {
    pub(super) fn of(self, run: &Measured) -> f64 {
        let known = |ratio: Option<f64>| ratio.unwrap_or(f64::NAN);
        match self {
            Self::Jct => run.jct_min,
            Self::Makespan => run.makespan_h,
            Self::Waiting => run.waiting_s,
            Self::Quick => run.quick,
            Self::Deadlines => known(run.objectives.deadline_ratio),
            Self::UrgentDeadlines => known(run.objectives.urgent_deadline_ratio),
            Self::Accuracy => known(run.objectives.avg_accuracy),
            Self::Accuracies => known(run.objectives.accuracy_ratio),
            Self::Traffic => run.objectives.traffic_bytes / 1e12,
            Self::Overloads => run.objectives.overloads as f64,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Jct => "mean JCT",
            Self::Makespan => "makespan",
            Self::Waiting => "waiting",
            Self::Quick => "jobs of at most 100 min",
            Self::Deadlines => "deadline ratio",
            Self::UrgentDeadlines => "deadline ratio of urgent jobs",
            Self::Accuracy => "mean accuracy by the deadline",
            Self::Accuracies => "accuracy ratio",
            Self::Traffic => "traffic",
            Self::Overloads => "overloads",
        }
    }

    /// Whether less of it is better.
    pub(super) const fn is_cost(self) -> bool {
        matches!(self, Self::Jct | Self::Makespan | Self::Waiting | Self::Traffic | Self::Overloads)
    }

    /// By how much the first run is better, in parts of the second.
    pub(super) fn gain(self, run: &Measured, other: &Measured) -> f64 {
        let ratio = self.of(run) / self.of(other);
        if self.is_cost() { 1.0 - ratio } else { ratio - 1.0 }
    }
}

/// What must come of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bound {
    /// The first is better by so much at the median, and better at all on nine of ten workloads.
    Better(f64),
    /// The first is worse by no more than so much at the median.
    NoWorse(f64),
}

/// A check: the first against the second.
pub(super) struct Check {
    pub(super) number: &'static str,
    pub(super) quantity: Quantity,
    pub(super) first: Who,
    pub(super) second: Who,
    /// By how much the first was better in the paper, in parts; by its text on the testbed where that says so, else by its bars.
    pub(super) published: f64,
    pub(super) bound: Bound,
    /// What is known of the paper's figure (specification, section 4.5).
    pub(super) audit: &'static str,
}

const WAITING: &str = "in the paper waiting explains only 3 to 11 % of the JCT that is gained";
const MEANS: &str = "the paper's CDF implies means of 85 to 1,470 min where its bars say 49 to 105";
const DEADLINES: &str =
    "with the published deadlines and JCTs nobody could miss more than 12 %; these are tight ones";
const ACCURACIES: &str = "the paper has an accuracy ratio of 1.000 beside a deadline ratio of .91";
const TRAFFIC: &str = "the paper's text calls all but Gandiva about equal; its bars do not";
const BASE: &str = "the paper does not say of which configuration this is an ablation; here it is MLFS";

const fn check(
    number: &'static str,
    quantity: Quantity,
    (first, second): (Who, Who),
    published: f64,
    bound: Bound,
    audit: &'static str,
) -> Check {
    Check { number, quantity, first, second, published, bound, audit }
}

/// MLFS against a rival.
const fn rival(
    number: &'static str,
    quantity: Quantity,
    rival: Alone,
    published: f64,
    gate: f64,
    audit: &'static str,
) -> Check {
    check(number, quantity, (MLFS, rival.plain()), published, Bound::Better(gate), audit)
}

/// MLFS against itself without something.
const fn without(
    number: &'static str,
    quantity: Quantity,
    without: Alone,
    published: f64,
    bound: Bound,
) -> Check {
    check(number, quantity, (MLFS, without.controlled()), published, bound, BASE)
}

use Bound::{Better, NoWorse};
use Quantity::{
    Accuracies, Accuracy, Deadlines, Jct, Makespan, Overloads, Quick, Traffic, UrgentDeadlines, Waiting,
};

/// MLF-H without something.
pub(super) const ABLATIONS: [Alone; 4] =
    [Alone::NoUrgency, Alone::NoDeadline, Alone::NoBandwidth, Alone::NoMigration];

/// All comparisons under the highest load.
pub(super) const CHECKS: &[Check] = &[
    rival("J1", Jct, Alone::Slaq, 0.53, 0.25, MEANS),
    rival("J2", Jct, Alone::Borg, 0.49, 0.25, MEANS),
    rival("J3", Jct, Alone::Gandiva, 0.42, 0.20, MEANS),
    rival("J5", Jct, Alone::HyperSched, 0.39, 0.15, MEANS),
    rival("J6", Jct, Alone::Tiresias, 0.34, 0.15, MEANS),
    rival("J7", Jct, Alone::Graphene, 0.33, 0.10, MEANS),
    check(
        "J10",
        Jct,
        (Alone::MlfH.plain(), Alone::Graphene.plain()),
        0.03,
        Better(0.0),
        "a near tie in the paper",
    ),
    check(
        "J10",
        Jct,
        (Alone::MlfH.plain(), Alone::Tiresias.plain()),
        0.07,
        Better(0.03),
        "a near tie in the paper",
    ),
    rival("J12", Quick, Alone::Tiresias, 0.33, 0.05, "the paper's text says 33 %, its curve 13 %"),
    rival("J12", Quick, Alone::Slaq, 1.18, 0.20, "the paper's text says 118 %, its curve 70 %"),
    rival(
        "M1",
        Makespan,
        Alone::Tiresias,
        0.32,
        0.05,
        "the paper's arrivals were compressed by an unknown factor",
    ),
    rival(
        "M2",
        Makespan,
        Alone::Slaq,
        0.52,
        0.15,
        "the paper's 52 % is of its lowest load, not of its highest",
    ),
    rival("D2", Deadlines, Alone::HyperSched, 0.47, 0.15, DEADLINES),
    rival("D3", Deadlines, Alone::Tiresias, 0.75, 0.20, DEADLINES),
    rival("D3", Deadlines, Alone::Graphene, 0.60, 0.15, DEADLINES),
    rival("D4", Deadlines, Alone::Slaq, 1.02, 0.40, DEADLINES),
    rival("Q1", Waiting, Alone::Tiresias, 0.40, 0.15, WAITING),
    rival("Q2", Waiting, Alone::Slaq, 0.52, 0.20, WAITING),
    rival("C1", Accuracy, Alone::HyperSched, 0.43, 0.10, ACCURACIES),
    rival("C2", Accuracy, Alone::Borg, 0.64, 0.20, ACCURACIES),
    rival("C5", Accuracies, Alone::HyperSched, 0.32, 0.10, ACCURACIES),
    rival("C5", Accuracies, Alone::Borg, 0.61, 0.20, ACCURACIES),
    rival("B1", Traffic, Alone::Borg, 0.36, 0.18, TRAFFIC),
    rival("B2", Traffic, Alone::Gandiva, 0.45, 0.20, TRAFFIC),
    check("B4", Traffic, (Alone::MlfH.plain(), Alone::Borg.plain()), 0.012, Better(0.0), TRAFFIC),
    without("E1", UrgentDeadlines, Alone::NoUrgency, 0.29, Better(0.08)),
    without("E2", Deadlines, Alone::NoDeadline, 0.25, Better(0.05)),
    without("E3", Traffic, Alone::NoBandwidth, 0.25, Better(0.10)),
    without("E3", Jct, Alone::NoBandwidth, 0.15, Better(0.02)),
    without("E4", Overloads, Alone::NoMigration, 0.63, Better(0.20)),
    without("E5", Traffic, Alone::NoMigration, -0.11, NoWorse(0.20)),
    without("E6", Accuracy, Alone::NoMigration, 0.15, Better(0.03)),
    without("E6", Jct, Alone::NoMigration, 0.28, Better(0.05)),
    check("E7", Accuracies, (MLFS, Alone::MlfH.plain()), 0.23, Better(0.08), BASE),
    check("E7", Jct, (MLFS, Alone::MlfH.plain()), 0.41, Better(0.14), BASE),
];

/// Everything that the checks under the highest load need.
pub(super) fn keys(load: Load) -> Vec<Key> {
    let mut keys: Vec<Key> =
        CHECKS.iter().flat_map(|check| [check.first, check.second]).map(|who| (load, who)).collect();
    keys.extend(super::runs::RIVALS.iter().map(|rival| (load, rival.controlled())));
    keys.extend(ABLATIONS.map(|without| (load, without.plain())));
    keys.extend([Alone::MlfHPlus.plain(), super::runs::MLFS_PLUS].map(|who| (load, who)));
    keys
}
