//! Jobs that share their GPUs in pairs: what they are offered and what they get.

use super::problem::Rates;

/// Which jobs may share GPUs, and how fast they are then.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sharing {
    /// The kind of each job of the problem, such as model, batch size and gang. Jobs of one kind have equal rates.
    pub kinds: Vec<usize>,
    /// How many kinds there are.
    pub count: usize,
    /// `beside[a * count + b]`: steps a second of a job of kind `a` beside one of kind `b`, for each column; all 0, or empty,
    /// where they do not fit or have different gangs.
    pub beside: Vec<Rates>,
}

/// One job alone, or two jobs on the same GPUs, by their places in the problem, the lower one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Combination {
    /// A job for itself.
    Alone(usize),
    /// Two jobs side by side.
    Pair(usize, usize),
}

/// Shares of time of combinations. Those that get nothing are not listed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PackedAllocation {
    /// The combinations, in order.
    pub combinations: Vec<Combination>,
    /// A row for each combination.
    pub shares: super::problem::Shares,
    /// The value of the objective.
    pub objective: f64,
}
