//! A job that trains as several copies: how far each is, and how far each may go.

use serde::{Deserialize, Serialize};

use super::{CopyId, any_number};

/// How far one of several copies of a job is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyProgress {
    /// Which copy.
    pub copy: CopyId,
    /// Iterations that it did in this attempt since it came. They never grow fewer; a copy that comes later under the number of
    /// one that left begins with none.
    #[serde(with = "any_number")]
    pub iterations: f64,
    /// Iterations a second, as measured while it trained last.
    #[serde(with = "any_number")]
    pub speed: f64,
    /// Whether it does not train now: it has done what it may, is loading, or is brought together with the others.
    #[serde(default, skip_serializing_if = "is_false")]
    pub waits: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
const fn is_false(waits: &bool) -> bool {
    !*waits
}

/// How many iterations each copy of a job may do before all of them are brought together again, by ascending copy: the
/// quotas of HadarE. They count from when that was done last, or from when a copy began if that was later. Where there are
/// none each copy goes on for as long as there is something to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Quotas(Vec<(CopyId, u64)>);

impl Quotas {
    /// No quotas.
    pub const NONE: Self = Self(Vec::new());

    /// These quotas, in any order.
    pub fn new(mut quotas: Vec<(CopyId, u64)>) -> Self {
        quotas.sort_unstable();
        Self(quotas)
    }

    /// Whether there are none.
    pub const fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// The quotas by ascending copy.
    pub fn by_copy(&self) -> &[(CopyId, u64)] {
        &self.0
    }

    /// What a copy may do; `None` if it has no quota.
    pub fn of(&self, copy: CopyId) -> Option<u64> {
        self.0.iter().find(|(of, _)| *of == copy).map(|(_, quota)| *quota)
    }

    /// What all copies may do together.
    pub fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, (_, quota)| sum.saturating_add(*quota))
    }

    /// The quotas of these copies; one that has none may do nothing. Without any quotas there are still none.
    #[must_use]
    pub fn for_copies(&self, copies: impl Iterator<Item = CopyId>) -> Self {
        if self.is_none() {
            return Self::NONE;
        }
        let mut quotas: Vec<(CopyId, u64)> = copies.map(|copy| (copy, self.of(copy).unwrap_or(0))).collect();
        quotas.sort_unstable();
        quotas.dedup();
        Self(quotas)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_found_by_copy_and_cut_to_those_that_are_there() {
        let quotas = Quotas::new(vec![(CopyId(2), 5), (CopyId(0), 7)]);
        assert_eq!((quotas.of(CopyId(0)), quotas.of(CopyId(1)), quotas.sum()), (Some(7), None, 12));
        let cut = quotas.for_copies([CopyId(3), CopyId(2), CopyId(2)].into_iter());
        assert_eq!(cut.by_copy(), [(CopyId(2), 5), (CopyId(3), 0)]);
        assert!(Quotas::NONE.for_copies([CopyId(0)].into_iter()).is_none());
        assert_eq!(serde_json::to_string(&quotas).expect("it can be written"), "[[0,7],[2,5]]");
    }
}
