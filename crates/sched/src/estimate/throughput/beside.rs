//! How fast jobs are beside each other, from few measurements: the throughput estimator of Gavel (OSDI 2020, section 4.2; its public
//! code, `throughput_estimator.py`).
//!
//! Of some reference jobs it is known how fast each is beside each other one, on all types of GPUs, relative to being alone.
//! A new job is measured beside a few of them. What is missing is filled in by a factorisation of low rank, and the job is
//! then taken for the reference whose row points most nearly in the same direction. How fast it is alone must be known.

use crate::model::Seed;

use super::complete;

/// Rates of reference jobs beside each other.
#[derive(Clone, Debug, PartialEq)]
pub struct References {
    /// For each reference: its rates beside all references on the first type of GPU, then on the second one, and so on; each
    /// relative to its rate alone there. 0 where the two do not fit.
    rows: Vec<Vec<f64>>,
    types: usize,
}

impl References {
    /// From a rate for each reference, each other one beside it, and each type.
    pub fn new(count: usize, types: usize, relative: impl Fn(usize, usize, usize) -> f64) -> Self {
        let cells =
            |row: usize| (0..types).flat_map(move |kind| (0..count).map(move |other| (row, other, kind)));
        let rows =
            (0..count).map(|row| cells(row).map(|(row, other, kind)| relative(row, other, kind)).collect());
        Self { rows: rows.collect(), types }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.rows.len()
    }

    /// The relative rate of a reference beside another one on a type.
    pub fn beside(&self, reference: usize, other: usize, kind: usize) -> f64 {
        self.rows[reference][kind * self.count() + other]
    }

    /// The reference that a job is most like, by what was measured of it: its relative rates beside all references, type by
    /// type as in [`References::new`], where known. A job of which nothing can be said is like a random one.
    pub fn like(&self, measured: &[Option<f64>], seed: Seed) -> usize {
        let known = self.rows.iter().map(|row| row.iter().copied().map(Some).collect());
        let matrix: Vec<Vec<Option<f64>>> = known.chain([measured.to_vec()]).collect();
        let row = complete(&matrix, seed.branch("factors")).pop().unwrap_or_default();
        let length = |row: &[f64]| row.iter().map(|value| value * value).sum::<f64>().sqrt();
        let cosine = |reference: &Vec<f64>| {
            let product: f64 = reference.iter().zip(&row).map(|(a, b)| a * b).sum();
            match length(reference) * length(&row) {
                size if size > 0.0 => product / size,
                _ => -1.0,
            }
        };
        if length(&row) > 0.0 {
            let cosines: Vec<f64> = self.rows.iter().map(cosine).collect();
            // Of equals the first.
            return (1..cosines.len()).fold(0, |best, i| if cosines[i] > cosines[best] { i } else { best });
        }
        (seed.branch("reference").0 % self.count() as u64) as usize
    }
}

/// Steps a second of job `a` beside job `b` on each type: the relative rates of the references they are like, times the
/// rates of `a` alone.
pub fn pair_table(references: &References, a: usize, b: usize, alone: &[f64]) -> Vec<f64> {
    (0..references.types).map(|kind| references.beside(a, b, kind) * alone[kind]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two families of references: what slows the first one down a little slows the second one down a lot. Within a family they
    /// differ by some per cent.
    fn references() -> References {
        References::new(8, 2, |row, other, kind| {
            let gentle = 0.95 - 0.01 * row as f64 - 0.3 * (other % 2) as f64;
            let harsh = 0.3 + 0.01 * row as f64 + 0.3 * (other % 2) as f64 + 0.2 * kind as f64;
            if row < 4 { gentle } else { harsh }
        })
    }

    /// What is measured of a reference when each of its cells is with this probability.
    fn measured(of: &References, row: usize, share: f64, seed: Seed) -> Vec<Option<f64>> {
        let is_measured = |i: usize| seed.numbered(i as u64).0 as f64 / u64::MAX as f64 <= share;
        of.rows[row].iter().enumerate().map(|(i, value)| is_measured(i).then_some(*value)).collect()
    }

    #[test]
    fn a_job_that_is_fully_measured_is_found_again() {
        let references = references();
        for row in 0..8 {
            assert_eq!(references.like(&measured(&references, row, 1.0, Seed(1)), Seed(2)), row);
        }
    }

    #[test]
    fn a_few_measurements_find_the_family() {
        let references = references();
        let (mut right, mut all) = (0, 0);
        for (row, seed) in (0..8).flat_map(|row| (0..20).map(move |seed| (row, seed))) {
            let seed = Seed(seed).numbered(row as u64);
            let found = references.like(&measured(&references, row, 0.3, seed), seed);
            right += u32::from((found < 4) == (row < 4));
            all += 1;
        }
        assert!(right * 10 >= all * 9, "{right} of {all}");
    }

    #[test]
    fn a_job_never_measured_is_like_any_and_always_the_same() {
        let references = references();
        let nothing = vec![Some(0.0); 16];
        let found: Vec<usize> = (0..40).map(|seed| references.like(&nothing, Seed(seed))).collect();
        assert_eq!(found, (0..40).map(|seed| references.like(&nothing, Seed(seed))).collect::<Vec<_>>());
        assert!((0..8).all(|reference| found.contains(&reference)), "each comes up: {found:?}");
    }

    #[test]
    fn rates_are_relative_rates_times_rates_alone() {
        let table = pair_table(&references(), 5, 2, &[10.0, 100.0]);
        assert!((table[0] - 3.5).abs() < 1e-12 && (table[1] - 55.0).abs() < 1e-12, "{table:?}");
    }
}
