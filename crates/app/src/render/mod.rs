//! Results as people read them: tables, sentences, charts, pages. Computes nothing but what it shows.

mod chart;
mod inspection;
mod report;
mod sentence;
mod table;
mod why;
mod words;

pub(crate) use inspection::inspection_text;
pub(crate) use report::report_page;
pub(crate) use sentence::sentence;
pub(crate) use table::{Align, COLUMNS, best_rows, comparison_table, plain_table, summary_table};
pub(crate) use why::{Answer, Called, Outlooked, Said, Stands, WHY_SCHEMA, why_text};
pub(crate) use words::short_value;
