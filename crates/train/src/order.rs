//! In which order a pass goes through rows, and through which.
//!
//! One that trains alone goes through all rows, in a new order each time. Of several copies each may be told a part of the rows that is
//! its own until all are brought together, in proportion to what it may do: all of them draw the same order of all rows, by the seed and
//! the iteration from which they go on, and each takes its part of that. A pass is as long as ever; it goes through
//! the part again and again, each time in a new order.

use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

use crate::copy::Part;

/// Stands for all copies where they draw the same.
const ALL: u32 = u32::MAX;

/// What the orders of all passes follow from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Orders {
    pub(crate) rows: usize,
    pub(crate) seed: u64,
    /// Which of several copies it is; each draws orders of its own.
    pub(crate) copy: u32,
    /// The part of the rows that is its own, if it was told one.
    pub(crate) part: Option<Part>,
}

impl Orders {
    pub(crate) const fn new(rows: usize, seed: u64) -> Self {
        Self { rows, seed, copy: 0, part: None }
    }

    /// The rows of a pass.
    pub(crate) fn of(&self, pass: u64) -> Vec<u32> {
        let mut dice = self.dice(self.copy, pass);
        let mut own = self.own();
        let mut order = Vec::with_capacity(self.rows);
        while order.len() < self.rows {
            own.shuffle(&mut dice);
            order.extend_from_slice(&own[..own.len().min(self.rows - order.len())]);
        }
        order
    }

    /// The rows that are its own. Where its part is less than one it may have all, rather than none.
    fn own(&self) -> Vec<u32> {
        let mut all: Vec<u32> = (0..self.rows as u32).collect();
        let Some(part) = self.part else { return all };
        let at = |part: f64| (part.clamp(0.0, 1.0) * self.rows as f64).round() as usize;
        let (from, to) = (at(part.from), at(part.to));
        if from >= to {
            return all;
        }
        all.shuffle(&mut self.dice(ALL, part.since));
        all[from..to].to_vec()
    }

    fn dice(&self, copy: u32, number: u64) -> Pcg64 {
        Pcg64::new(u128::from(self.seed) | u128::from(copy) << 64, 2 * u128::from(number) + 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn sorted(mut rows: Vec<u32>) -> Vec<u32> {
        rows.sort_unstable();
        rows
    }

    #[test]
    fn one_alone_goes_through_all_rows_in_new_orders() {
        let orders = Orders::new(50, 3);
        assert_eq!(sorted(orders.of(0)), (0..50).collect::<Vec<_>>());
        assert_ne!(orders.of(0), orders.of(1));
        assert_ne!(orders.of(0), Orders { copy: 1, ..orders }.of(0));
        assert_eq!(orders.of(7), orders.of(7));
    }

    #[test]
    fn parts_share_out_all_rows_anew_from_merge_to_merge() {
        let ends = [0.0, 0.5, 0.83, 1.0];
        let parts = |since: u64| -> Vec<Vec<u32>> {
            let part = |copy: usize| Part { from: ends[copy], to: ends[copy + 1], since };
            let of =
                |copy: usize| Orders { copy: copy as u32, part: Some(part(copy)), ..Orders::new(100, 3) };
            (0..3).map(|copy| of(copy).of(4)).collect()
        };
        let distinct = |rows: &Vec<u32>| rows.iter().copied().collect::<BTreeSet<u32>>();
        let (first, second) = (parts(0), parts(10));
        for rows in [&first, &second] {
            assert!(rows.iter().all(|rows| rows.len() == 100), "a pass is as long as ever");
            let own: Vec<BTreeSet<u32>> = rows.iter().map(distinct).collect();
            assert_eq!(own.iter().map(BTreeSet::len).collect::<Vec<_>>(), [50, 33, 17]);
            assert_eq!(own.iter().flatten().collect::<BTreeSet<_>>().len(), 100, "no row is in two parts");
        }
        assert_ne!(distinct(&first[0]), distinct(&second[0]), "they are drawn anew");
        // Each of its rows comes as often as each other, as far as that is possible.
        let times = |row: u32| first[2].iter().filter(|other| **other == row).count();
        assert!(distinct(&first[2]).into_iter().all(|row| (5..=6).contains(&times(row))));
    }

    #[test]
    fn a_part_of_less_than_a_row_is_none() {
        let part = Part { from: 0.301, to: 0.302, since: 0 };
        assert_eq!(
            sorted(Orders { part: Some(part), ..Orders::new(20, 3) }.of(0)),
            (0..20).collect::<Vec<_>>()
        );
    }
}
