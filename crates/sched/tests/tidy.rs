//! House rules, held by the ordinary test run: who may use whom, how files begin, how long they may be.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use trainyard_sched::decide::Reason;

/// The most lines of a file and of a function.
const FILE_LINES: usize = 500;
const TEST_FILE_LINES: usize = 700;
const FUNCTION_LINES: usize = 70;

/// Files that may be longer, with their most lines. The list may only shrink.
const LONG_FILES: [(&str, usize); 1] = [("sched/src/control/state.rs", 600)];

/// Functions that may be longer. The list may only shrink.
const LONG_FUNCTIONS: [(&str, usize); 1] = [("sim/tests/tiresias_golden.rs::rows", 108)];

/// Modules of `sched` from the ground up; each uses only what stands below it.
const LEVELS: [(&str, u32); 13] = [
    ("model", 0),
    ("estimate", 1),
    ("nets", 1),
    ("partition", 1),
    ("place", 1),
    ("rank", 1),
    ("solve", 1),
    ("view", 2),
    ("decide", 3),
    ("policies", 4),
    ("control", 5),
    ("metrics", 6),
    ("why", 6),
];

/// What has no place in pure code, with the reason.
const FORBIDDEN: [(&str, &str); 9] = [
    ("HashMap", "its order differs from run to run"),
    ("HashSet", "its order differs from run to run"),
    ("Instant", "time is handed in"),
    ("SystemTime", "time is handed in"),
    ("std::env", "settings are handed in"),
    ("println!", "output is the app's affair"),
    ("print!", "output is the app's affair"),
    ("thread_rng", "randomness hangs from the seed"),
    ("std::fs", "files are read by trace readers only"),
];

/// The only parts that may touch files.
const READERS: [&str; 4] =
    ["sim/src/trace/", "sim/src/document.rs", "sim/src/faults.rs", "sim/src/generate/"];

struct Source {
    /// Relative to `crates`.
    path: String,
    text: String,
}

impl Source {
    /// Its lines up to the unit tests.
    fn product(&self) -> &str {
        self.text.split("#[cfg(test)]").next().unwrap_or_default()
    }

    fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.contains("/benches/")
    }
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate stands beside others").to_owned()
}

#[expect(clippy::disallowed_methods, reason = "this test reads sources")]
fn sources(folder: &Path, found: &mut Vec<Source>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let relative = path.strip_prefix(crates()).expect("it is below").to_string_lossy().into_owned();
            found.push(Source { path: relative, text: std::fs::read_to_string(&path).expect("it is text") });
        }
    }
}

/// The sources of the libraries, tests included.
fn all() -> Vec<Source> {
    let mut found = Vec::new();
    for part in [
        "sched/src",
        "sched/tests",
        "sim/src",
        "sim/tests",
        "sim/benches",
        "live/src",
        "live/tests",
        "learn/src",
        "learn/tests",
        "train/src",
        "train/tests",
        "train/benches",
    ] {
        sources(&crates().join(part), &mut found);
    }
    assert!(found.len() > 60, "the sources are where this test looks");
    found
}

fn level(module: &str) -> Option<u32> {
    LEVELS.iter().find(|(name, _)| *name == module).map(|(_, level)| *level)
}

/// The top modules that a text names by `crate::`.
fn used(text: &str) -> BTreeSet<&str> {
    let word = |rest: &'_ str| rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let after = code.flat_map(|line| line.split("crate::").skip(1));
    after.map(|rest| &rest[..word(rest)]).collect()
}

fn breaks_order(path: &str, text: &str) -> Vec<String> {
    let Some(rest) = path.strip_prefix("sched/src/") else { return Vec::new() };
    let module = rest.split(['/', '.']).next().unwrap_or_default();
    let Some(own) = level(module) else { return Vec::new() };
    let too_high = |used: &&str| *used != module && level(used).is_none_or(|level| level >= own);
    let mut wrong: Vec<String> =
        used(text).into_iter().filter(too_high).map(|used| format!("{path} uses {used}")).collect();
    let mut forbid = |names: &[&str], within: &str| {
        let found = names.iter().filter(|name| module == within && text.contains(*name));
        wrong.extend(found.map(|name| format!("{path} speaks of {name}")));
    };
    forbid(&["crate::policies", "policies::ALL"], "control");
    forbid(&["control::State", "control::Backend", " State,", " Backend,"], "metrics");
    wrong
}

