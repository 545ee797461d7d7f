//! Slotted schedulers: in every slot all that is there is given away anew, in bundles of a worker and a parameter server.
//!
//! # Idea
//! `slot-drf`: one more bundle to whoever has the least dominant share. `slot-fifo` and `slot-srtf`: as many bundles as it
//! can use to the first in order, then to the next. `slot-tetris`: server by server, one bundle of the job that fits best.
//!
//! # Source
//! The baselines of DL2 (Peng et al., arXiv 1909.06040) as its public code has them (repository pengyanghua/DL2), by the
//! specification of DL2, section B9. DRF is Ghodsi et al., NSDI 2011; Tetris is Grandl et al., SIGCOMM 2014.
//!
//! # What it sees
//! Declared iterations and speed functions, for the order of `slot-srtf` and `slot-tetris` only.
//!
//! # Parameters
//! `round_s`: the length of a slot. `misfit`: what happens when a bundle does not fit. `skip` tries all nodes, least
//! loaded first, and goes on with the others; `stop` is as coded: it tries the least loaded node and ends the slot there.
//! `by`: what remaining work is measured by, `time` at the job's best declared speed, or as coded `fraction` of all its
//! iterations. `work`: whether little remaining work goes first (`least_first`), or as coded much (`most_first`).
//!
//! # Where we differ
//! Ties go to the earlier arrival and then to the lower number; in the public code they depend on addresses in memory.
//! Jobs may have larger smallest gangs, constraints and classes; those without servers get workers alone.

mod tetris;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::decide::{
    Ahead, Cadence, Decision, Entry, Given, Memory, Misfit, Parameter, Policy, ROUND_S, Slate, Suits, Unit,
    Verdict, ahead_by, by_arrival, chosen, defaults, most_of, parameters,
};
use crate::model::{JobId, Span, WorkerRange};
use crate::view::{JobView, Snapshot};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Plain {
    round_s: f64,
    misfit: Misfit,
}

