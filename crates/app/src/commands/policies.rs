//! `policies`: the table of policies, and one policy's parameters.

use clap::Args;
use serde::Serialize;
use trainyard_sched::decide::{Entry, Parameter};
use trainyard_sched::policies::{ALL, find};

use super::{Ending, Output, print};
use crate::failure::Failure;
use crate::render::{Align, plain_table, short_value};

/// What `policies` is told.
#[derive(Args, Debug)]
pub(super) struct PoliciesArguments {
    /// Show this policy with its parameters.
    name: Option<String>,
}

/// A policy, as it is printed.
#[derive(Serialize)]
struct Shown {
    name: &'static str,
    title: &'static str,
    source: &'static str,
    parameters: Vec<ShownParameter>,
}

/// A parameter, as it is printed.
#[derive(Serialize)]
struct ShownParameter {
    name: &'static str,
    meaning: &'static str,
    unit: &'static str,
    values: String,
    default: toml::Value,
}

impl ShownParameter {
    fn all(entry: &Entry) -> Vec<Self> {
        let defaults = (entry.defaults)();
        let shown = |parameter: &Parameter| {
            let Parameter { name, meaning, unit, values } = *parameter;
            Self { name, meaning, unit, values: values.to_string(), default: defaults[name].clone() }
        };
        entry.parameters.iter().map(shown).collect()
    }
}

/// Lists policies.
pub(super) fn perform(given: &PoliciesArguments, output: Output) -> Result<Ending, Failure> {
    let shown = |entry: &Entry| Shown {
        name: entry.name,
        title: entry.title,
        source: entry.source,
        parameters: ShownParameter::all(entry),
    };
    match &given.name {
        None => {
            print(output, &ALL.iter().map(|entry| shown(entry)).collect::<Vec<_>>(), |all: &Vec<Shown>| {
                let rows = all.iter().map(|one| vec![one.name.to_owned(), one.title.to_owned()]).collect();
                plain_table(&[("policy", Align::Left), ("what it is", Align::Left)], rows)
            })?
        }
        Some(name) => print(output, &shown(find(name)?), |one: &Shown| {
            let row = |of: &ShownParameter| {
                let default = short_value(&of.default);
                [of.name, &default, of.unit, &of.values, of.meaning].map(str::to_owned).to_vec()
            };
            let columns =
                ["parameter", "default", "unit", "values", "meaning"].map(|name| (name, Align::Left));
            let table = plain_table(&columns, one.parameters.iter().map(row).collect());
            format!("{}: {}\nsource: {}\n\n{table}", one.name, one.title, one.source)
        })?,
    }
    Ok(Ending::Done)
}
