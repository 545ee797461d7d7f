//! The elements of one long list in a JSON document, one at a time, each with the line at which it begins. Holds one
//! element in memory and understands none: what an element means is for `serde_json` and the reader of the format.

use super::error::TraceError;
use super::lines::{Line, Lines};

/// The longest element that is read; an object of a job or a pod has some kilobytes.
pub(crate) const ELEMENT_LIMIT_BYTES: usize = 1 << 24;

/// Where the list is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The document is the list.
    Top,
    /// The document is an object, and the list is the value of this key.
    Key(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Before,
    Inside,
    Over,
}

/// Gives out elements.
pub(crate) struct Elements {
    place: Place,
    stage: Stage,
    buffer: Vec<u8>,
}

/// What a byte does to the end of a value.
#[derive(Clone, Copy, Debug, Default)]
struct Scan {
    depth: u32,
    in_string: bool,
    is_escaped: bool,
    /// Whether the value is a number or a word, which ends before what follows it.
    is_bare: bool,
    begun: bool,
}

/// Whether a value goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    GoesOn,
    EndsAfter,
    EndsBefore,
}

impl Scan {
    const fn byte(&mut self, byte: u8) -> Reach {
        if self.in_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => {
                    self.in_string = false;
                    if self.depth == 0 {
                        return Reach::EndsAfter;
                    }
                }
                _ => {}
            }
            return Reach::GoesOn;
        }
        if self.is_bare && (byte.is_ascii_whitespace() || matches!(byte, b',' | b']' | b'}')) {
            return Reach::EndsBefore;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' if self.depth > 0 => {
                self.depth -= 1;
                if self.depth == 0 {
                    return Reach::EndsAfter;
                }
            }
            _ if !self.begun => self.is_bare = true,
            _ => {}
        }
        self.begun = true;
        Reach::GoesOn
    }
}

impl Elements {
    /// The elements of the list at this place.
    pub(crate) const fn of(place: Place) -> Self {
        Self { place, stage: Stage::Before, buffer: Vec::new() }
    }

