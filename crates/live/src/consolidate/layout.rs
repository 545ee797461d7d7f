//! Where the tensors of a safetensors file are. Only its header is kept in memory; a model may be larger than that.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use safetensors::tensor::{Metadata, TensorInfo};

use super::ConsolidateError;

/// The largest header that the format allows.
const MOST_HEADER: u64 = 100_000_000;
/// The bytes before the header, which say how long it is.
const LENGTH: u64 = 8;

/// A file and its header.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) path: PathBuf,
    file: File,
    head: Metadata,
    /// Where the first tensor begins.
    begin: u64,
}

impl Layout {
    /// Reads the header and sees whether all is there that it speaks of.
    pub(super) fn open(path: &Path) -> Result<Self, ConsolidateError> {
        let read = || ConsolidateError::file("read", path);
        let broken = |reason: String| ConsolidateError::Form { path: path.to_owned(), reason };
        let mut file = File::open(path).map_err(read())?;
        let size = file.metadata().map_err(read())?.len();
        let mut length = [0; LENGTH as usize];
        if size < LENGTH {
            return Err(broken(format!("it has {size} bytes")));
        }
        file.read_exact(&mut length).map_err(read())?;
        let length = u64::from_le_bytes(length);
        if length > MOST_HEADER || length > size - LENGTH {
            return Err(broken(format!("its header would have {length} bytes, and it has {size} in all")));
        }
        let mut header = vec![0; length as usize];
        file.read_exact(&mut header).map_err(read())?;
        let head: Metadata = serde_json::from_slice(&header).map_err(|error| broken(error.to_string()))?;
        let begin = LENGTH + length;
        let (is, should) = (size - begin, head.data_len() as u64);
        if is != should {
            return Err(broken(format!("its tensors should have {should} bytes and have {is}")));
        }
        Ok(Self { path: path.to_owned(), file, head, begin })
    }

    /// The tensors, in the order in which they lie.
    pub(super) fn tensors(&self) -> Vec<(String, TensorInfo)> {
        let info = |name: String| self.head.info(&name).cloned().map(|info| (name, info));
        self.head.offset_keys().into_iter().filter_map(info).collect()
    }

    pub(super) fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.head.info(name)
    }

    /// A piece of a tensor.
    pub(super) fn read(&mut self, name: &str, at: usize, size: usize) -> Result<Vec<u8>, ConsolidateError> {
        let info = self.head.info(name).expect("all files have the same tensors");
        let from = self.begin + (info.data_offsets.0 + at) as u64;
        let mut bytes = vec![0; size];
        let mut read = |file: &mut File| -> io::Result<()> {
            file.seek(SeekFrom::Start(from))?;
            file.read_exact(&mut bytes)
        };
        read(&mut self.file).map_err(ConsolidateError::file("read", &self.path))?;
        Ok(bytes)
    }

    /// An error if it has not the same tensors as another.
    pub(super) fn is_like(&self, other: &Self) -> Result<(), ConsolidateError> {
        for (one, two) in [(self, other), (other, self)] {
            let missing = one.tensors().into_iter().find(|(name, _)| two.info(name).is_none());
            if let Some((name, _)) = missing {
                let (path, other) = (two.path.clone(), one.path.clone());
                return Err(ConsolidateError::Missing { path, name, other });
            }
        }
        for (name, info) in self.tensors() {
            let wanted = other.info(&name).expect("it was looked for");
            if (info.dtype, &info.shape) != (wanted.dtype, &wanted.shape) {
                let words = |info: &TensorInfo| format!("{} of shape {:?}", info.dtype, info.shape).into();
                return Err(ConsolidateError::Differs {
                    path: self.path.clone(),
                    found: words(&info),
                    other: other.path.clone(),
                    wanted: words(wanted),
                    name,
                });
            }
        }
        Ok(())
    }

    /// The beginning of a file with the same tensors.
    pub(super) fn header(&self, told: &BTreeMap<String, String>) -> Vec<u8> {
        let mut all: HashMap<String, String> = self.head.metadata().clone().unwrap_or_default();
        all.extend(told.clone());
        let head = Metadata::new((!all.is_empty()).then_some(all), self.tensors())
            .expect("these tensors were read from a file");
        let mut json = serde_json::to_vec(&head).expect("it has no keys but strings");
        // Tensors begin at a multiple of eight bytes.
        json.resize(json.len().next_multiple_of(LENGTH as usize), b' ');
        [&(json.len() as u64).to_le_bytes()[..], &json].concat()
    }
}
