//! The keeper of local attempts as a program of its own, for this crate's tests. The product's binary has it as a command.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use trainyard_live::local::{become_program, keep};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let exe = std::env::current_exe().unwrap_or_default();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "keep", folder] => keep(Path::new(folder), &exe),
        [_, "keep", folder, "--program", number] => {
            let why = number.parse().map_or_else(
                |_| format!("`{number}` is no number"),
                |number| become_program(Path::new(folder), number),
            );
            let _ = writeln!(std::io::stderr(), "{why}");
            ExitCode::from(127)
        }
        _ => ExitCode::from(2),
    }
}
