//! Parameters of policies: typed, with defaults and bounds, each described once; unknown keys are errors with a suggestion.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Value;

/// A parameter of a policy: what it means, and what may be given for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it means, in a line.
    pub meaning: &'static str,
    /// In what it is measured; empty for what has no unit.
    pub unit: &'static str,
    /// What may be given.
    pub values: Values,
}

/// What may be given for a parameter. Bounds are included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values {
    /// A number.
    Number {
        /// The smallest.
        least: f64,
        /// The largest.
        most: f64,
    },
    /// A whole number.
    Whole {
        /// The smallest.
        least: i64,
        /// The largest.
        most: i64,
    },
    /// Numbers in ascending order.
    Ascending {
        /// The smallest that each may be.
        least: f64,
        /// The largest that each may be.
        most: f64,
        /// The most of them.
        count: usize,
    },
    /// Numbers by name, at least one.
    Named {
        /// The smallest that each may be.
        least: f64,
        /// The largest that each may be.
        most: f64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Yes or no.
    Flag,
    /// The name of another policy, which is asked first.
    Policy,
    /// Parameters of that other policy, by name.
    Parameters,
    /// What was learned: where people say a file, policies get its bytes as text.
    Weights,
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { least, most } => write!(f, "{} to {}", Short(*least), Short(*most)),
            Self::Whole { least, most } => write!(f, "{least} to {most}"),
            Self::Ascending { least, most, count } => {
                write!(f, "up to {count} ascending numbers, {} to {} each", Short(*least), Short(*most))
            }
            Self::Named { least, most } => {
                write!(f, "numbers by name, {} to {} each", Short(*least), Short(*most))
            }
            Self::Choice(words) => f.write_str(&words.join(", ")),
            Self::Flag => f.write_str("true, false"),
            Self::Policy => f.write_str("the name of another policy"),
            Self::Parameters => f.write_str("a table"),
            Self::Weights => f.write_str("a file that `trainyard train` wrote"),
        }
    }
}

/// A bound as people write it.
struct Short(f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 != 0.0 && !(1e-4..1e6).contains(&self.0.abs()) {
            write!(f, "{:e}", self.0)
        } else {
            write!(f, "{}", self.0)
        }
    }
}

impl Parameter {
    /// What is wrong with a value. Of what has another type the types themselves complain.
    fn refusal(&self, value: &Value) -> Option<String> {
        let (name, values) = (self.name, self.values);
        let (fits, what) = match (values, value) {
            (Values::Number { least, most }, Value::Float(given)) => {
                ((least..=most).contains(given), "a number from")
            }
            (Values::Whole { least, most }, Value::Integer(given)) => {
                ((least..=most).contains(given), "a whole number from")
            }
            (Values::Ascending { least, most, count }, Value::Array(given)) => {
                let numbers: Vec<f64> = given.iter().filter_map(number).collect();
                let within = numbers.iter().all(|number| (least..=most).contains(number));
                (
                    numbers.len() == given.len() && within && numbers.len() <= count && numbers.is_sorted(),
                    "a list of",
                )
            }
            (Values::Named { least, most }, Value::Table(given)) => {
                let within = |value| number(value).is_some_and(|number| (least..=most).contains(&number));
                (!given.is_empty() && given.values().all(within), "at least one of")
            }
            _ => (true, ""),
        };
        (!fits).then(|| format!("{name} = {value}; give {what} {values}"))
    }
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

/// Why parameters were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// No policy has this name.
    #[error("there is no policy `{name}`{}; known are {known}", suggest(.suggestion))]
    UnknownPolicy {
        /// What was asked for.
        name: String,
        /// The most similar name.
        suggestion: Option<String>,
        /// All names.
        known: String,
    },
    /// The policy has no such parameter.
    #[error("policy `{policy}` has no parameter `{key}`{}; it has {known}", suggest(.suggestion))]
    UnknownKey {
        /// The policy.
        policy: &'static str,
        /// What was given.
        key: String,
        /// The most similar parameter.
        suggestion: Option<String>,
        /// All parameters.
        known: String,
    },
    /// The value does not fit the parameter.
    #[error("policy `{policy}`: {message}")]
    BadValue {
        /// The policy.
        policy: &'static str,
        /// What is wrong, and what would be right.
        message: String,
    },
}

