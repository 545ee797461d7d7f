//! Hadar: in every round all GPUs are sold anew, to the jobs that make most of them.
//!
//! # Idea
//! A job is worth more the sooner it is done, and how soon that is depends on where it runs. Every GPU has a price that rises
//! with how much of its node is given away. Job by job, those first that are worth most for each GPU, a job goes where its
//! worth less the price of its GPUs is largest, if that is above zero; a search over who is passed by makes the best of it. A
//! gang may be on several GPU types at once and then goes at the pace of the slowest. What is left goes to whoever fits.
//!
//! # Source
//! Hadar, IPDPS 2024 (doi 10.1109/IPDPS57955.2024.00066) and arXiv 2503.10918. The abstract names the parts: a primal-dual
//! program at the level of tasks, prices between bounds, a dual subroutine by dynamic programming, candidates that are
//! consolidated or spread, a cost of communication. The formulas could not be had; they are those of the family that it belongs
//! to (OASiS, INFOCOM 2018), as the specification of Hadar and Gavel, section 2.5, completes them. No public code is known.
//!
//! # What it sees
//! Rates and iterations that jobs declare, and what was measured; see `claim.rs` for jobs of which less is known.
//!
//! # Parameters
//! See below. `objective` decides what a job is worth and in which order jobs are looked at: `jct` 1/JCT, and the most for each
//! GPU first; `makespan` the part of its best speed, and the longest first; `ftf` 1/JCT weighed by one
//! over the time it would take on an equal part of the cluster, and the most for each GPU first.
//!
//! # Where we differ
//! The utility of the effective throughput is in iterations, so that models with small ones rule; it is there as `raw`. One over Gavel's
//! finish-time fairness, `rho`, does not bring that down: it gives up on who is late, and on 240 jobs lets short ones wait a hundred
//! times as long as alone; so `ftf` weighs 1/JCT instead. Prices
//! reach their most only at full use, and until then may keep jobs from GPUs that nobody else wants: hence the second walk. A
//! job that has waited a day goes first, as jobs that are long would wait for ever. The competitive ratio of the paper is that
//! of a scheduler which reserves whole schedules, and says nothing about this one. Higher classes are served before lower ones.
//! A gang on several types is compared with its fastest type in the mix, and not with the best that the job could have.

use crate::decide::{
    Abilities, Ahead, Cadence, Decision, Entry, Memory, ParameterError, Policy, Suits, Verdict, defaults,
    parameters,
};
use crate::model::{JobId, Span};
use crate::view::Snapshot;

use super::parameters::{PARAMETERS, Parameters};
use super::round::Round;

struct Hadar {
    parameters: Parameters,
    memory: Memory,
}

impl Policy for Hadar {
    fn cadence(&self) -> Cadence {
        Cadence::Rounds(Span::from_secs_f64(self.parameters.round_s))
    }

    fn needs(&self) -> Abilities {
        if self.parameters.mixing { Abilities::MIXED_GPU_TYPES } else { Abilities::NONE }
    }

    fn decide(&mut self, seen: &Snapshot) -> Decision {
        let mut round = Round::new(seen, &self.parameters);
        round.run();
        round.finish(&mut self.memory)
    }

    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.decide(seen).verdict_on(job).expect("every job of the snapshot has a verdict")
    }

    fn ahead(&mut self, seen: &Snapshot, job: JobId) -> Ahead {
        let round = Round::new(seen, &self.parameters);
        let waiting = round.turns().filter(|(view, _)| view.target.is_none()).map(|(view, _)| view.id());
        // By targets it depends on where a job is needed as well, and who is admitted stays so.
        let is_total = !self.parameters.has_targets() && !self.parameters.admission;
        Ahead { jobs: waiting.take_while(|id| *id != job).collect(), is_total }
    }

    fn is_work_conserving(&self) -> bool {
        self.parameters.mixing && !self.parameters.admission
    }
}

/// Hadar.
pub(in super::super) const HADAR: Entry = Entry {
    name: "hadar",
    title: "GPUs of several types by price, to the jobs that make most of them; a gang may mix types",
    source: "Hadar, IPDPS 2024 and arXiv 2503.10918",
    reads_declared: true,
    suits: Suits::AnyJobs,
    parameters: PARAMETERS,
    sizes: false,
    defaults: defaults::<Parameters>,
    build: |given| {
        let parameters: Parameters = parameters("hadar", PARAMETERS, given)?;
        if parameters.admission && parameters.utility().has_isolation() {
            let message = "`admission` and finish-time fairness both keep something in the notes of jobs; choose one, for \
                           example objective = \"jct\"";
            return Err(ParameterError::BadValue { policy: "hadar", message: message.to_owned() });
        }
        Ok(Box::new(Hadar { parameters, memory: Memory::default() }))
    },
};
