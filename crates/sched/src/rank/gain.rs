//! One more unit to whoever gains most by it, again and again: the greedy of SLAQ (SoCC 2017, section 4) and of Optimus
//! (EuroSys 2018, section 4.1).
//!
//! Where no candidate gains more by a later unit than by an earlier one, and all units are alike, the greedy reaches the
//! greatest sum of gains that there is. Cost: one gain for each unit given, and a heap of the candidates.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// What became of a unit that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// The candidate has it.
    Taken,
    /// There is no room for this candidate; it is asked no more.
    NoRoom,
    /// There is nothing left for anybody.
    Exhausted,
}

/// Gives units one by one to the candidates `0..candidates` of `state`, each to the one that gains most by its next unit,
/// until nobody wants or can have another. Of equal gains the lower number goes first.
///
/// `gain` is what a candidate gains by its next unit as things stand; `None` or a NaN means that it wants no more, and so
/// does a gain that is not above `least`. It may depend on nothing but what the candidate itself was given. `give` gives
/// the unit, or says that it cannot.
pub fn hand_out<S>(
    state: &mut S,
    candidates: usize,
    least: f64,
    gain: impl Fn(&S, usize) -> Option<f64>,
    mut give: impl FnMut(&mut S, usize) -> Offer,
) {
    let wanted = |state: &S, i: usize| gain(state, i).filter(|gain| *gain > least).map(ordered);
    let first = (0..candidates).filter_map(|i| Some((wanted(state, i)?, Reverse(i))));
    let mut heap: BinaryHeap<(u64, Reverse<usize>)> = first.collect();
    while let Some(mut best) = heap.peek_mut() {
        let Reverse(i) = best.1;
        let next = match give(state, i) {
            Offer::Taken => wanted(state, i),
            Offer::NoRoom => None,
            Offer::Exhausted => return,
        };
        match next {
            Some(next) => best.0 = next,
            None => drop(PeekMut::pop(best)),
        }
    }
}

/// Bits that compare as the numbers do; -0 and 0 are the same number.
pub fn ordered(number: f64) -> u64 {
    let bits = (number + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Gives `free` units by a table of gains: `gains[i][n]` is what candidate `i` gains by unit `n`.
    fn by_table(gains: &[Vec<f64>], free: u32, least: f64) -> Vec<u32> {
        let mut state = (vec![0; gains.len()], free);
        let gain = |state: &(Vec<u32>, u32), i: usize| gains[i].get(state.0[i] as usize).copied();
        hand_out(&mut state, gains.len(), least, gain, |(units, free), i| {
            if *free == 0 {
                return Offer::Exhausted;
            }
            units[i] += 1;
            *free -= 1;
            Offer::Taken
        });
        state.0
    }

    /// The greatest sum of gains over all ways to give at most `free` units to candidates from `i` on.
    fn optimum(gains: &[Vec<f64>], free: u32) -> f64 {
        let Some((first, rest)) = gains.split_first() else { return 0.0 };
        let most = first.len().min(free as usize);
        let of = |units: usize| first[..units].iter().sum::<f64>() + optimum(rest, free - units as u32);
        (0..=most).map(of).fold(f64::NEG_INFINITY, f64::max)
    }

    fn worth(gains: &[Vec<f64>], units: &[u32]) -> f64 {
        gains.iter().zip(units).map(|(gains, units)| gains[..*units as usize].iter().sum::<f64>()).sum()
    }

    proptest! {
        /// S-8 of the specification: up to 4 jobs, up to 12 cores, concave gains.
        #[test]
        fn with_falling_gains_the_greedy_is_the_optimum(
            mut gains in prop::collection::vec(prop::collection::vec(0.0..1.0, 0..13), 1..5),
            free in 0u32..13,
        ) {
            gains.iter_mut().for_each(|of_one: &mut Vec<f64>| of_one.sort_by(|a, b| b.total_cmp(a)));
            let units = by_table(&gains, free, 0.0);
            prop_assert!(units.iter().sum::<u32>() <= free);
            let (ours, best) = (worth(&gains, &units), optimum(&gains, free));
            prop_assert!((ours - best).abs() <= 1e-12, "{ours} is not {best}: {units:?}");
        }
    }

    #[test]
    fn ties_go_to_the_lower_number_and_what_is_not_a_gain_to_nobody() {
        assert_eq!(by_table(&[vec![1.0; 9], vec![1.0; 9]], 1, 0.0), [1, 0]);
        assert_eq!(
            by_table(&[vec![0.0; 9], vec![-0.0, 2.0], vec![f64::NAN; 9], vec![0.1]], 8, 0.0),
            [0, 0, 0, 1]
        );
        // Without a least gain all is given away, losses last.
        assert_eq!(by_table(&[vec![-1.0; 9], vec![-2.0; 9], vec![3.0]], 3, f64::NEG_INFINITY), [2, 0, 1]);
    }

    #[test]
    fn who_finds_no_room_is_asked_no_more_and_the_others_are() {
        let mut given = Vec::new();
        let gain = |given: &Vec<usize>, i: usize| Some(if given.len() > 6 { 0.0 } else { 3.0 - i as f64 });
        hand_out(&mut given, 3, 0.0, gain, |given, i| {
            if i == 0 {
                return Offer::NoRoom;
            }
            given.push(i);
            if given.len() == 5 { Offer::Exhausted } else { Offer::Taken }
        });
        assert_eq!(given, [1; 5]);
    }

    #[test]
    fn bits_are_ordered_as_numbers() {
        let numbers = [f64::NEG_INFINITY, -2.0, -1e-300, 0.0, 1e-300, 1.0, f64::INFINITY];
        assert!(numbers.map(ordered).is_sorted());
        assert_eq!(ordered(-0.0), ordered(0.0));
    }
}
