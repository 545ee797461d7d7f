//! The page for people: one HTML file that needs no network, readable light and dark, on a phone and on paper, with
//! and without scripts.
//!
//! It is put together from blocks: `page` is the frame; `facts`, `import`, `numbers`, `tenants` and `waiters` tell; the
//! figures (`lines`, `bars`, `bands`, `ranges`, `parts`, `gantt`) show; `picker` shows one of several. A block knows how to draw and not
//! what is drawn; `simulation` and `closer` know what the page of a run or a comparison has. Pages of other commands use
//! the same blocks.

mod bands;
mod bars;
mod closer;
mod facts;
mod figure;
mod gantt;
mod import;
mod lines;
mod numbers;
mod page;
mod parts;
mod picker;
mod ranges;
mod simulation;
mod tenant_colours;
mod tenants;
mod waiters;

pub(crate) use bands::{Stretch, bands};
pub(crate) use bars::bars;
use closer::{one_at_a_time, reasons, waits_by_size};
pub(crate) use facts::{facts, simulated};
pub(crate) use figure::{Figure, legend, swatch};
pub(crate) use import::import_report;
pub(crate) use lines::{Curve, lines};
pub(crate) use numbers::{Cell, Column, Numbers, Row};
pub(crate) use page::Page;
use parts::{Whole, parts};
use picker::picker;
pub(crate) use ranges::{Range, RangeRow, ranges};
pub(crate) use simulation::report_page;
