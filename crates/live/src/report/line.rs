//! Cuts bytes into lines as they come, in bounded memory.

/// A line may have no more bytes than this; a longer one is passed over up to its end.
pub const LONGEST_LINE_BYTES: usize = 64 * 1024;

/// Bytes that have not made a line yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Cutter {
    held: Vec<u8>,
    is_too_long: bool,
}

/// A whole line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Text(&'a [u8]),
    TooLong,
}

impl Cutter {
    /// Takes more bytes and tells the lines that they complete, without empty ones. `\n`, `\r\n` and `\r` end a line: a
    /// progress bar writes the last of them each time that it draws itself again.
    pub(super) fn feed(&mut self, bytes: &[u8], mut tell: impl FnMut(Line<'_>)) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            if self.held.is_empty() && !self.is_too_long && end <= LONGEST_LINE_BYTES {
                told(&rest[..end], &mut tell);
            } else {
                self.hold(&rest[..end]);
                self.end(&mut tell);
            }
            rest = &rest[end + 1..];
        }
        self.hold(rest);
    }

    /// Ends the line under way, as when a program ended without a last line break.
    pub(super) fn end(&mut self, mut tell: impl FnMut(Line<'_>)) {
        if std::mem::take(&mut self.is_too_long) {
            tell(Line::TooLong);
        } else {
            told(&self.held, &mut tell);
        }
        self.held.clear();
    }

    /// Forgets the line under way.
    pub(super) fn clear(&mut self) {
        self.held.clear();
        self.is_too_long = false;
    }

    fn hold(&mut self, bytes: &[u8]) {
        if self.held.len() + bytes.len() > LONGEST_LINE_BYTES {
            self.is_too_long = true;
            self.held.clear();
        }
        if !self.is_too_long {
            self.held.extend_from_slice(bytes);
        }
    }
}

/// Tells a line, if there is anything on it. A file that was cut to nothing while a program went on writing where it was
/// begins with zeros; a file from elsewhere may begin with a byte order mark.
fn told(line: &[u8], tell: &mut impl FnMut(Line<'_>)) {
    let zeros = line.iter().take_while(|byte| **byte == 0).count();
    let line = &line[zeros..];
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
    if !line.is_empty() {
        tell(Line::Text(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(parts: &[&[u8]]) -> Vec<String> {
        let mut cutter = Cutter::default();
        let mut found = Vec::new();
        let mut tell = |line: Line<'_>| {
            found.push(match line {
                Line::Text(text) => String::from_utf8_lossy(text).into_owned(),
                Line::TooLong => "TOO LONG".to_owned(),
            });
        };
        for part in parts {
            cutter.feed(part, &mut tell);
            assert!(cutter.held.len() <= LONGEST_LINE_BYTES);
        }
        cutter.end(&mut tell);
        found
    }

    #[test]
    fn lines_are_the_same_however_the_bytes_come() {
        let text = b"\xEF\xBB\xBFone\r\n\r\ntwo\n three \rfour\n\0\0five\nlast";
        let expected = ["one", "two", "three", "four", "five", "last"];
        assert_eq!(lines(&[text]), expected);
        for cut in 0..text.len() {
            assert_eq!(lines(&[&text[..cut], &text[cut..]]), expected, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(lines(&bytes), expected);
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_and_the_next_one_is_not() {
        let just = vec![b'x'; LONGEST_LINE_BYTES];
        let over = vec![b'x'; LONGEST_LINE_BYTES + 1];
        let text = String::from_utf8(just.clone()).expect("letters");
        assert_eq!(lines(&[&just, b"\nnext"]), [text.as_str(), "next"]);
        assert_eq!(lines(&[&over, b"\nnext"]), ["TOO LONG", "next"]);
        assert_eq!(lines(&[&over[..10], &over, &over, b"tail\nnext\n"]), ["TOO LONG", "next"]);
        let whole = [over.as_slice(), b"\nnext\n"].concat();
        assert_eq!(lines(&[&whole]), ["TOO LONG", "next"]);
        assert_eq!(lines(&[&over]), ["TOO LONG"]);
    }
}
