//! How long a job would have run by now with an equal part of the cluster of its own: `C_j` of Gavel's finish-time fairness.
//!
//! That part changes whenever jobs come and go, so it is added up from round to round and kept in the job's note: the time so
//! far in microseconds, and the iterations and the pace in isolation at the latest round, as bits.

use crate::view::Note;

use super::claim::Claim;

/// What is remembered of one job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Account {
    /// `C_j` in seconds.
    pub so_far_s: f64,
    iterations: f64,
    per_s: f64,
}

impl Account {
    /// As it was written down; nothing if it was not.
    pub(super) fn read(note: &Note) -> Self {
        let [so_far, iterations, per_s] = note.0[..] else { return Self::default() };
        let number = |bits: i64| {
            let number = f64::from_bits(bits as u64);
            if number.is_finite() { number.max(0.0) } else { 0.0 }
        };
        Self { so_far_s: so_far.max(0) as f64 / 1e6, iterations: number(iterations), per_s: number(per_s) }
    }

    /// Carried on to now. Work of which nothing was written down counts at the present pace.
    #[must_use]
    pub(super) fn carried_on(self, claim: &Claim) -> Self {
        let per_s = if self.per_s > 0.0 { self.per_s } else { claim.isolated_per_s };
        let more_s = (claim.done - self.iterations).max(0.0) / per_s;
        // Rounded as it is written down, so that it does not matter whether it was.
        let so_far_s = ((self.so_far_s + more_s) * 1e6).round() / 1e6;
        Self { so_far_s, iterations: claim.done.max(self.iterations), per_s: claim.isolated_per_s }
    }

    /// To be written down.
    pub(super) fn note(&self) -> Note {
        let bits = [self.iterations, self.per_s].map(|number| number.to_bits() as i64);
        Note([(self.so_far_s * 1e6).round() as i64].into_iter().chain(bits).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(done: f64, isolated_per_s: f64) -> Claim {
        Claim {
            gpus: 1.0,
            workers: 1,
            together: vec![4.0],
            spread: vec![4.0],
            done,
            left: 10.0,
            age_s: 0.0,
            isolated_per_s,
        }
    }

    #[test]
    fn work_counts_at_the_pace_of_the_time_when_it_was_done() {
        let begun = Account::default().carried_on(&claim(0.0, 2.0));
        assert_eq!(begun.so_far_s, 0.0);
        // Ten iterations at 2 a second, then ten more at 1 a second.
        let busier = begun.carried_on(&claim(10.0, 1.0));
        assert_eq!(busier.so_far_s, 5.0);
        let later = busier.carried_on(&claim(20.0, 0.5));
        assert_eq!(later.so_far_s, 15.0);
        assert_eq!(Account::read(&later.note()), later);
        assert_eq!(later.carried_on(&claim(20.0, 0.5)), later, "asked again");
        let rolled_back = later.carried_on(&claim(15.0, 0.5));
        assert_eq!(rolled_back.so_far_s, 15.0);
        assert_eq!(rolled_back.carried_on(&claim(20.0, 0.5)).so_far_s, 15.0, "work is counted once");
    }

    #[test]
    fn a_note_of_somebody_else_counts_as_none() {
        assert_eq!(Account::read(&Note::default()), Account::default());
        assert_eq!(Account::read(&Note([1, 2].into_iter().collect())), Account::default());
        let odd = Note([-1, f64::NAN.to_bits() as i64, i64::MIN].into_iter().collect());
        assert_eq!(Account::read(&odd), Account::default());
        let strange = Account::default().carried_on(&claim(8.0, 2.0));
        assert_eq!(strange.so_far_s, 4.0);
    }
}
