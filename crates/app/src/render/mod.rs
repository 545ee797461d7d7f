//! Results as people read them: tables, sentences, pages. Computes nothing but what it shows.

mod axis;
mod cluster;
mod curve;
mod demo;
mod fidelity;
mod figure;
mod inspection;
mod partition;
mod report;
mod reproduction;
mod sentence;
mod svg;
mod sweep;
mod sweep_page;
mod table;
mod throughput;
mod whatif;
mod whatif_page;
mod whatif_sentences;
mod why;
mod words;

pub(crate) use cluster::cluster_text;
pub(crate) use curve::{curve_page, curve_text};
pub(crate) use demo::{DemoAnswer, DemoRow, demo_page, demo_text};
pub(crate) use fidelity::{
    Compared, FidelityAnswer, Figures, LeftOut, OtherPolicy, Rests, fidelity_page, fidelity_text,
};
pub(crate) use inspection::inspection_text;
pub(crate) use partition::partition_text;
pub(crate) use report::report_page;
pub(crate) use reproduction::{reproduction_page, reproduction_text};
pub(crate) use sentence::in_short;
pub(crate) use sweep::sweep_text;
pub(crate) use sweep_page::sweep_page;
pub(crate) use table::{Align, best_rows, columns, comparison_table, plain_table, summary_table};
pub(crate) use throughput::{throughput_page, throughput_text};
pub(crate) use whatif::whatif_text;
pub(crate) use whatif_page::whatif_page;
pub(crate) use whatif_sentences::whatif_sentences;
pub(crate) use why::{
    Answer, Called, Losses, OTHERS, Outlooked, Said, Stands, WHY_SCHEMA, loss_words, why_text,
};
pub(crate) use words::{node_name, short_value};
