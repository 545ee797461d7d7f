//! Which copies go to which nodes in a slot: level by level, so that every job gets a first node before any gets a second
//! (specification of Hadar and Gavel, 2.6.3, step 2).

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{GPU, PriorityClass, RackId, Resources};

use super::kinds::fold;
use super::matching::assign;
use super::quotas::{Seat, capacity, together_s};
use super::tracker::{Books, Parent};
use super::utility::{Facts, Utility};

/// What a pair of a job and a node counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Weights {
    /// How fast it is there, of the best that it could have.
    Relative,
    /// Hadar's payoff: what the job is worth if it went on there alone.
    Payoff,
}

/// How nodes are given away.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Manner {
    pub weights: Weights,
    /// Copies of a job at the most.
    pub copies: usize,
    /// How many jobs get all that they can use before the others get anything, the shortest first; `None` means that none does.
    pub first: Option<usize>,
    /// Whether a copy is only given that brings its job further in this slot.
    pub must_pay: bool,
}

/// What a slot has to give.
pub(super) struct Room<'a> {
    pub free: Vec<Resources>,
    pub racks: &'a [RackId],
    pub slot_s: f64,
}

/// So much a job counts more of which all is left.
const LEFT_PART: f64 = 1e-3;
/// Equal nodes are not exchanged.
const STAYS: f64 = 1e-6;

/// The nodes of each job; `given` says where copies are that are not to be moved.
pub(super) fn levels(
    books: &Books,
    manner: Manner,
    room: &mut Room<'_>,
    given: Vec<Vec<usize>>,
) -> Vec<Vec<usize>> {
    let mut placed = given;
    let all: Vec<usize> = (0..books.parents.len()).collect();
    let Some(first) = manner.first else {
        fill(books, manner, room, &all, &mut placed);
        return placed;
    };
    // One bunch of the shortest after the other.
    let key = |at: usize| (!books.parents[at].1.is_aged, shortest_s(&books.parents[at].1), at);
    let mut order: Vec<(bool, f64, usize)> = all.into_iter().map(key).collect();
    order.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
    let order: Vec<usize> = order.into_iter().map(|(_, _, at)| at).collect();
    for some in order.chunks(first.max(1)) {
        fill(books, manner, room, some, &mut placed);
    }
    placed
}

/// How long a job takes if it has all that it could use.
fn shortest_s(parent: &Parent) -> f64 {
    parent.left.map_or(f64::INFINITY, |left| left / parent.together_per_s().max(f64::MIN_POSITIVE))
}

fn fill(books: &Books, manner: Manner, room: &mut Room<'_>, some: &[usize], placed: &mut [Vec<usize>]) {
    // Of a class those go first that have waited for too long.
    let rank = |at: usize| {
        let parent = &books.parents[at].1;
        (parent.job.goals.class, parent.is_aged)
    };
    let mut ranks: Vec<(PriorityClass, bool)> = some.iter().map(|at| rank(*at)).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let mut open: Vec<usize> = some.to_vec();
    while let Some(least) = open.iter().map(|at| placed[*at].len()).min() {
        for next_rank in ranks.iter().rev() {
            let is_next = |at: &usize| placed[*at].len() == least && rank(*at) == *next_rank;
            let mut next: Vec<usize> = open.iter().copied().filter(is_next).collect();
            next.retain(|at| least < books.parents[*at].1.most.min(manner.copies));
            // A node takes one of them at a time, and may have room for more.
            while !next.is_empty() {
                let found = one_each(books, manner, room, &next, placed);
                if found.iter().all(Option::is_none) {
                    break;
                }
                for (at, node) in next.iter().zip(&found) {
                    if let Some(node) = node {
                        placed[*at].push(*node);
                        room.free[*node] = minus(room.free[*node], books.parents[*at].1.demand);
                    }
                }
                next = next
                    .into_iter()
                    .zip(found)
                    .filter(|(_, node)| node.is_none())
                    .map(|(at, _)| at)
                    .collect();
            }
        }
        // Who got nothing on this level gets nothing on a later one.
        open.retain(|at| placed[*at].len() > least);
    }
}

/// One node for each of these, where there is one.
fn one_each(
    books: &Books,
    manner: Manner,
    room: &Room<'_>,
    some: &[usize],
    placed: &[Vec<usize>],
) -> Vec<Option<usize>> {
    let kinds = fold(books, manner, room, some, placed);
    give(&kinds, books, some, weights(books, manner, room, some, placed))
}

/// What each node counts for to each of these; nothing where it may not be.
pub(super) fn weights(
    books: &Books,
    manner: Manner,
    room: &Room<'_>,
    some: &[usize],
    placed: &[Vec<usize>],
) -> impl Fn(usize, usize) -> Option<f64> {
    move |row: usize, node: usize| {
        let (parent, own) = (&books.parents[some[row]].1, &placed[some[row]]);
        let may = parent.per_s(node) > 0.0
            && !own.contains(&node)
            && fits(parent, room.free[node])
            && (!parent.stays_in_rack() || own.first().is_none_or(|at| room.racks[*at] == room.racks[node]))
            && (own.is_empty() || end_one_each(parent, own, node, room.slot_s))
            && (!manner.must_pay || own.is_empty() || pays(books, parent, own, node, room.slot_s));
        may.then(|| worth(books, manner.weights, parent, own, node))
    }
}