#[test]
fn modules_use_only_what_stands_below_them() {
    let wrong: Vec<String> = all().iter().flat_map(|s| breaks_order(&s.path, s.product())).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for (path, text) in [
        ("sched/src/model/job.rs", "use crate::view::Snapshot;"),
        ("sched/src/place/rules.rs", "use crate::rank::Queue;"),
        ("sched/src/policies/fifo.rs", "use crate::control::Core;"),
        ("sched/src/control/core.rs", "let all = crate::policies::ALL;\nlet x = policies::ALL;"),
        ("sched/src/metrics/fold.rs", "use crate::control::{Batch, State, Step};"),
    ] {
        assert_eq!(breaks_order(path, "use crate::model::Job;\n// crate::metrics"), [""; 0]);
        assert!(!breaks_order(path, text).is_empty(), "{path}: {text}");
    }
}

/// A policy that names another one outside its own family.
fn names_a_stranger(source: &Source, files: &BTreeSet<String>) -> Vec<String> {
    let Some(rest) = source.path.strip_prefix("sched/src/policies/") else { return Vec::new() };
    let family = rest.split(['/', '.']).next().unwrap_or_default();
    let strangers = files.iter().filter(|other| *other != family && family != "mod");
    let names = |other: &&String| {
        let text = source.product();
        text.contains(&format!("policies::{other}")) || text.contains(&format!("super::{other}::"))
    };
    strangers.filter(names).map(|other| format!("{} names {other}", source.path)).collect()
}

fn families(sources: &[Source]) -> BTreeSet<String> {
    let below = sources.iter().filter_map(|source| source.path.strip_prefix("sched/src/policies/"));
    let names = below.map(|rest| rest.split(['/', '.']).next().unwrap_or_default().to_owned());
    names.filter(|name| name != "mod").collect()
}

#[test]
fn every_policy_file_is_in_the_table_and_knows_no_other_family() {
    let sources = all();
    let families = families(&sources);
    let table = sources.iter().find(|source| source.path == "sched/src/policies/mod.rs").expect("the table");
    let begin = table.text.find("pub const ALL").expect("the table is there");
    let listed = &table.text[begin..][..table.text[begin..].find(';').expect("it ends")];
    let waits = |name: &&String| NOT_YET_LISTED.contains(&name.as_str());
    let missing: Vec<_> =
        families.iter().filter(|name| listed.contains(&format!("{name}::")) == waits(name)).collect();
    assert!(missing.is_empty(), "not in the table, or listed as still to come though there: {missing:?}");
    let strangers: Vec<String> = sources.iter().flat_map(|s| names_a_stranger(s, &families)).collect();
    assert!(strangers.is_empty(), "{strangers:?}");
    let planted =
        Source { path: "sched/src/policies/srtf.rs".to_owned(), text: "use super::fifo::Fifo;".to_owned() };
    assert_eq!(names_a_stranger(&planted, &families).len(), 1);
}

/// Families whose policies are still to come. The list may only shrink.
const NOT_YET_LISTED: [&str; 0] = [];

#[test]
fn every_file_says_what_it_is_for() {
    let silent = all().into_iter().filter(|source| !source.text.starts_with("//! "));
    let silent: Vec<String> = silent.map(|source| source.path).collect();
    assert!(silent.is_empty(), "these do not begin with `//!`: {silent:#?}");
}

#[test]
fn files_are_short() {
    let mut used = BTreeSet::new();
    let mut long = Vec::new();
    for source in all() {
        let lines = source.text.lines().count();
        let usual = if source.is_test() { TEST_FILE_LINES } else { FILE_LINES };
        if lines <= usual {
            continue;
        }
        match LONG_FILES.iter().find(|(path, _)| *path == source.path) {
            Some((path, most)) if lines <= *most => drop(used.insert(*path)),
            _ => long.push(format!("{} has {lines} lines", source.path)),
        }
    }
    assert!(long.is_empty(), "{long:#?}");
    let idle: Vec<_> = LONG_FILES.iter().filter(|(path, _)| !used.contains(path)).collect();
    assert!(idle.is_empty(), "no exception any more, take it off the list: {idle:?}");
}

