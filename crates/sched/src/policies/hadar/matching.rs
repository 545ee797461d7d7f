//! Which job goes to which node: an assignment of the largest weight.

use crate::solve;

/// Gives each row a place in a column, each of which has so many, or none, so that as many rows as possible get one and, among all
/// such ways, the sum of the weights is largest. `weight` is `None` where a row may not have a column; weights are not negative.
pub(super) fn assign(
    rows: usize,
    places: &[usize],
    weight: impl Fn(usize, usize) -> Option<f64>,
) -> Vec<Option<usize>> {
    let columns = places.len();
    if rows == 0 || columns == 0 {
        return vec![None; rows];
    }
    let given: Vec<Option<f64>> = (0..rows * columns).map(|at| weight(at / columns, at % columns)).collect();
    let most = given.iter().flatten().copied().fold(0.0, f64::max);
    // One more row that gets a place is worth more than all weights together. A further column with a place for each row stands
    // for none; whoever would have to take a column that it may not have rather takes that.
    let bonus = (most + 1.0) * (rows as f64 + 1.0);
    let cost = |row: usize, column: usize| match column < columns {
        true => given[row * columns + column].map_or(bonus, |weight| -weight - bonus),
        false => 0.0,
    };
    let places: Vec<usize> = places.iter().copied().chain([rows]).collect();
    let chosen = solve::assign(rows, &places, cost);
    chosen.into_iter().map(|column| (column < columns).then_some(column)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Seed;

    fn worth(weights: &[Vec<Option<f64>>], found: &[Option<usize>]) -> (usize, f64) {
        let given = found.iter().zip(weights).filter_map(|(column, row)| row[(*column)?]);
        given.fold((0, 0.0), |(count, sum), weight| (count + 1, sum + weight))
    }

    /// The best of all ways, tried one by one.
    fn best(weights: &[Vec<Option<f64>>], row: usize, taken: u32) -> (usize, f64) {
        let Some(own) = weights.get(row) else { return (0, 0.0) };
        let mut best_of = best(weights, row + 1, taken);
        for (column, weight) in own.iter().enumerate().filter(|(column, _)| taken >> column & 1 == 0) {
            if let Some(weight) = weight {
                let (count, sum) = best(weights, row + 1, taken | 1 << column);
                let with = (count + 1, sum + weight);
                if with.0 > best_of.0 || (with.0 == best_of.0 && with.1 > best_of.1) {
                    best_of = with;
                }
            }
        }
        best_of
    }

    #[test]
    fn it_is_as_good_as_the_best_of_all_ways() {
        for seed in 0..400_u64 {
            let draw = |at: u64| Seed(seed).numbered(at).0;
            let (rows, columns) = ((draw(0) % 6) as usize, (draw(1) % 6) as usize);
            let entry = |row: usize, column: usize| {
                let drawn = draw(2 + (row * 8 + column) as u64);
                (drawn % 5 > 0).then_some((drawn >> 8) as f64 % 7.0)
            };
            let weights: Vec<Vec<Option<f64>>> =
                (0..rows).map(|row| (0..columns).map(|column| entry(row, column)).collect()).collect();
            let found = assign(rows, &vec![1; columns], |row, column| weights[row][column]);
            let mut used: Vec<usize> = found.iter().flatten().copied().collect();
            used.sort_unstable();
            assert!(used.windows(2).all(|pair| pair[0] < pair[1]), "{found:?}");
            assert_eq!(worth(&weights, &found), best(&weights, 0, 0), "seed {seed}: {weights:?} {found:?}");
        }
    }

    #[test]
    fn a_row_gets_a_column_rather_than_another_a_better_one() {
        let weights = [[Some(1.0), Some(0.1)], [Some(0.5), None]];
        assert_eq!(assign(2, &[1, 1], |row, column| weights[row][column]), [Some(1), Some(0)]);
    }
}
