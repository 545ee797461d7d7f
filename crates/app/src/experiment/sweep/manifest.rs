//! `manifest.json`: what the results of a sweep were made from, and their hashes. Holds nothing that was measured.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::store::{Record, sha256, sha256_of_file, write_whole};
use super::{MANIFEST, Sweep};
use crate::config::{Factor, PROGRAM, Setting};
use crate::failure::Failure;

/// The file.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    /// The program and its version.
    program: String,
    /// What the sweep is called.
    title: String,
    /// SHA-256 of the file of the sweep.
    sweep_sha256: String,
    /// Settings that all runs have in common.
    fixed: Vec<String>,
    /// Factors with their levels.
    factors: Vec<Levels>,
    /// The seeds; the first belongs to the trace as it is.
    seeds: Vec<u64>,
    /// Whether the other seeds draw other traces.
    resample: bool,
    /// SHA-256 of each file that a setting names.
    inputs: BTreeMap<String, String>,
    /// The names of the runs, in the order of the results.
    runs: Vec<String>,
    /// SHA-256 of each file that was made, but for those with what was measured.
    results: BTreeMap<String, String>,
}

/// A factor with its levels.
#[derive(Debug, Serialize, Deserialize)]
struct Levels {
    name: String,
    levels: Vec<String>,
}

/// Writes it.
pub(super) fn write(sweep: &Sweep, records: &[Record], out: &Path, results: &[&str]) -> Result<(), Failure> {
    let file = &sweep.file;
    let said = |setting: &Setting| format!("{} = {}", setting.name, setting.value);
    let levels = |levels: &[Setting]| levels.iter().map(|level| level.value.clone()).collect();
    let factor = |factor: &Factor| Levels { name: factor.name.clone(), levels: levels(&factor.levels) };
    let mut hashes = BTreeMap::new();
    for name in results {
        hashes.insert((*name).to_owned(), sha256_of_file(&out.join(name))?);
    }
    let manifest = Manifest {
        program: PROGRAM.to_owned(),
        title: file.title.clone(),
        sweep_sha256: sha256(file.text.as_bytes()),
        fixed: file.fixed.iter().map(said).collect(),
        factors: file.factors.iter().map(factor).collect(),
        seeds: file.seeds.clone(),
        resample: file.resample,
        inputs: sweep.files.clone(),
        runs: records.iter().map(|record| record.identity.hash()).collect(),
        results: hashes,
    };
    save(&manifest, out)
}

/// Adds the hash of one more file.
pub(super) fn add(out: &Path, name: &str) -> Result<(), Failure> {
    let path = out.join(MANIFEST);
    let text = std::fs::read_to_string(&path).map_err(Failure::file("read", &path))?;
    let parsed = serde_json::from_str(&text).map_err(std::io::Error::from);
    let mut manifest: Manifest = parsed.map_err(Failure::file("read", &path))?;
    manifest.results.insert(name.to_owned(), sha256_of_file(&out.join(name))?);
    save(&manifest, out)
}

fn save(manifest: &Manifest, out: &Path) -> Result<(), Failure> {
    let path = out.join(MANIFEST);
    let text = serde_json::to_string_pretty(manifest).map_err(std::io::Error::from);
    let text = text.map_err(Failure::file("write", &path))?;
    write_whole(&path, (text + "\n").as_bytes())
}
