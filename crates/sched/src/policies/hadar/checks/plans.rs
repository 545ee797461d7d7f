//! H-3: the plan of a round, against all subsets of jobs to place.

use super::super::candidates::{Gang, Offer};
use super::super::dual::{beamed, paying, plan, taken};
use super::super::stock::Stock;
use super::{TERMS, dear, random};
use crate::decide::{Checked, Dice};

/// All subsets of jobs to place, each in the given order where it pays most.
fn brute_force(gangs: &[&Gang], stock: &Stock) -> f64 {
    let Some((first, rest)) = gangs.split_first() else { return 0.0 };
    let passed = brute_force(rest, stock);
    let placed = paying(first, stock, &TERMS)
        .map(|offer| offer.payoff() + brute_force(rest, &taken(stock, first, &offer)));
    placed.map_or(passed, |placed| placed.max(passed))
}

/// What is won by a plan; nothing if what is chosen cannot be taken, one after the other.
fn total(gangs: &[&Gang], stock: &Stock, beam: usize) -> Option<f64> {
    let mut left = stock.clone();
    let chosen = plan(gangs, &mut left, &TERMS, beam);
    let mut again = stock.clone();
    for (gang, offer) in gangs.iter().zip(&chosen).filter_map(|(gang, offer)| Some((gang, offer.as_ref()?))) {
        let repeated = paying(gang, &again, &TERMS)?;
        if (repeated.payoff() - offer.payoff()).abs() >= 1e-12 {
            return None;
        }
        again.take(&offer.counts, &gang.worker);
    }
    let is_same = again.likeness(&[false; 3]) == left.likeness(&[false; 3]);
    is_same.then(|| chosen.iter().flatten().map(Offer::payoff).sum())
}

fn instance(seed: u64) -> (Vec<Gang>, Stock) {
    let mut dice = Dice::new(seed);
    let (first, stock) = random(&mut dice, 3, dear());
    let mut gangs = vec![first];
    for _ in 0..dice.roll(10) {
        let (mut gang, _) = random(&mut dice, 3, dear());
        gang.held = None;
        for speeds in [&mut gang.together, &mut gang.spread] {
            speeds.resize(stock.types(), 1.5);
        }
        // Jobs that are worth about what GPUs cost are the hard ones.
        gang.left /= 30.0;
        gangs.push(gang);
    }
    (gangs, stock)
}

/// On so many sets of up to ten jobs: the exact plan is the best one, and what a beam of 16 and each job in turn make of it.
pub fn plans(instances: u64) -> Checked {
    let mut checked = Checked { instances, ..Checked::default() };
    let (mut sums, mut differs) = ([0.0; 3], 0_u32);
    for seed in 0..instances {
        let (gangs, stock) = instance(seed);
        let gangs: Vec<&Gang> = gangs.iter().collect();
        let best = brute_force(&gangs, &stock);
        let (found, greedy) = (total(&gangs, &stock, 2), total(&gangs, &stock, 1));
        let chosen = beamed(&gangs, &stock, &TERMS, 16);
        let beamed: f64 = chosen.iter().flatten().map(Offer::payoff).sum();
        let is_best = found.is_some_and(|found| (found - best).abs() <= best * 1e-12);
        checked.hold(is_best, || format!("{seed}: {found:?} instead of {best}"));
        let most = best * (1.0 + 1e-12);
        checked.hold(greedy.is_some_and(|greedy| greedy <= most), || format!("{seed}: in turn {greedy:?}"));
        checked.hold(beamed <= most, || format!("{seed}: a beam makes {beamed} of {best}"));
        let greedy = greedy.unwrap_or(0.0);
        differs += u32::from(greedy < best * 0.999);
        for (sum, value) in sums.iter_mut().zip([best, beamed, greedy]) {
            *sum += value;
        }
    }
    checked.figures = vec![
        ("part of the best that a beam of 16 has", sums[1] / sums[0]),
        ("part of the best that each in turn has", sums[2] / sums[0]),
        ("passed by", f64::from(differs)),
    ];
    checked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_plan_is_the_best_and_the_beam_comes_near() {
        let checked = plans(400);
        assert!(checked.faults.is_empty(), "{:#?}", checked.faults);
        let beam = checked.figure("part of the best that a beam of 16 has");
        assert!(beam >= 0.99, "the beam of 16: {beam}");
        assert!(checked.figure("passed by") > 10.0, "in some cases it is better to pass a job by");
    }
}
