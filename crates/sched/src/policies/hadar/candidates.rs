//! Where a gang could go, and which place pays most: FIND_ALLOC of Hadar.
//!
//! A gang goes at the pace of its slowest worker. On several nodes a GPU type is slower by κ, the ratio of the measured speeds
//! spread and together, where that is below one; so the pace there is that of the slowest *spread* type. (Published is the
//! slowest type's κ; where spreading changes the order of types the two differ, and ours is what such a gang would do.)
//!
//! For each pace the cheapest devices that reach it are found: all on one node, or taken node by node, the cheapest first.
//! With a charge for each further node (β) the cheapest devices need not be the best choice any more; then each node is also
//! tried as the first one, which is exact for two nodes.

use crate::model::{NodeId, RackId, Topology};

use super::stock::{Counts, Spot, Stock, Worker};
use super::utility::{Facts, Utility};

/// A gang that mixes types goes at least at this part of the pace of the fastest type in it.
const LEAST_MIXED_PACE: f64 = 0.5;

/// A gang of whole GPUs as the search sees it.
#[derive(Clone, Debug)]
pub(super) struct Gang {
    /// Its workers: all of them or none.
    pub workers: u32,
    /// One of them.
    pub worker: Worker,
    /// Iterations a second of the whole gang by GPU type, all on one node; 0 where it cannot run.
    pub together: Vec<f64>,
    /// The same on several nodes, never more than together.
    pub spread: Vec<f64>,
    /// Iterations that are left.
    pub left: f64,
    /// How long ago it arrived, in seconds.
    pub age_s: f64,
    /// What its worth depends on.
    pub facts: Facts,
    /// What it costs to go on elsewhere, or to start, in seconds.
    pub restart_s: f64,
    /// Where it is now, if it runs and could stay there.
    pub held: Option<Counts>,
    /// Whether its workers may be on several types.
    pub may_mix: bool,
    /// How close they must be.
    pub topology: Topology,
    /// A node that it keeps away from.
    pub shuns: Option<NodeId>,
}

/// How offers are judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Terms {
    /// What jobs are worth.
    pub utility: Utility,
    /// β: what each further node costs, as a part of what the job is worth for each of its GPUs; at most 1.
    pub beta: f64,
    /// Whether a mixed gang must keep half of the pace of its fastest type.
    pub guards_mixing: bool,
}

/// Which kind of place it is; of equals the first is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Where the job is already.
    Stay,
    /// All on one node.
    Consolidated,
    /// On several nodes.
    Spread,
}

/// A place for a gang.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Offer {
    /// How many workers on which nodes.
    pub counts: Counts,
    /// What kind of place.
    pub kind: Kind,
    /// Iterations a second there.
    pub per_s: f64,
    /// What the job is worth if it goes on there.
    pub worth: f64,
    /// What the devices cost for a slot, and the communication.
    pub cost: f64,
}

impl Offer {
    /// What is won.
    pub(super) fn payoff(&self) -> f64 {
        self.worth - self.cost
    }
}

impl Gang {
    /// All its GPUs.
    pub(super) fn gpus(&self) -> f64 {
        f64::from(self.workers) * f64::from(self.worker.gpus)
    }

    /// Its worth at a pace, kept until its end.
    pub(super) fn worth(&self, utility: Utility, per_s: f64, restart_s: f64) -> f64 {
        utility.of(&self.facts, self.age_s + restart_s + self.left / per_s)
    }

    /// The pace on these nodes; 0 where it cannot run.
    pub(super) fn pace(&self, stock: &Stock, counts: &Counts) -> f64 {
        let by_type = if counts.len() > 1 { &self.spread } else { &self.together };
        let each = counts.iter().map(|(at, _)| by_type[stock.spot(*at).gpu_type]);
        let pace = each.fold(f64::INFINITY, f64::min);
        if pace.is_finite() { pace } else { 0.0 }
    }

