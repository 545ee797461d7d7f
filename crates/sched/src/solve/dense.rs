//! Dense symmetric systems: the method of Cholesky, in place, row by row.

/// A lower triangle, row by row: row `i` has `i + 1` numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Triangle {
    size: usize,
    values: Vec<f64>,
}

/// Several sums side by side, so that one addition need not wait for the last. Their order is fixed.
const LANES: usize = 8;

/// The product of two vectors.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; LANES];
    let (a, b) = (&a[..a.len().min(b.len())], &b[..a.len().min(b.len())]);
    let (whole_a, rest_a) = a.as_chunks::<LANES>();
    let (whole_b, rest_b) = b.as_chunks::<LANES>();
    for (a, b) in whole_a.iter().zip(whole_b) {
        for i in 0..LANES {
            lanes[i] += a[i] * b[i];
        }
    }
    let rest: f64 = rest_a.iter().zip(rest_b).map(|(a, b)| a * b).sum();
    lanes.iter().sum::<f64>() + rest
}

const fn row_start(row: usize) -> usize {
    row * (row + 1) / 2
}

impl Triangle {
    /// All zeros.
    pub(super) fn reset(&mut self, size: usize) {
        self.size = size;
        self.values.clear();
        self.values.resize(row_start(size), 0.0);
    }

    /// Adds to the entry at a row and a column that does not lie right of it.
    pub(super) fn add(&mut self, row: usize, column: usize, value: f64) {
        self.values[row_start(row) + column] += value;
    }

    /// Adds a multiple of `v v'`.
    pub(super) fn add_square(&mut self, v: &[f64], factor: f64) {
        for row in 0..self.size {
            let by = factor * v[row];
            let start = row_start(row);
            self.values[start..=start + row].iter_mut().zip(v).for_each(|(value, v)| *value += by * v);
        }
    }

    /// Factors it in place. A pivot below its floor is taken for the floor.
    pub(super) fn factor(&mut self, floors: &[f64]) {
        for i in 0..self.size {
            let (done, rest) = self.values.split_at_mut(row_start(i));
            let row = &mut rest[..=i];
            for j in 0..i {
                let other = &done[row_start(j)..=row_start(j) + j];
                row[j] = (row[j] - dot(&row[..j], &other[..j])) / other[j];
            }
            let square = row[i] - dot(&row[..i], &row[..i]);
            row[i] = square.max(floors[i]).sqrt();
        }
    }

    /// Solves for a right side in place, once factored.
    pub(super) fn solve(&self, right: &mut [f64]) {
        for i in 0..self.size {
            let row = &self.values[row_start(i)..=row_start(i) + i];
            right[i] = (right[i] - dot(&row[..i], &right[..i])) / row[i];
        }
        for i in (0..self.size).rev() {
            let row = &self.values[row_start(i)..=row_start(i) + i];
            right[i] /= row[i];
            let known = right[i];
            right[..i].iter_mut().zip(row).for_each(|(value, entry)| *value -= known * entry);
        }
    }
}
