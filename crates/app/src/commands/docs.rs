//! `docs`: the pages of the documentation that are made from the program's own tables.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use trainyard_sched::decide::{Parameter, Reason};
use trainyard_sched::policies::ALL;
use trainyard_sim::trace::FORMATS;

use super::Ending;
use crate::experiment::write_text;
use crate::failure::Failure;
use crate::render::short_value;

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
         Bounds are included.\n",
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

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
