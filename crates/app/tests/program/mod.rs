//! The binary, called as people call it: in a folder of its own, with what it printed, said, and how it ended.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A folder with these files.
pub(crate) fn scratch(files: &[(&str, &str)]) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(place.path().join(name), text).unwrap();
    }
    place
}

/// What the program does with these arguments and this input.
pub(crate) fn trainyard(place: &Path, arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_trainyard"))
        .current_dir(place)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // That the program may not read its input is no fault of the test.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// What it printed and said, given that it ended with this code.
#[track_caller]
pub(crate) fn ends_with(place: &Path, code: i32, arguments: &[&str], input: &[u8]) -> (String, String) {
    let output = trainyard(place, arguments, input);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
    (String::from_utf8(output.stdout).unwrap(), stderr)
}
