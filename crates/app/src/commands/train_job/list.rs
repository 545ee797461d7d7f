//! What can be trained, and on what: the list of `train-job list`.

use std::fmt::Write as _;

use serde::Serialize;
use trainyard_train::data::GENERATORS;
use trainyard_train::{Parameter, algorithms};

/// A program as it is listed.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    title: &'static str,
    source: &'static str,
    learns_from: &'static str,
    generator: &'static str,
    parameters: Vec<ListedParameter>,
}

/// A generator as it is listed.
#[derive(Serialize)]
struct ListedGenerator {
    name: &'static str,
    title: &'static str,
    parameters: Vec<ListedParameter>,
}

#[derive(Serialize)]
struct ListedParameter {
    name: &'static str,
    default: String,
    values: String,
    meaning: &'static str,
}

/// All that can be trained, and on what.
#[derive(Serialize)]
pub(super) struct List {
    schema: &'static str,
    algorithms: Vec<Listed>,
    generators: Vec<ListedGenerator>,
}

/// All of it.
pub(super) fn list() -> List {
    let parameters = |parameters: &'static [Parameter]| {
        let listed = |parameter: &Parameter| ListedParameter {
            name: parameter.name,
            default: parameter.usual(),
            values: parameter.range(),
            meaning: parameter.meaning,
        };
        parameters.iter().map(listed).collect()
    };
    List {
        schema: "trainyard.train-jobs/1",
        algorithms: algorithms::ALL
            .iter()
            .map(|entry| Listed {
                name: entry.name,
                title: entry.title,
                source: entry.source,
                learns_from: entry.needs.words(),
                generator: entry.generator,
                parameters: parameters(entry.parameters),
            })
            .collect(),
        generators: GENERATORS
            .iter()
            .map(|generator| ListedGenerator {
                name: generator.name,
                title: generator.title,
                parameters: parameters(generator.parameters),
            })
            .collect(),
    }
}

/// The same in words.
pub(super) fn list_text(list: &List) -> String {
    let mut text = String::new();
    let lines = |text: &mut String, parameters: &[ListedParameter]| {
        for parameter in parameters {
            let pair = format!("{}={}", parameter.name, parameter.default);
            let _ = writeln!(text, "    {pair:24} {} ({})", parameter.meaning, parameter.values);
        }
    };
    for algorithm in &list.algorithms {
        let _ = writeln!(
            text,
            "{}: {}. Source: {}. Learns from {}.",
            algorithm.name, algorithm.title, algorithm.source, algorithm.learns_from
        );
        lines(&mut text, &algorithm.parameters);
    }
    text.push_str("\nGenerators of data (--generate):\n\n");
    for generator in &list.generators {
        let _ = writeln!(text, "{}: {}.", generator.name, generator.title);
        lines(&mut text, &generator.parameters);
    }
    text
}
