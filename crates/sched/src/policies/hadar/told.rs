//! The prices of a round, as Hadar writes them down in the note of the run: three numbers for each GPU type. Under admission the
//! bounds among them are read again, and only ever widen; otherwise they are for whoever wants to see how prices went.

use crate::view::Note;

use super::stock::Stock;

/// Prices of a GPU of one type in a round, in utility for a GPU and slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// At a node of which nothing is given away.
    pub least: f64,
    /// At a node of which all is given away.
    pub most: f64,
    /// The mean over the nodes once everything was given away, each GPU counting once.
    pub after: f64,
}

/// The prices that a note of Hadar tells, by GPU type; none if it is the note of another policy.
pub fn told(note: &Note) -> Vec<Price> {
    if !note.0.len().is_multiple_of(3) {
        return Vec::new();
    }
    let number = |bits: i64| f64::from_bits(bits as u64);
    let price =
        |bits: &[i64]| Price { least: number(bits[0]), most: number(bits[1]), after: number(bits[2]) };
    note.0.chunks_exact(3).map(price).collect()
}

/// The note that tells the prices of what is left now.
pub(super) fn tell(stock: &Stock) -> Note {
    let of_type = |(i, bounds): (usize, &super::prices::Bounds)| {
        let (mut sum, mut gpus) = (0.0, 0.0);
        for (_, spot) in stock.of_type(i) {
            sum += spot.price * f64::from(spot.devices);
            gpus += f64::from(spot.devices);
        }
        // A type without nodes is not given away.
        [bounds.least, bounds.most, if gpus > 0.0 { sum / gpus } else { bounds.least }]
    };
    Note(stock.bounds().iter().enumerate().flat_map(of_type).map(|price| price.to_bits() as i64).collect())
}

#[cfg(test)]
mod tests {
    use super::super::checks::{idle, worker};
    use super::*;

    #[test]
    fn prices_are_told_as_they_are() {
        let mut stock = idle(&[(0, 4), (0, 2), (1, 2)]);
        stock.take(&[(0, 2)].into_iter().collect(), &worker(1));
        let found = told(&tell(&stock));
        // Half of the first node: 10 for each of four GPUs, and 1 for each of two.
        assert!((found[0].after - 42.0 / 6.0).abs() < 1e-9, "{found:?}");
        assert_eq!((found[0].least, found[0].most), (1.0, 100.0));
        assert_eq!(found[1], Price { least: 1.0, most: 100.0, after: 1.0 });
        assert_eq!(told(&Note::default()), []);
        assert_eq!(told(&Note([7, 8].into_iter().collect())), []);
    }
}
