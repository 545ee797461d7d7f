//! SLAQ's two families of loss curves over a window of points: the sums that a fit needs, their bounds, and where to begin
//! when nothing is known (SLAQ, SoCC 2017, section 4, has the curves; bounds and starts are not published).

use crate::estimate::least_squares::{Bounds, Search};

use super::MAX_LOSS_POINTS;
use super::projection::{Asymptotes, Found, Parameters, Sums, cost, search};
use super::window::Window;

/// The asymptote lies no further below the lowest loss than so many times the range of the losses that are looked at. Without
/// that, noise on a short piece of a nearly straight line makes the end of it anything. On synthetic curves
/// anything from 3 on predicts ten iterations equally well; logs that jump are told a little better by lower bounds.
const DEEPEST: f64 = 100.0;
/// The least share of `c` in `a k^2 + b k + c` at the latest point.
const LEAST_SHARE: f64 = 1e-9;
/// `mu` lies between 1e-6 and 1 - 1e-9.
const RATES: (f64, f64) = (1e-9, 13.815_510_557_964_274);
/// Passes over the data for one fit.
const PASSES: u32 = 50;
/// Points that are summed up side by side.
const LANES: usize = 2;

fn asymptotes(window: &Window, given: Option<f64>) -> Asymptotes {
    match given.map(|given| window.scaled(given)) {
        Some(given) => Asymptotes { low: given, high: given },
        None => Asymptotes { low: -DEEPEST, high: 0.0 },
    }
}

fn way(window: &Window, warm: bool) -> Search {
    // A thousandth of a billionth of the range is rounding.
    Search { passes: PASSES, damping: if warm { 1e-9 } else { 1e-3 }, nought: 1e-24 * window.weights.0 }
}

fn held(asymptotes: Asymptotes, asymptote: f64) -> f64 {
    asymptote.max(asymptotes.low).min(asymptotes.high)
}

/// `amplitude / p(t) + asymptote`, `t` being the share of the iterations done so far, `p(t) = 1 - s + s (t + m (t^2 - t))`.
/// The shape is `s`, how much of `p` at the latest point has grown since the start, and `m`, how much of that is quadratic.
pub(super) mod sublinear {
    use super::*;

    const BOUNDS: Bounds<2> = Bounds { low: [0.0, 0.0], high: [1.0 - LEAST_SHARE, 1.0] };
    const GROWN: [f64; 6] = [0.1, 0.4, 0.75, 0.95, 0.995, 1.0 - LEAST_SHARE];
    const QUADRATIC: [f64; 3] = [0.0, 0.4, 1.0];

    /// Fits from where an earlier fit ended, or from scratch.
    pub(in super::super) fn fit(
        window: &Window,
        given: Option<f64>,
        warm: Option<Parameters<2>>,
    ) -> Option<Found<2>> {
        let asymptotes = asymptotes(window, given);
        let mut start = warm.unwrap_or_else(|| start(window, asymptotes, &QUADRATIC));
        start.asymptote = held(asymptotes, start.asymptote);
        search(start, &BOUNDS, asymptotes, way(window, warm.is_some()), |curve| sum_up(window, curve))
    }

    /// Fits without a quadratic term, and with an asymptote that is not below zero.
    pub(in super::super) fn fit_inverse(window: &Window) -> Option<Found<2>> {
        let asymptotes = Asymptotes { low: window.scaled(0.0), high: 0.0 };
        let bounds = Bounds { high: [BOUNDS.high[0], 0.0], ..BOUNDS };
        let start = start(window, asymptotes, &[0.0]);
        search(start, &bounds, asymptotes, way(window, false), |curve| sum_up(window, curve))
    }

    fn start(window: &Window, asymptotes: Asymptotes, quadratic: &[f64]) -> Parameters<2> {
        let shapes = GROWN.iter().flat_map(|s| quadratic.iter().map(|m| [*s, *m]));
        let tried = shapes.map(|shape| {
            let curve = Parameters { amplitude: 0.1, shape, asymptote: held(asymptotes, 0.0) };
            cost(&curve, asymptotes, |curve| sum_up(window, curve))
        });
        let best = tried.min_by(|x, y| x.0.total_cmp(&y.0));
        best.expect("shapes are tried").1
    }

    fn sum_up(window: &Window, curve: &Parameters<2>) -> Sums<2> {
        let (amplitude, [grown, quadratic], asymptote) = (curve.amplitude, curve.shape, curve.asymptote);
        let mut sums = [[0.0f64; LANES]; 23];
        let pairs = window.count.div_ceil(LANES);
        let (share, _) = window.share.as_chunks::<LANES>();
        let (y, _) = window.y.as_chunks::<LANES>();
        let (weight, _) = window.weight.as_chunks::<LANES>();
        for ((share, y), weight) in share[..pairs].iter().zip(&y[..pairs]).zip(&weight[..pairs]) {
            for lane in 0..LANES {
                let (t, w) = (share[lane], weight[lane]);
                let bent = t * t - t;
                let below = t - 1.0 + quadratic * bent;
                let e = 1.0 / (1.0 + grown * below);
                let r = amplitude * e + asymptote - y[lane];
                let (ee, by_mix) = (e * e, grown * bent);
                let d = [-ee * below, -ee * by_mix];
                let cube = 2.0 * w * ee * e;
                let dd =
                    [cube * below * below, cube * below * by_mix - w * ee * bent, cube * by_mix * by_mix];
                let (wr, we, wd) = (w * r, w * e, [w * d[0], w * d[1]]);
                let each = [
                    wr * r,
                    wr,
                    wr * e,
                    wr * d[0],
                    wr * d[1],
                    we,
                    we * e,
                    wd[0],
                    wd[1],
                    wd[0] * e,
                    wd[1] * e,
                    wd[0] * d[0],
                    wd[0] * d[1],
                    wd[1] * d[1],
                    dd[0] * r,
                    dd[1] * r,
                    dd[2] * r,
                    dd[0] * e,
                    dd[1] * e,
                    dd[2] * e,
                    dd[0],
                    dd[1],
                    dd[2],
                ];
                for (sum, each) in sums.iter_mut().zip(each) {
                    sum[lane] += each;
                }
            }
        }
        let s: [f64; 23] = std::array::from_fn(|i| sums[i].iter().sum());
        let mixed = [s[15], s[18], s[21]];
        Sums {
            cost: s[0],
            r: s[1],
            r_e: s[2],
            r_d: [s[3], s[4]],
            one: window.weights.0,
            e: s[5],
            e_e: s[6],
            d: [s[7], s[8]],
            e_d: [s[9], s[10]],
            d_d: [[s[11], s[12]], [s[12], s[13]]],
            dd: [[[s[14], s[17], s[20]], mixed], [mixed, [s[16], s[19], s[22]]]],
        }
    }
}