impl Default for Plain {
    fn default() -> Self {
        Self { round_s: 1200.0, misfit: Misfit::Skip }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Remaining {
    round_s: f64,
    misfit: Misfit,
    by: By,
}

impl Default for Remaining {
    fn default() -> Self {
        Self { round_s: 1200.0, misfit: Misfit::Skip, by: By::Time }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Packing {
    round_s: f64,
    misfit: Misfit,
    by: By,
    work: Work,
}

impl Default for Packing {
    fn default() -> Self {
        Self { round_s: 1200.0, misfit: Misfit::Skip, by: By::Time, work: Work::LeastFirst }
    }
}

/// What remaining work is measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum By {
    /// Seconds at the best declared speed.
    Time,
    /// Of all iterations.
    Fraction,
}

/// Which work Tetris prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Work {
    LeastFirst,
    MostFirst,
}

const MISFIT: Parameter = chosen(
    "misfit",
    &["skip", "stop"],
    "where a bundle does not fit: try all nodes and go on with the others, or as coded only the least loaded one and stop",
);
const BY: Parameter = chosen(
    "by",
    &["time", "fraction"],
    "what remaining work is measured by: time at the best declared speed, or as coded the part of all iterations",
);
const WORK: Parameter =
    chosen("work", &["least_first", "most_first"], "which remaining work goes first; as coded most");

/// In what order bundles go out.
#[derive(Clone, Copy, Debug)]
enum Order {
    Share,
    Arrival,
    Remaining(By),
    Alignment(By, Work),
}

struct Slots {
    round: Span,
    misfit: Misfit,
    order: Order,
    memory: Memory,
}

/// Remaining work of a job; unknown is more than any.
fn remaining(seen: &Snapshot, view: &JobView, by: By) -> f64 {
    let Some(count) = view.job.declared.iterations else { return f64::INFINITY };
    let left = (count - view.iterations(seen.at)).max(0.0);
    match by {
        By::Fraction => left / count,
        By::Time => match best_per_s(view) {
            Some(per_s) => left / per_s,
            None => view.declared_remaining(seen.at).map_or(f64::INFINITY, Span::as_secs_f64),
        },
    }
}

/// Numbers of a range, at most those that are given out: each of the first 64, then in steps of a sixteenth, and the last.
fn sizes(range: WorkerRange) -> Vec<u32> {
    let (first, last) = (range.min.max(1), most_of(range));
    let step = |size: u32| if size - first < 64 { 1 } else { (size - first) / 16 };
    let next = |size: &u32| {
        let next = size.saturating_add(step(*size)).min(last);
        (next > *size).then_some(next)
    };
    if range.max == 0 {
        return vec![0];
    }
    std::iter::successors((first <= last).then_some(first), next).collect()
}

/// The best declared speed over the sizes that the job can have, iterations a second; see [`sizes`].
fn best_per_s(view: &JobView) -> Option<f64> {
    let speed = view.job.declared.speed.as_ref()?;
    let shape = view.job.shape.data_parallel()?;
    let servers = shape.server.map_or_else(|| vec![0], |_| sizes(shape.servers));
    let per_s = |workers: u32| servers.iter().map(move |servers| (workers, *servers));
    let all = sizes(shape.workers).into_iter().flat_map(per_s);
    let best = all.map(|(workers, servers)| speed.iterations_per_s(workers, servers)).fold(0.0, f64::max);
    (best > 0.0).then_some(best)
}

impl Slots {
    fn boxed(round_s: f64, misfit: Misfit, order: Order) -> Box<dyn Policy> {
        let round = Span::from_secs_f64(round_s);
        Box::new(Self { round, misfit, order, memory: Memory::default() })
    }

    fn fill<'a>(&self, seen: &'a Snapshot) -> Slate<'a> {
        let mut slate = Slate::new(seen, self.misfit);
        match self.order {
            Order::Share => by_share(&mut slate, seen),
            Order::Arrival => one_after_the_other(&mut slate, |_| 0.0),
            Order::Remaining(by) => one_after_the_other(&mut slate, |view| remaining(seen, view, by)),
            Order::Alignment(by, work) => tetris::fill(&mut slate, seen, self.misfit, by, work),
        }
        slate
    }
}

/// One more bundle to whoever has the least dominant share, until nobody can have another (Ghodsi et al., section 4.2).
fn by_share(slate: &mut Slate<'_>, seen: &Snapshot) {
    let total = seen.cluster.total();
    let order = slate.in_order(|_, view| view.job.submitted);
    // Shares are not negative, so their bits compare as they do.
    let key = |slate: &Slate<'_>, rank: usize, i: usize| {
        let line = &slate.lines()[i];
        (Reverse(line.job.goals.class), line.resources().dominant_share(&total).to_bits(), rank, i)
    };
    let mut open: BTreeSet<_> = order.iter().enumerate().map(|(rank, i)| key(slate, rank, *i)).collect();
    while let Some((_, _, rank, i)) = open.pop_first() {
        match slate.give(i, Unit::Bundle) {
            Given::Yes if slate.lines()[i].wants_more() => drop(open.insert(key(slate, rank, i))),
            Given::Yes | Given::No => {}
            Given::Over => return,
        }
    }
}

/// As many bundles as it can use to each job, the least key first.
fn one_after_the_other(slate: &mut Slate<'_>, key: impl Fn(&JobView) -> f64) {
    for i in slate.in_order(|_, view| (key(view).to_bits(), view.job.submitted)) {
        loop {
            match slate.give(i, Unit::Bundle) {
                Given::Yes => {}
                Given::No => break,
                Given::Over => return,
            }
        }
    }
}

impl Policy for Slots {
    fn cadence(&self) -> Cadence {
        Cadence::Rounds(self.round)
    }

