//! Runs that are done, on disk, so that a sweep can go on where it was stopped. A run is named by the hash of everything
//! that it depends on. Every file is written beside its place and then moved there, so none is ever half-written.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use trainyard_sched::metrics::Summary;

use crate::config::{Cell, PROGRAM};
use crate::experiment::measure::Times;
use crate::failure::Failure;

/// Grows when what a run is, or what is kept of it, changes.
const LAYOUT: u32 = 1;
/// The folder of the runs.
const RUNS: &str = "runs";

/// Everything that a run depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Identity {
    layout: u32,
    program: String,
    settings: Vec<(String, String)>,
    policy: String,
    parameters: toml::Table,
    /// SHA-256 of the files that settings name.
    files: BTreeMap<String, String>,
    seed: u64,
    resampled: bool,
}

/// What is kept of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// What it depends on.
    pub(crate) identity: Identity,
    /// SHA-256 of the program file that did it. It is no part of the name, so that tables of equal results are equal.
    pub(crate) binary: String,
    /// Its numbers.
    pub(crate) summary: Summary,
    /// Rows of its trace that were left out or repaired.
    pub(crate) blemishes: u64,
    /// What was measured on the machine that ran it.
    pub(crate) measured: Times,
}

impl Identity {
    /// The identity of one run of a cell.
    pub(crate) fn new(cell: &Cell, files: &BTreeMap<String, String>, seed: u64, resampled: bool) -> Self {
        let settings = cell.settings.iter().filter(|setting| setting.name != "policy");
        let settings: Vec<_> =
            settings.map(|setting| (setting.name.clone(), setting.value.clone())).collect();
        let named = |file: &String| settings.iter().any(|(_, value)| value == file);
        Self {
            layout: LAYOUT,
            program: PROGRAM.to_owned(),
            files: files
                .iter()
                .filter(|(file, _)| named(file))
                .map(|(f, hash)| (f.clone(), hash.clone()))
                .collect(),
            settings,
            policy: cell.policy.name().to_owned(),
            parameters: cell.policy.parameters(),
            seed,
            resampled,
        }
    }

    /// The name of the run.
    pub(crate) fn hash(&self) -> String {
        let text = serde_json::to_string(self).expect("an identity is plain values");
        sha256(text.as_bytes())[..16].to_owned()
    }
}

/// The folder of runs.
pub(crate) struct Store {
    folder: PathBuf,
    /// SHA-256 of the program file that runs now.
    binary: String,
}

impl Store {
    /// The store in the folder of a sweep, which is made.
    pub(crate) fn open(out: &Path) -> Result<Self, Failure> {
        let folder = out.join(RUNS);
        std::fs::create_dir_all(&folder).map_err(Failure::file("make the folder", &folder))?;
        let program =
            std::env::current_exe().map_err(Failure::file("find", Path::new("the program itself")))?;
        Ok(Self { folder, binary: sha256_of_file(&program)? })
    }

    /// SHA-256 of the program file that runs now.
    pub(crate) fn binary(&self) -> &str {
        &self.binary
    }

    fn path(&self, hash: &str) -> PathBuf {
        self.folder.join(format!("{hash}.json"))
    }

    /// The record of a run, if it is there and whole, and of exactly this run by exactly this program: a
    /// program that was built again may well have the same version.
    pub(crate) fn find(&self, identity: &Identity) -> Option<Record> {
        let text = std::fs::read_to_string(self.path(&identity.hash())).ok()?;
        let record: Record = serde_json::from_str(&text).ok()?;
        (record.identity == *identity && record.binary == self.binary).then_some(record)
    }

    /// Keeps a record.
    pub(crate) fn keep(&self, record: &Record) -> Result<(), Failure> {
        let path = self.path(&record.identity.hash());
        let text = serde_json::to_string_pretty(record).map_err(std::io::Error::from);
        let text = text.map_err(Failure::file("write", &path))?;
        write_whole(&path, (text + "\n").as_bytes())
    }
}

/// Writes a file so that whoever looks sees the old one or the whole new one.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let write = || {
        let mut file = std::fs::File::create(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&part, path)
    };
    write().map_err(Failure::file("write", path))
}

/// SHA-256 in hex.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes).as_slice())
}

/// SHA-256 of a file in hex, read in pieces.
pub(crate) fn sha256_of_file(path: &Path) -> Result<String, Failure> {
    let failed = || Failure::file("read", path);
    let mut file = std::fs::File::open(path).map_err(failed())?;
    let mut hasher = Sha256::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece).map_err(failed())? {
            0 => return Ok(hex(hasher.finalize().as_slice())),
            length => hasher.update(&piece[..length]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