    /// The best that it could be worth with the whole cluster to itself, staying where it is or not.
    pub(super) fn best_worth(&self, stock: &Stock, utility: Utility) -> f64 {
        let fastest = self.together.iter().copied().fold(0.0, f64::max);
        let fresh = if fastest > 0.0 { self.worth(utility, fastest, self.restart_s) } else { 0.0 };
        let stays = self.held.as_ref().map(|held| self.pace(stock, held)).filter(|pace| *pace > 0.0);
        stays.map_or(fresh, |pace| fresh.max(self.worth(utility, pace, 0.0)))
    }

    /// The same job if it could run on one type only.
    pub(super) fn only_on(&self, gpu_type: usize) -> Self {
        let only = |paces: &[f64]| {
            paces.iter().enumerate().map(|(i, pace)| if i == gpu_type { *pace } else { 0.0 }).collect()
        };
        Self { together: only(&self.together), spread: only(&self.spread), ..self.clone() }
    }

    /// The same job if it had to go at this pace at least.
    pub(super) fn no_slower_than(&self, pace: f64) -> Self {
        let fast = |paces: &[f64]| paces.iter().map(|own| if *own >= pace { *own } else { 0.0 }).collect();
        Self { together: fast(&self.together), spread: fast(&self.spread), ..self.clone() }
    }

    pub(super) fn offer(&self, stock: &Stock, terms: &Terms, counts: Counts, kind: Kind) -> Option<Offer> {
        let per_s = self.pace(stock, &counts);
        if per_s <= 0.0 {
            return None;
        }
        let restart_s = if kind == Kind::Stay { 0.0 } else { self.restart_s };
        let worth = self.worth(terms.utility, per_s, restart_s);
        let devices = |(at, count): &(u32, u32)| {
            stock.spot(*at).price * f64::from(self.worker.gpus) * f64::from(*count)
        };
        let further = counts.len() as f64 - 1.0;
        let talk = terms.beta * further * worth / self.gpus();
        let cost = counts.iter().map(devices).sum::<f64>() + talk;
        Some(Offer { counts, kind, per_s, worth, cost })
    }

    /// Whether new workers may go to a node.
    fn may_go(&self, spot: &Spot) -> bool {
        spot.takes_work && spot.free > 0 && self.shuns != Some(spot.node)
    }
}

/// The offer that pays most, whatever its payoff is; `None` if the gang fits nowhere.
pub(super) fn find(gang: &Gang, stock: &Stock, terms: &Terms) -> Option<Offer> {
    let mut best: Option<Offer> = None;
    let mut consider = |offer: Option<Offer>| {
        let Some(offer) = offer else { return };
        let better = |best: &Offer| {
            let by_payoff = offer.payoff().total_cmp(&best.payoff());
            by_payoff.then(best.kind.cmp(&offer.kind)).is_gt()
        };
        if best.as_ref().is_none_or(better) {
            best = Some(offer);
        }
    };
    let stays = gang.held.as_ref().filter(|held| is_free(gang, stock, held));
    consider(stays.and_then(|held| gang.offer(stock, terms, held.clone(), Kind::Stay)));
    for gpu_type in 0..stock.types() {
        if gang.together[gpu_type] > 0.0 {
            let node = cheapest_node(gang, stock, gpu_type);
            let counts = node.map(|at| std::iter::once((at, gang.workers)).collect());
            consider(counts.and_then(|counts| gang.offer(stock, terms, counts, Kind::Consolidated)));
        }
    }
    if gang.workers > 1 && gang.topology != Topology::SameNode {
        spread(gang, stock, terms, &mut consider);
    }
    best
}

fn is_free(gang: &Gang, stock: &Stock, held: &Counts) -> bool {
    held.iter().all(|(at, count)| stock.spot(*at).slots(&gang.worker, *count) == *count)
}

