//! Whole schedules that are reserved at admission: the form of Hadar for which a competitive ratio is proved.
//!
//! A schedule is a run of slots on the same devices. Each slot of each node has a price by what is reserved there, and prices
//! of earlier jobs are kept. A job is admitted to the schedule that pays most, if any pays. The ratio is 2α, where α is the
//! logarithm of the largest price over the least; on real traces that is a number like 70, and nothing is claimed by it.
//!
//! A schedule that pays most begins at once, or begins or ends where another one does: in between, what is saved by waiting
//! grows evenly and what is lost by it grows less and less, so the best is at an end.

use crate::model::Resources;

use super::candidates::{Gang, Offer, Terms, find};
use super::prices::Bounds;
use super::stock::{Counts, Spot, Stock, Worker};

/// What is reserved on a node.
#[derive(Clone, Copy, Debug)]
struct Hold {
    from: u64,
    until: u64,
    devices: u32,
    demand: Resources,
}

/// What is reserved, by node and slot.
#[derive(Clone, Debug)]
pub(super) struct Calendar {
    slot_s: f64,
    bounds: Vec<Bounds>,
    spots: Vec<Spot>,
    holds: Vec<Vec<Hold>>,
}

/// A schedule.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    /// The first slot.
    pub from: u64,
    /// The first slot after it.
    pub until: u64,
    /// Where, at what pace, for what gain and at what cost.
    pub offer: Offer,
}

impl Calendar {
    /// Nothing is reserved on these nodes, of which what is free counts as theirs.
    pub(super) fn new(stock: &Stock, bounds: Vec<Bounds>, slot_s: f64) -> Self {
        let spots: Vec<Spot> =
            (0..stock.types()).flat_map(|i| stock.of_type(i)).map(|(_, spot)| *spot).collect();
        let holds = vec![Vec::new(); spots.len()];
        Self { slot_s, bounds, spots, holds }
    }

    /// Reserves devices from one slot until another.
    pub(super) fn reserve(&mut self, (from, until): (u64, u64), counts: &Counts, worker: &Worker) {
        for (at, count) in counts {
            let demand = worker.demand.times(u64::from(*count));
            let hold = Hold { from, until, devices: worker.gpus * count, demand };
            self.holds[*at as usize].push(hold);
        }
    }

    /// What is free during all of these slots, at the price of all of them.
    pub(super) fn window(&self, (from, until): (u64, u64)) -> Stock {
        let mut spots = self.spots.clone();
        let mut prices = Vec::with_capacity(spots.len());
        for (spot, holds) in spots.iter_mut().zip(&self.holds) {
            let there = || holds.iter().filter(|hold| hold.from < until && hold.until > from);
            let edges = there().flat_map(|hold| [hold.from, hold.until]).chain([from, until]);
            let mut edges: Vec<u64> = edges.filter(|edge| (from..=until).contains(edge)).collect();
            edges.sort_unstable();
            edges.dedup();
            let (mut most, mut most_demand, mut price) = (0, Resources::NONE, 0.0);
            for part in edges.windows(2) {
                let over = there().filter(|hold| hold.from <= part[0] && hold.until >= part[1]);
                let (devices, demand) = over.fold((0, Resources::NONE), |(devices, demand), hold| {
                    (devices + hold.devices, demand + hold.demand)
                });
                let used = f64::from(spot.devices - spot.free + devices) / f64::from(spot.devices.max(1));
                price += self.bounds[spot.gpu_type].price(used) * (part[1] - part[0]) as f64;
                most = most.max(devices);
                most_demand = larger(most_demand, demand);
            }
            spot.free = spot.free.saturating_sub(most);
            spot.room =
                if most_demand.fits_in(&spot.room) { spot.room - most_demand } else { Resources::NONE };
            prices.push(price);
        }
        let mut stock = Stock::new(spots, self.bounds.clone());
        stock.charge(&prices);
        stock
    }

    /// The schedule that pays most from a slot on, though it may not pay at all; none if there is no place at any time.
    pub(super) fn best(&self, gang: &Gang, terms: &Terms, now: u64) -> Option<Schedule> {
        self.search(gang, terms, now, true)
    }

    /// The same, perhaps without a look at slots from which on nothing better can come.
    pub(super) fn search(
        &self,
        gang: &Gang,
        terms: &Terms,
        now: u64,
        may_end_early: bool,
    ) -> Option<Schedule> {
        let mut paces: Vec<f64> =
            gang.together.iter().chain(&gang.spread).copied().filter(|p| *p > 0.0).collect();
        paces.sort_by(|a, b| b.total_cmp(a));
        paces.dedup();
        let fastest = paces.first().copied().unwrap_or(1.0);
        let mut edges: Vec<u64> =
            self.holds.iter().flatten().flat_map(|hold| [hold.from, hold.until]).collect();
        edges.sort_unstable();
        edges.dedup();
        let mut best: Option<Schedule> = None;
        for pace in paces {
            let slots = (((gang.restart_s + gang.left / pace) / self.slot_s).ceil() as u64).max(1);
            let mut starts: Vec<u64> = std::iter::once(now)
                .chain(edges.iter().copied())
                .chain(edges.iter().map(|edge| edge.saturating_sub(slots)))
                .filter(|start| *start >= now)
                .collect();
            starts.sort_unstable();
            starts.dedup();
            let at_pace = gang.no_slower_than(pace);
            for from in starts {
                let late = Gang { age_s: gang.age_s + (from - now) as f64 * self.slot_s, ..at_pace.clone() };
                // Whatever begins later is worth less, and nothing is for nothing.
                let most = late.worth(terms.utility, fastest, 0.0);
                if may_end_early && best.as_ref().is_some_and(|best| most <= best.offer.payoff()) {
                    break;
                }
                let offer = find(&late, &self.window((from, from + slots)), terms);
                let Some(offer) = offer else { continue };
                if best.as_ref().is_none_or(|best| offer.payoff() > best.offer.payoff()) {
                    best = Some(Schedule { from, until: from + slots, offer });
                }
            }
        }
        best
    }
}

/// The larger of each amount.
fn larger(a: Resources, b: Resources) -> Resources {
    Resources {
        gpu_milli: a.gpu_milli.max(b.gpu_milli),
        cpu_milli: a.cpu_milli.max(b.cpu_milli),
        memory_bytes: a.memory_bytes.max(b.memory_bytes),
        network_bytes_per_s: a.network_bytes_per_s.max(b.network_bytes_per_s),
    }
}

#[cfg(test)]
mod tests {
    use super::super::checks::{TERMS, gang, idle};
    use super::*;

    const SLOT_S: f64 = 10.0;

    #[test]
    fn a_job_waits_for_cheap_slots_and_never_takes_reserved_ones() {
        let bounds = vec![Bounds::new(0.001, 1.0)];
        let mut calendar = Calendar::new(&idle(&[(0, 2)]), bounds, SLOT_S);
        let job = gang(2, &[1.0], 20.0);
        let first = calendar.best(&job, &TERMS, 3).expect("all is free");
        assert_eq!((first.from, first.until), (3, 5));
        calendar.reserve((first.from, first.until), &first.offer.counts, &job.worker);
        let second = calendar.best(&job, &TERMS, 3).expect("later it is free");
        assert_eq!((second.from, second.until), (5, 7));
        assert!((second.offer.worth - 1.0 / 40.0).abs() < 1e-12, "it waits for two slots");
        let poor = Gang { left: 2e4, ..job };
        let best = calendar.best(&poor, &TERMS, 3).expect("there is a place");
        assert!(best.offer.payoff() < 0.0, "2,000 slots cost more than 1/20000");
    }
}
