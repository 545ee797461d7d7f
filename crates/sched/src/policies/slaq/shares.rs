//! How many workers each job gets: the greedy of SLAQ (SoCC 2017, section 4; specification A2.5), with a floor, fair
//! shares for those whom nobody can predict, and a price on changes that cost something. Plain values only; where workers
//! go is another matter.

use crate::model::Resources;
use crate::rank::{Offer, hand_out};

use super::worth::{Course, Worth};

/// Kinds of room that do not stand in for each other: nodes without GPUs first, then those of each GPU type.
#[derive(Clone, Debug, Default)]
pub(super) struct Pools(pub(super) Vec<Resources>);

/// Which pools the workers of a job may be in: one bit each.
pub(super) type PoolSet = u128;

impl Pools {
    fn in_set(set: PoolSet) -> impl Iterator<Item = usize> {
        let mut left = set;
        std::iter::from_fn(move || {
            let pool = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(pool)
        })
    }

    /// Takes room for one worker; says where.
    fn take(&mut self, set: PoolSet, worker: Resources) -> Option<usize> {
        let pool = Self::in_set(set).find(|pool| worker.fits_in(&self.0[*pool]))?;
        self.0[pool] -= worker;
        Some(pool)
    }

    fn slots(&self, set: PoolSet, worker: Resources) -> u64 {
        let limit = u64::from(u32::MAX);
        Self::in_set(set).map(|pool| worker.times_in(&self.0[pool], limit)).sum()
    }
}

/// A job that can have more or fewer workers.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// What it has in any case. Pools do not hold this.
    pub(super) least: u32,
    /// More are of no use to it.
    pub(super) most: u32,
    /// What one worker takes.
    pub(super) worker: Resources,
    pub(super) pools: PoolSet,
    pub(super) worth: Worth,
    /// Whether it may have at most so many times the fair share by its gain: it is new.
    pub(super) cap: Option<f64>,
    /// What changing it costs, if it does.
    pub(super) change: Option<ChangeCost>,
}

/// What changing the size of a job costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChangeCost {
    /// The workers that it has.
    pub(super) held: u32,
    /// The part of what it would gain in an epoch that the change takes away.
    pub(super) part: f64,
    /// Whether it was changed too short a time ago.
    pub(super) is_recent: bool,
}

/// How workers were divided.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    /// Workers of each claim.
    pub(super) units: Vec<u32>,
    /// The least gain for which a worker was given, by pool; 0 where something was left.
    pub(super) price: Vec<f64>,
    /// The two claims that would gain most by one more worker, by pool; `usize::MAX` is nobody.
    rivals: Vec<[(usize, f64); 2]>,
}

impl Shares {
    /// The lowest price in a set of pools.
    pub(super) fn price_in(&self, set: PoolSet) -> f64 {
        Pools::in_set(set).map(|pool| self.price[pool]).fold(f64::INFINITY, f64::min)
    }

    /// What a worker would bring to somebody else than this claim.
    fn worth_to_others(&self, claim: usize, set: PoolSet) -> f64 {
        let best = |pool: usize| {
            let other = self.rivals[pool].iter().find(|(rival, _)| *rival != claim);
            other.map_or(0.0, |(_, gain)| *gain)
        };
        Pools::in_set(set).map(best).fold(f64::INFINITY, f64::min)
    }
}

/// Divides what is in the pools. A part `floor` of the fair share goes to everybody.
pub(super) fn divide(claims: &[Claim], pools: &Pools, floor: f64) -> Shares {
    let free = Division::new(claims, pools, floor).run(&vec![None; claims.len()]);
    let mut kept: Vec<Option<u32>> = claims
        .iter()
        .enumerate()
        .map(|(i, claim)| kept(claim, free.units[i], free.worth_to_others(i, claim.pools)))
        .collect();
    if kept.iter().all(Option::is_none) {
        return free;
    }
    // Those who would have had what they hold must not be changed by what others keep.
    for ((kept, claim), units) in kept.iter_mut().zip(claims).zip(&free.units) {
        *kept = kept.or(claim.change.map(|change| change.held).filter(|held| held == units));
    }
    Division::new(claims, pools, floor).run(&kept)
}

/// The size that a claim keeps because changing it would not pay: with a worker priced at what it would bring to others, the
/// change must bring more than it costs. Where nothing can be said of gains, more workers are taken for a gain.
fn kept(claim: &Claim, units: u32, price: f64) -> Option<u32> {
    let change = claim.change.filter(|change| change.held != units)?;
    if claim.worth.course == Course::Unpredictable {
        return change.is_recent.then_some(change.held.clamp(claim.least, claim.most));
    }
    let net = |workers: u32| claim.worth.value(workers) - price * f64::from(workers);
    let pays = net(units) - net(change.held) > change.part * claim.worth.value(units);
    (change.is_recent || !pays).then_some(change.held.clamp(claim.least, claim.most))
}

/// A division on its way.
struct Division<'a> {
    claims: &'a [Claim],
    pools: Pools,
    /// Workers that everybody gets before gains are looked at.
    floors: Vec<u32>,
    /// Workers that nobody gets more of by gain.
    caps: Vec<u32>,
    units: Vec<u32>,
    /// What claims are worth with what they have, and with one more.
    worth: Vec<(f64, f64)>,
    price: Vec<f64>,
}

