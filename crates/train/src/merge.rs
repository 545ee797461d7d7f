//! Sums over shards along a fixed tree, so that rounding depends neither on who summed which shard nor on who came first.
//!
//! Shards are the leaves of a binary tree: two neighbours of one level are added as soon as both are there, and what is left over at
//! the right edge is added from the right. A [`Piece`] is the sum of a whole subtree. Whoever holds some shards in succession makes
//! the fewest pieces of them, which another one can merge with those of others to the same bits.

use std::collections::BTreeMap;
use std::ops::Range;

/// The sum of the shards from `first` on, `2^level` of them; `first` is a multiple of that.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Piece {
    pub(crate) first: usize,
    pub(crate) level: u32,
    pub(crate) values: Vec<f64>,
}

/// A piece that cannot be one of this sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("shards from {first} on at level {level} are no free place among {count} shards")]
pub(crate) struct NoPlace {
    first: usize,
    level: u32,
    count: usize,
}

/// A sum on its way.
#[derive(Clone, Debug)]
pub struct Merge {
    /// How many shards there are.
    count: usize,
    covered: usize,
    /// By first shard.
    pieces: BTreeMap<usize, (u32, Vec<f64>)>,
}

impl Merge {
    pub(crate) fn of(count: usize) -> Self {
        Self { count, covered: 0, pieces: BTreeMap::new() }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Adds a piece to those that are there.
    pub(crate) fn insert(&mut self, piece: Piece) -> Result<(), NoPlace> {
        let Piece { mut first, mut level, mut values } = piece;
        let no_place = NoPlace { first, level, count: self.count };
        let end = size(level).and_then(|size| first.checked_add(size)).filter(|end| *end <= self.count);
        let end = end.filter(|end| first.is_multiple_of(end - first)).ok_or(no_place)?;
        let before = self.pieces.range(..end).next_back();
        if before.is_some_and(|(begin, (level, _))| begin + (1 << level) > first) {
            return Err(no_place);
        }
        self.covered += end - first;
        loop {
            let other = first ^ (1 << level);
            match self.pieces.get(&other) {
                Some((same, _)) if *same == level => {
                    let (_, others) = self.pieces.remove(&other).expect("it was just seen");
                    values.iter_mut().zip(&others).for_each(|(value, other)| *value += other);
                    (first, level) = (first.min(other), level + 1);
                }
                _ => break,
            }
        }
        self.pieces.insert(first, (level, values));
        Ok(())
    }

    /// Whether all shards are in.
    pub(crate) fn is_whole(&self) -> bool {
        self.covered == self.count
    }

    /// What was merged so far, in the order of the shards.
    pub(crate) fn into_pieces(self) -> Vec<Piece> {
        let piece = |(first, (level, values))| Piece { first, level, values };
        self.pieces.into_iter().map(piece).collect()
    }

    /// The sum of all shards, which must be in.
    pub(crate) fn total(self) -> Vec<f64> {
        assert!(self.is_whole(), "a sum is asked for when all shards are in");
        let mut pieces = self.pieces.into_values().rev().map(|(_, values)| values);
        let mut total = pieces.next().unwrap_or_default();
        for piece in pieces {
            total.iter_mut().zip(&piece).for_each(|(total, value)| *total += value);
        }
        total
    }
}

/// How many shards a piece of a level has.
fn size(level: u32) -> Option<usize> {
    1_usize.checked_shl(level)
}

/// First shard and level of the fewest pieces that some shards in succession make.
pub(crate) fn cut(shards: Range<usize>) -> Vec<(usize, u32)> {
    let mut cut = Vec::new();
    let mut first = shards.start;
    while first < shards.end {
        let aligned = if first == 0 { u32::MAX } else { first.trailing_zeros() };
        let level = aligned.min((shards.end - first).ilog2());
        cut.push((first, level));
        first += 1 << level;
    }
    cut
}

/// The shards of one of several members, who share them as evenly as they can.
pub(crate) fn share(shards: usize, member: usize, members: usize) -> Range<usize> {
    let at = |member: usize| member * shards / members.max(1);
    at(member)..at(member + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(shard: usize) -> Piece {
        Piece { first: shard, level: 0, values: vec![1.0 / (shard as f64 + 0.3), 0.1 * shard as f64] }
    }

    fn bits(values: &[f64]) -> Vec<u64> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    /// The tree as it is defined, from above: the left part of a node is the largest power of two that leaves something.
    fn by_definition(shards: Range<usize>) -> Vec<f64> {
        if shards.len() == 1 {
            return leaf(shards.start).values;
        }
        let half = shards.start + shards.len().next_power_of_two() / 2;
        let (left, right) = (by_definition(shards.start..half), by_definition(half..shards.end));
        left.iter().zip(&right).map(|(a, b)| a + b).collect()
    }

    #[test]
    fn any_order_and_any_division_among_members_give_the_bits_of_the_tree() {
        for count in [1, 2, 3, 5, 16, 21, 63, 64] {
            let wanted = bits(&by_definition(0..count));
            for stride in [1, 3, 5, 7, 11] {
                let mut merge = Merge::of(count);
                for offset in 0..stride {
                    for shard in (offset..count).step_by(stride).rev() {
                        merge.insert(leaf(shard)).unwrap();
                    }
                }
                assert_eq!(bits(&merge.total()), wanted, "{count} by {stride}");
            }
            for members in 1..9 {
                let mut merge = Merge::of(count);
                for member in (0..members).rev() {
                    let shards = share(count, member, members);
                    let mut own = Merge::of(count);
                    shards.clone().for_each(|shard| own.insert(leaf(shard)).unwrap());
                    let pieces = own.into_pieces();
                    let told: Vec<_> = pieces.iter().map(|piece| (piece.first, piece.level)).collect();
                    assert_eq!(told, cut(shards));
                    assert!(pieces.len() <= 12);
                    pieces.into_iter().for_each(|piece| merge.insert(piece).unwrap());
                }
                assert_eq!(bits(&merge.total()), wanted, "{count} among {members}");
            }
        }
        let in_a_row = (1..63).map(leaf).fold(leaf(0).values[0], |sum, leaf| sum + leaf.values[0]);
        assert_ne!(by_definition(0..63)[0].to_bits(), in_a_row.to_bits(), "the order is seen in the bits");
    }

    #[test]
    fn a_piece_that_overlaps_or_does_not_fit_is_refused() {
        let mut merge = Merge::of(21);
        let piece = |first, level| Piece { first, level, values: vec![1.0, 1.0] };
        merge.insert(piece(4, 2)).unwrap();
        let wrong = [(4, 0), (6, 1), (0, 3), (7, 0), (1, 1), (20, 1), (16, 3), (21, 0), (0, 64), (0, 63)];
        for (first, level) in wrong.into_iter().chain([(usize::MAX, 0), (usize::MAX - 1, 1), (0, u32::MAX)]) {
            assert!(merge.insert(piece(first, level)).is_err(), "{first} at {level}");
        }
        assert!(!merge.is_whole());
        for (first, level) in [(20, 0), (0, 2), (8, 3), (16, 2)] {
            merge.insert(piece(first, level)).unwrap();
        }
        assert!(merge.is_whole());
        assert_eq!(merge.total(), [5.0, 5.0]);
    }
}
