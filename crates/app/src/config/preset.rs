//! A preset as it is named on the command line: `name`, or `name{key = value, ...}`.

use std::str::FromStr;

use super::ArgumentError;
use super::policy::named;

/// A preset with what was said of it. Whether there is such a one is found out where it is used.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PresetChoice {
    /// Its name.
    pub(crate) name: String,
    /// Its options.
    pub(crate) options: toml::Table,
}

impl PresetChoice {
    /// A preset as it is.
    pub(crate) fn plain(name: &str) -> Self {
        Self { name: name.to_owned(), options: toml::Table::new() }
    }
}

impl FromStr for PresetChoice {
    type Err = ArgumentError;

    fn from_str(text: &str) -> Result<Self, ArgumentError> {
        match named(text) {
            Ok((name, options)) => Ok(Self { name: name.to_owned(), options }),
            Err(problem) => Err(ArgumentError::PresetText { value: text.to_owned(), problem }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_is_a_name_with_or_without_options() {
        assert_eq!("day".parse::<PresetChoice>().expect("a name"), PresetChoice::plain("day"));
        let gavel: PresetChoice = "gavel{jobs_per_h = 4.8}".parse().expect("a name and an option");
        assert_eq!((gavel.name.as_str(), gavel.options["jobs_per_h"].as_float()), ("gavel", Some(4.8)));
        let told = "gavel{jobs_per_h}".parse::<PresetChoice>().expect_err("no value").to_string();
        assert!(told.contains("gavel{jobs_per_h}"), "{told}");
    }
}
