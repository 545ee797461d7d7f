//! A policy as it is named on the command line: `name`, or `name{key = value, ...}`. The only place that
//! reads this form, which presets have too.

use trainyard_sched::decide::{Entry, ParameterError, Policy};
use trainyard_sched::policies;

use super::ArgumentError;
use crate::failure::Failure;

/// A policy with its parameters, both known to be good.
#[derive(Clone, Debug)]
pub(crate) struct PolicyChoice {
    entry: &'static Entry,
    given: toml::Table,
}

impl PolicyChoice {
    /// A policy with its default parameters.
    pub(crate) fn plain(entry: &'static Entry) -> Self {
        Self { entry, given: toml::Table::new() }
    }

    /// Checks a name and parameters.
    pub(crate) fn new(name: &str, given: toml::Table) -> Result<Self, ParameterError> {
        let entry = policies::find(name)?;
        (entry.build)(&given)?;
        Ok(Self { entry, given })
    }

    /// The policy's name.
    pub(crate) fn name(&self) -> &'static str {
        self.entry.name
    }

    /// The parameters that were given.
    pub(crate) fn given(&self) -> &toml::Table {
        &self.given
    }

    /// A new instance.
    pub(crate) fn build(&self) -> Result<Box<dyn Policy>, ParameterError> {
        (self.entry.build)(&self.given)
    }

    /// All parameters, those that nobody gave with their defaults.
    pub(crate) fn parameters(&self) -> toml::Table {
        let mut all = (self.entry.defaults)();
        all.extend(self.given.clone());
        all
    }

    /// The name, with the parameters that are not the defaults.
    pub(crate) fn label(&self) -> String {
        let defaults = (self.entry.defaults)();
        let other = |(key, value): (&String, &toml::Value)| {
            (defaults.get(key) != Some(value)).then(|| format!("{key}={value}"))
        };
        let other: Vec<String> = self.given.iter().filter_map(other).collect();
        if other.is_empty() {
            self.entry.name.to_owned()
        } else {
            format!("{}{{{}}}", self.entry.name, other.join(","))
        }
    }
}

/// Reads one policy.
pub(crate) fn parse_policy(text: &str) -> Result<PolicyChoice, Failure> {
    let wrong =
        |problem: &str| ArgumentError::PolicyText { value: text.to_owned(), problem: problem.to_owned() };
    let (name, given) = named(text).map_err(|problem| wrong(&problem))?;
    Ok(PolicyChoice::new(name, given)?)
}

/// A name, and what stands in braces behind it.
pub(super) fn named(text: &str) -> Result<(&str, toml::Table), String> {
    let text = text.trim();
    let Some((name, rest)) = text.split_once('{') else {
        if text.is_empty() {
            return Err("there is no name".to_owned());
        }
        return Ok((text, toml::Table::new()));
    };
    let inner = rest.strip_suffix('}').ok_or("there must be a `}` at the end and nothing after it")?;
    let document = format!("given = {{{inner}}}");
    let mut table: toml::Table =
        document.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
    match (table.remove("given"), table.is_empty()) {
        (Some(toml::Value::Table(given)), true) => Ok((name.trim(), given)),
        _ => Err("the parameters are not one table".to_owned()),
    }
}

/// Reads a list of policies; commas inside braces belong to parameters.
pub(crate) fn parse_policies(text: &str) -> Result<Vec<PolicyChoice>, Failure> {
    let mut parts = vec![String::new()];
    let (mut depth, mut quote) = (0_u32, None);
    for c in text.chars() {
        match (c, quote) {
            ('"' | '\'', None) if depth > 0 => quote = Some(c),
            (_, Some(open)) if open == c => quote = None,
            ('{' | '[', None) => depth += 1,
            ('}' | ']', None) => depth = depth.saturating_sub(1),
            (',', None) if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().expect("there is always a part").push(c);
    }
    if text.trim().is_empty() {
        return Err(ArgumentError::NoPolicies.into());
    }
    parts.iter().map(|part| parse_policy(part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_a_name_with_or_without_parameters() {
        assert_eq!(parse_policy("fifo").unwrap().label(), "fifo");
        let srtf = parse_policy("srtf{by = \"gpu_time\"}").unwrap();
        assert_eq!(srtf.label(), "srtf{by=\"gpu_time\"}");
        assert!(srtf.parameters().contains_key("placement"));
        assert_eq!(parse_policy("srtf{by = \"time\"}").unwrap().label(), "srtf");
    }

    #[test]
    fn commas_in_braces_do_not_end_a_policy() {
        let all = parse_policies("fifo, srtf{by='gpu_time', placement='pack'},sjf").unwrap();
        let names: Vec<&str> = all.iter().map(PolicyChoice::name).collect();
        assert_eq!(names, ["fifo", "srtf", "sjf"]);
    }

    #[test]
    fn mistakes_are_explained() {
        let message = |text| parse_policies(text).unwrap_err().to_string();
        assert!(message("fifoo").contains("did you mean `fifo`"));
        assert!(message("srtf{bye='time'}").contains("did you mean `by`"));
        assert!(message("srtf{by='size'}").contains("srtf"));
        for bad in ["", "fifo,", "fifo{", "fifo}", "fifo{x", "fifo{}x", "fifo{}\n x = {}", "{by='time'}"] {
            assert!(parse_policies(bad).is_err(), "{bad:?}");
        }
    }
}
