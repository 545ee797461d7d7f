//! Brings the parameters of a job's copies together: files of safetensors, as any framework writes them, become one.
//!
//! A number of the result is the mean of the copies' numbers, weighed by the iterations that each copy did since they were equal
//! (HadarE, specification of Hadar and Gavel, section 2.6.6). It is reckoned in 64 bits and rounded once. What is no number that
//! has a mean is dealt with by what it is:
//!
//! - A single integer that has changed is a counter: it has gone on by all that the copies have counted, so it becomes what it was
//!   before plus the sum of what each has added, even if all have added the same. What it was before stands in the state that all
//!   copies began from. One that is not there has changed if it differs from copy to copy, and began at 0.
//! - Whatever else is equal in all copies stays as it is.
//! - Other integers and truth values that differ, such as the state of a random generator, have no mean, and neither has a counter
//!   that went back. Those of the copy that did most are taken, and which they were is told.
//! - Floating-point numbers of 8 bits and less are codes of something larger; copies that differ in them cannot be merged.
//!
//! Metadata are those of the copy that did most, with what whoever merges has to say in place of what stood there.

mod layout;
mod values;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use safetensors::tensor::TensorInfo;

use layout::Layout;
use values::{Integer, Kind};

/// So many bytes of each file are looked at at a time.
const CHUNK: usize = 1 << 18;

/// The state of a copy.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Its file.
    pub path: PathBuf,
    /// Iterations that it did since all copies were equal; more than 0.
    pub iterations: f64,
}

/// What became of the tensors that differed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// How many are means.
    pub averaged: usize,
    /// How many are counters.
    pub counted: usize,
    /// Those that have no mean, and are as the copy that did most has them.
    pub taken: Vec<String>,
}

/// Why files cannot be brought together.
#[derive(Debug, thiserror::Error)]
pub enum ConsolidateError {
    /// A file cannot be read or written.
    #[error("cannot {act} {}: {source}", .path.display())]
    File {
        /// What was tried.
        act: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is no safetensors file.
    #[error("{} is no whole safetensors file: {reason}; copies can only be merged if they save as safetensors", .path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A copy lacks a tensor.
    #[error("{} has no tensor `{name}`, and {} has; all copies must save the same tensors", .path.display(), .other.display())]
    Missing {
        /// The file without.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// The file with.
        other: PathBuf,
    },
    /// A tensor is not the same thing in all copies.
    #[error("{}: tensor `{name}` is {found}, and in {} it is {wanted}; all copies must save the same tensors", .path.display(), .other.display())]
    Differs {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// What it is there.
        found: Box<str>,
        /// The other file.
        other: PathBuf,
        /// What it is there.
        wanted: Box<str>,
    },
    /// A tensor differs and has no mean.
    #[error("{}: tensor `{name}` differs from copy to copy and is of {dtype}, which has no mean; save it as F32 or BF16", .path.display())]
    NoMean {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its type.
        dtype: Dtype,
    },
    /// A counter grew too large for its type.
    #[error("{}: the counter `{name}` would be {value}, which {dtype} cannot hold; save it as I64", .path.display())]
    Counter {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// What it would be.
        value: i128,
        /// Its type.
        dtype: Dtype,
    },
}

impl ConsolidateError {
    fn file(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { act, path: path.to_owned(), source }
    }
}

/// Makes one file of those of several copies. `parent` is the file that all of them began from, if there was one; `told` becomes
/// part of the metadata. The result appears under its name as a whole or not at all.
///
/// # Panics
/// If there is no part, or one that did nothing.
pub fn consolidate(
    parts: &[Part],
    parent: Option<&Path>,
    told: &BTreeMap<String, String>,
    to: &Path,
) -> Result<Merged, ConsolidateError> {
    assert!(parts.iter().all(|part| part.iterations > 0.0), "a part is of a copy that did something");
    let mut layouts = parts.iter().map(|part| Layout::open(&part.path)).collect::<Result<Vec<_>, _>>()?;
    let most = most(parts).expect("there is a part");
    for layout in &layouts {
        layout.is_like(&layouts[most])?;
    }
    let mut parent = match parent {
        Some(path) if path.exists() => Some(Layout::open(path)?),
        _ => None,
    };
    let all: f64 = parts.iter().map(|part| part.iterations).sum();
    let weights: Vec<f64> = parts.iter().map(|part| part.iterations / all).collect();
    let beside = beside(to);
    let mut merged = Merged::default();
    let written = write(&mut layouts, parent.as_mut(), (most, &weights), told, &beside, &mut merged);
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written?;
    crate::fault::point();
    fs::rename(&beside, to).map_err(ConsolidateError::file("write", to))?;
    crate::fault::point();
    Ok(merged)
}

/// The place of the part that did most; of several the first.
pub(crate) fn most(parts: &[Part]) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (at, part) in parts.iter().enumerate() {
        if best.is_none_or(|best| part.iterations > parts[best].iterations) {
            best = Some(at);
        }
    }
    best
}

