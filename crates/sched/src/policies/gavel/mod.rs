//! Gavel: policies for clusters of several types of GPUs, as programs whose answer is a share of time for each job on each
//! type.
//!
//! # Source
//! Narayanan et al., OSDI 2020, and its public code (repository stanford-futuredata/gavel, commit c4fa400). Each file says
//! where we differ.

pub mod allocation;
