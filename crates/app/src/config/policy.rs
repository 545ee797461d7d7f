//! A policy as it is named on the command line: `name`, or `name{key = value, ...}`, and `name(other){...}` where one policy
//! stands around another, which is written in the same form. The only place that reads this; presets have the form without
//! parentheses, too.

use sha2::{Digest, Sha256};
use trainyard_sched::decide::{Entry, ParameterError, Policy, Values};
use trainyard_sched::nets::Weights;
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
    pub(crate) fn new(name: &str, mut given: toml::Table) -> Result<Self, ParameterError> {
        let entry = policies::find(name)?;
        read_weights(entry, &mut given)?;
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

    /// The policy inside this one, if it stands around another.
    pub(crate) fn inner(&self) -> Option<Self> {
        let all = self.parameters();
        let (name, given) = places_of_another(self.entry)?;
        let given = all[given].as_table().cloned().unwrap_or_default();
        Some(Self { entry: policies::find(all[name].as_str()?).ok()?, given })
    }

    /// The name, with the policy inside and with the parameters that are not the defaults.
    pub(crate) fn label(&self) -> String {
        let defaults = (self.entry.defaults)();
        let inner = self.inner();
        let of_inner = |key: &str| {
            inner.is_some() && places_of_another(self.entry).is_some_and(|(a, b)| [a, b].contains(&key))
        };
        let other = |(key, value): (&String, &toml::Value)| {
            let differs = !of_inner(key) && defaults.get(key) != Some(value);
            differs.then(|| match value {
                toml::Value::String(text) if is_weights(self.entry, key) => format!("{key}={}", digest(text)),
                _ => format!("{key}={value}"),
            })
        };
        let other: Vec<String> = self.given.iter().filter_map(other).collect();
        let mut label = self.entry.name.to_owned();
        if let Some(inner) = &inner {
            label += &format!("({})", inner.label());
        }
        if !other.is_empty() {
            label += &format!("{{{}}}", other.join(","));
        }
        label
    }

    /// What whoever chose it should know: a policy that learns decides nothing by itself before it has learned.
    pub(crate) fn caution(&self) -> Option<String> {
        let all = self.parameters();
        let is_missing =
            |key: &&String| is_weights(self.entry, key) && all[key.as_str()].as_str() == Some("");
        if let Some(key) = all.keys().find(is_missing) {
            let name = self.entry.name;
            return Some(format!(
                "{name} has nothing that it learned, so that a rule decides everything; give {name}{{{key} = \"FILE\"}} with a \
                 file of `trainyard train`"
            ));
        }
        self.inner()?.caution()
    }

    /// Whether it decides by itself as it is.
    pub(crate) fn is_whole(&self) -> bool {
        self.caution().is_none()
    }

    /// A name for folders: without parameters.
    pub(crate) fn folder(&self) -> String {
        let name = self.entry.name;
        self.inner().map_or_else(|| name.to_owned(), |inner| format!("{name}-{}", inner.folder()))
    }
}

fn is_weights(entry: &Entry, key: &str) -> bool {
    entry.parameters.iter().any(|known| known.name == key && known.values == Values::Weights)
}

