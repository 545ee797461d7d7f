//! Least squares for curves `amplitude e(k; shape) + asymptote` by variable projection: the two outer parameters enter
//! linearly, so for each shape the best of them follow from sums, and only the shape is searched for (Golub and Pereyra,
//! SIAM J. Numer. Anal. 1973). One pass over the data serves both. Errors are summed up at the parameters that the last step
//! foretold, so that the projection only corrects and loses no digits. The curvature has second derivatives of the shape
//! wherever that leaves it positive: without them, noise makes each step only halve what is left to go.

use crate::estimate::least_squares::{Bounds, Minimum, Normal, Search, is_positive, minimise};

/// A curve: how much of a shape, and above what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters<const N: usize> {
    pub amplitude: f64,
    pub shape: [f64; N],
    pub asymptote: f64,
}

/// Weighted sums over the data, `r` being the error, `e` the shape's value and `e_i` its derivatives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sums<const N: usize> {
    /// `r r`.
    pub cost: f64,
    /// `r`, `r e`, and `r e_i`.
    pub r: f64,
    pub r_e: f64,
    pub r_d: [f64; N],
    /// 1, `e`, `e e`.
    pub one: f64,
    pub e: f64,
    pub e_e: f64,
    /// `e_i`, `e e_i`, `e_i e_j`.
    pub d: [f64; N],
    pub e_d: [f64; N],
    pub d_d: [[f64; N]; N],
    /// With second derivatives: `r e_ij`, `e e_ij`, `e_ij`.
    pub dd: [[[f64; 3]; N]; N],
}

/// The least and the greatest asymptote. The amplitude is never negative.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asymptotes {
    pub low: f64,
    pub high: f64,
}

/// The best curve of a shape, and the equations that are left for the shape.
struct Projected<const N: usize> {
    curve: Parameters<N>,
    reduced: Normal<N>,
    /// How the amplitude and the asymptote follow when the shape changes.
    follows: [[f64; N]; 2],
    /// Which of the two are free.
    free: [bool; 2],
    sums: Sums<N>,
}

/// The best curve, with all that is known there.
pub(super) struct Found<const N: usize> {
    pub curve: Parameters<N>,
    pub cost: f64,
    /// The shape's parameters that do not press against a bound, and whether amplitude and asymptote are free.
    pub free: ([bool; N], [bool; 2]),
    pub sums: Sums<N>,
}

impl<const N: usize> Found<N> {
    /// The equations of all parameters, amplitude first and asymptote last, and which of them are free.
    pub(super) fn equations<const P: usize>(&self) -> ([[f64; P]; P], [bool; P]) {
        let (sums, a, end) = (&self.sums, self.curve.amplitude, P - 1);
        let mut matrix = [[0.0; P]; P];
        let mut free = [false; P];
        (matrix[0][0], matrix[0][end], matrix[end][end]) = (sums.e_e, sums.e, sums.one);
        (free[0], free[end]) = (self.free.1[0], self.free.1[1]);
        for i in 0..N {
            free[1 + i] = self.free.0[i];
            (matrix[0][1 + i], matrix[1 + i][end]) = (a * sums.e_d[i], a * sums.d[i]);
            for j in i..N {
                matrix[1 + i][1 + j] = a * a * sums.d_d[i][j];
            }
        }
        let matrix = std::array::from_fn(|i| std::array::from_fn(|j| matrix[i.min(j)][i.max(j)]));
        (matrix, free)
    }
}

/// Searches the best curve from a start.
pub(super) fn search<const N: usize>(
    start: Parameters<N>,
    bounds: &Bounds<N>,
    asymptotes: Asymptotes,
    search: Search,
    mut sum_up: impl FnMut(&Parameters<N>) -> Sums<N>,
) -> Option<Found<N>> {
    let mut best: Option<Projected<N>> = None;
    let minimum: Minimum<N> = minimise(start.shape, bounds, search, |shape| {
        let foretold = best.as_ref().map_or(start, |best| best.foretell(shape, asymptotes));
        let foretold = Parameters { shape: *shape, ..foretold };
        let projected = project(foretold, sum_up(&foretold), asymptotes);
        let reduced = projected.reduced;
        if best.as_ref().is_none_or(|best| reduced.cost < best.reduced.cost) {
            best = Some(projected);
        }
        reduced
    })?;
    let Projected { curve, reduced, free, sums, .. } = best?;
    Some(Found { curve, cost: reduced.cost, free: (minimum.free, free), sums })
}

/// The cost of the best curve of a shape.
pub(super) fn cost<const N: usize>(
    curve: &Parameters<N>,
    asymptotes: Asymptotes,
    sum_up: impl FnOnce(&Parameters<N>) -> Sums<N>,
) -> (f64, Parameters<N>) {
    let projected = project(*curve, sum_up(curve), asymptotes);
    (projected.reduced.cost, projected.curve)
}

