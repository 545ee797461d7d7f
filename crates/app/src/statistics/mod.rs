//! What several runs say together: means over replicates, paired differences, and intervals around them. Plain
//! functions on plain numbers; knows nothing of clusters.
//!
//! Intervals are percentile intervals of the bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, 1993,
//! chapter 13): the replicates are drawn again, with replacement, [`bootstrap::RESAMPLES`] times, and the interval holds the middle
//! part of the means. With few replicates it is too narrow; from one replicate there is none. A replicate without a
//! number (an unstable run has no mean) is never left out in silence: then there is no mean at all, because a mean
//! over the replicates that went well would flatter.

mod bootstrap;

use serde::{Deserialize, Serialize};
use trainyard_sched::model::Seed;

use bootstrap::resampled;

/// From so many replicates on the sign of a number may be called certain at 95 %. The interval of few replicates is that
/// from their least to their greatest. Where the truth is that there is no difference, all n lie on the same side of
/// zero with a probability of 2 x 0.5^n, however far from it: 25 % of three, 6 % of five, 3 % of six.
pub(crate) const ENOUGH_REPLICATES: usize = 6;

/// Where a number lies, with the certainty that its owner names.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Interval {
    /// Its lower end.
    pub(crate) low: f64,
    /// Its upper end.
    pub(crate) high: f64,
}

/// A number over several replicates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Estimate {
    /// The mean over the replicates; absent where any of them has no number.
    pub(crate) mean: Option<f64>,
    /// Where the mean lies with a probability of 80 %; absent with fewer than two replicates.
    pub(crate) interval_80: Option<Interval>,
    /// The same with 95 %.
    pub(crate) interval_95: Option<Interval>,
    /// How many replicates there are.
    pub(crate) replicates: usize,
    /// How many of them have no number.
    pub(crate) absent: usize,
}

impl Interval {
    /// The middle part of sorted values, by nearest rank. `None` if there are none.
    fn of_sorted(sorted: &[f64], percent: f64) -> Option<Self> {
        let at = |percent| trainyard_sched::metrics::percentile(sorted, percent);
        let tail = (100.0 - percent) / 2.0;
        Some(Self { low: at(tail)?, high: at(100.0 - tail)? })
    }

