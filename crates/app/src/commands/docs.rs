//! `docs`: the pages of the documentation that are made from the program's own tables.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Arg, Args, Command, CommandFactory as _};
use trainyard_sched::decide::{Parameter, Reason};
use trainyard_sched::policies::ALL;
use trainyard_sim::generate::PRESETS;
use trainyard_sim::trace::FORMATS;

use super::{Arguments, Ending};
use crate::experiment::write_text;
use crate::failure::Failure;
use crate::render::short_value;
use crate::web::{Kind, document};

/// What `docs` is told.
#[derive(Args, Debug)]
pub(super) struct DocsArguments {
    /// The folder of the documentation.
    #[arg(default_value = "docs")]
    folder: PathBuf,
}

/// Writes the generated pages.
pub(super) fn perform(given: &DocsArguments) -> Result<Ending, Failure> {
    write_text(&given.folder.join("policies.md"), &policies())?;
    write_text(&given.folder.join("reasons.md"), &reasons())?;
    write_text(&given.folder.join("traces.md"), &traces())?;
    write_text(&given.folder.join("presets.md"), &presets())?;
    write_text(&given.folder.join("api.md"), &api())?;
    write_text(&given.folder.join("commands.md"), &commands())?;
    Ok(Ending::Done)
}

const NOTICE: &str = "<!-- Made by `trainyard docs`; a test keeps it fresh. -->\n";

fn policies() -> String {
    let mut text = format!("# Policies\n\n{NOTICE}\n| policy | what it is |\n| --- | --- |\n");
    for entry in ALL {
        let _ = writeln!(text, "| [`{0}`](#{0}) | {1} |", entry.name, entry.title);
    }
    text.push_str(
        "\nParameters are given as `name{key = value, ...}`; what is not given has its default. \
         Bounds are included. A policy that stands around another is written `name(other)`, each with parameters of its \
         own where wanted: `mlf-c(tiresias{variant = \"gittins\"}){margin = 0.01}`. That is short for `inner` and \
         `inner_parameters`, which files and the HTTP interface use.\n",
    );
    for entry in ALL {
        let _ =
            write!(text, "\n## {}\n\n{}.\n\nSource: {}.\n", entry.name, capital(entry.title), entry.source);
        let defaults = (entry.defaults)();
        text.push_str(
            "\n| parameter | meaning | unit | values | default |\n| --- | --- | --- | --- | --- |\n",
        );
        for Parameter { name, meaning, unit, values } in entry.parameters {
            let default = short_value(&defaults[*name]);
            let _ = writeln!(text, "| `{name}` | {meaning} | {unit} | {values} | `{default}` |");
        }
    }
    text
}

fn reasons() -> String {
    let mut text = format!(
        "# Reasons\n\n{NOTICE}\nEvery verdict on a job comes with a reason, as a word in JSON and a sentence for \
         people. These are all of them, and what helps.\n\n| reason | what helps |\n| --- | --- |\n"
    );
    for (kind, remedy) in Reason::KINDS {
        let _ = writeln!(text, "| `{kind}` | {remedy} |");
    }
    text
}

fn traces() -> String {
    let mut text = format!(
        "# Traces\n\n{NOTICE}\nThese formats of lists of jobs are read. Which one a file has is found out from its first \
         lines, whatever its name; `--format NAME` decides where that is not wanted. How to write down jobs of one's \
         own, and what happens to odd files, stands in [the trace format](trace-format.md). What had to be assumed is \
         in the report of every import.\n\n| format | what it is |\n| --- | --- |\n"
    );
    for format in FORMATS {
        let _ = writeln!(text, "| [`{0}`](#{0}) | {1} |", format.name, format.title);
    }
    for format in FORMATS {
        let title = capital(format.title);
        let _ = write!(text, "\n## {}\n\n{title}.\n\n| column | meaning |\n| --- | --- |\n", format.name);
        for column in format.columns {
            let _ = writeln!(text, "| `{}` | {} |", column.name, column.meaning.replace('|', "\\|"));
        }
    }
    text
}

fn presets() -> String {
    let mut text = format!(
        "# Presets\n\n{NOTICE}\n`--generate PRESET` draws jobs like one of these, from the seed. Where no cluster is given, it is \
         the preset's own.\n\n| preset | what it is | jobs | cluster |\n| --- | --- | --- | --- |\n"
    );
    for preset in PRESETS {
        let cluster = preset.cluster.map_or_else(String::new, |words| format!("`{words}`"));
        let _ = writeln!(text, "| `{}` | {} | {} | {cluster} |", preset.name, preset.title, preset.jobs);
    }
    text.push_str("\nWhere their figures come from:\n\n");
    let mut sources: Vec<(&str, Vec<String>)> = Vec::new();
    for preset in PRESETS {
        let name = format!("`{}`", preset.name);
        match sources.iter_mut().find(|(source, _)| *source == preset.source) {
            Some((_, names)) => names.push(name),
            None => sources.push((preset.source, vec![name])),
        }
    }
    for (source, names) in sources {
        let _ = writeln!(text, "- {}: {source}.", names.join(", "));
    }
    text.push_str(
        "\n## Options\n\nOptions are given as `name{key = value, ...}`; what is not given has its default. Bounds are \
         included. Presets that are not listed here have none.\n\n\
         | preset | option | meaning | unit | values | default |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    for preset in PRESETS {
        let (parameters, defaults) = preset.options();
        for Parameter { name, meaning, unit, values } in parameters {
            let default = short_value(&defaults[*name]);
            let row = format!("| `{name}` | {meaning} | {unit} | {values} | `{default}` |");
            let name = format!("`{}`", preset.name);
            match rows.iter_mut().find(|(known, _)| *known == row) {
                Some((_, names)) => names.push(name),
                None => rows.push((row, vec![name])),
            }
        }
    }
    for (row, names) in rows {
        let _ = writeln!(text, "| {} {row}", names.join(", "));
    }
    text
}

