//! A table as files have it: named columns of one kind each, written as CSV or, with the feature `parquet`, as Parquet.

use std::path::Path;

use super::store::write_whole;
use crate::failure::Failure;

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Column {
    /// Words.
    Text(Vec<String>),
    /// Whole numbers.
    Whole(Vec<u64>),
    /// Numbers, some of which may be absent.
    Number(Vec<Option<f64>>),
    /// Yes or no.
    Flag(Vec<bool>),
}

/// Columns of equal length with their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Frame {
    /// The columns.
    pub(crate) columns: Vec<(String, Column)>,
}

impl Column {
    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Text(values) => values.len(),
            Self::Whole(values) => values.len(),
            Self::Number(values) => values.len(),
            Self::Flag(values) => values.len(),
        }
    }

    /// One value as CSV has it; what is absent is empty.
    fn text(&self, row: usize) -> String {
        match self {
            Self::Text(values) => values[row].clone(),
            Self::Whole(values) => values[row].to_string(),
            Self::Number(values) => values[row].map_or_else(String::new, |value| value.to_string()),
            Self::Flag(values) => values[row].to_string(),
        }
    }
}

impl Frame {
    /// Adds a column.
    ///
    /// # Panics
    /// If its length is not that of the others, which is a bug.
    pub(crate) fn push(&mut self, name: impl Into<String>, column: Column) {
        let rows = self.columns.first().map_or(column.len(), |(_, first)| first.len());
        assert_eq!(rows, column.len(), "columns of a table are equally long");
        self.columns.push((name.into(), column));
    }

    /// Writes CSV.
    pub(crate) fn write_csv(&self, path: &Path) -> Result<(), Failure> {
        let csv = || -> Result<Vec<u8>, csv::Error> {
            let mut writer = csv::Writer::from_writer(Vec::new());
            writer.write_record(self.columns.iter().map(|(name, _)| name))?;
            let rows = self.columns.first().map_or(0, |(_, first)| first.len());
            for row in 0..rows {
                writer.write_record(self.columns.iter().map(|(_, column)| column.text(row)))?;
            }
            writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))
        };
        let bytes = csv().map_err(|error| Failure::file("write", path)(error.into()))?;
        write_whole(path, &bytes)
    }
}
