//! Parameters by name: what there is, what is usual, and what may be said.

use std::collections::BTreeMap;

use crate::error::{TrainError, hint};

/// What a parameter may be, with what it is if nothing is said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A whole number between two others.
    Whole {
        /// If nothing is said.
        usual: u64,
        /// At least.
        least: u64,
        /// At most.
        most: u64,
    },
    /// A number between two others.
    Real {
        /// If nothing is said.
        usual: f64,
        /// At least.
        least: f64,
        /// At most.
        most: f64,
    },
    /// One of some words, the first if nothing is said.
    Word(&'static [&'static str]),
}

/// A parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it may be.
    pub kind: Kind,
    /// What it does.
    pub meaning: &'static str,
}

impl Parameter {
    /// A whole number.
    pub const fn whole(name: &'static str, usual: u64, least: u64, most: u64, meaning: &'static str) -> Self {
        Self { name, kind: Kind::Whole { usual, least, most }, meaning }
    }

    /// A number.
    pub const fn real(name: &'static str, usual: f64, least: f64, most: f64, meaning: &'static str) -> Self {
        Self { name, kind: Kind::Real { usual, least, most }, meaning }
    }

    /// A word.
    pub const fn word(name: &'static str, words: &'static [&'static str], meaning: &'static str) -> Self {
        Self { name, kind: Kind::Word(words), meaning }
    }

    /// What it is if nothing is said.
    pub fn usual(&self) -> String {
        match self.kind {
            Kind::Whole { usual, .. } => usual.to_string(),
            Kind::Real { usual, .. } => usual.to_string(),
            Kind::Word(words) => words[0].to_owned(),
        }
    }

    /// What it may be, in words.
    pub fn range(&self) -> String {
        match self.kind {
            Kind::Whole { least, most, .. } => format!("a whole number from {least} to {most}"),
            Kind::Real { least, most, .. } => format!("a number from {least} to {most}"),
            Kind::Word(words) => format!("one of {}", words.join(", ")),
        }
    }

    /// The value in its one form, if it may be.
    fn checked(&self, value: &str) -> Option<String> {
        match self.kind {
            Kind::Whole { least, most, .. } => {
                let number: u64 = value.parse().ok()?;
                (least..=most).contains(&number).then(|| number.to_string())
            }
            Kind::Real { least, most, .. } => {
                let number: f64 = value.parse().ok()?;
                (least..=most).contains(&number).then(|| number.to_string())
            }
            Kind::Word(words) => words.contains(&value).then(|| value.to_owned()),
        }
    }
}

/// A value for each parameter of something, all of them valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values {
    by_name: BTreeMap<&'static str, String>,
}

impl Values {
    /// The usual values, with these `NAME=VALUE` instead. `of` is what errors call the owner.
    pub fn new<S: AsRef<str>>(of: &str, parameters: &[Parameter], given: &[S]) -> Result<Self, TrainError> {
        let mut by_name: BTreeMap<&'static str, String> =
            parameters.iter().map(|parameter| (parameter.name, parameter.usual())).collect();
        for pair in given.iter().flat_map(|given| given.as_ref().split(',')) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (name.trim(), value.trim());
            let Some(parameter) = parameters.iter().find(|parameter| parameter.name == name) else {
                let hint = hint(name, parameters.iter().map(|parameter| parameter.name));
                return Err(TrainError::Unknown {
                    what: format!("parameter of {of}"),
                    name: name.to_owned(),
                    hint,
                });
            };
            let Some(value) = parameter.checked(value) else {
                let (name, value, wanted) = (name.to_owned(), value.to_owned(), parameter.range());
                return Err(TrainError::Parameter { of: of.to_owned(), name, value, wanted });
            };
            by_name.insert(parameter.name, value);
        }
        Ok(Self { by_name })
    }

    /// A word. The name must be one of the parameters.
    pub fn word(&self, name: &str) -> &str {
        self.by_name.get(name).unwrap_or_else(|| panic!("`{name}` is a parameter"))
    }

    /// A number.
    pub fn real(&self, name: &str) -> f64 {
        self.word(name).parse().expect("it was checked to be a number")
    }

    /// A whole number.
    pub fn whole(&self, name: &str) -> usize {
        self.word(name).parse().expect("it was checked to be a whole number")
    }

    /// All of them as one line, in the order of names.
    pub fn line(&self) -> String {
        let pairs: Vec<String> = self.by_name.iter().map(|(name, value)| format!("{name}={value}")).collect();
        pairs.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: [Parameter; 3] = [
        Parameter::whole("depth", 3, 1, 8, "How deep."),
        Parameter::real("step", 0.5, 0.0, 1.0, "How far."),
        Parameter::word("method", &["gd", "lbfgs"], "How."),
    ];

    #[test]
    fn what_is_not_said_is_usual_and_what_is_said_is_checked() {
        let values = Values::new("x", &SOME, &["step=1e-2, method=lbfgs"]).unwrap();
        assert_eq!(values.line(), "depth=3,method=lbfgs,step=0.01");
        assert_eq!((values.whole("depth"), values.real("step"), values.word("method")), (3, 0.01, "lbfgs"));
        let told = |given: &str| Values::new("x", &SOME, &[given]).unwrap_err().to_string();
        assert_eq!(told("dept=3"), "there is no parameter of x `dept`; did you mean `depth`?");
        assert!(told("depth=9").ends_with("`depth` cannot be `9`; it is a whole number from 1 to 8"));
        assert!(told("step=nan").contains("`nan`") && told("method=sgd").contains("one of gd, lbfgs"));
        assert!(told("quite other").contains("there are depth, step, method"));
    }
}
