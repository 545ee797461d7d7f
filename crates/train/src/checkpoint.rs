//! Checkpoints: all state of a program in one safetensors file, with what it belongs to.
//!
//! The file is written beside its place and renamed, so that there is always a whole one, whenever the program is killed.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};

use crate::data::MOST_VALUES;
use crate::error::TrainError;
use crate::tensors::Tensors;

/// The key of the metadata that holds what is not a tensor, as JSON.
const KEY: &str = "trainyard.train/1";

/// The key that tells the iterations of a state that was made of those of several copies.
const MERGED: &str = "trainyard.iteration";

/// What a program is: another one cannot go on from its checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The algorithm's name.
    pub algorithm: String,
    /// Its parameters.
    pub parameters: String,
    /// The seed of what it draws.
    pub seed: u64,
    /// A digest of what it learns from.
    pub data: String,
}

impl Identity {
    /// What differs from another program, if anything does.
    pub(crate) fn differs(&self, other: &Self, whose: &str) -> Option<String> {
        let differs = |what: &str, own: &str, other: &str| {
            (own != other).then(|| format!("its {what} is `{own}`, and that of {whose} is `{other}`"))
        };
        differs("algorithm", &self.algorithm, &other.algorithm)
            .or_else(|| differs("list of parameters", &self.parameters, &other.parameters))
            .or_else(|| differs("seed", &self.seed.to_string(), &other.seed.to_string()))
            .or_else(|| differs("digest of the data", &self.data, &other.data))
    }
}

/// How far training came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// Iterations that are done.
    pub(crate) iteration: u64,
    /// The loss of the first one.
    pub(crate) first: Option<f64>,
    /// The loss of the last one.
    pub(crate) loss: Option<f64>,
    /// How many iterations in succession changed less than was asked for.
    pub(crate) calm: u32,
}

/// What is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Whose it is.
    pub identity: Identity,
    pub(crate) progress: Progress,
    /// The state.
    pub state: Tensors,
}

#[derive(Serialize, Deserialize)]
struct Head {
    #[serde(flatten)]
    identity: Identity,
    progress: Progress,
}

impl Checkpoint {
    /// How many iterations were done.
    pub fn iteration(&self) -> u64 {
        self.progress.iteration
    }

    /// Writes it in place of what was there.
    pub fn write(&self, path: &Path) -> Result<(), TrainError> {
        let beside = beside(path);
        let write = || {
            let mut file = File::create(&beside)?;
            file.write_all(&self.bytes())?;
            file.sync_all()?;
            std::fs::rename(&beside, path)
        };
        write().map_err(|source| TrainError::File { act: "write", path: path.to_owned(), source })
    }

    /// What is written.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let raw: Vec<(&str, &[usize], Dtype, Vec<u8>)> = self
            .state
            .iter()
            .map(|(name, tensor)| {
                let values = tensor.values.iter();
                let (dtype, bytes) = if tensor.counts {
                    (Dtype::U64, values.flat_map(|value| (*value as u64).to_le_bytes()).collect())
                } else {
                    (Dtype::F64, values.flat_map(|value| value.to_le_bytes()).collect())
                };
                (name, tensor.shape.as_slice(), dtype, bytes)
            })
            .collect();
        let views = raw.iter().map(|(name, shape, dtype, bytes)| {
            (*name, TensorView::new(*dtype, shape.to_vec(), bytes).expect("shapes fit their values"))
        });
        let head = Head { identity: self.identity.clone(), progress: self.progress };
        let head = serde_json::to_string(&head).expect("it has no keys but strings");
        safetensors::serialize(views, Some(HashMap::from([(KEY.to_owned(), head)])))
            .expect("names are distinct and shapes fit")
    }

    /// Reads one.
    pub fn read(path: &Path) -> Result<Self, TrainError> {
        let refuse = |source| TrainError::File { act: "read", path: path.to_owned(), source };
        let broken = |reason: String| TrainError::Resume { path: path.to_owned(), reason };
        let size = std::fs::metadata(path).map_err(refuse)?.len();
        if size > 3 * 8 * MOST_VALUES {
            return Err(broken(format!("it has {size} bytes, and no checkpoint has so many")));
        }
        let bytes = std::fs::read(path).map_err(refuse)?;
        Self::parse(&bytes).map_err(broken)
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let broken =
            |error| format!("it is no whole safetensors file ({error}); begin anew, or take an older one");
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(broken)?;
        let head = metadata.metadata().as_ref().and_then(|metadata| metadata.get(KEY));
        let head =
            head.ok_or_else(|| format!("it is no checkpoint of `train-job`: its metadata lack `{KEY}`"))?;
        let mut head: Head = serde_json::from_str(head)
            .map_err(|error| format!("its metadata under `{KEY}` are not understood ({error})"))?;
        if let Some(merged) = metadata.metadata().as_ref().and_then(|metadata| metadata.get(MERGED)) {
            // The rest of the progress is that of the copy that did most.
            head.progress.iteration =
                merged.parse().map_err(|_| format!("its `{MERGED}` is `{merged}`, which is no number"))?;
        }
        let mut state = Tensors::default();
        for (name, view) in SafeTensors::deserialize(bytes).map_err(broken)?.tensors() {
            let first = view.data().first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
            if let (Dtype::U64, true, Some(count)) = (view.dtype(), view.shape().is_empty(), first) {
                state.put_count(&name, count);
                continue;
            }
            if view.dtype() != Dtype::F64 {
                return Err(format!("its tensor `{name}` is not of 64-bit floating-point numbers"));
            }
            let (values, _) = view.data().as_chunks::<8>();
            let values: Vec<f64> = values.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
            state.put(&name, view.shape(), &values);
        }
        Ok(Self { identity: head.identity, progress: head.progress, state })
    }

    /// What differs from a program that wants to go on from here, if anything does.
    pub(crate) fn strange_to(&self, program: &Identity) -> Option<String> {
        let differs = self.identity.differs(program, "this run")?;
        Some(format!("{differs}; say the same as then, or take another --checkpoint"))
    }
}

/// Where a file is written before it takes its place.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    path.with_file_name(name)
}
