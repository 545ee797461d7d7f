//! What comes of a manner of giving nodes away: the slots to come, played through without any surprise.
//!
//! Speeds are those that are known, nobody arrives, and no node fails. Many slots are played as one, so that it takes a bounded
//! number of them whatever there is to do.

use crate::model::{RackId, Resources};

use super::levels::{Manner, Room, levels};
use super::quotas::{Seat, capacity, together_s};
use super::tracker::Books;

/// So many slots are played at the most; what is then left is done at the pace of the last one.
const MOST_SLOTS: usize = 96;
/// Slots are played as one if there are more than so many to come.
const FINE_SLOTS: f64 = 32.0;
/// So many pairs of a job and a node are played through; beyond, that would take longer than it is worth.
pub(super) const MOST_PAIRS: usize = 4096;

/// When jobs are done, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outlook {
    /// The mean time from arrival to end.
    pub mean_s: f64,
    /// When the last one is done.
    pub last_s: f64,
}

/// That a job is done: how old it is now, and when that will be.
#[derive(Clone, Copy, Debug)]
struct End {
    age_s: f64,
    at_s: f64,
}

/// What comes of giving nodes away in this manner from now on.
pub(super) fn outlook(
    books: &Books,
    manner: Manner,
    free: &[Resources],
    racks: &[RackId],
    slot_s: f64,
) -> Outlook {
    let mut books = books.clone();
    books.parents.retain(|(_, parent)| parent.left.is_some_and(|left| left > 0.0));
    let (mut ends, mut now_s): (Vec<End>, f64) = (Vec::new(), 0.0);
    for _ in 0..MOST_SLOTS {
        if books.parents.is_empty() {
            break;
        }
        let length_s = slot_s * (remaining_s(&books) / slot_s / FINE_SLOTS).floor().max(1.0);
        let mut room = Room { free: free.to_vec(), racks, slot_s };
        let given = vec![Vec::new(); books.parents.len()];
        let placed = levels(&books, manner, &mut room, given);
        if placed.iter().all(Vec::is_empty) {
            break;
        }
        now_s += play(&mut books, &placed, (slot_s, length_s), now_s, &mut ends);
    }
    // Whoever is not done by then goes on as fast as it can.
    for (_, parent) in &books.parents {
        let rest_s = parent.left.unwrap_or(0.0) / parent.together_per_s().max(f64::MIN_POSITIVE);
        ends.push(End { age_s: parent.age_s, at_s: now_s + rest_s });
    }
    let last_s = ends.iter().map(|end| end.at_s).fold(0.0, f64::max);
    let sum_s: f64 = ends.iter().map(|end| end.age_s + end.at_s).sum();
    Outlook { mean_s: sum_s / ends.len().max(1) as f64, last_s }
}

/// How long all jobs take on all nodes, roughly: the longest is at least as long.
fn remaining_s(books: &Books) -> f64 {
    let nodes = books.leaving_s.len().max(1) as f64;
    let best = books.parents.iter().map(|(_, parent)| (parent.left.unwrap_or(0.0), parent.best()));
    best.map(|(left, per_s)| left / per_s.max(f64::MIN_POSITIVE)).sum::<f64>() / nodes
}

/// Plays one slot, or several as one; says how long that took. Jobs that are done are taken off the books.
fn play(
    books: &mut Books,
    placed: &[Vec<usize>],
    (slot_s, length_s): (f64, f64),
    now_s: f64,
    ends: &mut Vec<End>,
) -> f64 {
    let mut longest_s = 0.0_f64;
    let seats: Vec<Vec<Seat>> = books
        .parents
        .iter()
        .zip(placed)
        .map(|((_, parent), nodes)| {
            nodes.iter().map(|node| books.seat(parent, *node, nodes.len() > 1)).collect()
        })
        .collect();
    let mut leaving_s = vec![0.0; books.leaving_s.len()];
    for (((_, parent), nodes), seats) in books.parents.iter_mut().zip(placed).zip(&seats) {
        // The pauses of one slot come in each of them.
        let usual = |seat: &Seat| Seat { overhead_s: seat.overhead_s * length_s / slot_s, ..*seat };
        let seats: Vec<Seat> = seats.iter().map(usual).collect();
        let left = parent.left.unwrap_or(0.0);
        let done = capacity(&seats, length_s);
        if left <= done {
            let end_s = together_s(left, &seats).unwrap_or(0.0).min(length_s);
            ends.push(End { age_s: parent.age_s, at_s: now_s + end_s });
            longest_s = longest_s.max(end_s);
            parent.left = Some(0.0);
        } else {
            parent.left = Some(left - done);
            parent.left_part *= (left - done) / left;
            longest_s = length_s;
        }
        let span_s = if nodes.len() > 1 { parent.merge_s } else { parent.save_s };
        nodes.iter().for_each(|node| leaving_s[*node] = span_s);
        let copy = |(copy, node): (usize, &usize)| {
            (crate::model::NodeId(*node as u32), crate::model::CopyId(copy as u16))
        };
        parent.is_aged &= nodes.is_empty();
        parent.here = nodes.iter().enumerate().map(copy).collect();
    }
    books.leaving_s = leaving_s;
    books.parents.retain(|(_, parent)| parent.left.is_some_and(|left| left > 0.0));
    if books.parents.is_empty() { longest_s } else { length_s }
}
