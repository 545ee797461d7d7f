//! `policies`: the table of policies, and one policy's parameters.

use clap::Args;
use serde::Serialize;
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
    parameters: toml::Table,
}

/// Lists policies.
pub(super) fn perform(given: &PoliciesArguments, output: Output) -> Result<Ending, Failure> {
    let shown = |entry: &trainyard_sched::decide::Entry| Shown {
        name: entry.name,
        title: entry.title,
        source: entry.source,
        parameters: (entry.defaults)(),
    };
    match &given.name {
        None => {
            print(output, &ALL.iter().map(|entry| shown(entry)).collect::<Vec<_>>(), |all: &Vec<Shown>| {
                let rows = all.iter().map(|one| vec![one.name.to_owned(), one.title.to_owned()]).collect();
                plain_table(&[("policy", Align::Left), ("what it is", Align::Left)], rows)
            })?
        }
        Some(name) => print(output, &shown(find(name)?), |one: &Shown| {
            let rows =
                one.parameters.iter().map(|(key, value)| vec![key.clone(), short_value(value)]).collect();
            let table = plain_table(&[("parameter", Align::Left), ("default", Align::Left)], rows);
            let table = if one.parameters.is_empty() { "no parameters".to_owned() } else { table };
            format!("{}: {}\nsource: {}\n\n{table}", one.name, one.title, one.source)
        })?,
    }
    Ok(Ending::Done)
}
