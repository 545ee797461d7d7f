//! Lines of a trace: counted, hashed and bounded. Knows nothing of columns, and nothing of archives (`open` does).
//!
//! One row is one line. That keeps line numbers exact and memory bounded by [`LINE_LIMIT_BYTES`]: a quote
//! that is never closed spoils its own row and not the rest of the file. JSON documents are read from here too, by
//! chunks (`elements`).

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::error::TraceError;
use super::fields::Problem;
use super::open::{HEAD_BYTES, Peeked, file_name, open_file, unpacked};

/// The longest line that is read; a row of a trace has some hundred bytes.
pub(crate) const LINE_LIMIT_BYTES: usize = 1 << 20;
const BUFFER_BYTES: usize = 1 << 16;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The lines of one file.
pub(crate) struct Lines<'a> {
    file: String,
    reader: BufReader<Hashing<Peeked<'a>>>,
    buffer: Vec<u8>,
    number: u64,
    /// Whether the line in the buffer is to be given out again.
    again: bool,
}

/// The beginning of a file, by which its format is recognised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    /// The first line with text, without its end; of a long line the beginning.
    pub(crate) line: &'a str,
    /// Its number.
    pub(crate) number: u64,
    /// The first bytes from that line on.
    pub(crate) text: &'a str,
}

impl<'a> Head<'a> {
    /// Finds the first line with text; `None` if there is none. It must be text.
    pub(crate) fn of(bytes: &'a [u8]) -> Result<Option<Self>, u64> {
        let mut rest = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        let mut number = 1;
        loop {
            let end = rest.iter().position(|byte| *byte == b'\n');
            let line = &rest[..end.unwrap_or(rest.len())];
            if !line.trim_ascii().is_empty() {
                let line = valid(line, end.is_none()).ok_or(number)?;
                let text = &rest[..rest.len().min(HEAD_BYTES)];
                let text = valid(text, true).unwrap_or(line);
                return Ok(Some(Self { line: line.trim_end_matches('\r'), number, text }));
            }
            let Some(end) = end else { return Ok(None) };
            rest = &rest[end + 1..];
            number += 1;
        }
    }
}

/// The bytes as text without NUL; a character that is cut in two at the end does not count if `is_cut`.
fn valid(bytes: &[u8], is_cut: bool) -> Option<&str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if is_cut && error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    (!text.contains('\0')).then_some(text)
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
    /// Opens a file, plain or packed with gzip or zstd. Archives are for `open`.
    pub(crate) fn open(path: &Path) -> Result<Self, TraceError> {
        Ok(Self::new(&file_name(path), open_file(path)?))
    }
}

impl<'a> Lines<'a> {
    /// Reads from anything, plain or packed with gzip or zstd.
    pub(crate) fn new(file: &str, source: impl Read + 'a) -> Self {
        let inner = Peeked::new(unpacked(source), HEAD_BYTES);
        let hashing = Hashing { inner, hasher: Sha256::new() };
        let reader = BufReader::with_capacity(BUFFER_BYTES, hashing);
        Self { file: file.to_owned(), reader, buffer: Vec::new(), number: 0, again: false }
    }

    /// The first bytes of the file.
    pub(crate) fn head(&self) -> &[u8] {
        self.reader.get_ref().inner.head()
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
            let count = read.map_err(|source| broken(&self.file, self.number, source))?;
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

    /// The bytes that come next, empty at the end. For documents that are not lists of lines.
    pub(crate) fn chunk(&mut self) -> Result<&[u8], TraceError> {
        let (file, number) = (&self.file, self.number);
        self.reader.fill_buf().map_err(|source| broken(file, number, source))
    }

    /// Passes so many bytes of the chunk.
    pub(crate) fn pass(&mut self, count: usize) {
        let passed = &self.reader.buffer()[..count];
        self.number += passed.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.reader.consume(count);
    }

    /// The line that the next byte of the chunk is in.
    pub(crate) const fn here(&self) -> u64 {
        self.number + 1
    }

    /// Passes everything that is left.
    pub(crate) fn drain(&mut self) -> Result<(), TraceError> {
        loop {
            let count = self.chunk()?.len();
            if count == 0 {
                return Ok(());
            }
            self.pass(count);
        }
    }

    /// The file ended where it must not.
    pub(crate) fn cut_short(&self) -> TraceError {
        TraceError::CutShort { file: self.file.clone(), line: self.here() }
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

fn broken(file: &str, line: u64, source: std::io::Error) -> TraceError {
    TraceError::Read { file: file.to_owned(), line, source }
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
        let mut lines = Lines::new("test.csv", bytes);
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
            let mut lines = Lines::new("test", bytes);
            while lines.next().unwrap().is_some() {}
            lines.sha256_16()
        };
        assert_eq!(hash(&packed), hash(b"a,b\n1,2\n"));
        // The digest of nothing is a published constant.
        assert_eq!(hash(b""), "e3b0c44298fc1c14");
        let mut cut = Lines::new("cut.gz", &packed[..packed.len() - 6]);
        let error = loop {
            match cut.next() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("a gzip file that is cut short was taken for a whole one"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, TraceError::Read { line: 2, .. }), "{error}");
    }

    #[test]
    fn a_fault_inside_a_packed_file_comes_after_the_lines_before_it() {
        use std::io::Write as _;
        // Rows that do not pack well, so that the fault is far from the beginning.
        let mut noise = 1_u64;
        let mut text = String::new();
        for row in 0..20_000 {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let _ = writeln!(text, "{row},{noise}");
        }
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        let gzip = gzip.finish().unwrap();
        let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
        for (packed, least) in [(gzip, 9_000), (zstd, 1)] {
            let mut lines = Lines::new("cut", &packed[..packed.len() / 2]);
            let mut last = 0;
            let error = loop {
                match lines.next() {
                    Ok(line) => last = line.expect("the file is cut short").number,
                    Err(error) => break error,
                }
            };
            let TraceError::Read { line, .. } = error else { panic!("{error}") };
            assert!(line == last && line >= least, "line {line} of {last}, at least {least}");
        }
    }

    #[test]
    fn the_head_is_the_first_line_with_text_and_what_follows() {
        let head = Head::of(b"\xef\xbb\xbf\r\n\na,b\r\n1,2\n\xc3").unwrap().unwrap();
        assert_eq!((head.line, head.number, head.text), ("a,b", 3, "a,b\r\n1,2\n"));
        assert!(Head::of(b"\n \n").unwrap().is_none());
        assert_eq!(Head::of(b"\nM\xfcller,b\n").err(), Some(2));
        assert_eq!(Head::of(b"a\0b").err(), Some(1));
    }

    #[test]
    fn a_line_without_end_is_refused_and_not_swallowed() {
        let endless = std::io::repeat(b'x');
        let error = Lines::new("long.csv", endless).next().map(|_| ()).unwrap_err();
        assert!(matches!(error, TraceError::LongLine { line: 1, .. }));
    }

    #[test]
    fn peeking_does_not_pass_a_line() {
        let mut lines = Lines::new("test", &b"a\nb\n"[..]);
        assert_eq!(lines.peek().unwrap().unwrap().bytes, b"a");
        assert_eq!(lines.next().unwrap().unwrap().bytes, b"a");
        assert_eq!(lines.next().unwrap().unwrap().bytes, b"b");
        assert!(lines.next().unwrap().is_none());
    }
}
