//! What a user adds to a file that does not say it: `topo.csv?gpus=8,type=h800`. Knows no key; readers take theirs.

use std::cell::RefCell;
use std::path::Path;

use crate::document::{printable, whole};
use crate::trace::nearest;

/// An addition that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SupplementError {
    /// A part that is not `key=value`.
    #[error(
        "{file}: `{part}` after the question mark is not key=value; write for example `{file}?gpus=8,type=h800`"
    )]
    Shape {
        /// The file's name.
        file: String,
        /// The part.
        part: String,
    },
    /// A key that this kind of file does not take.
    #[error("{file}: {format} takes no `{key}` after a question mark; {hint}")]
    UnknownKey {
        /// The file's name.
        file: String,
        /// What kind of file it is.
        format: &'static str,
        /// The key.
        key: String,
        /// The nearest key, or all of them.
        hint: String,
    },
    /// A value that is out of range.
    #[error("{file}: {key}={value}: {what}")]
    Value {
        /// The file's name.
        file: String,
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// What it must be.
        what: String,
    },
    /// Something that the file does not say and nobody else did.
    #[error("{file}: {format} does not say {what}; say it after a question mark, such as `{file}?{example}`")]
    Missing {
        /// The file's name.
        file: String,
        /// What kind of file it is.
        format: &'static str,
        /// What is missing.
        what: &'static str,
        /// How to say it.
        example: &'static str,
    },
}

/// The additions to one file.
#[derive(Debug, Default)]
pub(crate) struct Supplement {
    file: String,
    given: Vec<(String, String)>,
    asked: RefCell<Vec<&'static str>>,
}

/// Splits an argument at its last question mark, unless a file has that very name.
pub(crate) fn split(argument: &str) -> Result<(&str, Supplement), SupplementError> {
    let parts = argument.rsplit_once('?').filter(|_| !Path::new(argument).is_file());
    let (path, words) = parts.unwrap_or((argument, ""));
    let file = Path::new(path).file_name().map_or_else(|| path.into(), |name| name.to_string_lossy());
    Ok((path, Supplement::new(&file, words)?))
}

impl Supplement {
    /// Reads `key=value,key=value`.
    pub(crate) fn new(file: &str, words: &str) -> Result<Self, SupplementError> {
        let mut given: Vec<(String, String)> = Vec::new();
        for part in words.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let shape = || SupplementError::Shape { file: file.to_owned(), part: printable(part) };
            let (key, value) = part.split_once('=').ok_or_else(shape)?;
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            if key.is_empty() || value.is_empty() || given.iter().any(|(known, _)| *known == key) {
                return Err(shape());
            }
            given.push((key, value));
        }
        Ok(Self { file: file.to_owned(), given, asked: RefCell::default() })
    }

    /// The value of a key, if it was given.
    pub(crate) fn get(&self, key: &'static str) -> Option<&str> {
        self.asked.borrow_mut().push(key);
        self.given.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// A whole number from `least` to `most`, if it was given.
    pub(crate) fn whole(
        &self,
        key: &'static str,
        least: u64,
        most: u64,
    ) -> Result<Option<u64>, SupplementError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let found = whole(value, most).ok().filter(|number| *number >= least);
        found.map(Some).ok_or_else(|| {
            self.value_error(key, value, format!("give a whole number from {least} to {most}"))
        })
    }

    /// The error for a value that cannot be.
    pub(crate) fn value_error(&self, key: &'static str, value: &str, what: String) -> SupplementError {
        SupplementError::Value { file: self.file.clone(), key, value: printable(value), what }
    }

    /// The error for something that nobody said.
    pub(crate) fn missing(
        &self,
        format: &'static str,
        what: &'static str,
        example: &'static str,
    ) -> SupplementError {
        SupplementError::Missing { file: self.file.clone(), format, what, example }
    }

    /// Refuses keys that nobody asked for.
    pub(crate) fn finish(&self, format: &'static str) -> Result<(), SupplementError> {
        let asked = self.asked.borrow();
        let Some((key, _)) = self.given.iter().find(|(key, _)| !asked.iter().any(|known| known == key))
        else {
            return Ok(());
        };
        let hint = if asked.is_empty() {
            "it says everything itself".to_owned()
        } else {
            nearest(key, asked.iter().copied())
        };
        Err(SupplementError::UnknownKey { file: self.file.clone(), format, key: printable(key), hint })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_split_at_its_question_mark() {
        let (path, supplement) = split("a/topo.csv?gpus=8, type=h800").unwrap();
        assert_eq!((path, supplement.get("type")), ("a/topo.csv", Some("h800")));
        assert_eq!(supplement.whole("gpus", 1, 64), Ok(Some(8)));
        assert_eq!(supplement.finish("it"), Ok(()));
        let (path, none) = split("4x8:v100").unwrap();
        assert_eq!((path, none.get("gpus")), ("4x8:v100", None));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let text = |words: &str| {
            let supplement = Supplement::new("t.csv", words)?;
            let _ = supplement.whole("gpus", 1, 64)?;
            supplement.finish("a list")
        };
        for (words, part) in [
            ("gpus", "`gpus` after the question mark is not key=value"),
            ("gpus=8,gpus=4", "gpus=4"),
            ("gpus=65", "gpus=65: give a whole number from 1 to 64"),
            ("gpus=8,gpu=4", "takes no `gpu`"),
        ] {
            let told = text(words).unwrap_err().to_string();
            assert!(told.contains(part), "{words}: {told}");
        }
    }
}
