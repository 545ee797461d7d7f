//! Experiments of papers, run again and held against what was published.
//!
//! Each paper has a file or folder here which knows its workloads and how each check of the specifications is measured.
//! All of them answer with [`Findings`]: rows, further readings and plots. How these are shown is not known here.

mod gavel;
mod hadar;
mod hadare;
mod mlfs;
mod optimus;
mod plot;
mod row;
mod slaq;
mod typed;

use trainyard_sched::model::Seed;

use crate::failure::Failure;

pub(crate) use plot::{Band, Bands, Bars, Plot, PlotCurve, Scale};
pub(crate) use row::{Figures, Gate, Row};

/// A paper whose experiments can be run again.
pub(crate) struct Paper {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// What it is.
    pub(crate) title: &'static str,
    /// Where it was published.
    pub(crate) source: &'static str,
    /// Runs its experiments. The function is called after each piece of work.
    pub(crate) run: fn(&Effort, &Progress<'_>) -> Result<Findings, Failure>,
}

/// All of them.
pub(crate) const PAPERS: &[&Paper] =
    &[&slaq::PAPER, &optimus::PAPER, &gavel::PAPER, &hadar::PAPER, &hadare::PAPER, &mlfs::PAPER];

/// How much is to be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// The first seed; the others follow from it.
    pub(crate) seed: Seed,
    /// How many workloads are drawn; `None` means as many as the paper's checks ask for.
    pub(crate) seeds: Option<usize>,
    /// Whether a minute must do: fewer and smaller workloads. Intervals are wider then.
    pub(crate) quick: bool,
    /// Whether a night may be taken: experiments of hours are run as well.
    pub(crate) nightly: bool,
}

/// Tells how far the work is.
pub(crate) struct Progress<'a> {
    /// So much more work was found to be there.
    pub(crate) expect: &'a (dyn Fn(u64) + Sync),
    /// A piece of it is done.
    pub(crate) done: &'a (dyn Fn() + Sync),
}

/// What came of a paper's experiments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    /// What was run, in a sentence or two.
    pub(crate) setting: String,
    /// One row for each check of the specifications, in their order.
    pub(crate) rows: Vec<Row>,
    /// Other readings of the same checks, and figures beside them. Nothing is gated here.
    pub(crate) readings: Vec<Row>,
    /// What is drawn: curves,
    pub(crate) plots: Vec<Plot>,
    /// bars,
    pub(crate) bars: Vec<Bars>,
    /// and stretches of time.
    pub(crate) bands: Vec<Bands>,
}

impl Effort {
    /// How many workloads to draw, where a check asks for so many.
    pub(crate) fn count(&self, asked: usize, quick: usize) -> usize {
        self.seeds.unwrap_or(if self.quick { quick } else { asked })
    }

    /// The seed of the `i`-th workload.
    pub(crate) const fn seed_of(&self, i: usize) -> Seed {
        Seed(self.seed.0.wrapping_add(i as u64))
    }
}
