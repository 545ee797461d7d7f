//! Matrix factorisation by alternating least squares.
//!
//! Source: Zhou and others, "Large-scale parallel collaborative filtering for the Netflix prize" (AAIM 2008), section 3: the penalty
//! of a user or item grows with its number of ratings. An iteration solves for all users and then for all items. The loss is the
//! whole objective, a rating: squared errors plus the penalty.

use std::ops::Range;

use rand::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64;

use crate::algorithm::{Algorithm, Entry, Measured};
use crate::data::{Data, Needs, Rating, Ratings, bounded};
use crate::descent::{add, dot};
use crate::error::TrainError;
use crate::parameters::{Parameter, Values};
use crate::pool::{Pool, Shards};
use crate::tensors::{StateError, Tensors};

/// See the file.
pub(super) static ENTRY: Entry = Entry {
    name: "factorisation",
    title: "matrix factorisation by alternating least squares",
    source: "Zhou and others 2008",
    needs: Needs::Ratings,
    generator: "ratings",
    parameters: &[
        Parameter::whole("rank", 8, 1, 500, "How many factors a user and an item have."),
        Parameter::real("l2", 0.01, 1e-12, 1e6, "The weight of squared factors, for each rating."),
    ],
    begin,
};

/// Users or items that a chunk of work has.
const CHUNK: usize = 32;

struct Factorisation {
    rank: usize,
    l2: f64,
    /// Where the ratings of each user begin; they are sorted by user.
    user_begins: Vec<usize>,
    /// The ratings again, by item.
    by_item: Vec<Rating>,
    item_begins: Vec<usize>,
    users: Vec<f64>,
    items: Vec<f64>,
}

fn begin(given: &Values, data: &Data, seed: u64, _: &Pool) -> Result<Box<dyn Algorithm>, TrainError> {
    let ratings = data.ratings().expect("it was checked");
    let rank = given.whole("rank");
    let values = (ratings.users + ratings.items) as u64 * rank as u64;
    bounded("factorisation", values + 2 * ratings.entries.len() as u64, "say a smaller `rank`")?;
    let mut by_item = ratings.entries.clone();
    by_item.sort_by_key(|rating| (rating.item, rating.user));
    let mut draws = Pcg64::seed_from_u64(seed);
    let scale = (rank as f64).sqrt().recip();
    let mut drawn = || {
        let value: f64 = StandardNormal.sample(&mut draws);
        scale * value
    };
    Ok(Box::new(Factorisation {
        rank,
        l2: given.real("l2"),
        user_begins: begins(ratings.users, &ratings.entries, |rating| rating.user),
        item_begins: begins(ratings.items, &by_item, |rating| rating.item),
        by_item,
        users: vec![0.0; ratings.users * rank],
        items: (0..ratings.items * rank).map(|_| drawn()).collect(),
    }))
}

/// Where each owner's ratings begin, and where the last one's end.
fn begins(owners: usize, sorted: &[Rating], owner: impl Fn(&Rating) -> u32) -> Vec<usize> {
    (0..=owners).map(|number| sorted.partition_point(|rating| (owner(rating) as usize) < number)).collect()
}

/// One side of the matrix, of which the other side is held fast.
struct Side<'a> {
    rank: usize,
    l2: f64,
    begins: &'a [usize],
    ratings: &'a [Rating],
    others: &'a [f64],
    other: fn(&Rating) -> u32,
}

impl Side<'_> {
    /// Solves for the factors of some owners.
    fn solve(&self, first: usize, factors: &mut [f64]) {
        let rank = self.rank;
        let mut matrix = vec![0.0; rank * rank];
        for (i, solved) in factors.chunks_exact_mut(rank).enumerate() {
            let ratings = &self.ratings[self.begins[first + i]..self.begins[first + i + 1]];
            matrix.fill(0.0);
            solved.fill(0.0);
            for rating in ratings {
                let other = &self.others[(self.other)(rating) as usize * rank..][..rank];
                for (row, value) in matrix.chunks_exact_mut(rank).zip(other) {
                    add(row, *value, other);
                }
                add(solved, rating.value, other);
            }
            if !ratings.is_empty() {
                solve(&mut matrix, solved, self.l2 * ratings.len() as f64);
            }
        }
    }
}

