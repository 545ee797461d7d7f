//! H-2: prices at their ends and between, and the dual that they begin with.

use super::super::prices::{Horizon, Payer, bounds};
use super::super::utility::{Facts, Utility};
use crate::decide::{Checked, Dice};

/// A job that pays: its seconds on the fastest type and how many times as long it takes on the slowest, GPUs, age in seconds,
/// and a bit for each type that it can use.
type Payment = ((f64, f64), u32, f64, u8);

const FORMS: [Utility; 5] = [Utility::Inv, Utility::Norm, Utility::Raw, Utility::Rho, Utility::Fair];

fn facts((fastest_s, factor): (f64, f64)) -> Facts {
    let isolated_s = fastest_s * 3.0;
    Facts { iterations: fastest_s * 7.0, fastest_s, slowest_s: fastest_s * factor, isolated_s }
}

/// What does not hold of the prices of these jobs on so many GPUs of three types, with a form of utility; and the dual that
/// they begin with over what it may be.
pub(in super::super) fn broken_prices(
    jobs: &[Payment],
    gpus: [u32; 3],
    form: usize,
    eta: f64,
) -> (Vec<&'static str>, f64) {
    let utility = FORMS[form];
    let facts: Vec<Facts> = jobs.iter().map(|(seconds, ..)| facts(*seconds)).collect();
    let usable: Vec<[bool; 3]> =
        jobs.iter().map(|(.., mask)| std::array::from_fn(|i| mask >> i & 1 == 1)).collect();
    let payers: Vec<Payer<'_>> = jobs
        .iter()
        .zip(facts.iter().zip(&usable))
        .map(|((_, gpus, age_s, _), (facts, usable))| Payer {
            facts,
            age_s: *age_s,
            gpus: f64::from(*gpus),
            usable,
        })
        .collect();
    let all = f64::from(gpus.iter().sum::<u32>());
    let horizon = Horizon::of(360.0, all, payers.iter().copied());
    let bounds = bounds(utility, horizon, (3, all), eta, &payers);
    let last = |payer: &Payer<'_>| utility.of(payer.facts, payer.age_s + horizon.length_s());
    let (mut faults, mut dual, mut most) = (Vec::new(), 0.0, 0.0_f64);
    for (i, bounds) in bounds.iter().enumerate() {
        let mut hold = |holds: bool, fault| faults.extend((!holds).then_some(fault));
        hold(bounds.most >= bounds.least * 2.7, "the bounds are too near to each other");
        hold(bounds.price(0.0) == bounds.least, "an idle node has not the least price");
        hold(bounds.price(1.0) == bounds.most, "a full node has not the largest price");
        let rises = |used: u8| bounds.price(f64::from(used - 1) / 8.0) < bounds.price(f64::from(used) / 8.0);
        hold((1..=8).all(rises), "a price does not rise");
        let users = || payers.iter().filter(|payer| payer.usable[i]);
        if users().next().is_some() {
            dual += horizon.slots * f64::from(gpus[i]) * bounds.least;
            most = most.max(users().map(last).fold(f64::INFINITY, f64::min));
            let gains = |payer: &Payer<'_>| {
                utility.of(payer.facts, payer.facts.fastest_s) > bounds.most * payer.gpus * (1.0 + 1e-12)
            };
            hold(!users().any(gains), "at the largest price somebody has something to gain");
        }
    }
    if dual > most / 4.0 * (1.0 + 1e-9) {
        faults.push("the dual begins too high");
    }
    (faults, if most > 0.0 { dual / (most / 4.0) } else { 0.0 })
}

/// So many sets of up to twenty jobs.
pub fn charges(instances: u64) -> Checked {
    let mut checked = Checked { instances, ..Checked::default() };
    let mut largest = 0.0_f64;
    for seed in 0..instances {
        let mut dice = Dice::new(seed);
        let jobs: Vec<Payment> = (0..=dice.roll(19))
            .map(|_| {
                let seconds = (dice.between(1.0, 1e6), dice.between(1.0, 20.0));
                (seconds, 1 + dice.roll(8) as u32, dice.part() * 1e6, 1 + dice.roll(7) as u8)
            })
            .collect();
        let gpus = std::array::from_fn(|_| 1 + dice.roll(199) as u32);
        let form = dice.roll(FORMS.len() as u64) as usize;
        let (faults, dual) = broken_prices(&jobs, gpus, form, dice.between(1.0, 9.0));
        checked.faults.extend(faults.into_iter().map(|fault| format!("{seed}: {fault}")));
        largest = largest.max(dual);
    }
    checked.figures = vec![("largest dual over its bound", largest)];
    checked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_hold_what_the_proof_needs() {
        let checked = charges(300);
        assert!(checked.faults.is_empty(), "{:#?}", checked.faults);
        let largest = checked.figure("largest dual over its bound");
        assert!(largest > 0.5 && largest <= 1.0 + 1e-9, "{largest}");
    }
}
