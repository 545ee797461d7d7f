//! The daemon as a web service: HTTP with JSON. It decides nothing; it asks the daemon and shows what it says.
//!
//! `server` listens, `office` is what requests share, `access` says who may do what, `problem` says what went wrong, `strict`
//! and `parts` read what comes in, `job_request` is a job as it is asked for, `shown` is how jobs and nodes look, `page` is
//! the page for people. The other files have the requests by what they are about.

mod access;
mod asking;
mod document;
mod events;
mod health;
mod history;
mod job_request;
mod jobs;
mod logs;
mod losses;
mod nodes;
mod office;
mod page;
mod parts;
mod policy;
mod problem;
mod progress;
mod reference;
mod routes;
mod server;
mod shown;
mod strict;
mod summary;
mod task_shown;
mod tasks_request;
mod tokens;

pub(crate) use access::{ADMIN_TOKEN, Access};
pub(crate) use history::History;
pub(crate) use jobs::{JobPage, Submitted};
pub(crate) use nodes::NodeList;
pub(crate) use office::{Office, jobs_in};
pub(crate) use policy::{Draining, PolicyShown};
pub(crate) use problem::{Kind, Problem};
pub(crate) use routes::document;
pub(crate) use server::{ADDRESS, Server, Tls};
pub(crate) use shown::{JobShown, NodeShown};
pub(crate) use strict::meant;
pub(crate) use task_shown::TaskShown;
pub(crate) use tokens::{NewToken, TokenList};