    fn decide(&mut self, seen: &Snapshot) -> Decision {
        self.fill(seen).finish(&mut self.memory)
    }

    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.decide(seen).verdict_on(job).expect("every job of the snapshot has a verdict")
    }

    fn ahead(&mut self, seen: &Snapshot, job: JobId) -> Ahead {
        let arrival = by_arrival;
        match self.order {
            Order::Share | Order::Arrival => ahead_by(seen, job, arrival),
            Order::Remaining(by) => ahead_by(seen, job, |view| {
                let (class, submitted, id) = arrival(view);
                (class, remaining(seen, view, by).to_bits(), submitted, id)
            }),
            Order::Alignment(by, work) => tetris::ahead(seen, job, by, work),
        }
    }
}

/// Dominant resource fairness in slots.
pub(super) const DRF: Entry = Entry {
    name: "slot-drf",
    title: "dominant resource fairness in slots, in bundles of a worker and a parameter server",
    source: "Ghodsi et al., NSDI 2011; as a baseline of DL2 (2019)",
    reads_declared: false,
    suits: Suits::Servers,
    parameters: &[ROUND_S, MISFIT],
    sizes: true,
    defaults: defaults::<Plain>,
    build: |given| {
        let Plain { round_s, misfit } = parameters("slot-drf", &[ROUND_S, MISFIT], given)?;
        Ok(Slots::boxed(round_s, misfit, Order::Share))
    },
};

/// First in, first out in slots.
pub(super) const FIFO: Entry = Entry {
    name: "slot-fifo",
    title: "first in, first out in slots; each job gets as many bundles as it can use",
    source: "a baseline of DL2 (2019)",
    reads_declared: false,
    suits: Suits::Servers,
    parameters: &[ROUND_S, MISFIT],
    sizes: true,
    defaults: defaults::<Plain>,
    build: |given| {
        let Plain { round_s, misfit } = parameters("slot-fifo", &[ROUND_S, MISFIT], given)?;
        Ok(Slots::boxed(round_s, misfit, Order::Arrival))
    },
};

/// Shortest remaining time first in slots.
pub(super) const SRTF: Entry = Entry {
    name: "slot-srtf",
    title: "shortest remaining time first in slots; each job gets as many bundles as it can use",
    source: "a baseline of DL2 (2019)",
    reads_declared: true,
    suits: Suits::Servers,
    parameters: &[ROUND_S, MISFIT, BY],
    sizes: true,
    defaults: defaults::<Remaining>,
    build: |given| {
        let Remaining { round_s, misfit, by } = parameters("slot-srtf", &[ROUND_S, MISFIT, BY], given)?;
        Ok(Slots::boxed(round_s, misfit, Order::Remaining(by)))
    },
};

/// Packing by alignment in slots.
pub(super) const TETRIS: Entry = Entry {
    name: "slot-tetris",
    title: "multi-resource packing by alignment in slots, less remaining work first",
    source: "Grandl et al., Tetris, SIGCOMM 2014; as a baseline of DL2 (2019)",
    reads_declared: true,
    suits: Suits::Servers,
    parameters: &[ROUND_S, MISFIT, BY, WORK],
    sizes: true,
    defaults: defaults::<Packing>,
    build: |given| {
        let Packing { round_s, misfit, by, work } =
            parameters("slot-tetris", &[ROUND_S, MISFIT, BY, WORK], given)?;
        Ok(Slots::boxed(round_s, misfit, Order::Alignment(by, work)))
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_all_of_a_narrow_range_and_reach_both_ends_of_a_wide_one() {
        let of = |min, max| sizes(WorkerRange { min, max });
        assert_eq!(of(0, 3), [1, 2, 3]);
        assert_eq!(of(2, 66), (2..=66).collect::<Vec<u32>>());
        assert_eq!((of(0, 0), of(3, 2)), (vec![0], vec![]));
        let wide = of(1, u32::MAX);
        assert_eq!((wide[0], wide.last()), (1, Some(&crate::decide::MOST_UNITS)));
        assert!(wide.len() < 256 && wide.is_sorted(), "{}", wide.len());
        assert_eq!(of(u32::MAX - 2, u32::MAX).len(), 1, "what is needed, and no more than is given out");
    }
}
