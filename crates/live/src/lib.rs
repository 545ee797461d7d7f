//! Real clusters behind the decision loop.
//!
//! `sched` decides and knows nothing of processes, files and clocks; here is what it is spared:
//!
//! - [`work`]: what a job runs, beside what it needs.
//! - [`report`]: what training programs say of their progress, in whatever form they say it.
//! - [`mailbox`]: reports that are sent over HTTP.
//! - [`executor`]: the seam. What differs between kinds of clusters is behind this trait, and nothing else is.
//! - [`local`]: the executor for one machine: processes, CPU shares, memory limits, GPUs where there are any.
//! - [`bridge`]: the loop's backend. It turns requests and facts into events, and hands actions to the executor.
//! - [`store`]: the durable journal, in SQLite.
//! - [`consolidate`]: one state of those of several copies.
//! - [`board`]: the jobs as people are shown them, and [`curve`] their losses.
//! - [`fault`]: where a test may let the daemon die.
//! - [`guard`]: holds a policy to its time.
//! - `writer`: writes steps down, and answers whoever waited for that.
//! - `recover`: tells the journal again after a crash.
//! - [`daemon`]: puts it together.

pub mod board;
pub mod bridge;
pub mod clock;
pub mod consolidate;
pub mod curve;
pub mod daemon;
pub mod executor;
pub mod fault;
pub mod guard;
pub mod local;
pub mod mailbox;
mod recover;
pub mod report;
pub mod store;
pub mod work;
mod writer;

pub use bridge::{Bridge, Requests};
pub use clock::Clock;
pub use daemon::{Daemon, Handle, Refusal, Settings, Submission};
pub use executor::{Executor, Held, Pending, Reporter};
pub use work::{Launch, Work};
