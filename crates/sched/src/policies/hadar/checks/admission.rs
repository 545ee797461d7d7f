//! H-4: what admission earns, against the most that anybody could.

use super::super::calendar::Calendar;
use super::super::candidates::Gang;
use super::super::prices::{Bounds, Horizon, Payer, bounds, slots};
use super::{TERMS, gang, idle, worker};
use crate::decide::{Checked, Dice};

const SLOT_S: f64 = 10.0;

/// Jobs with the slots in which they arrive, in that order.
struct Instance {
    jobs: Vec<(u64, Gang)>,
    nodes: Vec<(usize, u32)>,
    bounds: Vec<Bounds>,
}

fn instance(seed: u64) -> Instance {
    let mut dice = Dice::new(seed);
    let types = 1 + dice.roll(2) as usize;
    let nodes: Vec<(usize, u32)> = (0..types).map(|i| (i, 1 + dice.roll(3) as u32)).collect();
    let gpus: u32 = nodes.iter().map(|(_, gpus)| gpus).sum();
    let most = u64::from(nodes.iter().map(|(_, gpus)| *gpus).max().expect("there are nodes"));
    let mut jobs: Vec<(u64, Gang)> = (0..2 + dice.roll(5))
        .map(|_| {
            let speeds: Vec<f64> = (0..types).map(|i| (1 + dice.roll(3)) as f64 / (1.0 + i as f64)).collect();
            let left = 5.0 + dice.roll(80) as f64;
            (dice.roll(4), Gang { may_mix: false, ..gang(1 + dice.roll(most) as u32, &speeds, left) })
        })
        .collect();
    jobs.sort_by_key(|(arrival, _)| *arrival);
    let usable = vec![true; types];
    let payers: Vec<Payer<'_>> = jobs
        .iter()
        .map(|(arrival, gang)| Payer {
            facts: &gang.facts,
            age_s: -(*arrival as f64) * SLOT_S,
            gpus: gang.gpus(),
            usable: &usable,
        })
        .collect();
    let arrivals = jobs.last().map_or(0, |(arrival, _)| *arrival);
    let mut horizon = Horizon::of(SLOT_S, f64::from(gpus), payers.iter().copied());
    horizon.slots += arrivals as f64;
    let bounds = bounds(TERMS.utility, horizon, (types, f64::from(gpus)), 1.0, &payers);
    drop(payers);
    Instance { jobs, nodes, bounds }
}

impl Instance {
    fn empty(&self) -> Calendar {
        Calendar::new(&idle(&self.nodes), self.bounds.clone(), SLOT_S)
    }

    /// What is earned by admitting jobs as they come.
    fn admitted(&self) -> f64 {
        let mut calendar = self.empty();
        let mut earned = 0.0;
        for (arrival, gang) in &self.jobs {
            let found = calendar.best(gang, &TERMS, *arrival);
            if let Some(found) = found.filter(|found| found.offer.payoff() > 0.0) {
                earned += found.offer.worth;
                calendar.reserve((found.from, found.until), &found.offer.counts, &gang.worker);
            }
        }
        earned
    }

    /// The most that can be earned by anybody: jobs in any order, each on each node as early as it fits there. That
    /// suffices, because any plan can be moved forward job by job.
    fn optimum(&self) -> f64 {
        let most: Vec<f64> =
            self.jobs.iter().map(|(_, gang)| TERMS.utility.of(&gang.facts, gang.facts.fastest_s)).collect();
        let mut best = 0.0;
        self.search(&self.empty(), 0, 0.0, &most, &mut best);
        best
    }

    fn search(&self, calendar: &Calendar, done: u32, earned: f64, most: &[f64], best: &mut f64) {
        *best = best.max(earned);
        let open = (0..self.jobs.len()).filter(|i| done >> i & 1 == 0);
        if earned + open.clone().map(|i| most[i]).sum::<f64>() <= *best {
            return;
        }
        for i in open {
            let (arrival, gang) = &self.jobs[i];
            for (at, (gpu_type, devices)) in (0_u32..).zip(&self.nodes) {
                let pace = gang.together[*gpu_type];
                if *devices < gang.workers {
                    continue;
                }
                let length = slots(gang.left / pace, SLOT_S) as u64;
                let fits = |from: u64| calendar.window((from, from + length)).spot(at).free >= gang.workers;
                let from = (*arrival..).find(|from| fits(*from)).expect("it is free in the end");
                let worth = gang.worth(TERMS.utility, pace, (from - arrival) as f64 * SLOT_S);
                let mut next = calendar.clone();
                next.reserve((from, from + length), &[(at, gang.workers)].into_iter().collect(), &worker(1));
                self.search(&next, done | 1 << i, earned + worth, most, best);
            }
        }
    }
}

/// On so many instances of two to six jobs: the optimum is at most 2α times what is earned.
pub fn admission(instances: u64) -> Checked {
    let mut checked = Checked { instances, ..Checked::default() };
    let (mut sum, mut most, mut optimal) = (0.0, 0.0_f64, 0_u32);
    for seed in 0..instances {
        let instance = instance(seed);
        let (earned, optimum) = (instance.admitted(), instance.optimum());
        let spread = |bounds: &Bounds| (bounds.most / bounds.least).ln();
        let alpha = instance.bounds.iter().map(spread).fold(1.0, f64::max);
        let is_possible = earned > 0.0 && earned <= optimum * (1.0 + 1e-9);
        checked.hold(is_possible, || format!("{seed}: {earned} of {optimum}"));
        let is_near = optimum <= 2.0 * alpha * earned;
        checked.hold(is_near, || format!("{seed}: {earned} of {optimum}, alpha {alpha}"));
        sum += optimum / earned;
        most = most.max(optimum / earned / (2.0 * alpha));
        optimal += u32::from(optimum <= earned * (1.0 + 1e-9));
    }
    checked.figures = vec![
        ("mean ratio", sum / instances as f64),
        ("largest ratio over twice alpha", most),
        ("optimal", f64::from(optimal)),
    ];
    checked
}

#[cfg(test)]
mod tests {
    use super::super::super::calendar::Schedule;
    use super::*;

    #[test]
    fn to_end_early_changes_nothing() {
        let mut differs = 0;
        for seed in 0..200 {
            let instance = instance(seed);
            let mut calendar = instance.empty();
            for (arrival, gang) in &instance.jobs {
                let plain = calendar.search(gang, &TERMS, *arrival, false);
                let found = calendar.best(gang, &TERMS, *arrival);
                let told = |found: &Option<Schedule>| {
                    found.as_ref().map(|found| (found.from, found.until, found.offer.counts.clone()))
                };
                assert_eq!(told(&found), told(&plain), "seed {seed}");
                let Some(found) = found.filter(|found| found.offer.payoff() > 0.0) else { continue };
                differs += u32::from(found.from > *arrival);
                calendar.reserve((found.from, found.until), &found.offer.counts, &gang.worker);
            }
        }
        assert!(differs > 20, "some begin later: {differs}");
    }

    #[test]
    fn what_is_earned_is_never_below_the_optimum_over_twice_alpha() {
        let checked = admission(200);
        assert!(checked.faults.is_empty(), "{:#?}", checked.faults);
        // The mean was 2.00 when this was written; it is kept so that a change for the worse shows.
        assert!(checked.figure("mean ratio") < 2.05, "{}", checked.figure("mean ratio"));
        assert!(checked.figure("optimal") > 20.0, "in some cases admission loses nothing");
    }
}
