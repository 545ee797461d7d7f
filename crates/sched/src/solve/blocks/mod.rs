//! Programs of many small blocks that share a few rows, and an interior-point method that knows their shape.
//!
//! It is the primal-dual method of Mehrotra (SIAM J. Optimization 1992) from a start that need not satisfy the rows, with
//! Newton steps that cost one pass over the blocks (see `newton`). It follows the central path of the program as it is
//! written and ends close to it, so where many points are optimal the answer is near the analytic centre of all of them:
//! what can be shared out evenly is. Blocks with logarithms need no other method: the product of such a level and its dual is
//! steered to the weight of the logarithm instead of to nought.
//!
//! `embedded` is another method, for whoever wants not the best point but the very one that a public solver ends at.
//!
//! Only additions, multiplications, divisions and square roots are made, in a fixed order, so an answer is the same on
//! every machine, bit by bit.

mod embedded;
mod method;
mod newton;
mod point;
mod program;
mod scaled;

pub use embedded::within;
pub use method::{Answer, answer_from, solve};
pub use program::{BlockProgram, Level, Link};
