//! How fast? Formulas that policies and the simulator's physics share.

mod iteration;

pub use iteration::{graph_iteration_s, ring_all_reduce_s};
