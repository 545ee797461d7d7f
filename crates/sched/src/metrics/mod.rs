//! What a run amounts to: folds over its records, and over nothing else.

mod fold;
mod series;
mod summary;

pub use fold::{JobRow, Metrics, RowState};
pub use series::Series;
pub use summary::{Summary, percentile};
