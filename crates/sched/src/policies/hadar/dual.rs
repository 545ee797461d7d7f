//! Who gets GPUs in this slot: the dual subroutine of Hadar, a dynamic program over jobs in a given order.
//!
//! `V(i, state)` is the largest payoff of the jobs from the i-th on, where each is passed by or put where it pays most. Up to
//! [`EXACT`] jobs that is computed exactly, with a memo for states in which the same can be done. Of more, a beam keeps the
//! best states for each job; a beam of one gives every job in turn its best place, if that pays.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::candidates::{Gang, Offer, Terms, find};
use super::stock::{Likeness, Stock};

/// The most jobs that are decided on exactly.
pub(super) const EXACT: usize = 12;

/// The places of the jobs, in their order; none where there is none that pays, or where others make more of it. What is placed is taken from the stock.
pub(super) fn plan(gangs: &[&Gang], stock: &mut Stock, terms: &Terms, beam: usize) -> Vec<Option<Offer>> {
    let chosen = match (gangs.len(), beam) {
        (_, ..=1) => None,
        (..=EXACT, _) => Some(exact(gangs, stock, terms)),
        _ => Some(beamed(gangs, stock, terms, beam)),
    };
    let mut outcomes = Vec::with_capacity(gangs.len());
    for (i, gang) in gangs.iter().enumerate() {
        let offer = match &chosen {
            Some(chosen) => chosen[i].clone(),
            None => paying(gang, stock, terms),
        };
        if let Some(offer) = &offer {
            stock.take(&offer.counts, &gang.worker);
        }
        outcomes.push(offer);
    }
    outcomes
}

/// What a job is offered, if it pays.
pub(super) fn paying(gang: &Gang, stock: &Stock, terms: &Terms) -> Option<Offer> {
    find(gang, stock, terms).filter(|offer| offer.payoff() > 0.0)
}

pub(super) fn taken(stock: &Stock, gang: &Gang, offer: &Offer) -> Stock {
    let mut stock = stock.clone();
    stock.take(&offer.counts, &gang.worker);
    stock
}

/// The nodes that are not like others of their kind to one of these jobs.
fn special(gangs: &[&Gang], stock: &Stock) -> Vec<bool> {
    let near = gangs.iter().any(|gang| gang.topology == crate::model::Topology::SameRack);
    let mut special = vec![near; (0..stock.types()).map(|i| stock.of_type(i).count()).sum()];
    for (at, spot) in (0..stock.types()).flat_map(|i| stock.of_type(i)) {
        let shunned = gangs.iter().any(|gang| gang.shuns == Some(spot.node));
        special[at as usize] |= shunned || !spot.takes_work;
    }
    for (at, _) in gangs.iter().filter_map(|gang| gang.held.as_ref()).flatten() {
        special[*at as usize] = true;
    }
    special
}

struct Exact<'a> {
    gangs: &'a [&'a Gang],
    terms: &'a Terms,
    special: Vec<bool>,
    known: BTreeMap<(usize, Likeness), f64>,
}

impl Exact<'_> {
    fn value(&mut self, i: usize, stock: &Stock) -> f64 {
        if i == self.gangs.len() || stock.is_empty() && self.gangs[i..].iter().all(|gang| gang.held.is_none())
        {
            return 0.0;
        }
        let state = (i, stock.likeness(&self.special));
        if let Some(known) = self.known.get(&state) {
            return *known;
        }
        let (passed, placed) = self.branches(i, stock);
        let value = placed.map_or(passed, |(value, _)| value.max(passed));
        self.known.insert(state, value);
        value
    }

    /// The value of passing a job by, and of placing it.
    fn branches(&mut self, i: usize, stock: &Stock) -> (f64, Option<(f64, Offer)>) {
        let passed = self.value(i + 1, stock);
        let gang = self.gangs[i];
        let placed = paying(gang, stock, self.terms).map(|offer| {
            let value = offer.payoff() + self.value(i + 1, &taken(stock, gang, &offer));
            (value, offer)
        });
        (passed, placed)
    }
}

