//! The commands that ask a daemon. Each asks over HTTP and shows what comes; none of them reads the daemon's folder but for
//! its address and a token.

mod cancel;
mod connection;
mod jobs;
mod logs;
mod operate;
mod submit;
mod top;
mod why;

pub(super) use cancel::{CancelArguments, cancel, resume};
pub(crate) use connection::ClientError;
pub(super) use connection::Place;
pub(super) use jobs::{JobArguments, JobsArguments, job, jobs};
pub(super) use logs::{LogsArguments, logs};
pub(super) use operate::{
    DrainArguments, NodesArguments, PolicyCommand, TokenCommand, drain, nodes, policy, token, undrain,
};
pub(super) use submit::{SubmitArguments, submit};
pub(super) use top::{TopArguments, top};
pub(super) use why::ask_why;
