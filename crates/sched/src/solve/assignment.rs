//! Assignments of least cost: each row gets a column of its own. The Hungarian method by shortest augmenting paths (Kuhn 1955;
//! Jonker and Volgenant 1987), for at least as many columns as rows: one search for each row, each at most a look at all
//! entries. Libraries for it ask for whole numbers or bring matrices of their own.

/// The column of each row, so that costs add up to the least. `cost(row, column)` is finite. Of equally good assignments the one
/// is taken that the search meets first, always the same.
///
/// # Panics
///
/// If there are fewer columns than rows.
pub fn assign(rows: usize, columns: usize, cost: impl Fn(usize, usize) -> f64) -> Vec<usize> {
    assert!(columns >= rows, "each row needs a column of its own");
    let mut search = Search {
        row_price: vec![0.0; rows],
        column_price: vec![0.0; columns],
        owner: vec![None; columns],
        distance: vec![0.0; columns],
        before: vec![None; columns],
        is_done: vec![false; columns],
    };
    (0..rows).for_each(|row| search.add(row, &cost));
    let mut chosen = vec![0; rows];
    for (column, owner) in search.owner.iter().enumerate() {
        if let Some(row) = owner {
            chosen[*row] = column;
        }
    }
    chosen
}

/// Rows so far, with prices under which each has a column that is cheapest for it.
struct Search {
    row_price: Vec<f64>,
    column_price: Vec<f64>,
    owner: Vec<Option<usize>>,
    /// The least that must be added to the prices until a column is reached.
    distance: Vec<f64>,
    /// The column whose owner reaches a column.
    before: Vec<Option<usize>>,
    is_done: Vec<bool>,
}

impl Search {
    /// Finds a column for one more row, moving others on the way.
    fn add(&mut self, row: usize, cost: &impl Fn(usize, usize) -> f64) {
        self.distance.fill(f64::INFINITY);
        self.is_done.fill(false);
        let (mut at, mut from) = (row, None);
        let reached = loop {
            let Some((column, by)) = self.nearest(at, from, cost) else { unreachable!("a column is free") };
            self.raise(row, by);
            self.is_done[column] = true;
            match self.owner[column] {
                None => break column,
                Some(owner) => (at, from) = (owner, Some(column)),
            }
        };
        let mut column = reached;
        loop {
            let before = self.before[column];
            self.owner[column] = before.map_or(Some(row), |before| self.owner[before]);
            match before {
                Some(before) => column = before,
                None => break,
            }
        }
    }

    /// Looks at all columns from a row; returns the nearest one that is not done, and how far it is.
    fn nearest(
        &mut self,
        at: usize,
        from: Option<usize>,
        cost: &impl Fn(usize, usize) -> f64,
    ) -> Option<(usize, f64)> {
        let mut best: Option<(usize, f64)> = None;
        for column in 0..self.owner.len() {
            if self.is_done[column] {
                continue;
            }
            let reduced = cost(at, column) - self.row_price[at] - self.column_price[column];
            if reduced < self.distance[column] {
                (self.distance[column], self.before[column]) = (reduced, from);
            }
            if best.is_none_or(|(_, least)| self.distance[column] < least) {
                best = Some((column, self.distance[column]));
            }
        }
        best
    }

    /// Raises the prices of all rows that the search has reached.
    fn raise(&mut self, row: usize, by: f64) {
        self.row_price[row] += by;
        for column in 0..self.owner.len() {
            if self.is_done[column] {
                let owner = self.owner[column].expect("the search went on from its owner");
                self.row_price[owner] += by;
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
    fn by_trying_all(costs: &[Vec<f64>], row: usize, taken: &mut Vec<bool>) -> f64 {
        if row == costs.len() {
            return 0.0;
        }
        let mut best = f64::INFINITY;
        for column in 0..taken.len() {
            if !taken[column] {
                taken[column] = true;
                best = best.min(costs[row][column] + by_trying_all(costs, row + 1, taken));
                taken[column] = false;
            }
        }
        best
    }

    #[test]
    fn nobody_takes_a_column_that_another_needs_more() {
        let costs = [[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]];
        assert_eq!(assign(3, 3, |row, column| costs[row][column]), [1, 0, 2]);
        assert_eq!(assign(0, 2, |_, _| 1.0), [0; 0]);
    }

    proptest! {
        #[test]
        fn it_costs_as_little_as_the_best_of_all(
            costs in (1_usize..6, 0_usize..3).prop_flat_map(|(rows, more)| {
                let cost = prop_oneof![(0..4_i32).prop_map(f64::from), -9.0..9.0_f64];
                prop::collection::vec(prop::collection::vec(cost, rows + more), rows)
            }),
        ) {
            let columns = costs[0].len();
            let chosen = assign(costs.len(), columns, |row, column| costs[row][column]);
            let mut seen = vec![false; columns];
            for column in &chosen {
                prop_assert!(!std::mem::replace(&mut seen[*column], true), "a column is given twice");
            }
            let best = by_trying_all(&costs, 0, &mut vec![false; columns]);
            prop_assert!((total(&costs, &chosen) - best).abs() < 1e-9);
        }
    }
}
