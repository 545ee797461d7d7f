//! What programs learn from: tables of numbers with a target, and ratings. Generated from a seed, or read from files.

mod generate;
mod read;

use sha2::{Digest, Sha256};

use crate::error::TrainError;

pub use generate::{GENERATORS, Generator, generator};
pub use read::{Form, read, read_from};

/// The most numbers that data may take in memory: half a gibibyte.
pub const MOST_VALUES: u64 = 64 << 20;

/// Rows of numbers, each with a target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// How many numbers a row has, without its target.
    pub columns: usize,
    /// The rows, one after the other.
    pub values: Vec<f64>,
    /// A target for each row.
    pub targets: Vec<f64>,
}

impl Table {
    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.targets.len()
    }

    /// The numbers of a row.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.columns..][..self.columns]
    }

    /// The distinct targets in ascending order if there are at most `most`.
    pub fn classes(&self, most: usize) -> Option<Vec<f64>> {
        let mut classes: Vec<f64> = Vec::new();
        for target in &self.targets {
            if let Err(at) = classes.binary_search_by(|class| class.total_cmp(target)) {
                if classes.len() == most {
                    return None;
                }
                classes.insert(at, *target);
            }
        }
        Some(classes)
    }

    /// Brings each column to mean 0 and deviation 1; a constant column becomes 0.
    pub fn standardise(&mut self) {
        let rows = self.rows() as f64;
        for column in 0..self.columns {
            let cells = || self.values.iter().skip(column).step_by(self.columns);
            let mean = cells().sum::<f64>() / rows;
            let variance = cells().map(|value| (value - mean).powi(2)).sum::<f64>() / rows;
            let scale = if variance > 0.0 { variance.sqrt().recip() } else { 0.0 };
            self.values
                .iter_mut()
                .skip(column)
                .step_by(self.columns)
                .for_each(|value| *value = (*value - mean) * scale);
        }
    }
}

/// One rating.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rating {
    /// Who rated.
    pub user: u32,
    /// What was rated.
    pub item: u32,
    /// How.
    pub value: f64,
}

/// Some cells of a matrix of users and items.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ratings {
    /// How many users there are; each number below may occur.
    pub users: usize,
    /// How many items there are.
    pub items: usize,
    /// The ratings, ascending by user and then item.
    pub entries: Vec<Rating>,
}

/// What a program learns from.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Rows with a target.
    Table(Table),
    /// Ratings.
    Ratings(Ratings),
}

/// What an algorithm needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Rows with targets of exactly two values.
    TwoClasses,
    /// Rows with any target.
    Rows,
    /// Ratings.
    Ratings,
}

impl Needs {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::TwoClasses => "rows whose targets have exactly two values",
            Self::Rows => "rows with a target",
            Self::Ratings => "ratings (user, item, rating)",
        }
    }
}

impl Data {
    /// The table, if it is one.
    pub fn table(&self) -> Option<&Table> {
        match self {
            Self::Table(table) => Some(table),
            Self::Ratings(_) => None,
        }
    }

    /// The ratings, if they are that.
    pub fn ratings(&self) -> Option<&Ratings> {
        match self {
            Self::Ratings(ratings) => Some(ratings),
            Self::Table(_) => None,
        }
    }

    /// What it is, in words.
    pub fn words(&self) -> String {
        match self {
            Self::Table(table) => {
                let classes = match table.classes(20) {
                    Some(classes) => format!("targets of {} values", classes.len()),
                    None => "targets of more than 20 values".to_owned(),
                };
                format!("{} rows of {} columns with {classes}", table.rows(), table.columns)
            }
            Self::Ratings(ratings) => {
                format!(
                    "{} ratings of {} items by {} users",
                    ratings.entries.len(),
                    ratings.items,
                    ratings.users
                )
            }
        }
    }

    /// An error unless this is what the algorithm needs.
    pub fn check(&self, algorithm: &'static str, needs: Needs) -> Result<(), TrainError> {
        let fits = match (self, needs) {
            (Self::Table(table), Needs::TwoClasses) => {
                table.classes(2).is_some_and(|classes| classes.len() == 2)
            }
            (Self::Table(_), Needs::Rows) | (Self::Ratings(_), Needs::Ratings) => true,
            _ => false,
        };
        let wrong = || TrainError::WrongData { algorithm, wanted: needs.words(), given: self.words() };
        if fits { Ok(()) } else { Err(wrong()) }
    }

    /// A digest of all of it, so that a checkpoint is not gone on with on other data.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        match self {
            Self::Table(table) => {
                hash.update(format!("table {}", table.columns));
                table.values.iter().chain(&table.targets).for_each(|value| hash.update(value.to_le_bytes()));
            }
            Self::Ratings(ratings) => {
                hash.update(format!("ratings {} {}", ratings.users, ratings.items));
                for rating in &ratings.entries {
                    hash.update(rating.user.to_le_bytes());
                    hash.update(rating.item.to_le_bytes());
                    hash.update(rating.value.to_le_bytes());
                }
            }
        }
        hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// An error if so many numbers are too many.
pub(crate) fn bounded(what: &str, values: u64, remedy: &'static str) -> Result<(), TrainError> {
    let too_large = || TrainError::TooLarge { what: what.to_owned(), values, limit: MOST_VALUES, remedy };
    if values > MOST_VALUES { Err(too_large()) } else { Ok(()) }
}
