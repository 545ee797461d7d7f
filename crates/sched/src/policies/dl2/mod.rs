//! DL2: a network that gives out workers and parameter servers, one after the other.
//!
//! # Idea
//! In every slot all that is there is given away anew. A network sees the jobs that came first, what they are, what remains
//! of them and what they were given so far, and names the next unit: a worker, a server or one of each for one of them, or
//! that it is enough. It was taught by an existing scheduler first and then by the progress that its own decisions brought.
//!
//! # Source
//! Peng et al., DL2: A Deep Learning-driven Scheduler for Deep Learning Clusters, arXiv 1909.06040 (IEEE TPDS 2021),
//! sections 4 and 5; by the specification of DL2, part B.
//!
//! # What it sees
//! Of each job: its kind (the number of its model), when it came, declared iterations and those done, and what it is given.
//! Nothing of what is free, as in the paper; what does not fit is found out by trying.
//!
//! # Parameters
//! `weights`: what was learned, from a file that `trainyard train dl2` wrote. `jobs` and `kinds` say what the weights were
//! trained to see. `round_s` is the length of a slot. `misfit`: `close` goes on without a unit that fits nowhere, `stop`
//! is as coded by the authors: it tries the least loaded node only, and the first misfit ends the slot. `starts_all`
//! gives everybody its smallest gang before the network is asked, as their code does. `most_choices` bounds a slot.
//!
//! # When it does not know
//! Without weights, or where the network answers with what is no number, or after `most_choices` in one slot, the slot is
//! left to `slot-drf` as a whole, and every job that runs says so (reason `stood_in`). Weights for another window, for other
//! kinds or of another shape are refused when the policy is made.
//!
//! # Where we differ
//! A network that was trained is asked for its best action and not for one by chance. Jobs beyond the window come in when one
//! in it has all it can use or the network has stopped with them. A job that has nothing can only be given its smallest
//! gang, so that a worker without a server does not occur. Jobs whose numbers stay keep their nodes where that is possible,
//! which the paper leaves to its own way of resizing. Higher classes stand before lower ones in the window.

mod schema;
mod slot;

use serde::{Deserialize, Serialize};

use crate::decide::{
    Ahead, Cadence, Decision, Entry, Memory, Misfit, Parameter, ParameterError, Policy, ROUND_S, Reason,
    Slate, StoodIn, Suits, Unit, Values, Verdict, ahead_by, by_arrival, chosen, counted, defaults, flagged,
    parameters,
};
use crate::model::{JobId, Span};
use crate::nets::{Mlp, Scratch, Weights, best_of};
use crate::view::Snapshot;

pub use schema::{Act, Schema, UNITS_OF_A_JOB, remaining};
pub use slot::{Chooser, GivenUp, Question, Rules, counts, fill};

const NAME: &str = "dl2";

/// What happens when a unit does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WhereFull {
    Close,
    Stop,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Parameters {
    weights: String,
    jobs: u32,
    kinds: u32,
    round_s: f64,
    misfit: WhereFull,
    starts_all: bool,
    most_choices: u32,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            weights: String::new(),
            jobs: 20,
            kinds: 8,
            round_s: 1200.0,
            misfit: WhereFull::Close,
            starts_all: true,
            most_choices: 100_000,
        }
    }
}

impl Parameters {
    fn rules(&self) -> Rules {
        Rules {
            schema: Schema { jobs: self.jobs as usize, kinds: self.kinds as usize },
            slot_s: self.round_s,
            starts_all: self.starts_all,
            stops_at_misfit: self.misfit == WhereFull::Stop,
            most_choices: self.most_choices as usize,
        }
    }
}

const PARAMETERS: &[Parameter] = &[
    counted("jobs", "jobs", (1, 500), "how many jobs the network sees at a time (J)"),
    counted("kinds", "kinds", (1, 500), "how many kinds of jobs it tells apart (L); all others are one more"),
    chosen(
        "misfit",
        &["close", "stop"],
        "where a unit does not fit: go on without it, or as coded try the least loaded node only and end the slot there",
    ),
    counted(
        "most_choices",
        "choices",
        (1, 10_000_000),
        "after so many choices in one slot `slot-drf` stands in",
    ),
    ROUND_S,
    flagged("starts_all", "whether everybody gets its smallest gang before the network is asked"),
    Parameter { name: "weights", meaning: "what was learned", unit: "", values: Values::Weights },
];

/// A network that is asked for its best action.
struct Best<'a> {
    net: &'a Mlp,
    scratch: &'a mut Scratch,
}

impl Chooser for Best<'_> {
    fn choose(&mut self, asked: &Question<'_>) -> Option<usize> {
        best_of(self.net.forward(asked.input, self.scratch), asked.open)
    }

    fn done(&mut self, _: bool) {}
}

struct Dl2 {
    rules: Rules,
    net: Option<Mlp>,
    scratch: Scratch,
    memory: Memory,
    /// Who decides where the network does not.
    other: Box<dyn Policy>,
}

