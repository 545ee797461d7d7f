//! Lines of a trace: opened, decompressed, hashed and bounded. Knows nothing of columns.
//!
//! One row is one line. That keeps line numbers exact and memory bounded by [`LINE_LIMIT_BYTES`]: a quote
//! that is never closed spoils its own row and not the rest of the file.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use sha2::{Digest, Sha256};

use super::error::TraceError;
use super::fields::Problem;

/// The longest line that is read; a row of a trace has some hundred bytes.
pub(crate) const LINE_LIMIT_BYTES: usize = 1 << 20;
const BUFFER_BYTES: usize = 1 << 16;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const GZIP_MAGIC: &[u8] = b"\x1f\x8b";

/// The lines of one file.
pub(crate) struct Lines<'a> {
    file: String,
    reader: BufReader<Hashing<Box<dyn Read + 'a>>>,
    buffer: Vec<u8>,
    number: u64,
    /// Whether the line in the buffer is to be given out again.
    again: bool,
}

/// A line without its end.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    /// Counted from 1, blank lines included.
    pub(crate) number: u64,
    /// What stands in it.
    pub(crate) bytes: &'a [u8],
}

/// Hashes what is read through it.
struct Hashing<R> {
    inner: R,
    hasher: Sha256,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}

impl<'a> Line<'a> {
    /// The line as text.
    pub(crate) fn text(self) -> Result<&'a str, Problem> {
        if self.bytes.contains(&0) {
            return Err(Problem::new("the row has a NUL byte", "", ""));
        }
        std::str::from_utf8(self.bytes).map_err(|error| {
            let from = error.valid_up_to().saturating_sub(20);
            let part = &self.bytes[from..self.bytes.len().min(from + 40)];
            Problem::new("the row is not UTF-8 text", "", &String::from_utf8_lossy(part))
        })
    }
}

impl Lines<'static> {
    /// Opens a file.
    pub(crate) fn open(path: &Path) -> Result<Self, TraceError> {
        let source = File::open(path)
            .and_then(|file| {
                // A directory opens like a file and only fails when it is read.
                let is_directory = file.metadata()?.is_dir();
                if is_directory { Err(std::io::ErrorKind::IsADirectory.into()) } else { Ok(file) }
            })
            .map_err(|source| TraceError::Open { path: path.to_owned(), source })?;
        let name = path.file_name().unwrap_or(path.as_os_str());
        Self::new(&name.to_string_lossy(), source)
    }
}

impl<'a> Lines<'a> {
    /// Reads from anything; gzip is recognised by its first two bytes.
    pub(crate) fn new(file: &str, source: impl Read + 'a) -> Result<Self, TraceError> {
        let file = file.to_owned();
        let mut source = BufReader::with_capacity(BUFFER_BYTES, source);
        let mut start = Vec::with_capacity(GZIP_MAGIC.len());
        if let Err(error) = source.by_ref().take(GZIP_MAGIC.len() as u64).read_to_end(&mut start) {
            return Err(TraceError::Read { file, line: 0, source: error });
        }
        let is_gzip = start == GZIP_MAGIC;
        let whole = std::io::Cursor::new(start).chain(source);
        let plain: Box<dyn Read + 'a> =
            if is_gzip { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) };
        let hashing = Hashing { inner: plain, hasher: Sha256::new() };
        let reader = BufReader::with_capacity(BUFFER_BYTES, hashing);
        Ok(Self { file, reader, buffer: Vec::new(), number: 0, again: false })
    }

    /// The file's name.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// The next line that is not blank.
    pub(crate) fn next(&mut self) -> Result<Option<Line<'_>>, TraceError> {
        if std::mem::take(&mut self.again) {
            return Ok(Some(Line { number: self.number, bytes: trimmed(&self.buffer, self.number) }));
        }
        loop {
            self.buffer.clear();
            let limit = LINE_LIMIT_BYTES as u64 + 1;
            let read = self.reader.by_ref().take(limit).read_until(b'\n', &mut self.buffer);
            let count = read.map_err(|source| TraceError::Read {
                file: self.file.clone(),
                line: self.number,
                source,
            })?;
            if count == 0 {
                return Ok(None);
            }
            self.number += 1;
            if count > LINE_LIMIT_BYTES {
                let limit_bytes = LINE_LIMIT_BYTES;
                return Err(TraceError::LongLine { file: self.file.clone(), line: self.number, limit_bytes });
            }
            if !trimmed(&self.buffer, self.number).trim_ascii().is_empty() {
                break;
            }
        }
        Ok(Some(Line { number: self.number, bytes: trimmed(&self.buffer, self.number) }))
    }

    /// The next line that is not blank, without passing it.
    pub(crate) fn peek(&mut self) -> Result<Option<Line<'_>>, TraceError> {
        if self.next()?.is_none() {
            return Ok(None);
        }
        self.again = true;
        Ok(Some(Line { number: self.number, bytes: trimmed(&self.buffer, self.number) }))
    }

    /// The first 16 hex digits of the SHA-256 of everything that was read.
    pub(crate) fn sha256_16(self) -> String {
        let digest = self.reader.into_inner().hasher.finalize();
        digest.iter().take(8).fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

/// A line without its end and, if it is the first, without the byte order mark.
fn trimmed(line: &[u8], number: u64) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if number == 1 { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut lines = Lines::new("test.csv", bytes).unwrap();
        let mut found = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            found.push((line.number, line.bytes.to_vec()));
        }
        found
    }

    #[test]
    fn a_byte_order_mark_carriage_returns_and_blank_lines_change_nothing() {
        let plain = all(b"a,b\n1,2\n");
        assert_eq!(all(b"\xef\xbb\xbfa,b\r\n1,2\r\n\r\n\n"), plain);
        assert_eq!(all(b"a,b\n1,2"), plain);
        assert_eq!(all(b"a,b\n\n1,2")[1].0, 3, "line numbers count blank lines");
    }

    #[test]
    fn gzip_is_recognised_by_content_and_hashed_as_plain_text() {
        use std::io::Write as _;
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(b"a,b\n1,2\n").unwrap();
        let packed = packed.finish().unwrap();
        assert_eq!(all(&packed), all(b"a,b\n1,2\n"));
        let hash = |bytes: &[u8]| {
            let mut lines = Lines::new("test", bytes).unwrap();
            while lines.next().unwrap().is_some() {}
            lines.sha256_16()
        };
        assert_eq!(hash(&packed), hash(b"a,b\n1,2\n"));
        // The digest of nothing is a published constant.
        assert_eq!(hash(b""), "e3b0c44298fc1c14");
        let mut cut = Lines::new("cut.gz", &packed[..packed.len() - 6]).unwrap();
        let error = loop {
            match cut.next() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("a gzip file that is cut short was taken for a whole one"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, TraceError::Read { .. }));
    }

    #[test]
    fn a_line_without_end_is_refused_and_not_swallowed() {
        let endless = std::io::repeat(b'x');
        let error = Lines::new("long.csv", endless).unwrap().next().map(|_| ()).unwrap_err();
        assert!(matches!(error, TraceError::LongLine { line: 1, .. }));
    }

    #[test]
    fn peeking_does_not_pass_a_line() {
        let mut lines = Lines::new("test", &b"a\nb\n"[..]).unwrap();
        assert_eq!(lines.peek().unwrap().unwrap().bytes, b"a");
        assert_eq!(lines.next().unwrap().unwrap().bytes, b"a");
        assert_eq!(lines.next().unwrap().unwrap().bytes, b"b");
        assert!(lines.next().unwrap().is_none());
    }
}
