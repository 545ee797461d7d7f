//! Data from files: tables as CSV with the target in the last column or in the format of LIBSVM, and ratings as CSV.
//!
//! A file is refused at the first field that is not understood: to train on half of what was meant helps nobody.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::{Data, MOST_VALUES, Rating, Ratings, Table, bounded};
use crate::error::TrainError;

/// No line may be longer.
const MOST_LINE: u64 = 16 << 20;
/// No user and no item may have a larger number, and no column of LIBSVM's format.
const MOST_NUMBER: u32 = 9_999_999;
const REMEDY: &str = "leave some rows or columns out";

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Numbers separated by commas, the target last; a first line that is not of numbers is a header.
    Csv,
    /// `TARGET INDEX:VALUE ...` with indices from 1; what is not said is 0.
    Libsvm,
    /// `user,item,rating`, users and items by number from 0; a first line that is not of numbers is a header.
    Ratings,
}

/// Reads a file.
pub fn read(path: &Path, form: Form) -> Result<Data, TrainError> {
    let file =
        File::open(path).map_err(|source| TrainError::File { act: "read", path: path.to_owned(), source })?;
    read_from(&path.display().to_string(), file, form)
}

/// The same from anything; `file` is what errors call it.
pub fn read_from(file: &str, source: impl Read, form: Form) -> Result<Data, TrainError> {
    let mut lines = Lines { file, source: BufReader::new(source), number: 0, text: String::new() };
    match form {
        Form::Csv => csv(&mut lines),
        Form::Libsvm => libsvm(&mut lines),
        Form::Ratings => ratings(&mut lines),
    }
}

struct Lines<'a, R> {
    file: &'a str,
    source: BufReader<R>,
    number: u64,
    text: String,
}

impl<R: Read> Lines<'_, R> {
    /// Goes to the next line with text.
    fn advance(&mut self) -> Result<bool, TrainError> {
        loop {
            let mut bytes = std::mem::take(&mut self.text).into_bytes();
            bytes.clear();
            self.number += 1;
            let read = self.source.by_ref().take(MOST_LINE).read_until(b'\n', &mut bytes);
            let read =
                read.map_err(|source| TrainError::File { act: "read", path: self.file.into(), source })?;
            if read as u64 == MOST_LINE {
                return Err(self.fault("the line", "", "it is longer than 16 MiB"));
            }
            let Ok(text) = String::from_utf8(bytes) else {
                return Err(self.fault("the line", "", "it is not UTF-8 text"));
            };
            self.text = text;
            if read == 0 || !self.text.trim().is_empty() {
                return Ok(read > 0);
            }
        }
    }

    fn fault(&self, field: &str, value: &str, wanted: &'static str) -> TrainError {
        let value: String = value.trim().chars().take(40).collect();
        TrainError::Field {
            file: self.file.to_owned(),
            line: self.number,
            field: field.to_owned(),
            value,
            wanted,
        }
    }

    fn no_rows(&self) -> TrainError {
        TrainError::NoRows { file: self.file.to_owned() }
    }

    /// The number in a field.
    fn number(&self, field: impl Fn() -> String, text: &str) -> Result<f64, TrainError> {
        let number = cell(text).parse().ok().filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| self.fault(&field(), text, "a finite number is needed"))
    }

    /// The small whole number in a field.
    fn index(&self, field: &str, text: &str) -> Result<u32, TrainError> {
        let index = cell(text).parse().ok().filter(|index| *index <= MOST_NUMBER);
        index.ok_or_else(|| self.fault(field, text, "a whole number up to 9999999 is needed"))
    }

    /// Whether this is a first line that names columns.
    fn is_header(&self) -> bool {
        let names = |text: &str| cell(text).parse::<f64>().is_err() && !cell(text).is_empty();
        self.text.split(',').all(names)
    }
}

fn cell(text: &str) -> &str {
    text.trim().trim_matches('"')
}

fn csv<R: Read>(lines: &mut Lines<'_, R>) -> Result<Data, TrainError> {
    let mut table = Table::default();
    let mut width = None;
    let mut row = Vec::new();
    let mut first = true;
    while lines.advance()? {
        let header = first && lines.is_header();
        first = false;
        let fields = lines.text.split(',').count();
        if fields < 2 {
            return Err(lines.fault(
                "the row",
                &lines.text,
                "a column and a target are needed, separated by a comma",
            ));
        }
        if *width.get_or_insert(fields) != fields {
            return Err(lines.fault(
                "the row",
                &lines.text,
                "it has another number of columns than the first line",
            ));
        }
        if header {
            continue;
        }
        row.clear();
        for (column, text) in lines.text.split(',').enumerate() {
            row.push(lines.number(|| format!("column {}", column + 1), text)?);
        }
        bounded(lines.file, (table.values.len() + table.targets.len() + row.len()) as u64, REMEDY)?;
        table.targets.extend(row.pop());
        table.columns = row.len();
        table.values.append(&mut row);
    }
    if table.rows() == 0 { Err(lines.no_rows()) } else { Ok(Data::Table(table)) }
}

