//! What training programs say of their progress: lines of JSON, rows of CSV, or any lines with a pattern.
//!
//! - [`Listener`] puts all of this together for one attempt, and tells what the decision loop wants to hear.
//! - [`Form`] is how a program says it, from a word in the description of its job.
//! - [`Follower`] is given bytes as they come and answers reports; [`Tail`] gives it the bytes of a file that grows.
//! - [`Sent`] is what comes as the body of a request.
//! - [`Speedometer`] makes iterations a second of reports, and [`Thinner`] few reports of many.
//!
//! Nothing here fails on what a program writes: what is not understood is counted, and the first of it kept to be shown.
//! Nothing here reads a clock either: times are handed in. What is promised to programs is in `docs/job-contract.md`.

mod body;
mod follower;
mod form;
mod json;
mod line;
mod listener;
mod names;
mod speedometer;
mod table;
mod tail;
mod thinner;

pub use body::{BodyError, LONGEST_BODY_BYTES, Sent};
pub use follower::{Counts, Follower, Unclear};
pub use form::{Form, FormError, Pattern};
pub use line::LONGEST_LINE_BYTES;
pub use listener::{Listener, News};
pub use speedometer::Speedometer;
pub use tail::Tail;
pub use thinner::Thinner;

/// What a program said of its progress at one time. At least one of them is there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// Iterations done. It is missing where a line only says what is saved.
    pub iteration: Option<f64>,
    /// The loss after them. One that is not finite is NaN here, and is passed on: a policy must learn of it.
    pub loss: Option<f64>,
    /// The accuracy after them, finite.
    pub accuracy: Option<f64>,
    /// Iterations that are safe on disk.
    pub saved: Option<f64>,
}