/// Solves `(matrix + ridge) x = right` by Cholesky's method in place; the answer is left in `right`.
fn solve(matrix: &mut [f64], right: &mut [f64], ridge: f64) {
    let rank = right.len();
    for i in 0..rank {
        for j in 0..=i {
            let (above, row) = matrix.split_at_mut(i * rank);
            let sum =
                if i == j { dot(&row[..j], &row[..j]) } else { dot(&row[..j], &above[j * rank..][..j]) };
            // No pivot can be below the ridge but by rounding.
            row[j] = if i == j {
                (row[i] + ridge - sum).max(ridge).sqrt()
            } else {
                (row[j] - sum) / above[j * rank + j]
            };
        }
    }
    for i in 0..rank {
        let sum = dot(&matrix[i * rank..][..i], &right[..i]);
        right[i] = (right[i] - sum) / matrix[i * rank + i];
    }
    for i in (0..rank).rev() {
        let sum: f64 = (i + 1..rank).map(|k| matrix[k * rank + i] * right[k]).sum();
        right[i] = (right[i] - sum) / matrix[i * rank + i];
    }
}

impl Factorisation {
    /// The sum of squared errors of some ratings.
    fn errors(&self, ratings: &[Rating]) -> f64 {
        let error = |rating: &Rating| {
            let user = &self.users[rating.user as usize * self.rank..][..self.rank];
            let item = &self.items[rating.item as usize * self.rank..][..self.rank];
            (dot(user, item) - rating.value).powi(2)
        };
        ratings.iter().map(error).sum()
    }

    fn penalty(&self) -> f64 {
        let side = |begins: &[usize], factors: &[f64]| -> f64 {
            let counts = begins.windows(2).map(|pair| (pair[1] - pair[0]) as f64);
            counts.zip(factors.chunks_exact(self.rank)).map(|(count, one)| count * dot(one, one)).sum()
        };
        self.l2 * (side(&self.user_begins, &self.users) + side(&self.item_begins, &self.items))
    }

    fn measure(&self, ratings: &Ratings, pool: &Pool) -> Result<Measured, TrainError> {
        let part = |some: Range<usize>, sums: &mut [f64]| sums[0] += self.errors(&ratings.entries[some]);
        let errors = pool.sum(Shards::of(ratings.entries.len()), 1, part)?[0];
        let loss = (errors + self.penalty()) / ratings.entries.len() as f64;
        Ok(Measured { loss, accuracy: None })
    }
}

impl Algorithm for Factorisation {
    fn iterate(&mut self, data: &Data, pool: &Pool) -> Result<Measured, TrainError> {
        let ratings = data.ratings().expect("it was checked");
        let (rank, l2) = (self.rank, self.l2);
        let side = Side {
            rank,
            l2,
            begins: &self.user_begins,
            ratings: &ratings.entries,
            others: &self.items,
            other: |rating| rating.item,
        };
        pool.chunks(&mut self.users, CHUNK * rank, |chunk, users| side.solve(chunk * CHUNK, users));
        let side = Side {
            rank,
            l2,
            begins: &self.item_begins,
            ratings: &self.by_item,
            others: &self.users,
            other: |rating| rating.user,
        };
        pool.chunks(&mut self.items, CHUNK * rank, |chunk, items| side.solve(chunk * CHUNK, items));
        self.measure(ratings, pool)
    }

    fn tensors(&self) -> Tensors {
        let mut tensors = Tensors::default();
        tensors.put("users", &[self.users.len() / self.rank, self.rank], &self.users);
        tensors.put("items", &[self.items.len() / self.rank, self.rank], &self.items);
        tensors
    }

    fn restore(&mut self, state: &Tensors, _: &Data, _: &Pool) -> Result<(), StateError> {
        self.users = state.values("users", &[self.users.len() / self.rank, self.rank])?.to_vec();
        self.items = state.values("items", &[self.items.len() / self.rank, self.rank])?.to_vec();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_solved_solves() {
        let matrix = [4.0, 1.0, 2.0, 1.0, 3.0, 0.5, 2.0, 0.5, 5.0];
        let mut factored = matrix;
        let mut answer = [1.0, -2.0, 3.0];
        solve(&mut factored, &mut answer, 0.25);
        for (i, wanted) in [1.0, -2.0, 3.0].into_iter().enumerate() {
            let told = dot(&matrix[3 * i..][..3], &answer) + 0.25 * answer[i];
            assert!((told - wanted).abs() < 1e-12, "{i}: {told}");
        }
    }
}