    /// The next element and the line at which it begins.
    pub(crate) fn next(&mut self, lines: &mut Lines<'_>) -> Result<Option<Line<'_>>, TraceError> {
        if self.stage == Stage::Before {
            self.enter(lines)?;
        }
        if self.stage == Stage::Inside && next_byte(lines, b",")? == b']' {
            lines.pass(1);
            self.stage = Stage::Over;
        }
        if self.stage == Stage::Over {
            lines.drain()?;
            return Ok(None);
        }
        let number = lines.here();
        self.buffer.clear();
        value(lines, Some(&mut self.buffer))?;
        Ok(Some(Line { number, bytes: &self.buffer }))
    }

    /// Goes to the first element.
    fn enter(&mut self, lines: &mut Lines<'_>) -> Result<(), TraceError> {
        match self.place {
            // A byte order mark may stand before the document.
            Place::Top => expect(lines, b"\xef\xbb\xbf", b'[')?,
            Place::Key(wanted) => {
                expect(lines, b"\xef\xbb\xbf", b'{')?;
                loop {
                    let next = next_byte(lines, b",")?;
                    if next == b'}' {
                        self.stage = Stage::Over;
                        return Ok(());
                    }
                    self.buffer.clear();
                    value(lines, Some(&mut self.buffer))?;
                    let is_wanted = self.buffer.strip_prefix(b"\"").and_then(|key| key.strip_suffix(b"\""))
                        == Some(wanted.as_bytes());
                    expect(lines, b"", b':')?;
                    if is_wanted {
                        expect(lines, b"", b'[')?;
                        break;
                    }
                    next_byte(lines, b"")?;
                    value(lines, None)?;
                }
            }
        }
        self.stage = Stage::Inside;
        Ok(())
    }
}

/// The next byte that is neither blank nor one of `skipped`, without passing it.
fn next_byte(lines: &mut Lines<'_>, skipped: &[u8]) -> Result<u8, TraceError> {
    loop {
        let chunk = lines.chunk()?;
        if chunk.is_empty() {
            return Err(lines.cut_short());
        }
        let blank = |byte: &u8| byte.is_ascii_whitespace() || skipped.contains(byte);
        let length = chunk.len();
        match chunk.iter().position(|byte| !blank(byte)) {
            Some(at) => {
                let byte = chunk[at];
                lines.pass(at);
                return Ok(byte);
            }
            None => lines.pass(length),
        }
    }
}

/// Passes `wanted`, which must come next.
fn expect(lines: &mut Lines<'_>, skipped: &[u8], wanted: u8) -> Result<(), TraceError> {
    let found = next_byte(lines, skipped)?;
    if found != wanted {
        return Err(TraceError::NotJson {
            file: lines.file().to_owned(),
            line: lines.here(),
            found: char::from(found),
            wanted: char::from(wanted),
        });
    }
    lines.pass(1);
    Ok(())
}

/// Passes one value, and keeps it if asked to.
fn value(lines: &mut Lines<'_>, mut sink: Option<&mut Vec<u8>>) -> Result<(), TraceError> {
    let mut scan = Scan::default();
    let begin = lines.here();
    loop {
        let chunk = lines.chunk()?;
        if chunk.is_empty() {
            return Err(lines.cut_short());
        }
        let ends = chunk.iter().enumerate().find_map(|(i, byte)| match scan.byte(*byte) {
            Reach::GoesOn => None,
            Reach::EndsAfter => Some(i + 1),
            Reach::EndsBefore => Some(i),
        });
        let length = ends.unwrap_or(chunk.len());
        if let Some(sink) = &mut sink {
            if sink.len() + length > ELEMENT_LIMIT_BYTES {
                let (file, limit_bytes) = (lines.file().to_owned(), ELEMENT_LIMIT_BYTES);
                return Err(TraceError::LongElement { file, line: begin, limit_bytes });
            }
            sink.extend_from_slice(&chunk[..length]);
        }
        lines.pass(length);
        if ends.is_some() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, place: Place) -> Result<Vec<(u64, String)>, TraceError> {
        let mut lines = Lines::new("test.json", text.as_bytes());
        let mut elements = Elements::of(place);
        let mut found = Vec::new();
        while let Some(line) = elements.next(&mut lines)? {
            found.push((line.number, String::from_utf8(line.bytes.to_vec()).unwrap()));
        }
        Ok(found)
    }

    #[test]
    fn elements_come_whole_and_with_their_lines() {
        let text = "\u{feff} [\n{\"a\": \"]},{\\\"\",\n \"b\": [1, {}]},\n\n 7, \"x\" ,null\n]\n";
        let found = all(text, Place::Top).unwrap();
        let expected = [(2, "{\"a\": \"]},{\\\"\",\n \"b\": [1, {}]}"), (5, "7"), (5, "\"x\""), (5, "null")];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
        assert!(all("[]", Place::Top).unwrap().is_empty());
    }

    #[test]
    fn the_list_of_a_key_is_found_behind_and_before_others() {
        let text = "{\"items2\": [0], \"n\": {\"items\": [1]},\n\"items\": [ {\"x\":1},\n{\"x\":2}], \"kind\": \"List\"}";
        let found = all(text, Place::Key("items")).unwrap();
        assert_eq!(found, [(2, "{\"x\":1}".to_owned()), (3, "{\"x\":2}".to_owned())]);
        assert!(all("{\"kind\": \"List\"}", Place::Key("items")).unwrap().is_empty());
    }

    #[test]
    fn a_document_that_ends_early_or_is_something_else_is_an_error() {
        assert!(matches!(all("[{\"a\": 1},\n{\"a\"", Place::Top), Err(TraceError::CutShort { line: 2, .. })));
        assert!(matches!(all("[1,", Place::Top), Err(TraceError::CutShort { .. })));
        assert!(matches!(all("{}", Place::Top), Err(TraceError::NotJson { found: '{', .. })));
        assert!(matches!(all("{\"items\": 3}", Place::Key("items")), Err(TraceError::NotJson { .. })));
        let long = format!("[\"{}\"]", "x".repeat(ELEMENT_LIMIT_BYTES));
        assert!(matches!(all(&long, Place::Top), Err(TraceError::LongElement { line: 1, .. })));
    }
}