fn exact(gangs: &[&Gang], stock: &Stock, terms: &Terms) -> Vec<Option<Offer>> {
    let special = special(gangs, stock);
    let mut search = Exact { gangs, terms, special, known: BTreeMap::new() };
    let mut stock = stock.clone();
    let mut chosen = Vec::with_capacity(gangs.len());
    for (i, gang) in gangs.iter().enumerate() {
        let (passed, placed) = search.branches(i, &stock);
        let offer = placed.filter(|(value, _)| *value >= passed).map(|(_, offer)| offer);
        if let Some(offer) = &offer {
            stock.take(&offer.counts, &gang.worker);
        }
        chosen.push(offer);
    }
    chosen
}

/// One state of the beam.
struct State {
    payoff: f64,
    stock: Stock,
    /// The latest step that led here.
    last: Option<usize>,
}

/// A job that was placed on the way to a state.
struct Step {
    job: usize,
    offer: Offer,
    before: Option<usize>,
}

pub(super) fn beamed(gangs: &[&Gang], stock: &Stock, terms: &Terms, width: usize) -> Vec<Option<Offer>> {
    let special = special(gangs, stock);
    let mut steps: Vec<Step> = Vec::new();
    let mut states = vec![State { payoff: 0.0, stock: stock.clone(), last: None }];
    for (job, gang) in gangs.iter().enumerate() {
        let mut next: Vec<State> = Vec::with_capacity(2 * states.len());
        for state in states {
            if let Some(offer) = paying(gang, &state.stock, terms) {
                let stock = taken(&state.stock, gang, &offer);
                let payoff = state.payoff + offer.payoff();
                steps.push(Step { job, offer, before: state.last });
                next.push(State { payoff, stock, last: Some(steps.len() - 1) });
            }
            next.push(state);
        }
        next.sort_by(|a, b| b.payoff.total_cmp(&a.payoff));
        states = best_of(next, &special, width);
    }
    let mut chosen = vec![None; gangs.len()];
    let mut at = states.first().and_then(|state| state.last);
    while let Some(step) = at {
        chosen[steps[step].job] = Some(steps[step].offer.clone());
        at = steps[step].before;
    }
    chosen
}

/// The first of these states that differ from each other.
fn best_of(states: Vec<State>, special: &[bool], width: usize) -> Vec<State> {
    let mut kept: Vec<State> = Vec::with_capacity(width);
    let mut marks: BTreeMap<u64, usize> = BTreeMap::new();
    for state in states {
        if kept.len() == width {
            break;
        }
        match marks.entry(state.stock.mark(special)) {
            Entry::Vacant(entry) => {
                entry.insert(kept.len());
                kept.push(state);
            }
            Entry::Occupied(entry) => {
                // Two states seldom have one mark without being alike.
                if kept[*entry.get()].stock.likeness(special) != state.stock.likeness(special) {
                    kept.push(state);
                }
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::super::checks::{TERMS, gang, idle, worker};
    use super::*;

    #[test]
    fn a_job_that_does_not_pay_is_passed_by() {
        let mut stock = idle(&[(0, 1)]);
        let dear = gang(1, &[1.0], 2.0);
        for beam in [1, 16] {
            assert_eq!(plan(&[&dear], &mut stock, &TERMS, beam), [None], "1/2 is less than the price of 1");
        }
        let cheap = gang(1, &[4.0], 2.0);
        assert!(plan(&[&cheap], &mut stock, &TERMS, 16)[0].is_some());
        assert!(stock.is_empty());
        stock.set(0, 1, worker(1).demand);
        let both = plan(&[&dear, &cheap, &cheap], &mut stock, &TERMS, 1);
        assert!(matches!(both[..], [None, Some(_), None]), "{both:?}");
    }

    #[test]
    fn the_exact_plan_knows_equal_nodes_and_stays_quick() {
        let mut stock = idle(&[(0, 4), (0, 4), (0, 4), (0, 4), (0, 4), (0, 4)]);
        let gang = gang(1, &[1000.0], 1.0);
        let gangs = vec![&gang; EXACT];
        let chosen = plan(&gangs, &mut stock, &TERMS, 16);
        assert_eq!(chosen.iter().flatten().count(), EXACT);
    }
}