/// Gives each job a node of one of these kinds, or none. `weight` says what a node counts for.
pub(super) fn give(
    kinds: &[Vec<usize>],
    books: &Books,
    some: &[usize],
    weight: impl Fn(usize, usize) -> Option<f64>,
) -> Vec<Option<usize>> {
    let of_kind = |(kind, nodes): (usize, &Vec<usize>)| -> Vec<(usize, usize)> {
        nodes.iter().map(|node| (*node, kind)).collect()
    };
    let kind_of: BTreeMap<usize, usize> = kinds.iter().enumerate().flat_map(of_kind).collect();
    // Of a kind each job may have the node where it is now, and else any other.
    let home = |row: usize, kind: usize| {
        let here = books.parents[some[row]].1.here.iter().map(|(node, _)| node.index());
        here.filter(|node| kind_of.get(node) == Some(&kind)).find(|node| weight(row, *node).is_some())
    };
    let weight_of = |row: usize, kind: usize| {
        let here = &books.parents[some[row]].1.here;
        let away = kinds[kind].iter().find(|node| here.iter().all(|(at, _)| at.index() != **node));
        let each =
            [home(row, kind), away.copied()].into_iter().flatten().filter_map(|node| weight(row, node));
        each.reduce(f64::max)
    };
    let places: Vec<usize> = kinds.iter().map(Vec::len).collect();
    let chosen = assign(some.len(), &places, weight_of);
    let stays = |(row, kind): (usize, &Option<usize>)| kind.and_then(|kind| home(row, kind));
    let mut found: Vec<Option<usize>> = chosen.iter().enumerate().map(stays).collect();
    let taken: BTreeSet<usize> = found.iter().flatten().copied().collect();
    // Others come to where nobody is before they come to where somebody might stay.
    let homes: BTreeSet<usize> = books
        .parents
        .iter()
        .flat_map(|(_, parent)| parent.here.iter().map(|(node, _)| node.index()))
        .collect();
    let order = |nodes: &Vec<usize>| {
        let (others, free): (Vec<usize>, Vec<usize>) =
            nodes.iter().filter(|node| !taken.contains(node)).partition(|node| homes.contains(node));
        free.into_iter().chain(others)
    };
    let mut open: Vec<_> = kinds.iter().map(order).collect();
    for (row, kind) in chosen.iter().enumerate() {
        if let (None, Some(kind)) = (found[row], kind) {
            found[row] = open[*kind].next();
        }
    }
    found
}

fn worth(books: &Books, weights: Weights, parent: &Parent, own: &[usize], node: usize) -> f64 {
    let stays = parent.here.iter().any(|(at, _)| at.index() == node);
    let stays = if stays { STAYS } else { 0.0 };
    match weights {
        Weights::Relative => {
            parent.counted(node) / parent.best() * (1.0 + LEFT_PART * parent.left_part) + stays
        }
        Weights::Payoff => {
            let seat = books.seat(parent, node, !own.is_empty());
            let left = parent.left.unwrap_or(0.0);
            let end_s = parent.age_s + seat.overhead_s + left / parent.counted(node);
            let facts = Facts { iterations: left, fastest_s: 0.0, slowest_s: 0.0, isolated_s: 0.0 };
            // In tenths of an hour, so that it is of the size of a relative speed.
            Utility::Inv.of(&facts, end_s) * 360.0 + stays
        }
    }
}

/// Whether each copy, with one more of them, is done with an iteration within a slot once it is there. They are brought together
/// between two iterations, at the end of each slot; one that comes to none is only in the way.
fn end_one_each(parent: &Parent, own: &[usize], node: usize, slot_s: f64) -> bool {
    let is_done = |at: &usize| parent.merge_s + 1.0 / parent.per_s(*at) <= slot_s;
    own.iter().chain([&node]).all(is_done)
}

/// Whether one more copy brings a job further in a slot, or to its end sooner: what it does must be more than what the others lose
/// by being brought together.
fn pays(books: &Books, parent: &Parent, own: &[usize], node: usize, slot_s: f64) -> bool {
    let seats = |nodes: &[usize], several: bool| -> Vec<Seat> {
        let seat = |at: &usize| {
            let seat = books.seat(parent, *at, several);
            let later_s = if several { parent.merge_s } else { 0.0 };
            // What it will cost to bring them together counts in the slot that makes it necessary.
            let overhead_s = seat.overhead_s.max(later_s);
            Seat { overhead_s, ..seat }
        };
        nodes.iter().map(seat).collect()
    };
    let before = seats(own, own.len() > 1);
    let with: Vec<usize> = own.iter().copied().chain([node]).collect();
    let after = seats(&with, true);
    let Some(left) = parent.left else { return false };
    match (left < capacity(&before, slot_s), together_s(left, &before), together_s(left, &after)) {
        (true, Some(before_s), Some(after_s)) => after_s < before_s,
        _ => capacity(&after, slot_s) > capacity(&before, slot_s),
    }
}

pub(super) fn fits(parent: &Parent, free: Resources) -> bool {
    let whole = parent.demand.gpu_milli < GPU || free.gpu_milli / GPU * GPU >= parent.demand.gpu_milli;
    whole && parent.demand.fits_in(&free)
}

const fn minus(free: Resources, taken: Resources) -> Resources {
    const fn less(free: u64, taken: u64) -> u64 {
        // What is not kept count of stays so.
        if free == crate::model::UNLIMITED { free } else { free.saturating_sub(taken) }
    }
    Resources {
        gpu_milli: less(free.gpu_milli, taken.gpu_milli),
        cpu_milli: less(free.cpu_milli, taken.cpu_milli),
        memory_bytes: less(free.memory_bytes, taken.memory_bytes),
        network_bytes_per_s: less(free.network_bytes_per_s, taken.network_bytes_per_s),
    }
}
