//! Settings: from arguments to everything that a run depends on. Runs nothing.

mod inputs;
mod machines;
mod metric;
mod model_file;
mod policy;
mod preset;
mod run_file;
mod service;
mod stock;
mod sweep_file;
mod this_machine;
mod trace_arguments;
mod words;

pub(crate) use inputs::{InputArguments, Inputs, Variation};
pub(crate) use machines::{Addition, MachineChange, NodeKind, Removal};
pub(crate) use metric::{Better, METRICS, Metric, Requirement, Unit};
pub(crate) use model_file::{Model, ModelError, ModelSettings};
#[cfg(feature = "learn")]
pub(crate) use policy::WEIGHTS_SUFFIX;
pub(crate) use policy::{PolicyChoice, deciding, digest, parse_policies, parse_policy};
pub(crate) use preset::PresetChoice;
pub(crate) use run_file::{Ended, PROGRAM, RunFile};
pub(crate) use service::{Explained, Service, ServiceError, ServiceLayer};
pub(crate) use stock::Stock;
pub(crate) use sweep_file::{Cell, Factor, Setting, SweepFile, SweepFileError};
pub(crate) use this_machine::{Hardware, MachineError, hardware};
pub(crate) use trace_arguments::{PIPE, TraceArguments};
pub(crate) use words::{ArgumentError, FaultsWord, Threads, load_factor, seed, span};
