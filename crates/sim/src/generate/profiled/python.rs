//! Random numbers as Python's `random.Random` gives them, because published workloads are drawn with it.
//!
//! The generator itself (MT19937, keyed by an array) is that of the crate `rand_mt`; here is only what Python makes of it.

use rand_mt::Mt;

/// Python's `random.Random(seed)`.
pub(super) struct PythonRandom(Mt);

impl PythonRandom {
    /// The seed becomes the key of the generator in words of 32 bits, the lowest first.
    pub(super) fn new(seed: u64) -> Self {
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        let key = if high == 0 { vec![low] } else { vec![low, high] };
        Self(Mt::new_with_key(key))
    }

    /// A number from 0 up to 1, with 53 random bits: `random()`.
    pub(super) fn unit(&mut self) -> f64 {
        let (high, low) = (self.0.next_u32() >> 5, self.0.next_u32() >> 6);
        (f64::from(high) * 67_108_864.0 + f64::from(low)) * (1.0 / 9_007_199_254_740_992.0)
    }

    /// `uniform(a, b)`.
    pub(super) fn uniform(&mut self, a: f64, b: f64) -> f64 {
        a + (b - a) * self.unit()
    }

    /// A position below `count`, as `choice` draws it: just enough bits, again and again until they are below.
    pub(super) fn position(&mut self, count: usize) -> usize {
        let bits = usize::BITS - count.leading_zeros();
        debug_assert!((1..=32).contains(&bits), "a list of {count}");
        loop {
            let drawn = (self.0.next_u32() >> (32 - bits)) as usize;
            if drawn < count {
                return drawn;
            }
        }
    }

    /// `choice(list)`.
    pub(super) fn choice<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.position(list.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_python() {
        // random.Random(0).random() and so on, of CPython 3.
        let mut random = PythonRandom::new(0);
        assert_eq!([random.unit(), random.unit()], [0.844_421_851_525_048_1, 0.757_954_402_940_302_5]);
        assert_eq!(random.uniform(2.0, 6.0), 3.682_286_323_323_38);
        let mut large = PythonRandom::new(u64::MAX);
        assert_eq!(large.unit(), 0.021_825_695_401_270_107);
        let mut random = PythonRandom::new(0);
        let positions: Vec<usize> = (0..12).map(|_| random.position(26)).collect();
        assert_eq!(positions, [12, 24, 13, 1, 8, 16, 15, 12, 25, 9, 15, 11]);
        assert_eq!((0..5).map(|_| random.position(1)).max(), Some(0));
        assert_eq!(random.unit(), 0.618_368_996_675_331_6, "a choice of one takes random bits too");
    }
}
