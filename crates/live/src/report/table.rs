//! Reports as rows of CSV, one on each line, below a line of names.

use csv::{ReaderBuilder, StringRecord};

use super::form::shortened;
use super::names::{Field, Reading, known, number};

/// What separates columns, the surest first.
const SEPARATORS: [u8; 3] = [b',', b'\t', b';'];

/// The header that rows are read by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    separator: u8,
    width: usize,
    columns: Vec<(usize, Field)>,
}

impl Header {
    /// Reads a header: a line with the name of a loss, an iteration or anything else that we know, and without numbers.
    /// Of several columns for one thing the one with the surest name counts.
    pub(super) fn read(line: &str) -> Result<Self, String> {
        let headers = SEPARATORS.iter().filter_map(|separator| Self::separated(line, *separator));
        let none = || {
            format!(
                "no header with a known name stands before it: `{}`; known are {}",
                shortened(line),
                known()
            )
        };
        headers.max_by_key(|header| header.columns.len()).ok_or_else(none)
    }

    fn separated(line: &str, separator: u8) -> Option<Self> {
        let names = split(line, separator)?;
        if names.iter().any(|name| number(name).is_some()) {
            return None;
        }
        let place = |field: Field| {
            let ranked =
                names.iter().enumerate().filter_map(|(at, name)| Some((field.rank(name.trim())?, at)));
            ranked.min().map(|(_, at)| (at, field))
        };
        let columns: Vec<(usize, Field)> = Field::ALL.into_iter().filter_map(place).collect();
        (!columns.is_empty()).then_some(Self { separator, width: names.len(), columns })
    }

    /// What a row says. An empty field says nothing.
    pub(super) fn row(&self, line: &str) -> Result<Reading, String> {
        let row = split(line, self.separator).ok_or("it is no row of CSV")?;
        if row.len() != self.width {
            return Err(format!("it has {} fields, and the header {}", row.len(), self.width));
        }
        let mut reading = Reading::default();
        for (at, field) in &self.columns {
            let text = row[*at].trim();
            if text.is_empty() {
                continue;
            }
            let taken =
                number(text).ok_or(()).and_then(|value| reading.take(*field, Some(value)).map_err(drop));
            taken.map_err(|()| format!("the {} cannot be `{}`", field.names()[0], shortened(text)))?;
        }
        Ok(reading)
    }
}

/// The fields of a line.
fn split(line: &str, separator: u8) -> Option<StringRecord> {
    // To build a reader takes longer than all else, and most lines have nothing that needs one.
    if !line.contains('"') {
        return Some(line.split(char::from(separator)).collect());
    }
    read(line, separator)
}

fn read(line: &str, separator: u8) -> Option<StringRecord> {
    let builder = &mut ReaderBuilder::new();
    let builder = builder.has_headers(false).flexible(true).delimiter(separator).buffer_capacity(1024);
    let mut record = StringRecord::new();
    let is_read = builder.from_reader(line.as_bytes()).read_record(&mut record).unwrap_or(false);
    is_read.then_some(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name_in_any_place_and_with_any_separator() {
        for header in
            ["lr,Loss,STEP,acc", "lr\tLoss\tSTEP\tacc", "lr; Loss ;STEP;acc", "\"lr\",\"Loss\",STEP,acc"]
        {
            let separator = header.chars().find(|c| [',', '\t', ';'].contains(c)).expect("one separates");
            let header = Header::read(header).expect(header);
            let row = ["0.1", "2.5", "\"7\"", ""].join(&separator.to_string());
            let reading = header.row(&row).expect("it is understood");
            assert_eq!((reading.loss, reading.iteration, reading.accuracy), (Some(2.5), Some(7.0), None));
        }
        let both = Header::read("epoch,train_loss,loss,iteration").expect("names");
        let reading = both.row("1,9,2,30").expect("numbers");
        assert_eq!((reading.epoch, reading.loss, reading.iteration), (Some(1.0), Some(2.0), Some(30.0)));
    }

    #[test]
    fn lines_without_quotation_marks_are_split_as_the_reader_would() {
        for line in ["a", "a,b", ",", "a,,b,", " a , b;c\td", ",,,", "'a,b'", "ü,\\,x"] {
            for separator in SEPARATORS {
                assert_eq!(split(line, separator), read(line, separator), "{line}");
            }
        }
    }

    #[test]
    fn a_line_without_known_names_is_no_header_and_the_error_says_which_are_known() {
        let error = Header::read("time,value").expect_err("nothing is known");
        assert!(error.contains("`time,value`") && error.contains("global_step") && error.contains("saved"));
        assert!(Header::read("1,loss").is_err(), "a number is no name");
        assert!(Header::read("").is_err());
    }

    #[test]
    fn rows_that_are_torn_are_told() {
        let header = Header::read("step,loss").expect("names");
        assert_eq!(header.row("3"), Err("it has 1 fields, and the header 2".to_owned()));
        assert_eq!(header.row("3,1,2"), Err("it has 3 fields, and the header 2".to_owned()));
        assert_eq!(header.row("3,low"), Err("the loss cannot be `low`".to_owned()));
        assert_eq!(header.row("-3,1"), Err("the iteration cannot be `-3`".to_owned()));
        assert!(header.row("3,NaN").expect("a loss").loss.is_some_and(f64::is_nan));
    }
}
