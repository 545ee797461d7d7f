//! `run.toml`: the settings of a run as they were resolved, and how it ended. Holds nothing that was measured.

use serde::{Deserialize, Serialize};
use trainyard_sched::model::Time;
use trainyard_sim::physics::Physics;

use super::trace_arguments::ReadingPart;
use super::{Inputs, PolicyChoice};

/// The version of this program.
pub(crate) const PROGRAM: &str = concat!("trainyard ", env!("CARGO_PKG_VERSION"));

/// The file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunFile {
    /// The program and its version.
    pub(crate) program: String,
    /// The seed.
    pub(crate) seed: u64,
    /// Where the jobs come from.
    pub(crate) jobs: JobsPart,
    /// The machines.
    pub(crate) cluster: ClusterPart,
    /// The policy with all its parameters.
    pub(crate) policy: PolicyPart,
    /// Costs and failures.
    pub(crate) world: WorldPart,
    /// How the run ended.
    pub(crate) ended: Ended,
}

/// Where the jobs come from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct JobsPart {
    /// In words.
    pub(crate) source: String,
    /// The file as it was given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) trace: Option<String>,
    /// The first 16 hex digits of the SHA-256 of its bytes, decompressed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) sha256_16: Option<String>,
    /// Rows read.
    pub(crate) rows: u64,
    /// Jobs that arrive.
    pub(crate) jobs: usize,
    /// What they declare.
    pub(crate) declared: String,
    /// How the trace was to be read, as far as that differs from what is usual.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) reading: Option<ReadingPart>,
}

/// The machines.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClusterPart {
    /// As they were given.
    pub(crate) words: String,
    /// Machines.
    pub(crate) nodes: usize,
    /// GPUs.
    pub(crate) gpus: u64,
}

/// The policy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PolicyPart {
    /// Its name.
    pub(crate) name: String,
    /// All parameters.
    pub(crate) parameters: toml::Table,
}

/// Costs and failures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WorldPart {
    /// Where failures come from.
    pub(crate) faults: String,
    /// How many there are.
    pub(crate) failures: usize,
    /// When the run is cut off.
    pub(crate) horizon_s: f64,
    /// How often running jobs report, if they do.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) report_every_s: Option<f64>,
    /// How much there is over time, where a series says so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) capacity: Option<CapacityPart>,
    /// What moving costs where a job does not say.
    pub(crate) moving: MovingPart,
    /// How fast jobs go, beyond what the trace says.
    pub(crate) physics: Physics,
}

/// How much there is over time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CapacityPart {
    /// The file, as it was given.
    pub(crate) file: String,
    /// The first 16 hex digits of the SHA-256 of its bytes, decompressed.
    pub(crate) sha256_16: String,
    /// How often nodes leave or come back.
    pub(crate) changes: usize,
    /// The part of all GPUs that is there on average while the series lasts.
    pub(crate) mean_gpu_share: f64,
}

/// What moving costs.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct MovingPart {
    /// Seconds to stop.
    pub(crate) save_s: f64,
    /// Seconds to start.
    pub(crate) load_s: f64,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Ended {
    /// When, in microseconds of simulated time.
    pub(crate) at_us: Time,
    /// Whether it was cut off.
    pub(crate) cut_off: bool,
}

impl RunFile {
    /// What is written down of a run.
    pub(crate) fn new(inputs: &Inputs, policy: &PolicyChoice, ended: Ended) -> Self {
        Self {
            program: PROGRAM.to_owned(),
            seed: inputs.seed.0,
            jobs: inputs.jobs_part.clone(),
            cluster: inputs.cluster_part.clone(),
            policy: PolicyPart { name: policy.name().to_owned(), parameters: policy.parameters() },
            world: inputs.world_part.clone(),
            ended,
        }
    }
}
