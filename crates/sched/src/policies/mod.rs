//! The table of policies, and nothing else.

pub mod dl2;
mod easy;
mod fifo;
pub mod gavel;
pub mod hadar;
mod mlfs;
mod optimus;
mod rivals;
mod sharing;
mod slaq;
mod slots;
mod srtf;
mod tetris;
mod tiresias;

use crate::decide::{Entry, ParameterError, Policy, similar};

/// Every policy there is.
pub const ALL: &[&Entry] = &[
    &fifo::FIFO,
    &fifo::FIFO_SKIP,
    &fifo::YARN_CS,
    &easy::ENTRY,
    &sharing::FAIR,
    &sharing::DRF,
    &gavel::GAVEL,
    &gavel::ALLOX,
    &gavel::GANDIVA,
    &hadar::HADAR,
    &hadar::HADARE,
    &mlfs::MLF_H,
    &mlfs::MLF_H_PLUS,
    &slaq::SLAQ,
    &slaq::SLAQ_TAIL,
    &srtf::SRTF,
    &srtf::SJF,
    &tetris::ENTRY,
    &tiresias::ENTRY,
    &slots::DRF,
    &slots::FIFO,
    &slots::SRTF,
    &slots::TETRIS,
    &optimus::ENTRY,
    &dl2::ENTRY,
    &rivals::BORG,
    &rivals::GANDIVA_POOLS,
    &rivals::GRAPHENE,
    &rivals::HYPERSCHED,
    &mlfs::MLF_C,
];

/// The entry with this name.
pub fn find(name: &str) -> Result<&'static Entry, ParameterError> {
    ALL.iter().copied().find(|entry| entry.name == name).ok_or_else(|| ParameterError::UnknownPolicy {
        name: name.to_owned(),
        suggestion: similar(name, ALL.iter().map(|entry| entry.name)),
        known: ALL.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", "),
    })
}

/// Makes a policy by name.
pub fn build(name: &str, parameters: &toml::Table) -> Result<Box<dyn Policy>, ParameterError> {
    (find(name)?.build)(parameters)
}
