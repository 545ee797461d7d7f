//! What may be chosen of Tiresias: bands, order inside them, and how exactly it follows the public code.

use serde::{Deserialize, Serialize};

use crate::decide::{PLACEMENT, Parameter, Values, chosen, numbered};
use crate::place::Rule;

use super::gittins::Index;
use super::history;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Variant {
    #[default]
    Las,
    Gittins,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Timing {
    #[default]
    Exact,
    Python2,
    Python3,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Parameters {
    pub(super) thresholds_gpu_s: Vec<f64>,
    pub(super) promote: f64,
    pub(super) variant: Variant,
    pub(super) placement: Rule,
    pub(super) timing: Timing,
    pub(super) index: Index,
    pub(super) quantum_gpu_s: f64,
    pub(super) history_gpu_s: Vec<f64>,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            thresholds_gpu_s: vec![3600.0],
            promote: 0.0,
            variant: Variant::Las,
            placement: Rule::Pack,
            timing: Timing::Exact,
            index: Index::Textbook,
            quantum_gpu_s: 3250.0,
            history_gpu_s: history::SERVICE_GPU_S.to_vec(),
        }
    }
}

/// What its parameters mean and may be.
pub(super) const PARAMETERS: &[Parameter] = &[
    ascending("thresholds_gpu_s", 255, "attained service at which a job sinks to the next band"),
    numbered(
        "promote",
        "",
        (0.0, 1e6),
        "a job that waits so many times as long as it ran goes back to the first band; 0 means never",
    ),
    chosen(
        "variant",
        &["las", "gittins"],
        "order inside a band: by least attained service (first come, first served), or by Gittins index",
    ),
    PLACEMENT,
    chosen(
        "timing",
        &["exact", "python2", "python3"],
        "when a job sinks: at the moment itself, or rounded as the public code does under a Python",
    ),
    chosen(
        "index",
        &["textbook", "as_coded"],
        "form of the Gittins index: by the service that remains, or as in the public code",
    ),
    numbered("quantum_gpu_s", "GPU-s", (0.001, 1e9), "service for which the Gittins index looks ahead"),
    ascending("history_gpu_s", 100_000, "service of past jobs, from which the Gittins index is computed"),
];

const fn ascending(name: &'static str, count: usize, meaning: &'static str) -> Parameter {
    Parameter { name, meaning, unit: "GPU-s", values: Values::Ascending { least: 0.001, most: 1e9, count } }
}
