//! What may be said of profiled jobs: `name{key = value}`.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use trainyard_sched::decide::{Parameter, Values};

use super::super::{GenerateError, Preset, options_of};

/// How profiled jobs are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Profiled {
    /// As in Gavel's generator.
    Gavel {
        /// Whether jobs have up to 8 GPUs, if nobody says.
        multi_gpu: bool,
        /// Arrivals in an hour, if nobody says; 0 for all at the beginning.
        jobs_per_h: f64,
    },
    /// In four categories of size, all at the beginning.
    Categories,
    /// One of each of five models in turn, all at the beginning, for a few nodes of one GPU.
    Mix,
}

/// What may be said of Gavel's generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GavelOptions {
    pub(super) multi_gpu: bool,
    pub(super) jobs_per_h: f64,
    pub(super) priorities: bool,
    pub(super) objectives: bool,
    pub(super) distance: bool,
}

/// What may be said of jobs in categories.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CategoryOptions {
    pub(super) distance: bool,
}

/// What may be said of a mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MixOptions {
    pub(super) aggregate_s: f64,
    pub(super) copies: u16,
    pub(super) restart_s: f64,
}

impl Default for MixOptions {
    fn default() -> Self {
        Self { aggregate_s: 5.0, copies: 5, restart_s: 10.0 }
    }
}

const fn flagged(name: &'static str, meaning: &'static str) -> Parameter {
    Parameter { name, meaning, unit: "", values: Values::Flag }
}

const DISTANCE: Parameter = flagged(
    "distance",
    "whether gangs on several nodes are as slow as was measured; Gavel's simulator takes them to be as fast",
);

const GAVEL: &[Parameter] = &[
    flagged("multi_gpu", "whether jobs have 1, 2, 4 or 8 GPUs, and not 1"),
    Parameter {
        name: "jobs_per_h",
        meaning: "arrivals in an hour, at random; 0 for all at the beginning",
        unit: "1/h",
        values: Values::Number { least: 0.0, most: 1e6 },
    },
    flagged("priorities", "whether a fifth of the jobs have weight 5"),
    flagged("objectives", "whether jobs have deadlines: 1.2, 2 or 10 times their run time on V100"),
    DISTANCE,
];

const CATEGORIES: &[Parameter] = &[DISTANCE];

const MIX: &[Parameter] = &[
    Parameter {
        name: "aggregate_s",
        meaning: "how long copies take to be brought together, where the run does not say what moving costs",
        unit: "s",
        values: Values::Number { least: 0.0, most: 1e6 },
    },
    Parameter {
        name: "copies",
        meaning: "into how many copies each job may be forked",
        unit: "",
        values: Values::Whole { least: 1, most: 1000 },
    },
    Parameter {
        name: "restart_s",
        meaning: "how long a node does not train when it goes to another job: saving or bringing together, then loading",
        unit: "s",
        values: Values::Number { least: 0.0, most: 1e6 },
    },
];

impl Profiled {
    /// What may be said of such jobs.
    pub const fn parameters(self) -> &'static [Parameter] {
        match self {
            Self::Gavel { .. } => GAVEL,
            Self::Categories => CATEGORIES,
            Self::Mix => MIX,
        }
    }

    /// What holds if nobody says otherwise.
    pub fn defaults(self) -> toml::Table {
        let table = match self {
            Self::Gavel { multi_gpu, jobs_per_h } => {
                toml::Table::try_from(GavelOptions { multi_gpu, jobs_per_h, ..GavelOptions::default() })
            }
            Self::Categories => toml::Table::try_from(CategoryOptions::default()),
            Self::Mix => toml::Table::try_from(MixOptions::default()),
        };
        table.expect("options are a table of plain values")
    }

    /// Lets jobs arrive `factor` times as fast, where they arrive one by one.
    pub(crate) fn faster(self, given: &mut toml::Table, factor: f64) {
        let rate = given.get("jobs_per_h").cloned().or_else(|| self.defaults().remove("jobs_per_h"));
        let rate =
            rate.and_then(|rate| rate.as_float().or_else(|| rate.as_integer().map(|rate| rate as f64)));
        if let Some(rate) = rate.filter(|rate| *rate > 0.0) {
            given.insert("jobs_per_h".to_owned(), (rate * factor).into());
        }
    }

    /// The options with what was given.
    pub(super) fn options<P: Serialize + DeserializeOwned + Default>(
        self,
        preset: &Preset,
        given: &toml::Table,
    ) -> Result<P, GenerateError> {
        options_of(preset, self.parameters(), self.defaults(), given)
    }
}
