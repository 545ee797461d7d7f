//! How a program says its progress: as a word in the description of its job, and as what that word means.

use std::fmt;
use std::str::FromStr;

use regex::{Regex, RegexBuilder};

use super::names::{Field, Reading, number};

/// A pattern may have no more bytes than this, and what is built of it no more than [`MOST_BUILT_BYTES`]: it comes from
/// whoever submits a job.
const LONGEST_PATTERN_BYTES: usize = 4096;
const MOST_BUILT_BYTES: usize = 1 << 20;
const DEEPEST_PATTERN: u32 = 50;

/// How lines are to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// `jsonl`: an object on each line.
    JsonLines,
    /// `csv`: a line of names, then a row on each line. Commas, tabs and semicolons separate.
    Csv,
    /// `pattern:REGEX`: lines in which a pattern is found; others are passed over.
    Pattern(Pattern),
}

/// A pattern with a named group for each thing that it finds.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
    /// Groups that we know, by their number in the pattern.
    groups: Vec<(usize, Field)>,
}

/// Why a form is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// There is no such form.
    #[error("there is no form `{spec}`; there are `jsonl`, `csv` and `pattern:REGEX`")]
    Unknown {
        /// What was asked for, shortened.
        spec: String,
    },
    /// The pattern is no regular expression, or too large a one.
    #[error(
        "the pattern cannot be built: {why}; see the syntax of Rust's regex crate, which has no look-around"
    )]
    Regex {
        /// What its builder says.
        why: String,
    },
    /// The pattern is too long.
    #[error("the pattern has {bytes} bytes; the most is {LONGEST_PATTERN_BYTES}")]
    Long {
        /// How long it is.
        bytes: usize,
    },
    /// A group has a name that means nothing here.
    #[error("the group `{name}` means nothing; groups may be called {known}")]
    Group {
        /// Its name.
        name: String,
        /// What it may be called.
        known: String,
    },
    /// Two groups mean the same.
    #[error("the groups `{first}` and `{second}` mean the same; name one of them")]
    Twice {
        /// One.
        first: String,
        /// The other.
        second: String,
    },
    /// No group is named, so the pattern finds nothing.
    #[error("no group of the pattern is named; write (?P<loss>...), and perhaps (?P<iteration>...)")]
    NoGroup,
}

impl FromStr for Form {
    type Err = FormError;

    fn from_str(spec: &str) -> Result<Self, FormError> {
        match spec {
            "jsonl" => Ok(Self::JsonLines),
            "csv" => Ok(Self::Csv),
            _ => match spec.strip_prefix("pattern:") {
                Some(pattern) => Pattern::new(pattern).map(Self::Pattern),
                None => Err(FormError::Unknown { spec: shortened(spec) }),
            },
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::JsonLines => f.write_str("jsonl"),
            Self::Csv => f.write_str("csv"),
            Self::Pattern(pattern) => write!(f, "pattern:{}", pattern.regex),
        }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.regex.as_str() == other.regex.as_str()
    }
}

impl Eq for Pattern {}

impl Pattern {
    /// Builds it, and looks whether its groups mean something.
    fn new(pattern: &str) -> Result<Self, FormError> {
        if pattern.len() > LONGEST_PATTERN_BYTES {
            return Err(FormError::Long { bytes: pattern.len() });
        }
        let built = RegexBuilder::new(pattern)
            .size_limit(MOST_BUILT_BYTES)
            .dfa_size_limit(MOST_BUILT_BYTES)
            .nest_limit(DEEPEST_PATTERN)
            .build();
        let regex = built.map_err(|error| FormError::Regex { why: error.to_string() })?;
        let mut groups: Vec<(usize, Field)> = Vec::new();
        let names: Vec<Option<&str>> = regex.capture_names().collect();
        for (at, name) in names.iter().enumerate() {
            let Some(name) = name else { continue };
            let Some(field) = Field::of(name) else {
                // Names of groups have no blanks and no slashes.
                let usable =
                    |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                let known: Vec<&str> =
                    Field::ALL.iter().flat_map(|field| field.names()).copied().filter(usable).collect();
                return Err(FormError::Group { name: (*name).to_owned(), known: known.join(", ") });
            };
            if let Some((other, _)) = groups.iter().find(|(_, known)| *known == field) {
                let first = names[*other].unwrap_or_default().to_owned();
                return Err(FormError::Twice { first, second: (*name).to_owned() });
            }
            groups.push((at, field));
        }
        if groups.is_empty() {
            return Err(FormError::NoGroup);
        }
        Ok(Self { regex, groups })
    }

