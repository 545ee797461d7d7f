//! The accuracy that a job will reach: eleven families of learning curves, each fitted by itself and weighted by how well
//! it does (Domhan, Springenberg and Hutter, IJCAI 2015).
//!
//! The paper samples the weights and parameters of a sum of the curves by MCMC. We do not: each curve is fitted by bounded
//! least squares, and weighs `exp(-BIC / 2)`. The prediction is the mixture of what the curves say, each with a normal error
//! of its own. Not for hot paths: a fit takes some milliseconds. Of many measurements, evenly spaced ones are fitted.
//!
//! As it stands that spread is too narrow for a look far ahead, since all curves may be wrong together: on curves like those
//! that jobs are generated with, seen for a fifth of their run, only 0.80 of the ends lie within two deviations. So it is
//! widened by how far ahead one looks, with one constant; `sim/tests/accuracy_forecasts.rs` holds what comes of it.

mod families;

use families::{ALL, Family};

use super::least_squares::{Bounds, Normal, Search, minimise};

/// With fewer measurements nothing is predicted.
const LEAST_POINTS: usize = 4;
/// Of more measurements, so many are fitted, evenly spaced.
const MOST_ROWS: usize = 24;
/// Passes over the data for one curve from each start, and from where the best of them came to.
const PASSES: (u32, u32) = (5, 60);
/// Factors on where to begin.
const RATES: [f64; 3] = [0.3, 1.0, 10.0];
/// By so much the variance of a forecast grows for each time that it looks as far ahead as was seen, in parts of itself.
const WIDENING: f64 = 1.0;
/// An error that measurements of an accuracy always have; without it, a perfect fit would weigh infinitely more than others.
const LEAST_VARIANCE: f64 = 1e-10;

/// What is expected of an accuracy.
#[derive(Clone, Debug, PartialEq)]
pub struct AccuracyForecast {
    members: Vec<Member>,
    /// Iterations in one unit of the curves' abscissa.
    unit: f64,
    /// 1 for fractions, 100 for percentages.
    whole: f64,
    /// The latest measurement, in units.
    seen: f64,
}

/// One curve of the mixture.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Member {
    family: usize,
    parameters: [f64; 4],
    weight: f64,
    variance: f64,
}

impl Member {
    fn value(&self, x: f64) -> f64 {
        (ALL[self.family].value)(x, &self.parameters)
    }
}

/// The data of a fit: abscissa, accuracy as a fraction, weight.
type Rows = Vec<(f64, f64, f64)>;

impl AccuracyForecast {
    /// Fits iterations and accuracies, by ascending iteration, for a look as far as `horizon`. What is no number is left
    /// out. Nothing with fewer than four, or if no curve makes sense as far as that: one does not if it ends below where it
    /// starts, or outside of what an accuracy can be.
    pub fn fit(measured: &[(f64, f64)], horizon: f64) -> Option<Self> {
        let known = |(k, y): &(f64, f64)| k.is_finite() && *k > 0.0 && y.is_finite();
        let measured: Vec<_> = measured.iter().copied().filter(known).collect();
        if measured.len() < LEAST_POINTS {
            return None;
        }
        let count = measured.len() as f64;
        let unit = measured.last()?.0 / count;
        let whole = if measured.iter().all(|(_, y)| *y <= 1.0) { 1.0 } else { 100.0 };
        // Recent points weigh more, the last ten times as much as the first; in the mean they weigh 1.
        let growth = 10f64.powf(1.0 / count);
        let mean = (growth.powf(count) - 1.0) / (growth - 1.0) / count;
        let row = |i: usize| (measured[i].0 / unit, measured[i].1 / whole, growth.powi(i as i32) / mean);
        let rows: Rows = evenly(measured.len()).map(row).collect();
        let end = (horizon / unit).max(count);
        let fitted: Vec<(Member, f64)> =
            (0..ALL.len()).filter_map(|family| member(family, &rows, end)).collect();
        let best = fitted.iter().map(|(_, bic)| *bic).fold(f64::INFINITY, f64::min);
        let weight = |bic: f64| (-0.5 * (bic - best)).exp();
        let sum: f64 = fitted.iter().map(|(_, bic)| weight(*bic)).sum();
        let members: Vec<Member> =
            fitted.into_iter().map(|(member, bic)| Member { weight: weight(bic) / sum, ..member }).collect();
        (!members.is_empty()).then_some(Self { members, unit, whole, seen: count })
    }

    /// The accuracy that is expected after so many iterations.
    pub fn mean(&self, iterations: f64) -> f64 {
        self.whole * self.mean_fraction(iterations / self.unit)
    }

    fn mean_fraction(&self, x: f64) -> f64 {
        self.members.iter().map(|member| member.weight * member.value(x)).sum()
    }