impl Dl2 {
    fn boxed(given: &Parameters) -> Result<Box<dyn Policy>, ParameterError> {
        let bad = |why: &dyn std::fmt::Display| ParameterError::BadValue {
            policy: NAME,
            message: format!("weights: {why}"),
        };
        let (rules, schema) = (given.rules(), given.rules().schema);
        let read = |text: &str| {
            let weights = Weights::from_text(text).map_err(|error| bad(&error))?;
            let checked = weights.checked(&schema.name(), schema.inputs(), schema.actions());
            checked.map(|weights| weights.policy).map_err(|error| bad(&error))
        };
        let net = if given.weights.is_empty() { None } else { Some(read(&given.weights)?) };
        let mut round = toml::Table::new();
        round.insert("round_s".to_owned(), given.round_s.into());
        let other = crate::policies::build("slot-drf", &round)?;
        Ok(Box::new(Self { rules, net, scratch: Scratch::default(), memory: Memory::default(), other }))
    }

    /// The slot by the network, or why it could not.
    fn learned(&mut self, seen: &Snapshot) -> Result<Decision, StoodIn> {
        let net = self.net.as_ref().ok_or(StoodIn::NothingLearned)?;
        let mut best = Best { net, scratch: &mut self.scratch };
        let slate = fill(seen, &self.rules, &mut best).map_err(|why| match why {
            GivenUp::NoAnswer => StoodIn::NoAnswer,
            GivenUp::TooMany => StoodIn::TooMany,
        })?;
        Ok(decided(seen, slate, &mut self.memory))
    }
}

/// The decision of a slot.
pub fn decided(seen: &Snapshot, slate: Slate<'_>, memory: &mut Memory) -> Decision {
    settled(seen, slate).finish(memory)
}

/// The same numbers, with jobs whose numbers did not change where they were; or all as they are, if that leaves somebody
/// without room.
fn settled<'a>(seen: &'a Snapshot, wanted: Slate<'a>) -> Slate<'a> {
    let mut slate = Slate::new(seen, Misfit::Skip);
    let numbers: Vec<(u32, u32)> = wanted.lines().iter().map(|line| (line.workers, line.servers)).collect();
    let held = |i: usize| seen.job(wanted.lines()[i].job.id).map(|view| &view.target);
    for i in slate.in_order(|_, _| ()) {
        if let Some(held) = held(i).filter(|held| held.is_some() && wanted.lines()[i].runs())
            && (held.workers(), held.count_of(crate::model::SERVER_TASK)) == numbers[i]
        {
            slate.keep(i, held);
        }
    }
    let open = slate.in_order(|_, view| view.job.submitted);
    let open = open.into_iter().filter(|i| wanted.lines()[*i].runs());
    for i in open.filter(|i| !wanted.lines()[*i].is_bound).collect::<Vec<_>>() {
        if slate.lines()[i].runs() {
            continue;
        }
        if wanted.lines()[i].elastic().is_none() {
            slate.start_if_it_fits(i);
        } else {
            grow(&mut slate, i, numbers[i]);
        }
        if (slate.lines()[i].workers, slate.lines()[i].servers) != numbers[i] {
            return wanted;
        }
    }
    slate
}

/// Gives a job so many workers and servers, together as long as both are needed.
fn grow(slate: &mut Slate<'_>, i: usize, (workers, servers): (u32, u32)) {
    loop {
        let line = &slate.lines()[i];
        let unit = match (line.workers < workers, line.servers < servers) {
            (true, true) => Unit::Bundle,
            (true, false) => Unit::Worker,
            (false, true) => Unit::Server,
            (false, false) => return,
        };
        if slate.give(i, unit) != crate::decide::Given::Yes {
            return;
        }
    }
}

impl Policy for Dl2 {
    fn cadence(&self) -> Cadence {
        Cadence::Rounds(Span::from_secs_f64(self.rules.slot_s))
    }

    fn decide(&mut self, seen: &Snapshot) -> Decision {
        self.learned(seen).unwrap_or_else(|why| {
            let mut decision = self.other.decide(seen);
            for (_, verdict) in &mut decision.verdicts {
                if let Verdict::Run(reason) = verdict {
                    *reason = Reason::StoodIn(why);
                }
            }
            decision
        })
    }

    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.decide(seen).verdict_on(job).expect("every job of the snapshot has a verdict")
    }

    fn ahead(&mut self, seen: &Snapshot, job: JobId) -> Ahead {
        ahead_by(seen, job, by_arrival)
    }
}

/// DL2.
pub(super) const ENTRY: Entry = Entry {
    name: NAME,
    title: "workers and parameter servers by a network that learned from a scheduler and from progress",
    source: "Peng et al., DL2, arXiv 1909.06040",
    reads_declared: true,
    suits: Suits::Servers,
    parameters: PARAMETERS,
    sizes: true,
    defaults: defaults::<Parameters>,
    build: |given| Dl2::boxed(&parameters(NAME, PARAMETERS, given)?),
};