fn api() -> String {
    let mut text = format!(
        "# The HTTP interface\n\n{NOTICE}\n`trainyard serve` answers these. All but `/healthz`, `/readyz`, `/openapi.json` and \
         `/docs` need `Authorization: Bearer TOKEN`; who may do what stands in [serve.md](serve.md#who-may-do-what). \
         The daemon has the full reference: `/openapi.json` for programs, and `/docs`, a page that needs nothing from \
         elsewhere.\n\n## Requests\n\n| request | what it does |\n| --- | --- |\n"
    );
    let document = serde_json::to_value(document()).unwrap_or_default();
    let none = serde_json::Map::new();
    for (path, methods) in document["paths"].as_object().unwrap_or(&none) {
        for (method, operation) in methods.as_object().unwrap_or(&none) {
            let summary = operation["summary"].as_str().unwrap_or_default();
            let _ = writeln!(text, "| `{} {path}` | {summary} |", method.to_uppercase());
        }
    }
    text.push_str("\n## A job\n\nThe body of `POST /v1/jobs`, and the keys of the file that `trainyard submit` reads. An unknown key \
        is an error.\n\n| key | meaning |\n| --- | --- |\n");
    for (schema, of) in [
        ("JobRequest", ""),
        ("TaskRequest", "one of `tasks`"),
        ("EdgeRequest", "one of `edges`"),
        ("ReduceRequest", "`reduce`"),
    ] {
        if !of.is_empty() {
            let _ = write!(text, "\nThe keys of {of}:\n\n| key | meaning |\n| --- | --- |\n");
        }
        let keys = &document["components"]["schemas"][schema]["properties"];
        for (key, property) in keys.as_object().unwrap_or(&none) {
            let _ = writeln!(text, "| `{key}` | {} |", meaning(property));
        }
    }
    text.push_str("\n## Problems\n\nWhat goes wrong is told as `application/problem+json` (RFC 9457): `type`, `title`, `status`, \
        `detail`, and `try`, which says what to do.\n\n| `type` | status | title | what to try |\n| --- | --- | --- | --- |\n");
    for (_, slug, status, title, remedy) in Kind::ALL {
        let _ = writeln!(text, "| `urn:trainyard:problem:{slug}` | {status} | {title} | {remedy} |");
    }
    text
}

/// What a property means. Of one that may be missing and is of a form of its own, that form's place says so.
fn meaning(property: &serde_json::Value) -> &str {
    let choices = ["oneOf", "anyOf", "allOf"].into_iter().find_map(|key| property[key].as_array());
    let of_choices = || choices.into_iter().flatten().find_map(|choice| choice["description"].as_str());
    property["description"].as_str().or_else(of_choices).unwrap_or_default()
}

fn commands() -> String {
    let mut text = format!(
        "# All commands and their arguments\n\n{NOTICE}\nWhat they are for, with examples, stands in [the command \
         line](cli.md). Every command takes `--output table` or `--output json`.\n"
    );
    let mut root = Arguments::command();
    root.build();
    for command in root.get_subcommands() {
        describe(&mut text, "trainyard", command);
    }
    text
}

fn describe(text: &mut String, above: &str, command: &Command) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = format!("{above} {}", command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = write!(text, "\n## `{name}`\n\n{}.\n", about.trim_end_matches('.'));
    let shown = |argument: &&Arg| {
        !argument.is_hide_set() && !["help", "output"].contains(&argument.get_id().as_str())
    };
    let arguments: Vec<&Arg> = command.get_arguments().filter(shown).collect();
    if !arguments.is_empty() {
        text.push_str("\n| argument | meaning |\n| --- | --- |\n");
    }
    for argument in arguments {
        let values: Vec<String> =
            argument.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect();
        let values = if argument.get_action().takes_values() { values.join(" ") } else { String::new() };
        let flags = [
            argument.get_short().map(|c| format!("-{c}")),
            argument.get_long().map(|long| format!("--{long}")),
        ];
        let flags: Vec<String> = flags.into_iter().flatten().collect();
        let form = format!("{} {values}", flags.join(", ")).trim().replace('|', "\\|");
        let meaning = argument.get_help().map(ToString::to_string).unwrap_or_default().replace('|', "\\|");
        let env =
            argument.get_env().map_or_else(String::new, |name| format!(" (`{}`)", name.to_string_lossy()));
        let _ = writeln!(text, "| `{form}` | {}{env} |", meaning.replace('\n', " "));
    }
    for below in command.get_subcommands() {
        describe(text, &name, below);
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
