//! Assignments of least cost: each row gets a place in a column, and a column has so many places. The Hungarian method by shortest
//! augmenting paths (Kuhn 1955; Jonker and Volgenant 1987): one search for each row, each at most a look at all rows and columns. Columns
//! with several places stand for as many that are alike, which is much quicker where they are many. Libraries for it ask for
//! whole numbers or bring matrices of their own.

/// The column of each row, so that costs add up to the least. `cost(row, column)` is finite. Of equally good assignments the one
/// is taken that the search meets first, always the same.
///
/// # Panics
///
/// If there are fewer places than rows.
pub fn assign(rows: usize, places: &[usize], cost: impl Fn(usize, usize) -> f64) -> Vec<usize> {
    assert!(places.iter().sum::<usize>() >= rows, "each row needs a place of its own");
    let columns = places.len();
    let mut search = Search {
        places,
        row_price: vec![0.0; rows],
        column_price: vec![0.0; columns],
        owners: vec![Vec::new(); columns],
        distance: vec![0.0; columns],
        before: vec![None; columns],
        is_done: vec![false; columns],
    };
    (0..rows).for_each(|row| search.add(row, &cost));
    let mut chosen = vec![0; rows];
    for (column, owners) in search.owners.iter().enumerate() {
        owners.iter().for_each(|row| chosen[*row] = column);
    }
    chosen
}

/// Rows so far, with prices under which each has a column that is cheapest for it.
struct Search<'a> {
    places: &'a [usize],
    row_price: Vec<f64>,
    column_price: Vec<f64>,
    owners: Vec<Vec<usize>>,
    /// The least that must be added to the prices until a column is reached.
    distance: Vec<f64>,
    /// The owner that reaches a column, and where it is; none where the new row does.
    before: Vec<Option<(usize, usize)>>,
    is_done: Vec<bool>,
}

impl Search<'_> {
    /// Finds a place for one more row, moving others on the way.
    fn add(&mut self, row: usize, cost: &impl Fn(usize, usize) -> f64) {
        self.distance.fill(f64::INFINITY);
        self.is_done.fill(false);
        self.reach(row, None, cost);
        let mut column = loop {
            let Some((column, by)) = self.nearest() else { unreachable!("a place is free") };
            self.raise(row, by);
            self.is_done[column] = true;
            if self.owners[column].len() < self.places[column] {
                break column;
            }
            for i in 0..self.owners[column].len() {
                let owner = self.owners[column][i];
                self.reach(owner, Some((owner, column)), cost);
            }
        };
        while let Some((owner, from)) = self.before[column] {
            self.owners[from].retain(|other| *other != owner);
            self.owners[column].push(owner);
            column = from;
        }
        self.owners[column].push(row);
    }

    /// Looks at all columns from a row.
    fn reach(&mut self, at: usize, from: Option<(usize, usize)>, cost: &impl Fn(usize, usize) -> f64) {
        for column in 0..self.places.len() {
            if self.is_done[column] || self.places[column] == 0 {
                continue;
            }
            let reduced = cost(at, column) - self.row_price[at] - self.column_price[column];
            if reduced < self.distance[column] {
                (self.distance[column], self.before[column]) = (reduced, from);
            }
        }
    }

    /// The nearest column that is not done, and how far it is.
    fn nearest(&self) -> Option<(usize, f64)> {
        let open = (0..self.places.len()).filter(|column| !self.is_done[*column] && self.places[*column] > 0);
        let found = open.map(|column| (column, self.distance[column]));
        found.reduce(|best, other| if other.1 < best.1 { other } else { best })
    }

    /// Raises the prices of all rows that the search has reached.
    fn raise(&mut self, row: usize, by: f64) {
        self.row_price[row] += by;
        for column in 0..self.places.len() {
            if self.is_done[column] {
                self.owners[column].iter().for_each(|owner| self.row_price[*owner] += by);
                self.column_price[column] -= by;
            } else {
                self.distance[column] -= by;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn total(costs: &[Vec<f64>], chosen: &[usize]) -> f64 {
        costs.iter().zip(chosen).map(|(row, column)| row[*column]).sum()
    }

    /// The least cost over all assignments of rows from `row` on.
    fn by_trying_all(costs: &[Vec<f64>], row: usize, left: &mut Vec<usize>) -> f64 {
        if row == costs.len() {
            return 0.0;
        }
        let mut best = f64::INFINITY;
        for column in 0..left.len() {
            if left[column] > 0 {
                left[column] -= 1;
                best = best.min(costs[row][column] + by_trying_all(costs, row + 1, left));
                left[column] += 1;
            }
        }
        best
    }

    #[test]
    fn nobody_takes_a_column_that_another_needs_more() {
        let costs = [[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]];
        assert_eq!(assign(3, &[1; 3], |row, column| costs[row][column]), [1, 0, 2]);
        assert_eq!(assign(0, &[1, 1], |_, _| 1.0), [0; 0]);
        assert_eq!(assign(3, &[0, 2, 1], |row, column| costs[row][column]), [1, 1, 2]);
    }

    proptest! {
        #[test]
        fn it_costs_as_little_as_the_best_of_all(
            costs in (1_usize..6, 0_usize..3).prop_flat_map(|(rows, more)| {
                let cost = prop_oneof![(0..4_i32).prop_map(f64::from), -9.0..9.0_f64];
                prop::collection::vec(prop::collection::vec(cost, rows + more), rows)
            }),
            places in prop::collection::vec(0_usize..4, 8),
        ) {
            let columns = costs[0].len();
            // At least as many places as rows, of which columns may have several or none.
            let mut places = places[..columns].to_vec();
            places[0] += costs.len().saturating_sub(places.iter().sum());
            let chosen = assign(costs.len(), &places, |row, column| costs[row][column]);
            let mut left = places.clone();
            for column in &chosen {
                prop_assert!(left[*column] > 0, "more are given than there are");
                left[*column] -= 1;
            }
            let best = by_trying_all(&costs, 0, &mut places);
            prop_assert!((total(&costs, &chosen) - best).abs() < 1e-9);
        }
    }
}