/// What weights are called where their text would be too long.
pub(crate) fn digest(text: &str) -> String {
    let sum = Sha256::digest(text.as_bytes());
    sum.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// Reads the files that are named where policies want what was learned, so that whatever is written down of a policy stands by
/// itself.
fn read_weights(entry: &Entry, given: &mut toml::Table) -> Result<(), ParameterError> {
    for (key, value) in given.iter_mut().filter(|(key, _)| is_weights(entry, key)) {
        let toml::Value::String(text) = value else { continue };
        // What was read before is far longer than any path, and has no suffix.
        if !text.ends_with(WEIGHTS_SUFFIX) {
            continue;
        }
        let bad = |why: &dyn std::fmt::Display| ParameterError::BadValue {
            policy: entry.name,
            message: format!("{key}: {text}: {why}"),
        };
        let bytes = std::fs::read(&*text).map_err(|error| bad(&error))?;
        let weights = Weights::from_bytes(&bytes).map_err(|error| bad(&error))?;
        // Learning may go on with what decisions do not need.
        *value = Weights { value: None, ..weights }.to_text().into();
    }
    Ok(())
}

/// What files of weights end with.
pub(crate) const WEIGHTS_SUFFIX: &str = ".safetensors";

/// The parameters with the name of another policy and with its parameters, of a policy that stands around one.
fn places_of_another(entry: &Entry) -> Option<(&'static str, &'static str)> {
    let of = |values: Values| entry.parameters.iter().find(|known| known.values == values);
    Some((of(Values::Policy)?.name, of(Values::Parameters)?.name))
}

/// The policy with this label that decides who runs where: the one inside, if one stands around another.
pub(crate) fn deciding(label: &str) -> Option<&'static Entry> {
    let mut rest = label;
    loop {
        let end = rest.find(['(', '{']).unwrap_or(rest.len());
        match rest[end..].strip_prefix('(') {
            Some(inner) => rest = inner,
            None => return policies::find(rest[..end].trim_end_matches(')')).ok(),
        }
    }
}

/// Reads one policy.
pub(crate) fn parse_policy(text: &str) -> Result<PolicyChoice, Failure> {
    let wrong =
        |problem: &str| ArgumentError::PolicyText { value: text.to_owned(), problem: problem.to_owned() };
    let Some((name, inner, rest)) = around(text).map_err(|problem| wrong(&problem))? else {
        let (name, given) = named(text).map_err(|problem| wrong(&problem))?;
        return Ok(PolicyChoice::new(name, given)?);
    };
    let entry = policies::find(name)?;
    let Some(places) = places_of_another(entry) else {
        let around = policies::ALL.iter().filter(|entry| places_of_another(entry).is_some());
        let around: Vec<&str> = around.map(|entry| entry.name).collect();
        let around = around.join(", ");
        let problem =
            format!("{name} stands around no other policy, as {around} does; leave the parentheses out");
        return Err(wrong(&problem).into());
    };
    let inner = parse_policy(inner).map_err(|failure| meant_inside(name, failure))?;
    let (_, mut given) = named(&format!("{name}{rest}")).map_err(|problem| wrong(&problem))?;
    if let Some(twice) = [places.0, places.1].iter().find(|key| given.contains_key(**key)) {
        return Err(wrong(&format!(
            "`{twice}` stands in parentheses already; give it in one of the two ways"
        ))
        .into());
    }
    given.insert(places.0.to_owned(), inner.name().into());
    given.insert(places.1.to_owned(), inner.given.into());
    Ok(PolicyChoice::new(name, given)?)
}

/// What was wrong with a policy in parentheses: the nearest name is suggested as it is to be written.
fn meant_inside(around: &str, failure: Failure) -> Failure {
    match failure {
        Failure::Policy(ParameterError::UnknownPolicy { name, suggestion, known }) => {
            let suggestion = suggestion.filter(|inner| inner != around);
            let suggestion = suggestion.map(|inner| format!("{around}({inner})"));
            ParameterError::UnknownPolicy { name, suggestion, known }.into()
        }
        other => other,
    }
}

/// A name, the policy in parentheses behind it, and what follows; nothing where there are no parentheses.
fn around(text: &str) -> Result<Option<(&str, &str, &str)>, String> {
    let text = text.trim();
    let Some(open) = text.find(['(', '{']).filter(|at| text[*at..].starts_with('(')) else { return Ok(None) };
    let inside = &text[open + 1..];
    let (mut depth, mut quote) = (1_u32, None);
    for (at, c) in inside.char_indices() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (_, Some(begun)) if begun == c => quote = None,
            ('(', None) => depth += 1,
            (')', None) => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let rest = inside[at + 1..].trim();
            if !rest.is_empty() && !rest.starts_with('{') {
                return Err("behind the `)` only parameters in braces may follow".to_owned());
            }
            return Ok(Some((text[..open].trim(), &inside[..at], rest)));
        }
    }
    Err("there must be a `)` for the `(`".to_owned())
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

