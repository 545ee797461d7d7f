//! What MLFS was compared with, on jobs that are graphs of tasks: each a policy of its own, on one desk.
//!
//! MLFS (CoNEXT 2020) names its rivals and publishes none of their code or parameters. Each file says what was published of
//! its policy, what is recalled, and what had to be adapted. All of them look at the queue once a minute and whenever room may
//! have changed, and all of them run on any jobs.

mod borg;
mod desk;
mod graphene;
mod hypersched;
mod pools;
mod seat;

pub(super) use borg::ENTRY as BORG;
pub(super) use graphene::ENTRY as GRAPHENE;
pub(super) use hypersched::ENTRY as HYPERSCHED;
pub(super) use pools::ENTRY as GANDIVA_POOLS;
