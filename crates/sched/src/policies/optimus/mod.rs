//! Optimus: one more worker or server to the job that gains most by it.
//!
//! # Idea
//! In every round all that is there is given away anew. Each job gets its smallest gang. Then, again and again, the job
//! whose remaining time falls most by one more worker or one more parameter server, for each part of the cluster that this
//! takes, gets it; until nobody gains or nothing fits. Then jobs are placed, the smallest first, each on as few nodes as
//! can be, with equal numbers on each.
//!
//! # Source
//! Peng et al., Optimus, EuroSys 2018, sections 3 and 4; by the specification of DL2, section B9.3, which knows the paper
//! from notes and from the public code (repositories pengyanghua/optimus and pengyanghua/DL2).
//!
//! # What it sees
//! How much is left: declared iterations; else the fitted loss curve, on which training is over once it fell by no more
//! than the part `loss_fall` of the largest loss seen over `loss_over` iterations; else as many iterations as were done are
//! taken to be left. How fast it goes: see `speeds.rs`. A job of which too little is known first runs with sizes of mixed
//! ratios.
//!
//! # Modes
//! `published`: all of the above, on speeds fitted to `profile` points and to what was measured of jobs of the type.
//! `as_coded`, as in the simulator of DL2, with its faults: gains are raw times, on the declared speeds as they are; units go
//! to the least loaded node and stay there; the first unit that does not fit ends the slot; a job whose better unit is at its
//! limit gets nothing more; nobody is weighed by what a move costs. `fitted`: as coded but for the speeds, which are functions
//! fitted to all that is declared. The parameters are listed below with their meaning.
//!
//! # Where we differ
//! A gain is for each *dominant share*, where the public code divides by amounts of different kinds. Where equal
//! numbers on few nodes cannot be had, any room will do. The factor of 0.95 is known from notes only, and what counts
//! as young is ours. Placing parameter blocks on servers (section 5.3) is no matter of scheduling here. Where the paper
//! orders nodes by free CPU, they are ordered by load here, the GPUs and CPUs in use together. That losses are divided by the
//! largest seen is remembered of the paper and not verified; by it `loss_fall` means the same in any unit. A score that rises
//! is a negative loss, to which the curve of Optimus cannot be fitted. What jobs measured that have ended is forgotten,
//! as they are not in the picture. Higher classes get all that they gain by before lower ones do; Optimus knows no classes. A
//! job past its declared iterations is taken to need as many more as its loss says, or else a hundredth of what it did.
//! The paper moves jobs at no cost: here a running job changes its size or its place only where that saves `restart_gain`
//! times what it costs, or where it has to give.

mod gains;
mod placing;
mod speeds;

use serde::{Deserialize, Serialize};

use crate::decide::{
    Ahead, Cadence, Decision, Entry, Memory, Parameter, Policy, ROUND_S, Suits, Verdict, ahead_by,
    by_arrival, chosen, counted, defaults, numbered, parameters,
};
use crate::estimate::Fitting;
use crate::model::{JobId, Span};
use crate::view::Snapshot;

use speeds::{Knowledge, Speeds};

/// Which Optimus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    /// As it was published.
    Published,
    /// As it was coded.
    AsCoded,
    /// As it was coded, on fitted speeds.
    Fitted,
}

impl Mode {
    const fn is_coded(self) -> bool {
        !matches!(self, Self::Published)
    }
}

/// What speeds are planned on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SpeedsFrom {
    /// What belongs to the mode.
    Mode,
    /// Functions fitted to profile points and measurements.
    Fitted,
    /// What is declared, as it is: an oracle.
    Declared,
}

/// Which curve is put through losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LossCurve {
    /// That of Optimus.
    Inverse,
    /// Those of SLAQ.
    Families,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Parameters {
    round_s: f64,
    mode: Mode,
    speeds: SpeedsFrom,
    profile: u32,
    curve: LossCurve,
    young: f64,
    young_factor: f64,
    restart_gain: f64,
    loss_fall: f64,
    loss_over: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            round_s: 600.0,
            mode: Mode::Published,
            speeds: SpeedsFrom::Mode,
            profile: 10,
            curve: LossCurve::Inverse,
            young: 0.1,
            young_factor: 0.95,
            restart_gain: 1.0,
            loss_fall: 0.05,
            loss_over: 10.0,
        }
    }
}

