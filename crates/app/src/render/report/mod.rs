//! The page for people: one HTML file that needs no network, readable light and dark, on a phone and on paper, with
//! and without scripts.
//!
//! It is put together from blocks: `page` is the frame, `facts`, `import` and `numbers` tell, and the figures (`lines`,
//! `ranges`, `parts`, `bullets`, `gantt`) show. A block knows how to draw and not what is drawn; `simulation` knows what
//! the page of a run or a comparison has. Pages of other commands use the same blocks.

mod facts;
mod figure;
mod import;
mod lines;
mod numbers;
mod page;
mod ranges;
mod simulation;

pub(crate) use facts::{facts, simulated};
pub(crate) use figure::{Figure, legend, swatch};
pub(crate) use import::import_report;
pub(crate) use lines::{Curve, lines};
pub(crate) use numbers::{Cell, Column, Numbers};
pub(crate) use page::{Page, Section};
pub(crate) use ranges::{Range, RangeRow, ranges};
pub(crate) use simulation::report_page;
