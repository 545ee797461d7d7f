//! What a run amounts to: folds over its records, and over nothing else.
//!
//! `fold` makes the rows and the summary that every run has. `details` is for reports and optional: it feeds
//! `timeline`, `waiting`, `shares` and `fragmentation` with the changes that `holdings` sees; `usage` follows what jobs do where, `spending` what that costs, `books` what copies did. `objectives` is about deadlines, accuracies and traffic, `quality` follows what jobs
//! report of their losses.

mod books;
mod details;
mod early;
mod fold;
mod fragmentation;
mod holdings;
mod objectives;
mod quality;
mod series;
mod shares;
mod sizes;
mod spending;
mod summary;
mod timeline;
mod usage;
mod waiting;

pub use books::CopyBooks;
pub use details::Details;
pub use early::EarlySummary;
pub use fold::{JobRow, Metrics, RowState};
pub use fragmentation::{Fragmentation, PIECE_GPUS};
pub use holdings::Left;
pub use objectives::{Objectives, ObjectivesSummary, URGENT};
pub use quality::{Learner, Moment, Quality, QualitySummary};
pub use series::Series;
pub use shares::{Share, Shares};
pub use sizes::{SizeClass, waits_by_size};
pub use spending::Spending;
pub use summary::{Summary, percentile};
pub use timeline::{Bar, Block, MOST_NODES, Timeline};
pub use usage::{NodeUse, Usage};
pub use waiting::{LongWait, MOST_NAMED, Waited, Waiting};
