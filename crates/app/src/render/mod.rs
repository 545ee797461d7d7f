//! Results as people read them: tables, sentences, pages. Computes nothing but what it shows.

mod axis;
mod cluster;
mod inspection;
mod report;
mod sentence;
mod svg;
mod table;
mod words;

pub(crate) use cluster::cluster_text;
pub(crate) use inspection::inspection_text;
pub(crate) use report::report_page;
pub(crate) use sentence::sentence;
pub(crate) use table::{Align, COLUMNS, best_rows, comparison_table, plain_table, summary_table};
pub(crate) use words::short_value;
