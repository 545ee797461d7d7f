//! The bootstrap itself: replicates drawn again, with replacement. Depends on the seed alone, so on no thread.

use trainyard_sched::model::Seed;

/// How often replicates are drawn again. The ends of a 95 % interval then move by some per cent of its width when the
/// seed changes, less than replicates themselves move them.
pub(super) const RESAMPLES: usize = 2000;

/// The values of a statistic on replicates that are drawn again, sorted. The statistic is given positions below `count`.
pub(super) fn resampled(count: usize, seed: Seed, statistic: impl Fn(&[usize]) -> f64) -> Vec<f64> {
    let seed = seed.branch("bootstrap");
    let mut chosen = vec![0; count];
    let mut values: Vec<f64> = (0..RESAMPLES)
        .map(|round| {
            let seed = seed.numbered(round as u64);
            for (i, position) in chosen.iter_mut().enumerate() {
                // The upper half of a product spreads a random word evenly over the positions.
                let word = seed.numbered(i as u64).0;
                *position = ((u128::from(word) * count as u128) >> 64) as usize;
            }
            statistic(&chosen)
        })
        .collect();
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All ways to draw three of three, which is what the bootstrap draws from.
    fn exact_means(values: [f64; 3]) -> Vec<f64> {
        let all = (0..27).map(|i| (values[i % 3] + values[i / 3 % 3] + values[i / 9]) / 3.0);
        let mut all: Vec<f64> = all.collect();
        all.sort_by(f64::total_cmp);
        all
    }

    #[test]
    fn draws_are_distributed_as_all_ways_to_draw() {
        let values = [1.0, 5.0, 30.0];
        let drawn = resampled(3, Seed(11), |chosen| chosen.iter().map(|i| values[*i]).sum::<f64>() / 3.0);
        assert_eq!(drawn.len(), RESAMPLES);
        let exact = exact_means(values);
        for value in &exact {
            let part =
                |all: &[f64]| all.iter().filter(|x| **x <= value + 1e-9).count() as f64 / all.len() as f64;
            // Four standard deviations of a share of 2000.
            assert!(
                (part(&drawn) - part(&exact)).abs() < 0.045,
                "{value}: {} {}",
                part(&drawn),
                part(&exact)
            );
        }
    }

    #[test]
    fn the_same_seed_draws_the_same_and_another_does_not() {
        let first =
            |chosen: &[usize]| chosen.iter().enumerate().map(|(i, x)| (i + 1) as f64 * *x as f64).sum();
        let draw = |seed| resampled(6, Seed(seed), first);
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
