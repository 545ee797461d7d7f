//! Where tests find public data. They are not part of the repository; a test that does not find them says so and
//! passes.

use std::path::{Path, PathBuf};

/// A public file or folder, or `None` with the reason printed.
pub(crate) fn public(path: &str) -> Option<PathBuf> {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(path);
    if found.exists() {
        return Some(found);
    }
    println!("skipped: {} is not there", found.display());
    None
}

/// All files below a folder whose name ends like this, in order.
pub(crate) fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, end));
        } else if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
    found.sort();
    found
}
