//! Tetris in slots: node by node, one bundle after the other of the job with the best score.
//!
//! Score `A - e P`: `A` is the sum over resources of what is free on the node times what a bundle takes, both as parts of
//! the node; `P` is what a bundle takes times the remaining work; `e = mean(A) / mean(P)` over the jobs (specification of
//! DL2, section B9.4). As coded, `e P` is added and a node is left at the first bundle that does not fit.

use std::cmp::Reverse;

use crate::decide::{Ahead, Misfit, Slate, Unit, by_arrival};
use crate::model::{DataParallel, JobId, NodeId, PriorityClass, Resources, UNLIMITED};
use crate::rank::{Shape, ordered};
use crate::view::Snapshot;

use super::{By, Work, remaining};

/// Remaining work of all jobs, by position on the slate; what is unknown counts as the mean of the others.
fn works(seen: &Snapshot, by: By) -> Vec<f64> {
    let said: Vec<f64> = seen.jobs().map(|view| remaining(seen, view, by)).collect();
    let known = || said.iter().filter(|work| work.is_finite());
    let mean = known().sum::<f64>() / known().count().max(1) as f64;
    said.iter().map(|work| if work.is_finite() { *work } else { mean }).collect()
}

/// Larger is better.
fn signed(work: f64, prefers: Work) -> f64 {
    match prefers {
        Work::LeastFirst => -work,
        Work::MostFirst => work,
    }
}

fn bundle(shape: &DataParallel) -> Resources {
    shape.worker + shape.server.unwrap_or_default()
}

/// An amount of each resource as a part of what the node holds.
fn parts_of(amounts: Resources, holds: Resources) -> [f64; 4] {
    let (amounts, holds) = (amounts.amounts(), holds.amounts());
    let tracked = |i: usize| holds[i] > 0 && holds[i] != UNLIMITED;
    std::array::from_fn(|i| if tracked(i) { amounts[i] as f64 / holds[i] as f64 } else { 0.0 })
}

pub(super) fn fill(slate: &mut Slate<'_>, seen: &Snapshot, misfit: Misfit, by: By, prefers: Work) {
    let works = works(seen, by);
    let rank = |i: usize| signed(works[i], prefers);
    let key = |i: usize| Reverse(ordered(rank(i)));
    let order = slate.in_order(|i, view| (key(i), view.job.submitted));
    let class = |slate: &Slate<'_>, i: usize| slate.lines()[i].job.goals.class;
    let mut rest = &order[..];
    while let Some(first) = rest.first() {
        let first = class(slate, *first);
        let (alike, lower) = rest.split_at(rest.partition_point(|i| class(slate, *i) == first));
        for i in
            alike.iter().filter(|i| !slate.lines()[**i].starts_with_a_bundle()).copied().collect::<Vec<_>>()
        {
            slate.give(i, Unit::Bundle);
        }
        for node in seen.cluster.nodes.iter().map(|node| node.id) {
            fill_node(slate, node, alike, misfit, &rank, &works);
        }
        if misfit == Misfit::Skip {
            // A worker and its server may fit on two nodes where no node has room for both.
            for i in alike.iter().filter(|i| !slate.lines()[**i].runs()).copied().collect::<Vec<_>>() {
                slate.give(i, Unit::Bundle);
            }
        }
        rest = lower;
    }
}

/// Bundles for one node until none fits. `jobs` stand in the order in which ties go.
fn fill_node(
    slate: &mut Slate<'_>,
    node: NodeId,
    jobs: &[usize],
    misfit: Misfit,
    rank: &impl Fn(usize) -> f64,
    works: &[f64],
) {
    let holds = slate.board().holds(node);
    loop {
        let free = parts_of(slate.board().free().room(node), holds);
        let line = |i: usize| &slate.lines()[i];
        let open =
            |i: &&usize| line(**i).wants_more() && (line(**i).runs() || line(**i).starts_with_a_bundle());
        let able = |i: &&usize| open(i) && (misfit == Misfit::Stop || slate.fits_on(**i, node, 1) == 1);
        let demand = |i: usize| line(i).elastic().map_or([0.0; 4], |shape| parts_of(bundle(shape), holds));
        let alignment =
            |i: usize| demand(i).iter().zip(free).map(|(demand, free)| demand * free).sum::<f64>();
        let size = |i: usize| demand(i).iter().sum::<f64>();
        // As coded, means are over all jobs, also those that have all they can use.
        let all: Vec<usize> = jobs.iter().filter(|i| line(**i).elastic().is_some()).copied().collect();
        let mean_a = all.iter().map(|i| alignment(*i)).sum::<f64>();
        let mean_p = all.iter().map(|i| size(*i) * works[*i]).sum::<f64>();
        // Where no work is known, or none is left, alignment alone decides.
        let weight = if mean_p > 0.0 { mean_a / mean_p } else { 0.0 };
        let score = |i: usize| alignment(i) + weight * size(i) * rank(i);
        // `max_by` keeps the last of equals, and ties go to the first.
        let best = jobs.iter().filter(able).rev().max_by(|a, b| score(**a).total_cmp(&score(**b)));
        if !best.copied().is_some_and(|i| slate.put(i, Unit::Bundle, node)) {
            return;
        }
    }
}

/// Scores depend on what is free, so only jobs of one shape stand in an order.
pub(super) fn ahead(seen: &Snapshot, job: JobId, by: By, prefers: Work) -> Ahead {
    let works = works(seen, by);
    let Some(own) = seen.job(job).map(|view| Shape::of(&view.job)) else { return Ahead::default() };
    type Key = (Reverse<PriorityClass>, Reverse<u64>, crate::model::Time, JobId);
    let alike =
        seen.jobs().zip(&works).filter(|(view, _)| view.target.is_none() && Shape::of(&view.job) == own);
    let keyed = alike.map(|(view, work)| {
        let (class, submitted, id) = by_arrival(view);
        (class, Reverse(ordered(signed(*work, prefers))), submitted, id)
    });
    let mut keys: Vec<Key> = keyed.collect();
    keys.sort_unstable();
    let jobs = keys.into_iter().map(|key| key.3).take_while(|id| *id != job).collect();
    Ahead { jobs, is_total: false }
}