    /// The standard deviation of that: the curves' disagreement and the error of each, the wider the farther ahead.
    pub fn deviation(&self, iterations: f64) -> f64 {
        let x = iterations / self.unit;
        let mean = self.mean_fraction(x);
        let of = |member: &Member| member.weight * ((member.value(x) - mean).powi(2) + member.variance);
        self.whole * self.widened(x) * self.members.iter().map(of).sum::<f64>().sqrt()
    }

    /// The factor on the spread.
    fn widened(&self, x: f64) -> f64 {
        (1.0 + WIDENING * (x / self.seen - 1.0).max(0.0)).sqrt()
    }

    /// The probability that the accuracy after so many iterations is above a bar.
    pub fn exceeds(&self, bar: f64, iterations: f64) -> f64 {
        let (x, bar) = (iterations / self.unit, bar / self.whole);
        // The mixture as it is, drawn apart around its mean.
        let (mean, widened) = (self.mean_fraction(x), self.widened(x));
        let value = |member: &Member| mean + widened * (member.value(x) - mean);
        let above = |member: &Member| normal_tail((bar - value(member)) / (widened * member.variance.sqrt()));
        self.members.iter().map(|member| member.weight * above(member)).sum()
    }

    /// The families that take part, with their weights, which add up to 1.
    pub fn weights(&self) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        self.members.iter().map(|member| (ALL[member.family].name, member.weight))
    }
}

/// Fits one family, and its BIC: `n ln(variance) + p ln n`.
fn member(index: usize, rows: &Rows, end: f64) -> Option<(Member, f64)> {
    let family = &ALL[index];
    let latest = rows.last()?.1;
    // From the published start, from where the job seems to end, and each with other rates, which is what the third
    // parameter is about in most families.
    let tops = [family.start[0], 1.02 * latest];
    let starts = tops.iter().flat_map(|top| RATES.iter().map(|rate| (*top, *rate)));
    let begun = starts.filter_map(|(top, rate)| {
        let [_, second, third, fourth] = family.start;
        least(family, rows, [top, second, rate * third, fourth], PASSES.0)
    });
    let (_, near) = begun.min_by(|x, y| x.0.total_cmp(&y.0))?;
    let (cost, parameters) = least(family, rows, near, PASSES.1)?;
    let (count, free) = (rows.len() as f64, family.parameters as f64);
    let variance = (cost / (count - free).max(1.0)).max(LEAST_VARIANCE);
    let member = Member { family: index, parameters, weight: 0.0, variance };
    let (first, last) = (member.value(rows[0].0), member.value(end));
    let sensible = last.is_finite() && (0.0..=1.0).contains(&last) && last >= first;
    let bic = count * (cost / count).max(LEAST_VARIANCE).ln() + free * count.ln();
    sensible.then_some((member, bic))
}

/// At most so many positions of a list, evenly spaced, both ends included.
fn evenly(count: usize) -> impl Iterator<Item = usize> {
    let kept = count.min(MOST_ROWS);
    (0..kept).map(move |i| if kept < count { i * (count - 1) / (kept - 1) } else { i })
}

fn least(family: &Family, rows: &Rows, start: [f64; 4], passes: u32) -> Option<(f64, [f64; 4])> {
    let bounds = Bounds { low: family.low, high: family.high };
    let search = Search { passes, damping: 1e-3, nought: 1e-20 };
    let found = minimise(start, &bounds, search, |p| normal(family, &bounds, rows, p))?;
    Some((normal(family, &bounds, rows, &found.at).cost, found.at))
}

/// The normal equations, with derivatives from differences.
fn normal(family: &Family, bounds: &Bounds<4>, rows: &Rows, p: &[f64; 4]) -> Normal<4> {
    let mut normal = Normal { cost: 0.0, gradient: [0.0; 4], curvature: [[0.0; 4]; 4] };
    // Away from the nearer bound.
    let steps: [f64; 4] = std::array::from_fn(|i| {
        let step = 1e-7 * p[i].abs().max(1e-4);
        if p[i] + step > bounds.high[i] { -step } else { step }
    });
    for (x, y, weight) in rows {
        let value = (family.value)(*x, p);
        let slope: [f64; 4] = std::array::from_fn(|i| {
            if bounds.low[i] >= bounds.high[i] {
                return 0.0;
            }
            let mut moved = *p;
            moved[i] += steps[i];
            ((family.value)(*x, &moved) - value) / (moved[i] - p[i])
        });
        let error = value - y;
        normal.cost += weight * error * error;
        for i in 0..4 {
            normal.gradient[i] += weight * error * slope[i];
            for j in 0..4 {
                normal.curvature[i][j] += weight * slope[i] * slope[j];
            }
        }
    }
    normal
}

