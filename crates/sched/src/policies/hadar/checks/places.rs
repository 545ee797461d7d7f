//! H-1: the place that is found for a gang, against all places that there are.

use super::super::candidates::{Gang, Kind, Offer, Terms, find};
use super::super::prices::Bounds;
use super::super::stock::{Counts, Stock};
use super::{TERMS, dear, distributions, random};
use crate::decide::{Checked, Dice};
use crate::model::Topology;

/// Whether the job, and the guard, allow these nodes together.
fn is_allowed(gang: &Gang, stock: &Stock, terms: &Terms, counts: &Counts) -> bool {
    let mut types: Vec<usize> = counts.iter().map(|(at, _)| stock.spot(*at).gpu_type).collect();
    types.sort_unstable();
    types.dedup();
    let fastest = types.iter().map(|i| gang.spread[*i]).fold(0.0, f64::max);
    let mixes = types.len() == 1 || (gang.may_mix && gang.pace(stock, counts) * 2.0 >= fastest);
    let near = counts.len() == 1 || gang.topology == Topology::Anywhere;
    terms.guards_mixing && mixes && near
}

/// What is wrong with an offer, where the best place of all pays so much.
fn wrong(gang: &Gang, stock: &Stock, all: &[Counts], (offer, best): (&Offer, f64)) -> Option<&'static str> {
    let by_type = if offer.counts.len() > 1 { &gang.spread } else { &gang.together };
    let slowest = types(stock, offer).iter().map(|i| by_type[*i]).fold(f64::INFINITY, f64::min);
    let is_held = gang.held.as_ref() == Some(&offer.counts);
    let rules = [
        (offer.counts.iter().map(|(_, count)| count).sum::<u32>() == gang.workers, "the gang is not whole"),
        (all.contains(&offer.counts), "it is not free"),
        (offer.per_s == slowest, "it is not the pace of the slowest"),
        (offer.payoff() >= best - best.abs() * 1e-12, "another place pays more"),
        ((offer.kind == Kind::Stay) == is_held, "it stays where it is not, or goes where it is"),
    ];
    rules.into_iter().find(|(holds, _)| !holds).map(|(_, fault)| fault)
}

fn types(stock: &Stock, offer: &Offer) -> Vec<usize> {
    offer.counts.iter().map(|(at, _)| stock.spot(*at).gpu_type).collect()
}

/// On so many states with up to three nodes: the offer is sound, and no other place pays more.
pub fn places(instances: u64) -> Checked {
    let mut checked = Checked { instances, ..Checked::default() };
    let (mut found, mut spread, mut stays, mut mixed, mut least) = (0_u32, 0_u32, 0_u32, 0_u32, 1.0_f64);
    for seed in 0..instances {
        let mut dice = Dice::new(seed);
        // Prices that are far more than what a gang is worth, and such that it can pay: only then what nodes beyond the first cost
        // counts beside what devices do.
        let bounds = [dear(), Bounds::new(1e-3, 0.1)][dice.roll(2) as usize];
        let (gang, stock) = random(&mut dice, 6, bounds);
        let terms = Terms { beta: [0.0, 0.05, 1.0][dice.roll(3) as usize], ..TERMS };
        let all = distributions(&gang, &stock);
        let allowed = all.iter().filter(|counts| is_allowed(&gang, &stock, &terms, counts));
        let kind = |counts: &Counts| if counts.len() > 1 { Kind::Spread } else { Kind::Consolidated };
        let offers = allowed.filter_map(|counts| gang.offer(&stock, &terms, counts.clone(), kind(counts)));
        let best = offers.map(|offer| offer.payoff()).fold(f64::NEG_INFINITY, f64::max);
        let Some(offer) = find(&gang, &stock, &terms) else {
            checked
                .hold(best == f64::NEG_INFINITY, || format!("{seed}: nothing is found where something fits"));
            continue;
        };
        let fault = wrong(&gang, &stock, &all, (&offer, best));
        checked.hold(fault.is_none(), || format!("{seed}: {}: {offer:?}", fault.unwrap_or_default()));
        found += 1;
        spread += u32::from(offer.kind == Kind::Spread);
        stays += u32::from(offer.kind == Kind::Stay);
        let types = types(&stock, &offer);
        mixed += u32::from(types.iter().any(|i| *i != types[0]));
        if best > 0.0 {
            least = least.min(offer.payoff() / best);
        }
    }
    let counts = [("found", found), ("spread", spread), ("stays", stays), ("mixed", mixed)];
    checked.figures = counts.into_iter().map(|(name, count)| (name, f64::from(count))).collect();
    checked.figures.push(("least part of the best payoff", least));
    checked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_place_pays_more_than_the_one_that_is_found() {
        let checked = places(4000);
        assert!(checked.faults.is_empty(), "{:#?}", checked.faults);
        for (name, least) in [("found", 300.0), ("spread", 30.0), ("stays", 30.0), ("mixed", 10.0)] {
            assert!(checked.figure(name) > least, "{name}: {}", checked.figure(name));
        }
    }
}
