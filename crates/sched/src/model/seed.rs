//! One seed for a run, as a tree with named branches.
//!
//! Adding a branch never changes the numbers that another branch gives, so a new random choice does
//! not renumber every golden file. The generators themselves live with their users.

use serde::{Deserialize, Serialize};

/// A node of the tree of randomness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Seed {
    /// The child for one purpose.
    pub fn branch(self, name: &str) -> Self {
        // FNV-1a over the name, then the finaliser of SplitMix64 (Steele et al., OOPSLA 2014).
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        self.numbered(hash)
    }

    /// The child for the `n`-th of many equal purposes.
    pub const fn numbered(self, n: u64) -> Self {
        let mut z = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_add(n.rotate_left(17));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self(z ^ (z >> 31))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_differ_by_name_and_number_and_repeat() {
        let seed = Seed(7);
        assert_eq!(seed.branch("arrivals"), seed.branch("arrivals"));
        assert_ne!(seed.branch("arrivals"), seed.branch("sizes"));
        assert_ne!(seed.numbered(0), seed.numbered(1));
        assert_ne!(Seed(7).branch("arrivals"), Seed(8).branch("arrivals"));
    }
}
