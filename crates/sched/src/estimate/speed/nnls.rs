//! Least squares with coefficients that are not negative: the active-set method of Lawson and Hanson (Solving Least
//! Squares Problems, 1974, chapter 23), for a handful of unknowns. It works on the normal equations of scaled columns, so
//! the number of rows costs nothing beyond forming them.

/// The sums that a least-squares problem of `N` unknowns is made of. Rows are added one by one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormalEquations<const N: usize> {
    /// Sums of products of columns.
    products: [[f64; N]; N],
    /// Sums of products of columns with the right side.
    targets: [f64; N],
}

impl<const N: usize> Default for NormalEquations<N> {
    fn default() -> Self {
        Self { products: [[0.0; N]; N], targets: [0.0; N] }
    }
}

impl<const N: usize> NormalEquations<N> {
    /// Adds a row: its coefficients and what they should add up to.
    pub fn add(&mut self, row: [f64; N], target: f64) {
        for i in 0..N {
            self.targets[i] += row[i] * target;
            for j in 0..N {
                self.products[i][j] += row[i] * row[j];
            }
        }
    }

    /// The coefficients, none of them negative, with the least sum of squares.
    pub fn solve_non_negative(&self) -> [f64; N] {
        let scale: [f64; N] = std::array::from_fn(|i| self.products[i][i].sqrt());
        let scaled = self.scaled(&scale);
        // What is left of a gradient of length one by rounding.
        let tolerance = 1e-12 * scaled.targets.iter().fold(0.0, |most: f64, target| most.max(target.abs()));
        let mut x = [0.0; N];
        let mut passive = [false; N];
        let mut spoilt = [false; N];
        // Each round makes the sum of squares smaller, so no set of unknowns comes twice; the bound is for rounding.
        for _ in 0..3 * N {
            let gradient = scaled.gradient(&x);
            let able = |i: &usize| !passive[*i] && !spoilt[*i] && scale[*i] > 0.0 && gradient[*i] > tolerance;
            let Some(best) = (0..N).filter(able).max_by(|a, b| gradient[*a].total_cmp(&gradient[*b])) else {
                break;
            };
            passive[best] = true;
            if !scaled.descend(&mut x, &mut passive, best) {
                passive[best] = false;
                spoilt[best] = true;
            }
        }
        std::array::from_fn(|i| if passive[i] { x[i] / scale[i] } else { 0.0 })
    }

    fn scaled(&self, scale: &[f64; N]) -> Self {
        let by = |i: usize| if scale[i] > 0.0 { 1.0 / scale[i] } else { 0.0 };
        let products = std::array::from_fn(|i| std::array::from_fn(|j| self.products[i][j] * by(i) * by(j)));
        Self { products, targets: std::array::from_fn(|i| self.targets[i] * by(i)) }
    }

    fn gradient(&self, x: &[f64; N]) -> [f64; N] {
        std::array::from_fn(|i| self.targets[i] - (0..N).map(|j| self.products[i][j] * x[j]).sum::<f64>())
    }

    /// Goes to the least squares of the passive unknowns, or as far as none of them turns negative, and on from there
    /// without it. Returns false if the newly passive one cannot be solved for or would be negative at once.
    fn descend(&self, x: &mut [f64; N], passive: &mut [bool; N], newest: usize) -> bool {
        let mut is_first = true;
        loop {
            let Some(goal) = self.solve(passive) else { return false };
            if is_first && goal[newest] <= 0.0 {
                return false;
            }
            is_first = false;
            let negative = |i: &usize| passive[*i] && goal[*i] <= 0.0;
            let step = |i: usize| x[i] / (x[i] - goal[i]);
            let Some(far) = (0..N).filter(negative).map(step).min_by(f64::total_cmp) else {
                *x = goal;
                return true;
            };
            for i in (0..N).filter(|i| passive[*i]).collect::<Vec<_>>() {
                x[i] += far * (goal[i] - x[i]);
                if goal[i] <= 0.0 && x[i] <= 1e-15 {
                    x[i] = 0.0;
                    passive[i] = false;
                }
            }
        }
    }

