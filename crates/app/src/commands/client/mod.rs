//! The commands that ask a daemon. Each asks over HTTP and shows what comes; none of them reads the daemon's folder but for
//! its address and a token.

mod cancel;
mod connection;
mod jobs;
mod submit;
mod why;

pub(super) use cancel::{CancelArguments, cancel};
pub(crate) use connection::ClientError;
pub(super) use connection::Place;
pub(super) use jobs::{JobArguments, JobsArguments, job, jobs};
pub(super) use submit::{SubmitArguments, submit};
pub(super) use why::ask_why;
