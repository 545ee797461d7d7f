//! Tables of throughputs: those that come with the program, and those in files, as our own CSV or as Gavel's JSON.

mod csv;
mod json;

use std::path::Path;
use std::sync::{Arc, LazyLock};

use super::ThroughputTable;
use crate::document::{Document, DocumentError};

/// Gavel's isolated throughputs (OSDI 2020, `simulation_throughputs`): 83 pairs of model and GPUs on three
/// types, with workers on one node and spread.
const GAVEL: &str = include_str!("gavel.csv");
/// From the same file, pairs of jobs that share one GPU.
const GAVEL_PAIRS: &str = include_str!("gavel_pairs.csv");
/// What was measured anew on single GPUs of another cluster (`physical_cluster_throughputs`), to four digits.
const GAVEL_PHYSICAL: &str = include_str!("gavel_physical.csv");

/// The tables that come with the program, and what they are.
pub const NAMED: [(&str, &str); 2] = [
    ("gavel", "Gavel's throughputs, by which its simulations were made, with pairs on single GPUs"),
    (
        "gavel-physical",
        "the same without pairs, and single GPUs as measured anew on Gavel's physical cluster",
    ),
];

/// Why a text is no table of throughputs.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// A file that cannot be read.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// The first line does not begin with `model,gpus`.
    #[error(
        "{file}:1: a table of throughputs begins with `model,gpus`, perhaps `beside`, and then names GPU types; or it is \
         one of Gavel's JSON files"
    )]
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
    /// A pair of gangs that are spread over nodes.
    #[error("{file}:{line}: {column}: pairs share all their GPUs, wherever these are; leave the field empty")]
    SpreadPair {
        /// The file's name.
        file: String,
        /// The line.
        line: usize,
        /// The column.
        column: String,
    },
    /// A JSON file that is not as Gavel's are.
    #[error("{file}: {place}: {what}")]
    Json {
        /// The file's name.
        file: String,
        /// Where: the keys down to it, or the line.
        place: String,
        /// What is wrong.
        what: String,
    },
    /// No figures at all.
    #[error("{file}: there is no figure in this table")]
    Empty {
        /// The file's name.
        file: String,
    },
}

/// Gavel's own table.
pub fn gavel_throughputs() -> Arc<ThroughputTable> {
    static TABLE: LazyLock<Arc<ThroughputTable>> = LazyLock::new(|| {
        let mut table = built_in(GAVEL);
        csv::read_into(&mut table, "gavel_pairs.csv", GAVEL_PAIRS).expect("it was parsed in the tests");
        Arc::new(table)
    });
    Arc::clone(&TABLE)
}

/// Gavel's table with single GPUs as they were measured on its physical cluster. What was measured of gangs there is taken
/// to be the same, and of pairs nothing is known.
pub fn gavel_physical_throughputs() -> Arc<ThroughputTable> {
    static TABLE: LazyLock<Arc<ThroughputTable>> = LazyLock::new(|| {
        let (mut table, anew) = (built_in(GAVEL), built_in(GAVEL_PHYSICAL));
        for (row, gpu_type, gpus, spread, per_s) in anew.figures() {
            let of = table.intern(anew.name(row));
            table.insert(of, gpu_type, gpus, spread, per_s);
            table.insert(of, gpu_type, gpus, true, per_s);
        }
        Arc::new(table)
    });
    Arc::clone(&TABLE)
}

fn built_in(text: &str) -> ThroughputTable {
    parse_throughputs("built-in table", text).expect("the built-in tables were parsed in the tests")
}

/// A table that comes with the program, or one from a file, plain, gzip or zstd.
///
/// # Errors
/// If the file cannot be read, or is no table of throughputs.
pub fn load_throughputs(name_or_path: &str) -> Result<Arc<ThroughputTable>, TableError> {
    match name_or_path {
        "gavel" => Ok(gavel_throughputs()),
        "gavel-physical" => Ok(gavel_physical_throughputs()),
        path => {
            let document = Document::open(Path::new(path))?;
            Ok(Arc::new(parse_throughputs(&document.file, &document.text)?))
        }
    }
}

/// Parses a table, our own CSV or Gavel's JSON; `file` is what errors call it.
///
/// # Errors
/// If it is no table of throughputs.
pub fn parse_throughputs(file: &str, text: &str) -> Result<ThroughputTable, TableError> {
    let text = text.trim_start_matches('\u{feff}');
    let mut table = ThroughputTable::default();
    if text.trim_start().starts_with('{') {
        json::read_into(&mut table, file, text)?;
    } else {
        csv::read_into(&mut table, file, text)?;
    }
    if table.figures().next().is_none() {
        return Err(TableError::Empty { file: file.to_owned() });
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
        // ResNet-50 beside the largest one, of the two matrices of section 6.3 of the specification.
        let [small, large] =
            ["ResNet-50 (batch size 16)", "ResNet-50 (batch size 128)"].map(|name| table.row(name).unwrap());
        let part = |row, other, gpu_type| {
            table.pair_per_s(row, other, gpu_type, 1).unwrap()
                / table.per_s(row, gpu_type, 1, Locality::Node).unwrap()
        };
        let parts = [part(small, large, "v100"), part(large, small, "v100"), part(small, large, "p100")];
        assert_eq!(parts.map(|part| (part * 100.0).round()), [29.0, 39.0, 52.0]);
        assert_eq!(table.pair_per_s(small, large, "k80", 1), Some(0.0), "they do not fit together");
        assert_eq!(table.pair_per_s(small, large, "v100", 2), None, "nothing is said of gangs");
    }

    #[test]
    fn the_physical_table_differs_on_single_gpus_only() {
        let (simulated, physical) = (gavel_throughputs(), gavel_physical_throughputs());
        let of = |table: &ThroughputTable, model: &str, gpu_type: &str, gpus| {
            table.per_s(table.row(model).unwrap(), gpu_type, gpus, Locality::Node)
        };
        assert_eq!(of(&simulated, "Recommendation (batch size 512)", "v100", 1).unwrap().round(), 23.0);
        assert_eq!(of(&physical, "Recommendation (batch size 512)", "v100", 1), Some(253.6));
        assert_eq!(of(&physical, "ResNet-50 (batch size 128)", "k80", 1), None, "it does not fit there");
        // One GPU is as fast wherever it is.
        let alone = physical.row("Recommendation (batch size 512)").unwrap();
        assert_eq!(physical.per_s(alone, "v100", 1, Locality::Rack), Some(253.6));
        for gpus in [2, 4, 8] {
            let both = [&simulated, &physical].map(|table| of(table, "LM (batch size 5)", "p100", gpus));
            assert_eq!(both[0], both[1]);
        }
        assert_eq!(physical.pair_per_s(0, 0, "v100", 1), None);
    }

    #[test]
    fn names_are_known_and_files_are_read() {
        for (name, _) in NAMED {
            assert!(load_throughputs(name).is_ok(), "{name}");
        }
        let error = load_throughputs("/nowhere/at-all.json").unwrap_err();
        assert!(error.to_string().contains("/nowhere/at-all.json"), "{error}");
    }
}