/// The cheapest node of a type that holds all workers; of equals the one with least left, then the first.
fn cheapest_node(gang: &Gang, stock: &Stock, gpu_type: usize) -> Option<u32> {
    if stock.free(gpu_type) < gang.workers * gang.worker.gpus {
        return None;
    }
    let holds = |spot: &Spot| gang.may_go(spot) && spot.slots(&gang.worker, gang.workers) == gang.workers;
    let mut best: Option<(f64, u32, u32)> = None;
    for (at, spot) in stock.of_type(gpu_type).filter(|(_, spot)| holds(spot)) {
        if best.is_none_or(|(price, free, _)| (spot.price, spot.free) < (price, free)) {
            best = Some((spot.price, spot.free, at));
        }
    }
    best.map(|(_, _, at)| at)
}

/// A node with the workers that it has room for.
#[derive(Clone, Copy)]
struct Room {
    at: u32,
    price: f64,
    slots: u32,
}

/// All that has to be tried on several nodes: for each pace, and within each rack if they must be in one.
fn spread(gang: &Gang, stock: &Stock, terms: &Terms, consider: &mut dyn FnMut(Option<Offer>)) {
    let mut paces: Vec<f64> = gang.spread.iter().copied().filter(|pace| *pace > 0.0).collect();
    paces.sort_by(|a, b| b.total_cmp(a));
    paces.dedup();
    let types_at = |pace: f64| -> Vec<Vec<usize>> {
        let alone = |i: &usize| gang.spread[*i] == pace;
        let fast = |i: &usize| {
            let most = if terms.guards_mixing { pace / LEAST_MIXED_PACE } else { f64::INFINITY };
            (pace..=most).contains(&gang.spread[*i])
        };
        let all = 0..gang.spread.len();
        if gang.may_mix {
            vec![all.filter(fast).collect()]
        } else {
            all.filter(alone).map(|i| vec![i]).collect()
        }
    };
    for types in paces.into_iter().flat_map(types_at) {
        let free: u32 = types.iter().map(|i| stock.free(*i)).sum();
        if free < gang.workers * gang.worker.gpus {
            continue;
        }
        let usable = types.iter().flat_map(|i| stock.of_type(*i)).filter(|(_, spot)| gang.may_go(spot));
        let rooms = usable.map(|(at, spot)| {
            (spot.rack, Room { at, price: spot.price, slots: spot.slots(&gang.worker, gang.workers) })
        });
        let mut rooms: Vec<(RackId, Room)> = rooms.filter(|(_, room)| room.slots > 0).collect();
        if gang.topology == Topology::SameRack {
            rooms.sort_by_key(|(rack, _)| *rack);
            for rack in rooms.chunk_by(|a, b| a.0 == b.0) {
                among(gang, rack.iter().map(|(_, room)| *room).collect(), stock, terms, consider);
            }
        } else {
            among(gang, rooms.into_iter().map(|(_, room)| room).collect(), stock, terms, consider);
        }
    }
}

fn among(
    gang: &Gang,
    mut rooms: Vec<Room>,
    stock: &Stock,
    terms: &Terms,
    consider: &mut dyn FnMut(Option<Offer>),
) {
    let by_price =
        |a: &Room, b: &Room| a.price.total_cmp(&b.price).then(b.slots.cmp(&a.slots)).then(a.at.cmp(&b.at));
    // Each node holds at least one worker, so no more nodes than workers are needed.
    let needed = gang.workers as usize;
    if terms.beta <= 0.0 && rooms.len() > needed {
        rooms.select_nth_unstable_by(needed - 1, by_price);
        rooms.truncate(needed);
    }
    rooms.sort_unstable_by(by_price);
    let is_one_node = rooms.first().is_some_and(|room| room.slots >= gang.workers);
    if !is_one_node {
        let counts = fill(&rooms, gang.workers, None);
        consider(counts.and_then(|counts| gang.offer(stock, terms, counts, Kind::Spread)));
    }
    if terms.beta > 0.0 {
        let mut firsts = rooms.clone();
        firsts.dedup_by(|a, b| (a.price, a.slots) == (b.price, b.slots));
        for first in firsts.iter().filter(|first| first.slots < gang.workers) {
            let counts = fill(&rooms, gang.workers, Some(*first));
            consider(counts.and_then(|counts| gang.offer(stock, terms, counts, Kind::Spread)));
        }
    }
}

