//! Fitted loss curves against an independent solver, under changes of scale, and on planted curves.

use std::fmt::Write as _;

use proptest::prelude::*;
use rmpfit::{MPFitter, MPPar, MPResult};
use trainyard_sched::estimate::{Expected, Family, Fit, Fitting, LossHistory, Milestone};
use trainyard_sched::model::{Better, Convergence, Curve, DeclaredLoss, LossPoint, Seed};

/// Older points weigh less than a millionth.
const COUNTED: usize = 132;

fn uniform(seed: Seed) -> f64 {
    ((seed.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// Box and Muller, 1958.
fn normal(seed: Seed) -> f64 {
    let [radius, angle] = ["radius", "angle"].map(|name| uniform(seed.branch(name)));
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

fn declared(convergence: Option<Convergence>) -> DeclaredLoss {
    DeclaredLoss { convergence, ..DeclaredLoss::default() }
}

fn family(curve: &Curve) -> Convergence {
    match curve {
        Curve::Sublinear { .. } => Convergence::Sublinear,
        Curve::Geometric { .. } => Convergence::Linear,
    }
}

/// Reports of a curve at `iterations`, with multiplicative noise.
fn reports(curve: Curve, iterations: impl Iterator<Item = f64>, noise: f64, seed: Seed) -> Vec<LossPoint> {
    let loss = |k: f64| curve.loss(k) * (noise * normal(seed.numbered(k as u64))).exp();
    iterations.map(|k| LossPoint { iteration: k, loss: loss(k), accuracy: None }).collect()
}

/// Reported one by one.
fn folded(points: &[LossPoint], declared: &DeclaredLoss) -> LossHistory {
    let mut history = LossHistory::default();
    for point in points {
        history.report(&[*point], declared, Some(&Fitting::default()));
    }
    history
}

/// The curves of SLAQ-W.
fn slaq_curves(count: u64, seed: Seed) -> Vec<(Curve, f64)> {
    let curve = |i| {
        let k95 = 40.0 * (0.7 * normal(seed.numbered(i))).exp();
        let curve = match i % 2 {
            0 => Curve::Geometric { amplitude: 1.0, mu: 0.05f64.powf(1.0 / k95), c: 0.0 },
            _ => Curve::Sublinear { a: 9.5 / k95 / k95, b: 9.5 / k95, c: 1.0, d: 0.0 },
        };
        (curve, k95)
    };
    (0..count).map(curve).collect()
}

/// The same weighted problem for MPFIT, in the same scale.
struct Oracle {
    /// Share of the iterations, scaled loss, square root of the weight.
    rows: Vec<(f64, f64, f64)>,
    sublinear: bool,
    bounds: Vec<MPPar>,
}

impl Oracle {
    fn new(points: &[LossPoint], sublinear: bool) -> Self {
        let losses = || points.iter().map(|point| point.loss);
        let (low, high) =
            (losses().fold(f64::INFINITY, f64::min), losses().fold(f64::NEG_INFINITY, f64::max));
        let (first, last) = (points[0].iteration, points[points.len() - 1].iteration);
        let row = |(i, point): (usize, &LossPoint)| {
            let weight = 0.9f64.powf((points.len() - 1 - i) as f64 / 2.0);
            let k = if sublinear { point.iteration / last } else { point.iteration - first };
            (k, (point.loss - low) / (high - low), weight)
        };
        let between = |low: f64, high: f64| MPPar {
            limited_low: true,
            limit_low: low,
            limited_up: high.is_finite(),
            limit_up: if high.is_finite() { high } else { 0.0 },
            ..MPPar::default()
        };
        let most = f64::INFINITY;
        let bounds = match sublinear {
            true => vec![between(0.0, most), between(0.0, most), between(1e-9, most), between(-1e4, 0.0)],
            false => vec![between(0.0, most), between(1e-9, 13.8), between(-1e4, 0.0)],
        };
        Self { rows: points.iter().enumerate().map(row).collect(), sublinear, bounds }
    }

    fn value(&self, p: &[f64], k: f64) -> f64 {
        if self.sublinear {
            1.0 / ((p[0] * k + p[1]) * k + p[2]) + p[3]
        } else {
            p[0] * (-p[1] * k).exp() + p[2]
        }
    }

    fn cost(&self, p: &[f64]) -> f64 {
        self.rows.iter().map(|(k, y, w)| ((self.value(p, *k) - y) * w).powi(2)).sum()
    }

    /// The least cost from several starts, of which one is the answer to be judged.
    fn least(&mut self, starts: &[Vec<f64>]) -> f64 {
        let mut least = f64::INFINITY;
        for start in starts {
            let mut p = start.clone();
            for (value, bound) in p.iter_mut().zip(&self.bounds) {
                let up = if bound.limited_up { bound.limit_up } else { f64::INFINITY };
                *value = value.clamp(bound.limit_low, up);
            }
            if self.mpfit(&mut p).is_ok() {
                least = least.min(self.cost(&p));
            }
        }
        least
    }

    /// A fit's parameters in the scale of the problem.
    fn scaled(&self, fit: &Fit, points: &[LossPoint]) -> Vec<f64> {
        let losses = || points.iter().map(|point| point.loss);
        let (low, high) =
            (losses().fold(f64::INFINITY, f64::min), losses().fold(f64::NEG_INFINITY, f64::max));
        let (first, last, range) = (points[0].iteration, points[points.len() - 1].iteration, high - low);
        match fit.curve {
            Curve::Sublinear { a, b, c, d } => {
                vec![a * range * last * last, b * range * last, c * range, (d - low) / range]
            }
            Curve::Geometric { amplitude, mu, c } => {
                let moved = amplitude * mu.powf(first - fit.origin);
                vec![moved / range, -mu.ln(), (c - low) / range]
            }
        }
    }
}

impl MPFitter for Oracle {
    fn eval(&mut self, params: &[f64], deviates: &mut [f64]) -> MPResult<()> {
        for (deviate, (k, y, w)) in deviates.iter_mut().zip(&self.rows) {
            *deviate = (self.value(params, *k) - y) * w;
        }
        Ok(())
    }

    fn number_of_points(&self) -> usize {
        self.rows.len()
    }

    fn parameters(&self) -> &[MPPar] {
        &self.bounds
    }
}

/// Our cost over the oracle's least.
fn excess_cost(points: &[LossPoint], convergence: Convergence) -> (f64, f64) {
    let history = folded(points, &declared(Some(convergence)));
    let fit = history.fit().expect("there are points enough, and they differ");
    let points = &points[points.len().saturating_sub(COUNTED)..];
    let mut oracle = Oracle::new(points, fit.family() == Family::Sublinear);
    let ours = oracle.scaled(fit, points);
    let cost = oracle.cost(&ours);
    let starts = match fit.family() {
        Family::Sublinear => vec![ours, vec![1e-3, 0.01, 1.0, -0.02], vec![1.0, 3.0, 1.0, -0.02]],
        Family::Geometric => vec![ours, vec![1.0, 0.105, -0.01], vec![1.0, 0.01, -0.1]],
    };
    (cost, oracle.least(&starts))
}

fn any_curve() -> impl Strategy<Value = Curve> {
    let k95 = || (3.0f64..300.0, 0.0f64..2.0);
    prop_oneof![
        (k95(), 0.0f64..1.0).prop_map(|((k95, d), quadratic)| Curve::Sublinear {
            a: quadratic * 19.0 / k95 / k95,
            b: (1.0 - quadratic) * 19.0 / k95,
            c: 1.0,
            d
        }),
        k95().prop_map(|(k95, c)| Curve::Geometric { amplitude: 1.0, mu: 0.05f64.powf(1.0 / k95), c }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn costs_are_those_of_an_independent_solver(
        curve in any_curve(),
        points in 6u32..220,
        from in prop_oneof![Just(0u32), 1u32..400],
        stride in 1u32..4,
        noise in prop_oneof![Just(0.0), Just(0.002), Just(0.01), Just(0.1)],
        seed: u64,
        as_it_is: bool,
    ) {
        let convergence = match (family(&curve), as_it_is) {
            (family, true) => family,
            (Convergence::Sublinear, false) => Convergence::Linear,
            (_, false) => Convergence::Sublinear,
        };
        let points = reports(curve, (0..points).map(|i| f64::from(from + stride * i)), noise, Seed(seed));
        let distinct = points.iter().skip(1).any(|point| (point.loss - points[0].loss).abs() > 1e-9);
        prop_assume!(distinct);
        let (ours, least) = excess_cost(&points, convergence);
        // With the range as the unit, a cost of 1e-12 is an error of a millionth.
        prop_assert!(ours <= least * 1.001 + 1e-12, "{ours} above {least}");
    }
}
