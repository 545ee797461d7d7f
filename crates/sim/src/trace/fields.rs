//! Fields of a row: splitting, finding columns by name, and reading values with their limits.

use std::collections::BTreeSet;

use trainyard_sched::model::{Span, Time};

use super::error::{LONGEST_LIST, TraceError, shortened};
use super::lines::Lines;
use crate::workload::Done;

/// The longest time that is read, in seconds: about three thousand years.
pub(crate) const LIMIT_S: f64 = 1e11;
/// The most GPUs that one job may ask for.
pub(crate) const GPU_LIMIT: f64 = 65_535.0;
/// The most memory that one job may ask for, in bytes; far below what the arithmetic holds.
pub(crate) const MOST_BYTES: f64 = 1e18;
/// The most CPU cores that one worker may ask for.
pub(crate) const MOST_CPUS: f64 = 1e6;
/// The most iterations that one job may have.
pub(crate) const MOST_ITERATIONS: f64 = 1e15;
const SECONDS_PER_MINUTE: f64 = 60.0;
const SECONDS_PER_MILLISECOND: f64 = 1e-3;

/// Why a row is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// What is wrong, the same for all rows with this problem.
    pub(crate) what: String,
    /// The field, as the trace calls it; empty where the whole row is meant.
    pub(crate) field: String,
    /// Its value.
    pub(crate) value: String,
}

impl Problem {
    /// A problem with the value of a field, of which at most 60 characters are kept.
    pub(crate) fn new(what: impl Into<String>, field: &str, value: &str) -> Self {
        let value = value.chars().take(60).collect();
        Self { what: what.into(), field: field.to_owned(), value }
    }

    /// The place as `file:line: field value`.
    pub(crate) fn place(&self, file: &str, line: u64) -> String {
        let parts = [self.field.as_str(), self.value.as_str()];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        if parts.is_empty() {
            format!("{file}:{line}")
        } else {
            format!("{file}:{line}: {}", parts.join(" "))
        }
    }
}

/// Something to tell of a row that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remark {
    /// Whether it was mended or assumed, or is only said.
    pub(crate) done: Done,
    /// What, and where in the row.
    pub(crate) problem: Problem,
}

impl Remark {
    /// Something had to be assumed.
    pub(crate) fn assumed(what: impl Into<String>, field: &str, value: &str) -> Self {
        Self { done: Done::Assumed, problem: Problem::new(what, field, value) }
    }
}

/// Splits lines into fields and keeps its memory between them.
#[derive(Default)]
pub(crate) struct Splitter {
    ranges: Vec<(u32, u32)>,
    unquoted: String,
}

/// The fields of one line.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    text: &'a str,
    ranges: &'a [(u32, u32)],
}

impl Splitter {
    /// Splits at `separator`; where a quote is present, by the rules of RFC 4180 within the one line.
    pub(crate) fn split<'a>(&'a mut self, line: &'a str, separator: u8) -> Result<Record<'a>, Problem> {
        self.ranges.clear();
        if separator == b',' && line.contains('"') {
            return self.split_quoted(line);
        }
        let mut start = 0;
        for (end, _) in line.bytes().enumerate().filter(|(_, byte)| *byte == separator) {
            self.ranges.push((start, end as u32));
            start = end as u32 + 1;
        }
        self.ranges.push((start, line.len() as u32));
        Ok(Record { text: line, ranges: &self.ranges })
    }

    fn split_quoted(&mut self, line: &str) -> Result<Record<'_>, Problem> {
        let unclosed = line.bytes().filter(|byte| *byte == b'"').count() % 2 == 1;
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
        let mut record = csv::StringRecord::new();
        if unclosed || !reader.read_record(&mut record).unwrap_or(false) {
            return Err(Problem::new("the row has a quote that is never closed", "", line));
        }
        self.unquoted.clear();
        for field in &record {
            let start = self.unquoted.len() as u32;
            self.unquoted.push_str(field);
            self.ranges.push((start, self.unquoted.len() as u32));
        }
        Ok(Record { text: &self.unquoted, ranges: &self.ranges })
    }
}

