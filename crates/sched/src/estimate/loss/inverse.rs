//! The convergence curve of Optimus (EuroSys 2018, section 3.1): `1 / (b0 k + b1) + b2`, no coefficient negative. Its code
//! fits with a spread of 1, 1/4 and 1/16 for the oldest, middle and newest third of the points, from three points on. The
//! curve is the sublinear one without its quadratic term, so it is fitted by the same search, in units of the loss rather
//! than by non-negative least squares on its inverse.

use crate::model::LossPoint;

use super::window::Window;
use super::{Fit, families, fitter};

/// The weights of the thirds, which are one over the squares of the spreads.
const THIRDS: [f64; 3] = [1.0, 16.0, 256.0];
const LEAST_POINTS: usize = 3;

/// Fits Optimus's curve to all of some points. Nothing with fewer than three, if they are all the same, or if one is below 0.
pub fn fit_inverse(points: &[LossPoint]) -> Option<Fit> {
    let count = points.len();
    if count < LEAST_POINTS || points.iter().any(|point| point.loss < 0.0) {
        return None;
    }
    let weight = |i: usize| THIRDS[i * THIRDS.len() / count] / THIRDS[2];
    let window = Window::weighted(points, weight)?;
    let found = families::sublinear::fit_inverse(&window)?;
    fitter::sublinear_fit(&window, &found)
}
