//! SLAQ (SoCC 2017): SLAQ-W on 640 cores under SLAQ and under fair shares, checks S-1 to S-12 of the specification.

mod alone;
mod checks;
mod plots;
mod runs;

use std::collections::BTreeMap;

use rayon::prelude::*;
use trainyard_sim::generate::{Declares, Learning};

use super::{Effort, Findings, Paper, Progress};
use crate::config::PolicyChoice;
use crate::failure::Failure;

use runs::{Measured, Variant, perform};

/// SLAQ.
pub(super) const PAPER: Paper = Paper {
    name: "slaq",
    title: "SLAQ: cores to the jobs whose loss falls most",
    source: "Zhang, Stafman, Or and Freedman, SoCC 2017",
    run,
};

/// Floors of the trade-off, in hundredths of the fair share.
const FLOORS: [u32; 7] = [0, 15, 30, 45, 60, 75, 90];
/// Weights of being trained, in thousandths.
const TAILS: [u32; 7] = [0, 10, 30, 60, 100, 300, 1000];

/// What is run on every workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Which {
    Fair,
    Slaq,
    /// By the largest change.
    Change,
    /// With curves that are fitted to reports, and true speeds.
    Fitted,
    /// With nothing declared but the kind of algorithm.
    Learnt,
    /// With losses on other scales.
    Scaled,
    FairDividing,
    SlaqDividing,
    Tail,
    /// With a floor.
    Floor(u32),
    /// With a weight on being trained.
    Weight(u32),
}

/// All runs, those of each kind in the order of the seeds.
type Runs = BTreeMap<Which, Vec<Measured>>;

fn policy(name: &str, parameters: &str) -> Result<PolicyChoice, Failure> {
    let table = parameters.parse().expect("these are parameters");
    Ok(PolicyChoice::new(name, table)?)
}

fn variant(which: Which) -> Result<Variant, Failure> {
    let dividing = Learning::without_fixed_part();
    let declaring = |declares| Learning { declares, ..Learning::default() };
    let scales = vec![(1e-3, 0.004), (1.0, -2.0), (1e5, 3e4), (25.0, 1e3), (1e-2, 0.0)];
    let (learning, policy) = match which {
        Which::Fair => (Learning::default(), policy("fair", "")?),
        Which::Slaq => (Learning::default(), policy("slaq", "")?),
        Which::Change => (Learning::default(), policy("slaq", "normaliser = \"largest_change\"")?),
        Which::Fitted => (declaring(Declares { curve: false, speed: true }), policy("slaq", "")?),
        Which::Learnt => (declaring(Declares::NOTHING), policy("slaq", "")?),
        Which::Scaled => (Learning { scales, ..Learning::default() }, policy("slaq", "")?),
        Which::FairDividing => (dividing, policy("fair", "")?),
        Which::SlaqDividing => (dividing, policy("slaq", "")?),
        Which::Tail => (Learning::default(), policy("slaq-tail", "")?),
        Which::Floor(hundredths) => {
            let floor = format!("floor = {:?}", f64::from(hundredths) / 100.0);
            (Learning::default(), policy("slaq", &floor)?)
        }
        Which::Weight(thousandths) => {
            let tail = format!("tail = {:?}", f64::from(thousandths) / 1000.0);
            (Learning::default(), policy("slaq-tail", &tail)?)
        }
    };
    Ok(Variant { learning, policy })
}

fn run(effort: &Effort, progress: &Progress<'_>) -> Result<Findings, Failure> {
    let seeds = effort.count(24, 4);
    let every = if effort.quick { 3 } else { 1 };
    let floors = FLOORS.into_iter().step_by(every).map(Which::Floor);
    let weights = TAILS.into_iter().step_by(every).map(Which::Weight);
    let kinds: Vec<Which> = [
        Which::Fair,
        Which::Slaq,
        Which::Change,
        Which::Fitted,
        Which::Learnt,
        Which::Scaled,
        Which::FairDividing,
        Which::SlaqDividing,
        Which::Tail,
    ]
    .into_iter()
    .chain(floors)
    .chain(weights)
    .collect();
    (progress.expect)((kinds.len() * seeds) as u64);
    let tasks: Vec<(Which, usize)> =
        kinds.iter().flat_map(|kind| (0..seeds).map(move |i| (*kind, i))).collect();
    let results: Vec<Result<Measured, Failure>> = tasks
        .par_iter()
        .map(|(which, i)| {
            let measured = perform(&variant(*which)?, effort.seed_of(*i));
            (progress.done)();
            measured
        })
        .collect();
    let mut runs = Runs::new();
    for ((which, _), measured) in tasks.into_iter().zip(results) {
        runs.entry(which).or_default().push(measured?);
    }
    let slaq = policy("slaq", "")?;
    let predicted = alone::predict(24, 0.01, effort.seed);
    Ok(Findings {
        setting: format!(
            "SLAQ-W: 160 jobs, Poisson arrivals every 15 s, 640 cores, epochs of 3 s; {seeds} workloads, true curves \
             declared unless said otherwise."
        ),
        rows: checks::rows(&runs, &predicted, &slaq, effort)?,
        readings: checks::readings(&runs, &predicted, &slaq, effort)?,
        plots: plots::plots(&runs, &predicted),
        ..Findings::default()
    })
}
