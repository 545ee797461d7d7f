//! Why a workload cannot be generated.

use super::servers::SpeedsError;
use super::{DAY_LIMIT, JOB_LIMIT};
use crate::trace::SPREAD_LIMIT;

/// Why nothing can be generated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GenerateError {
    /// A preset that does not exist.
    #[error("there is no preset `{name}`; {hint}")]
    NoSuchPreset {
        /// What was asked for.
        name: String,
        /// The nearest name, or all of them.
        hint: String,
    },
    /// A number of jobs that is out of range.
    #[error("jobs = {jobs}; give a number from 1 to {JOB_LIMIT}")]
    Jobs {
        /// What was given.
        jobs: u32,
    },
    /// A number of days that is out of range.
    #[error("the jobs would arrive over {days} days; that must be above 0 and up to {DAY_LIMIT}")]
    Days {
        /// What was given, or what the load would need.
        days: f64,
    },
    /// A load that is out of range.
    #[error("load = {fraction} of {gpus} GPUs; give a fraction above 0 and up to 100, and at least one GPU")]
    Load {
        /// What was given.
        fraction: f64,
        /// The GPUs of the cluster.
        gpus: u64,
    },
    /// Days or a load for a preset that has its own arrivals.
    #[error(
        "preset `{preset}` has its own arrivals; leave out the days and the load, or give a number of jobs"
    )]
    OwnArrivals {
        /// The preset.
        preset: &'static str,
    },
    /// An option that the preset does not have.
    #[error("preset `{preset}` has no option `{key}`; {hint}")]
    UnknownOption {
        /// The preset.
        preset: &'static str,
        /// What was given.
        key: String,
        /// The nearest option, or all of them.
        hint: String,
    },
    /// A value that is none for an option.
    #[error("preset `{preset}`: {message}")]
    Option {
        /// The preset.
        preset: &'static str,
        /// What is wrong, and what would be right.
        message: String,
    },
    /// A model of the preset of which the table of throughputs knows nothing.
    #[error(
        "the table of throughputs has no figure for `{model}` on {gpus} x {gpu_type}; give another table, or none"
    )]
    NotInTable {
        /// The model.
        model: String,
        /// The gang.
        gpus: u32,
        /// The GPU type.
        gpu_type: &'static str,
    },
    /// A job that runs on no GPU type of the cluster.
    #[error(
        "the table of throughputs has no figure for `{model}` on {gpus} GPUs of any type of the cluster; give another cluster, or other types with --throughputs"
    )]
    FitsNowhere {
        /// The model.
        model: String,
        /// The gang.
        gpus: u32,
    },
    /// Speeds that cannot be used.
    #[error(transparent)]
    Speeds(#[from] SpeedsError),
    /// A load in GPU time, of jobs that take as many CPU cores as they get.
    #[error(
        "jobs of `{preset}` take as many cores as they are given, so no part of the cluster is a load; give a factor, such as 1.5x"
    )]
    NoLoad {
        /// The preset.
        preset: &'static str,
    },
    /// Noisy declarations, of jobs that declare curves.
    #[error("jobs of `{preset}` declare curves and speeds, which have no spread; give exact or absent")]
    NoNoise {
        /// The preset.
        preset: &'static str,
    },
    /// A spread that is no number from 0 to 10.
    #[error("the spread of the declared durations is {spread}; give a number from 0 to {SPREAD_LIMIT}")]
    Spread {
        /// What was given.
        spread: f64,
    },
}
