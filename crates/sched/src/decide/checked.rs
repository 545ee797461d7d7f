//! What came of holding a part of a policy against a slow and obvious account of it, on many drawn instances. Tests ask for no
//! faults; pages that tell how good a policy is show the figures.

use crate::model::Seed;

/// The answer of a check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checked {
    /// How many instances were drawn.
    pub instances: u64,
    /// What was wrong, each with the number of its instance.
    pub faults: Vec<String>,
    /// The figures of the check, by what they measure.
    pub figures: Vec<(&'static str, f64)>,
}

impl Checked {
    /// A figure.
    ///
    /// # Panics
    /// If the check has none of this name.
    pub fn figure(&self, name: &str) -> f64 {
        let found = self.figures.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("the check has no figure {name}")).1
    }

    /// Notes a fault unless something holds.
    pub fn hold(&mut self, holds: bool, fault: impl FnOnce() -> String) {
        if !holds {
            self.faults.push(fault());
        }
    }
}

/// Numbers that repeat.
#[derive(Clone, Copy, Debug)]
pub struct Dice(Seed, u64);

impl Dice {
    /// Of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(Seed(seed), 0)
    }

    /// A number below `sides`.
    pub const fn roll(&mut self, sides: u64) -> u64 {
        self.1 += 1;
        self.0.numbered(self.1).0 % sides
    }

    /// A number from 0 to 1.
    pub const fn part(&mut self) -> f64 {
        self.roll(1 << 52) as f64 / (1_u64 << 52) as f64
    }

    /// A number between two, equal factors equally likely.
    pub fn between(&mut self, least: f64, most: f64) -> f64 {
        least * (most / least).powf(self.part())
    }
}
