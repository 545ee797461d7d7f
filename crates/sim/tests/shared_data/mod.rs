//! Where tests find public data. They are not part of the repository: `TRAINYARD_PUBLIC_DATA` names their folder, else it
//! is `shared/data` beside the repository. A test that does not find them says so and passes, or fails if
//! `TRAINYARD_REQUIRE_DATA=1`.

use std::path::{Path, PathBuf};

/// The folder of the public data, whether or not it is there.
#[expect(clippy::disallowed_methods, reason = "whoever runs the test says where public data are")]
fn folder() -> PathBuf {
    std::env::var_os("TRAINYARD_PUBLIC_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from)
}

/// A public file or folder (the whole of them for the empty path), or `None` with the reason printed.
///
/// # Panics
///
/// If it is not there and `TRAINYARD_REQUIRE_DATA=1`.
#[expect(clippy::disallowed_methods, reason = "whoever runs the test says where public data are")]
pub(crate) fn public(path: &str) -> Option<PathBuf> {
    let required = std::env::var_os("TRAINYARD_REQUIRE_DATA").is_some_and(|word| word == "1");
    found(&folder(), path, required).unwrap_or_else(|told| panic!("{told}"))
}

fn found(folder: &Path, path: &str, required: bool) -> Result<Option<PathBuf>, String> {
    let found = folder.join(path);
    if found.exists() {
        return Ok(Some(found));
    }
    let told = format!("{} is not there (TRAINYARD_PUBLIC_DATA names the folder)", found.display());
    if required {
        return Err(format!("{told}, and TRAINYARD_REQUIRE_DATA=1 asks for it"));
    }
    println!("skipped: {told}");
    Ok(None)
}

#[test]
fn data_that_are_absent_are_skipped_unless_they_are_required() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert_eq!(found(here, "Cargo.toml", true), Ok(Some(here.join("Cargo.toml"))));
    assert_eq!(found(here, "no-such-file", false), Ok(None));
    let told = found(here, "no-such-file", true).unwrap_err();
    assert!(told.contains("no-such-file") && told.contains("TRAINYARD_PUBLIC_DATA"), "{told}");
}
