//! Parameters of policies: typed, with defaults, and unknown keys are errors with a suggestion.

use serde::Serialize;
use serde::de::DeserializeOwned;

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

/// Reads a policy's parameters; what is not given has its default.
pub fn parameters<P>(policy: &'static str, given: &toml::Table) -> Result<P, ParameterError>
where
    P: Serialize + DeserializeOwned + Default,
{
    let bad = |message: String| ParameterError::BadValue { policy, message };
    let mut table = defaults::<P>();
    for (key, value) in given {
        if !table.contains_key(key) {
            let suggestion = similar(key, table.keys().map(String::as_str));
            let known = if table.is_empty() {
                "none".to_owned()
            } else {
                table.keys().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
            };
            return Err(ParameterError::UnknownKey { policy, key: key.clone(), suggestion, known });
        }
        // An integer is a fine value for a number with a fraction.
        let value = match (&table[key], value) {
            (toml::Value::Float(_), toml::Value::Integer(i)) => toml::Value::Float(*i as f64),
            _ => value.clone(),
        };
        table.insert(key.clone(), value);
    }
    table.try_into().map_err(|error: toml::de::Error| bad(error.message().to_owned()))
}

/// A policy's parameters with their defaults.
///
/// # Panics
/// If the parameters are not a table, or one of them has no default to show: a bug in the policy.
pub(crate) fn defaults<P: Serialize + Default>() -> toml::Table {
    toml::Table::try_from(P::default()).expect("parameters are a table of plain values")
}
