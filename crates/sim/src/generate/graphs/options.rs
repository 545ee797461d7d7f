//! What may be said of jobs that are graphs of tasks: `mlfs{key = value}`.

use serde::{Deserialize, Serialize};
use trainyard_sched::decide::{Parameter, Values};

/// How jobs of tasks are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphMix {
    /// Days of a real trace whose rhythm the arrivals have, squeezed into the days of the preset.
    pub rhythm_days: u32,
}

/// When jobs should be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Deadlines {
    /// As published: half an hour to a day, whatever their length.
    Literal,
    /// In proportion to their length.
    #[default]
    Tight,
}

/// What may be said of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GraphOptions {
    pub(super) deadlines: Deadlines,
    pub(super) kappa: f64,
    pub(super) own_iterations: f64,
    pub(super) prediction_error: f64,
    pub(super) replicas: bool,
    pub(super) traffic: f64,
    pub(super) wander: f64,
}

impl Default for GraphOptions {
    fn default() -> Self {
        Self {
            deadlines: Deadlines::Tight,
            kappa: 2.5,
            own_iterations: 0.0,
            prediction_error: 0.138,
            replicas: false,
            traffic: 1.0,
            wander: 0.2,
        }
    }
}

const fn number(name: &'static str, meaning: &'static str, least: f64, most: f64) -> Parameter {
    Parameter { name, meaning, unit: "", values: Values::Number { least, most } }
}

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "deadlines",
        meaning: "literal: as published, half an hour to a day after submission; tight: up to kappa times the run time",
        unit: "",
        values: Values::Choice(&["literal", "tight"]),
    },
    number("kappa", "the most that a tight deadline is, in run times", 1.1, 1e6),
    number(
        "own_iterations",
        "the part of the jobs that run all their iterations and may not be stopped before; the others end at their peak, or under overload at the accuracy that they need",
        0.0,
        1.0,
    ),
    number(
        "prediction_error",
        "the standard deviation of what is declared of an iteration, in parts",
        0.0,
        2.0,
    ),
    Parameter {
        name: "replicas",
        meaning: "whether jobs have 1, 2 or 4 replicas with as many GPUs in all, and not 1",
        unit: "",
        values: Values::Flag,
    },
    number("traffic", "a factor on the bytes that flow", 0.0, 1e3),
    number("wander", "the standard deviation of what a task uses, in parts of its demand", 0.0, 0.5),
];

impl GraphMix {
    /// What may be said of such jobs.
    pub const fn parameters(self) -> &'static [Parameter] {
        PARAMETERS
    }

    /// What holds if nobody says otherwise.
    pub fn defaults(self) -> toml::Table {
        toml::Table::try_from(GraphOptions::default()).expect("options are a table of plain values")
    }
}