/// Workers node by node, the cheapest first; if a first node is given, that one, and then as few as possible.
fn fill(rooms: &[Room], workers: u32, first: Option<Room>) -> Option<Counts> {
    let mut left = workers;
    let mut counts = Counts::new();
    if let Some(first) = first {
        counts.push((first.at, first.slots));
        left -= first.slots;
        let rest = |room: &&Room| room.at != first.at && room.slots >= left;
        if let Some(one) = rooms.iter().find(rest) {
            counts.push((one.at, left));
            left = 0;
        }
    }
    for room in rooms {
        if left == 0 {
            break;
        }
        if counts.iter().any(|(at, _)| *at == room.at) {
            continue;
        }
        // The last node is the fullest of equally dear ones that holds what is left.
        let alike = rooms.iter().filter(|other| other.price == room.price && other.slots >= left);
        let unused = alike.filter(|other| !counts.iter().any(|(at, _)| *at == other.at));
        let last = unused.min_by_key(|other| (other.slots, other.at));
        let (at, count) = last.map_or((room.at, room.slots), |last| (last.at, left));
        counts.push((at, count));
        left -= count;
    }
    counts.sort_unstable();
    (left == 0).then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::super::checks::{TERMS, gang, idle};
    use super::*;

    #[test]
    fn a_gang_does_not_waste_a_fast_type_on_the_pace_of_a_slow_one() {
        let stock = idle(&[(0, 1), (1, 1)]);
        let slow = gang(2, &[10.0, 4.0], 100.0);
        assert_eq!(find(&slow, &stock, &TERMS), None);
        let anyhow = find(&slow, &stock, &Terms { guards_mixing: false, ..TERMS }).expect("it fits");
        assert_eq!((anyhow.per_s, anyhow.counts.len()), (4.0, 2));
        let fair = gang(2, &[10.0, 5.0], 100.0);
        assert_eq!(find(&fair, &stock, &TERMS).expect("half the pace is enough").per_s, 5.0);
        let pure = Gang { may_mix: false, ..fair };
        assert_eq!(find(&pure, &stock, &TERMS), None);
    }

    #[test]
    fn of_equal_places_a_job_stays_then_keeps_together() {
        let stock = idle(&[(0, 2), (0, 2)]);
        let held = Gang { held: Some([(0, 1), (1, 1)].into_iter().collect()), ..gang(2, &[1.0], 10.0) };
        let offer = find(&held, &stock, &TERMS).expect("it fits");
        assert_eq!(offer.kind, Kind::Stay, "the same pace, and no more to pay");
        let away = find(&gang(2, &[1.0], 10.0), &stock, &TERMS).expect("it fits");
        assert_eq!((away.kind, &away.counts[..]), (Kind::Consolidated, &[(0, 2)][..]));
        let shy = Gang { shuns: Some(NodeId(0)), ..gang(2, &[1.0], 10.0) };
        assert_eq!(find(&shy, &stock, &TERMS).expect("it fits").counts[..], [(1, 2)]);
    }

    #[test]
    fn spreading_costs_pace_and_is_taken_where_waiting_would_cost_more() {
        let mut gang = gang(4, &[8.0, 1.0], 80.0);
        gang.spread = vec![3.0, 1.0];
        let stock = idle(&[(0, 2), (0, 2), (1, 4)]);
        let offer = find(&gang, &stock, &TERMS).expect("it fits");
        assert_eq!((offer.kind, offer.per_s), (Kind::Spread, 3.0));
        gang.topology = Topology::SameNode;
        let offer = find(&gang, &stock, &TERMS).expect("it fits");
        assert_eq!((offer.kind, offer.per_s, &offer.counts[..]), (Kind::Consolidated, 1.0, &[(2, 4)][..]));
    }
}