fn suggest(similar: &Option<String>) -> String {
    similar.as_ref().map_or_else(String::new, |name| format!(", did you mean `{name}`?"))
}

/// The most similar of `known`, if any is close.
pub(crate) fn similar<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    known
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.to_owned())
}

/// Reads a policy's parameters; what is not given has its default. `known` describes all of them.
pub fn parameters<P>(
    policy: &'static str,
    known: &[Parameter],
    given: &toml::Table,
) -> Result<P, ParameterError>
where
    P: Serialize + DeserializeOwned + Default,
{
    let bad = |message: String| ParameterError::BadValue { policy, message };
    let mut table = defaults::<P>();
    for (key, value) in given {
        let Some(parameter) = known.iter().find(|parameter| parameter.name == key) else {
            let names = || known.iter().map(|parameter| parameter.name);
            let suggestion = similar(key, names());
            let known = if known.is_empty() {
                "none".to_owned()
            } else {
                names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            };
            return Err(ParameterError::UnknownKey { policy, key: key.clone(), suggestion, known });
        };
        // An integer is a fine value for a number with a fraction.
        let value = match (parameter.values, value) {
            (Values::Number { .. }, Value::Integer(whole)) => Value::Float(*whole as f64),
            (Values::Ascending { .. }, Value::Array(list)) => Value::Array(
                list.iter().map(|each| number(each).map_or_else(|| each.clone(), Value::Float)).collect(),
            ),
            (Values::Named { .. }, Value::Table(table)) => {
                let as_float = |each: &Value| number(each).map_or_else(|| each.clone(), Value::Float);
                Value::Table(table.iter().map(|(name, each)| (name.clone(), as_float(each))).collect())
            }
            _ => value.clone(),
        };
        if let Some(message) = parameter.refusal(&value) {
            return Err(bad(message));
        }
        table.insert(key.clone(), value);
    }
    table.try_into().map_err(|error: toml::de::Error| bad(error.message().to_owned()))
}

/// A parameter that is a number between two.
pub(crate) const fn numbered(
    name: &'static str,
    unit: &'static str,
    (least, most): (f64, f64),
    meaning: &'static str,
) -> Parameter {
    Parameter { name, meaning, unit, values: Values::Number { least, most } }
}

/// A parameter that is a whole number between two.
pub(crate) const fn counted(
    name: &'static str,
    unit: &'static str,
    (least, most): (i64, i64),
    meaning: &'static str,
) -> Parameter {
    Parameter { name, meaning, unit, values: Values::Whole { least, most } }
}

/// A parameter that is one of some words.
pub(crate) const fn chosen(
    name: &'static str,
    words: &'static [&'static str],
    meaning: &'static str,
) -> Parameter {
    Parameter { name, meaning, unit: "", values: Values::Choice(words) }
}

/// A parameter that is yes or no.
pub(crate) const fn flagged(name: &'static str, meaning: &'static str) -> Parameter {
    Parameter { name, meaning, unit: "", values: Values::Flag }
}

/// The rule by which nodes are chosen.
pub const PLACEMENT: Parameter = chosen(
    "placement",
    &["first_fit", "pack", "consolidate", "spread", "fill", "yarn"],
    "how nodes are chosen: the first, the fullest, only the fewest, the emptiest each time, the emptiest until it is full, or as YARN does",
);

/// The length of a round of policies that decide in rounds.
pub(crate) const ROUND_S: Parameter = numbered("round_s", "s", (0.001, 1e6), "length of a round");

/// A policy's parameters with their defaults.
///
/// # Panics
/// If the parameters are not a table, or one of them has no default to show: a bug in the policy.
pub(crate) fn defaults<P: Serialize + Default>() -> toml::Table {
    toml::Table::try_from(P::default()).expect("parameters are a table of plain values")
}
