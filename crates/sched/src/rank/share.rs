//! Who has least of what is theirs: shares by owner, kept in order.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Resources, Weight};

/// What each owner holds, ordered by its share of the total divided by its weight.
///
/// `O` is whoever shares: tenants, or jobs. An owner with weight 0 comes after all others.
#[derive(Clone, Debug)]
pub struct Shares<O> {
    total: Resources,
    measure: fn(&Resources, &Resources) -> f64,
    held: BTreeMap<O, (Resources, Weight)>,
    order: BTreeSet<(Ordered, O)>,
}

/// A share that can be ordered: weight class first, then the share.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ordered {
    idle_only: bool,
    share: f64,
}

impl Eq for Ordered {}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.idle_only.cmp(&other.idle_only).then(self.share.total_cmp(&other.share))
    }
}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<O: Ord + Copy> Shares<O> {
    /// Nobody holds anything. `measure` says what fraction an amount is of the total.
    pub fn new(total: Resources, measure: fn(&Resources, &Resources) -> f64) -> Self {
        Self { total, measure, held: BTreeMap::new(), order: BTreeSet::new() }
    }

    fn ordered(&self, held: &Resources, weight: Weight) -> Ordered {
        let share = (self.measure)(held, &self.total);
        if weight.0 > 0.0 {
            Ordered { idle_only: false, share: share / weight.0 }
        } else {
            Ordered { idle_only: true, share }
        }
    }

    /// Lets an owner take part, or changes its weight.
    pub fn enter(&mut self, owner: O, weight: Weight) {
        let held = self.held(owner);
        self.put(owner, held, weight);
    }

    /// Takes an owner out.
    pub fn leave(&mut self, owner: O) {
        if let Some((held, weight)) = self.held.remove(&owner) {
            self.order.remove(&(self.ordered(&held, weight), owner));
        }
    }

    fn put(&mut self, owner: O, held: Resources, weight: Weight) {
        self.leave(owner);
        self.order.insert((self.ordered(&held, weight), owner));
        self.held.insert(owner, (held, weight));
    }

    /// An owner that takes part gets more.
    pub fn add(&mut self, owner: O, amount: Resources) {
        let (held, weight) = self.held.get(&owner).copied().unwrap_or((Resources::NONE, Weight(1.0)));
        self.put(owner, held + amount, weight);
    }

    /// An owner gives something back.
    pub fn subtract(&mut self, owner: O, amount: Resources) {
        let (held, weight) = self.held.get(&owner).copied().unwrap_or((Resources::NONE, Weight(1.0)));
        self.put(owner, held - amount, weight);
    }

    /// What an owner holds.
    pub fn held(&self, owner: O) -> Resources {
        self.held.get(&owner).map_or(Resources::NONE, |(held, _)| *held)
    }

    /// An owner's share per weight.
    pub fn share(&self, owner: O) -> f64 {
        self.held.get(&owner).map_or(0.0, |(held, weight)| self.ordered(held, *weight).share)
    }

    /// Owners from the least share to the largest; ties by owner.
    pub fn ascending(&self) -> impl DoubleEndedIterator<Item = O> + '_ {
        self.order.iter().map(|(_, owner)| *owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_share_per_weight_comes_first_and_weight_zero_last() {
        let mut shares = Shares::new(Resources::gpus(10), Resources::dominant_share);
        shares.enter(1, Weight(1.0));
        shares.enter(2, Weight(2.0));
        shares.enter(3, Weight(0.0));
        shares.add(1, Resources::gpus(3));
        shares.add(2, Resources::gpus(4));
        assert_eq!(shares.ascending().collect::<Vec<_>>(), [2, 1, 3]);
        assert!((shares.share(2) - 0.2).abs() < 1e-12);
        shares.subtract(1, Resources::gpus(2));
        assert_eq!(shares.ascending().next(), Some(1));
    }
}
