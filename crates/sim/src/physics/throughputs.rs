//! Tables of throughputs as text: `model,gpus,<type>,<type>_unconsolidated,...` in iterations a second.
//!
//! An empty field was not measured and a zero means that the model does not fit; both give no figure. Pairs of
//! jobs that share GPUs are not described here.

use std::sync::{Arc, LazyLock};

use super::ThroughputTable;

/// Gavel's isolated throughputs (OSDI 2020, `simulation_throughputs`): 83 pairs of model and GPUs on three
/// types, with workers on one node and spread.
const GAVEL: &str = include_str!("gavel_throughputs.csv");
const SPREAD: &str = "_unconsolidated";

/// Why a text is no table of throughputs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// The first line does not begin with `model,gpus`.
    #[error("{file}:1: a table of throughputs begins with `model,gpus` and then names GPU types")]
    Header {
        /// The file's name.
        file: String,
    },
    /// A row of another length than the header.
    #[error("{file}:{line}: expected {expected} fields, found {found}")]
    Fields {
        /// The file's name.
        file: String,
        /// The line.
        line: usize,
        /// Fields of the header.
        expected: usize,
        /// Fields of the row.
        found: usize,
    },
    /// A value that is no number.
    #[error("{file}:{line}: {column} `{value}` is no number from 0 upwards")]
    Number {
        /// The file's name.
        file: String,
        /// The line.
        line: usize,
        /// The column.
        column: String,
        /// The value.
        value: String,
    },
    /// One model and number of GPUs twice.
    #[error("{file}:{line}: {model} on {gpus} GPUs is there twice; remove one row")]
    Repeated {
        /// The file's name.
        file: String,
        /// The line of the second.
        line: usize,
        /// The model.
        model: String,
        /// The number of GPUs.
        gpus: u32,
    },
}

/// Gavel's own table.
pub fn gavel_throughputs() -> Arc<ThroughputTable> {
    static TABLE: LazyLock<Arc<ThroughputTable>> = LazyLock::new(|| {
        let table = parse_throughputs("gavel_throughputs.csv", GAVEL);
        Arc::new(table.expect("the built-in table was parsed in the tests"))
    });
    Arc::clone(&TABLE)
}

/// Parses a table; `file` is what errors call it.
pub fn parse_throughputs(file: &str, text: &str) -> Result<ThroughputTable, TableError> {
    let text = text.trim_start_matches('\u{feff}');
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let header: Vec<&str> = lines.next().map_or("", |(_, line)| line).split(',').map(str::trim).collect();
    if header.len() < 3 || header[..2] != ["model", "gpus"] {
        return Err(TableError::Header { file: file.to_owned() });
    }
    let mut table = ThroughputTable::default();
    let mut seen = std::collections::BTreeSet::new();
    for (index, text) in lines {
        let line = index + 1;
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        if fields.len() != header.len() {
            let (expected, found) = (header.len(), fields.len());
            return Err(TableError::Fields { file: file.to_owned(), line, expected, found });
        }
        let wrong = |column: usize| TableError::Number {
            file: file.to_owned(),
            line,
            column: header[column].to_owned(),
            value: fields[column].to_owned(),
        };
        let gpus: u32 = fields[1].parse().map_err(|_| wrong(1))?;
        if !seen.insert((fields[0], gpus)) {
            return Err(TableError::Repeated {
                file: file.to_owned(),
                line,
                model: fields[0].to_owned(),
                gpus,
            });
        }
        let row = table.intern(fields[0]);
        for (column, value) in fields.iter().enumerate().skip(2).filter(|(_, value)| !value.is_empty()) {
            let per_s: f64 = value.parse().map_err(|_| wrong(column))?;
            if !(per_s.is_finite() && per_s >= 0.0) {
                return Err(wrong(column));
            }
            if per_s > 0.0 {
                let (gpu_type, spread) =
                    header[column].strip_suffix(SPREAD).map_or((header[column], false), |name| (name, true));
                table.insert(row, gpu_type, gpus, spread, per_s);
            }
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::super::Locality;
    use super::*;

    #[test]
    fn the_built_in_table_has_gavels_figures() {
        let table = gavel_throughputs();
        let row = table.row("Transformer (batch size 64)").unwrap();
        assert_eq!(table.per_s(row, "v100", 8, Locality::Node), Some(49.650700211670745));
        assert_eq!(table.per_s(row, "v100", 8, Locality::Rack), Some(17.010354252487097));
        let too_large = table.row("ResNet-50 (batch size 128)").unwrap();
        assert_eq!(table.per_s(too_large, "k80", 2, Locality::Node), None, "the model does not fit");
        assert!(table.per_s(too_large, "p100", 2, Locality::Node).is_some());
    }

    #[test]
    fn a_broken_table_is_refused_with_line_and_value() {
        let parse = |text: &str| parse_throughputs("t.csv", text).unwrap_err();
        assert!(matches!(parse(""), TableError::Header { .. }));
        assert!(matches!(parse("model,gpus,a\nx,1"), TableError::Fields { line: 2, found: 2, .. }));
        assert!(matches!(parse("model,gpus,a\nx,1,-3"), TableError::Number { line: 2, .. }));
        assert!(matches!(parse("model,gpus,a\nx,one,3"), TableError::Number { .. }));
        assert!(matches!(parse("model,gpus,a\nx,1,3\nx,1,4"), TableError::Repeated { line: 3, .. }));
    }
}
