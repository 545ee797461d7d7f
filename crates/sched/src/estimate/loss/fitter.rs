//! Which curve a job's losses are fitted by, kept from report to report.

use serde::{Deserialize, Serialize};

use crate::estimate::least_squares::deviations;
use crate::model::{Better, Convergence, Curve, DeclaredLoss, LossPoint};

use super::projection::{Found, Parameters};
use super::window::{Window, median};
use super::{Fit, Recency, families};

/// With so few points, or whenever there are an eighth more than at the last time, a fit also begins from scratch, so that none is caught for
/// good where an early one went astray.
const FEW: usize = 16;
/// The other family has to fit better so many times in a row.
const WINS: u8 = 3;
/// A target that so many of the latest losses lie below, by their median, is no limit.
const LATEST: usize = 5;

/// The two families of SLAQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// See [`Curve::Sublinear`].
    Sublinear,
    /// See [`Curve::Geometric`].
    Geometric,
}

/// What is carried over from one fit to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Fitter {
    sublinear: Option<Fit>,
    geometric: Option<Fit>,
    chosen: Option<Family>,
    wins: u8,
    /// The number of points of the last fit from scratch.
    scratch: u64,
}

/// What is fitted, as the owner's declaration has it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Plan {
    family: Option<Family>,
    asymptote: Option<f64>,
    median: bool,
}

impl Plan {
    fn new(declared: &DeclaredLoss, points: &[LossPoint]) -> Self {
        let target = declared.target.map(|target| oriented(declared.better, target));
        let mut latest = [0.0; LATEST];
        let reached = points.last_chunk::<LATEST>().is_some_and(|points| {
            latest = points.map(|point| point.loss);
            target.is_some_and(|target| median(&mut latest) < target)
        });
        let asymptote = target.filter(|target| target.is_finite() && !reached);
        let (family, median) = match declared.convergence {
            Some(Convergence::Sublinear) => (Some(Family::Sublinear), false),
            Some(Convergence::Linear) => (Some(Family::Geometric), false),
            Some(Convergence::NonConvex) if asymptote.is_none() => (Some(Family::Sublinear), true),
            Some(Convergence::NonConvex) | None => (None, false),
        };
        Self { family, asymptote, median }
    }
}

/// A number as a loss: what gets better by rising is turned around.
pub(super) fn oriented(better: Better, number: f64) -> f64 {
    match better {
        Better::Lower => number,
        Better::Higher => -number,
    }
}

impl Fitter {
    /// Fits the latest of the points. `taken` counts all that there ever were.
    pub(super) fn fit(
        &mut self,
        points: &[LossPoint],
        taken: u64,
        declared: &DeclaredLoss,
        recency: &Recency,
    ) -> Option<Fit> {
        let plan = Plan::new(declared, points);
        let window = Window::new(points, recency, plan.median)?;
        let anew = points.len() < FEW || taken >= self.scratch + self.scratch / 8;
        if anew {
            self.scratch = taken;
        }
        let wanted = |family| plan.family.is_none_or(|only| only == family);
        self.sublinear = wanted(Family::Sublinear)
            .then(|| sublinear(&window, plan.asymptote, self.sublinear, anew))
            .flatten();
        self.geometric = wanted(Family::Geometric)
            .then(|| geometric(&window, plan.asymptote, self.geometric, anew))
            .flatten();
        self.choose()
    }

    /// The family with the smaller residual; one that was chosen before is left after three defeats in a row.
    fn choose(&mut self) -> Option<Fit> {
        let (first, second) = match (self.sublinear, self.geometric) {
            (Some(sublinear), Some(geometric)) => (sublinear, geometric),
            (only, None) | (None, only) => {
                self.chosen = only.map(|fit| fit.family());
                self.wins = 0;
                return only;
            }
        };
        let best = if second.residual < first.residual { Family::Geometric } else { Family::Sublinear };
        match self.chosen {
            Some(chosen) if chosen == best => self.wins = 0,
            Some(_) if self.wins + 1 < WINS => self.wins += 1,
            _ => (self.chosen, self.wins) = (Some(best), 0),
        }
        Some(if self.chosen == Some(Family::Geometric) { second } else { first })
    }
}

/// The better of a fit that goes on from the last one and one from scratch.
fn best<const N: usize>(
    anew: bool,
    warm: Option<Parameters<N>>,
    mut fit: impl FnMut(Option<Parameters<N>>) -> Option<Found<N>>,
) -> Option<Found<N>> {
    let is_finite = |warm: &Parameters<N>| {
        warm.amplitude.is_finite()
            && warm.asymptote.is_finite()
            && warm.shape.iter().all(|part| part.is_finite())
    };
    let warm = warm.filter(is_finite).and_then(|warm| fit(Some(warm)));
    if warm.is_some() && !anew {
        return warm;
    }
    let cold = fit(None);
    let cost = |found: &Option<Found<N>>| found.as_ref().map_or(f64::INFINITY, |found| found.cost);
    if cost(&warm) <= cost(&cold) { warm } else { cold }
}