impl<'a> Record<'a> {
    /// How many fields there are.
    pub(crate) const fn len(&self) -> usize {
        self.ranges.len()
    }

    /// A field without surrounding blanks; empty where there is none.
    pub(crate) fn get(&self, index: usize) -> &'a str {
        self.ranges.get(index).map_or("", |(start, end)| self.text[*start as usize..*end as usize].trim())
    }

    /// Refuses a row with another number of fields.
    pub(crate) fn expect(&self, count: usize) -> Result<(), Problem> {
        if self.len() == count {
            return Ok(());
        }
        Err(Problem::new(format!("expected {count} fields, found {}", self.len()), "", ""))
    }
}

/// The columns of a header.
pub(crate) struct Header {
    names: Vec<String>,
    line: u64,
}

impl Header {
    /// Takes the next line as a header with commas.
    pub(crate) fn read(lines: &mut Lines<'_>) -> Result<Self, TraceError> {
        Self::read_with(lines, b',')
    }

    /// Takes the next line as a header.
    pub(crate) fn read_with(lines: &mut Lines<'_>, separator: u8) -> Result<Self, TraceError> {
        let file = lines.file().to_owned();
        let Some(line) = lines.next()? else { return Err(TraceError::Empty { file }) };
        let number = line.number;
        let not_text = |_| TraceError::HeaderNotText { file: file.clone(), line: number };
        let mut splitter = Splitter::default();
        let record = line.text().and_then(|text| splitter.split(text, separator)).map_err(not_text)?;
        let names: Vec<String> = (0..record.len()).map(|i| record.get(i).to_owned()).collect();
        let mut seen = BTreeSet::new();
        if let Some(column) = names.iter().find(|name| !seen.insert(name.as_str())) {
            return Err(TraceError::RepeatedColumn { file, line: number, column: shortened(column, 60) });
        }
        Ok(Self { names, line: number })
    }

    /// The number of columns.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// The columns in their order.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The header's line.
    pub(crate) const fn line(&self) -> u64 {
        self.line
    }

    /// Where a column stands, if it is there.
    pub(crate) fn find(&self, column: &str) -> Option<usize> {
        self.names.iter().position(|name| name == column)
    }

    /// Where a column stands.
    pub(crate) fn need(&self, lines: &Lines<'_>, column: &'static str) -> Result<usize, TraceError> {
        self.find(column).ok_or_else(|| TraceError::MissingColumn {
            file: lines.file().to_owned(),
            line: self.line,
            column,
            found: shortened(&self.names.join(", "), LONGEST_LIST),
        })
    }
}

/// A finite number.
pub(crate) fn number(field: &str, value: &str) -> Result<f64, Problem> {
    match value.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ if value.is_empty() => Err(Problem::new(format!("{field} is missing"), field, "(empty)")),
        _ => Err(Problem::new(format!("{field} is not a finite number"), field, value)),
    }
}

/// A number from `least` to `most`.
pub(crate) fn number_within(field: &str, value: &str, least: f64, most: f64) -> Result<f64, Problem> {
    let number = number(field, value)?;
    if (least..=most).contains(&number) {
        return Ok(number);
    }
    Err(Problem::new(format!("{field} is not between {least} and {most}"), field, value))
}

/// A whole number from `least` to `most`.
pub(crate) fn whole(field: &str, value: &str, least: f64, most: f64) -> Result<f64, Problem> {
    let number = number_within(field, value, least, most)?;
    if number.fract() == 0.0 {
        return Ok(number);
    }
    Err(Problem::new(format!("{field} is not a whole number"), field, value))
}

