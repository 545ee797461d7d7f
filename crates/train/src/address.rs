//! The address of whoever took any free port: it stands in a file, for the others to read.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::checkpoint::beside;
use crate::error::TrainError;

/// Writes it in one go, so that nobody reads half of it.
pub(crate) fn write(path: &Path, address: SocketAddr) -> Result<(), TrainError> {
    let beside = beside(path);
    let written =
        std::fs::write(&beside, format!("{address}\n")).and_then(|()| std::fs::rename(&beside, path));
    written.map_err(|source| TrainError::File { act: "write the address to", path: path.to_owned(), source })
}

/// Reads it if it is there.
pub(crate) fn read(path: &Path) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Reads it as soon as it is there.
pub(crate) fn wait(path: &Path, patience: Duration) -> Result<String, TrainError> {
    let until = Instant::now() + patience;
    loop {
        match std::fs::read_to_string(path) {
            Ok(text) => return Ok(text.trim().to_owned()),
            Err(source) if source.kind() != std::io::ErrorKind::NotFound || Instant::now() > until => {
                return Err(TrainError::File { act: "read the address in", path: path.to_owned(), source });
            }
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