impl Parameters {
    const fn knowledge(&self) -> Knowledge {
        match (self.speeds, self.mode) {
            (SpeedsFrom::Declared, _) | (SpeedsFrom::Mode, Mode::AsCoded) => Knowledge::Declared,
            (SpeedsFrom::Mode, Mode::Fitted) => Knowledge::Fitted(0),
            (SpeedsFrom::Fitted, _) | (SpeedsFrom::Mode, Mode::Published) => {
                Knowledge::Fitted(self.profile as usize)
            }
        }
    }
}

/// What its parameters mean and may be.
const PARAMETERS: &[Parameter] = &[
    chosen(
        "curve",
        &["inverse", "families"],
        "what is put through losses where no iterations are declared: Optimus's own curve, or those of SLAQ",
    ),
    numbered(
        "loss_fall",
        "",
        (0.0, 1.0),
        "training is over where the loss falls by no more than this part of the largest seen",
    ),
    numbered("loss_over", "iterations", (0.001, 1e9), "over how many iterations `loss_fall` is looked at"),
    chosen(
        "mode",
        &["published", "as_coded", "fitted"],
        "as in the paper; as in the simulator of DL2, with its faults; or as there, but on speeds fitted to all that is declared",
    ),
    counted(
        "profile",
        "sizes",
        (0, 10),
        "points of a declared table of speeds that are looked at where speeds are fitted; 0 means all",
    ),
    numbered(
        "restart_gain",
        "",
        (0.0, 1e6),
        "a running job changes only where that saves so many times what it costs",
    ),
    ROUND_S,
    chosen(
        "speeds",
        &["mode", "fitted", "declared"],
        "what is planned on: what belongs to `mode`, fitted functions, or what is declared as it is",
    ),
    numbered("young", "", (0.0, 1.0), "a job is young until it has done this part of its iterations"),
    numbered(
        "young_factor",
        "",
        (0.001, 1.0),
        "what the gains of young jobs are multiplied by, as they are uncertain",
    ),
];

struct Optimus {
    parameters: Parameters,
    speeds: Speeds,
    memory: Memory,
}

impl Policy for Optimus {
    fn cadence(&self) -> Cadence {
        Cadence::Rounds(Span::from_secs_f64(self.parameters.round_s))
    }

    fn fitting(&self) -> Option<Fitting> {
        Some(match self.parameters.curve {
            LossCurve::Inverse => Fitting::Inverse,
            LossCurve::Families => Fitting::default(),
        })
    }

    fn decide(&mut self, seen: &Snapshot) -> Decision {
        let handed = gains::hand_out_units(seen, &self.parameters, &mut self.speeds);
        let placed = match self.parameters.mode {
            Mode::AsCoded | Mode::Fitted => handed.slate,
            Mode::Published => placing::placed(seen, handed, &self.parameters),
        };
        placed.finish(&mut self.memory)
    }

    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.decide(seen).verdict_on(job).expect("every job of the snapshot has a verdict")
    }

    fn ahead(&mut self, seen: &Snapshot, job: JobId) -> Ahead {
        ahead_by(seen, job, by_arrival)
    }
}

/// Optimus.
pub(super) const ENTRY: Entry = Entry {
    name: "optimus",
    title: "workers and parameter servers by marginal gain, with speeds fitted as jobs run",
    source: "Peng et al., Optimus, EuroSys 2018",
    reads_declared: true,
    suits: Suits::Servers,
    parameters: PARAMETERS,
    sizes: true,
    defaults: defaults::<Parameters>,
    build: |given| {
        let parameters: Parameters = parameters("optimus", PARAMETERS, given)?;
        Ok(Box::new(Optimus { parameters, speeds: Speeds::default(), memory: Memory::default() }))
    },
};
