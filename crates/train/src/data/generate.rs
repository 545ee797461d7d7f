//! Data from a seed.
//!
//! `classification` draws normal columns of very different scale and labels them by a plane, with a part of the labels flipped, in
//! the manner of Guyon, "Design of experiments for the NIPS 2003 variable selection benchmark" (2003), with one cluster a class.
//! `regression` is Friedman's first function ("Multivariate adaptive regression splines", Annals of Statistics 19, 1991, eq. 61).

use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64;

use super::{Data, Rating, Ratings, Table, bounded};
use crate::error::{TrainError, hint};
use crate::parameters::{Parameter, Values};

/// Makes data.
pub struct Generator {
    /// Its name.
    pub name: &'static str,
    /// What it makes.
    pub title: &'static str,
    /// The sizes and other parameters.
    pub parameters: &'static [Parameter],
    /// How many numbers it will take.
    values: fn(&Values) -> u64,
    make: fn(&Values, &mut Pcg64) -> Data,
}

const ROWS: Parameter = Parameter::whole("rows", 10_000, 10, 10_000_000, "How many rows.");
const FEATURES: Parameter = Parameter::whole("features", 20, 1, 100_000, "How many columns.");

/// All generators.
pub static GENERATORS: [Generator; 4] = [
    Generator {
        name: "classification",
        title: "two classes, divided by a plane through columns of different scale",
        parameters: &[
            ROWS,
            FEATURES,
            Parameter::real("noise", 0.05, 0.0, 0.5, "The part of the labels that is wrong."),
            Parameter::real(
                "spread",
                10.0,
                1.0,
                1e6,
                "How much larger the first column's scale is than the last one's.",
            ),
        ],
        values: table_values,
        make: classification,
    },
    Generator {
        name: "blobs",
        title: "normal clouds around random centres; the target is the number of the cloud",
        parameters: &[
            ROWS,
            FEATURES,
            Parameter::whole("centres", 10, 1, 1000, "How many clouds."),
            Parameter::real(
                "noise",
                6.0,
                0.0,
                100.0,
                "The deviation of a cloud; centres are drawn from -5 to 5.",
            ),
        ],
        values: table_values,
        make: blobs,
    },
    Generator {
        name: "regression",
        title: "Friedman's first function of five columns among others that say nothing",
        parameters: &[
            ROWS,
            Parameter::whole("features", 10, 5, 100_000, "How many columns."),
            Parameter::real("noise", 1.0, 0.0, 100.0, "The deviation of what is added to the target."),
        ],
        values: table_values,
        make: regression,
    },
    Generator {
        name: "ratings",
        title: "cells of a matrix of low rank",
        parameters: &[
            Parameter::whole("users", 1000, 2, 1_000_000, "How many users."),
            Parameter::whole("items", 500, 2, 1_000_000, "How many items."),
            Parameter::whole("rank", 8, 1, 200, "The rank of the matrix."),
            Parameter::whole(
                "per_user",
                40,
                1,
                10_000,
                "How many draws a user makes; the same item may be drawn again.",
            ),
            Parameter::real("noise", 0.1, 0.0, 100.0, "The deviation of what is added to a rating."),
        ],
        values: |given| 2 * (given.whole("users") * given.whole("per_user")) as u64,
        make: ratings,
    },
];

/// The generator of a name.
pub fn generator(name: &str) -> Result<&'static Generator, TrainError> {
    let unknown = || TrainError::Unknown {
        what: "generator".to_owned(),
        name: name.to_owned(),
        hint: hint(name, GENERATORS.iter().map(|generator| generator.name)),
    };
    GENERATORS.iter().find(|generator| generator.name == name).ok_or_else(unknown)
}

impl Generator {
    /// Makes data of these sizes.
    pub fn make(&self, given: &Values, seed: u64) -> Result<Data, TrainError> {
        bounded(self.name, (self.values)(given), "say a smaller size")?;
        Ok((self.make)(given, &mut Pcg64::seed_from_u64(seed)))
    }
}

fn table_values(given: &Values) -> u64 {
    given.whole("rows") as u64 * (given.whole("features") as u64 + 1)
}

fn normal(draws: &mut impl Rng) -> f64 {
    StandardNormal.sample(draws)
}

fn classification(given: &Values, draws: &mut Pcg64) -> Data {
    let (rows, columns) = (given.whole("rows"), given.whole("features"));
    let (noise, spread) = (given.real("noise"), given.real("spread"));
    let scales: Vec<f64> =
        (0..columns).map(|column| spread.powf(-(column as f64) / (columns.max(2) - 1) as f64)).collect();
    // In units of each column's scale all columns matter alike.
    let plane: Vec<f64> = scales.iter().map(|scale| normal(draws) / scale).collect();
    let mut table = Table { columns, ..Table::default() };
    for _ in 0..rows {
        let mut side = 0.0;
        for (scale, weight) in scales.iter().zip(&plane) {
            let value = scale * normal(draws);
            side += weight * value;
            table.values.push(value);
        }
        let flipped = draws.random::<f64>() < noise;
        table.targets.push(f64::from((side > 0.0) != flipped));
    }
    Data::Table(table)
}

fn blobs(given: &Values, draws: &mut Pcg64) -> Data {
    let (rows, columns) = (given.whole("rows"), given.whole("features"));
    let (count, noise) = (given.whole("centres"), given.real("noise"));
    let centres: Vec<f64> = (0..count * columns).map(|_| 10.0 * draws.random::<f64>() - 5.0).collect();
    let mut table = Table { columns, ..Table::default() };
    for row in 0..rows {
        let cloud = row % count;
        table.values.extend(
            centres[cloud * columns..][..columns].iter().map(|centre| centre + noise * normal(draws)),
        );
        table.targets.push(cloud as f64);
    }
    Data::Table(table)
}

fn regression(given: &Values, draws: &mut Pcg64) -> Data {
    let (rows, columns, noise) = (given.whole("rows"), given.whole("features"), given.real("noise"));
    let mut table = Table { columns, ..Table::default() };
    for row in 0..rows {
        table.values.extend((0..columns).map(|_| draws.random::<f64>()));
        let x = table.row_so_far(row);
        let clean = 10.0 * (std::f64::consts::PI * x[0] * x[1]).sin()
            + 20.0 * (x[2] - 0.5).powi(2)
            + 10.0 * x[3]
            + 5.0 * x[4];
        table.targets.push(clean + noise * normal(draws));
    }
    Data::Table(table)
}

impl Table {
    /// A row that has no target yet.
    fn row_so_far(&self, row: usize) -> &[f64] {
        &self.values[row * self.columns..]
    }
}

fn ratings(given: &Values, draws: &mut Pcg64) -> Data {
    let (users, items, rank) = (given.whole("users"), given.whole("items"), given.whole("rank"));
    let scale = (rank as f64).powf(-0.25);
    let mut factors =
        |count: usize| -> Vec<f64> { (0..count * rank).map(|_| scale * normal(draws)).collect() };
    let (left, right) = (factors(users), factors(items));
    let mut entries = Vec::new();
    for user in 0..users {
        let mut chosen: Vec<usize> =
            (0..given.whole("per_user")).map(|_| draws.random_range(0..items)).collect();
        chosen.sort_unstable();
        chosen.dedup();
        for item in chosen {
            let both = left[user * rank..][..rank].iter().zip(&right[item * rank..][..rank]);
            let value = both.map(|(a, b)| a * b).sum::<f64>() + given.real("noise") * normal(draws);
            entries.push(Rating { user: user as u32, item: item as u32, value });
        }
    }
    Data::Ratings(Ratings { users, items, entries })
}