fn libsvm<R: Read>(lines: &mut Lines<'_, R>) -> Result<Data, TrainError> {
    let mut targets = Vec::new();
    let mut cells: Vec<(usize, u32, f64)> = Vec::new();
    let mut columns = 0;
    while lines.advance()? {
        let text = lines.text.split('#').next().unwrap_or_default();
        let mut words = text.split_whitespace();
        let Some(target) = words.next() else { continue };
        let row = targets.len();
        targets.push(lines.number(|| "the target".to_owned(), target)?);
        let mut before = 0;
        for word in words {
            let Some((index, value)) = word.split_once(':') else {
                return Err(lines.fault("a column", word, "INDEX:VALUE is needed"));
            };
            let index = lines.index("the index of a column", index)?;
            if index <= before {
                return Err(lines.fault("the index of a column", word, "indices begin with 1 and ascend"));
            }
            before = index;
            cells.push((row, index - 1, lines.number(|| format!("column {index}"), value)?));
        }
        columns = columns.max(before as usize);
        // A cell that is held in passing is as large as three numbers.
        bounded(lines.file, 3 * cells.len() as u64 + targets.len() as u64, REMEDY)?;
    }
    if targets.is_empty() || columns == 0 {
        return Err(lines.no_rows());
    }
    bounded(lines.file, targets.len() as u64 * (columns as u64 + 1), REMEDY)?;
    let mut values = vec![0.0; targets.len() * columns];
    for (row, column, value) in cells {
        values[row * columns + column as usize] = value;
    }
    Ok(Data::Table(Table { columns, values, targets }))
}

fn ratings<R: Read>(lines: &mut Lines<'_, R>) -> Result<Data, TrainError> {
    let mut ratings = Ratings::default();
    let mut first = true;
    while lines.advance()? {
        let header = first && lines.is_header();
        first = false;
        if header {
            continue;
        }
        let fields: Vec<&str> = lines.text.split(',').collect();
        // What follows the rating, such as the time, is not needed.
        let [user, item, value, ..] = fields[..] else {
            return Err(lines.fault(
                "the row",
                &lines.text,
                "user, item and rating are needed, separated by commas",
            ));
        };
        let (user, item) = (lines.index("the user", user)?, lines.index("the item", item)?);
        let value = lines.number(|| "the rating".to_owned(), value)?;
        ratings.users = ratings.users.max(user as usize + 1);
        ratings.items = ratings.items.max(item as usize + 1);
        bounded(lines.file, 2 * (ratings.entries.len() as u64 + 1), REMEDY)?;
        ratings.entries.push(Rating { user, item, value });
    }
    if ratings.entries.is_empty() {
        return Err(lines.no_rows());
    }
    ratings.entries.sort_by_key(|rating| (rating.user, rating.item));
    Ok(Data::Ratings(ratings))
}

const _: () = assert!(MOST_VALUES > MOST_LINE, "a line of numbers can be held");

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str, form: Form) -> Table {
        let Data::Table(table) = read_from("f", text.as_bytes(), form).unwrap() else { panic!("a table") };
        table
    }

    fn told(text: &str, form: Form) -> String {
        read_from("f", text.as_bytes(), form).unwrap_err().to_string()
    }

    #[test]
    fn both_forms_of_the_same_table_are_the_same() {
        let wanted = Table { columns: 2, values: vec![1.5, 0.0, 0.0, -2.0], targets: vec![1.0, -1.0] };
        assert_eq!(table("a,b,\"y\"\n1.5,0,1\n\n0, -2 ,-1\n", Form::Csv), wanted);
        assert_eq!(table("1.5,0,1\r\n0,-2,-1", Form::Csv), wanted);
        assert_eq!(table("+1 1:1.5 # first\n# none\n-1 2:-2\n", Form::Libsvm), wanted);
    }

    #[test]
    fn ratings_are_sorted_and_may_have_more_columns() {
        let text = "user,item,rating,time\n2,0,3.5,77\n0,1,4,78\n";
        let Data::Ratings(ratings) = read_from("f", text.as_bytes(), Form::Ratings).unwrap() else {
            panic!()
        };
        assert_eq!((ratings.users, ratings.items), (3, 2));
        let wanted = [(0, 1, 4.0), (2, 0, 3.5)].map(|(user, item, value)| Rating { user, item, value });
        assert_eq!(ratings.entries, wanted);
    }

    #[test]
    fn errors_name_line_field_and_value() {
        assert_eq!(told("1,2\n3,oops\n", Form::Csv), "f:2: column 2 is `oops`; a finite number is needed");
        assert!(told("a,b\n1,inf\n", Form::Csv).starts_with("f:2: column 2 is `inf`"));
        assert!(told("1,2\n1,2,3\n", Form::Csv).contains("f:2: the row is `1,2,3`"));
        assert!(told("1\n", Form::Csv).contains("a column and a target"));
        assert!(told("1,x\n", Form::Csv).starts_with("f:1: column 2"), "half a header is none");
        assert_eq!(told("\n\n", Form::Csv), "f: there is not a single row of data in it");
        assert!(told("a,b\n", Form::Csv).contains("not a single row"));
        assert!(told("1 1:2 1:3\n", Form::Libsvm).contains("indices begin with 1 and ascend"));
        assert!(told("1 0:2\n", Form::Libsvm).contains("f:1: the index of a column is `0:2`"));
        assert!(told("1 4\n", Form::Libsvm).contains("INDEX:VALUE"));
        assert!(told("1 99999999:1\n", Form::Libsvm).contains("up to 9999999"));
        let wide = "1 9000000:1\n".repeat(10);
        assert!(told(&wide, Form::Libsvm).contains("90000010 numbers in memory, and 67108864 are allowed"));
        assert!(told("0,1\n", Form::Ratings).contains("user, item and rating"));
        assert!(told("0,-1,3\n", Form::Ratings).contains("the item is `-1`"));
        assert!(read_from("f", &[0xff, b'\n'][..], Form::Csv).unwrap_err().to_string().contains("UTF-8"));
    }
}