/// The probability that a standard normal number is above `z`: Abramowitz and Stegun 26.2.17, to 7.5e-8.
fn normal_tail(z: f64) -> f64 {
    const C: [f64; 5] = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series = C.iter().rev().fold(0.0, |sum, c| (sum + c) * t);
    let tail = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt() * series;
    if z >= 0.0 { tail } else { 1.0 - tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evenly spread numbers of about unit spread, in no order that matters: the same on every run.
    fn noise(i: usize) -> f64 {
        1.7 * (2.0 * ((i as f64 + 1.0) * 0.618_033_988_749_894_9).fract() - 1.0)
    }

    fn measured(
        family: &str,
        p: [f64; 4],
        count: usize,
        spread: f64,
    ) -> (Vec<(f64, f64)>, impl Fn(f64) -> f64) {
        let family = ALL.iter().find(|known| known.name == family).expect("it is in the table");
        let value = family.value;
        let truth = move |k: f64| value(k / 100.0, &p);
        let point = |i: usize| {
            let k = 100.0 * (i + 1) as f64;
            (k, truth(k) + spread * noise(i))
        };
        ((0..count).map(point).collect(), truth)
    }

    const PLANTED: [(&str, [f64; 4]); 4] = [
        ("pow3", [0.9, 0.6, 0.6, 0.0]),
        ("Weibull", [0.85, 0.1, 0.05, 0.9]),
        ("MMF", [0.92, 0.1, 0.1, 1.3]),
        ("exp4", [0.8, 0.5, -0.2, 0.6]),
    ];

    #[test]
    fn planted_curves_are_continued() {
        for (family, p) in PLANTED {
            for (spread, most) in [(0.0, 0.005), (0.003, 0.04)] {
                let (points, truth) = measured(family, p, 30, spread);
                let forecast = AccuracyForecast::fit(&points, 10_000.0).expect("curves make sense");
                for k in [3_000.0, 5_000.0, 10_000.0] {
                    let (mean, deviation) = (forecast.mean(k), forecast.deviation(k));
                    let told = format!("{family} at {k}, spread {spread}: {mean} {deviation} {}", truth(k));
                    assert!((mean - truth(k)).abs() < most, "{told}");
                    assert!(spread == 0.0 || deviation >= 0.5 * spread, "{told}");
                    assert!((mean - truth(k)).abs() < 4.0 * deviation + 1e-3, "{told}");
                }
                let weights: f64 = forecast.weights().map(|(_, weight)| weight).sum();
                assert!((weights - 1.0).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn bars_are_exceeded_as_the_curve_has_it() {
        let (points, truth) = measured("pow3", PLANTED[0].1, 30, 0.003);
        let forecast = AccuracyForecast::fit(&points, 10_000.0).expect("curves make sense");
        let end = truth(10_000.0);
        assert!(forecast.exceeds(end - 0.1, 10_000.0) > 0.95);
        assert!(forecast.exceeds(end + 0.1, 10_000.0) < 0.05);
        let bars = [0.7, 0.8, 0.85, 0.9].map(|bar| forecast.exceeds(bar, 10_000.0));
        assert!(bars.is_sorted_by(|x, y| x >= y), "{bars:?}");
    }

    #[test]
    fn percentages_are_fractions_times_a_hundred() {
        let (points, _) = measured("Weibull", PLANTED[1].1, 25, 0.003);
        let percent: Vec<_> = points.iter().map(|(k, y)| (*k, 100.0 * y)).collect();
        let (one, other) =
            (AccuracyForecast::fit(&points, 5_000.0), AccuracyForecast::fit(&percent, 5_000.0));
        let (one, other) = (one.expect("fits"), other.expect("fits"));
        assert!((100.0 * one.mean(5_000.0) - other.mean(5_000.0)).abs() < 0.1);
    }

    #[test]
    fn few_or_odd_measurements_say_nothing() {
        let (points, _) = measured("pow3", PLANTED[0].1, 3, 0.0);
        assert_eq!(AccuracyForecast::fit(&points, 1_000.0), None);
        let odd =
            [(100.0, f64::NAN), (200.0, 0.5), (f64::INFINITY, 0.5), (300.0, 0.6), (400.0, f64::NEG_INFINITY)];
        assert_eq!(AccuracyForecast::fit(&odd, 1_000.0), None);
        let falling: Vec<_> = (1..20).map(|i| (f64::from(i), 0.9 - 0.04 * f64::from(i))).collect();
        let fallen = AccuracyForecast::fit(&falling, 100.0);
        assert!(fallen.is_none_or(|forecast| forecast.mean(100.0) <= 0.9), "no gain is made up");
        let level: Vec<_> = (1..20).map(|i| (f64::from(i), 0.5)).collect();
        let level = AccuracyForecast::fit(&level, 100.0).expect("a level curve makes sense");
        assert!((level.mean(100.0) - 0.5).abs() < 0.01);
    }

    #[test]
    fn the_normal_tail_is_that_of_tables() {
        for (z, tail) in
            [(0.0, 0.5), (1.0, 0.158_655_3), (-1.0, 0.841_344_7), (1.96, 0.024_997_9), (6.0, 0.0)]
        {
            assert!((normal_tail(z) - tail).abs() < 2e-7, "{z}");
        }
    }
}
