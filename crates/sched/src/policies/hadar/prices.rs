//! The price of a GPU for one slot, by its type and by how much of its node is given away.
//!
//! `k = U_min (U_max / U_min)^(γ / c)`: at an idle node the least that anybody would pay, at a full one more than anybody can.
//! The bounds are those of the primal-dual schedulers that Hadar belongs to (OASiS, INFOCOM 2018), over the jobs that are
//! there. Prices are in utility for a GPU and slot.

use super::utility::{Facts, Utility};

/// `U_max` is at least so many times `U_min`, so that a price always rises.
const LEAST_RATIO: f64 = std::f64::consts::E;

/// What prices are made of: one job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payer<'a> {
    /// What its worth depends on.
    pub facts: &'a Facts,
    /// How long ago it arrived; negative if it arrives later than slot 0.
    pub age_s: f64,
    /// The GPUs of its gang: `W_j`.
    pub gpus: f64,
    /// Which types it can use.
    pub usable: &'a [bool],
}

/// From when to when prices reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Horizon {
    /// The length of a slot in seconds: `L`.
    pub slot_s: f64,
    /// How many slots are planned for: `T`.
    pub slots: f64,
}

/// Slots that a time takes, at least one.
pub(super) fn slots(time_s: f64, slot_s: f64) -> f64 {
    (time_s / slot_s).ceil().max(1.0)
}

impl Horizon {
    /// As long as it takes at the most until all jobs are done, if no GPU idles while somebody waits: all work on all GPUs, and
    /// after that the longest job.
    pub(super) fn of<'a>(slot_s: f64, gpus: f64, payers: impl Iterator<Item = Payer<'a>>) -> Self {
        let (mut work, mut longest) = (0.0_f64, 1.0_f64);
        for payer in payers {
            work += payer.gpus * payer.facts.slowest_s;
            longest = longest.max(slots(payer.facts.slowest_s, slot_s));
        }
        Self { slot_s, slots: slots(work / gpus.max(1.0), slot_s) + longest }
    }

    /// Its length in seconds.
    pub(super) fn length_s(self) -> f64 {
        self.slots * self.slot_s
    }
}

/// The least and the largest price of one GPU type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bounds {
    /// `U_min`.
    pub least: f64,
    /// `U_max`.
    pub most: f64,
}

impl Bounds {
    /// Between these, the larger one moved up where they are too near to each other.
    pub(super) fn new(least: f64, most: f64) -> Self {
        let least = least.max(f64::MIN_POSITIVE * 1e8);
        Self { least, most: most.max(least * LEAST_RATIO) }
    }

    /// The price where a part of the node, from 0 to 1, is given away.
    pub(super) fn price(self, used: f64) -> f64 {
        if used >= 1.0 { self.most } else { self.least * (self.most / self.least).powf(used) }
    }
}

/// The bounds of each type. `eta` is a multiple of the least η that the proof allows, from 1 on.
pub(super) fn bounds(
    utility: Utility,
    horizon: Horizon,
    (types, gpus): (usize, f64),
    eta: f64,
    payers: &[Payer<'_>],
) -> Vec<Bounds> {
    // The work of a job at its slowest, in GPU-slots.
    let work = |payer: &Payer<'_>| slots(payer.facts.slowest_s, horizon.slot_s) * payer.gpus;
    let least_work = payers.iter().map(work).fold(f64::INFINITY, f64::min);
    let inverse_eta = least_work / (horizon.slots * gpus.max(1.0)) / eta.max(1.0);
    let of_type = |i: usize| {
        let users = || payers.iter().filter(move |payer| payer.usable[i]);
        let last = |payer: &Payer<'_>| utility.of(payer.facts, payer.age_s + horizon.length_s());
        let least = users().map(|payer| last(payer) / work(payer)).fold(f64::INFINITY, f64::min);
        let first = |payer: &Payer<'_>| utility.of(payer.facts, payer.facts.fastest_s) / payer.gpus;
        let most = users().map(first).fold(0.0, f64::max);
        if least.is_finite() { Bounds::new(inverse_eta / 4.0 * least, most) } else { Bounds::new(1.0, 1.0) }
    };
    (0..types).map(of_type).collect()
}

#[cfg(test)]
mod tests {
    use super::super::checks::broken_prices;
    use super::*;
    use proptest::prelude::*;

    fn facts(seconds: (f64, f64)) -> Facts {
        let (fastest_s, factor) = seconds;
        let isolated_s = fastest_s * 3.0;
        Facts { iterations: fastest_s * 7.0, fastest_s, slowest_s: fastest_s * factor, isolated_s }
    }

    proptest! {
        /// H-2: at the ends, in between, and the initial dual against the utilities.
        #[test]
        fn prices_begin_at_the_least_end_at_the_most_and_start_the_dual_low(
            jobs in proptest::collection::vec(((1.0..1e6_f64, 1.0..20.0_f64), 1_u32..9, 0.0..1e6_f64, 1_u8..8), 1..20),
            gpus in proptest::array::uniform3(1_u32..200),
            form in 0_usize..5,
            eta in 1.0..9.0_f64,
        ) {
            prop_assert_eq!(broken_prices(&jobs, gpus, form, eta).0, [""; 0]);
        }
    }

    #[test]
    fn prices_of_two_jobs_are_those_computed_by_hand() {
        // Two GPUs, slots of 10 s. One job of 20 s on either type, one of 40 s that is twice as slow on the second.
        let all = [facts((20.0, 1.0)), facts((40.0, 2.0))];
        let usable = [true, true];
        let payer = |facts| Payer { facts, age_s: 0.0, gpus: 1.0, usable: &usable };
        let payers = [payer(&all[0]), payer(&all[1])];
        let horizon = Horizon::of(10.0, 2.0, payers.into_iter());
        // (20 + 80) GPU-seconds on 2 GPUs are 5 slots; the longest takes 8.
        assert_eq!(horizon.slots, 13.0);
        let bounds = bounds(Utility::Inv, horizon, (2, 2.0), 1.0, &payers);
        // 1/η = 2 / 26; the least worth of a GPU-slot is (1/130) / 8.
        let least = 2.0 / 26.0 / 4.0 / 130.0 / 8.0;
        assert!((bounds[0].least / least - 1.0).abs() < 1e-12);
        assert_eq!(bounds[0].most, 1.0 / 20.0);
        let middle = (least * 0.05).sqrt();
        assert!((bounds[1].price(0.5) / middle - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_type_that_nobody_can_use_has_a_price_all_the_same() {
        let all = facts((20.0, 1.0));
        let payer = Payer { facts: &all, age_s: 0.0, gpus: 1.0, usable: &[true, false] };
        let horizon = Horizon { slot_s: 10.0, slots: 5.0 };
        let bounds = bounds(Utility::Inv, horizon, (2, 2.0), 1.0, &[payer]);
        assert!(bounds[1].price(0.5) > bounds[1].least && bounds[1].most.is_finite());
    }
}
