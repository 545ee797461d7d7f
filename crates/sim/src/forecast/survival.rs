//! How long things last, learnt from those that have ended and those that still go on (Kaplan and Meier, JASA
//! 1958). Who only looked at what has ended would take the short for the usual, since the long have not ended yet.

use trainyard_sched::model::JobId;

/// Something that lasted, or has lasted so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Observed {
    /// How long.
    pub(super) value: f64,
    /// Whether that was the end of it; if not, it is only known to last longer.
    pub(super) ended: bool,
    /// How much it counts.
    pub(super) weight: f64,
    /// The first job of the burst with which it came, if it was seen and not supposed.
    pub(super) burst: Option<JobId>,
}

/// Beyond everything that was seen, what has lasted `x` is taken to last longer than `y` with chance
/// `(x / y)^2`: half of it ends before 1.4 times as long. A guess that is only asked where nothing is known.
const TAIL_EXPONENT: f64 = 2.0;

/// The part that lasts longer, as a falling staircase.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Survival {
    /// Where it falls, ascending.
    values: Vec<f64>,
    /// What is left after each fall.
    left: Vec<f64>,
}

impl Survival {
    /// The staircase of observations that are sorted by value; `weigh` may give each another weight.
    pub(super) fn new(sorted: &[Observed], weigh: impl Fn(&Observed) -> f64) -> Self {
        let weights: Vec<f64> = sorted.iter().map(weigh).collect();
        let mut at_risk: f64 = weights.iter().sum();
        let mut stairs = Self::default();
        let (mut left, mut begin) = (1.0, 0);
        while begin < sorted.len() {
            let value = sorted[begin].value;
            let end = begin + sorted[begin..].partition_point(|seen| seen.value <= value);
            let together = begin..end;
            let ended: f64 = together.clone().filter(|i| sorted[*i].ended).map(|i| weights[i]).sum();
            if ended > 0.0 {
                let last = end == sorted.len() && together.clone().all(|i| sorted[i].ended);
                left = if last { 0.0 } else { left * (1.0 - ended / at_risk).max(0.0) };
                stairs.values.push(value);
                stairs.left.push(left);
            }
            at_risk -= together.map(|i| weights[i]).sum::<f64>();
            begin = end;
        }
        stairs
    }

    /// The part that lasts longer than `x`.
    pub(super) fn beyond(&self, x: f64) -> f64 {
        match self.values.partition_point(|value| *value <= x) {
            0 => 1.0,
            i => self.left[i - 1],
        }
    }

    /// How long something lasts that has lasted `x` already; `chance` is uniform between 0 and 1.
    pub(super) fn draw(&self, x: f64, chance: f64) -> f64 {
        let beyond = self.beyond(x);
        let level = beyond * chance;
        let stair = self.left.partition_point(|left| *left >= level);
        if beyond > 0.0 && stair < self.values.len() {
            return self.values[stair];
        }
        let last = self.left.last().copied().unwrap_or(1.0);
        let rest = if beyond > 0.0 && last > 0.0 { (level / last).min(1.0) } else { chance };
        let from = self.values.last().copied().unwrap_or(0.0).max(x);
        from * rest.max(1e-9).powf(-1.0 / TAIL_EXPONENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(value: f64, ended: bool) -> Observed {
        Observed { value, ended, weight: 1.0, burst: None }
    }

    fn stairs(seen: &[Observed]) -> Survival {
        Survival::new(seen, |seen| seen.weight)
    }

    #[test]
    fn what_still_goes_on_counts_as_lasting_longer() {
        // Of four, one ended at 1, one is known to last longer than 2, two ended at 3.
        let learnt = stairs(&[seen(1.0, true), seen(2.0, false), seen(3.0, true), seen(3.0, true)]);
        assert_eq!((learnt.beyond(0.5), learnt.beyond(1.0), learnt.beyond(2.5)), (1.0, 0.75, 0.75));
        assert_eq!(learnt.beyond(3.0), 0.0);
        let ignorant = stairs(&[seen(1.0, true), seen(3.0, true), seen(3.0, true)]);
        assert!(ignorant.beyond(1.0) < learnt.beyond(1.0));
    }

    #[test]
    fn draws_follow_the_stairs_and_never_fall_below_what_has_passed() {
        let learnt = stairs(&[seen(1.0, true), seen(2.0, true), seen(3.0, true), seen(4.0, true)]);
        let mean =
            |x: f64| (0..1000).map(|i| learnt.draw(x, (f64::from(i) + 0.5) / 1000.0)).sum::<f64>() / 1e3;
        assert!((mean(0.0) - 2.5).abs() < 0.01, "{}", mean(0.0));
        assert!((mean(2.0) - 3.5).abs() < 0.01, "{}", mean(2.0));
        assert!((0..100).all(|i| learnt.draw(9.0, (f64::from(i) + 0.5) / 100.0) >= 9.0));
    }

    #[test]
    fn beyond_all_that_ended_the_tail_is_a_guess_and_without_anything_too() {
        let learnt = stairs(&[seen(1.0, true), seen(5.0, false)]);
        assert_eq!(learnt.draw(0.0, 0.9), 1.0);
        assert!(learnt.draw(0.0, 0.1) > 2.0);
        assert!((stairs(&[]).draw(10.0, 0.25) - 20.0).abs() < 1e-9);
    }
}