    /// Least squares of the chosen unknowns, the others being 0; by elimination with pivots. `None` where they cannot be
    /// told apart.
    pub fn solve(&self, chosen: &[bool; N]) -> Option<[f64; N]> {
        let columns: Vec<usize> = (0..N).filter(|i| chosen[*i]).collect();
        let n = columns.len();
        let row = |i: usize| -> Vec<f64> {
            columns.iter().map(|j| self.products[i][*j]).chain([self.targets[i]]).collect()
        };
        let mut rows: Vec<Vec<f64>> = columns.iter().map(|i| row(*i)).collect();
        for k in 0..n {
            let pivot = (k..n).max_by(|a, b| rows[*a][k].abs().total_cmp(&rows[*b][k].abs()))?;
            rows.swap(k, pivot);
            if rows[k][k].abs() < 1e-12 {
                return None;
            }
            let top = rows[k].clone();
            for lower in &mut rows[k + 1..] {
                let factor = lower[k] / top[k];
                lower[k..].iter_mut().zip(&top[k..]).for_each(|(a, b)| *a -= factor * b);
            }
        }
        let mut x = [0.0; N];
        for k in (0..n).rev() {
            let known: f64 = (k + 1..n).map(|j| rows[k][j] * x[columns[j]]).sum();
            x[columns[k]] = (rows[k][n] - known) / rows[k][k];
        }
        Some(x)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn squares<const N: usize>(rows: &[([f64; N], f64)], x: &[f64; N]) -> f64 {
        let miss = |(row, target): &([f64; N], f64)| {
            (target - row.iter().zip(x).map(|(a, b)| a * b).sum::<f64>()).powi(2)
        };
        rows.iter().map(miss).sum()
    }

    /// The best of all choices of unknowns whose least squares are not negative.
    fn by_trying_all<const N: usize>(rows: &[([f64; N], f64)]) -> [f64; N] {
        let mut equations = NormalEquations::default();
        rows.iter().for_each(|(row, target)| equations.add(*row, *target));
        let subsets = (0..1_u32 << N).filter_map(|set| {
            let x = equations.solve(&std::array::from_fn(|i| set >> i & 1 == 1))?;
            x.iter().all(|value| *value >= 0.0).then_some(x)
        });
        subsets
            .min_by(|a, b| squares(rows, a).total_cmp(&squares(rows, b)))
            .expect("nothing at all is one of them")
    }

    fn ours<const N: usize>(rows: &[([f64; N], f64)]) -> [f64; N] {
        let mut equations = NormalEquations::default();
        rows.iter().for_each(|(row, target)| equations.add(*row, *target));
        equations.solve_non_negative()
    }

    #[test]
    fn a_negative_coefficient_is_left_out_and_the_rest_fitted_anew() {
        // By least squares alone it would be 4 x - 2 y; without y it is 2.8 x.
        let rows = [([1.0, 1.0], 2.0), ([2.0, 1.0], 6.0)];
        assert_eq!(ours(&rows), [2.8, 0.0]);
        assert_eq!(ours(&[([0.0, 1.0], 3.0)]), [0.0, 3.0], "a column of zeros is nothing");
        assert_eq!(ours::<2>(&[]), [0.0, 0.0]);
    }

    proptest! {
        #[test]
        fn it_is_as_good_as_trying_all_choices(
            rows in prop::collection::vec((prop::array::uniform5(0.0..4.0), -3.0..9.0), 1..14),
        ) {
            let (found, best) = (ours(&rows), by_trying_all(&rows));
            prop_assert!(found.iter().all(|value| *value >= 0.0), "{found:?}");
            let (a, b) = (squares(&rows, &found), squares(&rows, &best));
            prop_assert!(a <= b + 1e-6 * (1.0 + b), "{a} with {found:?}, but {b} with {best:?}");
        }

        #[test]
        fn what_was_made_without_noise_is_found_again(x in prop::array::uniform4(0.01..2.0)) {
            let x: [f64; 4] = x;
            let sizes = [(1.0, 1.0), (1.0, 4.0), (4.0, 1.0), (2.0, 8.0), (8.0, 2.0), (4.0, 4.0)];
            let rows = sizes.map(|(w, p): (f64, f64)| {
                let row = [1.0, w / p, w, p];
                (row, row.iter().zip(x).map(|(a, b)| a * b).sum::<f64>())
            });
            let found: [f64; 4] = ours(&rows);
            let miss = (0..4).map(|i: usize| (found[i] - x[i]).abs()).fold(0.0, f64::max);
            prop_assert!(miss < 1e-6, "{found:?} is not {x:?}");
        }
    }
}