    /// What a line says: nothing if the pattern is not in it, and an error if a group holds no number or one that cannot be.
    pub(super) fn read(&self, line: &str) -> Result<Reading, String> {
        let mut reading = Reading::default();
        let Some(found) = self.regex.captures(line) else { return Ok(reading) };
        for (at, field) in &self.groups {
            let Some(text) = found.get(*at).map(|group| group.as_str()) else { continue };
            let taken =
                number(text).ok_or(()).and_then(|value| reading.take(*field, Some(value)).map_err(drop));
            taken.map_err(|()| format!("the {} cannot be `{}`", field.names()[0], shortened(text)))?;
        }
        Ok(reading)
    }
}

/// The beginning of a text, for people.
pub(super) fn shortened(text: &str) -> String {
    const MOST: usize = 120;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(spec: &str) -> String {
        Form::from_str(spec).expect_err(spec).to_string()
    }

    #[test]
    fn forms_are_written_as_they_are_read() {
        let pattern = r"pattern:step (?P<iteration>\d+).*loss (?P<loss>[-+.\deE]+|nan|inf)";
        for spec in ["jsonl", "csv", pattern] {
            let form = Form::from_str(spec).expect(spec);
            assert_eq!(form.to_string(), spec);
            assert_eq!(Form::from_str(&form.to_string()), Ok(form));
        }
        assert_ne!(Form::from_str(pattern), Form::from_str("pattern:(?P<loss>.)"));
    }

    #[test]
    fn a_pattern_finds_numbers_and_passes_over_other_lines() {
        let spec = r"pattern:step (?P<iteration>\d+).*loss (?P<loss>[-+.\deE]+|nan|inf)";
        let Ok(Form::Pattern(pattern)) = Form::from_str(spec) else { panic!("it is a pattern") };
        let found = pattern.read("[12:00] step 12 of 99, loss 2.5e-1, fine").expect("numbers");
        assert_eq!((found.iteration, found.loss), (Some(12.0), Some(0.25)));
        assert!(pattern.read("step 3 loss nan").expect("numbers").loss.is_some_and(f64::is_nan));
        assert_eq!(pattern.read("step 3, accuracy 1"), Ok(Reading::default()));
        assert_eq!(pattern.read("step 3 loss -.e"), Err("the loss cannot be `-.e`".to_owned()));
        let huge = format!("step {} loss 1", "9".repeat(40));
        assert!(pattern.read(&huge).expect_err("too many").starts_with("the iteration cannot be `999"));
    }

    #[test]
    fn forms_that_mean_nothing_are_refused_with_what_would() {
        assert_eq!(refused("xml"), "there is no form `xml`; there are `jsonl`, `csv` and `pattern:REGEX`");
        assert!(refused(&"x".repeat(1 << 20)).len() < 300);
        assert!(refused("pattern:(?P<loss>[").contains("cannot be built"));
        assert!(refused("pattern:(?=a)(?P<loss>.)").contains("look-around"));
        assert!(refused(r"pattern:(?P<loss>\w{9999}{9999})").contains("cannot be built"));
        assert!(
            refused(&format!("pattern:{}(?P<loss>.){}", "(".repeat(99), ")".repeat(99))).contains("nest")
        );
        assert!(refused(&format!("pattern:(?P<loss>{})", "a".repeat(5000))).contains("4096"));
        assert!(
            refused("pattern:(?P<lost>.)").contains("`lost` means nothing; groups may be called iteration")
        );
        assert!(refused("pattern:(?P<lost>.)").contains("saved"));
        assert!(refused("pattern:(?P<step>.)(?P<iter>.)").contains("`step` and `iter` mean the same"));
        assert!(refused(r"pattern:loss (\d+)").contains("(?P<loss>...)"));
    }
}
