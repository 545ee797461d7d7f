//! Weighted least squares within bounds for a handful of parameters: the method of Levenberg and Marquardt (SIAM Journal
//! 1963), with each step solved inside the box. It works on normal equations, which the caller sums up in one pass over
//! its data. That costs half of the digits, but a job's loss curve is fitted anew at each report, in microseconds.

/// The normal equations of `sum w (f(p) - y)^2` at some parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Normal<const P: usize> {
    /// The weighted sum of squares.
    pub cost: f64,
    /// Half of its gradient: `sum w r df`.
    pub gradient: [f64; P],
    /// Half of its second derivative, as far as that comes from first ones: `sum w df df'`.
    pub curvature: [[f64; P]; P],
}

impl<const P: usize> Normal<P> {
    fn is_finite(&self) -> bool {
        let sum = self.gradient.iter().chain(self.curvature.iter().flatten()).sum::<f64>();
        self.cost.is_finite() && sum.is_finite()
    }
}

/// The box that parameters stay in. A parameter whose bounds are equal is fixed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds<const P: usize> {
    /// The least values.
    pub low: [f64; P],
    /// The greatest values.
    pub high: [f64; P],
}

impl<const P: usize> Bounds<P> {
    /// The nearest point in the box.
    pub(super) fn clamp(&self, mut p: [f64; P]) -> [f64; P] {
        for ((value, low), high) in p.iter_mut().zip(self.low).zip(self.high) {
            *value = value.max(low).min(high);
        }
        p
    }
}

/// Where the search ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Minimum<const P: usize> {
    /// The parameters.
    pub at: [f64; P],
    /// Parameters that do not press against a bound.
    pub free: [bool; P],
}

/// How to search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    /// Passes over the data at most.
    pub passes: u32,
    /// The damping of the first step, relative to the curvature. Less when the start is known to be near.
    pub damping: f64,
    /// A cost so low is nought.
    pub nought: f64,
}

/// A step that promises to lower the cost by less than this share of it is not taken any more: what the data leave open is
/// a thousand times as much.
const TOLERANCE: f64 = 1e-7;
const FELT: f64 = 1e-2;
const DAMPING: std::ops::RangeInclusive<f64> = 1e-12..=1e12;

/// Searches the least cost from a start. Nothing if the start itself has none.
pub(super) fn minimise<const P: usize>(
    start: [f64; P],
    bounds: &Bounds<P>,
    search: Search,
    mut normal_at: impl FnMut(&[f64; P]) -> Normal<P>,
) -> Option<Minimum<P>> {
    let mut at = bounds.clamp(start);
    let mut normal = normal_at(&at);
    if !normal.is_finite() {
        return None;
    }
    let mut damping = search.damping;
    for _ in 1..search.passes {
        let step = step_within(&normal, damping, &at, bounds);
        let promised = step.map_or(0.0, |step| decrease(&normal, &step));
        let settled = step.is_some() && promised <= TOLERANCE * normal.cost && damping < 1.0;
        if normal.cost <= search.nought || settled || !DAMPING.contains(&damping) {
            break;
        }
        let next = step.map(|step| bounds.clamp(std::array::from_fn(|i| at[i] + step[i])));
        let better = next
            .map(|next| (next, normal_at(&next)))
            .filter(|(_, found)| found.cost < normal.cost && found.is_finite());
        if let Some(better) = better {
            // How much of its promise a step kept shows how well the equations describe the ground.
            let kept = (normal.cost - better.1.cost) / promised;
            damping *= if kept > 0.75 {
                0.1
            } else if kept > 0.25 {
                1.0
            } else {
                4.0
            };
            damping = damping.max(*DAMPING.start());
            (at, normal) = better;
        } else {
            // Less would hardly shorten the step.
            damping = (10.0 * damping).max(FELT);
        }
    }
    let free = std::array::from_fn(|i| !presses(&normal, &at, bounds, i));
    Some(Minimum { at, free })
}

fn presses<const P: usize>(normal: &Normal<P>, at: &[f64; P], bounds: &Bounds<P>, i: usize) -> bool {
    let (low, high, slope) = (bounds.low[i], bounds.high[i], normal.gradient[i]);
    low >= high || (at[i] <= low && slope >= 0.0) || (at[i] >= high && slope <= 0.0)
}

/// By how much a step lowers the cost, if the equations hold.
fn decrease<const P: usize>(normal: &Normal<P>, step: &[f64; P]) -> f64 {
    let mut sum = 0.0;
    for i in 0..P {
        let bent: f64 = (0..P).map(|j| normal.curvature[i][j] * step[j]).sum();
        sum -= step[i] * (2.0 * normal.gradient[i] + bent);
    }
    sum
}

