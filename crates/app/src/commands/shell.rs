//! `completions` and `man`: what shells and people read of the command line, from its one definition.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::{Arguments, Ending};
use crate::experiment::make_folder;
use crate::failure::Failure;

/// What `completions` is told.
#[derive(Args, Debug)]
pub(super) struct CompletionsArguments {
    /// The shell.
    shell: Shell,
}

/// What `man` is told.
#[derive(Args, Debug)]
pub(super) struct ManArguments {
    /// A folder for the pages of all commands; without it the first page is printed.
    folder: Option<PathBuf>,
}

/// Prints what a shell needs to complete arguments.
pub(super) fn completions(given: &CompletionsArguments) -> Result<Ending, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(given.shell, &mut Arguments::command(), "trainyard", &mut text);
    write_out(&text)
}

/// Prints the manual, or writes all its pages.
pub(super) fn man(given: &ManArguments) -> Result<Ending, Failure> {
    let Some(folder) = &given.folder else {
        let mut text = Vec::new();
        clap_mangen::Man::new(Arguments::command()).render(&mut text).map_err(Failure::Output)?;
        return write_out(&text);
    };
    make_folder(folder)?;
    clap_mangen::generate_to(Arguments::command(), folder)
        .map_err(Failure::file("write pages into", folder))?;
    Ok(Ending::Done)
}

fn write_out(text: &[u8]) -> Result<Ending, Failure> {
    use std::io::Write as _;
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text).and_then(|()| stdout.flush()).map_err(Failure::Output)?;
    Ok(Ending::Done)
}
