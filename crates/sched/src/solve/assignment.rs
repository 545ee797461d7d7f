//! Assignments of least cost: each row gets a place in a column. The Hungarian method by shortest augmenting paths (Kuhn 1955;
//! Jonker and Volgenant 1987), where a column may have places for several rows: one search for each row, each at most a look at all
//! entries. Libraries for it ask for whole numbers or bring matrices of their own.

/// The column of each row, so that costs add up to the least. `cost(row, column)` is finite. Each column has so many places; alike
/// columns are best told as one with several, since it takes rows times all entries at the worst, however many places there are.
/// Of equally good assignments the one is taken that the search meets first, always the same.
///
/// # Panics
///
/// If there are fewer places than rows.
pub fn assign(rows: usize, places: &[usize], cost: impl Fn(usize, usize) -> f64) -> Vec<usize> {
    let all = places.iter().fold(0_usize, |all, places| all.saturating_add(*places));
    assert!(all >= rows, "each row needs a place of its own");
    let columns = places.len();
    let mut search = Search {
        places,
        row_price: vec![0.0; rows],
        column_price: vec![0.0; columns],
        owners: vec![Vec::new(); columns],
        distance: vec![0.0; columns],
        before: vec![None; columns],
        done: Vec::new(),
        is_done: vec![false; columns],
    };
    (0..rows).for_each(|row| search.add(row, &cost));
    let mut chosen = vec![0; rows];
    for (column, owners) in search.owners.iter().enumerate() {
        owners.iter().for_each(|row| chosen[*row] = column);
    }
    chosen
}

/// Rows so far, with prices under which each has a column that is cheapest for it. Columns that are not full have no price.
struct Search<'a> {
    places: &'a [usize],
    row_price: Vec<f64>,
    column_price: Vec<f64>,
    owners: Vec<Vec<usize>>,
    /// The least that must be added to the prices until a column is reached.
    distance: Vec<f64>,
    /// The column from which a column is reached, and the owner that would come from there.
    before: Vec<Option<(usize, usize)>>,
    done: Vec<usize>,
    is_done: Vec<bool>,
}

impl Search<'_> {
    /// Finds a place for one more row, moving others on the way.
    fn add(&mut self, row: usize, cost: &impl Fn(usize, usize) -> f64) {
        self.distance.fill(f64::INFINITY);
        self.is_done.fill(false);
        self.before.fill(None);
        self.done.clear();
        self.look(row, (0.0, None), cost);
        let reached = loop {
            let Some(column) = self.nearest() else { unreachable!("a place is free") };
            if self.owners[column].len() < self.places[column] {
                break column;
            }
            self.is_done[column] = true;
            self.done.push(column);
            let owners = std::mem::take(&mut self.owners[column]);
            owners.iter().for_each(|owner| self.look(*owner, (self.distance[column], Some(column)), cost));
            self.owners[column] = owners;
        };
        self.raise(row, self.distance[reached]);
        let mut column = reached;
        while let Some((from, owner)) = self.before[column] {
            self.owners[column].push(owner);
            self.owners[from].retain(|other| *other != owner);
            column = from;
        }
        self.owners[column].push(row);
    }

    /// Looks at all columns from a row that is so far away, in this column if in any.
    fn look(&mut self, at: usize, (far, from): (f64, Option<usize>), cost: &impl Fn(usize, usize) -> f64) {
        for column in 0..self.owners.len() {
            if self.is_done[column] {
                continue;
            }
            let reduced = far + cost(at, column) - self.row_price[at] - self.column_price[column];
            if reduced < self.distance[column] {
                (self.distance[column], self.before[column]) = (reduced, from.map(|from| (from, at)));
            }
        }
    }

    /// The nearest column that is not done and has any place.
    fn nearest(&self) -> Option<usize> {
        let open = (0..self.owners.len()).filter(|column| !self.is_done[*column] && self.places[*column] > 0);
        open.min_by(|a, b| self.distance[*a].total_cmp(&self.distance[*b]))
    }

    /// Raises the prices of all rows that the search has reached.
    fn raise(&mut self, row: usize, by: f64) {
        self.row_price[row] += by;
        for column in std::mem::take(&mut self.done) {
            let more = by - self.distance[column];
            self.column_price[column] -= more;
            self.owners[column].iter().for_each(|owner| self.row_price[*owner] += more);
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
        assert_eq!(assign(3, &[1; 3], |row, column| costs[row][column]), [1, 0, 2]);
        assert_eq!(assign(0, &[1, 1], |_, _| 1.0), [0; 0]);
    }

    #[test]
    fn a_column_with_several_places_is_as_good_as_several_columns() {
        let costs = [[1.0, 5.0], [2.0, 9.0], [1.5, 2.0], [0.0, 0.5]];
        let chosen = assign(4, &[2, 3], |row, column| costs[row][column]);
        assert_eq!(chosen, [0, 0, 1, 1]);
        assert_eq!(assign(2, &[0, 2], |_, column| [0.0, 7.0][column]), [1, 1], "no place, nobody there");
    }

    proptest! {
        #[test]
        fn places_of_one_column_cost_as_little_as_columns_of_their_own(
            (places, costs) in prop::collection::vec(0_usize..4, 1..4).prop_flat_map(|places| {
                let (columns, all) = (places.len(), places.iter().sum::<usize>());
                let cost = prop_oneof![(0..4_i32).prop_map(f64::from), -9.0..9.0_f64];
                let rows = prop::collection::vec(prop::collection::vec(cost, columns), 0..=all.min(7));
                (Just(places), rows)
            }),
        ) {
            let chosen = assign(costs.len(), &places, |row, column| costs[row][column]);
            for (column, places) in places.iter().enumerate() {
                prop_assert!(chosen.iter().filter(|chosen| **chosen == column).count() <= *places);
            }
            let each: Vec<usize> =
                places.iter().enumerate().flat_map(|(column, places)| vec![column; *places]).collect();
            let apart: Vec<Vec<f64>> =
                costs.iter().map(|row| each.iter().map(|column| row[*column]).collect()).collect();
            let best = by_trying_all(&apart, 0, &mut vec![false; each.len()]);
            prop_assert!((total(&costs, &chosen) - best).abs() < 1e-9);
        }

        #[test]
        fn it_costs_as_little_as_the_best_of_all(
            costs in (1_usize..6, 0_usize..3).prop_flat_map(|(rows, more)| {
                let cost = prop_oneof![(0..4_i32).prop_map(f64::from), -9.0..9.0_f64];
                prop::collection::vec(prop::collection::vec(cost, rows + more), rows)
            }),
        ) {
            let columns = costs[0].len();
            let chosen = assign(costs.len(), &vec![1; columns], |row, column| costs[row][column]);
            let mut seen = vec![false; columns];
            for column in &chosen {
                prop_assert!(!std::mem::replace(&mut seen[*column], true), "a column is given twice");
            }
            let best = by_trying_all(&costs, 0, &mut vec![false; columns]);
            prop_assert!((total(&costs, &chosen) - best).abs() < 1e-9);
        }
    }
}