/// Where a file is written before it takes its place.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    path.with_file_name(name)
}

fn write(
    layouts: &mut [Layout],
    mut parent: Option<&mut Layout>,
    (most, weights): (usize, &[f64]),
    told: &BTreeMap<String, String>,
    beside: &Path,
    merged: &mut Merged,
) -> Result<(), ConsolidateError> {
    let refuse = || ConsolidateError::file("write", beside);
    let mut out = BufWriter::new(File::create(beside).map_err(refuse())?);
    out.write_all(&layouts[most].header(told)).map_err(refuse())?;
    for (name, info) in layouts[most].tensors() {
        let same = match Kind::of(info.dtype) {
            Kind::Integer(integer) if one(&info) => {
                let bytes = count(layouts, parent.as_deref_mut(), (&name, &info), integer, most, merged)?;
                out.write_all(&bytes).map_err(refuse())?;
                true
            }
            kind => stream(layouts, (&name, &info), kind, (most, weights), &mut out)?,
        };
        match Kind::of(info.dtype) {
            _ if same => {}
            Kind::Real(_) => merged.averaged += 1,
            _ => merged.taken.push(name),
        }
    }
    let file = out.into_inner().map_err(|error| refuse()(error.into_error()))?;
    file.sync_all().map_err(refuse())
}

fn one(info: &TensorInfo) -> bool {
    info.shape.iter().product::<usize>() == 1
}

/// What a single integer comes to.
fn count(
    layouts: &mut [Layout],
    parent: Option<&mut Layout>,
    (name, info): (&str, &TensorInfo),
    integer: Integer,
    most: usize,
    merged: &mut Merged,
) -> Result<Vec<u8>, ConsolidateError> {
    let read = |layout: &mut Layout| layout.read(name, 0, integer.width);
    let values = layouts.iter_mut().map(read).collect::<Result<Vec<_>, _>>()?;
    let same = |was: &TensorInfo| (was.dtype, &was.shape) == (info.dtype, &info.shape);
    let before = match parent {
        Some(parent) if parent.info(name).is_some_and(same) => Some(read(parent)?),
        _ => None,
    };
    let is_kept = values.iter().all(|value| value == before.as_ref().unwrap_or(&values[most]));
    if is_kept || values.len() == 1 {
        return Ok(values[most].clone());
    }
    let Some(value) = integer.counted(&values, before.as_deref()) else {
        merged.taken.push(name.to_owned());
        return Ok(values[most].clone());
    };
    merged.counted += 1;
    let (path, dtype) = (&layouts[most].path, info.dtype);
    let large = || ConsolidateError::Counter { path: path.clone(), name: name.to_owned(), value, dtype };
    integer.bytes(value).ok_or_else(large)
}

/// Writes a tensor piece by piece. Says whether it is the same in all files.
fn stream(
    layouts: &mut [Layout],
    (name, info): (&str, &TensorInfo),
    kind: Kind,
    (most, weights): (usize, &[f64]),
    out: &mut impl Write,
) -> Result<bool, ConsolidateError> {
    let length = info.data_offsets.1 - info.data_offsets.0;
    let (mut at, mut same) = (0, true);
    while at < length {
        let size = CHUNK.min(length - at);
        let pieces: Vec<Vec<u8>> =
            layouts.iter_mut().map(|layout| layout.read(name, at, size)).collect::<Result<_, _>>()?;
        let equal = pieces.iter().all(|piece| piece == &pieces[most]);
        same &= equal;
        let mean;
        let piece = match kind {
            _ if equal => &pieces[most],
            Kind::Real(real) => {
                mean = real.mean(&pieces, weights);
                &mean
            }
            Kind::Code => {
                let (path, name) = (layouts[most].path.clone(), name.to_owned());
                return Err(ConsolidateError::NoMean { path, name, dtype: info.dtype });
            }
            Kind::Integer(_) | Kind::Small => &pieces[most],
        };
        out.write_all(piece)
            .map_err(ConsolidateError::file("write the merged form of", &layouts[most].path))?;
        at += size;
    }
    Ok(same)
}
