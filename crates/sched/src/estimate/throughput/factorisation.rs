//! A matrix with gaps, filled in by the product of two factors of low rank: probabilistic matrix factorisation (Salakhutdinov
//! and Mnih, NIPS 2007), by alternating least squares, as the public code of Gavel has it: rank 10, penalty 0.01, until the
//! product hardly changes. Filled-in values are shares and stay between 0 and 1.

use crate::estimate::least_squares::solve_positive;
use crate::model::Seed;

const RANK: usize = 10;
/// What the squares of the factors' entries cost.
const PENALTY: f64 = 0.01;
/// When the mean square of changes of the product is below this, or after so many passes, it ends.
const SETTLED: f64 = 1e-6;
const MOST_PASSES: u32 = 100;

type Factor = [f64; RANK];

/// All entries: known ones as they are, and what the factors say where there are none. The same seed gives the same matrix.
pub fn complete(matrix: &[Vec<Option<f64>>], seed: Seed) -> Vec<Vec<f64>> {
    let width = matrix.first().map_or(0, Vec::len);
    let mut rows = start(matrix.len(), seed.branch("rows"));
    let mut columns = start(width, seed.branch("columns"));
    let mut last: Option<Vec<Vec<f64>>> = None;
    for _ in 0..MOST_PASSES {
        for (row, factor) in rows.iter_mut().enumerate() {
            let known = (0..width).filter_map(|column| Some((columns[column], matrix[row][column]?)));
            *factor = fitted(known);
        }
        for (column, factor) in columns.iter_mut().enumerate() {
            let known = (0..matrix.len()).filter_map(|row| Some((rows[row], matrix[row][column]?)));
            *factor = fitted(known);
        }
        let next: Vec<Vec<f64>> =
            rows.iter().map(|row| columns.iter().map(|column| dot(row, column)).collect()).collect();
        let is_settled = last.as_ref().is_some_and(|last| change(last, &next) < SETTLED);
        last = Some(next);
        if is_settled {
            break;
        }
    }
    let filled = last.unwrap_or_default();
    let cell = |(known, filled): (&Option<f64>, f64)| known.unwrap_or(filled.clamp(0.0, 1.0));
    matrix.iter().zip(filled).map(|(known, filled)| known.iter().zip(filled).map(cell).collect()).collect()
}

fn dot(a: &Factor, b: &Factor) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn change(last: &[Vec<f64>], next: &[Vec<f64>]) -> f64 {
    let pairs = last.iter().flatten().zip(next.iter().flatten());
    let count = last.iter().map(Vec::len).sum::<usize>().max(1);
    pairs.map(|(a, b)| (a - b) * (a - b)).sum::<f64>() / count as f64
}

/// The factor that fits what is known beside other factors, with its penalty.
fn fitted(known: impl Iterator<Item = (Factor, f64)>) -> Factor {
    let mut products = [[0.0; RANK]; RANK];
    let mut right = [0.0; RANK];
    for (factor, value) in known {
        for i in 0..RANK {
            right[i] += factor[i] * value;
            for j in 0..RANK {
                products[i][j] += factor[i] * factor[j];
            }
        }
    }
    (0..RANK).for_each(|i| products[i][i] += PENALTY);
    solve_positive(&products, right).expect("the penalty keeps it positive")
}

/// Random factors: sums of uniform numbers, with the mean and spread of a standard normal variable, nearly.
fn start(count: usize, seed: Seed) -> Vec<Factor> {
    let mut drawn = 0;
    let mut normal = || {
        let uniform = (0..12).map(|_| {
            drawn += 1;
            (seed.numbered(drawn).0 >> 11) as f64 / (1_u64 << 53) as f64
        });
        uniform.sum::<f64>() - 6.0
    };
    (0..count).map(|_| std::array::from_fn(|_| normal())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A matrix of rank two with values between 0 and 1.
    fn value(row: usize, column: usize) -> f64 {
        let (a, b) = (row as f64 / 20.0, column as f64 / 30.0);
        0.3 + 0.4 * a * b + 0.2 * (1.0 - a) * (1.0 - b)
    }

    #[test]
    fn gaps_in_a_matrix_of_low_rank_are_filled() {
        let is_gap = |row: usize, column: usize| (row * 7 + column * 3).is_multiple_of(4);
        let known = |row, column| (!is_gap(row, column)).then(|| value(row, column));
        let matrix: Vec<Vec<_>> =
            (0..20).map(|row| (0..30).map(|column| known(row, column)).collect()).collect();
        let filled = complete(&matrix, Seed(5));
        let mut squares = 0.0;
        for (row, column) in (0..20).flat_map(|row| (0..30).map(move |column| (row, column))) {
            let miss = filled[row][column] - value(row, column);
            if is_gap(row, column) {
                squares += miss * miss;
            } else {
                assert_eq!(miss, 0.0, "what is known stays");
            }
        }
        let spread = (squares / 150.0).sqrt();
        assert!(spread < 0.03, "{spread}");
        assert_eq!(filled, complete(&matrix, Seed(5)), "the same seed gives the same");
    }

    #[test]
    fn what_is_filled_in_is_a_share() {
        let matrix = vec![vec![Some(1.0), Some(1.0), None], vec![Some(3.0), None, Some(9.0)], vec![None; 3]];
        let filled = complete(&matrix, Seed(0));
        assert!(filled[0][2] <= 1.0 && filled[1][1] <= 1.0, "{filled:?}");
        assert_eq!(filled[1][2], 9.0);
        assert!(filled[2].iter().all(|value| *value == 0.0), "nothing is known of the last row: {filled:?}");
    }
}
