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
//! Declared iterations; else the fitted loss curve, on which training is over once it fell by no more than `loss_fall` over
//! `loss_over` iterations; else as many iterations as were done are taken to be left. Speeds: `speeds = 'fitted'` fits functions to profile
//! points of a declared table (`profile` of them; 0 means all) and to the job's own measurements. A job of which too
//! little is known first runs with sizes of mixed ratios. `declared` takes what is declared as it is.
//!
//! # Parameters
//! `mode`: `published`, or `as_coded` in the simulator of DL2: gains are raw times, units go to the least loaded node and
//! stay there, the first unit that does not fit ends the slot, and a job whose better unit is at its limit gets nothing
//! more. `young_factor` discounts gains of jobs that have done less than the part `young` of their iterations, as their
//! estimates are uncertain. `restart_gain`: a job that runs gets larger only if that saves it so many times what moving
//! costs. `round_s`: the length of a round.
//!
//! # Where we differ
//! A gain is for each *dominant share*, where the public code divides by amounts of different kinds. Where equal
//! numbers on few nodes cannot be had, any room will do. The factor of 0.95 is known from notes only, and what counts
//! as young is ours. Placing parameter blocks on servers (section 5.3) is no matter of scheduling here. Where the paper
//! orders nodes by free CPU, they are ordered by load here, the GPUs and CPUs in use together. Losses are fitted by the
//! families of SLAQ and not by the one curve of Optimus (specification, B9.3.1), and `loss_fall` is in units of the
//! loss as reported, which is not normalized. What was measured of one job is not used for others of its type. Higher
//! classes get all that they gain by before lower ones do; Optimus knows no classes. A job past its declared iterations
//! is taken to need as many more as its loss says, or else a hundredth of what it did.

mod gains;
mod placing;
mod speeds;

use serde::{Deserialize, Serialize};

use crate::decide::{
    Ahead, Cadence, Decision, Entry, Memory, ParameterError, Policy, Suits, Verdict, ahead_by, by_arrival,
    defaults, parameters,
};
use crate::estimate::Fitting;
use crate::model::{JobId, Span};
use crate::view::Snapshot;

use speeds::{Knowledge, Speeds};

/// As it was published or as it was coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Published,
    AsCoded,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Parameters {
    round_s: f64,
    mode: Mode,
    speeds: Knowledge,
    profile: usize,
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
            speeds: Knowledge::Fitted,
            profile: 10,
            young: 0.1,
            young_factor: 0.95,
            restart_gain: 1.0,
            loss_fall: 0.05,
            loss_over: 10.0,
        }
    }
}

impl Parameters {
    fn check(&self) -> Result<(), String> {
        let positive = |name: &str, value: f64| {
            let fine = value.is_finite() && value > 0.0;
            if fine { Ok(()) } else { Err(format!("{name} = {value}; give a number above 0")) }
        };
        positive("round_s", self.round_s)?;
        positive("young_factor", self.young_factor)?;
        positive("loss_over", self.loss_over)?;
        for (name, value) in
            [("young", self.young), ("restart_gain", self.restart_gain), ("loss_fall", self.loss_fall)]
        {
            if !(value.is_finite() && value >= 0.0) {
                return Err(format!("{name} = {value}; give a number from 0 on"));
            }
        }
        Ok(())
    }
}

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
        Some(Fitting::default())
    }

    fn decide(&mut self, seen: &Snapshot) -> Decision {
        self.speeds.keep(|id| seen.jobs.contains_key(&id));
        let handed = gains::hand_out_units(seen, &self.parameters, &mut self.speeds);
        let placed = match self.parameters.mode {
            Mode::AsCoded => handed.slate,
            Mode::Published => placing::placed(seen, handed),
        };
        placed.finish(&mut self.memory)
    }

    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        let verdicts = self.decide(seen).verdicts;
        let found = verdicts.binary_search_by_key(&job, |(id, _)| *id);
        verdicts[found.expect("every job of the snapshot has a verdict")].1
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
    sizes: true,
    defaults: defaults::<Parameters>,
    build: |given| {
        let parameters: Parameters = parameters("optimus", given)?;
        let bad = |message| ParameterError::BadValue { policy: "optimus", message };
        parameters.check().map_err(bad)?;
        Ok(Box::new(Optimus { parameters, speeds: Speeds::default(), memory: Memory::default() }))
    },
};
