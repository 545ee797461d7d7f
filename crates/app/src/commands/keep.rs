//! `keep`: what stands between the daemon and the programs of one attempt. The daemon starts it; people do not.

use std::path::PathBuf;

use clap::Args;
use trainyard_live::local;

use super::{Ending, say};
use crate::failure::Failure;

/// What `keep` is told.
#[derive(Args, Debug)]
pub(super) struct KeepArguments {
    /// The folder of the attempt.
    folder: PathBuf,
    /// Become this one of its programs.
    #[arg(long)]
    program: Option<usize>,
}

/// Keeps an attempt, or becomes one of its programs.
pub(super) fn perform(given: &KeepArguments) -> Result<Ending, Failure> {
    if let Some(number) = given.program {
        say(&local::become_program(&given.folder, number));
        return Ok(Ending::NotStarted);
    }
    let exe = std::env::current_exe().map_err(Failure::file("find", "this program".as_ref()))?;
    local::keep(&given.folder, &exe);
    Ok(Ending::Done)
}