/// Reads a list of policies; commas inside braces and parentheses belong to one.
pub(crate) fn parse_policies(text: &str) -> Result<Vec<PolicyChoice>, Failure> {
    let mut parts = vec![String::new()];
    let (mut depth, mut quote) = (0_u32, None);
    for c in text.chars() {
        match (c, quote) {
            ('"' | '\'', None) if depth > 0 => quote = Some(c),
            (_, Some(open)) if open == c => quote = None,
            ('{' | '[' | '(', None) => depth += 1,
            ('}' | ']' | ')', None) => depth = depth.saturating_sub(1),
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
    fn a_policy_may_stand_around_another() {
        let all = parse_policies(
            "mlf-c(tiresias), mlf-c( srtf{by='gpu_time', placement='pack'} ){margin = 0.01}, mlf-c, mlf-c{inner='sjf'}",
        );
        let all = all.unwrap();
        let labels: Vec<String> = all.iter().map(PolicyChoice::label).collect();
        let expected =
            ["mlf-c(tiresias)", "mlf-c(srtf{by=\"gpu_time\"}){margin=0.01}", "mlf-c(fifo)", "mlf-c(sjf)"];
        assert_eq!(labels, expected);
        for (choice, label) in all.iter().zip(&labels) {
            let again = parse_policy(label).expect("a label is a policy again");
            assert_eq!(again.label(), *label);
            assert_eq!(choice.name(), "mlf-c");
            assert!(choice.build().is_ok());
        }
        assert_eq!(all[1].parameters()["inner_parameters"]["by"].as_str(), Some("gpu_time"));
        assert_eq!(all[0].folder(), "mlf-c-tiresias");
        let deciding: Vec<_> = labels.iter().map(|label| deciding(label).map(|entry| entry.name)).collect();
        assert_eq!(deciding, [Some("tiresias"), Some("srtf"), Some("fifo"), Some("sjf")]);
    }

    #[test]
    fn mistakes_are_explained() {
        let message = |text| parse_policies(text).unwrap_err().to_string();
        assert!(message("fifoo").contains("did you mean `fifo`"));
        assert!(message("srtf{bye='time'}").contains("did you mean `by`"));
        assert!(message("srtf{by='size'}").contains("srtf"));
        assert!(message("mlf-c(tiresas)").contains("no policy `tiresas`, did you mean `mlf-c(tiresias)`?"));
        assert!(message("mlfc(tiresias)").contains("did you mean `mlf-c`"));
        // Load control does not stand around itself, so that is suggested to nobody.
        let itself = message("mlf-c(mlfc)");
        assert!(itself.contains("no policy `mlfc`") && !itself.contains("mlf-c(mlf-c)"), "{itself}");
        let nonsense = message("mlf-c(nonsense)");
        assert!(nonsense.contains("no policy `nonsense`; known are fifo"), "{nonsense}");
        assert!(message("mlf-c(srtf{bye='time'})").contains("did you mean `by`"));
        assert!(message("mlf-c(srtf){margn=1}").contains("did you mean `margin`"));
        assert!(message("fifo(srtf)").contains("leave the parentheses out"));
        assert!(message("mlf-c(mlf-c)").contains("name another policy"));
        assert!(message("mlf-c(fifo){inner='srtf'}").contains("one of the two ways"));
        for bad in
            ["mlf-c(", "mlf-c()", "mlf-c(fifo", "mlf-c(fifo))", "mlf-c(fifo)x", "(fifo)", "mlf-c(fifo){x"]
        {
            assert!(parse_policies(bad).is_err(), "{bad:?}");
        }
        for bad in ["", "fifo,", "fifo{", "fifo}", "fifo{x", "fifo{}x", "fifo{}\n x = {}", "{by='time'}"] {
            assert!(parse_policies(bad).is_err(), "{bad:?}");
        }
    }
}
