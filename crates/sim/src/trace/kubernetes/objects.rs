//! The parts of Kubernetes objects that are read. Knows nothing of jobs.

use std::collections::BTreeMap;

use serde::Deserialize;
use trainyard_sched::model::GPU;

use crate::quantity::{bounded, quantity};
use crate::trace::fields::{GPU_LIMIT, MOST_BYTES, MOST_CPUS};

/// Labels by which nodes tell their type of GPU.
const TYPE_LABELS: [&str; 4] =
    ["nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "gpu.nvidia.com/class", "accelerator"];
/// Resources that are whole GPUs.
const GPU_RESOURCES: [&str; 3] = ["nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915"];

/// A pod or a job.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Object {
    pub(crate) metadata: Metadata,
    #[serde(default)]
    pub(crate) spec: Spec,
    #[serde(default)]
    pub(crate) status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) namespace: String,
    #[serde(default)]
    pub(crate) uid: String,
    pub(crate) creation_timestamp: Option<String>,
    #[serde(default)]
    pub(crate) owner_references: Vec<Owner>,
}

#[derive(Deserialize)]
pub(crate) struct Owner {
    pub(crate) uid: String,
    pub(crate) kind: String,
    pub(crate) name: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Spec {
    /// Of a job: what its pods are.
    pub(crate) template: Option<Template>,
    pub(crate) parallelism: Option<u32>,
    pub(crate) active_deadline_seconds: Option<u64>,
    /// Of a pod.
    pub(crate) containers: Vec<Container>,
    pub(crate) node_selector: BTreeMap<String, String>,
    pub(crate) affinity: Option<Affinity>,
}

#[derive(Deserialize)]
pub(crate) struct Template {
    #[serde(default)]
    pub(crate) spec: Box<Spec>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Container {
    pub(crate) resources: Resources,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Resources {
    pub(crate) requests: BTreeMap<String, Amount>,
    pub(crate) limits: BTreeMap<String, Amount>,
}

/// An amount as JSON has it: a number or a text with a unit.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Amount {
    /// Without a unit.
    Number(f64),
    /// With one.
    Text(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Affinity {
    node_affinity: Option<NodeAffinity>,
}

#[derive(Deserialize)]
struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<Selector>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Selector {
    #[serde(default)]
    node_selector_terms: Vec<Term>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Term {
    #[serde(default)]
    match_expressions: Vec<Expression>,
}

#[derive(Deserialize)]
struct Expression {
    key: String,
    operator: String,
    #[serde(default)]
    values: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Status {
    /// Of a pod: `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub(crate) phase: String,
    pub(crate) start_time: Option<String>,
    /// Of a job.
    pub(crate) completion_time: Option<String>,
    pub(crate) conditions: Vec<Condition>,
    /// Of a pod.
    pub(crate) container_statuses: Vec<ContainerStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Condition {
    #[serde(rename = "type", default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) status: String,
    pub(crate) last_transition_time: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct ContainerStatus {
    #[serde(default)]
    pub(crate) state: ContainerState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerState {
    pub(crate) running: Option<Ran>,
    pub(crate) terminated: Option<Ran>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ran {
    pub(crate) started_at: Option<String>,
    pub(crate) finished_at: Option<String>,
}

/// What the containers of one pod ask for together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// Whole GPUs.
    pub(crate) gpus: u64,
    /// CPU cores in thousandths.
    pub(crate) cpu_milli: u64,
    /// Main memory in bytes.
    pub(crate) memory_bytes: u64,
}

impl Request {
    /// The larger of each amount.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            gpus: self.gpus.max(other.gpus),
            cpu_milli: self.cpu_milli.max(other.cpu_milli),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
        }
    }
}

impl Spec {
    /// What the containers ask for; `Err` with the amount that is not understood, is no whole number of GPUs, or is
    /// too much.
    pub(crate) fn request(&self) -> Result<Request, (&'static str, String)> {
        let mut sum = Request::default();
        for container in &self.containers {
            let Resources { requests, limits } = &container.resources;
            // What is limited and not requested is requested to the limit.
            let get = |key: &str| requests.get(key).or_else(|| limits.get(key));
            for key in GPU_RESOURCES {
                add(&mut sum.gpus, key, get(key), |amount| {
                    (amount.fract() == 0.0 && amount <= GPU_LIMIT).then_some(amount)
                })?;
            }
            add(&mut sum.cpu_milli, "cpu", get("cpu"), |cores| {
                (cores <= MOST_CPUS).then(|| (cores * GPU as f64).round())
            })?;
            add(&mut sum.memory_bytes, "memory", get("memory"), Some)?;
        }
        Ok(sum)
    }

    /// The types of GPU that the node must have, as `a|b`; empty means any.
    pub(crate) fn gpu_types(&self) -> String {
        let is_type = |key: &str| TYPE_LABELS.contains(&key);
        if let Some((_, value)) = self.node_selector.iter().find(|(key, _)| is_type(key)) {
            return value.clone();
        }
        let required =
            self.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref()?.required.as_ref());
        // Terms are alternatives; if one of them does not name types, any will do.
        let mut all = Vec::new();
        for term in required.iter().flat_map(|selector| &selector.node_selector_terms) {
            let fits = |e: &&Expression| is_type(&e.key) && e.operator == "In";
            let Some(expression) = term.match_expressions.iter().find(fits) else { return String::new() };
            all.extend(expression.values.iter().map(String::as_str));
        }
        all.join("|")
    }
}

/// Adds an amount to a sum, after `convert` has brought it to the sum's unit. The sum has limits too.
fn add(
    sum: &mut u64,
    key: &'static str,
    amount: Option<&Amount>,
    convert: impl Fn(f64) -> Option<f64>,
) -> Result<(), (&'static str, String)> {
    let Some(amount) = amount else { return Ok(()) };
    let more = amount.value().and_then(convert).map(|more| more as u64);
    let all = more.and_then(|more| sum.checked_add(more)).filter(|all| *all as f64 <= MOST_BYTES);
    *sum = all.ok_or_else(|| (key, amount.text()))?;
    Ok(())
}

impl Amount {
    /// The amount in whole units.
    pub(crate) fn value(&self) -> Option<f64> {
        match self {
            Self::Number(number) => bounded(*number),
            Self::Text(text) => quantity(text),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_of_whole_gpus_and_within_limits() {
        let request = |first: &str, second: &str| {
            let container = |asked: &str| format!(r#"{{"resources": {{"requests": {{{asked}}}}}}}"#);
            let text = format!(r#"{{"containers": [{}, {}]}}"#, container(first), container(second));
            serde_json::from_str::<Spec>(&text).unwrap().request()
        };
        let two =
            request(r#""nvidia.com/gpu": 1, "cpu": "1500m""#, r#""nvidia.com/gpu": "2", "memory": "1Gi""#);
        assert_eq!(two, Ok(Request { gpus: 3, cpu_milli: 1500, memory_bytes: 1 << 30 }));
        for (key, value) in [
            ("nvidia.com/gpu", "1500m"),
            ("nvidia.com/gpu", "500m"),
            ("nvidia.com/gpu", "1E"),
            ("cpu", "1E"),
            ("memory", "1E"),
            ("cpu", "-1"),
            ("memory", "NaN"),
        ] {
            let asked = format!(r#""{key}": "{value}""#);
            assert_eq!(request(&asked, &asked), Err((key, value.to_owned())), "{key} {value}");
        }
    }

    #[test]
    fn types_come_from_selectors_and_from_affinities() {
        let types = |text: &str| serde_json::from_str::<Spec>(text).unwrap().gpu_types();
        assert_eq!(
            types(r#"{"nodeSelector": {"zone": "a", "nvidia.com/gpu.product": "NVIDIA-A100"}}"#),
            "NVIDIA-A100"
        );
        let term = |key: &str| {
            format!(r#"{{"matchExpressions": [{{"key": "{key}", "operator": "In", "values": ["a", "b"]}}]}}"#)
        };
        let affinity = |terms: &str| {
            types(&format!(
                r#"{{"affinity": {{"nodeAffinity": {{"requiredDuringSchedulingIgnoredDuringExecution":
                {{"nodeSelectorTerms": [{terms}]}}}}}}}}"#
            ))
        };
        assert_eq!(affinity(&term("accelerator")), "a|b");
        assert_eq!(affinity(&format!("{}, {}", term("accelerator"), term("zone"))), "");
        assert_eq!(types("{}"), "");
    }
}