fn sublinear(window: &Window, given: Option<f64>, last: Option<Fit>, anew: bool) -> Option<Fit> {
    let Window { range, last: span, .. } = *window;
    let warm = last.and_then(|fit| match fit.curve {
        Curve::Sublinear { a, b, c, d } => {
            let (a, b) = (a * span * span, b * span);
            let (grown, all) = (a + b, a + b + c);
            let quadratic = if grown > 0.0 { a / grown } else { 0.0 };
            Some(Parameters {
                amplitude: 1.0 / (all * range),
                shape: [grown / all, quadratic],
                asymptote: window.scaled(d),
            })
        }
        Curve::Geometric { .. } => None,
    });
    let found = best(anew, warm, |start| families::sublinear::fit(window, given, start))?;
    sublinear_fit(window, &found)
}

/// A sublinear curve in the job's own units.
pub(super) fn sublinear_fit(window: &Window, found: &Found<2>) -> Option<Fit> {
    let Window { range, last: span, low, .. } = *window;
    let Parameters { amplitude, shape: [s, m], asymptote } = found.curve;
    // Without any excess the curve is level; what it is the inverse of would be infinite.
    let height = amplitude.max(1e-12) * range;
    let [a, b, c] = [s * m / (height * span * span), s * (1.0 - m) / (height * span), (1.0 - s) / height];
    let curve = Curve::Sublinear { a, b, c, d: asymptote * range + low };
    let in_units = |column: [f64; 4]| {
        let [up, s_up, m_up, d_up] = column;
        let less = up / amplitude.max(1e-12);
        [
            (s_up * m + s * m_up) / (height * span * span) - a * less,
            (s_up * (1.0 - m) - s * m_up) / (height * span) - b * less,
            -s_up / height - c * less,
            d_up * range,
        ]
    };
    Fit::new(curve, 0.0, window, found, in_units)
}

fn geometric(window: &Window, given: Option<f64>, last: Option<Fit>, anew: bool) -> Option<Fit> {
    let Window { range, low, first, .. } = *window;
    let warm = last.and_then(|fit| match fit.curve {
        Curve::Geometric { amplitude, mu, c } => {
            let moved = amplitude * mu.powf(first - fit.origin);
            let log_rate = (-mu.ln()).ln();
            Some(Parameters { amplitude: moved / range, shape: [log_rate], asymptote: window.scaled(c) })
        }
        Curve::Sublinear { .. } => None,
    });
    let found = best(anew, warm, |start| families::geometric::fit(window, given, start))?;
    let Parameters { amplitude, shape: [log_rate], asymptote } = found.curve;
    let rate = log_rate.exp();
    let curve =
        Curve::Geometric { amplitude: amplitude * range, mu: (-rate).exp(), c: asymptote * range + low };
    Fit::new(curve, first, window, &found, |[up, rate_up, d_up]| {
        [up * range, rate * rate_up, d_up * range, 0.0]
    })
}

impl Fit {
    /// With what the data leave open.
    ///
    /// Let `w` be the weights, `r` the residuals and `p` the free parameters. The spread of one report about the curve is
    /// `s^2 = sum w r^2 / sum w * n / (n - p)` with `n = (sum w)^2 / sum w^2` points that count. The parameters' covariance
    /// is `s^2 H^-1 * sum w^2 / sum w` with `H = sum w df df'`: the weights mean that old points matter less, not that they
    /// are less exact, and for a constant the last factor makes that exact.
    fn new<const N: usize, const P: usize>(
        curve: Curve,
        origin: f64,
        window: &Window,
        found: &Found<N>,
        in_units: impl Fn([f64; P]) -> [f64; 4],
    ) -> Option<Self> {
        let (sum, squares) = window.weights;
        let residual = (found.cost / sum).sqrt();
        let counted = sum * sum / squares;
        let (normal, free) = found.equations::<P>();
        let many = free.iter().filter(|free| **free).count() as f64;
        let report = residual * (counted / (counted - many).max(1.0)).sqrt();
        let scale = report * (squares / sum).sqrt();
        let mut spread = [[0.0; 4]; 4];
        if let Some(columns) = deviations(&normal, free) {
            for (to, from) in spread.iter_mut().zip(columns) {
                *to = in_units(from).map(|part| part * scale);
            }
        }
        let fit =
            Self { curve, origin, residual: residual * window.range, report: report * window.range, spread };
        let sane =
            fit.residual.is_finite() && fit.loss(window.last).is_finite() && fit.asymptote().is_finite();
        sane.then_some(fit)
    }
}
