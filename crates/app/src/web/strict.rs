//! Reading JSON, TOML and YAML strictly: an unknown key is an error that names the nearest known one, and a wrong value is
//! named by its field.

use serde::de::DeserializeOwned;

use super::problem::{Kind, Problem};

/// How alike two words must be, by Jaro and Winkler, for one to be meant by the other.
const LIKE: f64 = 0.75;

/// The most similar of some words, if any is close.
pub(crate) fn similar<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |known: &'a str| (strsim::jaro_winkler(word, known), known);
    let near = known.into_iter().map(likeness).filter(|(like, _)| *like > LIKE);
    near.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
}

/// The same as the end of a sentence.
pub(crate) fn meant<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    similar(word, known).map_or_else(String::new, |known| format!("; did you mean `{known}`?"))
}

/// Reads JSON.
pub(crate) fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // A list would do for a structure, value by value without their names; nobody means that.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(Problem::new(Kind::Invalid, "the body: a list, expected an object"));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let inner: serde_json::Error = error.into_inner();
        let kind = if inner.is_data() { Kind::Invalid } else { Kind::Malformed };
        Problem::new(kind, explain(&path, &inner.to_string()))
    })?;
    reader.end().map_err(|error| Problem::new(Kind::Malformed, format!("the body: {error}")))?;
    Ok(value)
}

/// The message of a reader with the field it is about, and the nearest known key where one is unknown.
pub(crate) fn explain(path: &str, message: &str) -> String {
    let place = if path == "." || path == "?" { "the body".to_owned() } else { format!("`{path}`") };
    let Some(rest) = message.strip_prefix("unknown field `") else { return format!("{place}: {message}") };
    let mut words = rest.split('`').step_by(2);
    let unknown = words.next().unwrap_or_default();
    let known: Vec<&str> = rest.split('`').skip(2).step_by(2).collect();
    let nearest = meant(unknown, known.iter().copied());
    let known = if known.is_empty() { String::new() } else { format!("; known are {}", known.join(", ")) };
    let place = path.rsplit_once('.').map_or_else(String::new, |(parent, _)| format!("`{parent}`: "));
    format!("{place}unknown key `{unknown}`{nearest}{known}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the errors of reading it are looked at")]
    struct Outer {
        #[serde(default)]
        command: Vec<String>,
        #[serde(default)]
        workers: Option<Inner>,
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the errors of reading it are looked at")]
    struct Inner {
        min: u32,
        max: u32,
    }

    #[test]
    fn mistakes_are_named_by_field_and_with_the_nearest_key() {
        let wrong = |text: &str| from_json::<Outer>(text.as_bytes()).unwrap_err().detail;
        let unknown = wrong(r#"{"comand": ["x"]}"#);
        assert!(
            unknown.starts_with("unknown key `comand`; did you mean `command`?; known are command, workers"),
            "{unknown}"
        );
        let inner = wrong(r#"{"workers": {"mim": 1, "max": 2}}"#);
        assert!(inner.starts_with("`workers`: unknown key `mim`; did you mean `min`?"), "{inner}");
        let value = wrong(r#"{"workers": {"min": "one", "max": 2}}"#);
        assert!(value.starts_with("`workers.min`: invalid type: string \"one\", expected u32"), "{value}");
        assert!(wrong("{").starts_with("the body: EOF") && wrong("{} x").starts_with("the body: trailing"));
    }
}
