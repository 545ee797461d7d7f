//! The one decision loop: events make state, state makes a snapshot, a policy makes a decision, and the
//! difference between target and state makes the actions that are due.

mod backend;
mod check;
mod copies;
mod core;
mod drift;
mod due;
mod ends;
mod event;
mod journal;
mod ledger;
mod moment;
mod moves;
mod reports;
mod run;
mod state;

pub use backend::{Backend, Batch};
pub use check::{Fault, check};
pub use core::{Core, Maker, Settings, Step};
pub use drift::Drift;
pub use due::due;
pub use event::{Action, Event, How, Outcome};
pub use journal::{Head, JOURNAL_VERSION, Log, Nothing, Record};
pub use moment::Moment;
pub use run::run;
pub use state::State;
