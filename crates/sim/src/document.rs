//! Small files that are read whole: cluster descriptions and capacity series. Opened, decompressed by content,
//! bounded and checked to be text; and, for those that are tables, split into rows. Knows no format.

use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::strangers;
use crate::trace::{Splitter, shortened, unpacked};

/// A document may be so large, decompressed; the description of ten thousand Kubernetes nodes is about as long.
const LIMIT_BYTES: u64 = 128 << 20;

/// Why a file that is to be read whole cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The file is not there or may not be read.
    #[error("cannot read {}: check the path and its permissions", .path.display())]
    Open {
        /// The path as it was given.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A packed file that is damaged.
    #[error("{file}: unpacking broke off; test the file with `gzip -t` or `zstd -t`")]
    Packed {
        /// The file's name.
        file: String,
        /// The cause.
        source: std::io::Error,
    },
    /// Far too long.
    #[error("{file}: longer than {limit_bytes} bytes; no list of nodes is, so check what it holds")]
    TooLong {
        /// The file's name.
        file: String,
        /// The limit.
        limit_bytes: u64,
    },
    /// A kind of file that is no text, and is known.
    #[error("{file} is {what}, and not text")]
    Binary {
        /// The file's name.
        file: String,
        /// What it is, and what to do.
        what: &'static str,
    },
    /// Bytes that are no text.
    #[error("{file}:{line}: not UTF-8 text (near `{near}`); convert the file with `iconv -t utf-8`")]
    NotText {
        /// The file's name.
        file: String,
        /// The line.
        line: usize,
        /// What stands before it.
        near: String,
    },
    /// A row or entry that is not understood.
    #[error("{file}:{line}: {what}")]
    Row {
        /// The file's name.
        file: String,
        /// The line.
        line: usize,
        /// What is wrong, with field and value.
        what: String,
    },
}

/// A text, read whole.
pub(crate) struct Document {
    /// What errors call it.
    pub(crate) file: String,
    /// All of it, without a byte order mark.
    pub(crate) text: String,
    /// The first 16 hex digits of the SHA-256 of its bytes, decompressed.
    pub(crate) sha256_16: String,
}

impl Document {
    /// Reads a file, plain, gzip or zstd.
    pub(crate) fn open(path: &Path) -> Result<Self, DocumentError> {
        let failed = |source| DocumentError::Open { path: path.to_owned(), source };
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let source = std::fs::File::open(path).map_err(failed)?;
        if source.metadata().map_err(failed)?.is_dir() {
            return Err(failed(std::io::ErrorKind::IsADirectory.into()));
        }
        let packed = bounded(&name, source, failed)?;
        Self::new(&name, packed)
    }

    /// Takes bytes, plain, gzip or zstd.
    pub(crate) fn new(file: &str, bytes: Vec<u8>) -> Result<Self, DocumentError> {
        let broken = |source| DocumentError::Packed { file: file.to_owned(), source };
        let plain = bounded(file, unpacked(&bytes[..]), broken)?;
        if let Some(what) = strangers::binary(&plain) {
            return Err(DocumentError::Binary { file: file.to_owned(), what });
        }
        let sha256_16 = sha256_16(&plain);
        let text = String::from_utf8(plain).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let bytes = error.as_bytes();
            let line = bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
            let near = String::from_utf8_lossy(&bytes[at.saturating_sub(20)..at]).into_owned();
            DocumentError::NotText { file: file.to_owned(), line, near: printable(&near) }
        })?;
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        Ok(Self { file: file.to_owned(), text, sha256_16 })
    }

    /// Says what is wrong at a line.
    pub(crate) fn wrong(&self, line: usize, what: impl Into<String>) -> DocumentError {
        DocumentError::Row { file: self.file.clone(), line, what: what.into() }
    }

    /// Its rows under its header.
    pub(crate) fn table(&self) -> Result<Table<'_>, DocumentError> {
        let mut lines = self.text.lines().enumerate();
        let head = lines.find(|(_, line)| !line.trim().is_empty());
        let (index, head) = head.ok_or_else(|| self.wrong(1, "the file is empty"))?;
        let mut splitter = Splitter::default();
        let record = splitter.split(head, b',').map_err(|problem| self.wrong(index + 1, problem.what))?;
        let names: Vec<String> = (0..record.len()).map(|i| record.get(i).to_owned()).collect();
        let rest = &self.text[head.as_ptr() as usize - self.text.as_ptr() as usize + head.len()..];
        Ok(Table { document: self, names, line: index + 1, rest })
    }
}