/// Functions with more lines than allowed, by name. A function ends at the brace under its first letter.
fn long_functions(source: &Source) -> Vec<(String, usize)> {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut long = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let words: Vec<&str> = code.split_whitespace().take(5).collect();
        let Some(fun) = words.iter().position(|word| *word == "fn") else { continue };
        if code.starts_with("//") || line.trim_end().ends_with([';', '}']) {
            continue;
        }
        let indent = line.len() - code.len();
        let end = format!("{}}}", &line[..indent]);
        let length = lines[i..].iter().position(|line| *line == end).map_or(0, |n| n + 1);
        if length > FUNCTION_LINES {
            let name = words.get(fun + 1).copied().unwrap_or_default();
            let name = name.split(['(', '<']).next().unwrap_or_default();
            long.push((format!("{}::{name}", source.path), length));
        }
    }
    long
}

#[test]
fn functions_are_short() {
    let found: Vec<(String, usize)> = all().iter().flat_map(long_functions).collect();
    let excused = |name: &str| LONG_FUNCTIONS.iter().find(|(known, _)| *known == name);
    let long: Vec<_> =
        found.iter().filter(|(name, lines)| excused(name).is_none_or(|(_, most)| lines > most)).collect();
    assert!(long.is_empty(), "longer than {FUNCTION_LINES} lines: {long:#?}");
    for (name, _) in LONG_FUNCTIONS {
        assert!(found.iter().any(|(long, _)| long == name), "no exception any more: {name}");
    }
    let planted = format!("    fn long(x: u8) {{\n{}    }}\n", "        x;\n".repeat(FUNCTION_LINES));
    let planted = Source { path: "a.rs".to_owned(), text: planted };
    assert_eq!(long_functions(&planted), [("a.rs::long".to_owned(), FUNCTION_LINES + 2)]);
}

fn forbidden(source: &Source) -> Vec<String> {
    let reads = READERS.iter().any(|reader| source.path.starts_with(reader));
    let code = source.product().lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| FORBIDDEN.iter().filter(move |(token, _)| line.contains(token)))
        .filter(|(token, _)| !(reads && *token == "std::fs"))
        .map(|(token, reason)| format!("{}: {token}: {reason}", source.path))
        .collect()
}

#[test]
fn pure_code_names_nothing_impure() {
    // Training programs read files, measure time and have threads: they are what is scheduled.
    let pure = |source: &&Source| {
        source.path.contains("/src/")
            && !source.path.starts_with("train/")
            && !source.path.starts_with("live/")
    };
    let found: Vec<String> = all().iter().filter(pure).flat_map(forbidden).collect();
    assert!(found.is_empty(), "{found:#?}");
    for (token, _) in FORBIDDEN {
        let planted = Source { path: "sched/src/x.rs".to_owned(), text: format!("let x = {token};") };
        assert!(!forbidden(&planted).is_empty(), "{token}");
    }
}

#[test]
fn every_kind_of_reason_is_given_by_somebody() {
    let sources = all();
    let givers = sources.iter().filter(|source| {
        let path = &source.path;
        let gives = path.starts_with("sched/src/policies/") || path.starts_with("sched/src/decide/");
        gives && !path.ends_with("/reason.rs")
    });
    let text: String = givers.map(Source::product).collect();
    let camel = |kind: &str| -> String {
        let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
        kind.split('_').map(capital).collect()
    };
    let given = |kind: &str| text.contains(&format!("Reason::{}", camel(kind)));
    let never: Vec<_> = Reason::KINDS.iter().map(|(kind, _)| *kind).filter(|kind| !given(kind)).collect();
    let expected: BTreeSet<&str> = NOT_YET_GIVEN.into_iter().collect();
    assert_eq!(never.into_iter().collect::<BTreeSet<_>>(), expected);
    assert!(!given("never_heard_of"));
}

/// Reasons that wait for their policies. The list may only shrink.
const NOT_YET_GIVEN: [&str; 0] = [];