impl<const N: usize> Projected<N> {
    fn foretell(&self, shape: &[f64; N], asymptotes: Asymptotes) -> Parameters<N> {
        let Parameters { amplitude, shape: from, asymptote } = self.curve;
        let along = |row: &[f64; N]| (0..N).map(|i| row[i] * (shape[i] - from[i])).sum::<f64>();
        Parameters {
            amplitude: (amplitude + along(&self.follows[0])).max(0.0),
            shape: *shape,
            asymptote: (asymptote + along(&self.follows[1])).max(asymptotes.low).min(asymptotes.high),
        }
    }
}

/// Moves amplitude and asymptote to where they are best.
fn project<const N: usize>(at: Parameters<N>, sums: Sums<N>, asymptotes: Asymptotes) -> Projected<N> {
    let (step, free) = linear_step(&at, &sums, asymptotes);
    let [x, y] = step;
    let curve = Parameters { amplitude: at.amplitude + x, shape: at.shape, asymptote: at.asymptote + y };
    let a = curve.amplitude;
    let inverse = inverse(&sums, free);
    let slope: [f64; N] = std::array::from_fn(|i| sums.r_d[i] + sums.e_d[i] * x + sums.d[i] * y);
    // How amplitude and asymptote bend with the shape, without the errors' part and with it.
    let plain: [[f64; 2]; N] = std::array::from_fn(|i| [a * sums.e_d[i], a * sums.d[i]]);
    let whole: [[f64; 2]; N] = std::array::from_fn(|i| [plain[i][0] + slope[i], plain[i][1]]);
    let bent = |by: &[[f64; 2]; N], own: &dyn Fn(usize, usize) -> f64| -> [[f64; N]; N] {
        let follow = |i: usize, j: usize| {
            let through = |row: usize| inverse[row][0] * by[j][0] + inverse[row][1] * by[j][1];
            by[i][0] * through(0) + by[i][1] * through(1)
        };
        std::array::from_fn(|i| std::array::from_fn(|j| own(i, j) - follow(i, j)))
    };
    let gauss = bent(&plain, &|i, j| a * a * sums.d_d[i][j]);
    let errors = |[r, e, one]: [f64; 3]| r + e * x + one * y;
    let newton = bent(&whole, &|i, j| a * (a * sums.d_d[i][j] + errors(sums.dd[i][j])));
    let sound = (0..N).all(|i| newton[i][i] >= 0.1 * gauss[i][i]) && is_positive(&newton);
    let by = if sound { &whole } else { &plain };
    let follows = std::array::from_fn(|row| {
        std::array::from_fn(|i| -inverse[row][0] * by[i][0] - inverse[row][1] * by[i][1])
    });
    let reduced = Normal {
        cost: (sums.cost + change(&sums, step)).max(0.0),
        gradient: slope.map(|slope| a * slope),
        curvature: if sound { newton } else { gauss },
    };
    Projected { curve, reduced, follows, free, sums }
}

/// By how much the cost changes with amplitude and asymptote.
fn change<const N: usize>(sums: &Sums<N>, [x, y]: [f64; 2]) -> f64 {
    2.0 * (sums.r_e * x + sums.r * y) + sums.e_e * x * x + 2.0 * sums.e * x * y + sums.one * y * y
}

/// A shape that is all but level cannot be told from the asymptote.
fn is_level<const N: usize>(sums: &Sums<N>) -> bool {
    sums.e_e * sums.one - sums.e * sums.e <= 1e-13 * sums.e_e * sums.one
}

fn inverse<const N: usize>(sums: &Sums<N>, free: [bool; 2]) -> [[f64; 2]; 2] {
    match free {
        [true, true] => {
            let scale = 1.0 / (sums.e_e * sums.one - sums.e * sums.e);
            [[sums.one * scale, -sums.e * scale], [-sums.e * scale, sums.e_e * scale]]
        }
        [true, false] => [[1.0 / sums.e_e, 0.0], [0.0, 0.0]],
        [false, true] => [[0.0, 0.0], [0.0, 1.0 / sums.one]],
        [false, false] => [[0.0; 2]; 2],
    }
}

/// The step to the best amplitude and asymptote within their bounds, and which of the two press against none.
fn linear_step<const N: usize>(
    at: &Parameters<N>,
    sums: &Sums<N>,
    asymptotes: Asymptotes,
) -> ([f64; 2], [bool; 2]) {
    let Asymptotes { low, high } = asymptotes;
    let (down, up) = (low - at.asymptote, high - at.asymptote);
    if low < high && !is_level(sums) {
        let inverse = inverse(sums, [true, true]);
        let step = inverse.map(|row| -row[0] * sums.r_e - row[1] * sums.r);
        if at.amplitude + step[0] >= 0.0 && (down..=up).contains(&step[1]) {
            return (step, [true, true]);
        }
    }
    let beside = |y: f64| {
        let x = -(sums.r_e + sums.e * y) / sums.e_e;
        let x = if x.is_finite() { x } else { 0.0 };
        let held = x.max(-at.amplitude);
        ([held, y], [held == x, false])
    };
    let y = (-(sums.r - sums.e * at.amplitude) / sums.one).max(down).min(up);
    let level = ([-at.amplitude, y], [false, (down < y) && (y < up)]);
    [beside(up), level].into_iter().fold(beside(down), |best, other| {
        if change(sums, other.0) < change(sums, best.0) { other } else { best }
    })
}