/// The SHA-256 of bytes, its first 16 hex digits.
fn sha256_16(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn bounded(
    file: &str,
    source: impl Read,
    failed: impl FnOnce(std::io::Error) -> DocumentError,
) -> Result<Vec<u8>, DocumentError> {
    let mut bytes = Vec::new();
    source.take(LIMIT_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LIMIT_BYTES {
        return Err(DocumentError::TooLong { file: file.to_owned(), limit_bytes: LIMIT_BYTES });
    }
    Ok(bytes)
}

/// At most 60 characters of a value.
pub(crate) fn printable(value: &str) -> String {
    shortened(value, 60)
}

/// Rows under a header.
pub(crate) struct Table<'a> {
    document: &'a Document,
    names: Vec<String>,
    line: usize,
    rest: &'a str,
}

impl<'a> Table<'a> {
    /// The names of the columns.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Where a column stands.
    pub(crate) fn column(&self, name: &str) -> Result<usize, DocumentError> {
        self.names.iter().position(|known| known == name).ok_or_else(|| {
            let found = printable(&self.names.join(", "));
            self.document.wrong(self.line, format!("the column `{name}` is missing; the header has {found}"))
        })
    }

    /// Calls `take` for every row that is not blank, and says how many there are.
    pub(crate) fn each<E: From<DocumentError>>(
        &self,
        mut take: impl FnMut(Row<'_>) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut splitter = Splitter::default();
        let mut rows = 0;
        // The rest begins at the end of the header's line, so its first line is empty.
        for (index, text) in self.rest.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
            let line = self.line + index;
            let wrong = |problem: crate::trace::Problem| self.document.wrong(line, problem.what);
            let record = splitter.split(text, b',').map_err(wrong)?;
            record.expect(self.names.len()).map_err(wrong)?;
            let fields: Vec<&str> = (0..record.len()).map(|i| record.get(i)).collect();
            take(Row { table: self, line, fields })?;
            rows += 1;
        }
        if rows == 0 {
            return Err(self.document.wrong(self.line, "no row follows the header").into());
        }
        Ok(rows)
    }
}

/// One row.
pub(crate) struct Row<'a> {
    table: &'a Table<'a>,
    /// Its line.
    pub(crate) line: usize,
    fields: Vec<&'a str>,
}

impl Row<'_> {
    /// A field without surrounding blanks.
    pub(crate) fn get(&self, column: usize) -> &str {
        self.fields[column]
    }

    /// Says what is wrong with a field.
    pub(crate) fn wrong(&self, column: usize, what: &str) -> DocumentError {
        let (name, value) = (printable(&self.table.names[column]), printable(self.fields[column]));
        self.table.document.wrong(self.line, format!("{name} `{value}`: {what}"))
    }

    /// A field with text in it.
    pub(crate) fn text(&self, column: usize) -> Result<&str, DocumentError> {
        let value = self.get(column);
        if value.is_empty() { Err(self.wrong(column, "is missing")) } else { Ok(value) }
    }

    /// A whole number up to `most`; `8.0` is one, too.
    pub(crate) fn whole(&self, column: usize, most: u64) -> Result<u64, DocumentError> {
        whole(self.get(column), most).map_err(|what| self.wrong(column, &what))
    }
}

/// A whole number from 0 to `most`, or what it is instead.
pub(crate) fn whole(value: &str, most: u64) -> Result<u64, String> {
    let wanted = || format!("give a whole number from 0 to {most}");
    let number: f64 = value.trim().parse().map_err(|_| wanted())?;
    let is_whole = number.fract() == 0.0 && (0.0..=most as f64).contains(&number);
    if is_whole { Ok(number as u64) } else { Err(wanted()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Document {
        Document::new("d.csv", text.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn rows_know_their_lines_whatever_ends_them() {
        for text in ["\u{feff}a,b\r\n\r\n1,2\r\n3,4", "a,b\n\n1,2\n3,4\n\n"] {
            let document = document(text);
            let table = document.table().unwrap();
            let mut seen = Vec::new();
            let rows = table.each(|row| -> Result<(), DocumentError> {
                seen.push((row.line, row.whole(1, 10)?));
                Ok(())
            });
            assert_eq!((rows.unwrap(), seen), (2, vec![(3, 2), (4, 4)]));
        }
    }

    #[test]
    fn fields_are_refused_with_line_name_and_value() {
        let document = document("a,b\n1,2\n3,2.5\n");
        let table = document.table().unwrap();
        let error = table.each(|row| row.whole(1, 10).map(drop)).unwrap_err();
        assert_eq!(error.to_string(), "d.csv:3: b `2.5`: give a whole number from 0 to 10");
        assert!(table.column("c").unwrap_err().to_string().contains("the header has a, b"));
    }

    #[test]
    fn what_is_no_text_is_refused_with_its_line() {
        let error = Document::new("d", b"a,b\n1,caf\xe9\n".to_vec()).err().unwrap();
        assert!(error.to_string().starts_with("d:2: not UTF-8"), "{error}");
        let cut = Document::new("d", b"\x1f\x8b\x08\x00".to_vec()).err().unwrap();
        assert!(matches!(cut, DocumentError::Packed { .. }));
    }
}