/// `amplitude exp(-rate k) + asymptote`, `k` counted from the first point of the window. The shape is the logarithm of the
/// rate.
pub(super) mod geometric {
    use super::*;

    const PER_STEP: [f64; 12] = [1e-4, 1e-3, 4e-3, 0.015, 0.04, 0.08, 0.15, 0.3, 0.5, 0.8, 1.5, 4.0];

    /// Fits from where an earlier fit ended, or from scratch.
    pub(in super::super) fn fit(
        window: &Window,
        given: Option<f64>,
        warm: Option<Parameters<1>>,
    ) -> Option<Found<1>> {
        let asymptotes = asymptotes(window, given);
        let bounds = Bounds { low: [RATES.0.ln()], high: [RATES.1.ln()] };
        let mut powers = [0.0; MAX_LOSS_POINTS];
        let starts = match warm {
            Some(warm) => [Some(Parameters { asymptote: held(asymptotes, warm.asymptote), ..warm }), None],
            None => starts(window, asymptotes, &mut powers),
        };
        let way = way(window, warm.is_some());
        let found = starts.into_iter().flatten().filter_map(|start| {
            search(start, &bounds, asymptotes, way, |curve| sum_up(window, curve, &mut powers))
        });
        found.min_by(|x, y| x.cost.total_cmp(&y.cost))
    }

    /// The lowest two valleys over a row of rates. Where the loss has long been level, there is one for its last steps and
    /// one for its first.
    fn starts(
        window: &Window,
        asymptotes: Asymptotes,
        powers: &mut [f64; MAX_LOSS_POINTS],
    ) -> [Option<Parameters<1>>; 2] {
        let step = window.step();
        let tried = PER_STEP.map(|per_step| {
            let rate = (per_step / step).max(RATES.0).min(RATES.1);
            let curve = Parameters { amplitude: 1.0, shape: [rate.ln()], asymptote: held(asymptotes, 0.0) };
            cost(&curve, asymptotes, |curve| sum_up(window, curve, powers))
        });
        let mut lowest: [Option<(f64, Parameters<1>)>; 2] = [None; 2];
        let cost = |i: usize| tried.get(i).map_or(f64::INFINITY, |tried| tried.0);
        for (i, found) in tried.into_iter().enumerate() {
            if cost(i) > cost(i.wrapping_sub(1)) || cost(i) > cost(i + 1) {
                continue;
            }
            if lowest[0].is_none_or(|best| found.0 < best.0) {
                lowest = [Some(found), lowest[0]];
            } else if lowest[1].is_none_or(|second| found.0 < second.0) {
                lowest[1] = Some(found);
            }
        }
        lowest.map(|found| found.map(|(_, curve)| curve))
    }

    fn sum_up(window: &Window, curve: &Parameters<1>, powers: &mut [f64; MAX_LOSS_POINTS]) -> Sums<1> {
        let (amplitude, [log_rate], asymptote) = (curve.amplitude, curve.shape, curve.asymptote);
        let rate = log_rate.exp();
        window.powers(rate, powers);
        let mut sums = [[0.0f64; LANES]; 12];
        let pairs = window.count.div_ceil(LANES);
        let (power, _) = powers.as_chunks::<LANES>();
        let (since, _) = window.since.as_chunks::<LANES>();
        let (y, _) = window.y.as_chunks::<LANES>();
        let (weight, _) = window.weight.as_chunks::<LANES>();
        for i in 0..pairs {
            for lane in 0..LANES {
                let (e, w) = (power[i][lane], weight[i][lane]);
                let r = amplitude * e + asymptote - y[i][lane];
                let x = rate * since[i][lane];
                let d = -x * e;
                let (wr, we, wd) = (w * r, w * e, w * d);
                let dd = wd * (1.0 - x);
                let each = [wr * r, wr, wr * e, wr * d, we, we * e, wd, wd * e, wd * d, dd * r, dd * e, dd];
                for (sum, each) in sums.iter_mut().zip(each) {
                    sum[lane] += each;
                }
            }
        }
        let s: [f64; 12] = std::array::from_fn(|i| sums[i].iter().sum());
        Sums {
            cost: s[0],
            r: s[1],
            r_e: s[2],
            r_d: [s[3]],
            one: window.weights.0,
            e: s[4],
            e_e: s[5],
            d: [s[6]],
            e_d: [s[7]],
            d_d: [[s[8]]],
            dd: [[[s[9], s[10], s[11]]]],
        }
    }
}
