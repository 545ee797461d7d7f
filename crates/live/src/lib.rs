//! Real clusters behind the decision loop.
//!
//! `sched` decides and knows nothing of processes, files and clocks; here is what it is spared:
//!
//! - [`report`]: what training programs say of their progress, in whatever form they say it.

pub mod report;
