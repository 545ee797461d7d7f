//! What a policy must answer, and its working copy while it thinks.

mod abilities;
mod ahead;
mod checked;
mod decision;
mod parameters;
mod plan;
mod policy;
mod ranked;
mod reason;
mod slate;

pub use abilities::Abilities;
pub use ahead::Ahead;
pub use checked::{Checked, Dice};
pub use decision::{Change, Decision, EarlyEnd, Enough};
pub use parameters::{PLACEMENT, Parameter, ParameterError, Values, parameters};
pub(crate) use parameters::{ROUND_S, chosen, counted, defaults, flagged, numbered, similar};
pub use plan::{News, Plan};
pub use policy::{Build, Cadence, Entry, Policy, Suits};
pub use ranked::{Manner, Rank, Ranked};
pub use reason::{Names, Reason, StoodIn, Verdict};
pub use slate::{Given, Line, MOST_UNITS, Memory, Misfit, Slate, Unit, ahead_by, by_arrival, most_of};
