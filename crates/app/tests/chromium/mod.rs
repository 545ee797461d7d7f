//! A real browser for tests: Chromium, node and what `npm ci --ignore-scripts` puts into `tests/browser`.
//!
//! Where one of them is missing, a test says so and checks nothing, unless `TRAINYARD_REQUIRE_BROWSER=1`.

use std::path::{Path, PathBuf};

/// What is needed to look at pages.
pub(crate) struct Browser {
    pub(crate) chromium: PathBuf,
    pub(crate) node: PathBuf,
}

fn in_path(names: &[&str]) -> Option<PathBuf> {
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let places = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    places.into_iter().find(|place| place.is_file())
}

/// A file of `tests/browser`.
pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser").join(name)
}

/// The browser, or why there is none.
fn find() -> Result<Browser, &'static str> {
    let chromium =
        in_path(&["chromium", "chromium-browser", "google-chrome"]).ok_or("there is no chromium")?;
    let node = in_path(&["node", "nodejs"]).ok_or("there is no node")?;
    if !script("node_modules/playwright-core").is_dir() {
        return Err("playwright-core is missing; run `npm ci --ignore-scripts` in crates/app/tests/browser");
    }
    Ok(Browser { chromium, node })
}

/// The browser, or none where the test is to be skipped.
pub(crate) fn browser() -> Option<Browser> {
    let required = std::env::var("TRAINYARD_REQUIRE_BROWSER").is_ok_and(|value| value == "1");
    match find() {
        Ok(browser) => Some(browser),
        Err(reason) if required => panic!("TRAINYARD_REQUIRE_BROWSER=1, but {reason}"),
        Err(reason) => {
            eprintln!("skipped: no page was looked at, because {reason}");
            None
        }
    }
}
