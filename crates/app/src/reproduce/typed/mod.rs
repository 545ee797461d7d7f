//! What the experiments of Gavel, Hadar and HadarE have in common: workloads of jobs with measured speeds on several types of
//! GPUs, runs of them, the least time in which all can be done, and what is drawn of runs.

mod bound;
mod checked;
mod draw;
mod run;

pub(super) use bound::{forked_bound_h, makespan_bound_h};
pub(super) use checked::row_of;
pub(super) use draw::{over_time, prices_over_time, shares_below, who_ran_where};
pub(super) use run::{Case, Contender, Follow, Seen, contender, perform, perform_all};

/// Seconds of an hour.
pub(super) const HOUR_S: f64 = 3600.0;
