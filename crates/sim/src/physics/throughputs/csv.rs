//! Our own form: `model,gpus,<type>,<type>_unconsolidated,...` in iterations a second, with a column `beside` for pairs.
//!
//! An empty field was not measured, and a zero means that the model does not fit.

use std::collections::BTreeSet;

use super::TableError;
use crate::physics::ThroughputTable;

const SPREAD: &str = "_unconsolidated";
const BESIDE: &str = "beside";

/// Adds the rows of a text.
pub(super) fn read_into(table: &mut ThroughputTable, file: &str, text: &str) -> Result<(), TableError> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let header: Vec<&str> = lines.next().map_or("", |(_, line)| line).split(',').map(str::trim).collect();
    let has_pairs = header.get(2) == Some(&BESIDE);
    let first = if has_pairs { 3 } else { 2 };
    if header.len() <= first || header[..2] != ["model", "gpus"] {
        return Err(TableError::Header { file: file.to_owned() });
    }
    let mut seen = BTreeSet::new();
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
        let other = if has_pairs { fields[2] } else { "" };
        if !seen.insert((fields[0], gpus, other)) {
            let model =
                if other.is_empty() { fields[0].to_owned() } else { format!("{} beside {other}", fields[0]) };
            return Err(TableError::Repeated { file: file.to_owned(), line, model, gpus });
        }
        let row = table.intern(fields[0]);
        let other = (!other.is_empty()).then(|| table.intern(other));
        for (column, value) in fields.iter().enumerate().skip(first).filter(|(_, value)| !value.is_empty()) {
            let per_s: f64 = value.parse().map_err(|_| wrong(column))?;
            if !(per_s.is_finite() && per_s >= 0.0) {
                return Err(wrong(column));
            }
            let (gpu_type, spread) =
                header[column].strip_suffix(SPREAD).map_or((header[column], false), |name| (name, true));
            match other {
                None => table.insert(row, gpu_type, gpus, spread, per_s),
                Some(other) if !spread => table.insert_pair(row, other, gpu_type, gpus, per_s),
                Some(_) => {
                    let column = header[column].to_owned();
                    return Err(TableError::SpreadPair { file: file.to_owned(), line, column });
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::parse_throughputs;
    use super::*;
    use crate::physics::Locality;

    #[test]
    fn a_broken_table_is_refused_with_line_and_value() {
        let parse = |text: &str| parse_throughputs("t.csv", text).unwrap_err();
        assert!(matches!(parse(""), TableError::Header { .. }));
        assert!(matches!(parse("model,gpus,beside\nx,1,"), TableError::Header { .. }));
        assert!(matches!(parse("model,gpus,a\nx,1"), TableError::Fields { line: 2, found: 2, .. }));
        assert!(matches!(parse("model,gpus,a\nx,1,-3"), TableError::Number { line: 2, .. }));
        assert!(matches!(parse("model,gpus,a\nx,one,3"), TableError::Number { .. }));
        assert!(matches!(parse("model,gpus,a\nx,1,3\nx,1,4"), TableError::Repeated { line: 3, .. }));
        let twice = "model,gpus,beside,a\nx,1,,3\nx,1,y,3\nx,1,y,2";
        assert!(matches!(parse(twice), TableError::Repeated { line: 4, .. }));
        let spread = "model,gpus,beside,a,a_unconsolidated\nx,2,,3,1\nx,2,y,3,1";
        assert!(matches!(parse(spread), TableError::SpreadPair { line: 3, .. }));
        assert!(matches!(parse("model,gpus,a\nx,1,\n"), TableError::Empty { .. }));
    }

    #[test]
    fn pairs_stand_beside_single_jobs() {
        let text = "model,gpus,beside,a,b\nx,1,,4,2\nx,1,y,3,\nx,1,z,0,1\n";
        let table = parse_throughputs("t.csv", text).unwrap();
        let [x, y, z] = ["x", "y", "z"].map(|name| table.row(name).unwrap());
        assert_eq!(table.per_s(x, "a", 1, Locality::Node), Some(4.0));
        let pairs = [(y, "a"), (y, "b"), (z, "a"), (z, "b")];
        let found = pairs.map(|(other, gpu_type)| table.pair_per_s(x, other, gpu_type, 1));
        assert_eq!(found, [Some(3.0), None, Some(0.0), Some(1.0)]);
    }
}