impl<'a> Division<'a> {
    fn new(claims: &'a [Claim], pools: &Pools, floor: f64) -> Self {
        let fair = fair_shares(claims, pools);
        let part = |part: f64, i: usize| (part * fair[i]) as u32;
        let floors = claims.iter().enumerate().map(|(i, claim)| match claim.worth.course {
            Course::Unpredictable => part(1.0, i),
            _ => part(floor, i),
        });
        let caps = claims.iter().enumerate().map(|(i, claim)| {
            claim.cap.map_or(claim.most, |cap| part(cap, i).clamp(claim.least, claim.most))
        });
        Self {
            pools: pools.clone(),
            floors: floors.collect(),
            caps: caps.collect(),
            units: claims.iter().map(|claim| claim.least).collect(),
            worth: Vec::new(),
            price: vec![f64::INFINITY; pools.0.len()],
            claims,
        }
    }

    /// Those who keep what they have get it first, then everybody the floor, then the greedy goes on, and what nobody
    /// gains by is divided equally.
    fn run(mut self, kept: &[Option<u32>]) -> Shares {
        let claims = self.claims;
        for (i, kept) in kept.iter().enumerate() {
            if let Some(kept) = *kept {
                while self.units[i] < kept && self.give(i).is_some() {}
            }
        }
        let open = |i: usize| kept[i].is_none();
        let below_floor = |this: &Self, i: usize| {
            let (units, floor) = (f64::from(this.units[i]), f64::from(this.floors[i].min(claims[i].most)));
            (open(i) && units < floor).then(|| 1.0 - units / floor)
        };
        hand_out(&mut self, claims.len(), 0.0, below_floor, |this, i| offer(this.give(i)));
        self.worth = (0..claims.len()).map(|i| self.look_ahead(i)).collect();
        let gain = |this: &Self, i: usize| {
            let (now, next) = this.worth[i];
            (open(i) && this.units[i] < this.caps[i]).then_some(next - now)
        };
        hand_out(&mut self, claims.len(), 0.0, gain, |this, i| {
            let (now, next) = this.worth[i];
            let Some(pool) = this.give(i) else { return Offer::NoRoom };
            this.price[pool] = this.price[pool].min(next - now);
            this.worth[i] = (next, this.value(i, 1));
            Offer::Taken
        });
        let rivals = self.rivals();
        let fewest = |this: &Self, i: usize| {
            (open(i) && this.units[i] < claims[i].most).then(|| -f64::from(this.units[i]))
        };
        hand_out(&mut self, claims.len(), f64::NEG_INFINITY, fewest, |this, i| {
            let Some(pool) = this.give(i) else { return Offer::NoRoom };
            this.price[pool] = 0.0;
            Offer::Taken
        });
        let price = self.price.iter().map(|price| if price.is_finite() { *price } else { 0.0 }).collect();
        Shares { rivals, units: self.units, price }
    }

    /// Who would gain most by one more worker.
    fn rivals(&self) -> Vec<[(usize, f64); 2]> {
        let mut rivals = vec![[(usize::MAX, 0.0); 2]; self.pools.0.len()];
        for (i, claim) in self.claims.iter().enumerate() {
            let gain = self.worth[i].1 - self.worth[i].0;
            if self.units[i] >= self.caps[i] || gain <= 0.0 {
                continue;
            }
            for pool in Pools::in_set(claim.pools) {
                let [first, second] = &mut rivals[pool];
                if gain > first.1 {
                    (*second, *first) = (*first, (i, gain));
                } else if gain > second.1 {
                    *second = (i, gain);
                }
            }
        }
        rivals
    }

    fn value(&self, i: usize, more: u32) -> f64 {
        self.claims[i].worth.value(self.units[i].saturating_add(more))
    }

    fn look_ahead(&self, i: usize) -> (f64, f64) {
        (self.value(i, 0), self.value(i, 1))
    }

    fn give(&mut self, i: usize) -> Option<usize> {
        let claim = &self.claims[i];
        let pool = self.pools.take(claim.pools, claim.worker)?;
        self.units[i] += 1;
        Some(pool)
    }
}

fn offer(pool: Option<usize>) -> Offer {
    pool.map_or(Offer::NoRoom, |_| Offer::Taken)
}

/// What each claim would have if all had the same.
fn fair_shares(claims: &[Claim], pools: &Pools) -> Vec<f64> {
    let mut all = pools.clone();
    let mut counts = vec![0_u32; pools.0.len()];
    for claim in claims {
        if let Some(first) = Pools::in_set(claim.pools).next() {
            all.0[first] += claim.worker.times(u64::from(claim.least));
            counts[first] += 1;
        }
    }
    let fair = |claim: &Claim| {
        let rivals: u32 = Pools::in_set(claim.pools).map(|pool| counts[pool]).sum();
        all.slots(claim.pools, claim.worker) as f64 / f64::from(rivals.max(1))
    };
    claims.iter().map(fair).collect()
}