/// A number of GPUs of a gang.
pub(crate) fn gpu_count(field: &str, value: &str) -> Result<u32, Problem> {
    Ok(whole(field, value, 1.0, GPU_LIMIT)? as u32)
}

/// A time in seconds from zero upwards.
pub(crate) fn time_s(field: &str, value: &str) -> Result<Time, Problem> {
    span_s(field, value).map(|span| Time(span.0))
}

/// A length of time in seconds from zero upwards.
pub(crate) fn span_s(field: &str, value: &str) -> Result<Span, Problem> {
    span_of(field, value, 1.0)
}

/// A run time in seconds above zero.
pub(crate) fn duration_s(field: &str, value: &str) -> Result<Span, Problem> {
    above_zero(field, value, span_s(field, value)?)
}

/// A time in milliseconds from zero upwards.
pub(crate) fn time_ms(field: &str, value: &str) -> Result<Time, Problem> {
    span_ms(field, value).map(|span| Time(span.0))
}

/// A length of time in milliseconds from zero upwards.
pub(crate) fn span_ms(field: &str, value: &str) -> Result<Span, Problem> {
    span_of(field, value, SECONDS_PER_MILLISECOND)
}

/// A run time in milliseconds above zero.
pub(crate) fn duration_ms(field: &str, value: &str) -> Result<Span, Problem> {
    above_zero(field, value, span_ms(field, value)?)
}

/// A time in minutes from zero upwards.
pub(crate) fn time_min(field: &str, value: &str) -> Result<Time, Problem> {
    span_min(field, value).map(|span| Time(span.0))
}

/// A length of time in minutes from zero upwards.
pub(crate) fn span_min(field: &str, value: &str) -> Result<Span, Problem> {
    span_of(field, value, SECONDS_PER_MINUTE)
}

/// A run time in minutes above zero.
pub(crate) fn duration_min(field: &str, value: &str) -> Result<Span, Problem> {
    above_zero(field, value, span_min(field, value)?)
}

/// A length of time in units of so many seconds.
fn span_of(field: &str, value: &str, unit_s: f64) -> Result<Span, Problem> {
    let seconds = number(field, value)? * unit_s;
    if seconds < 0.0 {
        return Err(Problem::new(format!("{field} is negative"), field, value));
    }
    if seconds > LIMIT_S {
        return Err(Problem::new(format!("{field} is longer than three thousand years"), field, value));
    }
    Ok(Span::from_secs_f64(seconds))
}

fn above_zero(field: &str, value: &str, span: Span) -> Result<Span, Problem> {
    if span == Span::ZERO {
        return Err(Problem::new(format!("{field} is zero"), field, value));
    }
    Ok(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_commas_belong_to_their_field() {
        let mut splitter = Splitter::default();
        let record = splitter.split(r#"1,"a, ""b""",3"#, b',').unwrap();
        assert_eq!((record.len(), record.get(1)), (3, r#"a, "b""#));
        assert!(splitter.split(r#"1,"a,3"#, b',').is_err());
        let plain = splitter.split("1, 2 ,", b',').unwrap();
        assert_eq!((plain.len(), plain.get(1), plain.get(2)), (3, "2", ""));
    }

    #[test]
    fn odd_numbers_are_refused_with_their_value() {
        for value in ["-1", "1e309", "NaN", "four", "2.5", "", "inf", "0", "65536"] {
            let problem = gpu_count("num_gpus", value).unwrap_err();
            assert_eq!(problem.field, "num_gpus");
            assert!(problem.value == value || value.is_empty(), "{problem:?}");
        }
        assert_eq!(gpu_count("num_gpus", "8"), Ok(8));
        assert_eq!(gpu_count("num_gpus", "8.0"), Ok(8));
        assert!(duration_s("duration", "0").is_err());
        assert!(duration_s("duration", "-3").unwrap_err().what.contains("negative"));
        assert_eq!(duration_s("duration", "66.0"), Ok(Span::from_secs(66)));
    }
}