/// The damped step, held within the bounds: what would leave them stops there, and the rest is solved anew.
fn step_within<const P: usize>(
    normal: &Normal<P>,
    damping: f64,
    at: &[f64; P],
    bounds: &Bounds<P>,
) -> Option<[f64; P]> {
    let mut held: [Option<f64>; P] = std::array::from_fn(|i| presses(normal, at, bounds, i).then_some(0.0));
    loop {
        let step = solve(normal, damping, &held)?;
        let mut left = false;
        for i in 0..P {
            let (down, up) = (bounds.low[i] - at[i], bounds.high[i] - at[i]);
            if held[i].is_none() && !(down..=up).contains(&step[i]) {
                held[i] = Some(step[i].max(down).min(up));
                left = true;
            }
        }
        if !left {
            return Some(step);
        }
    }
}

/// The step, where some of its parts are given.
fn solve<const P: usize>(normal: &Normal<P>, damping: f64, held: &[Option<f64>; P]) -> Option<[f64; P]> {
    let mut matrix = [[0.0; P]; P];
    let mut right = [0.0; P];
    for i in 0..P {
        if let Some(step) = held[i] {
            (matrix[i][i], right[i]) = (1.0, step);
            continue;
        }
        right[i] = -normal.gradient[i];
        for j in 0..P {
            match held[j] {
                Some(step) => right[i] -= normal.curvature[i][j] * step,
                None => matrix[i][j] = normal.curvature[i][j],
            }
        }
        // A parameter without any effect stays where it is.
        matrix[i][i] = (1.0 + damping) * if matrix[i][i] > 0.0 { matrix[i][i] } else { 1.0 };
    }
    solve_positive(&matrix, right)
}

/// Solves a symmetric system. Nothing if the matrix is not positive, to working precision.
pub(super) fn solve_positive<const P: usize>(
    matrix: &[[f64; P]; P],
    mut right: [f64; P],
) -> Option<[f64; P]> {
    let factor = cholesky(matrix)?;
    for i in 0..P {
        for j in 0..i {
            right[i] -= factor[i][j] * right[j];
        }
        right[i] /= factor[i][i];
    }
    for i in (0..P).rev() {
        for j in i + 1..P {
            right[i] -= factor[j][i] * right[j];
        }
        right[i] /= factor[i][i];
    }
    Some(right)
}

/// Whether a symmetric matrix is positive, to working precision.
pub(super) fn is_positive<const P: usize>(matrix: &[[f64; P]; P]) -> bool {
    cholesky(matrix).is_some()
}

/// The lower factor of a symmetric matrix. Nothing if the matrix is not positive, to working precision.
fn cholesky<const P: usize>(matrix: &[[f64; P]; P]) -> Option<[[f64; P]; P]> {
    let mut factor = [[0.0; P]; P];
    for i in 0..P {
        for j in 0..=i {
            let known: f64 = (0..j).map(|m| factor[i][m] * factor[j][m]).sum();
            let rest = matrix[i][j] - known;
            if i != j {
                factor[i][j] = rest / factor[j][j];
            } else if rest > 1e-14 * matrix[i][i] {
                factor[i][i] = rest.sqrt();
            } else {
                return None;
            }
        }
    }
    Some(factor)
}

/// Columns whose squares add up to the inverse of a curvature, over the free parameters: with errors of the data of
/// spread one, each is a step of one standard deviation, and the columns are independent of each other.
pub(super) fn deviations<const P: usize>(
    curvature: &[[f64; P]; P],
    free: [bool; P],
) -> Option<[[f64; P]; P]> {
    let matrix: [[f64; P]; P] = std::array::from_fn(|i| {
        std::array::from_fn(|j| match (free[i] && free[j], i == j) {
            (true, true) => curvature[i][i] * (1.0 + 1e-12),
            (true, false) => curvature[i][j],
            (false, same) => f64::from(u8::from(same)),
        })
    });
    let factor = cholesky(&matrix)?;
    let mut columns = [[0.0; P]; P];
    for (c, column) in columns.iter_mut().enumerate().filter(|(c, _)| free[*c]) {
        // Solves the transposed factor for a unit vector.
        for i in (0..=c).rev().filter(|i| free[*i]) {
            let known: f64 = (i + 1..=c).map(|j| factor[j][i] * column[j]).sum();
            column[i] = (f64::from(u8::from(i == c)) - known) / factor[i][i];
        }
    }
    Some(columns)
}