    /// Whether zero lies outside, so that the sign is certain.
    pub(crate) fn excludes_zero(self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

impl Estimate {
    /// The mean over replicates, with intervals. The seed decides which replicates are drawn again and nothing else.
    pub(crate) fn of(values: &[Option<f64>], seed: Seed) -> Self {
        Self::of_statistic(values, seed, |chosen| mean(chosen.iter().map(|i| values[*i].unwrap_or(0.0))))
    }

    /// A ratio of two means over the same replicates, such as one gain as a part of another.
    pub(crate) fn of_ratio(part: &[Option<f64>], whole: &[Option<f64>], seed: Seed) -> Self {
        let both: Vec<Option<f64>> = part.iter().zip(whole).map(|(part, whole)| part.and(*whole)).collect();
        let sum = |values: &[Option<f64>], chosen: &[usize]| -> f64 {
            chosen.iter().map(|i| values[*i].unwrap_or(0.0)).sum()
        };
        Self::of_statistic(&both, seed, |chosen| sum(part, chosen) / sum(whole, chosen))
    }

    fn of_statistic(values: &[Option<f64>], seed: Seed, statistic: impl Fn(&[usize]) -> f64) -> Self {
        let replicates = values.len();
        let absent = values.iter().filter(|value| value.is_none()).count();
        if absent > 0 || replicates == 0 {
            return Self { replicates, absent, ..Self::default() };
        }
        let all: Vec<usize> = (0..replicates).collect();
        let mean = Some(statistic(&all)).filter(|mean| mean.is_finite());
        let drawn = if replicates > 1 { resampled(replicates, seed, statistic) } else { Vec::new() };
        let usable = mean.is_some() && drawn.iter().all(|value| value.is_finite());
        let interval = |percent| Interval::of_sorted(&drawn, percent).filter(|_| usable);
        Self { mean, interval_80: interval(80.0), interval_95: interval(95.0), replicates, absent }
    }

    /// Whether the number is above zero: with a certainty of 95 %, or, where there is only one replicate, in that one,
    /// which is then told as one.
    pub(crate) fn is_gain(&self) -> bool {
        match self.replicates {
            1 => self.mean.is_some_and(|mean| mean > 0.0),
            _ => self.is_certain() && self.interval_95.is_some_and(|interval| interval.low > 0.0),
        }
    }

    /// Whether the sign of the number is certain at 95 %, which it never is from fewer than [`ENOUGH_REPLICATES`].
    pub(crate) fn is_certain(&self) -> bool {
        self.replicates >= ENOUGH_REPLICATES && self.interval_95.is_some_and(Interval::excludes_zero)
    }
}

/// The difference of each replicate from its partner; absent where either is.
pub(crate) fn paired(values: &[Option<f64>], partners: &[Option<f64>]) -> Vec<Option<f64>> {
    values.iter().zip(partners).map(|(value, partner)| Some((*value)? - (*partner)?)).collect()
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    /// Numbers that are as good as normal: sums of twelve uniform ones.
    fn normal(count: usize, seed: Seed) -> Vec<Option<f64>> {
        let uniform = |seed: Seed| (seed.0 >> 11) as f64 / (1_u64 << 53) as f64;
        let one = |i: usize| {
            let seed = seed.numbered(i as u64);
            (0..12).map(|k| uniform(seed.numbered(k))).sum::<f64>() - 6.0
        };
        (0..count).map(one).map(Some).collect()
    }

    #[test]
    fn one_replicate_has_a_mean_and_no_interval() {
        let one = Estimate::of(&some(&[7.0]), Seed(1));
        assert_eq!((one.mean, one.interval_80, one.interval_95, one.replicates), (Some(7.0), None, None, 1));
        assert!(!one.is_certain());
        assert_eq!(Estimate::of(&[], Seed(1)), Estimate::default());
    }

    #[test]
    fn a_replicate_without_a_number_takes_the_mean_away() {
        let estimate = Estimate::of(&[Some(1.0), None, Some(3.0)], Seed(1));
        assert_eq!(estimate, Estimate { replicates: 3, absent: 1, ..Estimate::default() });
        let differences = paired(&[Some(1.0), None, Some(3.0)], &[Some(0.5), Some(1.0), None]);
        assert_eq!(differences, [Some(0.5), None, None]);
    }

    #[test]
    fn equal_differences_are_certain_however_different_the_replicates() {
        let base = normal(10, Seed(3));
        let shifted: Vec<Option<f64>> = base.iter().map(|x| x.map(|x| x - 0.25)).collect();
        let estimate = Estimate::of(&paired(&shifted, &base), Seed(1));
        assert!((estimate.mean.unwrap() + 0.25).abs() < 1e-12 && estimate.is_certain());
        let interval = estimate.interval_95.unwrap();
        assert!((interval.low + 0.25).abs() < 1e-12 && (interval.high + 0.25).abs() < 1e-12);
        assert!(!Estimate::of(&some(&[-1.0, 1.0, -2.0, 2.0]), Seed(1)).is_certain());
    }

    #[test]
    fn the_sign_of_fewer_than_six_is_never_certain() {
        let alike = |count: usize| Estimate::of(&some(&vec![2.0; count]), Seed(1));
        for count in 2..ENOUGH_REPLICATES {
            let few = alike(count);
            assert!(
                few.interval_95.unwrap().excludes_zero() && !few.is_certain() && !few.is_gain(),
                "{count}"
            );
        }
        assert!(alike(6).is_certain() && alike(6).is_gain() && alike(1).is_gain());
    }

    #[test]
    fn intervals_hold_the_truth_about_as_often_as_they_say() {
        let rounds = 300;
        let (mut inside_80, mut inside_95) = (0, 0);
        for round in 0..rounds {
            let estimate = Estimate::of(&normal(30, Seed(round)), Seed(round));
            let holds = |interval: Option<Interval>| interval.is_some_and(|i| i.low <= 0.0 && 0.0 <= i.high);
            inside_80 += i32::from(holds(estimate.interval_80));
            inside_95 += i32::from(holds(estimate.interval_95));
        }
        let part = |count: i32| f64::from(count) / rounds as f64;
        assert!((0.73..0.86).contains(&part(inside_80)), "{}", part(inside_80));
        assert!((0.90..0.98).contains(&part(inside_95)), "{}", part(inside_95));
    }

    #[test]
    fn a_ratio_is_of_means_and_its_draws_are_of_the_same_replicates() {
        let whole = some(&[10.0, 20.0, 30.0]);
        let half: Vec<Option<f64>> = whole.iter().map(|x| x.map(|x| x / 2.0)).collect();
        let ratio = Estimate::of_ratio(&half, &whole, Seed(1));
        assert_eq!(ratio.mean, Some(0.5));
        assert_eq!(ratio.interval_95, Some(Interval { low: 0.5, high: 0.5 }));
        let nothing = Estimate::of_ratio(&half, &some(&[0.0, 0.0, 0.0]), Seed(1));
        assert_eq!((nothing.mean, nothing.interval_95), (None, None));
    }
}
