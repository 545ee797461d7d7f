//! Settings: from arguments to everything that a run depends on. Runs nothing.

mod inputs;
mod policy;
mod run_file;
mod words;

pub(crate) use inputs::{InputArguments, Inputs};
pub(crate) use policy::{PolicyChoice, parse_policies, parse_policy};
pub(crate) use run_file::{Ended, RunFile};
pub(crate) use words::{ArgumentError, FaultsWord, Requirement, Threads, span};
